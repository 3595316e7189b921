// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Which clients are throttled: one file per policy.
//!
//! # The contract
//!
//! A policy is a pure function of the phase that ended and of the clients. It may
//! - advance the virtual time of a client, or forgive a part of what the client is ahead of the
//!   system: it never sets it back behind the new system virtual time;
//! - set [`ClientState::throttled`] of each client: whether it is throttled until the
//!   next decision;
//! - keep something for itself: [`Policy::OfClient`] and [`Policy::OfGpu`];
//! - return the new system virtual time, not less than the one it was given.
//!
//! It changes nothing else, throttles no client when none used the GPU, and leaves at least one
//! client running. The engine checks all of this after each decision (what only scans show, after
//! scans only) and lets all clients run on a violation.
//!
//! A policy that works in stages ([`Rule::Scans`]) decides after scans of the channels instead of
//! after polling phases. It also says when to scan again. It may throttle all clients, to let the
//! channels run empty, for at most [`MAX_BARRIER`](crate::engine::MAX_BARRIER) without a break.
//!
//! To add one: write its file, with a header that gives the rule in one formula,
//! what it is good and bad for, its bound and its source, and with types for what it
//! keeps; add a line to the table at the end of this file. The contract tests then run
//! on it too, and what it keeps has its place in [`KeptOfClient`] and [`KeptOfGpu`].

mod augc;
mod client;
#[cfg(any(test, loga_kunit))]
mod contract;
mod cosched;
mod credit;
mod credit_slo;
#[cfg(any(test, loga_kunit))]
mod credit_tests;
mod demand;
pub mod dispatch;
mod event;
mod event_cl;
mod las;
mod las_levels;
mod maxmin;
#[cfg(any(test, loga_kunit))]
mod maxmin_tests;
#[cfg(any(test, loga_kunit))]
mod names_tests;
mod none;
mod rivals;
mod sampling;
#[cfg(any(test, loga_kunit))]
mod sampling_tests;
mod service;
mod timeslice;
#[cfg(any(test, loga_kunit))]
mod timeslice_tests;
mod token;
#[cfg(any(test, loga_kunit))]
mod token_bench;

pub use client::{ClientState, Inputs, Next, Phase, Scan, ScanResult};
pub use service::Attained;

use crate::error::Error;
use crate::ids::GroupId;
use crate::names::{Kind, Value};
use crate::units::VTime;
use core::fmt::Debug;

/// A rule for which clients are throttled. See the contract at the top of this file.
pub trait Policy: Sized + 'static {
    /// Name by which it is selected: lower case, at most 15 characters.
    const NAME: &'static str;

    /// When it decides, and how.
    const RULE: Rule<Self>;

    /// What its caller has to supply. The engine refuses it where the caller cannot.
    const NEEDS: Inputs = match Self::RULE {
        Rule::Phases(_) => Inputs::Use,
        Rule::Scans(_) => Inputs::Channels,
    };

    /// Whether it judges by [`ClientState::runs`], which sparse accounting cannot count.
    const COUNTS_RUNS: bool = false;

    /// What it keeps of each client: the default for a new client and after a change of policy.
    type OfClient: Copy + Default + Eq + Debug;

    /// What it keeps of the GPU: the default after a change of policy.
    type OfGpu: Copy + Default + Eq + Debug;

    /// What a client was served, for a policy that goes by it. A group of which there is some is
    /// not forgotten with its last process, and a new process of a user begins with the greatest
    /// of the user's processes, where processes are groups.
    fn attained(_kept: &Self::OfClient) -> Attained {
        Attained::default()
    }

    /// Under a policy with turns, the client that has the turn, if one has: it has the GPU alone
    /// until the next one has it.
    const HOLDER: Option<Holder<Self>> = None;

    /// What it keeps of a client that begins with this.
    fn beginning_with(_attained: Attained) -> Self::OfClient {
        Self::OfClient::default()
    }
}

/// Says who has the turn, by what a policy keeps of the GPU.
pub type Holder<P> = fn(&<P as Policy>::OfGpu) -> Option<GroupId>;

/// When a policy decides, and how.
pub enum Rule<P: Policy> {
    /// After a polling phase; returns the new system virtual time.
    Phases(fn(&Phase, &mut P::OfGpu, &mut [ClientState]) -> VTime),
    /// After a scan: it works in stages, and polling phases only account.
    Scans(fn(&Scan, &mut P::OfGpu, &mut [ClientState]) -> Next),
}

