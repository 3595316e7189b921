// SPDX-License-Identifier: GPL-2.0

//! The bound that a policy states for clients that always have work, checked at every decision.
//!
//! `event` (see its header): GPU time over weight differs by at most two periods of the lightest,
//! plus what cannot be stopped. The check has a clock of its own per entity: it advances by the
//! entity's part of the GPU time used in the polling phase, times the period, over weight. What
//! cannot be stopped are the commands in its queue, which may all fall into polling phases.

use loga::policies::PolicyKind;
use loga::units::Weight;

/// Use of a period by one entity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    pub(super) entity: usize,
    pub(super) weight: Weight,
    /// GPU time in the polling phase, in ns.
    pub(super) busy: u64,
    /// GPU time while it was throttled, charged directly, in ns.
    pub(super) direct: u64,
}

/// Checks the bound.
pub(super) struct Bound {
    /// Which entities always have work, if the policy states a bound for them.
    always: Vec<bool>,
    clocks: Vec<Option<f64>>,
    /// The longest period so far, in ns.
    period: f64,
    /// Commands of one entity that cannot be stopped, each as long as the longest so far.
    depth: f64,
    longest: f64,
}

impl Bound {
    /// For entities; `always` marks those that always have work.
    pub(super) fn new(
        policy: PolicyKind,
        enforce: bool,
        mut always: Vec<bool>,
        depth: u32,
    ) -> Self {
        if policy.name() != "event" || !enforce {
            always.fill(false);
        }
        Self {
            clocks: vec![None; always.len()],
            always,
            period: 0.0,
            depth: depth.into(),
            longest: 0.0,
        }
    }

    /// A command of this length was submitted.
    pub(super) fn submitted(&mut self, length: u64) {
        // CAST: a command lasts a minute at most.
        self.longest = self.longest.max(length as f64);
    }

    /// An entity has gone.
    pub(super) fn gone(&mut self, entity: usize) {
        self.clocks[entity] = None;
    }

    /// Books a period of `span` ns, of which `poll` ns were polled, among those that are present;
    /// `lead` is the longest possible length of the period. Returns the excess if the bound is
    /// broken.
    pub(super) fn period(
        &mut self,
        uses: &[Use],
        poll: u64,
        span: u64,
        lead: u64,
    ) -> Option<String> {
        // CAST: all of these are times that a double holds exactly.
        let all: u64 = uses.iter().map(|one| one.busy).sum();
        let direct: u64 = uses.iter().map(|one| one.direct).sum();
        let rest = span.saturating_sub(direct) as f64;
        self.period = self.period.max(span.max(lead) as f64);
        let wants = |one: &&Use| self.always[one.entity];
        let lightest = uses.iter().map(|one| one.weight).min()?;
        let floor = uses
            .iter()
            .filter(wants)
            .filter_map(|one| self.clocks[one.entity])
            .fold(f64::INFINITY, f64::min);
        let floor = if floor.is_finite() { floor } else { 0.0 };
        let (mut least, mut most) = (f64::INFINITY, 0.0f64);
        for one in uses.iter().filter(wants) {
            let share = if all == 0 {
                0.0
            } else {
                one.busy as f64 / all as f64 * rest
            };
            let clock = self.clocks[one.entity].get_or_insert(floor);
            *clock += (share + one.direct as f64) / weight(one.weight);
            least = least.min(*clock);
            most = most.max(*clock);
        }
        let scale = span as f64 / poll.max(1) as f64;
        let allowed = (2.0 * self.period + self.depth * self.longest * scale) / weight(lightest);
        (most - least > allowed).then(|| {
            format!(
                "fairness: GPU time over weight of clients that always have work differs by \
                 {:.3} ms, the bound is {:.3} ms",
                (most - least) / 1e6,
                allowed / 1e6
            )
        })
    }
}

/// A weight as a factor; the default is one.
fn weight(weight: Weight) -> f64 {
    f64::from(weight.get()) / f64::from(Weight::DEFAULT.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two clients of default weight that used these parts of 12 polled ms, period by period.
    fn broken(periods: &[(u64, u64)]) -> Option<String> {
        let mut bound = Bound::new(PolicyKind::Event, true, vec![true, true], 1);
        let one = |entity, busy_ms: u64| Use {
            entity,
            weight: Weight::DEFAULT,
            busy: busy_ms * 1_000_000,
            direct: 0,
        };
        periods.iter().find_map(|(a, b)| {
            bound.period(
                &[one(0, *a), one(1, *b)],
                12_000_000,
                72_000_000,
                72_000_000,
            )
        })
    }

    #[test]
    fn bound_of_two_periods_is_kept_by_two_and_broken_by_three() {
        assert_eq!(broken(&[(12, 0), (12, 0)]), None);
        assert!(broken(&[(12, 0), (12, 0), (12, 0)]).is_some());
        assert_eq!(broken(&[(12, 0), (12, 0), (0, 12), (12, 0)]), None);
    }

    #[test]
    fn bound_is_wider_by_the_commands_that_cannot_be_stopped() {
        let mut bound = Bound::new(PolicyKind::Event, true, vec![true, true], 3);
        bound.submitted(4_000_000);
        let all = |entity, busy| Use {
            entity,
            weight: Weight::DEFAULT,
            busy,
            direct: 0,
        };
        for _ in 0..3 {
            let uses = [all(0, 12_000_000), all(1, 0)];
            assert_eq!(
                bound.period(&uses, 12_000_000, 72_000_000, 72_000_000),
                None
            );
        }
    }
}
