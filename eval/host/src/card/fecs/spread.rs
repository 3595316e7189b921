// SPDX-License-Identifier: GPL-2.0

//! `[tool]` How lengths are distributed, in bounded memory.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Parts of each power of two: a percentile is exact to one part in 64.
const PARTS: u64 = 64;

/// Collects lengths. At most 64 counters for each power of two.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lengths {
    count: u64,
    sum_ns: u64,
    min_ns: Option<u64>,
    max_ns: u64,
    /// How many lengths begin with the same seven bits, by the smallest of these lengths.
    counters: BTreeMap<u64, u64>,
}

/// How lengths are distributed. Percentiles are rounded down to one part in 64.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spread {
    /// Number of lengths.
    pub(crate) count: u64,
    /// Sum of all.
    pub(crate) sum_ns: u64,
    /// The shortest.
    pub(crate) min_ns: u64,
    /// A tenth is at most this long.
    pub(crate) p10_ns: u64,
    /// Half of them are at most this long.
    pub(crate) p50_ns: u64,
    /// Nine tenths are at most this long.
    pub(crate) p90_ns: u64,
    /// 99 of 100 are at most this long.
    pub(crate) p99_ns: u64,
    /// The longest.
    pub(crate) max_ns: u64,
}

impl Lengths {
    /// Adds a length.
    pub(crate) fn add(&mut self, length_ns: u64) {
        self.count = self.count.saturating_add(1);
        self.sum_ns = self.sum_ns.saturating_add(length_ns);
        self.min_ns = Some(self.min_ns.map_or(length_ns, |min| min.min(length_ns)));
        self.max_ns = self.max_ns.max(length_ns);
        let spare = length_ns.checked_ilog2().unwrap_or(0);
        let shift = spare.saturating_sub(PARTS.ilog2());
        let counter = self.counters.entry(length_ns >> shift << shift);
        let counter = counter.or_default();
        *counter = counter.saturating_add(1);
    }

    /// Sum of the lengths so far.
    pub(crate) fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The length that `percent` of all lengths do not exceed.
    fn percentile(&self, percent: u64) -> u64 {
        let wanted = self.count.saturating_mul(percent).div_ceil(100).max(1);
        let mut seen = 0u64;
        for (length, count) in &self.counters {
            seen = seen.saturating_add(*count);
            if seen >= wanted {
                return *length;
            }
        }
        0
    }

    /// The distribution so far.
    pub(crate) fn spread(&self) -> Spread {
        Spread {
            count: self.count,
            sum_ns: self.sum_ns,
            min_ns: self.min_ns.unwrap_or(0),
            p10_ns: self.percentile(10),
            p50_ns: self.percentile(50),
            p90_ns: self.percentile(90),
            p99_ns: self.percentile(99),
            max_ns: self.max_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_nothing_is_zero() {
        assert_eq!(Lengths::default().spread(), Spread::default());
    }

    #[test]
    fn percentiles_are_right_to_one_part_in_64() {
        let mut lengths = Lengths::default();
        (1..=1000).for_each(|us| lengths.add(us * 1000));
        let spread = lengths.spread();
        assert_eq!((spread.count, spread.sum_ns), (1000, 500_500_000));
        assert_eq!((spread.min_ns, spread.max_ns), (1000, 1_000_000));
        for (found, exact) in [
            (spread.p10_ns, 100_000),
            (spread.p50_ns, 500_000),
            (spread.p90_ns, 900_000),
            (spread.p99_ns, 990_000),
        ] {
            assert!(found <= exact, "{found} {exact}");
            assert!(exact - found <= exact / 64, "{found} {exact}");
        }
    }

    #[test]
    fn lengths_of_any_size_keep_the_counters_bounded() {
        let mut lengths = Lengths::default();
        for at in 0..100_000u64 {
            lengths.add(at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        assert!(lengths.counters.len() <= 64 * 65);
        assert_eq!(lengths.spread().count, 100_000);
    }
}
