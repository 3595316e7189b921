// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Pseudo-random numbers from a seed: the same seed gives the same numbers.

/// A generator with 64 bits of state (Marsaglia's xorshift, 13-7-17).
#[derive(Clone, Copy, Debug)]
pub struct XorShift(u64);

impl XorShift {
    /// A generator; any seed will do.
    pub const fn new(seed: u64) -> Self {
        // Zero is the one state that never changes.
        Self(if seed == 0 {
            0x9e37_79b9_7f4a_7c15
        } else {
            seed
        })
    }

    /// The next 16 bits, uniformly distributed: the upper ones, which are the best mixed.
    #[inline]
    pub fn bits16(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // CAST: 16 bits.
        (self.0 >> 48) as u32
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_random))]
mod tests {
    use super::*;

    #[test]
    fn bits_from_the_same_seed_are_the_same() {
        let (mut one, mut other) = (XorShift::new(7), XorShift::new(7));
        assert!((0..100).all(|_| one.bits16() == other.bits16()));
    }

    #[test]
    fn bits_from_seed_zero_vary() {
        let mut random = XorShift::new(0);
        assert!(random.bits16() != random.bits16());
    }
}
