// SPDX-License-Identifier: GPL-2.0

//! `[tool]` How times are distributed: percentiles and a histogram.

use crate::statistics::{percentile, us};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bins in which a time doubles: neighbouring bounds differ by 19 %.
const BINS_PER_DOUBLING: f64 = 4.0;

/// How times of one kind are distributed, in microseconds; percentiles by nearest rank.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// Least.
    pub min_us: f64,
    /// 5th percentile.
    pub p5_us: f64,
    /// 25th percentile.
    pub p25_us: f64,
    /// Median.
    pub median_us: f64,
    /// 75th percentile.
    pub p75_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// Most.
    pub max_us: f64,
    /// Mean.
    pub mean_us: f64,
    /// Bins that have any, in ascending order.
    pub histogram: Vec<Bin>,
}

/// One bin of a histogram: from `from_us`, and below `to_us`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Bin {
    /// Lower bound, which belongs to it.
    pub from_us: f64,
    /// Upper bound, which does not.
    pub to_us: f64,
    /// How many.
    pub count: u64,
}

impl Distribution {
    /// The distribution of times in ns.
    pub fn of(times_ns: &[u64]) -> Self {
        let mut sorted = times_ns.to_vec();
        sorted.sort_unstable();
        let (Some(least), Some(most)) = (sorted.first(), sorted.last()) else {
            return Distribution::default();
        };
        let sum: f64 = sorted.iter().map(|ns| us(*ns)).sum();
        Distribution {
            // CAST: a slice has fewer elements than that.
            count: sorted.len() as u64,
            min_us: us(*least),
            p5_us: us(percentile(&sorted, 5)),
            p25_us: us(percentile(&sorted, 25)),
            median_us: us(percentile(&sorted, 50)),
            p75_us: us(percentile(&sorted, 75)),
            p95_us: us(percentile(&sorted, 95)),
            max_us: us(*most),
            mean_us: sum / sorted.len() as f64,
            histogram: histogram(&sorted),
        }
    }
}

/// The bins of times in ns: powers of 2^(1/4) us, and one below a microsecond.
///
/// Equal ratios show times of 30 us and of a second alike, and 64 bits of nanoseconds have at most
/// 219 such bins.
fn histogram(times_ns: &[u64]) -> Vec<Bin> {
    let mut bins: BTreeMap<i32, u64> = BTreeMap::new();
    for ns in times_ns {
        let count = bins.entry(bin(us(*ns))).or_default();
        *count = count.saturating_add(1);
    }
    let bins = bins.into_iter().map(|(number, count)| Bin {
        from_us: if number < 0 { 0.0 } else { bound(number) },
        to_us: bound(number.saturating_add(1)),
        count,
    });
    bins.collect()
}

/// Number of the bin of a time, -1 below a microsecond.
fn bin(time_us: f64) -> i32 {
    if time_us < 1.0 {
        return -1;
    }
    // CAST: at most 4 * 55.
    let near = (time_us.log2() * BINS_PER_DOUBLING).floor() as i32;
    // The logarithm of a bound may be rounded to either side of it.
    match near {
        _ if time_us < bound(near) => near.saturating_sub(1),
        _ if time_us >= bound(near.saturating_add(1)) => near.saturating_add(1),
        _ => near,
    }
}

/// Lower bound of a bin.
fn bound(number: i32) -> f64 {
    (f64::from(number) / BINS_PER_DOUBLING).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distribution_of_known_times_is_exact() {
        let times: Vec<u64> = (1..=200).rev().map(|us| us * 1000).collect();
        let found = Distribution::of(&times);
        assert_eq!((found.count, found.mean_us), (200, 100.5));
        assert_eq!((found.min_us, found.p5_us, found.p25_us), (1.0, 10.0, 50.0));
        assert_eq!((found.median_us, found.p75_us), (100.0, 150.0));
        assert_eq!((found.p95_us, found.max_us), (190.0, 200.0));
        let counted: u64 = found.histogram.iter().map(|bin| bin.count).sum();
        assert_eq!(counted, 200);
    }

    #[test]
    fn every_time_is_in_the_bin_with_its_bounds() {
        // Bounds themselves, their neighbours, and the ends of 64 bits.
        let mut times = vec![0, 999, u64::MAX];
        for power in 0..44 {
            let ns = 1000u64 << power;
            times.extend([ns - 1, ns, ns + 1]);
        }
        for ns in times {
            let bins = histogram(&[ns]);
            assert_eq!(bins.len(), 1);
            let (time_us, bin) = (us(ns), &bins[0]);
            assert!(bin.from_us <= time_us, "{ns} {bin:?}");
            assert!(time_us < bin.to_us, "{ns} {bin:?}");
            assert!(
                bin.from_us < 1.0 || bin.to_us / bin.from_us < 1.19,
                "{bin:?}"
            );
        }
        let bins = histogram(&[1000, 1000, 2000]);
        let counts: Vec<u64> = bins.iter().map(|bin| bin.count).collect();
        assert_eq!((counts, bins[1].from_us), (vec![2, 1], 2.0));
    }
}
