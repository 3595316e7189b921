// SPDX-License-Identifier: GPL-2.0

//! `[double]` Processors that clients share: which thread runs, and which wait for one.
//!
//! Each client is a thread, bound to one processor or to none, which never waits. The thread with
//! the least virtual time runs next: its time on the processor over its weight. A thread that
//! wakes has not less than those that are there. It runs until it sleeps, or for a slice if
//! another is ready; no thread that wakes cuts a slice short, as in Linux since 6.6
//! (`RUN_TO_PARITY`).
//!
//! Clients of several GPUs may share processors: their threads are then all here, and the world of
//! one GPU at a time sees its own, by the numbers of its clients.

use loga::units::{Ns, Weight};
use std::ops::Range;

/// State of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// It sleeps, or is not there.
    #[default]
    Sleeps,
    /// It waits for its processor.
    Ready,
    /// It has it.
    Runs,
}

/// A thread.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// Its processor, if it is bound to one.
    cpu: Option<usize>,
    weight: Weight,
    /// Its weight counts so many times.
    boost: u64,
    state: State,
    /// Computing that is left; nothing while it spins.
    left: Option<u64>,
    /// Time on the processor over its weight.
    vtime: u64,
    /// Time on the processor.
    ran: u64,
    /// It has got its processor in the world of another GPU, and has not gone on yet.
    resumes: bool,
}

/// A processor.
#[derive(Clone, Copy, Debug)]
struct Cpu {
    slice: u64,
    runs: Option<usize>,
    /// When the thread that runs got it.
    since: u64,
    /// Threads that wait for it.
    ready: usize,
}

/// The processors and their threads.
#[derive(Clone, Debug, Default)]
pub struct Cpus {
    cpus: Vec<Cpu>,
    threads: Vec<Thread>,
    /// Up to when times are counted.
    counted: u64,
    /// The threads of the world that sees them.
    own: Range<usize>,
}

impl Cpus {
    /// Processors with these slices, and a thread for each client: its processor and weight.
    pub(crate) fn new(
        slices: &[Ns],
        threads: impl Iterator<Item = (Option<usize>, Weight)>,
    ) -> Self {
        let cpu = |slice: &Ns| Cpu {
            slice: slice.get().max(1),
            runs: None,
            since: 0,
            ready: 0,
        };
        let thread = |(cpu, weight)| Thread {
            cpu,
            weight,
            boost: 1,
            ..Thread::default()
        };
        let threads: Vec<_> = threads.map(thread).collect();
        Self {
            cpus: slices.iter().map(cpu).collect(),
            own: 0..threads.len(),
            threads,
            counted: 0,
        }
    }

    /// The threads that the world sees that has them now.
    pub(crate) fn give(&mut self, own: Range<usize>) {
        self.own = own;
    }

    fn own(&self, client: usize) -> &Thread {
        &self.threads[self.own.start + client]
    }

    fn own_mut(&mut self, client: usize) -> &mut Thread {
        &mut self.threads[self.own.start + client]
    }

    /// A client that got its processor while another world had them.
    pub(crate) fn resumed(&mut self) -> Option<usize> {
        let own = &mut self.threads[self.own.clone()];
        let client = own.iter().position(|thread| thread.resumes)?;
        own[client].resumes = false;
        Some(client)
    }

    /// Time that a client has had a processor; nothing if it is bound to none.
    pub fn ran(&self, client: usize) -> Option<u64> {
        let thread = self.own(client);
        thread.cpu.map(|_| thread.ran)
    }

    /// Lets the weight of one client count `times` times, and that of each other once.
    pub fn boost(&mut self, favoured: Option<usize>, times: u64) {
        let own = &mut self.threads[self.own.clone()];
        for (client, thread) in own.iter_mut().enumerate() {
            thread.boost = if Some(client) == favoured { times } else { 1 };
        }
    }

    /// Whether a client may go on: it has its processor, or is bound to none.
    pub(super) fn runs(&self, client: usize) -> bool {
        let thread = self.own(client);
        thread.cpu.is_none() || thread.state == State::Runs
    }

    /// Whether a client is bound to a processor.
    pub(super) fn is_bound(&self, client: usize) -> bool {
        self.own(client).cpu.is_some()
    }

    /// A client computes for so long, from now on.
    pub(super) fn compute(&mut self, client: usize, length: u64, now: u64) {
        self.count(now);
        self.own_mut(client).left = Some(length);
    }

    /// A client wants its processor.
    pub(super) fn wake(&mut self, client: usize, now: u64) {
        self.count(now);
        let Thread { cpu, state, .. } = *self.own(client);
        if state != State::Sleeps {
            return;
        }
        let awake = |thread: &&Thread| thread.cpu == cpu && thread.state != State::Sleeps;
        let least = self.threads.iter().filter(awake).map(|thread| thread.vtime);
        let least = least.min().unwrap_or(0);
        let thread = self.own_mut(client);
        thread.vtime = thread.vtime.max(least);
        self.set(self.own.start + client, State::Ready);
    }

