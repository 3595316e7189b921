// SPDX-License-Identifier: GPL-2.0

//! [pure] The settings of an engine, their ranges, and the phase lengths they give.

use super::random::Factor;
use crate::error::{in_range, Error};
use crate::policies::PolicyKind;
use crate::units::Ns;

/// Longest polling phase: beyond it, nothing is learned, and a CPU is burnt.
pub const MAX_POLL: Ns = Ns::from_ms(10_000);
/// Longest non-polling phase: a decision lasts this long at most.
pub const MAX_NONPOLL: Ns = Ns::from_ms(60_000);

/// Settings of one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Polling phase per allocated channel in milliseconds, 1 to 1000.
    pub poll_ms: u32,
    /// Length of the non-polling phase in polling phases, 1 to 1000.
    pub ratio: u32,
    /// Vary the lengths, with the same mean, so that no application runs in step.
    pub randomize: bool,
    /// Carry out decisions. Otherwise only account.
    pub enforce: bool,
    /// Who decides.
    pub policy: PolicyKind,
    /// No non-polling phases at all, for measurements: `ratio` is not used.
    pub poll_always: bool,
}

impl Config {
    /// Largest value of [`Config::poll_ms`].
    pub const MAX_POLL_MS: u32 = 1000;
    /// Largest value of [`Config::ratio`].
    pub const MAX_RATIO: u32 = 1000;

    /// Checks the ranges.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] that names the setting.
    pub fn check(&self) -> Result<(), Error> {
        in_range("poll_ms", self.poll_ms.into(), 1, Self::MAX_POLL_MS.into())?;
        in_range("ratio", self.ratio.into(), 1, Self::MAX_RATIO.into())
    }

    /// Lengths of the two phases of a cycle with this many channels allocated.
    pub(super) fn lengths(&self, allocated: u32, factor: Option<Factor>) -> PhaseLengths {
        let poll = Ns::from_ms(self.poll_ms.into())
            .saturating_mul(allocated.into())
            .min(MAX_POLL);
        let nonpoll = if self.poll_always {
            Ns::ZERO
        } else {
            poll.saturating_mul(self.ratio.into()).min(MAX_NONPOLL)
        };
        match factor {
            Some(factor) => PhaseLengths {
                poll: factor.scale(poll),
                nonpoll: factor.scale(nonpoll),
            },
            None => PhaseLengths { poll, nonpoll },
        }
    }
}

impl Default for Config {
    /// 1 ms and 5 ms per channel as in the paper; account only.
    fn default() -> Self {
        Self {
            poll_ms: 1,
            ratio: 5,
            randomize: false,
            enforce: false,
            policy: PolicyKind::Event,
            poll_always: false,
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

    fn config(poll_ms: u32, ratio: u32) -> Config {
        Config {
            poll_ms,
            ratio,
            ..Config::default()
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
    fn lengths_grow_with_allocated_channels() {
        let lengths = config(1, 5).lengths(12, None);
        assert_eq!(lengths.poll, Ns::from_ms(12));
        assert_eq!(lengths.nonpoll, Ns::from_ms(60));
        assert_eq!(lengths.period(), Ns::from_ms(72));
    }

    #[test]
    fn lengths_of_absurd_phases_are_cut() {
        let lengths = config(1000, 1000).lengths(4096, None);
        assert_eq!(lengths.poll, MAX_POLL);
        assert_eq!(lengths.nonpoll, MAX_NONPOLL);
    }

    #[test]
    fn lengths_when_polling_always_have_no_pause() {
        let always = Config {
            poll_always: true,
            ..Config::default()
        };
        assert_eq!(always.lengths(12, None).nonpoll, Ns::ZERO);
    }
}
