// SPDX-License-Identifier: GPL-2.0

//! What an exact test would admit: the oracle beside which the module's test is judged.
//!
//! Each reserve is taken for a task that releases a job at most once in its period: its commands,
//! which use its capacity together, due a deadline later. Such jobs meet their deadlines under
//! earliest deadline first, without preemption, if and only if for each deadline `t` in the longest
//! busy interval
//!
//! ```text
//! sum over D_i <= t of (floor((t - D_i) / T_i) + 1) * (C_i + n_i * delta)  +  E(t)  +  B(t)  <=  t
//! B(t) = delta + the longest command of a job that is due later, and of clients without a deadline
//! ```
//!
//! (the processor demand criterion: Jeffay, Stanat and Martel, RTSS 1991, theorem 4.1 and 4.3, with
//! sporadic arrivals). It is compared with the module's test under the module's own conditions: the
//! same cost `delta` of a submission, of which all but one for each job are counted with the job; at
//! most the same part of the engine (`limit * t` in place of `t`); and `E(t)`, by how much each
//! reserve that is due by `t`, but one, may use more than it had left.
//!
//! What it does not count is what a reserve may do that a task may not: divide its capacity over
//! its period in any way, go on with the rest of a budget after a break, and run on the budgets of
//! later periods. No test can admit more and be right for tasks; the module's has to be right for
//! reserves.

use loga::engaged::{Promise, Task};
use loga::units::Ns;

/// Steps of the search for the end of the busy interval.
const MOST_STEPS: u32 = 100_000;

/// A task with a deadline.
struct Job {
    cost: u64,
    deadline: u64,
    period: u64,
    overrun: u64,
    longest: u64,
}

/// Whether jobs of these tasks meet all deadlines.
pub(super) fn admits(tasks: &[Task], delta: Ns, limit_pct: u64) -> bool {
    let cost = |promise: &Promise| {
        let costs = delta.saturating_mul(promise.commands);
        promise.capacity.saturating_add(costs).get()
    };
    // CAST: lengths below a hundred days are exact in a double.
    let part = |promise: &Promise| cost(promise) as f64 / promise.period.get() as f64;
    let promises = tasks.iter().filter_map(|task| task.promise.as_ref());
    let parts: f64 = promises.map(part).sum();
    if parts > limit_pct as f64 / 100.0 {
        return false;
    }
    let firm = |promise: &Promise| promise.ask.is_some();
    let (mut jobs, mut others) = (Vec::new(), 0);
    for task in tasks {
        match task.promise.filter(firm) {
            None => others = others.max(task.longest.get()),
            Some(promise) => jobs.push(Job {
                cost: cost(&promise),
                deadline: promise.deadline.get(),
                period: promise.period.get(),
                overrun: promise.overrun.get(),
                longest: task.longest.get(),
            }),
        }
    }
    let set = Jobs {
        jobs,
        others,
        delta: delta.get(),
        limit_pct,
    };
    set.busy().is_some_and(|busy| set.meets_all(busy))
}

struct Jobs {
    jobs: Vec<Job>,
    /// Longest command of clients without a deadline.
    others: u64,
    delta: u64,
    limit_pct: u64,
}

impl Jobs {
    /// In how much time the engine does this much.
    fn time_for(&self, work: u64) -> u64 {
        (work * 100).div_ceil(self.limit_pct)
    }

    /// End of the longest busy interval, unless it has none.
    fn busy(&self) -> Option<u64> {
        let overruns: u64 = self.jobs.iter().map(|job| job.overrun).sum();
        let longest = self.jobs.iter().map(|job| job.longest).max();
        let once = overruns + self.delta + longest.unwrap_or(0).max(self.others);
        let mut end = self.time_for(once);
        for _ in 0..MOST_STEPS {
            let jobs = self.jobs.iter();
            let work: u64 = jobs.map(|job| end.div_ceil(job.period) * job.cost).sum();
            let next = self.time_for(once + work);
            if next <= end {
                return Some(end);
            }
            end = next;
        }
        None
    }

