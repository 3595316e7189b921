// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Which of several clients submits next, when all of them are engaged: one file per
//! dispatcher.
//!
//! # The contract
//!
//! A dispatcher is a pure function from a [`Candidate`] to a number: of all clients that are ready,
//! the one with the smallest number passes first, and of those with equal numbers the one that has
//! waited longest. It decides nothing else: [`Submissions`](crate::engaged::Submissions) asks only
//! about clients that wait and whose reserves let them start now, so no dispatcher can leave the
//! engine idle, pass a client twice or pass one without budget. It depends on nothing but its
//! argument, so a change of priority counts at the next selection.
//!
//! To add one: write its file, with the rule in one formula, what it is good and bad for, its bound
//! and its source; add a line to the table at the end of this file. The contract tests then run on
//! it too.

#[cfg(test)]
mod contract;
mod edf;
mod prio;

pub use crate::candidate::{Candidate, Rank};
use crate::error::Error;
use crate::names::{Kind, Value};

/// A rule for which of the ready clients is first. See the contract at the top of this file.
pub trait Dispatcher {
    /// Name by which it is selected: lower case, at most 15 characters.
    const NAME: &'static str;

    /// The smaller, the earlier.
    fn order(candidate: &Candidate) -> (u64, u64);
}

/// Builds [`DispatcherKind`], its names and its contract tests from one table.
macro_rules! dispatchers {
    ($($(#[$doc:meta])* $kind:ident, $rule:ty, $suite:ident;)+) => {
        /// A dispatcher, by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum DispatcherKind {
            $($(#[$doc])* $kind,)+
        }

        /// Names of all dispatchers.
        pub const NAMES: &[&str] = &[$(<$rule as Dispatcher>::NAME),+];

        impl Value for Option<DispatcherKind> {
            const KIND: Kind = Kind::Word(&["none", $(<$rule as Dispatcher>::NAME),+]);
            const FIRST: Self = None;

            fn number(self) -> u32 {
                // CAST: a small number.
                self.map_or(0, |kind| (kind as u32).saturating_add(1))
            }

            fn of(number: u32) -> Option<Self> {
                match number.checked_sub(1) {
                    None => Some(None),
                    Some(at) => DispatcherKind::ALL.get(at as usize).copied().map(Some),
                }
            }
        }

        impl DispatcherKind {
            /// All dispatchers.
            pub const ALL: &'static [DispatcherKind] = &[$(DispatcherKind::$kind),+];

            /// Name by which it is selected.
            pub const fn name(self) -> &'static str {
                match self {
                    $(DispatcherKind::$kind => <$rule as Dispatcher>::NAME,)+
                }
            }

            /// The smaller, the earlier: a dispatcher puts those in order that have the same rank.
            pub fn order(self, candidate: &Candidate) -> (Rank, (u64, u64)) {
                let order = match self {
                    $(DispatcherKind::$kind => <$rule as Dispatcher>::order(candidate),)+
                };
                (candidate.offer.rank, order)
            }
        }

        $(
            #[cfg(test)]
            mod $suite {
                use super::*;

                const KIND: DispatcherKind = DispatcherKind::$kind;

                #[test]
                fn dispatcher_on_random_events_keeps_the_contract() {
                    for seed in 1..40 {
                        let broken = contract::run(KIND, seed);
                        assert!(broken.is_none());
                    }
                }

                #[test]
                fn dispatcher_on_the_same_events_is_the_same() {
                    assert!(contract::trace(KIND, 7) == contract::trace(KIND, 7));
                    assert!(contract::trace(KIND, 7) != contract::trace(KIND, 8));
                }

                #[test]
                fn name_of_the_dispatcher_selects_it() {
                    assert_eq!(by_name(KIND.name()), Ok(KIND));
                }
            }
        )+
    };
}

dispatchers! {
    /// The highest priority first, as in TimeGraph.
    Prio, prio::Highest, loga_dispatch_prio;
    /// The earliest deadline first.
    Edf, edf::Earliest, loga_dispatch_edf;
}

/// No dispatcher has this name.
pub const UNKNOWN: Error = Error::UnknownName {
    setting: "dispatcher",
    names: NAMES,
};

/// The dispatcher with this name.
///
/// # Errors
///
/// [`UNKNOWN`] if there is none.
pub fn by_name(name: &str) -> Result<DispatcherKind, Error> {
    let mut all = DispatcherKind::ALL.iter().copied();
    all.find(|kind| kind.name() == name).ok_or(UNKNOWN)
}
