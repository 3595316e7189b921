// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Budgets: how a hard limit is kept, also by a client that is alone, and how much of a
//! coarse reserve is left.
//!
//! A budget grows by its rate, `C` in every `T` of wall time, and shrinks by the GPU time used. A
//! limit is a rate with a `T` of [`BURST`]. At every decision its owner may run until the next one
//! if what it will use fits: `credit + rate * period >= expected use`. So by the end of any period
//! that went as expected, no more has been used than has accrued. Credit that its owner could have
//! used and did not is kept up to `C`, or what a single period needs if that is more; credit that
//! accrues while it is throttled is kept.
//!
//! Debts are paid by being throttled, whole. They come from what cannot be stopped, a command or a
//! queue of commands that goes on while its owner is throttled, and grow for as long as that runs.
//! Nothing of a debt is forgiven: an owner that fills its queue again whenever it may would get what
//! is forgiven, again and again.
//!
//! Bound: over any length of time, use exceeds the rate by at most the larger of `C` and one
//! polling period, plus what one polling period used beyond expectation, plus what its owner had
//! queued when it was throttled last.
//! Bound: after `used` of GPU time that nothing has paid for yet, an owner whose work has ended is
//! throttled for `used * T / C` at most. No more is owed than the time for which the budget has
//! been there, since no GPU was used for longer.

use crate::fair::mul_div;
use crate::units::{signed, Ns};

/// Wall time for which unused budget of a limit is kept: with a window of two seconds, five percent
/// of the limit.
pub const BURST: Ns = Ns::from_ms(100);

/// A GPU used for the whole time.
const FULL: u64 = 1 << 16;

/// GPU time that accrues in wall time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// GPU time in each `period`.
    pub capacity: Ns,
    /// Wall time.
    pub period: Ns,
}

impl Rate {
    /// What accrues in a length of time, rounded down.
    pub fn of(self, time: Ns) -> Ns {
        Ns::new(mul_div(
            time.get(),
            self.capacity.get(),
            self.period.get().max(1),
        ))
    }
}

/// The budget of one subject on one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// GPU time that may be used, negative for a debt, in nanoseconds.
    credit: i64,
    /// Since when there is something to pay for.
    since: Option<Ns>,
    /// Up to when it has grown.
    until: Option<Ns>,
    /// GPU time used per time when its owner ran last, of [`FULL`].
    busy: Option<u64>,
    /// Whether its owner is throttled.
    throttled: bool,
}

/// What the owner of a budget did between two decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// GPU time used, estimated for the whole period.
    pub used: Ns,
    /// Whether any of its processes was let run.
    pub allowed: bool,
}

impl Budget {
    /// Whether its owner is throttled.
    pub const fn throttled(&self) -> bool {
        self.throttled
    }

    /// GPU time that may be used, negative for a debt, in nanoseconds.
    pub const fn credit_ns(&self) -> i64 {
        self.credit
    }

    /// Starts anew, with nothing saved and nothing owed.
    pub fn restart(&mut self) {
        *self = Self::default();
    }

    /// Books a period of length `span` that ends `now`, and decides whether its owner
    /// is throttled for the next one of length `next`.
    pub fn settle(&mut self, rate: Rate, now: Ns, span: Ns, next: Ns, spent: &Spent) {
        let grown = match self.until {
            Some(until) => rate.of(now.saturating_sub(until)),
            None => rate.of(span),
        };
        self.until = Some(now);
        let since = *self.since.get_or_insert(now.saturating_sub(span));
        self.credit = self
            .credit
            .saturating_add(signed(grown))
            .saturating_sub(signed(spent.used));
        if spent.allowed && !span.is_zero() {
            let seen = mul_div(spent.used.get(), FULL, span.get());
            // At least half of what it was: an owner that pauses may go on as before.
            self.busy = Some(seen.max(self.busy.unwrap_or(0) / 2));
        }
        let busy = self.busy.unwrap_or(FULL).min(FULL);
        let expected = Ns::new(mul_div(next.get(), busy, FULL));
        let accruing = rate.of(next);
        // Lengths vary: what a long period needs is more than what a short one does.
        if !self.throttled {
            let most = rate.capacity.max(expected.saturating_sub(accruing));
            self.credit = self.credit.min(signed(most));
        }
        let least = signed(now.saturating_sub(since)).saturating_neg();
        self.credit = self.credit.max(least);
        self.throttled = self.credit.saturating_add(signed(accruing)) < signed(expected);
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_share_budget))]
mod tests {
    use super::super::Limit;
    use super::*;