    /// Whether what is due by each deadline fits up to it.
    fn meets_all(&self, busy: u64) -> bool {
        self.jobs.iter().all(|job| {
            let deadlines = (0..).map(|number| job.deadline + number * job.period);
            let mut within = deadlines.take_while(|at| *at <= busy.max(job.deadline));
            within.all(|at| self.time_for(self.demand(at)) <= at)
        })
    }

    /// What has to be done by this time in the worst case.
    fn demand(&self, at: u64) -> u64 {
        let due = || self.jobs.iter().filter(|job| job.deadline <= at);
        let work: u64 = due()
            .map(|job| ((at - job.deadline) / job.period + 1) * job.cost)
            .sum();
        let overruns: u64 = due().map(|job| job.overrun).sum();
        // The one whose deadline it is uses no more than it has.
        let own = due().map(|job| job.overrun).min();
        let later = self.jobs.iter().filter(|job| job.deadline > at);
        let longest = later.map(|job| job.longest).max().unwrap_or(0);
        work + overruns - own.unwrap_or(0) + self.delta + longest.max(self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Capacity, period, deadline and longest command, in microseconds.
    fn task([capacity, period, deadline, longest]: [u64; 4]) -> Task {
        let us = Ns::from_us;
        Task {
            promise: Some(Promise {
                capacity: us(capacity),
                deadline: us(deadline),
                period: us(period),
                commands: 1,
                ask: Some(us(longest)),
                overrun: Ns::ZERO,
            }),
            longest: us(longest),
        }
    }

    fn all(tasks: &[[u64; 4]], delta: u64, limit_pct: u64) -> bool {
        let tasks: Vec<Task> = tasks.iter().copied().map(task).collect();
        admits(&tasks, Ns::from_us(delta), limit_pct)
    }

    #[test]
    fn jobs_up_to_a_deadline_and_one_later_command_have_to_fit() {
        // At 5 ms: 2 ms, and a command of 3.
        assert!(all(
            &[[2000, 5000, 5000, 2000], [3000, 8000, 8000, 3000]],
            0,
            100
        ));
        assert!(!all(
            &[[2000, 5000, 5000, 2000], [3100, 8000, 8000, 3100]],
            0,
            100
        ));
        // In commands of 1 ms, what counts is 10 ms: two of the first and one of the other. Those of
        // 2.1 ms are too long for the first.
        assert!(all(
            &[[3000, 5000, 5000, 1000], [3900, 10_000, 10_000, 1000]],
            0,
            100
        ));
        assert!(!all(
            &[[3000, 5000, 5000, 1000], [3900, 10_000, 10_000, 2100]],
            0,
            100
        ));
        // Two of the second one are due by 12 ms, with four of the first.
        assert!(all(
            &[[1500, 3000, 3000, 100], [2700, 6000, 6000, 100]],
            0,
            100
        ));
        // The deadlines of two that are due early are the same.
        assert!(!all(
            &[[1500, 9000, 3000, 100], [1700, 9000, 3000, 100]],
            0,
            100
        ));
    }

    #[test]
    fn costs_overruns_and_the_limit_count() {
        assert!(!all(
            &[[2000, 5000, 5000, 2000], [3000, 8000, 8000, 3000]],
            1,
            100
        ));
        assert!(!all(
            &[[2000, 5000, 5000, 2000], [3000, 8000, 8000, 3000]],
            0,
            99
        ));
        let set = |overrun| {
            let mut tasks = [task([1000, 5000, 5000, 500]), task([3000, 8000, 8000, 500])];
            if let Some(promise) = &mut tasks[0].promise {
                promise.overrun = Ns::from_us(overrun);
            }
            admits(&tasks, Ns::ZERO, 100)
        };
        // By 8 ms, with one job of the first.
        assert!(set(4000));
        assert!(!set(4001));
    }
}
