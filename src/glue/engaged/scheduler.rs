// SPDX-License-Identifier: GPL-2.0

//! [glue] Engaged scheduling of one GPU: each store to a page of slots is decided on before it
//! reaches the GPU.
//!
//! What is decided, and when, is in [`crate::engaged::Decider`]; here are the lock, the threads that
//! sleep and the pages. A page whose owner has a *wait queue* has no entry that can be written
//! through. A store faults; the fault handler asks [`Engaged::enter`] with the gate's lock held,
//! and makes an entry, or sleeps at the wait queue of the owner until it is granted, and stores
//! again. The thread in `completion` takes entries away, reads whether commands have ended, and
//! passes the turn on. Reads do not ask: they get an entry that cannot be written through.
//!
//! Everything fails open: without the slots' registers, with a GPU that does not answer or is
//! away, and while the completion thread does not run, all clients pass.

use super::opening::Opening;
pub(crate) use super::state::{EngagedRoom, QueueFigures};
use super::state::{Entry, State};
use super::wait_queue::WaitQueue;
use crate::engaged::{
    reserve_of, Client, Counters, Misses, Report, Reserve, Row, Specs, Waits, HEARTBEAT,
    SHARED_QUEUE, WAIT_QUEUES,
};
use crate::glue::gpu::bar::MappedRange;
use crate::glue::gpu::device::Device;
use crate::glue::gpu::gate::Gate;
use crate::glue::gpu::kinds;
use crate::glue::kernel::ffi;
use crate::glue::kernel::pi_mutex::{new_pi_mutex, PiMutex};
use crate::glue::kernel::process;
use crate::glue::kernel::store_queue::apart;
use crate::glue::kernel::thread::Waker;
use crate::glue::trace;
use crate::knobs::Config;
use crate::policies::dispatch::DispatcherKind;
use crate::quota::Tenant;
use crate::regs::{self, Chip, Ring};
use crate::track::pages::SLOTS;
use crate::units::Ns;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Relaxed, Release};
use kernel::sync::{Arc, SpinLock};

