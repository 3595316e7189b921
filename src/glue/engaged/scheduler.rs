// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Engaged scheduling of one GPU: each store to a page of slots is decided on before it
//! reaches the GPU.
//!
//! What is decided, and when, is in [`crate::engaged::Decider`]; here are the lock, the threads that
//! sleep and the pages. All that happens is told in one way: [`Engaged::ask`]. A page whose owner has a
//! *wait queue* has no entry that can be written through. A store faults; the fault handler asks what
//! is in `fault`, and makes an entry, or sleeps at the wait queue of the owner until it is granted, and
//! stores again. The thread in `completion` takes entries away, reads whether commands have ended, and
//! passes the turn on. Reads do not ask: they get an entry that cannot be written through.
//!
//! Everything fails open: without the slots' registers, with a GPU that does not answer or is
//! away, and while the completion thread does not run, all clients pass.

use super::state::State;
pub(crate) use super::state::{EngagedRoom, QueueFigures};
use super::wait_queue::WaitQueue;
use crate::engaged::{
    reserve_of, Client, Counters, Misses, Outcome, Report, Reserve, Row, Specs, Submissions, Waits,
    Wakes, SHARED_QUEUE, WAIT_QUEUES,
};
use crate::glue::gpu::device::bar::MappedRange;
use crate::glue::gpu::device::Device;
use crate::glue::gpu::gates::gate::Gate;
use crate::glue::kernel::ffi;
use crate::glue::kernel::pi_mutex::{new_pi_mutex, PiMutex};
use crate::glue::kernel::store_queue::Whom;
use crate::glue::kernel::thread::Waker;
use crate::ids::Chid;
use crate::knobs::Config;
use crate::policies::dispatch::DispatcherKind;
use crate::quota::Tenant;
use crate::regs::{self, Chip};
use crate::track::pages::SLOTS;
use crate::units::Ns;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Release};
use kernel::sync::{Arc, SpinLock};

/// Pages of protected clients that are not stopped. Further ones are stopped as those of others.
pub(super) const MAX_PROTECTED: usize = 16;

/// Engaged scheduling of one GPU.
#[pin_data]
pub(crate) struct Engaged {
    /// 1: submissions are decided on.
    on: Atomic<u32>,
    /// When the completion thread last ran.
    pub(super) alive: Atomic<u64>,
    #[pin]
    pub(super) state: SpinLock<State>,
    /// The slots of the channels, while submissions are decided on. Threads of applications hold
    /// it, and the completion thread and the main thread wait for it.
    #[pin]
    pub(super) slots: PiMutex<Option<MappedRange>>,
    /// Pages of protected clients, at most [`MAX_PROTECTED`]. Taken before `state`.
    #[pin]
    pub(super) protected_pages: SpinLock<KVec<Arc<Gate>>>,
    pub(super) wait_queues: KVec<Arc<WaitQueue>>,
}

