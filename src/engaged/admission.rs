// SPDX-License-Identifier: GPL-2.0

//! [pure] Admission: which reserves can be kept together.
//!
//! Commands are not stopped, so a reserve with deadline `D` may wait for one command of another
//! client with a later deadline. With `L_j` the longest command of `j`, `delta` the time from the
//! end of a command until the next one runs, `n_i` the commands of `i` in a period and
//! `C_i' = C_i + n_i * delta`, all of these have to hold (earliest deadline first):
//!
//! ```text
//! for every k:  sum over D_i <= D_k of C_i' / min(D_i, T_i)  +  B_k / D_k  <=  limit
//! B_k = delta + max L_j over all j != k whose commands may have a later deadline than k's:
//!       clients without a promise and soft reserves always,
//!       hard reserves if D_j + ceil(L_j / C_j) * T_j > D_k (they run on postponed deadlines)
//! ```
//!
//! This is the blocking test of the stack resource policy (Baker, 1991), sufficient and not
//! necessary; the exact condition is that of Jeffay, Stanat and Martel, 1991. TimeGraph tests
//! `sum C_i / T_i <= limit` only ([`by_sum`]), which promises what a long command of another client
//! then breaks.

use crate::fair::mul_div;
use crate::units::Ns;

/// One, in parts of an engine.
const WHOLE: u64 = 1 << 32;
/// Longest deadline that is looked for.
const LONGEST: Ns = Ns::from_ms(10_000);

/// What a client is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// GPU time in each period.
    pub capacity: Ns,
    /// By when, from the begin of the period.
    pub deadline: Ns,
    /// The period.
    pub period: Ns,
    /// Most commands in a period.
    pub commands: u64,
    /// Whether it is a limit too.
    pub hard: bool,
}

/// A client, with or without a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// What it is promised, if anything.
    pub promise: Option<Promise>,
    /// Its longest command.
    pub longest: Ns,
}

/// Why a set of reserves cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Position of the client whose deadline is in danger.
    pub of: usize,
    /// What endangers it.
    pub why: Why,
    /// A later deadline for it with which the set would be admitted, if there is one; the period
    /// is then this long at least.
    pub fits: Option<Ns>,
}

/// What endangers a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Too much is promised.
    Sum,
    /// A command of the client at this position is too long.
    Command(usize),
    /// The costs of submissions are too high.
    Costs,
}

/// Whether all deadlines will be met.
///
/// # Errors
///
/// The first deadline that is in danger.
pub fn deadlines(tasks: &[Task], delta: Ns, limit_pct: u64) -> Result<(), Refusal> {
    let set = Set::new(tasks, delta, limit_pct);
    let Some((of, why)) = set.danger() else {
        return Ok(());
    };
    let fits = set.fits(of);
    Err(Refusal { of, why, fits })
}

/// The longest command of others that the deadline of a client bears beside all that is promised:
/// with a longer one it is not promised, whatever is admitted. Nothing for a client without a
/// promise.
///
/// A deadline `D_k` may be missed at the end of a busy interval of any length from `D_k` on, so that
/// the least of what is left at it and at all later deadlines counts.
pub fn bears(tasks: &[Task], delta: Ns, limit_pct: u64, at: usize) -> Option<Ns> {
    let set = Set::new(tasks, delta, limit_pct);
    let own = set.promise(at)?;
    let promises = (0..tasks.len()).filter_map(|other| set.promise(other));
    let later = promises.filter(|other| other.deadline >= own.deadline);
    let borne = later.map(|other| {
        let (sum, costs) = set.demand(&other);
        let left = set.limit.saturating_sub(sum).saturating_sub(costs);
        Ns::new(mul_div(other.deadline.get(), left, WHOLE))
    });
    borne.min()
}

/// TimeGraph's test: whether the promises are not more than there is.
pub fn by_sum(tasks: &[Task], limit_pct: u64) -> bool {
    let promises = tasks.iter().filter_map(|task| task.promise.as_ref());
    let parts = promises.map(|one| part(one.capacity, one.period));
    parts.fold(0_u64, u64::saturating_add) <= WHOLE / 100 * limit_pct.min(100)
}

/// `time / of`, rounded up.
fn part(time: Ns, of: Ns) -> u64 {
    mul_div(time.get(), WHOLE, of.get().max(1)).saturating_add(1)
}

/// Clients, of which one may have another deadline than it says.
struct Set<'a> {
    tasks: &'a [Task],
    delta: Ns,
    limit: u64,
    changed: Option<(usize, Ns)>,
}

