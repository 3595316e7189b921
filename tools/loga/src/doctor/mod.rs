// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What LoGA needs of a machine: what is there, what is not, and what helps.
//!
//! Nothing here names a user, the machine, a process or a serial number: the report may be shown to
//! others.
//!
//! | file | contents |
//! |---|---|
//! | [`machine`] | files of the machine, below any folder |
//! | `system` | kernel, module, driver, GPUs |
//! | `caller` | the caller: rights, devices, cgroups, terminal |

mod caller;
pub mod machine;
mod system;

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
    let mut found = Vec::new();
    found.extend(system::kernel(machine));
    found.extend(system::driver(machine));
    found.extend(system::module(machine));
    found.extend(system::answer(answer));
    found.extend(system::gpus(machine, answer));
    found.extend(caller::rights(machine));
    found.extend(caller::nodes(machine));
    found.extend(caller::cgroups(machine));
    found.extend(caller::terminal(machine));
    found
}

#[cfg(test)]
mod tests;
