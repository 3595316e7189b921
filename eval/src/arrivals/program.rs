// SPDX-License-Identifier: GPL-2.0

//! Programs that arrive, GPUs, and the rule by which they come together.

use super::mbf;
use crate::scenario::Client;
use loga::placement::{self, Placement};
use loga::units::Ns;

/// A GPU of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolGpu {
    /// Its node.
    pub node: usize,
    /// Its speed in millionths of the fastest GPU's.
    pub speed: u64,
    /// Whether its programs share one context, so that their kernels run at the same time.
    pub packed: bool,
}

/// What chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chooser {
    /// A placement policy.
    Policy(Placement),
    /// `mbf`, which exists in the simulator only.
    Mbf,
}

impl Chooser {
    /// The one with this name.
    ///
    /// # Errors
    ///
    /// What is wrong, with all names.
    pub fn by_name(name: &str) -> Result<Self, String> {
        if name == mbf::NAME {
            return Ok(Self::Mbf);
        }
        placement::by_name(name).map(Self::Policy).map_err(|_| {
            let names = placement::NAMES.join(", ");
            format!(
                "unknown placement policy {name:?}, want one of {names}, {}",
                mbf::NAME
            )
        })
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Policy(policy) => policy.name(),
            Self::Mbf => mbf::NAME,
        }
    }
}

/// A program that arrives.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The number of its application.
    pub application: usize,
    /// The node on which it is started.
    pub node: usize,
    /// The GPU to which its user has bound it; placement chooses if none.
    pub gpu: Option<usize>,
    /// Whether its application has run before.
    pub known: bool,
    /// What it does on the fastest GPU, and when it arrives.
    pub client: Client,
}

/// From what the demand of programs that run is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knows {
    /// From the history of their applications.
    History,
    /// From what they have used.
    Use,
    /// From their scenario, which no scheduler knows.
    Truth,
}

/// How GPUs are chosen.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The policy.
    pub chooser: Chooser,
    /// Whether only GPUs of the program's own node are open.
    pub within: bool,
    /// From what the demand of programs that run is taken.
    pub knows: Knows,
    /// Whether a program counts with what was assumed of it before its use is known.
    pub claims: bool,
    /// Whether programs that end teach what others of their application are.
    pub learns: bool,
    /// How old what is known of programs that run may be: it is refreshed so often.
    pub signal: Ns,
    /// After this time, a program's use counts.
    pub settles: Ns,
    /// Time in which past use fades to 1 / e.
    pub window: Ns,
}

impl Rule {
    /// A policy as it is meant: `wait` goes by what programs use, others by their history. Times
    /// are those of real programs: what is known is 1 s old, counts after 2 s, and fades in 30 s.
    pub const fn of(policy: Placement) -> Self {
        Self::by(Chooser::Policy(policy))
    }

    /// The same for any chooser.
    pub const fn by(chooser: Chooser) -> Self {
        let knows = match chooser {
            Chooser::Policy(Placement::Wait) => Knows::Use,
            _ => Knows::History,
        };
        Self {
            chooser,
            within: false,
            knows,
            claims: true,
            learns: true,
            signal: Ns::from_ms(1_000),
            settles: Ns::from_ms(2_000),
            window: Ns::from_ms(30_000),
        }
    }

    /// The same for programs that take a part of their time only.
    #[must_use]
    pub const fn shortened(self, times: u64) -> Self {
        Self {
            signal: Ns::new(self.signal.get() / times),
            settles: Ns::new(self.settles.get() / times),
            window: Ns::new(self.window.get() / times),
            ..self
        }
    }
}

/// What became of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placed {
    /// The GPU on which it ran.
    pub gpu: usize,
    /// From its arrival to its end, in ns.
    pub completion: u64,
    /// How many times as long as alone on the fastest GPU it was expected to take, by what was
    /// known, in millionths.
    pub expected: u64,
    /// The longest time for which the GPU's scheduler held a command of it back, in ns.
    pub held: u64,
}
