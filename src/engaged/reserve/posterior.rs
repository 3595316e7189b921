// SPDX-License-Identifier: GPL-2.0

//! `[pure]` PE, posterior enforcement: a command starts while `e > 0`, and pays when it ends.
//!
//! `e` is what is left: `e += C` at the end of each period, `e -= used` at the end of a command, and
//! while no command runs or waits `e` is `C` at most; while one waits for others, what accrues in
//! 100 ms more, so that their commands may be longer than the period. The paper caps `e` during a
//! command too, before it is paid: a command longer than the period then loses what accrues while it
//! runs, and its client gets less than it is promised. Here a command that is paid leaves `C` at most, if
//! no more was left at its start.
//!
//! Bound: in any window `w` that begins with the start of a command, one command at a time of length
//! `L` at most uses `(floor(w / T) + 2) * C + L` at most, if no other client holds it up, and catches up
//! what it was held up for; any other window is a part of such a one.
//! *Proof*: `C` at most is left when the window begins, and there are `floor(w / T) + 1`
//! replenishments in it at most. A command starts only while something is left, so all but the last
//! one are paid from these; the last one adds `L`. In the long run, a client that always wants more
//! uses `C` in every `T`: what a command overran is missing later, and what accrues while one runs is
//! cut, once that is paid, only for a client that did not use what it had.
//!
//! Good for: any command length, no expectation needed. Bad for: a deadline, since what is saved at
//! the end of one period and given at the begin of the next may be used at once (the `2 * C`).
//! Source: TimeGraph, 5.1 and 5.2.

use super::terms::{Keeper, Terms};
use crate::candidate::{Offer, Rank};
use crate::engaged::limits::{LATE, MAX_DEBT};
use crate::units::{signed, unsigned, Ns};

/// What is left of a reserve under PE.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posterior {
    /// What is left, in nanoseconds.
    left: i64,
    /// End of the period.
    next: Ns,
    /// Commands in flight.
    running: u32,
    /// Whether one waits.
    waits: bool,
    /// More than a capacity was left when the first of those in flight started: its client was held up,
    /// and catches up.
    catches_up: bool,
}

impl Posterior {
    /// With this much left; periods begin now.
    pub(super) fn new(terms: &Terms, now: Ns, left: i64) -> Self {
        Self {
            left,
            next: now.saturating_add(terms.period),
            running: 0,
            waits: false,
            catches_up: false,
        }
    }

    /// As it is at this time.
    fn at(&self, terms: &Terms, now: Ns) -> Self {
        let periods = ended(self.next, terms.period, now);
        if periods == 0 {
            return *self;
        }
        let more = signed(terms.capacity.saturating_mul(periods));
        let left = self.left.saturating_add(more);
        let most = match (self.running, self.waits) {
            (0, false) => signed(terms.capacity),
            (0, true) => signed(terms.capacity.saturating_add(terms.capacity_in(LATE))),
            _ => i64::MAX,
        };
        Self {
            left: left.min(most),
            next: self
                .next
                .saturating_add(terms.period.saturating_mul(periods)),
            ..*self
        }
    }
}

impl Keeper for Posterior {
    fn wanted(&mut self, terms: &Terms, now: Ns, cost: Option<Ns>, _: bool) {
        *self = self.at(terms, now);
        self.waits = cost.is_some();
    }

    fn offer(&self, terms: &Terms, now: Ns, _: Ns) -> Offer {
        let state = self.at(terms, now);
        if state.left > 0 {
            return Offer {
                from: now,
                deadline: Some(state.next),
                promised: None,
                rank: Rank::Part,
            };
        }
        // Periods to wait for beyond the end of this one.
        let debt = unsigned(state.left.saturating_neg()).get();
        let periods = debt / terms.capacity.get().max(1);
        let from = state
            .next
            .saturating_add(terms.period.saturating_mul(periods));
        Offer {
            from,
            deadline: Some(from.saturating_add(terms.period)),
            promised: None,
            rank: Rank::Part,
        }
    }

    fn start(&mut self, terms: &Terms, now: Ns, _: Ns) {
        *self = self.at(terms, now);
        if self.running == 0 {
            self.catches_up = self.left > signed(terms.capacity);
        }
        self.running = self.running.saturating_add(1);
    }

