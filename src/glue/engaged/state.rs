// SPDX-License-Identifier: GPL-2.0

//! [glue] What the lock of engaged scheduling protects: the decider, and what it does not know of,
//! pages and the thread of the watcher.
//!
//! Nothing here allocates, frees or sleeps.

use super::opening::Opening;
use super::place::Place;
use crate::candidate::Prio;
use crate::engaged::{Client, Decider, Store, Turns, Waits, PLACES, RECORDS, SPECS};
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
#[derive(Default)]
pub(super) struct State {
    pub(super) decider: Decider<Vectors>,
    /// The pages with entries.
    pub(super) opening: Opening,
    /// Until when the watcher sleeps; `None`: until it is woken.
    pub(super) asleep: Option<Ns>,
    pub(super) watcher: Option<Waker>,
}

/// Memory for [`Engaged::engage`](super::scheduler::Engaged).
pub(crate) struct EngagedRoom(pub(super) Turns<Vectors>);

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
        Ok(Self(Turns::new(kind, clients, storage(RESERVES)?)))
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
    /// Wakes the watcher if it would sleep too long.
    pub(super) fn wake_watcher(&mut self) {
        let Some(next) = self.decider.next() else {
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
        let waits = blocked && self.decider.queues(at);
        if waits {
            self.decider.sleeps(at);
        }
        waits
    }

    /// Decides on a store to a page. The caller's thread sleeps if the client has to wait.
    pub(super) fn enter(
        &mut self,
        places: &[Arc<Place>],
        at: usize,
        prio: Prio,
        gate: &Arc<Gate>,
    ) -> Entry {
        match self.decider.store(ffi::now(), at, prio) {
            Store::Passes => return Entry::Passes,
            Store::Joins => match self.opening.add(gate) {
                Some(true) => return Entry::Opens,
                Some(false) => return Entry::Passes,
                // There are too many: it tries again after this window.
                None => {}
            },
            Store::Opens => {
                self.opening.add(gate);
                self.wake_watcher();
                return Entry::Opens;
            }
            Store::Waits => {}
        }
        if let Some(place) = places.get(at) {
            place.block();
            self.decider.sleeps(at);
        }
        self.wake_watcher();
        Entry::Waits
    }

    /// Forgets the turn: all clients pass, or try again. The caller drops the answer without the
    /// lock.
    pub(super) fn forget_turn(&mut self) -> Opening {
        self.decider.forget_turn(ffi::now());
        self.asleep = None;
        core::mem::take(&mut self.opening)
    }

    /// Decides by these turns from now on, or lets all pass. The caller drops the answer, and what is
    /// in `turns` afterwards, without the lock.
    pub(super) fn replace(
        &mut self,
        turns: &mut Option<Turns<Vectors>>,
        watcher: Option<Waker>,
    ) -> (Option<Waker>, Opening) {
        self.decider.replace(ffi::now(), turns);
        self.asleep = None;
        let watcher = core::mem::replace(&mut self.watcher, watcher);
        (watcher, core::mem::take(&mut self.opening))
    }
}
