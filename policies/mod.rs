// SPDX-License-Identifier: GPL-2.0

//! [pure] Who is held back: one file per policy.
//!
//! # The contract
//!
//! A policy is a pure function of the phase that ended and of the clients. It may
//! - advance the virtual time of a client, never set it back;
//! - set [`ClientState::held`] of each client: whether it is held back until the
//!   next decision;
//! - return the new system virtual time, not less than the one it was given.
//!
//! It changes nothing else, holds nobody back when no client used the GPU, and
//! leaves at least one client running. The engine checks all of this and lets
//! everybody run when it does not hold.
//!
//! To add one: write its file, with a header that gives the rule in one formula,
//! what it is good and bad for, its bound and its source; add a line to the table
//! at the end of this file. The contract tests then run on it too.

#[cfg(any(test, loga_kunit))]
mod contract;
mod event;
mod none;

use crate::error::Error;
use crate::ids::ClientId;
use crate::units::{Ns, VTime, Weight};

/// The period that ends with a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// Length of the polling phase in which the times were measured.
    pub poll: Ns,
    /// Length of the non-polling phase before it, for which it stands too.
    pub nonpoll: Ns,
    /// How far a client may be ahead of the system: the length of this period, or
    /// of an undisturbed one when this one was cut short. Otherwise every channel
    /// that is created would hold back whoever is a little ahead.
    pub lead: Ns,
    /// System virtual time before the decision.
    pub t_sys: VTime,
}

impl Phase {
    /// The time for which the measured times stand.
    pub const fn span(&self) -> Ns {
        self.poll.saturating_add(self.nonpoll)
    }
}

/// One client, before and after a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientState {
    /// Who it is.
    pub id: ClientId,
    /// Its weight.
    pub weight: Weight,
    /// GPU time it used in the polling phase.
    pub busy: Ns,
    /// Times the engine took up its work in the polling phase.
    pub runs: u32,
    /// Its virtual time. The decision advances it.
    pub vtime: VTime,
    /// In: it was held back during the polling phase. Out: it is held back from now on.
    pub held: bool,
    /// Its virtual time before the decision; the engine sets and checks it.
    pub prior: VTime,
}

impl ClientState {
    /// A client that has not used the GPU in this phase.
    pub const fn new(id: ClientId, weight: Weight, vtime: VTime) -> Self {
        Self {
            id,
            weight,
            busy: Ns::ZERO,
            runs: 0,
            vtime,
            held: false,
            prior: vtime,
        }
    }

    /// Whether it used the GPU in the polling phase.
    pub const fn active(&self) -> bool {
        !self.busy.is_zero()
    }
}

/// A rule for who is held back. See the contract at the top of this file.
pub trait Policy {
    /// Name by which it is selected: lower case, at most 15 characters.
    const NAME: &'static str;

    /// Decides after a polling phase and returns the new system virtual time.
    fn decide(phase: &Phase, clients: &mut [ClientState]) -> VTime;
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

            /// Decides after a polling phase and returns the new system virtual time.
            pub fn decide(self, phase: &Phase, clients: &mut [ClientState]) -> VTime {
                match self {
                    $(PolicyKind::$kind => <$rule as Policy>::decide(phase, clients),)+
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
                    assert_eq!(KIND.decide(&phase, &mut []), VTime::new(7));
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
    /// Virtual-time fair queuing on total GPU time, as in the paper.
    Event, event::Event, loga_policy_event;
    /// Nobody is ever held back.
    None, none::Nobody, loga_policy_none;
}

/// The policy with this name.
///
/// # Errors
///
/// [`Error::UnknownPolicy`] if there is none.
pub fn by_name(name: &str) -> Result<PolicyKind, Error> {
    PolicyKind::ALL
        .iter()
        .copied()
        .find(|kind| kind.name() == name)
        .ok_or(Error::UnknownPolicy)
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_policies))]
mod tests {
    use super::*;

    #[test]
    fn by_name_of_nothing_known_is_refused() {
        assert_eq!(by_name("fifo"), Err(Error::UnknownPolicy));
        assert_eq!(by_name(""), Err(Error::UnknownPolicy));
        assert_eq!(by_name("Event"), Err(Error::UnknownPolicy));
    }

    #[test]
    fn names_of_all_policies_differ() {
        assert_eq!(NAMES.len(), PolicyKind::ALL.len());
        for (index, name) in NAMES.iter().enumerate() {
            assert!(!NAMES.iter().skip(index + 1).any(|other| other == name));
        }
    }
}
