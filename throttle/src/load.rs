// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The loop: keep `depth` kernels under way, note when each ends, pause, repeat; or the same
//! in frames of several kernels, all of which are waited for.

use crate::backend::Backend;
use crate::clock::Clock;
use crate::error::Error;
use crate::plan::{Plan, Wait};
use crate::random::Random;
use crate::statistics::Times;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

/// TIMEOUT: a kernel that takes this much longer than asked means a dead channel, not a busy GPU or
/// a client that is throttled (that one waits in the store).
const HUNG_AFTER_NS: u64 = 120_000_000_000;

/// Reads of the semaphore between two reads of the clock while spinning.
const SPINS_PER_CLOCK_READ: u32 = 256;

/// Longest sleep in one wait: how late a stop request can be seen.
const WAIT_MS: u16 = 100;

/// Pieces a pause is cut into: how late a stop request can be seen.
const PAUSE_PIECE_NS: u64 = 100_000_000;

/// Why a run ended early.
pub type Stop = AtomicBool;

/// What a run did and when.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its times.
    pub times: Times,
    /// When the first kernel was prepared, CLOCK_MONOTONIC in ns.
    pub start_ns: u64,
    /// When the last one was seen to end.
    pub end_ns: u64,
}

/// A kernel under way.
struct Pending {
    sequence: u32,
    since_ns: u64,
    length_ns: u64,
}

/// One run in progress.
struct Load<'a, B: ?Sized, C> {
    plan: &'a Plan,
    backend: &'a mut B,
    clock: &'a C,
    stop: &'a Stop,
    random: Random,
    pending: VecDeque<Pending>,
    times: Times,
    submitted: u64,
    /// Most kernels under way.
    depth: usize,
    /// When it ends, if it does by time.
    deadline_ns: Option<u64>,
}

/// Runs the plan until its end or until `stop` is set.
///
/// # Errors
///
/// [`Error::Hung`] if a kernel does not end, or what the backend reports.
pub fn run<B: Backend + ?Sized, C: Clock>(
    plan: &Plan,
    backend: &mut B,
    clock: &C,
    stop: &Stop,
) -> Result<Outcome, Error> {
    let start_ns = clock.now_ns();
    let mut load = Load {
        plan,
        clock,
        stop,
        random: Random::new(plan.seed.wrapping_add(plan.instance.unwrap_or(0).into())),
        pending: VecDeque::new(),
        times: Times::with_capacity(1 << 16),
        submitted: 0,
        // CAST: at most DEPTH_MAX.
        depth: plan.depth.min(backend.depth_max()) as usize,
        backend,
        deadline_ns: plan.limit_ns().map(|limit| start_ns.saturating_add(limit)),
    };
    loop {
        let now_ns = clock.now_ns();
        if load.is_over(now_ns) {
            break;
        }
        match plan.kernels_per_frame {
            Some(kernels) => load.frame(kernels, now_ns)?,
            None => {
                load.submit()?;
                if load.pending.len() >= load.depth {
                    load.wait_oldest()?;
                    load.pause(now_ns);
                }
            }
        }
    }
    while !load.pending.is_empty() {
        load.wait_oldest()?;
    }
    Ok(Outcome {
        times: load.times,
        start_ns,
        end_ns: clock.now_ns(),
    })
}