    /// A client gives its processor up.
    pub(super) fn sleep(&mut self, client: usize, now: u64) {
        self.count(now);
        let Thread { cpu, state, .. } = *self.own(client);
        self.set(self.own.start + client, State::Sleeps);
        if let Some(cpu) = cpu.filter(|_| state == State::Runs) {
            self.cpus[cpu].runs = None;
        }
    }

    /// When a thread of this world has computed or goes on, or a slice is over.
    pub(super) fn next(&self) -> Option<u64> {
        let next = |cpu: usize| {
            let Cpu {
                slice,
                since,
                ready,
                ..
            } = self.cpus[cpu];
            let is_wanted = ready > 0;
            let Some(client) = self.cpus[cpu].runs else {
                return is_wanted.then_some(self.counted);
            };
            let slice = is_wanted.then(|| since.saturating_add(slice).max(self.counted));
            let done = self.threads[client].left;
            let done = done.filter(|_| self.own.contains(&client));
            let done = done.map(|left| self.counted.saturating_add(left));
            slice.into_iter().chain(done).min()
        };
        let own = &self.threads[self.own.clone()];
        if own.iter().any(|thread| thread.resumes) {
            return Some(self.counted);
        }
        (0..self.cpus.len()).filter_map(next).min()
    }

    /// A client that has computed what it was to, if there is one.
    pub(super) fn computed(&mut self, now: u64) -> Option<usize> {
        self.count(now);
        let mut running = self.cpus.iter().filter_map(|cpu| cpu.runs);
        let computed = |client: &usize| self.threads[*client].left == Some(0);
        let client = running.find(|client| self.own.contains(client) && computed(client))?;
        self.threads[client].left = None;
        Some(client - self.own.start)
    }

    /// Passes a processor that is free, or the slice of which is over, to the next thread; returns
    /// that thread, and whether it has to go on by itself, which one that computes does not. One of
    /// another world goes on there.
    pub(super) fn pass(&mut self, now: u64) -> Option<(usize, bool)> {
        self.count(now);
        for cpu in 0..self.cpus.len() {
            let Some(next) = self.first(cpu) else {
                continue;
            };
            let Cpu {
                slice, runs, since, ..
            } = self.cpus[cpu];
            if let Some(client) = runs {
                if now < since.saturating_add(slice) {
                    continue;
                }
                if self.threads[client].vtime < self.threads[next].vtime {
                    // Another slice.
                    self.cpus[cpu].since = now;
                    continue;
                }
                self.set(client, State::Ready);
            }
            self.set(next, State::Runs);
            self.cpus[cpu].runs = Some(next);
            self.cpus[cpu].since = now;
            let goes = self.threads[next].left.is_none();
            if self.own.contains(&next) {
                return Some((next - self.own.start, goes));
            }
            self.threads[next].resumes = goes;
        }
        None
    }

    /// Gives a thread a state.
    fn set(&mut self, thread: usize, state: State) {
        let Thread {
            cpu, state: old, ..
        } = self.threads[thread];
        self.threads[thread].state = state;
        if let Some(cpu) = cpu {
            let is = |state| usize::from(state == State::Ready);
            let cpu = &mut self.cpus[cpu];
            cpu.ready = cpu.ready + is(state) - is(old);
        }
    }

    /// The thread that runs next on a processor.
    fn first(&self, cpu: usize) -> Option<usize> {
        if self.cpus[cpu].ready == 0 {
            return None;
        }
        let ready = self
            .threads
            .iter()
            .enumerate()
            .filter(|(_, thread)| thread.cpu == Some(cpu) && thread.state == State::Ready);
        ready
            .min_by_key(|(_, thread)| thread.vtime)
            .map(|(at, _)| at)
    }

