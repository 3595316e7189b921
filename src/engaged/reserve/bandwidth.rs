// SPDX-License-Identifier: GPL-2.0

//! `[pure]` CBS: a constant-bandwidth server for commands that cannot be stopped.
//!
//! State: `e`, what is left, and `d`, the deadline up to which it is for. Both together name a time
//! `v = d - e * T / C`, up to which the server has had all that it is promised. Each use `u` moves
//! `v` by `u * T / C`, and nothing moves it back.
//!
//! - *Arrival* at `t` when nothing of the server waits or runs: if `v <= t`, then `e = C` and
//!   `d = t + T`. Otherwise both stay: a debt or what was used ahead is not forgotten.
//! - *Start* of a command of expected cost `x`: if `e < 0`, then `e = 0` and `d = v`. While `x > e`,
//!   `e += C` and `d += T`, which leaves `v` as it is. Then `e -= x`. Soft: at once, after all others
//!   if it had to postpone. Hard: not before `v` then.
//! - *Late*: where `v < now - T`, for work that was not decided on or was too long, `d` moves by what
//!   is missing: one period is caught up (100 ms more where no deadline is promised), not all of it.
//!   A firm server whose command needs several periods has them: it is late when `d` is over.
//! - *End* after `u`: `e += x - u`.
//!
//! No waste: a command that does not fit takes what is left with it, since postponing keeps `v`. So
//! a client that always wants more and is not held up by others uses at least
//! `w * C / T - C - L` in any time `w`. No starvation: the budget for `x > C` is there after
//! `ceil(x / C)` postponements, at once.
//!
//! Bound (hard; `L` the longest command, and of a client that declares nothing the most that was
//! expected of one besides, 5 ms of a new one): a client that is not held up by others uses
//! `w * C / T + C + L` at most in any window `w`. *Proof*: let the window begin with a start at `s`.
//! Before it `v >= s` or the command follows in a budget for which `v <= s` held at its first start;
//! in either case what is used until `v` is caught up is a part of one budget, which is less than
//! `C + x`. All later use moves `v` by `T / C` for each unit, and a start needs `v <= now` or a rest
//! of the budget. A client that is held up for long catches up as under *Late*.
//!
//! Deadlines: under earliest deadline first, firm servers that pass
//! [`deadlines`](crate::engaged::deadlines) meet `d`; the proof is there. It needs that postponing keeps `v`,
//! that an arrival after a break sets `v` to its time at least, and that a debt is paid before the
//! next start, with a whole period from then on. With a deadline `D` before the end of the period,
//! what is promised is `d - (T - D)`, and `d` stays what the server counts with: all of the above
//! holds for it as it is. A budget of `e' = e + k * C` that is there from `v` on has `d = v + e' * T / C`,
//! and is due at `v + e' * T / C - (T - D)`, so `D` after `v` or later, since `e' >= C` after
//! postponing. Long commands, debts and changed terms come to that too: each starts anew at a `v`.
//!
//! Two rules that look simpler are wrong. To also move `d` by `e * T / C` when it is postponed, and to
//! let hard servers wait for the old `d`, loses a sixth for `x = 0.6 * C`. To set `e = C` on each
//! arrival after `d` forgives debts.
//! Source: Abeni and Buttazzo, RTSS 1998, for CBS; total-bandwidth server for what `v` does.

use super::terms::{Keeper, Terms};
use crate::candidate::{Offer, Rank};
use crate::engaged::limits::{LATE, MAX_DEBT};
use crate::units::{signed, unsigned, Ns};

/// What is left of a reserve under CBS.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bandwidth {
    /// What is left, in nanoseconds.
    left: i64,
    /// Up to when it is for.
    deadline: Ns,
}

impl Bandwidth {
    /// As after an arrival now.
    pub(super) fn new(terms: &Terms, now: Ns) -> Self {
        Self {
            left: signed(terms.capacity),
            deadline: now.saturating_add(terms.period),
        }
    }

    /// With nothing left; what comes next may be used from this time on.
    pub(super) const fn after(from: Ns) -> Self {
        Self {
            left: 0,
            deadline: from,
        }
    }

