// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The settings of an engine, their ranges, and the phase lengths they give.

use super::random::Factor;
use crate::account::Accounting;
use crate::error::Error;
use crate::knobs::KNOBS;
pub use crate::knobs::{Config, Scale};
use crate::policies::{Inputs, PolicyKind};
use crate::units::Ns;

/// Longest polling phase: beyond it, nothing is learned, and a CPU is burnt.
pub const MAX_POLL: Ns = Ns::from_ms(10_000);
/// Longest non-polling phase: a decision lasts this long at most.
pub const MAX_NONPOLL: Ns = Ns::from_ms(60_000);
/// Shortest phase of sparse accounting: less than two hundred samples. Decisions on fewer would be
/// decisions on noise.
pub const MIN_SPARSE: Ns = Ns::from_ms(50);

/// Least number of active clients that phase lengths are made for. A GPU gives each client a
/// timeslice of a millisecond: a phase that sees one or two of them knows shares to a tenth or two,
/// and over two seconds that adds up to a point.
pub const MIN_ACTIVE: u32 = 6;

/// See [`Config::caution`].
const BURST_WITH_DISPATCH: &str = "with dispatch, accounting in bursts may charge clients far less than they use where processors are few; accounting=sparse does not";

impl Config {
    /// The phases of the paper: 1 ms and 5 ms per channel, of steady lengths, polled in bursts; by
    /// `maxmin`, accounting only.
    pub fn paper() -> Self {
        Self {
            randomize: false,
            accounting: Some(Accounting::Burst),
            scale: Some(Scale::Channels),
            ..Self::default()
        }
    }

    /// Checks the ranges.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] that names the setting; [`Error::SteadyPhases`] for phases
    /// that grow with active clients without `randomize`: they are so short that an
    /// application can run in step with them; [`Error::Unobserved`] when the policy needs
    /// what the caller does not supply. What sparse accounting does not supply is missed
    /// only if decisions are carried out.
    pub fn check(&self) -> Result<(), Error> {
        for knob in KNOBS {
            knob.check((knob.get)(self))?;
        }
        if self.effective_scale() == Scale::Active && !self.randomize {
            return Err(Error::SteadyPhases);
        }
        self.supplies(self.policy)
    }

    /// How GPU time is accounted. If the user did not choose, it is sparse, which takes no
    /// processor from the clients that it measures and has no instants at which a client could run
    /// unseen; burst if decisions of a policy that needs what only bursts show are carried out, and
    /// with [`Config::poll_always`].
    pub fn effective_accounting(&self) -> Accounting {
        let missed = self.enforce && self.policy.counts_runs();
        let sparse = !missed && !self.poll_always;
        self.accounting.unwrap_or(match sparse {
            true => Accounting::Sparse,
            false => Accounting::Burst,
        })
    }

    /// What to know of values that may be set together, and do not do well together: said where they
    /// are set, by the kernel log and by `loga`.
    ///
    /// Clients that wait for their turns come late with what they submit while the poller has one of a
    /// few processors: they use the GPU outside of polling phases above all, where samples alone show
    /// them. With [`Config::poll_always`] there is no time outside.
    pub fn caution(&self) -> Option<&'static str> {
        let in_phases = self.effective_accounting() == Accounting::Burst && !self.poll_always;
        (in_phases && self.dispatch.is_some()).then_some(BURST_WITH_DISPATCH)
    }

    /// What phases grow with. If the user did not choose, it is the active clients, or the channels
    /// where lengths do not vary.
    pub fn effective_scale(&self) -> Scale {
        self.scale.unwrap_or(match self.randomize {
            true => Scale::Active,
            false => Scale::Channels,
        })
    }

    /// Whether the caller and the way of accounting supply what a policy needs.
    ///
    /// # Errors
    ///
    /// [`Error::Unobserved`] that says what is missing.
    pub fn supplies(&self, policy: PolicyKind) -> Result<(), Error> {
        let needs = policy.needs();
        // An accounting that the user did not choose would change with the policy.
        let sparse = self.accounting == Some(Accounting::Sparse) && self.enforce;
        let missing = match needs {
            _ if sparse && policy.counts_runs() => "numbers of runs",
            _ if needs <= self.inputs => return Ok(()),
            Inputs::Use => "times used",
            Inputs::Waits => "times waited",
            Inputs::Channels => "states of channels",
            Inputs::Cpu => "times on processors",
        };
        Err(Error::Unobserved {
            policy: policy.name(),
            needs: missing,
        })
    }

    /// What the caller has to observe: what the policy needs, and in the short phases of
    /// [`Scale::Active`] also which clients wait, since a client that is not seen in one need not
    /// be idle.
    pub fn wants(&self) -> Inputs {
        let needs = self.policy.needs();
        match self.effective_scale() {
            Scale::Active => needs.max(Inputs::Waits.min(self.inputs)),
            Scale::Channels => needs,
        }
    }

    /// Lengths of the two phases of a cycle with this many channels allocated and
    /// clients active.
    pub(super) fn lengths(
        &self,
        allocated: u32,
        active: u32,
        factor: Option<Factor>,
    ) -> PhaseLengths {
        let units = match self.effective_scale() {
            Scale::Active => active.max(MIN_ACTIVE),
            Scale::Channels => allocated,
        };
        let poll = Ns::from_ms(self.poll_ms.into())
            .saturating_mul(units.into())
            .min(MAX_POLL);
        let nonpoll = if self.poll_always {
            Ns::ZERO
        } else {
            poll.saturating_mul(self.ratio.into()).min(MAX_NONPOLL)
        };
        let lengths = match factor {
            Some(factor) => PhaseLengths {
                poll: factor.scale(poll),
                nonpoll: factor.scale(nonpoll),
            },
            None => PhaseLengths { poll, nonpoll },
        };
        match self.effective_accounting() {
            Accounting::Burst => lengths,
            Accounting::Sparse => PhaseLengths {
                poll: lengths.period().max(MIN_SPARSE),
                nonpoll: Ns::ZERO,
            },
        }
    }
}