impl<B: Backend + ?Sized, C: Clock> Load<'_, B, C> {
    /// Whether nothing more is submitted.
    fn is_over(&self, now_ns: u64) -> bool {
        self.stop.load(Ordering::Relaxed)
            || self
                .deadline_ns
                .is_some_and(|deadline_ns| now_ns >= deadline_ns)
            || self.plan.count.is_some_and(|count| self.submitted >= count)
    }

    /// A frame that begins now. One that the end of the run cuts short does not count.
    fn frame(&mut self, kernels: u32, began_ns: u64) -> Result<(), Error> {
        for _ in 0..kernels {
            if self.is_over(self.clock.now_ns()) {
                return Ok(());
            }
            self.submit()?;
            if self.pending.len() >= self.depth {
                self.wait_oldest()?;
            }
        }
        while !self.pending.is_empty() {
            self.wait_oldest()?;
        }
        let took_ns = self.clock.now_ns().saturating_sub(began_ns);
        let deadline_us = self.plan.deadline_us;
        self.times
            .framed(took_ns, deadline_us.map(|us| us.saturating_mul(1000)));
        self.pause(began_ns);
        Ok(())
    }

    fn submit(&mut self) -> Result<(), Error> {
        let length_ns = self
            .random
            .around(self.plan.kernel_us.saturating_mul(1000), self.plan.jitter);
        let since_ns = self.clock.now_ns();
        let sequence = self
            .backend
            .prepare(length_ns.max(1), self.plan.wait == Wait::Block);
        let store_ns = self.clock.now_ns();
        self.backend.submit()?;
        let stored_ns = self.clock.now_ns();
        self.times.stored(stored_ns.saturating_sub(store_ns));
        self.submitted = self.submitted.saturating_add(1);
        self.pending.push_back(Pending {
            sequence,
            since_ns,
            length_ns,
        });
        Ok(())
    }

    /// Waits for the oldest kernel and notes all that have ended.
    fn wait_oldest(&mut self) -> Result<(), Error> {
        let Some(oldest) = self.pending.front() else {
            return Ok(());
        };
        let (sequence, length_ns) = (oldest.sequence, oldest.length_ns);
        let limit_ns = HUNG_AFTER_NS.saturating_add(length_ns.saturating_mul(1000));
        let wait_since_ns = self.clock.now_ns();
        let mut done = self.backend.completed()?;
        while !reached(done, sequence) {
            match self.plan.wait {
                Wait::Block => self.backend.wait(WAIT_MS)?,
                Wait::Spin => {
                    for _ in 0..SPINS_PER_CLOCK_READ {
                        std::hint::spin_loop();
                        if reached(self.backend.completed()?, sequence) {
                            break;
                        }
                    }
                }
            }
            done = self.backend.completed()?;
            let waited_ns = self.clock.now_ns().saturating_sub(wait_since_ns);
            if waited_ns > limit_ns {
                return Err(Error::Hung {
                    sequence,
                    seconds: waited_ns / 1_000_000_000,
                });
            }
        }
        let now_ns = self.clock.now_ns();
        while let Some(front) = self.pending.front() {
            if !reached(done, front.sequence) {
                break;
            }
            self.times
                .completed(now_ns.saturating_sub(front.since_ns), front.length_ns);
            self.pending.pop_front();
        }
        Ok(())
    }

    /// Sleeps as the plan says; `cycle_ns` is when this cycle began.
    fn pause(&mut self, cycle_ns: u64) {
        let wake_ns = match self.plan.cycle_us {
            Some(cycle_us) => {
                let length = self
                    .random
                    .around(cycle_us.saturating_mul(1000), self.plan.jitter);
                cycle_ns.saturating_add(length)
            }
            None if self.plan.sleep_us == 0 => return,
            None => {
                let length = self
                    .random
                    .around(self.plan.sleep_us.saturating_mul(1000), self.plan.jitter);
                self.clock.now_ns().saturating_add(length)
            }
        };
        let wake_ns = wake_ns.min(self.deadline_ns.unwrap_or(u64::MAX));
        while !self.stop.load(Ordering::Relaxed) {
            let now_ns = self.clock.now_ns();
            if now_ns >= wake_ns {
                break;
            }
            let piece_ns = now_ns.saturating_add(PAUSE_PIECE_NS);
            self.clock.sleep_until(wake_ns.min(piece_ns));
        }
    }
}