    /// Counts the time up to `now`.
    fn count(&mut self, now: u64) {
        let passed = now.saturating_sub(self.counted);
        if passed == 0 {
            return;
        }
        self.counted = now;
        for client in self.cpus.iter().filter_map(|cpu| cpu.runs) {
            let thread = &mut self.threads[client];
            thread.ran += passed;
            let weight = u64::from(thread.weight.get()) * thread.boost;
            thread.vtime += passed * u64::from(Weight::DEFAULT.get()) / weight;
            thread.left = thread.left.map(|left| left.saturating_sub(passed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: u64 = 3_000_000;

    fn two(weights: [u32; 2]) -> Cpus {
        let weight = |raw| Weight::new(raw).unwrap();
        let threads = weights.map(|raw| (Some(0), weight(raw)));
        Cpus::new(&[Ns::new(SLICE)], threads.into_iter())
    }

    /// Lets both spin up to `end`, and returns what each has had.
    fn spin(cpus: &mut Cpus, end: u64) -> [u64; 2] {
        (0..2).for_each(|client| cpus.wake(client, 0));
        while let Some(next) = cpus.next().filter(|next| *next < end) {
            while cpus.pass(next).is_some() {}
        }
        cpus.count(end);
        [0, 1].map(|client| cpus.ran(client).unwrap())
    }

    #[test]
    fn threads_that_spin_take_turns_of_a_slice() {
        assert_eq!(spin(&mut two([100, 100]), 10 * SLICE), [5 * SLICE; 2]);
    }

    #[test]
    fn weights_divide_the_processor() {
        let [first, second] = spin(&mut two([300, 100]), 1000 * SLICE);
        assert_eq!(first + second, 1000 * SLICE);
        assert!(first.abs_diff(750 * SLICE) <= SLICE, "{first}");
    }

    #[test]
    fn threads_that_wait_are_as_many_as_are_counted() {
        let mut random = loga::random::XorShift::new(7);
        let weight = Weight::DEFAULT;
        let threads = [Some(0), Some(1), None, Some(0), Some(1), Some(0)].map(|cpu| (cpu, weight));
        let mut cpus = Cpus::new(&[Ns::new(SLICE); 2], threads.into_iter());
        for now in 0..2000 {
            let client = random.bits16() as usize % 6;
            let now = now * SLICE / 3;
            match random.bits16() % 3 {
                0 => cpus.wake(client, now),
                1 => cpus.sleep(client, now),
                _ => while cpus.pass(now).is_some() {},
            }
            for (at, cpu) in cpus.cpus.iter().enumerate() {
                let ready = |one: &&Thread| one.cpu == Some(at) && one.state == State::Ready;
                assert_eq!(cpus.threads.iter().filter(ready).count(), cpu.ready);
            }
        }
    }

    #[test]
    fn boost_counts_as_a_weight() {
        let mut cpus = two([100, 100]);
        cpus.boost(Some(0), 3);
        let [first, _] = spin(&mut cpus, 1000 * SLICE);
        assert!(first.abs_diff(750 * SLICE) <= SLICE, "{first}");
    }

    #[test]
    fn thread_that_sleeps_gives_its_processor_up_and_gains_no_lead() {
        let mut cpus = two([100, 100]);
        cpus.wake(0, 0);
        assert_eq!(cpus.pass(0), Some((0, true)));
        cpus.wake(1, 9 * SLICE);
        assert_eq!(cpus.pass(9 * SLICE), Some((1, true)));
        cpus.sleep(1, 9 * SLICE + 1);
        assert_eq!(cpus.pass(9 * SLICE + 1), Some((0, true)));
        assert!(!cpus.runs(1));
        assert!(cpus.runs(0));
    }

    #[test]
    fn slice_is_not_cut_short_by_a_thread_that_wakes() {
        let mut cpus = two([100, 100]);
        cpus.wake(0, 0);
        cpus.pass(0);
        cpus.wake(1, 1);
        assert_eq!(cpus.pass(1), None);
        assert_eq!(cpus.next(), Some(SLICE));
        assert_eq!(cpus.pass(SLICE), Some((1, true)));
    }

    #[test]
    fn computing_lasts_as_long_as_the_thread_has_the_processor() {
        let mut cpus = two([100, 100]);
        cpus.wake(0, 0);
        cpus.pass(0);
        cpus.compute(0, 2 * SLICE, 0);
        cpus.wake(1, 0);
        assert_eq!(cpus.next(), Some(SLICE));
        assert_eq!(cpus.pass(SLICE), Some((1, true)));
        assert_eq!(cpus.pass(2 * SLICE), Some((0, false)));
        assert_eq!(cpus.computed(3 * SLICE - 1), None);
        assert_eq!(cpus.computed(3 * SLICE), Some(0));
        assert_eq!(cpus.computed(3 * SLICE), None);
    }

    #[test]
    fn time_before_it_computes_is_not_counted() {
        let mut cpus = two([100, 100]);
        cpus.wake(0, 0);
        cpus.pass(0);
        cpus.compute(0, SLICE, 5 * SLICE);
        assert_eq!(cpus.next(), Some(6 * SLICE));
        assert_eq!(cpus.computed(6 * SLICE - 1), None);
    }

    #[test]
    fn thread_without_a_processor_always_runs() {
        let cpus = Cpus::new(&[], [(None, Weight::DEFAULT)].into_iter());
        assert!(cpus.runs(0));
        assert!(cpus.next().is_none());
        assert!(cpus.ran(0).is_none());
    }
}
