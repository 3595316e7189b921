// SPDX-License-Identifier: GPL-2.0

//! [pure] Random factors for phase lengths, from a seed.

use crate::units::Ns;

/// A pseudo-random generator with 64 bits of state (Marsaglia's xorshift, 13-7-17).
pub(super) struct XorShift(u64);

/// A number in `[0.5, 1.5)`, in steps of 2^-16, with mean one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Factor(u32);

/// One, as a [`Factor`].
const ONE: u32 = 1 << 16;

impl XorShift {
    /// A generator; the same seed gives the same numbers.
    pub(super) const fn new(seed: u64) -> Self {
        // Zero is the one state that never changes.
        Self(if seed == 0 {
            0x9e37_79b9_7f4a_7c15
        } else {
            seed
        })
    }

    /// The next factor, uniformly distributed.
    pub(super) fn factor(&mut self) -> Factor {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // CAST: the upper 16 bits, which are the best mixed.
        Factor(ONE / 2 + (self.0 >> 48) as u32)
    }
}

impl Factor {
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
            let factor = random.factor();
            assert!(factor.0 >= ONE / 2 && factor.0 < ONE * 3 / 2);
            sum += u64::from(factor.0);
        }
        let mean = sum / 4096;
        assert!(mean.abs_diff(ONE.into()) < 1000);
    }

    #[test]
    fn factor_from_the_same_seed_is_the_same() {
        let (mut one, mut other) = (XorShift::new(7), XorShift::new(7));
        assert!((0..100).all(|_| one.factor() == other.factor()));
    }

    #[test]
    fn factor_from_seed_zero_varies() {
        let mut random = XorShift::new(0);
        assert!(random.factor() != random.factor());
    }
}
