// SPDX-License-Identifier: GPL-2.0

//! [pure] Who is held back: one file per policy.
//!
//! # The contract
//!
//! A policy is a pure function of the phase that ended and of the clients. It may
//! - advance the virtual time of a client, never set it back;
//! - set [`ClientState::held`] of each client: whether it is held back until the
//!   next decision;
//! - keep numbers for itself in [`ClientState::scratch`] and [`Memory`];
//! - return the new system virtual time, not less than the one it was given.
//!
//! It changes nothing else, holds nobody back when no client used the GPU, and
//! leaves at least one client running. The engine checks all of this, what only looks
//! show after looks only, and lets everybody run when it does not hold.
//!
//! A policy that works in stages ([`Policy::STAGED`]) decides after looks at the
//! channels instead of after polling phases. It also says when to look again. It may
//! hold everybody back, to let the channels run empty, for at most
//! [`MAX_BARRIER`](crate::engine::MAX_BARRIER) without a break.
//!
//! To add one: write its file, with a header that gives the rule in one formula,
//! what it is good and bad for, its bound and its source; add a line to the table
//! at the end of this file. The contract tests then run on it too.

mod client;
#[cfg(any(test, loga_kunit))]
mod contract;
mod event;
mod event_cl;
mod maxmin;
#[cfg(any(test, loga_kunit))]
mod maxmin_tests;
mod none;
mod sampling;
#[cfg(any(test, loga_kunit))]
mod sampling_tests;
mod timeslice;
#[cfg(any(test, loga_kunit))]
mod timeslice_tests;

pub use client::{ClientState, Look, Memory, Next, Phase, Seen, Sight, SCRATCH};

use crate::error::Error;
use crate::units::VTime;

/// A rule for who is held back. See the contract at the top of this file.
pub trait Policy {
    /// Name by which it is selected: lower case, at most 15 characters.
    const NAME: &'static str;

    /// Whether it works in stages: [`Policy::look`] decides who is held back, and
    /// polling phases only account.
    const STAGED: bool = false;

    /// What it has to be told. The engine refuses it where nobody can.
    const NEEDS: Sight = if Self::STAGED {
        Sight::Channels
    } else {
        Sight::Use
    };

    /// Whether it judges by [`ClientState::runs`], which sparse accounting cannot count.
    const COUNTS_RUNS: bool = false;

    /// Decides after a polling phase and returns the new system virtual time.
    fn decide(phase: &Phase, memory: &mut Memory, clients: &mut [ClientState]) -> VTime {
        let _ = (memory, clients);
        phase.t_sys
    }

    /// Decides after a look, for a policy that works in stages.
    fn look(look: &Look, memory: &mut Memory, clients: &mut [ClientState]) -> Next {
        let _ = memory;
        clients.iter_mut().for_each(|client| client.held = false);
        Next {
            at: look.now.saturating_add(look.turn),
            t_sys: look.t_sys,
            overdue: false,
        }
    }
}

