// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Weights of nodes: Slurm fills the node of the least weight first.
//!
//! `weight = 10 + 90 * score of the best GPU`, in steps of ten. A weight that follows the load, and
//! draws the jobs that make the load, could swing: it changes at most once in [`DWELL`], and only
//! when the exact one is more than [`SLACK`] away from it. Scores are means over 30 s.

use std::collections::HashMap;
use std::time::Duration;

/// Least time between two changes of a node's weight.
const DWELL: Duration = Duration::from_secs(30);
/// How far the exact weight must be away for a change, in thousandths. A step of ten without
/// hysteresis would change at 5000.
const SLACK: u64 = 8_000;
/// Weight of a node that had an opinion once and has none now: neither first nor last.
const NEUTRAL: u32 = 50;

/// Weights that were set.
#[derive(Debug, Default)]
pub struct Weights {
    /// When, by the name of the node.
    changed: HashMap<String, Duration>,
}

impl Weights {
    /// The weight to set now, if any.
    ///
    /// `current` is what the node has, `best` the score of its best GPU in millionths or nothing
    /// without an opinion, `now` the time since some start.
    pub fn decide(
        &mut self,
        node: &str,
        current: u32,
        best: Option<u64>,
        now: Duration,
    ) -> Option<u32> {
        let changed = self.changed.get(node);
        let exact = match best {
            Some(ppm) => ppm.saturating_mul(90) / 1_000 + 10_000,
            // Nodes that are not ours keep the weight of slurm.conf.
            None => changed.map(|_| u64::from(NEUTRAL) * 1_000)?,
        };
        if changed.is_some_and(|at| now.saturating_sub(*at) < DWELL) {
            return None;
        }
        let is_step = current % 10 == 0 && (10..=100).contains(&current);
        if is_step && exact.abs_diff(u64::from(current) * 1_000) < SLACK {
            return None;
        }
        let step = exact.saturating_add(5_000) / 10_000 * 10;
        let step = u32::try_from(step).unwrap_or(100).clamp(10, 100);
        self.changed.insert(node.to_string(), now);
        Some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn weight_grows_with_the_load_of_the_best_gpu() {
        let at = |ppm| Weights::default().decide("n", 1, Some(ppm), S(0));
        assert_eq!(at(0), Some(10));
        assert_eq!(at(500_000), Some(60));
        assert_eq!(at(1_000_000), Some(100));
        assert_eq!(at(u64::MAX), Some(100));
    }

    #[test]
    fn weight_stays_within_the_dwell_and_the_slack() {
        let mut weights = Weights::default();
        assert_eq!(weights.decide("n", 1, Some(0), S(0)), Some(10));
        assert_eq!(weights.decide("n", 10, Some(900_000), S(29)), None);
        assert_eq!(weights.decide("m", 10, Some(900_000), S(29)), Some(90));
        // 17.9 and 18.1.
        assert_eq!(weights.decide("n", 10, Some(87_700), S(60)), None);
        assert_eq!(weights.decide("n", 10, Some(90_000), S(60)), Some(20));
        assert_eq!(weights.decide("n", 20, Some(90_000), S(120)), None);
    }

    #[test]
    fn node_that_fell_silent_becomes_neutral_and_others_keep_theirs() {
        let mut weights = Weights::default();
        assert_eq!(weights.decide("n", 1, None, S(0)), None);
        assert_eq!(weights.decide("n", 1, Some(0), S(10)), Some(10));
        assert_eq!(weights.decide("n", 10, None, S(20)), None);
        assert_eq!(weights.decide("n", 10, None, S(41)), Some(50));
        assert_eq!(weights.decide("n", 50, None, S(99)), None);
    }

    /// An hour of two nodes of which all load goes to the one of the lesser weight and is seen as a
    /// mean over 30 s: how often weights changed, and the least time between two changes of a node.
    fn changes(jitter: u64, follows: bool) -> (u32, u64) {
        let mut weights = Weights::default();
        let (mut load, mut weight, mut changes) = ([400_000u64, 400_000], [1, 1], 0);
        let (mut last, mut least) = ([None; 2], u64::MAX);
        for round in 0..360u64 {
            for at in 0..2 {
                let target = match weight[at] <= weight[1 - at] {
                    _ if !follows => 390_000,
                    true => 800_000,
                    false => 0,
                };
                load[at] = (load[at] * 2 + target) / 3;
                let seen = load[at] + jitter * (round % 2);
                let node = ["a", "b"][at];
                if let Some(new) = weights.decide(node, weight[at], Some(seen), S(round * 10)) {
                    weight[at] = new;
                    changes += 1;
                    least = least.min(last[at].map_or(u64::MAX, |last| round * 10 - last));
                    last[at] = Some(round * 10);
                }
            }
        }
        (changes, least)
    }

    #[test]
    fn load_that_follows_the_weights_does_not_make_them_flap() {
        // 45.1 and 48.7: on both sides of where a plain rounding changes.
        assert_eq!(changes(40_000, false), (2, u64::MAX));
        let (count, least) = changes(0, true);
        assert!(count > 2, "{count} changes, {least} s");
        assert!(least >= 30, "{count} changes, {least} s");
    }
}
