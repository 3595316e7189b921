// SPDX-License-Identifier: GPL-2.0

//! [glue] What the lock of engaged scheduling protects, and what is decided under it.
//!
//! Nothing here allocates, frees or sleeps.

use super::opening::{Opening, Running};
use super::place::Place;
use crate::engaged::{
    reserve_of, Client, Leftovers, Misses, Mode, Places, Prio, Protected, Setting, Step, Turns,
    Waits, Watch, BACKGROUND, CROWD, PLACES, RECORDS, SPECS,
};
use crate::glue::gpu::gate::Gate;
use crate::glue::kernel::ffi;
use crate::glue::kernel::storage::{storage, Vectors};
use crate::glue::kernel::thread::Waker;
use crate::policies::dispatch::DispatcherKind;
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Reserves, with that of clients without one.
const RESERVES: usize = SPECS + 1;
/// How much later than it has to the watcher may run.
const LATE: Ns = Ns::from_us(20);

/// What a spec says.
#[derive(Clone, Copy, Default)]
pub(super) struct Followed {
    pub(super) prio: Option<Prio>,
    pub(super) mode: Mode,
    /// Whether it has a reserve.
    pub(super) promised: bool,
}

/// What the clients at a place got.
#[derive(Clone, Copy, Default)]
pub(crate) struct PlaceFigures {
    /// Their priority.
    pub(crate) prio: Option<Prio>,
    /// Submissions that have completed.
    pub(crate) turns: u64,
    /// Time that they waited for their turns.
    pub(crate) waits: Waits,
    /// The longest submission.
    pub(crate) longest: Ns,
}

/// What the lock protects.
pub(super) struct State {
    /// While submissions are decided on.
    pub(super) turns: Option<KBox<Turns<Vectors>>>,
    /// What clients waited, and what was missed, under turns of before.
    pub(super) past: (Waits, Misses),
    pub(super) watch: Watch,
    pub(super) opening: Opening,
    pub(super) running: Running,
    /// Channels with work that goes on after its turn.
    pub(super) leftovers: Leftovers,
    /// Channels with work that passed without a decision, as far as it has not ended.
    pub(super) undecided: Running,
    /// How long its end is waited for.
    pub(super) undecided_until: Ns,
    /// Which clients have which place.
    pub(super) given: Places,
    /// What each spec says.
    pub(super) specs: [Followed; SPECS],
    /// Protected clients.
    pub(super) protected: Protected,
    /// Threads that sleep, by place.
    pub(super) sleepers: [u32; PLACES],
    /// When the turns want to be asked.
    pub(super) timer: Option<Ns>,
    /// Until when the watcher sleeps; `None`: until it is woken.
    pub(super) asleep: Option<Ns>,
    pub(super) watcher: Option<Waker>,
    /// Clients passed without being decided on: all entries have to go.
    pub(super) leaked: bool,
    /// Whose threads have to be woken.
    pub(super) wakes: Wakes,
}

/// Some of the places.
#[derive(Clone, Copy, Default)]
pub(super) struct PlaceSet(u64);

impl PlaceSet {
    /// Adds a place.
    pub(super) fn add(&mut self, at: usize) {
        const { assert!(PLACES <= 64) };
        // CAST: few places.
        self.0 |= 1u64.checked_shl(at as u32).unwrap_or(0);
    }

    /// All of them.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        (0..PLACES).filter(move |at| self.0 >> *at & 1 != 0)
    }
}

/// Whose threads have to be woken, once the lock is released.
#[derive(Clone, Copy, Default)]
pub(super) struct Wakes {
    /// One thread of each of these.
    pub(super) one: PlaceSet,
    /// All threads of these.
    pub(super) all: PlaceSet,
}

impl Wakes {
    /// Whether there are none.
    pub(super) const fn is_empty(&self) -> bool {
        self.one.0 | self.all.0 == 0
    }
}

/// Memory for [`Engaged::engage`].
pub(crate) struct EngagedRoom(pub(super) KBox<Turns<Vectors>>);

