// SPDX-License-Identifier: GPL-2.0

//! `[pure]` On which GPU a program that is about to start should run: one file per policy.
//!
//! # The contract
//!
//! A placement policy is a pure function from a [`Question`] to a [`Cost`]: of all GPUs that are
//! open, the program goes to the one of the least cost. Of several with the same cost, a GPU of the
//! caller's node comes first, then the one of which the least is wanted, then the fastest, then the
//! one with the least index; [`choose`] sees to that. A policy depends on nothing but its argument,
//! so the same figures give the same choice in `loga place`, `loga run` and the simulator. A GPU
//! costs no more without its programs; nor, but under `wait` and `grr`, without one of them.
//!
//! A policy that has to know more of a program than is known ([`Policy::NEEDS`]) is replaced by
//! [`STATIC`].
//!
//! To add one: write its file, with the rule in one formula, what it is good and bad for, and its
//! source; add a line to the table at the end of this file. The contract tests then run on it too.

#[cfg(test)]
mod contract;
mod dtf;
mod gmin;
mod grr;
mod guf;
mod gwtmin;
pub mod many;
mod rtf;
mod sums;
mod wait;

pub use wait::{expected, on};

use crate::error::Error;
use crate::fair::mul_div;
use crate::units::{Ns, Weight};
use core::cmp::Reverse;

/// A whole, where parts are counted in millionths.
pub const PPM: u64 = 1_000_000;

/// What a program asks of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Part of the time for which it would be on the compute engine if it were alone, in
    /// millionths.
    pub want: u64,
    /// The same of the copy engine.
    pub copy: u64,
    /// Mean time for which its work is on the engine without a break.
    pub run: Ns,
    /// Its weight.
    pub weight: Weight,
}

impl Demand {
    /// Of a program of which nothing is known.
    pub const UNKNOWN: Self = Self {
        want: PPM / 2,
        copy: 0,
        run: Ns::from_us(500),
        weight: Weight::DEFAULT,
    };
}

/// A program that is bound to a GPU: a client, or a program that has claimed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// What it asks of this GPU.
    pub demand: Demand,
    /// How long it will still be there, as far as its history says: see [`remaining`].
    pub left: Option<Ns>,
}

/// How long a program will still be there that takes `whole` in all and has been there for
/// `elapsed`: a tenth of the whole at least, since one that is overdue does not leave at once.
pub fn remaining(whole: Ns, elapsed: Ns) -> Ns {
    whole.saturating_sub(elapsed).max(Ns::new(whole.get() / 10))
}

/// What is known of a GPU.
#[derive(Clone, Copy, Debug)]
pub struct Gpu<'a> {
    /// Whether it may be chosen.
    pub open: bool,
    /// Whether it is in the node of the caller.
    pub local: bool,
    /// Its speed in millionths of the fastest GPU's. Not zero.
    pub speed: u64,
    /// The programs that are bound to it.
    pub bound: &'a [Bound],
}

impl Gpu<'_> {
    /// The sum of something of its programs.
    fn sum(&self, what: impl Fn(&Bound) -> u64) -> u64 {
        self.bound
            .iter()
            .fold(0, |sum, one| sum.saturating_add(what(one)))
    }

    /// `amount` over the speed.
    fn per_speed(&self, amount: u64) -> u64 {
        mul_div(amount, PPM, self.speed)
    }
}

/// The program that is about to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newcomer {
    /// What it asks of the fastest GPU, or what is assumed.
    pub demand: Demand,
    /// Whether that is known, from its history or from its user.
    pub known: bool,
    /// How long it takes alone on the fastest GPU, if that is known.
    pub time: Option<Ns>,
}

impl Newcomer {
    /// A program of which nothing is known.
    pub const UNKNOWN: Self = Self {
        demand: Demand::UNKNOWN,
        known: false,
        time: None,
    };
}

