// SPDX-License-Identifier: GPL-2.0

//! [glue] Engaged scheduling of one GPU: each store to a page of slots is decided on before it
//! reaches the GPU.
//!
//! What is decided, and when, is in [`crate::engaged`]; here are the lock, the threads that sleep
//! and the pages. A page whose owner has a *place* has no entry that can be written through. A
//! store faults; the fault handler asks [`Engaged::enter`] with the gate's lock held, and makes an
//! entry, or sleeps at the place of the owner until it is granted, and stores again. The thread in
//! `watcher` takes entries away, reads whether commands have ended, and passes the turn on. Reads
//! do not ask: they get an entry that cannot be written through.
//!
//! Everything fails open: without the slots' registers, with a GPU that does not answer or is
//! away, and if the watcher does not run, all clients pass.

use super::bar::Window;
use super::device::Device;
use super::gate::Gate;
use crate::engaged::{Client, Counters, Prio, Setting, Step, Turns, Watch, RECORDS};
use crate::glue::kernel::ffi;
use crate::glue::kernel::process;
use crate::glue::kernel::storage::{storage, Vectors};
use crate::glue::kernel::thread::Waker;
use crate::ids::Chid;
use crate::policies::dispatch::DispatcherKind;
use crate::regs::{self, Chip, Ring};
use crate::track::pages::SLOTS;
use crate::units::Ns;
use kernel::bindings;
use kernel::new_mutex;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};
use kernel::sync::{Arc, Mutex, SpinLock};
use kernel::types::Opaque;

/// Clients that are told apart. Further ones share the last place.
const PLACES: usize = 64;
/// Pages that a client can store to through one window.
const MAX_OPEN: usize = 4;
/// Channels of one client whose commands are waited for.
const MAX_RUNNING: usize = 32;
/// Reserves, with that of clients without one.
const RESERVES: usize = 1;
/// How much later than it has to the watcher may run.
const LATE: Ns = Ns::from_us(20);
/// A watcher that has not run for so long while a client waits is stuck.
const MOST_SILENT: Ns = Ns::from_ms(3_000);
/// The watcher wakes at least that often while a client waits.
pub(super) const HEARTBEAT: Ns = Ns::from_ms(500);

/// Where the threads of one client sleep.
#[pin_data]
pub(super) struct Place {
    /// 1: a store has to wait.
    blocked: Atomic<u32>,
    #[pin]
    queue: Opaque<bindings::wait_queue_head_t>,
}

// SAFETY: The wait queue has a lock of its own.
unsafe impl Sync for Place {}
// SAFETY: Nothing in a place belongs to a thread.
unsafe impl Send for Place {}

