// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Idle time of the compute engine that a dispatcher causes. A policy does not take it for
//! lost by throttling.

use crate::engaged::SUBMISSION;
use crate::fair;
use crate::units::Ns;

/// Older phases lose this part of their weight with each.
const FORGET: u64 = 8;

/// Idle time before the submissions of a dispatcher.
///
/// It is up to [`SUBMISSION`] for each that was used, and no more of the time than while nobody is
/// throttled: without those that are, short commands leave more of the GPU idle, and that is what
/// throttling costs.
pub(super) struct Dispatching {
    /// Submissions since the last decision.
    submissions: u64,
    /// The part of the time while nobody is throttled, as a share.
    usual: u64,
}

impl Dispatching {
    pub(super) const NONE: Self = Self {
        submissions: 0,
        usual: 0,
    };

    pub(super) fn add(&mut self, submissions: u64) {
        self.submissions = self.submissions.saturating_add(submissions);
    }

    /// The idle time of a polling phase that dispatching caused; the phase stands for `span`.
    pub(super) fn of_phase(&mut self, length: Ns, idle: Ns, span: Ns, throttled: bool) -> Ns {
        let all = SUBMISSION.saturating_mul(core::mem::take(&mut self.submissions));
        let most = fair::estimate(all, span, length).min(idle);
        if throttled {
            return most.min(Ns::new(fair::part(length.get(), self.usual)));
        }
        // A phase without submissions shows nothing, nor does an empty one.
        if !all.is_zero() && !length.is_zero() {
            let now = fair::share(most.get(), length.get());
            let kept = self.usual.saturating_sub(self.usual / FORGET);
            self.usual = kept.saturating_add(now / FORGET);
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_phase_shows_nothing() {
        let length = Ns::from_ms(50);
        let mut dispatching = Dispatching::NONE;
        for phase in 0..100 {
            dispatching.add(50);
            let (length, idle) = match phase % 2 {
                0 => (length, Ns::from_ms(2)),
                _ => (Ns::ZERO, Ns::ZERO),
            };
            dispatching.of_phase(length, idle, length, false);
        }
        dispatching.add(500);
        let most = dispatching.of_phase(length, Ns::from_ms(30), length, true);
        assert!(most > Ns::from_us(1_900), "{most:?}");
        assert!(most <= Ns::from_ms(2), "{most:?}");
    }
}