/// Where a policy finds what it keeps, among what all policies may keep. The table implements it.
pub trait Keeps: Policy {
    /// What it keeps of a client, or nothing if it has kept nothing yet.
    fn of_client(kept: &KeptOfClient) -> Option<&Self::OfClient>;
    /// What it keeps of a client; the default if it has kept nothing yet.
    fn of_client_mut(kept: &mut KeptOfClient) -> &mut Self::OfClient;
    /// What it keeps of the GPU; the default if it has kept nothing yet.
    fn of_gpu_mut(kept: &mut KeptOfGpu) -> &mut Self::OfGpu;
}

impl KeptOfClient {
    /// What this policy keeps, or nothing if it has kept nothing yet.
    pub fn of<P: Keeps>(&self) -> Option<&P::OfClient> {
        P::of_client(self)
    }

    /// What this policy keeps; the default if it has kept nothing yet.
    pub fn of_mut<P: Keeps>(&mut self) -> &mut P::OfClient {
        P::of_client_mut(self)
    }
}

fn decide<P: Keeps>(phase: &Phase, kept: &mut KeptOfGpu, clients: &mut [ClientState]) -> VTime {
    match P::RULE {
        Rule::Phases(rule) => rule(phase, P::of_gpu_mut(kept), clients),
        Rule::Scans(_) => phase.t_sys,
    }
}

fn decide_scan<P: Keeps>(scan: &Scan, kept: &mut KeptOfGpu, clients: &mut [ClientState]) -> Next {
    if let Rule::Scans(rule) = P::RULE {
        return rule(scan, P::of_gpu_mut(kept), clients);
    }
    clients
        .iter_mut()
        .for_each(|client| client.throttled = false);
    Next {
        at: scan.now.saturating_add(scan.slice),
        t_sys: scan.t_sys,
        overdue: false,
    }
}

