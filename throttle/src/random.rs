// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Repeatable variation.

use rand_pcg::rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A generator that gives the same numbers for the same seed.
#[derive(Clone, Debug)]
pub struct Random(Pcg64Mcg);

impl Random {
    /// A generator for `seed`; neighbouring seeds give unrelated sequences.
    pub fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// `value` changed by a uniform factor of up to `percent` in either direction.
    pub fn around(&mut self, value: u64, percent: u32) -> u64 {
        if percent == 0 || value == 0 {
            return value;
        }
        let reach = (u128::from(value) * u128::from(percent) / 100) as u64;
        let span = reach.saturating_mul(2).saturating_add(1);
        value
            .saturating_sub(reach)
            .saturating_add(self.next_u64() % span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn around_stays_in_range_and_repeats() {
        let mut a = Random::new(7);
        let mut b = Random::new(7);
        let mut sum = 0;
        for _ in 0..10_000 {
            let value = a.around(1000, 20);
            assert_eq!(value, b.around(1000, 20));
            assert!((800..=1200).contains(&value));
            sum += value;
        }
        let mean = sum / 10_000;
        assert!((995..=1005).contains(&mean), "mean {mean}");
    }

    #[test]
    fn around_without_jitter_is_exact() {
        assert_eq!(Random::new(1).around(123, 0), 123);
    }
}
