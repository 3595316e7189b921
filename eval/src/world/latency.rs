// SPDX-License-Identifier: GPL-2.0

//! How often which times were taken, in memory that does not grow with their number.

/// Steps of each power of two: a time is known to a part in so many.
const STEPS: u64 = 64;

/// Times by how long they were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Times of each step.
    counts: Vec<u64>,
    all: u64,
}

impl Latency {
    /// Adds a time in ns.
    pub fn add(&mut self, ns: u64) {
        let step = step(ns);
        if self.counts.len() <= step {
            self.counts.resize(step + 1, 0);
        }
        self.counts[step] += 1;
        self.all += 1;
    }

    /// A time that `percent` of all times do not exceed, in ns; up to a part in 64 too long.
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        let wanted = (self.all * percent).div_ceil(100).max(1);
        let mut below = 0;
        let step = self.counts.iter().position(|count| {
            below += count;
            below >= wanted
        });
        step.map(last)
    }
}

/// The step of a time.
fn step(ns: u64) -> usize {
    let power = (ns / STEPS).checked_ilog2().map_or(0, |log| log + 1);
    // CAST: at most 64 * 59.
    (if power == 0 {
        ns
    } else {
        STEPS * u64::from(power) + (ns >> (power - 1)) - STEPS
    }) as usize
}

/// The longest time of a step.
fn last(step: usize) -> u64 {
    // CAST: usize fits u64.
    let (power, within) = (step as u64 / STEPS, step as u64 % STEPS);
    match power {
        0 => within,
        _ => ((STEPS + within + 1) << (power - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_exact_to_a_part_in_64() {
        let mut latency = Latency::default();
        (1..=1000).for_each(|us| latency.add(us * 1000));
        for percent in [1, 50, 95, 99, 100] {
            let exact = percent * 10_000;
            let found = latency.percentile(percent).unwrap();
            assert!(found >= exact, "{found}");
            assert!(found <= exact + exact / 64 + 1, "{found}");
        }
        assert_eq!(Latency::default().percentile(50), None);
    }

    #[test]
    fn steps_follow_each_other() {
        for ns in 0..100_000_u64 {
            assert!(last(step(ns)) >= ns);
            assert!(step(ns) == 0 || last(step(ns) - 1) < ns);
        }
        assert!(last(step(u64::MAX / 2)) >= u64::MAX / 2);
    }
}