    fn end(&mut self, terms: &Terms, now: Ns, _: Ns, used: Ns) {
        *self = self.at(terms, now);
        let least = signed(terms.capacity_in(MAX_DEBT)).saturating_neg();
        self.left = self.left.saturating_sub(signed(used)).max(least);
        self.running = self.running.saturating_sub(1);
        if self.running == 0 && !self.waits && !self.catches_up {
            self.left = self.left.min(signed(terms.capacity));
        }
        *self = self.at(terms, now);
    }

    fn resize(&mut self, before: &Terms, now: Ns) {
        *self = self.at(before, now);
    }

    fn left(&self, terms: &Terms, now: Ns) -> i64 {
        self.at(terms, now).left
    }

    fn paid_until(&self, terms: &Terms, now: Ns) -> Ns {
        let state = self.at(terms, now);
        terms.paid_until(state.left, state.next)
    }
}

/// Periods that have ended by now, if the first ends at `next`.
pub(super) fn ended(next: Ns, period: Ns, now: Ns) -> u64 {
    if now < next {
        return 0;
    }
    let since = now.saturating_sub(next).get();
    (since / period.get().max(1)).saturating_add(1)
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engaged_posterior))]
mod tests {
    use super::super::{Kind, Reserve};
    use super::*;

    const MS: fn(u64) -> Ns = Ns::from_ms;

    fn reserve() -> Reserve {
        let terms = Terms::new(Kind::Pe, MS(2), MS(10));
        Reserve::new(terms.unwrap(), Ns::ZERO)
    }

    fn run(reserve: &mut Reserve, from: Ns, used: Ns) {
        reserve.start(from, used);
        reserve.end(from.saturating_add(used), used, used);
    }

    #[test]
    fn posterior_with_something_left_starts_any_command() {
        let mut reserve = reserve();
        run(&mut reserve, MS(0), Ns::from_us(1999));
        assert_eq!(reserve.offer(MS(2), MS(5000)).from, MS(2));
    }

    #[test]
    fn posterior_pays_an_overrun_from_the_next_periods() {
        let mut reserve = reserve();
        run(&mut reserve, MS(0), MS(5));
        assert_eq!(reserve.left(MS(5)), -3_000_000);
        // After 10 ms, 1 ms is still owed.
        assert_eq!(reserve.offer(MS(5), MS(1)).from, MS(20));
        assert_eq!(reserve.offer(MS(19), MS(1)).from, MS(20));
        assert_eq!(reserve.left(MS(20)), 1_000_000);
    }

    #[test]
    fn posterior_after_a_debt_of_whole_periods_waits_for_something() {
        let mut reserve = reserve();
        run(&mut reserve, MS(0), MS(4));
        // At 10 ms nothing is left, which is not enough.
        assert_eq!(reserve.offer(MS(4), MS(1)).from, MS(20));
        assert_eq!(reserve.offer(MS(10), MS(1)).from, MS(20));
    }

    #[test]
    fn posterior_counts_the_periods_that_a_command_lasts() {
        let mut reserve = reserve();
        // 30 ms are what 15 periods give: 2 ms at the start, 14 periods.
        run(&mut reserve, MS(0), MS(30));
        assert_eq!(reserve.offer(MS(30), MS(1)).from, MS(150));
    }

    #[test]
    fn posterior_saves_no_more_than_one_capacity() {
        assert_eq!(reserve().left(MS(1000)), 2_000_000);
    }

    #[test]
    fn posterior_that_others_keep_waiting_for_periods_has_what_accrues() {
        let mut reserve = reserve();
        reserve.wait(MS(0), MS(1));
        // It waits for commands of 35 ms, and starts at once whenever one has ended.
        let (mut now, mut used) = (MS(0), 0);
        while now < MS(1000) {
            now = now.saturating_add(MS(35));
            while reserve.offer(now, MS(1)).from <= now {
                reserve.stop_waiting(now);
                run(&mut reserve, now, MS(1));
                now = now.saturating_add(MS(1));
                used += 1;
                reserve.wait(now, MS(1));
            }
        }
        assert!(used >= 198);
        // Not more than 100 ms of it.
        assert_eq!(reserve.left(MS(3000)), 22_000_000);
    }

    #[test]
    fn posterior_forgives_what_takes_longer_than_the_longest_debt() {
        let mut reserve = reserve();
        run(&mut reserve, MS(0), MS(1_000_000));
        let now = MS(1_000_000);
        assert!(reserve.offer(now, MS(1)).from <= now.saturating_add(MS(60_010)));
        assert!(reserve.offer(now, MS(1)).from >= now.saturating_add(MS(59_990)));
    }
}
