// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Allowances: accounts of GPU time that earn a part of all time, for what passes against the
//! order.
//!
//! *Floor*: what no priority takes from the other clients. Rule: of the clients without a reserve, one
//! that has waited for [`STARVED`](super::STARVED) passes before those of a higher priority, while the
//! account has anything left. The account earns a twentieth of all time, 50 ms at most, and pays what
//! those submissions use.
//!
//! Bound: all that pass this way use at most a twentieth of any window, 50 ms, and one submission more.
//! If their submissions fit into that, none of `n` clients waits for longer than `STARVED` and the
//! submissions of all. A client with a reserve is never passed over: what was promised is kept. A client
//! that waits for protected work, with a reserve or without, passes by the same rule.
//!
//! *Overlap*: what a client may run beside the turns of clients that come before it, see
//! `turn::leftovers`.

use crate::units::{signed, unsigned, Ns};

/// What an account owes beyond its bound counts as a part of it, one in so many.
const BEYOND: u64 = 100;

/// An account that earns a `PART`th of all time, `MOST_MS` at most, and owes `OWES_MS` in full; of
/// what is more than that it owes one part in [`BEYOND`], or nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account<const PART: u64, const MOST_MS: u64, const OWES_MS: u64> {
    /// What it had then, in ns; negative if it owes some.
    left: i64,
    at: Ns,
}

impl<const PART: u64, const MOST_MS: u64, const OWES_MS: u64> Account<PART, MOST_MS, OWES_MS> {
    /// Whether it has anything left.
    pub(super) fn has(&self, now: Ns) -> bool {
        self.left(now) > 0
    }

    /// Whether it owes any.
    pub(super) fn owes(&self, now: Ns) -> bool {
        self.left(now) < 0
    }

    /// From when on it has anything, if it pays nothing until then.
    pub(super) fn from(&self, now: Ns) -> Ns {
        let owed = unsigned(self.left(now).saturating_neg()).get();
        let earns = owed.saturating_add(1).saturating_mul(PART);
        if self.has(now) {
            now
        } else {
            now.saturating_add(Ns::new(earns))
        }
    }

    /// Pays what a submission used.
    pub(super) fn pay(&mut self, now: Ns, used: Ns) {
        let beyond = self.pay_in_full(now, used);
        let counts = Ns::new(beyond.get() / BEYOND);
        self.left = self.left.saturating_sub(signed(counts));
    }

    /// Pays what a submission used, as far as it owes that in full. Returns the rest.
    pub(super) fn pay_in_full(&mut self, now: Ns, used: Ns) -> Ns {
        let left = self.left(now);
        let room = unsigned(left.saturating_add(signed(Ns::from_ms(OWES_MS))));
        self.left = left.saturating_sub(signed(used.min(room)));
        self.at = now;
        used.saturating_sub(room)
    }

    fn left(&self, now: Ns) -> i64 {
        let earned = now.saturating_sub(self.at).get().checked_div(PART);
        let earned = signed(Ns::new(earned.unwrap_or(0)));
        self.left
            .saturating_add(earned)
            .min(signed(Ns::from_ms(MOST_MS)))
    }
}

/// What clients that have waited for too long may use. What it owes has no bound that matters.
pub(super) type Floor = Account<20, 50, 1_000_000_000>;

/// What a client may run beside the turns of clients that come before it.
pub(super) type Overlap = Account<1000, 10, 60>;

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engaged_allowance))]
mod tests {
    use super::*;

    const MS: fn(u64) -> Ns = Ns::from_ms;

    #[test]
    fn account_that_has_not_earned_pays_a_thousand_times_as_long() {
        let mut account = Overlap::default();
        account.pay(MS(0), MS(40));
        assert!(account.owes(MS(39_999)));
        assert_eq!(
            account.from(MS(0)),
            MS(40_000).saturating_add(Ns::new(1000))
        );
    }

    // Regression: what was more than 60 ms was forgiven, and a queue of ten minutes that was filled
    // again whenever it might be had ten parts in eleven of the time.
    #[test]
    fn what_ran_for_long_is_a_tenth_of_the_time() {
        let mut account = Overlap::default();
        let mut now = Ns::ZERO;
        for _ in 0..600 {
            now = now.saturating_add(MS(1000));
            account.pay(now, MS(1000));
        }
        let pays = account.from(now).saturating_sub(now);
        // It earned while it ran.
        assert!(pays > MS(5_450_000));
        assert!(pays < MS(5_470_000));
    }

    #[test]
    fn what_is_owed_in_full_has_a_bound() {
        let mut account = Overlap::default();
        assert_eq!(account.pay_in_full(MS(0), MS(1000)), MS(940));
        assert_eq!(account.pay_in_full(MS(0), MS(1000)), MS(1000));
        assert!(account.owes(MS(59_999)));
        assert!(account.has(MS(60_002)));
    }

    #[test]
    fn account_of_any_time_stays_in_range() {
        let mut account = Overlap::default();
        account.pay(MS(0), Ns::new(u64::MAX));
        account.pay(MS(1), Ns::new(u64::MAX));
        assert!(account.owes(MS(2)));
        assert!(!account.has(Ns::new(u64::MAX)));
    }
}
