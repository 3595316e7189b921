// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Which GPUs are lost: those that their node calls so, and those of a node that fell silent
//! within [`HOLD`] after it did. A GPU that its node no longer calls so is not.

use super::hysteresis::{Key, HOLD};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Lost GPUs, and when their nodes last said so.
#[derive(Clone, Debug, Default)]
pub struct Lost(BTreeMap<Key, Duration>);

impl Lost {
    /// Takes the GPUs that each node that answers calls lost. `now` is the time since some start.
    pub fn step(&mut self, said: &BTreeMap<String, BTreeSet<u32>>, now: Duration) -> BTreeSet<Key> {
        self.0
            .retain(|(node, _), at| !said.contains_key(node) && now.saturating_sub(*at) < HOLD);
        for (node, gpus) in said {
            let keys = gpus.iter().map(|gpu| (node.clone(), *gpu));
            self.0.extend(keys.map(|key| (key, now)));
        }
        self.0.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(nodes: &[(&str, &[u32])]) -> BTreeMap<String, BTreeSet<u32>> {
        let one =
            |(name, gpus): &(&str, &[u32])| (name.to_string(), gpus.iter().copied().collect());
        nodes.iter().map(one).collect()
    }

    #[test]
    fn lost_gpu_stays_lost_while_its_node_says_so_or_for_a_minute_of_silence() {
        let mut lost = Lost::default();
        let at = Duration::from_secs;
        let names = |keys: BTreeSet<Key>| -> Vec<String> {
            keys.iter()
                .map(|(node, gpu)| format!("{node} {gpu}"))
                .collect()
        };
        let both = said(&[("n1", &[0, 3]), ("n2", &[])]);
        assert_eq!(names(lost.step(&both, at(0))), ["n1 0", "n1 3"]);
        // One of them came back.
        let one = said(&[("n1", &[3]), ("n2", &[1])]);
        assert_eq!(names(lost.step(&one, at(5))), ["n1 3", "n2 1"]);
        assert_eq!(
            names(lost.step(&said(&[("n2", &[1])]), at(64))),
            ["n1 3", "n2 1"]
        );
        assert_eq!(names(lost.step(&said(&[("n2", &[1])]), at(65))), ["n2 1"]);
        assert_eq!(names(lost.step(&said(&[("n2", &[])]), at(66))), [""; 0]);
    }
}