/// What a policy has to know of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// What it asks of a GPU.
    Demand,
    /// How long it takes.
    Time,
}

/// Which program, and which GPU.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// All GPUs.
    pub gpus: &'a [Gpu<'a>],
    /// Index of the GPU in question.
    pub at: usize,
    /// The GPU in question.
    pub gpu: &'a Gpu<'a>,
    /// The program.
    pub newcomer: &'a Newcomer,
    /// The GPU that was chosen last.
    pub last: Option<usize>,
}

impl<'a> Question<'a> {
    /// About the GPU at `at`, if it is open.
    fn about(
        gpus: &'a [Gpu<'a>],
        at: usize,
        newcomer: &'a Newcomer,
        last: Option<usize>,
    ) -> Option<Self> {
        let gpu = gpus.get(at).filter(|gpu| gpu.open)?;
        Some(Self {
            gpus,
            at,
            gpu,
            newcomer,
            last,
        })
    }
}

/// What it costs to place a program on a GPU: the second number counts if the first are equal.
pub type Cost = (u64, u64);

/// What the first number of a cost is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of GPUs or programs.
    Count,
    /// Millionths.
    Millionths,
    /// Nanoseconds.
    Time,
}

/// A rule for the GPU on which a program should run. See the contract at the top of this file.
pub trait Policy {
    /// Name by which it is selected: lower case, at most 15 characters.
    const NAME: &'static str;
    /// What its cost is, in words.
    const COST: &'static str;
    /// The unit of its cost.
    const UNIT: Unit;
    /// What it has to know of the program.
    const NEEDS: Needs = Needs::Nothing;
    /// What the two terms of its cost are, in words; empty where the cost has no terms.
    const TERMS: [&'static str; 2] = [""; 2];

    /// The terms of the cost, in its unit.
    fn terms(_question: &Question<'_>) -> [u64; 2] {
        [0; 2]
    }

    /// The less, the better.
    fn cost(question: &Question<'_>) -> Cost {
        let [one, other] = Self::terms(question);
        (one.saturating_add(other), 0)
    }
}

/// Builds [`Placement`], its names and its contract tests from one table.
macro_rules! placements {
    ($($(#[$doc:meta])* $kind:ident, $rule:ty, $suite:ident;)+) => {
        /// A placement policy, by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Placement {
            $($(#[$doc])* $kind,)+
        }

        /// Names of all placement policies.
        pub const NAMES: &[&str] = &[$(<$rule as Policy>::NAME),+];

        impl Placement {
            /// All placement policies.
            pub const ALL: &'static [Placement] = &[$(Placement::$kind),+];

            /// Name by which it is selected.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Placement::$kind => <$rule as Policy>::NAME,)+
                }
            }

            /// What its cost is, in words.
            pub const fn cost_is(self) -> &'static str {
                match self {
                    $(Placement::$kind => <$rule as Policy>::COST,)+
                }
            }

            /// The unit of its cost.
            pub const fn unit(self) -> Unit {
                match self {
                    $(Placement::$kind => <$rule as Policy>::UNIT,)+
                }
            }

            /// What it has to know of the program.
            pub const fn needs(self) -> Needs {
                match self {
                    $(Placement::$kind => <$rule as Policy>::NEEDS,)+
                }
            }

            /// What the terms of its cost are, in words; empty where the cost has no terms.
            pub const fn terms_are(self) -> [&'static str; 2] {
                match self {
                    $(Placement::$kind => <$rule as Policy>::TERMS,)+
                }
            }

            fn cost_of(self, question: &Question<'_>) -> Cost {
                match self {
                    $(Placement::$kind => <$rule as Policy>::cost(question),)+
                }
            }

            fn terms_of(self, question: &Question<'_>) -> [u64; 2] {
                match self {
                    $(Placement::$kind => <$rule as Policy>::terms(question),)+
                }
            }
        }

        $(
            #[cfg(test)]
            mod $suite {
                use super::*;

                const KIND: Placement = Placement::$kind;

                #[test]
                fn placement_on_random_pools_keeps_the_contract() {
                    for seed in 1..400 {
                        assert_eq!(contract::run(KIND, seed), None);
                    }
                }

                #[test]
                fn name_of_the_placement_selects_it() {
                    assert_eq!(by_name(KIND.name()), Ok(KIND));
                }
            }
        )+
    };
}

placements! {
    /// The least added slowdown.
    Wait, wait::LeastSlowdown, loga_placement_wait;
    /// The next GPU in turn.
    Grr, grr::RoundRobin, loga_placement_grr;
    /// The fewest programs.
    Gmin, gmin::FewestPrograms, loga_placement_gmin;
    /// The fewest programs for its speed.
    Gwtmin, gwtmin::FewestForSpeed, loga_placement_gwtmin;
    /// The least time until its programs have ended.
    Rtf, rtf::EarliestEnd, loga_placement_rtf;
    /// The least use of the GPU.
    Guf, guf::LeastUse, loga_placement_guf;
    /// The least use of the engine that is used more.
    Dtf, dtf::LeastUsedEngine, loga_placement_dtf;
}

/// Takes the place of a policy that would have to know more of a program.
pub const STATIC: Placement = Placement::Gwtmin;

/// No placement policy has this name.
pub const UNKNOWN: Error = Error::UnknownName {
    setting: "placement policy",
    names: NAMES,
};

/// The placement policy with this name.
///
/// # Errors
///
/// [`UNKNOWN`] if there is none.
pub fn by_name(name: &str) -> Result<Placement, Error> {
    let mut all = Placement::ALL.iter().copied();
    all.find(|kind| kind.name() == name).ok_or(UNKNOWN)
}

impl Placement {
    /// The policy that decides about a program: this one, or [`STATIC`].
    #[must_use]
    pub fn for_program(self, newcomer: &Newcomer) -> Self {
        let knows = match self.needs() {
            Needs::Nothing => true,
            Needs::Demand => newcomer.known,
            Needs::Time => newcomer.time.is_some(),
        };
        if knows {
            self
        } else {
            STATIC
        }
    }