    const PERIOD: Ns = Ns::from_ms(6);

    fn limit(percent: u32) -> Rate {
        Limit::new(percent).unwrap_or(Limit::NONE).rate()
    }

    /// Uses all of every period in which it may run, and returns the percentage of the time of 1000
    /// periods of these lengths.
    fn used_by_a_hog(percent: u32, length: fn(u64) -> Ns) -> u64 {
        let (mut budget, mut now, mut used) = (Budget::default(), Ns::ZERO, 0);
        for period in 0..1000 {
            let (span, next) = (length(period), length(period + 1));
            let spent = Spent {
                used: if budget.throttled() { Ns::ZERO } else { span },
                allowed: !budget.throttled(),
            };
            used += spent.used.get();
            now = now.saturating_add(span);
            budget.settle(limit(percent), now, span, next, &spent);
        }
        used * 100 / now.get()
    }

    #[test]
    fn hog_alone_gets_its_limit() {
        for percent in [1, 5, 20, 33, 50, 99] {
            assert!(used_by_a_hog(percent, |_| PERIOD).abs_diff(percent.into()) <= 1);
        }
        assert_eq!(used_by_a_hog(100, |_| PERIOD), 100);
    }

    #[test]
    fn hog_alone_gets_its_limit_in_periods_of_varying_length() {
        for percent in [5, 20, 50] {
            let used = used_by_a_hog(percent, |period| Ns::from_ms(18 + period * 23 % 37));
            assert!(used.abs_diff(percent.into()) <= 1);
        }
    }

    #[test]
    fn idle_time_is_saved_for_a_burst_only() {
        let mut budget = Budget::default();
        let idle = Spent {
            allowed: true,
            ..Spent::default()
        };
        for second in 1..100 {
            let now = Ns::from_ms(second * 1000);
            budget.settle(limit(20), now, Ns::from_ms(1000), PERIOD, &idle);
        }
        assert_eq!(budget.credit_ns(), 20_000_000);
        assert!(!budget.throttled());
    }

    #[test]
    fn debt_of_a_long_command_is_paid() {
        let mut budget = Budget::default();
        let long = Spent {
            used: Ns::from_ms(1000),
            allowed: true,
        };
        let second = Ns::from_ms(1000);
        budget.settle(limit(10), second, second, PERIOD, &long);
        assert_eq!(budget.credit_ns(), -900_000_000);
        let nothing = Spent::default();
        budget.settle(limit(10), Ns::from_ms(9000), second, PERIOD, &nothing);
        assert!(budget.throttled());
        budget.settle(limit(10), Ns::from_ms(10_100), second, PERIOD, &nothing);
        assert!(!budget.throttled());
    }

    /// Fills its queue with work of this many seconds whenever it may, on a GPU that is otherwise
    /// idle, until it has done so a few times and has paid for the last one. Returns the thousandths
    /// of the time that it used.
    fn used_by_queues(percent: u32, seconds: u64) -> u64 {
        const STEP: Ns = Ns::from_ms(100);
        const REFILLS: u64 = 3;
        let (mut budget, mut now, mut used) = (Budget::default(), Ns::ZERO, Ns::ZERO);
        let (mut queued, mut refills) = (Ns::ZERO, 0);
        loop {
            if !budget.throttled() {
                if refills == REFILLS {
                    return used.get() * 1000 / now.get();
                }
                refills += 1;
                queued = Ns::from_ms(seconds * 1000);
            }
            let allowed = !budget.throttled();
            // It fills the queue at once: from then on it runs whatever is decided.
            while !queued.is_zero() {
                let ran = queued.min(STEP);
                queued = queued.saturating_sub(ran);
                used = used.saturating_add(ran);
                now = now.saturating_add(STEP);
                let spent = Spent {
                    used: ran,
                    allowed: allowed && !budget.throttled(),
                };
                budget.settle(limit(percent), now, STEP, STEP, &spent);
            }
            while budget.throttled() {
                now = now.saturating_add(STEP);
                budget.settle(limit(percent), now, STEP, STEP, &Spent::default());
            }
        }
    }