impl Place {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                blocked: Atomic::new(0),
                queue <- Opaque::ffi_init(|slot| {
                    // SAFETY: `slot` is memory for a wait queue head that is not in use yet.
                    unsafe { ffi::loga_init_waitqueue(slot) }
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// Lets its threads try again. Any context.
    pub(super) fn unblock(&self) {
        if self.blocked.xchg(0, Full) != 0 {
            // SAFETY: The queue was initialised in `new`.
            unsafe { ffi::loga_wake_all(self.queue.get()) };
        }
    }

    /// Sleeps until [`unblock`](Self::unblock), at most `ms`: 0, `-ETIME`, or else a signal is
    /// pending. No lock may be held.
    fn wait(&self, ms: u32) -> c_int {
        // SAFETY: Queue and flag live as long as `self`; `Atomic<u32>` has the layout of `u32`.
        unsafe {
            ffi::loga_gate_wait(
                self.queue.get(),
                core::ptr::from_ref(&self.blocked).cast(),
                ms,
            )
        }
    }
}

/// A page with an entry, and where its rings were before.
#[derive(Clone)]
pub(super) struct Opened {
    pub(super) gate: Arc<Gate>,
    pub(super) puts: [u32; SLOTS],
}

/// The pages with entries.
pub(super) type Opening = [Option<Opened>; MAX_OPEN];

/// Channels whose commands are waited for.
#[derive(Clone, Copy)]
pub(super) struct Running {
    channels: [Chid; MAX_RUNNING],
    pub(super) count: usize,
}

impl Running {
    pub(super) const NONE: Self = Self {
        channels: [Chid::from_bits(0); MAX_RUNNING],
        count: 0,
    };

    pub(super) fn all(&self) -> &[Chid] {
        self.channels.get(..self.count).unwrap_or(&[])
    }

    /// Adds a channel; beyond [`MAX_RUNNING`] it is not waited for.
    pub(super) fn add(&mut self, chid: Chid) {
        if self.all().contains(&chid) {
            return;
        }
        if let Some(free) = self.channels.get_mut(self.count) {
            *free = chid;
            self.count = self.count.saturating_add(1);
        }
    }
}

/// What the lock protects. Nothing allocates, frees or sleeps with it locked.
pub(super) struct State {
    /// While submissions are decided on.
    pub(super) turns: Option<KBox<Turns<Vectors>>>,
    pub(super) watch: Watch,
    pub(super) opening: Opening,
    pub(super) running: Running,
    /// Clients at the last place.
    crowd: u32,
    /// Threads that sleep, by place.
    pub(super) sleepers: [u32; PLACES],
    /// When the turns want to be asked.
    pub(super) timer: Option<Ns>,
    /// Until when the watcher sleeps; `None`: until it is woken.
    pub(super) asleep: Option<Ns>,
    watcher: Option<Waker>,
    /// Clients passed without being decided on: all entries have to go.
    pub(super) leaked: bool,
}

/// Engaged scheduling of one GPU.
#[pin_data]
pub(crate) struct Engaged {
    /// 1: submissions are decided on.
    on: Atomic<u32>,
    /// When the watcher last ran.
    pub(super) alive: Atomic<u64>,
    #[pin]
    pub(super) state: SpinLock<State>,
    /// The slots of the channels, while submissions are decided on.
    #[pin]
    pub(super) slots: Mutex<Option<Window>>,
    pub(super) places: KVec<Arc<Place>>,
}

/// Memory for [`Engaged::engage`].
pub(crate) struct EngagedRoom(KBox<Turns<Vectors>>);

impl EngagedRoom {
    /// Room for a dispatcher.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(kind: DispatcherKind) -> Result<Self> {
        let mut clients = KVVec::with_capacity(PLACES, GFP_KERNEL)?;
        for _ in 0..PLACES {
            clients.push(Client::vacant(storage(RECORDS)?), GFP_KERNEL)?;
        }
        let turns = Turns::new(kind, clients, storage(RESERVES)?);
        Ok(Self(KBox::new(turns, GFP_KERNEL)?))
    }
}

impl State {
    /// Does what follows from an event.
    pub(super) fn follow(&mut self, places: &[Arc<Place>], now: Ns, step: Step) {
        self.timer = step.timer;
        if step.opened {
            places.iter().for_each(|place| place.unblock());
        }
        if let Some(grant) = step.grant {
            self.watch.grant(now, grant);
            if let Some(place) = places.get(grant.client) {
                place.unblock();
            }
        }
    }

    /// When the watcher has to run.
    pub(super) fn next(&self) -> Option<Ns> {
        [self.watch.next(), self.timer].into_iter().flatten().min()
    }

    /// Wakes the watcher if it would sleep too long.
    fn wake_watcher(&mut self) {
        let Some(next) = self.next() else {
            return;
        };
        // Waking costs the caller more than such a delay does.
        let by = next.saturating_add(LATE);
        if self.asleep.is_none_or(|until| by < until) {
            self.asleep = Some(next);
            if let Some(watcher) = &self.watcher {
                watcher.wake();
            }
        }
    }

    /// Notes that a page gets an entry. False if there are too many.
    fn list(&mut self, gate: &Arc<Gate>, puts: &[u32; SLOTS]) -> bool {
        let mut listed = self.opening.iter().flatten();
        if listed.any(|opened| Arc::ptr_eq(&opened.gate, gate)) {
            return true;
        }
        let Some(free) = self.opening.iter_mut().find(|opened| opened.is_none()) else {
            return false;
        };
        *free = Some(Opened {
            gate: gate.clone(),
            puts: *puts,
        });
        true
    }

    /// The pages with entries.
    pub(super) fn opened(&self) -> Opening {
        self.opening.clone()
    }