impl EngagedRoom {
    /// Room for a dispatcher.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(kind: DispatcherKind) -> Result<Self> {
        let mut clients = KVVec::with_capacity(PLACES, GFP_KERNEL)?;
        for _ in 0..PLACES {
            clients.push(Client::vacant(storage(RECORDS)?), GFP_KERNEL)?;
        }
        let turns = Turns::new(kind, clients, storage(RESERVES)?);
        Ok(Self(KBox::new(turns, GFP_KERNEL)?))
    }
}

/// The answer to a store.
pub(super) enum Entry {
    /// It passes.
    Passes,
    /// It passes, the first to this page in its window.
    Opens,
    /// The thread has to sleep at the place of its client.
    Waits,
}

impl State {
    /// No submission is decided on.
    pub(crate) fn new() -> Self {
        Self {
            turns: None,
            past: Default::default(),
            watch: Watch::default(),
            opening: Opening::default(),
            running: Running::NONE,
            leftovers: Leftovers::default(),
            undecided: Running::NONE,
            undecided_until: Ns::ZERO,
            given: Places::default(),
            specs: [Followed::default(); SPECS],
            protected: Protected::default(),
            sleepers: [0; PLACES],
            timer: None,
            asleep: None,
            watcher: None,
            leaked: false,
            wakes: Wakes::default(),
        }
    }

    /// What clients waited, and what was missed, since the module was loaded.
    pub(super) fn sums(&self) -> (Waits, Misses) {
        let (mut waits, mut misses) = self.past;
        if let Some(turns) = &self.turns {
            waits.add_all(&turns.counters().waited);
            misses.add_all(&turns.counters().misses);
        }
        (waits, misses)
    }

    /// The turns, to tell them of an event. No client passes beside protected work that is not known.
    pub(super) fn turns(&mut self, now: Ns) -> Option<&mut Turns<Vectors>> {
        let turns = self.turns.as_mut()?;
        if self.protected.decide(now) {
            turns.doubt();
        }
        Some(turns)
    }

    /// Does what follows from an event. The caller calls [`Engaged::wake`](super::scheduler::Engaged)
    /// when it has released the lock.
    pub(super) fn carry_out(&mut self, now: Ns, step: Step) {
        self.timer = step.timer;
        if step.opened {
            // That of the turn waits for its end.
            let holder = self.turns.as_ref().and_then(|turns| turns.holder());
            (0..PLACES)
                .filter(|at| Some(*at) != holder)
                .for_each(|at| self.wakes.all.add(at));
        }
        if let Some(grant) = step.grant {
            self.watch.grant(now, grant);
            self.wakes.one.add(grant.client);
        }
    }

    /// The turn of the client at a place has ended; these channels of it have work that rests.
    pub(super) fn leave_over(&mut self, now: Ns, at: usize, rest: &Running) {
        for chid in rest.all() {
            if self.leftovers.add(now, *chid, at) {
                continue;
            }
            if let Some(turns) = self.turns.as_mut() {
                turns.bar(now, at);
            }
        }
    }

    /// Threads that sleep while their client has no pending arrival, and no grant or window: those
    /// that did not make it through the last one. They arrive.
    pub(super) fn arrive_for_sleepers(&mut self, now: Ns) {
        for at in 0..PLACES {
            let sleeps = self.sleepers.get(at).is_some_and(|sleepers| *sleepers != 0);
            if !sleeps || self.watch.granted() == Some(at) || self.watch.window_of() == Some(at) {
                continue;
            }
            let turns = self.turns.as_ref().filter(|turns| !turns.is_open_for(at));
            let client = turns.and_then(|turns| turns.client(at));
            if client.is_some_and(|client| !client.waits()) {
                let step = self.turns(now).map(|turns| turns.arrive(now, at));
                self.carry_out(now, step.unwrap_or_default());
            }
        }
    }

    /// When the watcher has to run.
    pub(super) fn next(&self) -> Option<Ns> {
        let all = [
            self.watch.next(),
            self.protected.next(),
            self.leftovers.next(),
            self.timer,
        ];
        all.into_iter().flatten().min()
    }