/// Pages of protected clients that are not stopped. Further ones are stopped as those of others.
pub(super) const MAX_PROTECTED: usize = 16;
/// A completion thread that has not run for so long while a client waits is stuck.
const MOST_SILENT: Ns = Ns::from_ms(3_000);

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

    /// Whether submissions are decided on.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Acquire) != 0
    }

    /// Whether the clients at a wait queue compete for the GPU while they wait for their turn.
    pub(crate) fn competes(&self, at: usize) -> bool {
        let state = self.state.lock();
        state.decider.client(at).is_some_and(Client::competes)
    }

    /// Sums since submissions are decided on.
    pub(crate) fn counters(&self) -> Option<Counters> {
        let state = self.state.lock();
        state
            .decider
            .submissions()
            .map(|submissions| *submissions.counters())
    }

    /// What clients waited, and what was missed, since the module was loaded.
    pub(crate) fn sums(&self) -> (Waits, Misses) {
        self.state.lock().decider.sums()
    }

    /// What there is to tell of the clients at a wait queue, from this one on.
    pub(crate) fn take_report(&self, from: usize) -> Option<(usize, Report)> {
        self.state.lock().decider.take_report(from)
    }

    /// Whether all clients had to pass since that was asked last.
    pub(crate) fn take_opened(&self) -> bool {
        self.state.lock().decider.take_opened()
    }

    /// Decides on each submission from now on. The caller gives clients their wait queues.
    pub(crate) fn engage(&self, room: EngagedRoom, completion_thread: Option<Waker>) {
        let mut submissions = Some(room.0);
        let before = self
            .state
            .lock()
            .replace(&mut submissions, completion_thread);
        drop((before, submissions));
        self.wake();
        self.on.store(1, Release);
    }

    /// Decides on no submission any more: all that wait pass. May sleep.
    pub(crate) fn disengage(&self) {
        self.on.store(0, Release);
        let mut submissions = None;
        let before = self.state.lock().replace(&mut submissions, None);
        drop((before, submissions));
        self.wake();
        self.protected_pages.lock().clear();
        *self.slots.lock() = None;
    }

    /// Gives a new client of a tenant that follows a spec its wait queue, if submissions are decided
    /// on.
    pub(crate) fn join(&self, tenant: Tenant, spec: Option<usize>) -> Option<usize> {
        let at = self.state.lock().decider.join(ffi::now(), tenant, spec);
        self.wake();
        at
    }

    /// A client of a tenant at a wait queue follows a spec from now on, perhaps another one. Returns
    /// its wait queue.
    pub(super) fn follow(&self, at: usize, tenant: Tenant, spec: Option<usize>) -> Option<usize> {
        let follows = {
            let mut state = self.state.lock();
            let follows = state.decider.follow(ffi::now(), at, spec)?;
            if follows {
                state.wake_completion_thread();
            }
            follows
        };
        if follows {
            self.wake();
            return Some(at);
        }
        self.leave(at);
        self.join(tenant, spec)
    }

    /// Decides by these specs from now on. Clients that follow others have to be told.
    pub(crate) fn set_specs(&self, specs: &Specs<KVVec<Option<Row>>>) {
        let bounds = specs.bounds();
        let mut state = self.state.lock();
        state.decider.set_specs(ffi::now(), specs, &bounds);
        state.wake_completion_thread();
        drop(state);
        self.wake();
    }

    /// Takes note of `protected_pages`, which the caller has changed.
    pub(super) fn protected_changed(&self) {
        let pages = self.protected_pages.lock();
        let mut state = self.state.lock();
        let is_protected = |chid| {
            let mut all = pages.iter().flat_map(|gate| gate.channels());
            all.any(|(_, of)| of == chid)
        };
        state.decider.ignore(is_protected);
        state.decider.set_protected(ffi::now(), !pages.is_empty());
        state.wake_completion_thread();
        drop(state);
        drop(pages);
        self.wake();
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
        let mut gone = Opening::default();
        {
            let mut state = self.state.lock();
            if state.decider.leave(ffi::now(), at) {
                gone = core::mem::take(&mut state.opening);
            }
            state.wake_completion_thread();
        }
        // Without the lock.
        drop(gone);
        self.wake();
    }

    /// Whether a client may store to a page now; if not, the caller has to [`wait`](Self::wait).
    /// Called by the fault handler, with the gate's lock held. Registers are read for a store that
    /// passes only.
    pub(crate) fn enter(&self, device: &Device, gate: &Arc<Gate>, at: usize) -> bool {
        let prio = process::caller_prio();
        let entry = self.state.lock().enter(&self.wait_queues, at, prio, gate);
        self.wake();
        match entry {
            Entry::Admitted => return true,
            Entry::Waits => return false,
            Entry::Opens => {}
        }
        // CAST: few wait queues.
        trace::submission_begin(device.number(), gate.client(), at as u32);
        let puts = self.read_puts(device, gate);
        let mut state = self.state.lock();
        state.decider.entered(ffi::now(), at, puts.is_some());
        if let Some(puts) = puts {
            state.opening.note(gate, puts);
        }
        true
    }

    /// Reads which channels a page has.
    pub(crate) fn read_kinds(&self, device: &Device, gate: &Gate) {
        // Held while registers are read, see `suspend`.
        let _slots = self.slots.lock();
        if !device.is_blind() {
            kinds::read_kinds(&device.bar0, gate);
        }
    }

    /// Where the rings of a page are; `None` if that cannot be read.
    pub(super) fn read_puts(&self, device: &Device, gate: &Gate) -> Option<[u32; SLOTS]> {
        let slots = self.slots.lock();
        let slots = slots.as_ref().filter(|_| !device.is_blind())?;
        let mut puts = [0; SLOTS];
        for (slot, chid) in gate.channels() {
            *puts.get_mut(slot)? = Ring::read_put(slots, chid)?;
        }
        Some(puts)
    }

    /// Waits until a client may try again. Called by the fault handler without any lock, after
    /// [`enter`](Self::enter) has answered no. 0; `-ETIME` if the caller is the first to find that the
    /// completion thread does not run, and all clients pass until it does; else a signal is pending.
    pub(crate) fn wait(&self, at: usize) -> c_int {
        let Some(wait_queue) = self.wait_queues.get(at) else {
            return 0;
        };
        let before = self.state.lock().decider.sleepers(at);
        let heartbeat = HEARTBEAT.saturating_add(apart(before));
        let mut result = ffi::TIMED_OUT;
        let mut stuck = false;
        let since = ffi::now();
        // TIMEOUT: the completion thread, or its silence.
        while result == ffi::TIMED_OUT && !stuck {
            result = wait_queue.wait(heartbeat);
            let alive = Ns::new(self.alive.load(Relaxed)).max(since);
            let silent = ffi::now().saturating_sub(alive);
            stuck = result == ffi::TIMED_OUT && silent > MOST_SILENT;
        }
        {
            let mut state = self.state.lock();
            let signalled = result != 0 && !stuck;
            if state.decider.wakes_up(ffi::now(), at, signalled) {
                state.wake_completion_thread();
            }
        }
        let is_first = stuck && self.fall_silent();
        self.wake();
        match stuck && !is_first {
            true => 0,
            false => result,
        }
    }

    /// Lets all clients pass until the completion thread runs. False if they do already.
    fn fall_silent(&self) -> bool {
        let opening = self.state.lock().fall_silent();
        // Its pages are dropped without the lock.
        opening.is_some()
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
            let mut state = self.state.lock();
            state.decider.leak();
            if let Some(completion_thread) = &state.completion_thread {
                completion_thread.wake();
            }
        }
    }

    /// The GPU is away: no register is read after this. All that wait pass. May sleep.
    pub(crate) fn suspend(&self) {
        drop(self.slots.lock());
        let opening = {
            let mut state = self.state.lock();
            state.decider.leak();
            state.abandon()
        };
        drop(opening);
        self.wake();
    }

    /// Wakes the completion thread if clients passed without being decided on.
    pub(crate) fn recheck(&self) {
        let state = self.state.lock();
        if state.decider.has_leaked() {
            if let Some(completion_thread) = &state.completion_thread {
                completion_thread.wake();
            }
        }
    }
}