    /// Whether a client may store to a page now. If not, its place is unblocked when it may.
    fn enter(
        &mut self,
        places: &[Arc<Place>],
        at: usize,
        prio: Prio,
        gate: &Arc<Gate>,
        puts: &[u32; SLOTS],
    ) -> bool {
        let now = ffi::now();
        let Some(turns) = self.turns.as_mut() else {
            return true;
        };
        // Without a client the place is being given anew.
        let setting = turns.client(at).map(|client| *client.setting());
        let Some(setting) = setting.filter(|_| !turns.is_open()) else {
            self.leaked = true;
            return true;
        };
        if setting.prio != prio {
            let step = turns.set(now, at, Setting { prio, ..setting });
            self.follow(places, now, step);
        }
        if self.watch.open_for() == Some(at) && self.list(gate, puts) {
            return true;
        }
        // Otherwise it tries again when its window is closed.
        if self.watch.window_of() != Some(at) {
            if self.watch.granted() != Some(at) {
                let step = match self.turns.as_mut() {
                    Some(turns) => turns.arrive(now, at),
                    None => return true,
                };
                self.follow(places, now, step);
            }
            if self.watch.open(now, at) {
                self.list(gate, puts);
                self.wake_watcher();
                return true;
            }
        }
        self.wake_watcher();
        false
    }

    /// Forgets the turn: all clients pass, or try again.
    fn forget_turn(&mut self, places: &[Arc<Place>]) -> Opening {
        if let Some(turns) = self.turns.as_mut() {
            turns.abandon(ffi::now());
        }
        self.watch = Watch::default();
        self.running = Running::NONE;
        (self.timer, self.asleep) = (None, None);
        places.iter().for_each(|place| place.unblock());
        core::mem::take(&mut self.opening)
    }
}

impl Engaged {
    /// No submission is decided on.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        let mut places = KVec::with_capacity(PLACES, GFP_KERNEL)?;
        for _ in 0..PLACES {
            places.push(Place::new()?, GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Self {
                on: Atomic::new(0),
                alive: Atomic::new(0),
                state <- new_spinlock!(State {
                    turns: None,
                    watch: Watch::default(),
                    opening: Opening::default(),
                    running: Running::NONE,
                    crowd: 0,
                    sleepers: [0; PLACES],
                    timer: None,
                    asleep: None,
                    watcher: None,
                    leaked: false,
                }),
                slots <- new_mutex!(None),
                places,
            }),
            GFP_KERNEL,
        )
    }

