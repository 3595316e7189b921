// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Random factors for phase lengths, from a seed.

use crate::random::XorShift;
use crate::units::Ns;

/// A number in `[0.5, 1.5)`, in steps of 2^-16, with mean one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Factor(u32);

/// One, as a [`Factor`].
const ONE: u32 = 1 << 16;

impl Factor {
    /// The next factor, uniformly distributed.
    pub(super) fn draw(random: &mut XorShift) -> Self {
        Self(ONE / 2 + random.bits16())
    }

    /// The product, rounded down.
    pub(super) fn scale(self, time: Ns) -> Ns {
        Ns::new(time.get().saturating_mul(self.0.into()) / u64::from(ONE))
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engine_random))]
mod tests {
    use super::*;

    #[test]
    fn factor_stays_in_its_range_and_keeps_the_mean() {
        let mut random = XorShift::new(1);
        let mut sum = 0u64;
        for _ in 0..4096 {
            let factor = Factor::draw(&mut random);
            assert!(factor.0 >= ONE / 2);
            assert!(factor.0 < ONE * 3 / 2);
            sum += u64::from(factor.0);
        }
        let mean = sum / 4096;
        assert!(mean.abs_diff(ONE.into()) < 1000);
    }
}