/// Planned lengths of the two phases of a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseLengths {
    /// The polling phase.
    pub poll: Ns,
    /// The non-polling phase.
    pub nonpoll: Ns,
}

impl PhaseLengths {
    /// Both together.
    pub const fn period(&self) -> Ns {
        self.poll.saturating_add(self.nonpoll)
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engine_config))]
mod tests {
    use super::*;
    use crate::policies::dispatch::DispatcherKind;

    fn config(poll_ms: u32, ratio: u32) -> Config {
        Config {
            poll_ms,
            scale: Some(Scale::Channels),
            ratio,
            ..Config::paper()
        }
    }

    #[test]
    fn check_outside_the_ranges_names_the_setting() {
        let refused = |name, value| {
            Err(Error::OutOfRange {
                name,
                value,
                min: 1,
                max: 1000,
            })
        };
        assert_eq!(config(0, 5).check(), refused("poll_ms", 0));
        assert_eq!(config(1001, 5).check(), refused("poll_ms", 1001));
        assert_eq!(config(1, 0).check(), refused("ratio", 0));
        assert_eq!(config(1, 1001).check(), refused("ratio", 1001));
        assert_eq!(config(1000, 1000).check(), Ok(()));
    }

    #[test]
    fn check_of_a_policy_that_cannot_be_told_what_it_needs_refuses_it() {
        let sees = |policy, inputs| Config {
            policy,
            inputs,
            ..Config::paper()
        };
        for policy in PolicyKind::ALL.iter().copied() {
            assert!(sees(policy, Inputs::Cpu).check().is_ok());
        }
        let refused = Err(Error::Unobserved {
            policy: "maxmin",
            needs: "times waited",
        });
        assert_eq!(sees(PolicyKind::MaxMin, Inputs::Use).check(), refused);
        assert!(sees(PolicyKind::MaxMin, Inputs::Waits).check().is_ok());
        assert!(sees(PolicyKind::Sampling, Inputs::Waits).check().is_err());
        assert!(sees(PolicyKind::Timeslice, Inputs::Waits).check().is_err());
        assert!(sees(PolicyKind::EventCl, Inputs::Use).check().is_ok());
    }

    #[test]
    fn check_of_a_policy_that_sparse_accounting_cannot_serve_refuses_it_when_enforced() {
        let sparse = |policy, enforce| Config {
            policy,
            enforce,
            accounting: Some(Accounting::Sparse),
            inputs: Inputs::Cpu,
            ..Config::paper()
        };
        for policy in PolicyKind::ALL.iter().copied() {
            assert!(sparse(policy, false).check().is_ok());
        }
        assert!(sparse(PolicyKind::Event, true).check().is_ok());
        assert!(sparse(PolicyKind::MaxMin, true).check().is_ok());
        let refused = Err(Error::Unobserved {
            policy: "event-cl",
            needs: "numbers of runs",
        });
        assert_eq!(sparse(PolicyKind::EventCl, true).check(), refused);
    }

