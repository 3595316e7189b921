// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Admission: which reserves can be kept together.
//!
//! What is promised is a part of the GPU, or deadlines besides: those of *firm* reserves
//! ([`Terms::is_firm`](crate::engaged::Terms::is_firm)). With `C_i`, `T_i`, `D_i` the capacity, period and deadline of `i`, `n_i` its
//! submissions in a period, `L_j` the longest command of `j` times how many of them are in flight,
//! `E_i` by how much they, or a grant that is not used, may take more than was left
//! ([`Terms::overrun`](crate::engaged::Terms::overrun)), `delta` the time from the end of a command until the next one runs,
//! `C_i' = C_i + n_i * delta`, all of these have to hold:
//!
//! ```text
//! parts:               sum over all promises of C_i' / T_i  <=  limit
//! for D = every D_k:   sum over firm D_i <= D of C_i' / min(D_i, T_i)
//!                      + (sum over those but one of E_i) / D  +  (delta + B) / D  <=  limit
//! B = max over all j of  L_j                                                   if D_j > D, or j is not firm
//!                        max(C_j + ask_j + delta, L_j - E_j) - D * C_j / min(D_j, T_j)   if D_j <= D
//! ```
//!
//! The `E_i` that is left out is the least. If one firm reserve only has `D_i <= D`, `j` is another.
//!
//! **Theorem.** Under the assumptions below, each submission of a firm reserve that was admitted ends
//! by the deadline that it had when it started, as long as its client keeps its word: no submission
//! is longer than declared, and none uses more than its server has left. That deadline is `T - D`
//! before the one of its server, and `D` after it came at least, if nothing of its server waited or
//! ran then.
//!
//! *Proof.* Let `d` be the first deadline that is missed, of server `k`, and `a` the last time before
//! it at which no submission with a deadline up to `d` waited or ran. From `a` to `d` the engine runs
//! such submissions only, but for one with a later deadline that began before `a` and is not stopped,
//! and for `delta` at each change.
//!
//! 1. *Demand.* A server names a time `v` up to which it has had what it is promised (`bandwidth`).
//!    At its first arrival after `a`, `v >= a`: it was idle, or what it had was due later than `d`,
//!    and so is all that follows on it without a break. Each use `u` moves `v` by `u * T / C`, and
//!    `v <= d + T - D` at the end of a budget that is due by `d`. So what is used of server `i` that
//!    is due by `d` is `(d - a + T_i - D_i) * C_i / T_i` at most, which is `(d - a) * C_i / D_i` at most
//!    from `d - a = D_i` on, and what it overran by at the end, `E_i`: that is paid before the next
//!    start. Server `k` does not overrun while its client keeps its word. Only servers with
//!    `D_i <= d - a` have any: what comes after a break is not due before `D_i` is over.
//! 2. *Submissions.* They are counted as what is used. Of those that are due by `d`,
//!    `(d - a) * n_i / D_i` at most cost `delta` each that is charged to nobody; each further one is charged it ([`Reserve`](crate::engaged::Reserve)), and is in
//!    step 1.
//! 3. *Blocking.* The submission that began before `a`, at `s`, is due later than `d`. After it none
//!    that is due later begins, since deadlines that are promised come first, in their order, before
//!    all without. It takes `L_j` at most. If `D_j <= d - a`, its server ran ahead: its deadline
//!    `d_s > d + T - D` is less than `(C + ask + delta) * T / C` after the `v` that it started at, with
//!    the fee of a submission that is not declared. It may end early, and be due by `d` with
//!    what comes after a break, at `v` or later; with that it uses what `v` can move up to `d + T - D`, so
//!    less than `C + ask + delta` in all, of which step 1 counts `(d - a) * C / D`. If nothing of it is due
//!    by `d`, it takes `L_j`, for which step 1 counts that and `E_j`. Server `k` may have been ahead
//!    itself, unless its submission came at `a`, since nothing else is due by `d`.
//! 4. The sum of these is less than `d - a` for every `d - a >= D_k`: the test for the longest `D` that
//!    is not longer than `d - a`, from which on no part of it grows faster than `d - a`. Any server may be
//!    `k`, so that the least `E_i` is left out. So the engine was idle in between, and the
//!    submission had ended. A contradiction.
//!
//! | assumed | enforced by | fails without it |
//! |---|---|---|
//! | the earliest deadline first | with `prio`, a reserve promises a part only | `deadline_that_is_promised_comes_before_..` |
//! | nothing that is not decided on | no deadline beside protected clients ([`Why::Protected`]); what passes while all do is void (`Fallback`) | `miss_beside_work_that_was_not_decided_on_..` |
//! | no submission of a firm reserve longer than declared | one that is makes the deadlines of all others void (`Foreign`); it is paid before the next start | `miss_of_a_client_with_a_command_longer_..` |
//! | none of them as long as all may wait | a longest one of [`MAX_GRANT`](crate::engaged::MAX_GRANT) is refused | `promises_out_of_range_are_refused` |
//! | no other submission longer than was known | one that is longer than a deadline bears ([`bears`]) makes it void, and its client gets no grant until that is paid | `miss_behind_a_command_longer_than_..` |
//! | as many in flight as the mode allows | more, since the mode was changed, count together as one command | `miss_behind_more_in_flight_than_..` |
//! | `delta` | measured: `SUBMISSION`, see `docs/engaged-figures.md`; nothing enforces it | |
//! | a client that does not use its grant | has it for `RETURN` and `WINDOW` at most, which counts as a command of each, and in each `E_i` | `grants_that_are_not_used_..` |
//! | a client that dies pays | what its command held is charged at once | `clients_that_die_in_their_command_..` |
//! | who waits may pass | one that gets no grant for what it owes does not keep its server from being idle | `client_that_may_not_pass_..` |
//! | the zero-lag rule: what is free was paid for | a reserve that is changed, or set anew, begins at `v` of the one before, and of any other that was changed or cleared before it, with what is in flight of them; so the intervals before and after it add up, each with its own test | `reserve_that_grows_waits_..`, `reserve_that_is_cleared_and_set_anew_..` |
//!
//! The test is not necessary: exact for tasks is that of Jeffay, Stanat and Martel (1991), beside which
//! `loga-sim admission` puts it. TimeGraph tests [`by_sum`] only, which a long command of another client breaks.