impl Engaged {
    /// No submission is decided on.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline(never)]
    pub(crate) fn new() -> Result<Arc<Self>> {
        let mut wait_queues = KVec::with_capacity(WAIT_QUEUES, GFP_KERNEL)?;
        for _ in 0..WAIT_QUEUES {
            wait_queues.push(WaitQueue::new()?, GFP_KERNEL)?;
        }
        let protected_pages = KVec::with_capacity(MAX_PROTECTED, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                on: Atomic::new(0),
                alive: Atomic::new(0),
                state <- new_spinlock!(State::new()),
                slots <- new_pi_mutex!(None),
                protected_pages <- new_spinlock!(protected_pages),
                wait_queues,
            }),
            GFP_KERNEL,
        )
    }

    /// Tells the decider of an event, and carries out what follows from it; the threads are woken without
    /// the lock. Returns the answer.
    pub(super) fn ask<R>(&self, event: impl FnOnce(&mut State, Ns) -> (R, Outcome)) -> R {
        let (answer, wakes) = {
            let mut state = self.state.lock();
            let (answer, outcome) = event(&mut state, ffi::now());
            (answer, state.carry_out(&outcome))
        };
        self.wake(wakes);
        answer
    }

    /// As [`ask`](Self::ask), of an event without an answer of its own.
    pub(super) fn tell(&self, event: impl FnOnce(&mut State, Ns) -> Outcome) {
        self.ask(|state, now| ((), event(state, now)));
    }

    /// Wakes threads, without the lock.
    fn wake(&self, wakes: Wakes) {
        for (wait_queues, whom) in [(wakes.one, Whom::One), (wakes.all, Whom::All)] {
            for wait_queue in wait_queues.iter().filter_map(|at| self.wait_queues.get(at)) {
                wait_queue.unblock(whom);
            }
        }
    }

    /// Whether submissions are decided on.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Acquire) != 0
    }

    /// Whether the clients at a wait queue compete for the GPU while they wait for their turn.
    pub(crate) fn competes(&self, at: usize) -> bool {
        let state = self.state.lock();
        state.decider.client(at).is_some_and(Client::competes)
    }

    /// How often the lock was taken for stores that faulted, since the module was loaded.
    pub(crate) fn taken_by_stores(&self) -> u64 {
        self.state.lock().taken_by_stores
    }

    /// Sums since submissions are decided on.
    pub(crate) fn counters(&self) -> Option<Counters> {
        let state = self.state.lock();
        state.decider.submissions().map(Submissions::counters)
    }

    /// What clients waited, and what was missed, since the module was loaded.
    pub(crate) fn sums(&self) -> (Waits, Misses) {
        self.state.lock().decider.sums()
    }

    /// What there is to tell of the clients at a wait queue, from this one on.
    pub(crate) fn take_report(&self, from: usize) -> Option<(usize, Report)> {
        self.state.lock().reports.take(from)
    }

    /// Whether all clients had to pass since that was asked last.
    pub(crate) fn take_opened(&self) -> bool {
        self.state.lock().reports.take_opened()
    }

    /// Decides on each submission from now on. The caller gives clients their wait queues.
    #[inline(never)]
    pub(crate) fn engage(&self, mut room: EngagedRoom, completion_thread: Option<Waker>) {
        let submissions = &mut *room.0;
        let before = self.ask(|state, now| state.replace(now, submissions, completion_thread));
        drop((before, room));
        self.on.store(1, Release);
    }

    /// Decides on no submission any more: all that wait pass. May sleep.
    pub(crate) fn disengage(&self) {
        self.on.store(0, Release);
        // Dropped at the end, where it is: it is large.
        let mut submissions = None;
        drop(self.ask(|state, now| state.replace(now, &mut submissions, None)));
        self.protected_pages.lock().clear();
        *self.slots.lock() = None;
    }

    /// Gives a new client of a tenant that follows a spec its wait queue, if submissions are decided
    /// on.
    pub(crate) fn join(&self, tenant: Tenant, spec: Option<usize>) -> Option<usize> {
        self.ask(|state, now| state.decider.join(now, tenant, spec))
    }

    /// A client of a tenant at a wait queue follows a spec from now on, perhaps another one. Returns
    /// its wait queue.
    pub(super) fn follow(&self, at: usize, tenant: Tenant, spec: Option<usize>) -> Option<usize> {
        if self.ask(|state, now| state.decider.follow(now, at, spec))? {
            return Some(at);
        }
        self.leave(at);
        self.join(tenant, spec)
    }

    /// Decides by these specs from now on. Clients that follow others have to be told.
    pub(crate) fn set_specs(&self, specs: &Specs<KVVec<Option<Row>>>) {
        let bounds = specs.bounds();
        self.tell(|state, now| state.decider.set_specs(now, specs, &bounds));
    }

    /// Takes note of `protected_pages`, which the caller has changed.
    pub(super) fn protected_changed(&self) {
        let (any, channels) = self.protected_channels();
        let is_protected = |chid| channels.contains(&Some(chid));
        self.tell(|state, now| state.decider.set_protected(now, any, is_protected));
    }

    /// Whether there are pages of protected clients, and the channels of these.
    pub(super) fn protected_channels(&self) -> (bool, [Option<Chid>; MAX_PROTECTED * SLOTS]) {
        let mut channels = [None; MAX_PROTECTED * SLOTS];
        let pages = self.protected_pages.lock();
        let all = pages.iter().flat_map(|gate| gate.channels());
        for (element, (_, chid)) in channels.iter_mut().zip(all) {
            *element = Some(chid);
        }
        (!pages.is_empty(), channels)
    }

    /// Keeps the engine free after work of protected clients as long as the knobs say.
    pub(crate) fn set_linger(&self, config: &Config) {
        let linger = Ns::from_us(config.linger_us.into());
        let mut state = self.state.lock();
        state.decider.set_linger(linger, config.linger_adapts);
    }

    /// By what order submissions are decided on, if they are.
    pub(crate) fn dispatcher(&self) -> Option<DispatcherKind> {
        let state = self.state.lock();
        Some(state.decider.submissions()?.dispatcher())
    }

    /// The reserve of a spec, while submissions are decided on.
    pub(crate) fn reserve(&self, spec: usize) -> Option<Reserve> {
        let state = self.state.lock();
        state
            .decider
            .submissions()?
            .reserve(reserve_of(spec))
            .copied()
    }

    /// What the clients at each wait queue got, while submissions are decided on; nothing of
    /// clients that share the wait queue of all users.
    pub(crate) fn figures(&self, figures: &mut [QueueFigures]) {
        let (state, now) = (self.state.lock(), ffi::now());
        for (at, figures) in figures.iter_mut().enumerate().take(SHARED_QUEUE) {
            if let Some(client) = state.decider.client(at) {
                *figures = QueueFigures {
                    prio: Some(client.setting().prio),
                    submissions: client.history().commands(),
                    waits: client.waits_until(now),
                    longest: client.history().longest(),
                };
            }
        }
    }

    /// The longest command of the clients at a wait queue, so far.
    pub(super) fn longest(&self, at: usize) -> Ns {
        let state = self.state.lock();
        let client = state.decider.client(at);
        client.map_or(Ns::ZERO, |client| client.history().longest())
    }

    /// A client is gone.
    pub(crate) fn leave(&self, at: usize) {
        let gone = self.ask(|state, now| {
            let (had_turn, outcome) = state.decider.leave(now, at);
            let gone = had_turn.then(|| core::mem::take(&mut state.opening));
            (gone, outcome)
        });
        // Without the lock.
        drop(gone);
    }

    /// Whether clients pass without a decision since the completion thread does not run.
    pub(crate) fn is_silent(&self) -> bool {
        self.state.lock().decider.is_silent()
    }

    /// Maps the slots of the channels, if the driver has moved them since. May sleep.
    pub(crate) fn map_slots(&self, device: &Device, chip: Option<Chip>) {
        let mut slots = self.slots.lock();
        if device.is_away() || !self.is_on() {
            return;
        }
        let (Some(base), Some(chip)) = (regs::userd_base(&device.bar0), chip) else {
            return;
        };
        let is_mapped = |slots: &MappedRange| slots.begins_at(&device.bar1, base);
        if !slots.as_ref().is_some_and(is_mapped) {
            *slots = MappedRange::map_slots(&device.bar1, base, chip.channels).ok();
            self.tell(|state, _| state.decider.leak());
            self.recheck();
        }
    }

    /// The GPU is away: no register is read after this. All that wait pass. May sleep.
    pub(crate) fn suspend(&self) {
        drop(self.slots.lock());
        let opening = self.ask(State::abandon);
        // Without the lock.
        drop(opening);
    }

    /// Wakes the completion thread if clients passed without being decided on.
    pub(crate) fn recheck(&self) {
        self.state.lock().recheck();
    }
}