    /// Whether submissions are decided on.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Acquire) != 0
    }

    /// Whether a thread sleeps at a place.
    pub(super) fn has_sleepers(&self, at: usize) -> bool {
        let state = self.state.lock();
        state
            .sleepers
            .get(at)
            .is_some_and(|sleepers| *sleepers != 0)
    }

    /// Sums since submissions are decided on.
    pub(crate) fn counters(&self) -> Option<Counters> {
        let state = self.state.lock();
        state.turns.as_ref().map(|turns| *turns.counters())
    }

    /// Decides on each submission from now on. The caller gives clients their places.
    pub(super) fn engage(&self, room: EngagedRoom, watcher: Option<Waker>) {
        let before = {
            let mut state = self.state.lock();
            let opening = state.forget_turn(&self.places);
            state.crowd = 0;
            let watcher = core::mem::replace(&mut state.watcher, watcher);
            (state.turns.replace(room.0), watcher, opening)
        };
        drop(before);
        self.on.store(1, Release);
    }

    /// Decides on no submission any more: all that wait pass. May sleep.
    pub(super) fn disengage(&self) {
        self.on.store(0, Release);
        let before = {
            let mut state = self.state.lock();
            let turns = state.turns.take();
            (turns, state.watcher.take(), state.forget_turn(&self.places))
        };
        drop(before);
        *self.slots.lock() = None;
    }

    /// Gives a new client its place, if submissions are decided on.
    pub(super) fn join(&self) -> Option<usize> {
        let mut state = self.state.lock();
        let turns = state.turns.as_mut()?;
        match turns.join(Setting::default()) {
            Some(at) if at.saturating_add(1) < PLACES => Some(at),
            _ => {
                state.crowd = state.crowd.saturating_add(1);
                Some(PLACES.saturating_sub(1))
            }
        }
    }

    /// A client is gone.
    pub(super) fn leave(&self, at: usize) {
        let gone = {
            let mut locked = self.state.lock();
            let state = &mut *locked;
            if at.saturating_add(1) == PLACES {
                state.crowd = state.crowd.saturating_sub(1);
                if state.crowd != 0 {
                    return;
                }
            }
            let Some(turns) = state.turns.as_mut() else {
                return;
            };
            let now = ffi::now();
            let had_turn = turns.holder() == Some(at);
            let step = turns.left(now, at);
            let mut opening = Opening::default();
            if had_turn {
                state.watch = Watch::default();
                state.running = Running::NONE;
                opening = core::mem::take(&mut state.opening);
            }
            state.follow(&self.places, now, step);
            state.wake_watcher();
            opening
        };
        drop(gone);
    }

    /// Whether a client may store to a page now; if not, a caller that may sleep has to
    /// [`wait`](Self::wait). Called by the fault handler, with the gate's lock held.
    pub(super) fn enter(
        &self,
        device: &Device,
        gate: &Arc<Gate>,
        at: usize,
        may_sleep: bool,
    ) -> bool {
        let Some(puts) = self.read_puts(device, gate) else {
            self.state.lock().leaked = true;
            return true;
        };
        let prio = process::caller_prio();
        let mut state = self.state.lock();
        let passes = state.enter(&self.places, at, prio, gate, &puts);
        if !passes && may_sleep {
            if let (Some(place), Some(sleepers)) = (self.places.get(at), state.sleepers.get_mut(at))
            {
                place.blocked.store(1, Release);
                *sleepers = sleepers.saturating_add(1);
            }
        }
        passes
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
    /// [`enter`](Self::enter) has blocked the place. 0; `-ETIME` if the watcher is stuck, and all
    /// clients pass from now on; else a signal is pending.
    pub(crate) fn wait(&self, at: usize) -> c_int {
        let Some(place) = self.places.get(at) else {
            return 0;
        };
        let heartbeat = u32::try_from(HEARTBEAT.get() / 1_000_000).unwrap_or(500);
        let mut result = ETIME.to_errno();
        let mut stuck = false;
        let since = ffi::now();
        // TIMEOUT: the watcher, or its silence.
        while result == ETIME.to_errno() && !stuck {
            result = place.wait(heartbeat);
            let alive = Ns::new(self.alive.load(Relaxed)).max(since);
            let silent = ffi::now().saturating_sub(alive);
            stuck = result == ETIME.to_errno() && silent > MOST_SILENT;
        }
        {
            let mut locked = self.state.lock();
            let state = &mut *locked;
            let left = state.sleepers.get_mut(at).map_or(0, |sleepers| {
                *sleepers = sleepers.saturating_sub(1);
                *sleepers
            });
            // A signal: no thread of the client waits any more.
            if result != 0 && !stuck && left == 0 {
                if let Some(turns) = state.turns.as_mut() {
                    let now = ffi::now();
                    let step = turns.withdrawn(now, at);
                    state.follow(&self.places, now, step);
                    state.wake_watcher();
                }
            }
        }
        if stuck {
            self.disengage();
        }
        result
    }

    /// Maps the slots of the channels, if the driver has moved them since. May sleep.
    pub(super) fn map_slots(&self, device: &Device, chip: Option<Chip>) {
        let mut slots = self.slots.lock();
        if device.is_away() || !self.is_on() {
            return;
        }
        let (Some(base), Some(chip)) = (regs::userd_base(&device.bar0), chip) else {
            return;
        };
        let is_mapped = |slots: &Window| slots.begins_at(&device.bar1, base);
        if !slots.as_ref().is_some_and(is_mapped) {
            *slots = Window::map_slots(&device.bar1, base, chip.channels).ok();
            let mut state = self.state.lock();
            state.leaked = true;
            if let Some(watcher) = &state.watcher {
                watcher.wake();
            }
        }
    }

    /// The GPU is away: no register is read after this. All that wait pass. May sleep.
    pub(super) fn suspend(&self) {
        drop(self.slots.lock());
        let opening = {
            let mut state = self.state.lock();
            state.leaked = true;
            state.forget_turn(&self.places)
        };
        drop(opening);
    }

    /// Wakes the watcher if clients passed without being decided on.
    pub(super) fn recheck(&self) {
        let state = self.state.lock();
        if state.leaked {
            if let Some(watcher) = &state.watcher {
                watcher.wake();
            }
        }
    }
}