    // Regression: what took longer than a minute to pay was forgiven.
    #[test]
    fn queues_of_any_length_are_paid_whole() {
        for percent in [1, 10, 40] {
            for seconds in [30, 60, 120, 600] {
                let used = used_by_queues(percent, seconds);
                let promised = u64::from(percent) * 10;
                assert!(used.abs_diff(promised) <= 1);
            }
        }
    }

    #[test]
    fn debt_grows_while_what_was_queued_runs_and_ends_when_it_is_paid() {
        let second = Ns::from_ms(1000);
        let mut budget = Budget::default();
        let runs = Spent {
            used: second,
            allowed: false,
        };
        for at in 1..=600 {
            budget.settle(limit(10), Ns::from_ms(at * 1000), second, PERIOD, &runs);
        }
        assert_eq!(budget.credit_ns(), -540_000_000_000);
        let nothing = Spent::default();
        for at in 601..=5_999 {
            budget.settle(limit(10), Ns::from_ms(at * 1000), second, PERIOD, &nothing);
            assert!(budget.throttled());
        }
        budget.settle(limit(10), Ns::from_ms(6_000_100), second, PERIOD, &nothing);
        assert!(!budget.throttled());
    }

    // A limit of one percent for a command of ten days: it is paid in a thousand, and nothing wraps.
    #[test]
    fn command_of_days_is_owed_in_full() {
        const HOUR: u64 = 3_600_000;
        let mut budget = Budget::default();
        let hour = Ns::from_ms(HOUR);
        let runs = Spent {
            used: hour,
            allowed: false,
        };
        for at in 1..=240 {
            budget.settle(limit(1), Ns::from_ms(at * HOUR), hour, PERIOD, &runs);
        }
        let owed = signed(Ns::from_ms(240 * HOUR / 100 * 99)).saturating_neg();
        assert_eq!(budget.credit_ns(), owed);
    }

    #[test]
    fn no_more_is_owed_than_the_time_since_the_limit_began() {
        let mut budget = Budget::default();
        let wrong = Spent {
            used: Ns::new(u64::MAX),
            allowed: true,
        };
        budget.settle(limit(1), Ns::from_ms(1_000), PERIOD, PERIOD, &wrong);
        assert_eq!(budget.credit_ns(), -6_000_000);
        budget.settle(limit(1), Ns::from_ms(2_000), PERIOD, PERIOD, &wrong);
        assert_eq!(budget.credit_ns(), -1_006_000_000);
    }

    #[test]
    fn owner_that_comes_back_after_long_has_paid() {
        let second = Ns::from_ms(1000);
        let mut budget = Budget::default();
        let long = Spent {
            used: second,
            allowed: true,
        };
        budget.settle(limit(10), second, second, PERIOD, &long);
        assert!(budget.throttled());
        // Nothing was measured meanwhile.
        let nothing = Spent::default();
        budget.settle(limit(10), Ns::from_ms(3_600_000), PERIOD, PERIOD, &nothing);
        assert!(!budget.throttled());
        budget.settle(limit(10), Ns::from_ms(3_600_006), PERIOD, PERIOD, &nothing);
        assert!(budget.credit_ns() <= 10_000_000);
    }

    #[test]
    fn clock_that_goes_backwards_accrues_nothing() {
        let mut budget = Budget::default();
        let idle = Spent::default();
        budget.settle(limit(50), Ns::from_ms(500), Ns::ZERO, PERIOD, &idle);
        budget.settle(limit(50), Ns::from_ms(400), Ns::ZERO, PERIOD, &idle);
        assert_eq!(budget.credit_ns(), 0);
    }
}