/// Builds [`PolicyKind`], its names, what it keeps and its contract tests from one table.
macro_rules! policies {
    ($($(#[$doc:meta])* $kind:ident, $rule:ty, $suite:ident;)+) => {
        /// A policy, by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum PolicyKind {
            $($(#[$doc])* $kind,)+
        }

        impl Value for PolicyKind {
            const KIND: Kind = Kind::Word(NAMES);
            const FIRST: Self = Self::ALL[0];

            fn number(self) -> u32 {
                // CAST: a small number.
                self as u32
            }

            fn of(number: u32) -> Option<Self> {
                Self::ALL.get(number as usize).copied()
            }
        }

        /// What a policy keeps of a client.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum KeptOfClient {
            /// Nothing yet.
            #[default]
            Nothing,
            $(
                #[doc = concat!("What `", stringify!($kind), "` keeps.")]
                $kind(<$rule as Policy>::OfClient),
            )+
        }

        impl KeptOfClient {
            /// What the client was served, see [`Policy::attained`].
            pub fn attained(&self) -> Attained {
                match self {
                    KeptOfClient::Nothing => Attained::default(),
                    $(KeptOfClient::$kind(own) => <$rule as Policy>::attained(own),)+
                }
            }

            /// What the same policy keeps of a client that begins with this.
            pub fn beginning_with(&self, attained: Attained) -> Self {
                match self {
                    KeptOfClient::Nothing => KeptOfClient::Nothing,
                    $(KeptOfClient::$kind(_) => {
                        KeptOfClient::$kind(<$rule as Policy>::beginning_with(attained))
                    })+
                }
            }
        }

        #[cfg(any(test, loga_kunit))]
        impl KeptOfClient {
            /// Whether it is what is kept of a new client.
            pub(crate) fn is_clear(&self) -> bool {
                match self {
                    KeptOfClient::Nothing => true,
                    $(KeptOfClient::$kind(own) => *own == Default::default(),)+
                }
            }
        }

        /// What a policy keeps of the GPU.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum KeptOfGpu {
            /// Nothing yet.
            #[default]
            Nothing,
            $(
                #[doc = concat!("What `", stringify!($kind), "` keeps.")]
                $kind(<$rule as Policy>::OfGpu),
            )+
        }

        impl KeptOfGpu {
            /// The client that has the turn, see [`Policy::HOLDER`].
            pub fn holder(&self) -> Option<GroupId> {
                match self {
                    KeptOfGpu::Nothing => None,
                    $(KeptOfGpu::$kind(own) => <$rule as Policy>::HOLDER.and_then(|of| of(own)),)+
                }
            }
        }

        $(
            impl Keeps for $rule {
                fn of_client(kept: &KeptOfClient) -> Option<&Self::OfClient> {
                    match kept {
                        KeptOfClient::$kind(own) => Some(own),
                        _ => None,
                    }
                }

                fn of_client_mut(kept: &mut KeptOfClient) -> &mut Self::OfClient {
                    if Self::of_client(kept).is_none() {
                        *kept = KeptOfClient::$kind(Self::OfClient::default());
                    }
                    match kept {
                        KeptOfClient::$kind(own) => own,
                        // PANIC: it is of this kind since the line above.
                        _ => unreachable!(),
                    }
                }

                fn of_gpu_mut(kept: &mut KeptOfGpu) -> &mut Self::OfGpu {
                    if !matches!(kept, KeptOfGpu::$kind(_)) {
                        *kept = KeptOfGpu::$kind(Self::OfGpu::default());
                    }
                    match kept {
                        KeptOfGpu::$kind(own) => own,
                        // PANIC: it is of this kind since the line above.
                        _ => unreachable!(),
                    }
                }
            }
        )+

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

            /// Whether it works in stages, see [`Rule::Scans`].
            pub const fn staged(self) -> bool {
                match self {
                    $(PolicyKind::$kind => matches!(<$rule as Policy>::RULE, Rule::Scans(_)),)+
                }
            }

            /// Whether clients take turns, see [`Policy::HOLDER`].
            pub const fn has_turns(self) -> bool {
                match self {
                    $(PolicyKind::$kind => <$rule as Policy>::HOLDER.is_some(),)+
                }
            }

            /// What its caller has to supply, see [`Policy::NEEDS`].
            pub const fn needs(self) -> Inputs {
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

            /// Decides after a polling phase and returns the new system virtual time. A policy that
            /// works in stages changes nothing.
            pub fn decide(
                self,
                phase: &Phase,
                kept: &mut KeptOfGpu,
                clients: &mut [ClientState],
            ) -> VTime {
                match self {
                    $(PolicyKind::$kind => decide::<$rule>(phase, kept, clients),)+
                }
            }

            /// Decides after a scan. A policy that does not work in stages lets all clients run.
            pub fn decide_scan(self, at: &Scan, kept: &mut KeptOfGpu, clients: &mut [ClientState]) -> Next {
                match self {
                    $(PolicyKind::$kind => decide_scan::<$rule>(at, kept, clients),)+
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
                    let broken = contract::first_broken(KIND, contract::keeps_inputs);
                    assert_eq!(broken, None);
                }

                #[test]
                fn decide_on_random_phases_never_sets_virtual_time_back() {
                    let broken = contract::first_broken(KIND, contract::keeps_time_monotone);
                    assert_eq!(broken, None);
                }

                #[test]
                fn decide_on_random_phases_leaves_a_client_running() {
                    let broken = contract::first_broken(KIND, contract::leaves_a_client_running);
                    assert_eq!(broken, None);
                }

                #[test]
                fn decide_on_an_idle_gpu_throttles_no_client() {
                    let broken = contract::first_broken(KIND, contract::throttles_none_when_idle);
                    assert_eq!(broken, None);
                }

                #[test]
                fn decide_on_the_same_phase_is_the_same() {
                    let broken = contract::first_broken(KIND, contract::is_repeatable);
                    assert_eq!(broken, None);
                }

                #[test]
                fn decide_without_clients_keeps_system_time() {
                    let phase = Phase { t_sys: VTime::new(7), ..Phase::default() };
                    let t_sys = KIND.decide(&phase, &mut KeptOfGpu::default(), &mut []);
                    assert_eq!(t_sys, VTime::new(7));
                }

                #[test]
                fn name_of_the_policy_selects_it() {
                    assert_eq!(by_name(KIND.name()), Ok(KIND));
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
    /// Each client alone for a while, then a free run by what was measured.
    Sampling, sampling::Sampling, loga_policy_sampling;
    /// One client at a time, watched during its slice.
    TimesliceEngaged, timeslice::Engaged, loga_policy_timeslice_engaged;
    /// One client at a time, left alone during its slice.
    Timeslice, timeslice::Disengaged, loga_policy_timeslice;
    /// No client is ever throttled.
    None, none::Unmanaged, loga_policy_none;
    /// One client at a time, in turns in proportion to weights.
    Credit, credit::Credit, loga_policy_credit;
    /// The same, first to clients that are on a processor.
    AugC, augc::Augmented, loga_policy_augc;
    /// One client at a time, one that is on a processor, by weight.
    CoSched, cosched::CoScheduled, loga_policy_cosched;
    /// As `credit`, and clients that are behind their targets come first.
    CreditSlo, credit_slo::WithTargets, loga_policy_credit_slo;
    /// The least served lately first.
    Las, las::LeastServed, loga_policy_las;
    /// The least served since they came first, in levels.
    LasLevels, las_levels::Levels, loga_policy_las_levels;
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
