// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The steps, in the order of their worth: what is asked first is had even where time or luck
//! runs out.

use super::site::Site;
use super::{compare, counters, describe, hold, record, slices, words};
use crate::Error;
use loga_card::Outcome;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// One thing to ask of a host.
#[derive(Clone, Copy)]
pub(super) struct Step {
    /// Its name; also the folder of its files in the archive.
    pub(super) name: &'static str,
    /// What it does, in one line.
    what: &'static str,
    /// What it needs beside a card and its driver.
    needs: &'static str,
    /// TIMEOUT: when it is ended, from the start of its process.
    pub(super) limit: Duration,
    /// Does it.
    pub(super) act: fn(&Site) -> Outcome,
}

/// All of them.
pub(super) const STEPS: [Step; 8] = [
    Step {
        name: "describe",
        what: "kernel, driver, card, as the kernel's files tell",
        needs: "nothing",
        limit: Duration::from_secs(10),
        act: describe::describe,
    },
    Step {
        name: "hold",
        what:
            "doorbells of a process are made inaccessible: what is rung, what goes on, what is seen",
        needs: "CUDA's library, a C compiler",
        limit: Duration::from_secs(120),
        act: hold::hold,
    },
    Step {
        name: "switches",
        what: "the driver's records of context switches, while a load runs",
        needs: "CUDA's library; root for the processes of others",
        limit: Duration::from_secs(20),
        act: counters::switches,
    },
    Step {
        name: "slices",
        what: "how long each of two processes is on the engine at a time, and what a switch takes",
        needs: "CUDA's library",
        limit: Duration::from_secs(40),
        act: slices::slices,
    },
    Step {
        name: "registers",
        what: "the words that LoGA reads, of RM and of BAR0; samples of the status word",
        needs: "root and a kernel that is not locked down, for BAR0",
        limit: Duration::from_secs(30),
        act: words::registers,
    },
    Step {
        name: "nvml",
        what: "the management library: how the card is set up, what it says of processes",
        needs: "libnvidia-ml.so.1; root to turn accounting on",
        limit: Duration::from_secs(20),
        act: counters::nvml,
    },
    Step {
        name: "compare",
        what: "what all these sources say of four pairs of loads, in one table",
        needs: "CUDA's library; the others as they answer",
        limit: Duration::from_secs(90),
        act: compare::compare,
    },
    Step {
        name: "record",
        what: "calls on the driver's nodes of one process, of two, of one beside EGL or Vulkan",
        needs: "CUDA's library, a C compiler",
        limit: Duration::from_secs(60),
        act: record::record,
    },
];

/// The steps of these names in their order, or all.
///
/// # Errors
///
/// [`Error::Argument`] for a name that is none.
pub(super) fn chosen(names: &[String]) -> Result<Vec<Step>, Error> {
    let is_unknown = |name: &&String| !STEPS.iter().any(|step| step.name == **name);
    if let Some(name) = names.iter().find(is_unknown) {
        let known = STEPS.map(|step| step.name).join(", ");
        return Err(Error::Argument(format!("--only {name}: there are {known}")));
    }
    let is_chosen = |step: &Step| names.is_empty() || names.iter().any(|name| name == step.name);
    Ok(STEPS
        .iter()
        .copied()
        .filter(|step| is_chosen(step))
        .collect())
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Step {
            name, what, needs, ..
        } = self;
        let seconds = self.limit.as_secs();
        write!(f, "{name:<10} {what}; at most {seconds} s, needs {needs}")
    }
}