    #[test]
    fn accounting_that_was_not_chosen_follows_enforcement_and_policy() {
        let way = |policy, enforce, poll_always| {
            let config = Config {
                policy,
                enforce,
                poll_always,
                ..Config::default()
            };
            assert!(config.check().is_ok());
            config.effective_accounting()
        };
        assert_eq!(way(PolicyKind::MaxMin, true, false), Accounting::Sparse);
        assert_eq!(way(PolicyKind::MaxMin, false, false), Accounting::Sparse);
        assert_eq!(way(PolicyKind::EventCl, false, false), Accounting::Sparse);
        assert_eq!(way(PolicyKind::EventCl, true, false), Accounting::Burst);
        assert_eq!(way(PolicyKind::MaxMin, true, true), Accounting::Burst);
    }

    #[test]
    fn accounting_that_was_chosen_stays() {
        for way in [Accounting::Burst, Accounting::Sparse] {
            for enforce in [false, true] {
                let config = Config {
                    enforce,
                    accounting: Some(way),
                    ..Config::default()
                };
                assert_eq!(config.effective_accounting(), way);
            }
        }
    }

    #[test]
    fn caution_is_given_for_bursts_with_a_dispatcher_and_for_nothing_else() {
        let given = |accounting, dispatch, poll_always| {
            let config = Config {
                accounting,
                dispatch,
                poll_always,
                ..Config::default()
            };
            assert!(config.check().is_ok());
            config.caution().is_some()
        };
        let burst = Some(Accounting::Burst);
        for kind in DispatcherKind::ALL.iter().copied().map(Some) {
            assert!(given(burst, kind, false));
            assert!(!given(burst, kind, true));
            assert!(!given(None, kind, false));
            assert!(!given(Some(Accounting::Sparse), kind, false));
        }
        assert!(!given(burst, None, false));
        // It follows from the policy.
        let counted = Config {
            policy: PolicyKind::EventCl,
            enforce: true,
            dispatch: Some(DispatcherKind::Prio),
            ..Config::default()
        };
        assert!(counted.caution().is_some());
    }

    #[test]
    fn policy_that_counts_runs_is_supported_while_accounting_follows() {
        let config = Config {
            enforce: true,
            ..Config::default()
        };
        assert!(config.supplies(PolicyKind::EventCl).is_ok());
    }

    #[test]
    fn check_of_phases_by_active_clients_wants_them_to_vary() {
        let active = |randomize| Config {
            scale: Some(Scale::Active),
            randomize,
            ..Config::paper()
        };
        assert_eq!(active(false).check(), Err(Error::SteadyPhases));
        assert_eq!(active(true).check(), Ok(()));
    }

    #[test]
    fn lengths_with_sparse_accounting_are_one_long_phase() {
        let sparse = |poll_ms| Config {
            accounting: Some(Accounting::Sparse),
            ..config(poll_ms, 5)
        };
        let of = |config: Config| config.lengths(12, 3, None);
        assert_eq!(of(sparse(1)).poll, Ns::from_ms(72));
        assert_eq!(of(sparse(1)).nonpoll, Ns::ZERO);
        assert_eq!(sparse(1).lengths(1, 1, None).poll, MIN_SPARSE);
    }

    #[test]
    fn lengths_grow_with_allocated_channels() {
        let lengths = config(1, 5).lengths(12, 3, None);
        assert_eq!(lengths.poll, Ns::from_ms(12));
        assert_eq!(lengths.nonpoll, Ns::from_ms(60));
        assert_eq!(lengths.period(), Ns::from_ms(72));
    }

    #[test]
    fn lengths_grow_with_active_clients() {
        let by_clients = Config {
            scale: Some(Scale::Active),
            ..Config::paper()
        };
        let lengths = |active| by_clients.lengths(12, active, None);
        assert_eq!(lengths(9).poll, Ns::from_ms(9));
        assert_eq!(lengths(9).nonpoll, Ns::from_ms(45));
        // Shorter phases do not measure few clients well enough, and an idle GPU is still watched.
        assert_eq!(lengths(2).poll, Ns::from_ms(6));
        assert_eq!(lengths(0), lengths(6));
    }

    #[test]
    fn scale_that_was_not_chosen_follows_randomisation() {
        let scale = |randomize| Config {
            randomize,
            ..Config::default()
        };
        assert_eq!(scale(true).effective_scale(), Scale::Active);
        assert_eq!(scale(false).effective_scale(), Scale::Channels);
        assert_eq!(scale(false).check(), Ok(()));
    }

    #[test]
    fn lengths_of_absurd_phases_are_cut() {
        let lengths = config(1000, 1000).lengths(4096, 3, None);
        assert_eq!(lengths.poll, MAX_POLL);
        assert_eq!(lengths.nonpoll, MAX_NONPOLL);
    }

    #[test]
    fn lengths_when_polling_always_have_no_pause() {
        let always = Config {
            poll_always: true,
            ..Config::paper()
        };
        assert_eq!(always.lengths(12, 3, None).nonpoll, Ns::ZERO);
    }
}
