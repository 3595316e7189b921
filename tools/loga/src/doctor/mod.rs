// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What LoGA needs of a machine: what is there, what is not, and what helps.
//!
//! Nothing here names a user, the machine, a process or a serial number: the report may be shown to
//! others.
//!
//! What goes with what is in [`loga::compatibility`]. Each line that is not fine has a second one that
//! says what to type or do. Where LoGA follows no GPU of the machine, none tells to load something.
//!
//! | file | contents |
//! |---|---|
//! | [`machine`] | files of the machine, below any folder |
//! | `here` | what the machine has, read once |
//! | `kernel` | the kernel's release, Rust |
//! | `driver` | branch and flavour; MPS, MIG, vGPU |
//! | `module` | whether it is loaded and attached, why not, what it answers |
//! | `gpus` | GPUs by their PCI ids; what was tried; the verdict |
//! | `caller` | the caller: rights, devices, cgroups, terminal |

mod caller;
mod driver;
mod gpus;
mod here;
mod kernel;
pub mod machine;
mod module;

use self::machine::Machine;
use crate::control::Snapshot;
use crate::error::Error;
use serde::Serialize;

/// How it is with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As LoGA needs it.
    Fine,
    /// LoGA works, and one should know this.
    Note,
    /// LoGA does not work, or not for this caller.
    Wrong,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about.
    pub about: &'static str,
    /// How it is with that.
    pub state: State,
    /// What was found.
    pub says: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Finding {
    fn fine(about: &'static str, says: impl Into<String>) -> Self {
        Self {
            about,
            state: State::Fine,
            says: says.into(),
            help: None,
        }
    }

    fn note(about: &'static str, says: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            state: State::Note,
            help: Some(help.into()),
            ..Self::fine(about, says)
        }
    }

    fn wrong(about: &'static str, says: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            state: State::Wrong,
            ..Self::note(about, says, help)
        }
    }
}

/// What the kernel module answers.
pub type Answer = Result<Vec<Snapshot>, Error>;

/// Everything that was found, in the order in which one thing needs the one before.
pub fn examine(machine: &Machine, answer: &Answer) -> Vec<Finding> {
    let here = here::Here::of(machine, answer);
    let mut found = Vec::new();
    found.extend(gpus::report(&here));
    found.extend(kernel::report(&here));
    found.extend(driver::report(&here));
    found.extend(module::report(&here));
    found.extend(module::answer(&here));
    found.extend(caller::rights(machine));
    found.extend(caller::nodes(&here));
    found.extend(caller::cgroups(machine));
    found.extend(caller::terminal(machine));
    found.extend(gpus::tried(&here));
    let verdict = gpus::verdict(&here, &found);
    found.extend(verdict);
    found
}

#[cfg(test)]
mod tests;