use super::demand::{part, Fit, Set, Task, Why, WHOLE};
use crate::units::Ns;

/// Why a set of reserves cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Position of the client whose promise is in danger.
    pub of: usize,
    /// What endangers it.
    pub why: Why,
    /// With what the set would be admitted, if that is known.
    pub fits: Option<Fit>,
}

/// Whether all that is promised will be kept.
///
/// # Errors
///
/// The first promise that is in danger.
pub fn deadlines(tasks: &[Task], delta: Ns, limit_pct: u64) -> Result<(), Refusal> {
    let set = Set::new(tasks, delta, limit_pct);
    let Some((of, why)) = set.danger() else {
        return Ok(());
    };
    let fits = set.fits(of).map(|later| set.fit(of, later));
    Err(Refusal { of, why, fits })
}

/// The longest command of others that the deadline of a client bears beside all that is promised:
/// with a longer one it is not promised, whatever is admitted. Nothing for a client to which no
/// deadline is promised.
///
/// A deadline `D_k` may be missed at the end of a busy interval of any length from `D_k` on, so that
/// the least of what is left at it and at all later deadlines counts.
pub fn bears(tasks: &[Task], delta: Ns, limit_pct: u64, at: usize) -> Option<Ns> {
    Set::new(tasks, delta, limit_pct).bears(at)
}

/// TimeGraph's test: whether the promises are not more than there is.
pub fn by_sum(tasks: &[Task], limit_pct: u64) -> bool {
    let promises = tasks.iter().filter_map(|task| task.promise.as_ref());
    let parts = promises.map(|one| part(one.capacity, one.period));
    parts.fold(0_u64, u64::saturating_add) <= WHOLE / 100 * limit_pct.min(100)
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engaged_admission))]
mod tests {
    use super::super::Promise;
    use super::*;

    const DELTA: Ns = Ns::from_us(10);

    fn task(capacity_us: u64, period_us: u64, longest_us: u64) -> Task {
        let promise = Promise {
            capacity: Ns::from_us(capacity_us),
            deadline: Ns::from_us(period_us),
            period: Ns::from_us(period_us),
            commands: 1,
            ask: Some(Ns::from_us(longest_us)),
            overrun: Ns::ZERO,
        };
        Task {
            promise: Some(promise),
            longest: Ns::from_us(longest_us),
        }
    }

    fn background(longest_us: u64) -> Task {
        Task {
            promise: None,
            longest: Ns::from_us(longest_us),
        }
    }

    #[test]
    fn deadlines_of_a_light_set_are_admitted() {
        let set = [
            task(1000, 10_000, 1000),
            task(2000, 20_000, 1000),
            background(500),
        ];
        assert_eq!(deadlines(&set, DELTA, 90), Ok(()));
    }

    #[test]
    fn deadlines_beside_a_long_command_of_the_background_are_refused_by_its_name() {
        let set = [task(1000, 10_000, 1000), background(20_000)];
        assert!(by_sum(&set, 90));
        let refusal = deadlines(&set, DELTA, 90).unwrap_err();
        assert_eq!((refusal.of, refusal.why), (0, Why::Command(1)));
        // 1 ms and 20 ms, with 20 us of costs, in 90 % of it.
        let Some(Fit::Period(fits)) = refusal.fits else {
            panic!("{refusal:?}");
        };
        let expected = Ns::from_us(21_020 * 10 / 9);
        assert!(fits.get().abs_diff(expected.get()) < 2_000);
        let longer = [task(1000, fits.get().div_ceil(1000), 1000), set[1]];
        assert_eq!(deadlines(&longer, DELTA, 90), Ok(()));
    }