/// Builds [`PolicyKind`], its names and its contract tests from one table.
macro_rules! policies {
    ($($(#[$doc:meta])* $kind:ident, $rule:ty, $suite:ident;)+) => {
        /// A policy, by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum PolicyKind {
            $($(#[$doc])* $kind,)+
        }

        /// Names of all policies.
        pub const NAMES: &[&str] = &[$(<$rule as Policy>::NAME),+];

        impl PolicyKind {
            /// All policies.
            pub const ALL: &'static [PolicyKind] = &[$(PolicyKind::$kind),+];

            /// Name by which it is selected.
            pub const fn name(self) -> &'static str {
                match self {
                    $(PolicyKind::$kind => <$rule as Policy>::NAME,)+
                }
            }

            /// Whether it works in stages, see [`Policy::STAGED`].
            pub const fn staged(self) -> bool {
                match self {
                    $(PolicyKind::$kind => <$rule as Policy>::STAGED,)+
                }
            }

            /// What it has to be told, see [`Policy::NEEDS`].
            pub const fn needs(self) -> Sight {
                match self {
                    $(PolicyKind::$kind => <$rule as Policy>::NEEDS,)+
                }
            }

            /// Whether it judges by numbers of runs, see [`Policy::COUNTS_RUNS`].
            pub const fn counts_runs(self) -> bool {
                match self {
                    $(PolicyKind::$kind => <$rule as Policy>::COUNTS_RUNS,)+
                }
            }

            /// As [`Policy::decide`].
            pub fn decide(
                self,
                phase: &Phase,
                memory: &mut Memory,
                clients: &mut [ClientState],
            ) -> VTime {
                match self {
                    $(PolicyKind::$kind => <$rule as Policy>::decide(phase, memory, clients),)+
                }
            }

            /// As [`Policy::look`].
            pub fn look(
                self,
                look: &Look,
                memory: &mut Memory,
                clients: &mut [ClientState],
            ) -> Next {
                match self {
                    $(PolicyKind::$kind => <$rule as Policy>::look(look, memory, clients),)+
                }
            }
        }

        $(
            #[cfg(any(test, loga_kunit))]
            #[cfg_attr(loga_kunit, kernel::macros::kunit_tests($suite))]
            mod $suite {
                use super::*;

                const KIND: PolicyKind = PolicyKind::$kind;

                #[test]
                fn decide_on_random_phases_keeps_its_inputs() {
                    assert!(contract::holds_for(KIND, contract::keeps_inputs));
                }

                #[test]
                fn decide_on_random_phases_never_sets_virtual_time_back() {
                    assert!(contract::holds_for(KIND, contract::keeps_time_monotone));
                }

                #[test]
                fn decide_on_random_phases_leaves_somebody_running() {
                    assert!(contract::holds_for(KIND, contract::leaves_somebody_running));
                }

                #[test]
                fn decide_on_an_idle_gpu_holds_nobody() {
                    assert!(contract::holds_for(KIND, contract::holds_nobody_when_idle));
                }

                #[test]
                fn decide_on_the_same_phase_is_the_same() {
                    assert!(contract::holds_for(KIND, contract::is_repeatable));
                }

                #[test]
                fn decide_without_clients_keeps_system_time() {
                    let phase = Phase { t_sys: VTime::new(7), ..Phase::default() };
                    assert_eq!(KIND.decide(&phase, &mut Memory::default(), &mut []), VTime::new(7));
                }

                #[test]
                fn name_of_the_policy_selects_it() {
                    assert_eq!(by_name(KIND.name()), Ok(KIND));
                    assert!(KIND.name().len() < crate::uapi::POLICY_NAME_LEN);
                }
            }
        )+
    };
}

policies! {
    /// Weighted max-min fairness on estimated demands, work-conserving: the default.
    MaxMin, maxmin::MaxMin, loga_policy_maxmin;
    /// Virtual-time fair queuing on total GPU time, as in the paper.
    Event, event::Event, loga_policy_event;
    /// The same on the average time between context switches.
    EventCl, event_cl::EventCl, loga_policy_event_cl;
    /// Each client alone for a while, then a free run by what was learned.
    Sampling, sampling::Sampling, loga_policy_sampling;
    /// One client at a time, watched during its slice.
    TimesliceEngaged, timeslice::Engaged, loga_policy_timeslice_engaged;
    /// One client at a time, left alone during its slice.
    Timeslice, timeslice::Disengaged, loga_policy_timeslice;
    /// Nobody is ever held back.
    None, none::Nobody, loga_policy_none;
}

/// No policy has this name.
pub const UNKNOWN: Error = Error::UnknownName {
    setting: "policy",
    names: NAMES,
};

/// The policy with this name.
///
/// # Errors
///
/// [`UNKNOWN`] if there is none.
pub fn by_name(name: &str) -> Result<PolicyKind, Error> {
    PolicyKind::ALL
        .iter()
        .copied()
        .find(|kind| kind.name() == name)
        .ok_or(UNKNOWN)
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_policies))]
mod tests {
    use super::*;

    #[test]
    fn by_name_of_nothing_known_is_refused() {
        assert_eq!(by_name("fifo"), Err(UNKNOWN));
        assert_eq!(by_name(""), Err(UNKNOWN));
        assert_eq!(by_name("Event"), Err(UNKNOWN));
    }

    #[test]
    fn names_of_all_policies_differ() {
        assert_eq!(NAMES.len(), PolicyKind::ALL.len());
        for (index, name) in NAMES.iter().enumerate() {
            assert!(!NAMES.iter().skip(index + 1).any(|other| other == name));
        }
    }
}