    /// What it has been late with for longer than its period is lost; if it is not firm, beyond
    /// [`LATE`] more. A firm one whose deadline for a command of this cost is not over is not late,
    /// however many periods that is for.
    fn caught_up(&self, terms: &Terms, now: Ns, cost: Ns) -> Self {
        let most = match terms.is_firm() {
            true => {
                let with = self.postponed(terms, cost).left;
                terms.period.max(terms.time_for(unsigned(with)))
            }
            false => terms.period.saturating_add(LATE),
        };
        let from = now.saturating_sub(most);
        let lost = from.saturating_sub(self.virtual_time(terms));
        Self {
            deadline: self.deadline.saturating_add(lost),
            ..*self
        }
    }

    /// Up to when it has had all that it is promised.
    pub(super) fn virtual_time(&self, terms: &Terms) -> Ns {
        let time = |ns| terms.time_for(unsigned(ns));
        if self.left < 0 {
            return self
                .deadline
                .saturating_add(time(self.left.saturating_neg()));
        }
        // Rounded up: the time that is subtracted is rounded down.
        let (left, c) = (unsigned(self.left), terms.capacity.get().max(1));
        let before = crate::fair::mul_div(left.get(), terms.period.get(), c);
        self.deadline.saturating_sub(Ns::new(before))
    }

    /// With enough for a command of this cost. What is owed is paid first: the next budget has a
    /// whole period then.
    fn postponed(&self, terms: &Terms, cost: Ns) -> Self {
        let paid = match self.left < 0 {
            true => Self::after(self.virtual_time(terms)),
            false => *self,
        };
        let missing = unsigned(signed(cost).saturating_sub(paid.left)).get();
        let times = missing.div_ceil(terms.capacity.get().max(1));
        let more = signed(terms.capacity.saturating_mul(times));
        Self {
            left: paid.left.saturating_add(more),
            deadline: paid
                .deadline
                .saturating_add(terms.period.saturating_mul(times)),
        }
    }
}

impl Keeper for Bandwidth {
    fn wanted(&mut self, terms: &Terms, now: Ns, cost: Option<Ns>, idle: bool) {
        if idle && cost.is_some() && self.virtual_time(terms) <= now {
            *self = Self::new(terms, now);
        }
    }

    fn offer(&self, terms: &Terms, now: Ns, cost: Ns) -> Offer {
        let state = self.caught_up(terms, now, cost);
        let with = state.postponed(terms, cost);
        Offer {
            from: match with.deadline == state.deadline {
                true => now,
                false => state.virtual_time(terms).max(now),
            },
            deadline: Some(with.deadline),
            promised: Some(self.postponed(terms, cost).deadline),
            rank: Rank::Part,
        }
    }

    fn start(&mut self, terms: &Terms, now: Ns, cost: Ns) {
        let state = self.caught_up(terms, now, cost);
        *self = state.postponed(terms, cost);
        self.left = self.left.saturating_sub(signed(cost));
    }

    fn end(&mut self, terms: &Terms, _: Ns, cost: Ns, used: Ns) {
        let least = signed(terms.capacity_in(MAX_DEBT)).saturating_neg();
        let left = self
            .left
            .saturating_add(signed(cost))
            .saturating_sub(signed(used));
        self.left = left.max(least);
    }

    fn resize(&mut self, before: &Terms, now: Ns) {
        *self = Self::after(self.virtual_time(before).max(now));
    }

    fn left(&self, _: &Terms, _: Ns) -> i64 {
        self.left
    }

    fn paid_until(&self, terms: &Terms, _: Ns) -> Ns {
        self.virtual_time(terms)
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engaged_bandwidth))]
mod tests {
    use super::super::{Kind, Reserve};
    use super::*;

    fn us(us: u64) -> Ns {
        Ns::from_us(us)
    }

    fn terms(hard: bool) -> Terms {
        let terms = Terms::new(Kind::Cbs, us(1000), us(10_000)).unwrap();
        Terms { hard, ..terms }
    }

    fn start(reserve: &mut Reserve, now: Ns, cost: Ns) {
        reserve.wait(now, cost);
        reserve.stop_waiting(now);
        reserve.start(now, cost);
    }

    #[test]
    fn bandwidth_after_a_break_begins_anew() {
        let mut reserve = Reserve::new(terms(true), Ns::ZERO);
        start(&mut reserve, us(0), us(900));
        reserve.end(us(900), us(900), us(900));
        reserve.wait(us(9000), us(900));
        assert_eq!(reserve.left(us(9000)), 1_000_000);
        assert_eq!(reserve.offer(us(9000), us(900)).deadline, Some(us(19_000)));
    }