    #[test]
    fn deadlines_of_a_sum_above_the_limit_are_refused() {
        let set = [task(5000, 10_000, 100), task(4100, 10_000, 100)];
        assert!(!by_sum(&set, 90));
        let refusal = deadlines(&set, DELTA, 90).unwrap_err();
        assert_eq!(refusal.why, Why::Sum);
    }

    #[test]
    fn deadlines_of_many_short_commands_are_refused_for_their_costs() {
        let mut set = [task(500, 1000, 5)];
        set[0].promise.as_mut().unwrap().commands = 100;
        let refusal = deadlines(&set, DELTA, 90).unwrap_err();
        assert_eq!(refusal.why, Why::Costs);
    }

    #[test]
    fn deadlines_later_than_those_of_a_hard_reserve_are_not_blocked_by_it() {
        // With L <= C the other runs on deadlines of 20 ms at most.
        let set = [task(1000, 10_000, 1000), task(5000, 25_000, 100)];
        assert_eq!(deadlines(&set, DELTA, 31), Ok(()));
        // Its commands may run on deadlines of up to 40 ms.
        let long = [task(1000, 10_000, 3000), set[1]];
        assert_eq!(
            deadlines(&long, DELTA, 31).unwrap_err().why,
            Why::Command(0)
        );
    }

    #[test]
    fn deadline_beside_a_part_is_blocked_by_its_longest_command_only() {
        let mut set = [task(1000, 10_000, 1000), task(7900, 10_000, 500)];
        assert!(deadlines(&set, DELTA, 90).is_err());
        set[1].promise.as_mut().unwrap().ask = None;
        assert_eq!(deadlines(&set, DELTA, 90), Ok(()));
        assert_eq!(bears(&set, DELTA, 90, 1), None);
        // The parts still have to fit.
        set[1].promise.as_mut().unwrap().capacity = Ns::from_us(8_100);
        assert_eq!(deadlines(&set, DELTA, 90).unwrap_err().why, Why::Sum);
        set[1].promise.as_mut().unwrap().capacity = Ns::from_us(7_900);
        set[1].longest = Ns::from_us(7_990);
        let refusal = deadlines(&set, DELTA, 90).unwrap_err();
        assert_eq!((refusal.of, refusal.why), (0, Why::Command(1)));
    }

    #[test]
    fn deadline_counts_what_commands_of_others_may_overrun() {
        let mut set = [task(1000, 10_000, 1000), task(5000, 20_000, 100)];
        // 2 ms in 20 ms more.
        set[0].promise.as_mut().unwrap().overrun = Ns::from_us(2_000);
        assert!(deadlines(&set, DELTA, 45).is_err());
        assert_eq!(deadlines(&set, DELTA, 51), Ok(()));
    }

    #[test]
    fn deadline_counts_what_later_ones_may_overrun_once_they_are_due() {
        let mut set = [task(1000, 10_000, 1000), task(5000, 20_000, 100)];
        // The first may be missed in 20 ms too, of which the other one overruns 2.
        set[1].promise.as_mut().unwrap().overrun = Ns::from_us(2_000);
        assert!(deadlines(&set, DELTA, 44).is_err());
        assert_eq!(deadlines(&set, DELTA, 51), Ok(()));
    }

    #[test]
    fn deadline_is_blocked_by_one_on_later_budgets_up_to_what_is_counted_of_it() {
        // Up to 20 ms, 10 ms are counted of the first, of 10.11 that it may use: its command of 5 ms
        // keeps nothing else up for longer than 110 us.
        let set = |deadline| [task(5000, 10_000, 5000), task(2000, deadline, 100)];
        assert_eq!(deadlines(&set(20_000), DELTA, 62), Ok(()));
        // Up to 13 ms, 6.5 ms are counted, and 3.51 of 5 may come before the other's 2.
        assert!(deadlines(&set(13_000), DELTA, 92).is_err());
        assert_eq!(deadlines(&set(13_000), DELTA, 93), Ok(()));
    }

    #[test]
    fn deadline_bears_a_command_up_to_the_one_that_is_refused() {
        let of = |longest| [task(1000, 10_000, 1000), background(longest)];
        let borne = bears(&of(0), DELTA, 90, 0).unwrap();
        let us = borne.get() / 1000;
        // 9 ms less 1 ms and 20 us of costs.
        assert_eq!(us, 7_979);
        assert_eq!(deadlines(&of(us), DELTA, 90), Ok(()));
        assert!(deadlines(&of(us + 2), DELTA, 90).is_err());
        assert_eq!(bears(&of(0), DELTA, 90, 1), None);
    }

    #[test]
    fn deadline_bears_no_more_than_later_ones_leave() {
        // At 20 ms 18.03 are left less 17 and the costs, at 10 ms it would be 8.
        let set = [task(1000, 10_000, 100), task(15_000, 20_000, 100)];
        let first = bears(&set, DELTA, 90, 0).unwrap();
        assert_eq!(bears(&set, DELTA, 90, 1), Some(first));
        assert!(first < Ns::from_us(1_000));
    }

    #[test]
    fn deadlines_of_no_promise_are_met() {
        assert_eq!(deadlines(&[background(1_000_000)], DELTA, 90), Ok(()));
    }
}