    /// What the program costs on the GPU at `at`; nothing for a GPU that is not open.
    pub fn cost(
        self,
        gpus: &[Gpu<'_>],
        at: usize,
        newcomer: &Newcomer,
        last: Option<usize>,
    ) -> Option<Cost> {
        let question = Question::about(gpus, at, newcomer, last)?;
        Some(self.for_program(newcomer).cost_of(&question))
    }

    /// The terms of this cost, named by [`Placement::terms_are`] of the policy that decides.
    pub fn terms(
        self,
        gpus: &[Gpu<'_>],
        at: usize,
        newcomer: &Newcomer,
        last: Option<usize>,
    ) -> Option<[u64; 2]> {
        let question = Question::about(gpus, at, newcomer, last)?;
        Some(self.for_program(newcomer).terms_of(&question))
    }
}

/// The GPU of the least cost: its index, or nothing if no GPU is open.
pub fn choose(
    policy: Placement,
    gpus: &[Gpu<'_>],
    newcomer: &Newcomer,
    last: Option<usize>,
) -> Option<usize> {
    best(gpus, |at| policy.cost(gpus, at, newcomer, last))
}

/// The GPU of the least of these costs, as [`choose`] tells equal ones apart.
pub fn best(gpus: &[Gpu<'_>], cost: impl Fn(usize) -> Option<Cost>) -> Option<usize> {
    let costs = gpus.iter().enumerate().filter_map(|(at, gpu)| {
        let wanted = gpu.sum(|one| one.demand.want);
        Some(((cost(at)?, !gpu.local, wanted, Reverse(gpu.speed)), at))
    });
    // The first of several that are equal.
    costs.min_by_key(|(cost, _)| *cost).map(|(_, at)| at)
}