/// Whether sequence number `done` is at or behind `wanted`, modulo 2^32.
fn reached(done: u32, wanted: u32) -> bool {
    done.wrapping_sub(wanted) < 1 << 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::cell::Cell;
    use std::rc::Rc;

    /// Time of a test: every read of it takes 100 ns.
    #[derive(Clone, Default)]
    struct FakeClock(Rc<Cell<u64>>);

    impl Clock for FakeClock {
        fn now_ns(&self) -> u64 {
            self.0.set(self.0.get() + 100);
            self.0.get()
        }
        fn sleep_until(&self, deadline_ns: u64) {
            self.0.set(self.0.get().max(deadline_ns));
        }
    }

    /// A GPU that runs kernels one after the other on the fake clock.
    struct FakeGpu {
        clock: FakeClock,
        ends_ns: Vec<u64>,
        prepared: Vec<u64>,
        store_takes_ns: u64,
        most_under_way: usize,
        dead: bool,
    }

    impl FakeGpu {
        fn new(clock: &FakeClock) -> Self {
            FakeGpu {
                clock: clock.clone(),
                ends_ns: Vec::new(),
                prepared: Vec::new(),
                store_takes_ns: 0,
                most_under_way: 0,
                dead: false,
            }
        }
    }

    impl Backend for FakeGpu {
        fn depth_max(&self) -> u32 {
            63
        }
        fn prepare(&mut self, length_ns: u64, _: bool) -> u32 {
            self.prepared.push(length_ns);
            self.prepared.len() as u32
        }
        fn submit(&mut self) -> Result<(), Error> {
            self.clock.0.set(self.clock.0.get() + self.store_takes_ns);
            let now = self.clock.0.get();
            let free = self.ends_ns.last().copied().unwrap_or(0).max(now);
            self.ends_ns.push(free + self.prepared.last().unwrap());
            let under_way = self.ends_ns.iter().filter(|end| **end > now).count();
            self.most_under_way = self.most_under_way.max(under_way);
            Ok(())
        }
        fn completed(&mut self) -> Result<u32, Error> {
            if self.dead {
                return Ok(0);
            }
            let now = self.clock.0.get() + 500;
            self.clock.0.set(now);
            Ok(self.ends_ns.iter().filter(|end| **end <= now).count() as u32)
        }
        fn wait(&mut self, limit_ms: u16) -> Result<(), Error> {
            self.clock
                .0
                .set(self.clock.0.get() + u64::from(limit_ms) * 1_000_000 / 100);
            Ok(())
        }
    }

    fn run_plan(
        arguments: &str,
        change: impl FnOnce(&mut FakeGpu),
    ) -> (Result<Outcome, Error>, FakeGpu) {
        let words = std::iter::once("throttle").chain(arguments.split_whitespace());
        let plan = Plan::parse_from(words);
        plan.check().expect("valid plan");
        let clock = FakeClock::default();
        let mut gpu = FakeGpu::new(&clock);
        change(&mut gpu);
        let outcome = run(&plan, &mut gpu, &clock, &Stop::new(false));
        (outcome, gpu)
    }

    #[test]
    fn count_is_exact_at_any_depth() {
        for depth in [1, 4, 32, 1024] {
            let (outcome, gpu) = run_plan(
                &format!("--kernel-us 10 --count 100 --depth {depth}"),
                |_| {},
            );
            assert_eq!(outcome.expect("outcome").times.count(), 100);
            assert_eq!(gpu.prepared.len(), 100);
            assert_eq!(gpu.most_under_way, depth.min(63));
        }
    }

    #[test]
    fn seconds_end_a_run_without_count() {
        let (outcome, _) = run_plan("--kernel-us 1000 --seconds 0.5 --wait block", |_| {});
        let outcome = outcome.expect("outcome");
        assert!((240..=500).contains(&outcome.times.count()));
        assert!(outcome.end_ns - outcome.start_ns < 510_000_000);
    }

    #[test]
    fn cycle_sets_the_rate_not_the_pause() {
        let (outcome, _) = run_plan("--kernel-us 200 --cycle-us 1000 --seconds 1", |_| {});
        let count = outcome.expect("outcome").times.count();
        assert!((990..=1001).contains(&count), "{count}");
    }

    #[test]
    fn sleep_comes_after_each_kernel() {
        let (outcome, _) = run_plan("--kernel-us 200 --sleep-us 800 --count 10", |_| {});
        let outcome = outcome.expect("outcome");
        assert!(outcome.end_ns - outcome.start_ns >= 10_000_000);
    }

    #[test]
    fn frame_waits_for_all_its_kernels_before_the_pause() {
        let words = "--kernel-us 100 --kernels-per-frame 8 --depth 4 --cycle-us 2000 --count 80 \
                     --deadline-us 900";
        let (outcome, gpu) = run_plan(words, |_| {});
        let outcome = outcome.expect("outcome");
        assert_eq!(gpu.most_under_way, 4);
        let frames = outcome.times.summary().frames.expect("frames");
        assert_eq!((frames.count, frames.late), (10, 0));
        assert!((800.0..900.0).contains(&frames.median_us), "{frames:?}");
        let took = outcome.end_ns - outcome.start_ns;
        assert!((18_000_000..22_100_000).contains(&took), "{took}");
    }

    #[test]
    fn frame_that_is_cut_short_does_not_count() {
        let words = "--kernel-us 100 --kernels-per-frame 8 --depth 2 --count 20 --deadline-us 700";
        let frames = run_plan(words, |_| {})
            .0
            .expect("outcome")
            .times
            .summary()
            .frames;
        let frames = frames.expect("frames");
        assert_eq!((frames.count, frames.late), (2, 2));
    }

    #[test]
    fn slow_store_counts_as_blocked() {
        let (outcome, _) = run_plan("--kernel-us 10 --count 3", |gpu| {
            gpu.store_takes_ns = 60_000;
        });
        let summary = outcome.expect("outcome").times.summary();
        assert_eq!(summary.blocked_count, 3);
        assert!((180.0..181.0).contains(&summary.blocked_us));
    }

    #[test]
    fn dead_channel_is_an_error_not_a_hang() {
        let (outcome, _) = run_plan("--kernel-us 10 --count 3 --wait block", |gpu| {
            gpu.dead = true;
        });
        let error = outcome.expect_err("hung");
        assert!(matches!(error, Error::Hung { sequence: 1, .. }), "{error}");
    }

    #[test]
    fn jitter_repeats_with_the_seed() {
        let lengths = |seed| {
            run_plan(&format!("--count 50 --jitter 30 --seed {seed}"), |_| {})
                .1
                .prepared
        };
        assert_eq!(lengths(5), lengths(5));
        assert_ne!(lengths(5), lengths(6));
    }

    #[test]
    fn reached_survives_the_wrap() {
        assert!(reached(5, 5));
        assert!(!reached(4, 5));
        assert!(reached(1, u32::MAX));
        assert!(!reached(u32::MAX, 1));
    }
}