    /// Wakes the watcher if it would sleep too long.
    pub(super) fn wake_watcher(&mut self) {
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

    /// Has the caller's thread sleep at a place whose threads have to wait anyway. False if they need
    /// not.
    pub(super) fn queue(&mut self, places: &[Arc<Place>], at: usize) -> bool {
        let blocked = places.get(at).is_some_and(|place| place.is_blocked());
        let turns = self.turns.as_ref().filter(|turns| !turns.is_open_for(at));
        let waits = turns
            .and_then(|turns| turns.client(at))
            .is_some_and(|client| client.waits());
        if !blocked || !waits || self.watch.window_of() == Some(at) {
            return false;
        }
        if let Some(sleepers) = self.sleepers.get_mut(at) {
            *sleepers = sleepers.saturating_add(1);
        }
        true
    }

    /// Decides on a store to a page. The caller's thread sleeps if the client has to wait.
    pub(super) fn enter(
        &mut self,
        places: &[Arc<Place>],
        at: usize,
        prio: Prio,
        gate: &Arc<Gate>,
    ) -> Entry {
        let now = ffi::now();
        let Some(turns) = self.turns.as_mut() else {
            return Entry::Passes;
        };
        // Without a client the place is being given anew.
        if turns.client(at).is_none() || turns.is_open_for(at) {
            self.leaked = true;
            return Entry::Passes;
        }
        // No user decides for those of others.
        let prio = if at == CROWD { Prio::NORMAL } else { prio };
        self.set(now, at, Some(prio));
        if self.watch.open_for() == Some(at) {
            match self.opening.add(gate) {
                Some(true) => return Entry::Opens,
                Some(false) => return Entry::Passes,
                None => {}
            }
        }
        // While its own window is full or being closed, it tries again after that.
        if self.watch.window_of() != Some(at) && self.opens(now, at) {
            self.opening.add(gate);
            self.wake_watcher();
            return Entry::Opens;
        }
        if let (Some(place), Some(sleepers)) = (places.get(at), self.sleepers.get_mut(at)) {
            place.block();
            *sleepers = sleepers.saturating_add(1);
        }
        self.wake_watcher();
        Entry::Waits
    }

    /// Sets for the clients at a place what their spec says. `prio` is the priority of a thread.
    pub(super) fn set(&mut self, now: Ns, at: usize, prio: Option<Prio>) {
        let spec = self.given.spec(at);
        let followed = spec.and_then(|spec| self.specs.get(spec)).copied();
        let Some(turns) = self.turns.as_mut() else {
            return;
        };
        let Some(before) = turns.client(at).map(|client| *client.setting()) else {
            return;
        };
        let followed = followed.unwrap_or_default();
        let promised = spec.filter(|_| followed.promised);
        let setting = Setting {
            prio: followed.prio.or(prio).unwrap_or(before.prio),
            mode: followed.mode,
            reserve: promised.map_or(BACKGROUND, reserve_of),
        };
        if setting != before {
            let step = self.turns(now).map(|turns| turns.set(now, at, setting));
            self.carry_out(now, step.unwrap_or_default());
        }
    }

    /// Opens the window of a client that may pass; else it waits for its turn.
    fn opens(&mut self, now: Ns, at: usize) -> bool {
        if self.watch.granted() != Some(at) {
            let step = self.turns(now).map(|turns| turns.arrive(now, at));
            self.carry_out(now, step.unwrap_or_default());
        }
        self.watch.open(now, at)
    }

    /// Forgets the turn: all clients pass, or try again.
    pub(super) fn forget_turn(&mut self) -> Opening {
        if let Some(turns) = self.turns.as_mut() {
            turns.abandon(ffi::now());
        }
        self.watch = Watch::default();
        (self.running, self.undecided) = (Running::NONE, Running::NONE);
        self.leftovers = Leftovers::default();
        (self.timer, self.asleep) = (None, None);
        (0..PLACES).for_each(|at| self.wakes.all.add(at));
        core::mem::take(&mut self.opening)
    }
}