    #[test]
    fn bandwidth_before_its_time_keeps_what_was_used() {
        let mut reserve = Reserve::new(terms(true), Ns::ZERO);
        start(&mut reserve, us(0), us(900));
        reserve.end(us(900), us(900), us(900));
        reserve.wait(us(8999), us(900));
        let offer = reserve.offer(us(8999), us(900));
        assert_eq!((offer.from, offer.deadline), (us(9000), Some(us(20_000))));
    }

    #[test]
    fn bandwidth_for_a_long_command_postpones_at_once() {
        let mut reserve = Reserve::new(terms(true), Ns::ZERO);
        reserve.wait(us(0), us(3500));
        let offer = reserve.offer(us(0), us(3500));
        assert_eq!((offer.from, offer.deadline), (us(0), Some(us(40_000))));
    }

    #[test]
    fn bandwidth_that_is_soft_starts_at_once_after_all_others() {
        let mut reserve = Reserve::new(terms(false), Ns::ZERO);
        start(&mut reserve, us(0), us(1000));
        reserve.end(us(1000), us(1000), us(1000));
        let offer = reserve.offer(us(1000), us(1000));
        assert_eq!((offer.from, offer.deadline), (us(1000), None));
        assert_eq!(offer.rank, Rank::Beyond);
        // Up to its part it has its deadline.
        let offer = reserve.offer(us(10_000), us(1000));
        assert_eq!((offer.deadline, offer.rank), (Some(us(20_000)), Rank::Part));
    }

    #[test]
    fn bandwidth_catches_up_what_it_is_late_with_for_a_period() {
        let firm = Terms {
            longest: Some(us(500)),
            ..terms(true)
        };
        for (terms, most) in [(firm, us(10_000)), (terms(true), us(110_000))] {
            let mut reserve = Reserve::new(terms, Ns::ZERO);
            reserve.wait(us(0), us(500));
            let now = us(5_000_000);
            let offer = reserve.offer(now, us(500));
            assert_eq!(offer.from, now);
            assert_eq!(
                offer.deadline,
                Some(now.saturating_sub(most).saturating_add(us(10_000)))
            );
            assert_eq!(offer.promised, terms.ask().map(|_| us(10_000)));
            // It uses all that it may at once: what is caught up, and one capacity.
            let mut used = 0;
            while reserve.offer(now, us(500)).from == now {
                reserve.start(now, us(500));
                reserve.end(now, us(500), us(500));
                used += 500;
            }
            assert_eq!(used, most.get() / 10_000 + 1000);
        }
    }

    #[test]
    fn bandwidth_of_a_long_command_is_not_late_before_its_deadline() {
        let firm = Terms {
            longest: Some(us(3_500)),
            ..terms(true)
        };
        let mut reserve = Reserve::new(firm, Ns::ZERO);
        reserve.wait(us(0), us(3_500));
        for (now, deadline) in [
            (0, 40_000),
            (15_000, 40_000),
            (39_999, 40_000),
            (41_000, 41_000),
        ] {
            let offer = reserve.offer(us(now), us(3_500));
            assert_eq!(offer.deadline, Some(us(deadline)));
            assert_eq!(offer.promised, Some(us(40_000)));
        }
    }

    #[test]
    fn bandwidth_that_is_changed_keeps_what_was_used_ahead() {
        let mut reserve = Reserve::new(terms(true), Ns::ZERO);
        start(&mut reserve, us(0), us(900));
        reserve.end(us(900), us(900), us(900));
        // Paid for at 9 ms. A hundredth of it from 1 ms on: 10 us in 10 ms.
        let less = Terms {
            capacity: us(10),
            ..terms(true)
        };
        reserve.resize(us(1_000), less);
        let offer = reserve.offer(us(1_000), us(10));
        assert_eq!((offer.from, offer.deadline), (us(9_000), Some(us(19_000))));
    }

    #[test]
    fn bandwidth_keeps_a_debt_past_its_deadline() {
        let mut reserve = Reserve::new(terms(true), Ns::ZERO);
        start(&mut reserve, us(0), us(100));
        reserve.end(us(5000), us(100), us(5000));
        // 5 ms were used, 50 ms are paid for.
        reserve.wait(us(20_000), us(100));
        assert_eq!(reserve.left(us(20_000)), -4_000_000);
        assert_eq!(reserve.offer(us(20_000), us(100)).from, us(50_000));
        reserve.stop_waiting(us(20_000));
        reserve.wait(us(50_000), us(100));
        assert_eq!(reserve.left(us(50_000)), 1_000_000);
    }
}