impl<'a> Set<'a> {
    fn new(tasks: &'a [Task], delta: Ns, limit_pct: u64) -> Self {
        Self {
            tasks,
            delta,
            limit: WHOLE / 100 * limit_pct.min(100),
            changed: None,
        }
    }
}

impl Set<'_> {
    /// The promise of a client.
    fn promise(&self, at: usize) -> Option<Promise> {
        let promise = self.tasks.get(at)?.promise?;
        Some(match self.changed {
            Some((changed, deadline)) if changed == at => Promise {
                deadline,
                period: promise.period.max(deadline),
                ..promise
            },
            _ => promise,
        })
    }

    /// The first deadline that is in danger, and by what.
    fn danger(&self) -> Option<(usize, Why)> {
        (0..self.tasks.len()).find_map(|at| Some((at, self.danger_of(at)?)))
    }

    /// What endangers the deadline of a client.
    fn danger_of(&self, at: usize) -> Option<Why> {
        let own = self.promise(at)?;
        let (sum, costs) = self.demand(&own);
        let blocks =
            (0..self.tasks.len()).filter(|other| *other != at && self.blocks(*other, &own));
        let longest = |other: &usize| self.tasks.get(*other).map_or(Ns::ZERO, |task| task.longest);
        let worst = blocks.max_by_key(longest);
        let blocking = worst.map_or(0, |other| part(longest(&other), own.deadline));
        if sum > self.limit {
            Some(Why::Sum)
        } else if sum.saturating_add(costs) > self.limit {
            Some(Why::Costs)
        } else if sum.saturating_add(costs).saturating_add(blocking) > self.limit {
            worst.map(Why::Command)
        } else {
            None
        }
    }

    /// What is promised up to this deadline, and the costs of submissions, in parts of the engine.
    fn demand(&self, own: &Promise) -> (u64, u64) {
        let (mut sum, mut costs) = (0_u64, 0_u64);
        let promises = (0..self.tasks.len()).filter_map(|other| self.promise(other));
        for other in promises.filter(|other| other.deadline <= own.deadline) {
            let within = other.deadline.min(other.period);
            sum = sum.saturating_add(part(other.capacity, within));
            let cost = self.delta.saturating_mul(other.commands);
            costs = costs.saturating_add(part(cost, within));
        }
        (sum, costs.saturating_add(part(self.delta, own.deadline)))
    }

    /// Whether a command of a client may have a later deadline than `own`.
    fn blocks(&self, other: usize, own: &Promise) -> bool {
        let Some(promise) = self.promise(other).filter(|promise| promise.hard) else {
            return true;
        };
        let longest = self.tasks.get(other).map_or(Ns::ZERO, |task| task.longest);
        let times = longest.get().div_ceil(promise.capacity.get().max(1));
        let last = promise
            .deadline
            .saturating_add(promise.period.saturating_mul(times));
        last > own.deadline
    }

    /// A later deadline of a client with which no deadline is in danger: between one that is not
    /// enough and the next power of two that is, as early as bisection finds one.
    fn fits(&self, at: usize) -> Option<Ns> {
        let first = self.promise(at)?.deadline;
        let admitted = |deadline| {
            let changed = Some((at, deadline));
            Self { changed, ..*self }.danger().is_none()
        };
        let doubled = |deadline: &Ns| Some(deadline.saturating_mul(2).max(Ns::new(1)));
        let mut later = core::iter::successors(doubled(&first), doubled)
            .take_while(|deadline| *deadline <= LONGEST.saturating_mul(2));
        let mut enough = later.find_map(|deadline| {
            let deadline = deadline.min(LONGEST);
            admitted(deadline).then_some(deadline)
        })?;
        let mut short = first;
        while enough.saturating_sub(short) > Ns::new(1) {
            let middle = Ns::new(short.get().midpoint(enough.get()));
            if admitted(middle) {
                enough = middle;
            } else {
                short = middle;
            }
        }
        Some(enough)
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engaged_admission))]
mod tests {
    use super::*;

    const DELTA: Ns = Ns::from_us(10);

    fn task(capacity_us: u64, period_us: u64, longest_us: u64) -> Task {
        let promise = Promise {
            capacity: Ns::from_us(capacity_us),
            deadline: Ns::from_us(period_us),
            period: Ns::from_us(period_us),
            commands: 1,
            hard: true,
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
        let fits = refusal.fits.unwrap();
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
        let mut soft = set;
        soft[0].promise.as_mut().unwrap().hard = false;
        assert!(deadlines(&soft, DELTA, 31).is_err());
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
        assert_eq!(deadlines(&[], DELTA, 90), Ok(()));
        assert_eq!(deadlines(&[background(1_000_000)], DELTA, 90), Ok(()));
    }
}
