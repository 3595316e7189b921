// SPDX-License-Identifier: GPL-2.0

//! [pure] Budgets: how a hard limit is kept, also by a client that is alone, and how much of a
//! coarse reserve is left.
//!
//! A budget grows by its rate, `C` in every `T` of wall time, and shrinks by the GPU time used. A
//! limit is a rate with a `T` of [`BURST`]. At every decision its owner may run until the next one
//! if what it will use fits: `credit + rate * period >= expected use`. So by the end of any period
//! that went as expected, no more has been used than has accrued. Credit that its owner could have
//! used and did not is kept up to `C`, or what a single period needs if that is more; credit that
//! accrues while it is throttled is kept. Debts, from commands longer than expected, are paid by
//! being throttled, for at most [`MAX_LIMIT_THROTTLE`].
//!
//! Bound: over any length of time, use exceeds the rate by at most the larger of `C` and one
//! polling period, plus what one polling period used beyond expectation.

use crate::fair::mul_div;
use crate::units::{signed, Ns};

/// Wall time for which unused budget of a limit is kept: with a window of two seconds, five percent
/// of the limit.
pub const BURST: Ns = Ns::from_ms(100);
/// Longest time for which a limit throttles a process without a break. What a longer command used
/// beyond it is forgiven: better than an application that seems to hang.
pub const MAX_LIMIT_THROTTLE: Ns = Ns::from_ms(60_000);

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
        let least = signed(rate.of(MAX_LIMIT_THROTTLE)).saturating_neg();
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

    #[test]
    fn debt_beyond_the_longest_throttling_is_forgiven() {
        let mut budget = Budget::default();
        let endless = Spent {
            used: Ns::from_ms(100_000_000),
            allowed: true,
        };
        budget.settle(limit(1), Ns::from_ms(1), PERIOD, PERIOD, &endless);
        assert_eq!(budget.credit_ns(), -600_000_000);
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
