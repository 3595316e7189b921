// SPDX-License-Identifier: GPL-2.0

//! [glue] What the lock of engaged scheduling protects: the decider, and what it does not know of,
//! pages and the thread of the completion thread.
//!
//! Nothing here allocates, frees or sleeps.

use super::opening::Opening;
use super::wait_queue::WaitQueue;
use crate::candidate::Prio;
use crate::engaged::{Client, Decider, Store, Submissions, Waits, RECORDS, SPECS, WAIT_QUEUES};
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
/// How much later than it has to the completion thread may run.
const LATE: Ns = Ns::from_us(20);

/// What the clients at a wait queue got.
#[derive(Clone, Copy, Default)]
pub(crate) struct QueueFigures {
    /// Their priority.
    pub(crate) prio: Option<Prio>,
    /// Submissions that have completed.
    pub(crate) submissions: u64,
    /// Time that they waited for their turn.
    pub(crate) waits: Waits,
    /// The longest submission.
    pub(crate) longest: Ns,
}

/// What the lock protects.
pub(super) struct State {
    pub(super) decider: Decider<Vectors>,
    /// The pages with entries.
    pub(super) opening: Opening,
    /// Until when the completion thread sleeps; `None`: until it is woken.
    pub(super) asleep: Option<Ns>,
    pub(super) completion_thread: Option<Waker>,
}

/// Memory for [`Engaged::engage`](super::scheduler::Engaged).
pub(crate) struct EngagedRoom(pub(super) Submissions<Vectors>);

impl EngagedRoom {
    /// Room for a dispatcher.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(kind: DispatcherKind) -> Result<Self> {
        let mut clients = KVVec::with_capacity(WAIT_QUEUES, GFP_KERNEL)?;
        for _ in 0..WAIT_QUEUES {
            clients.push(Client::vacant(storage(RECORDS)?), GFP_KERNEL)?;
        }
        Ok(Self(Submissions::new(kind, clients, storage(RESERVES)?)))
    }
}

/// The answer to a store.
pub(super) enum Entry {
    /// It passes.
    Admitted,
    /// It passes, the first to this page in its window.
    Opens,
    /// The thread has to sleep at the wait queue of its client.
    Waits,
}

impl State {
    /// No submission is decided on. Made where it stays: it is large.
    pub(super) fn new() -> impl Init<Self> {
        init!(Self {
            decider: Decider::default(),
            opening: Opening::default(),
            asleep: None,
            completion_thread: None,
        })
    }

    /// Wakes the completion thread if it would sleep too long.
    pub(super) fn wake_completion_thread(&mut self) {
        let Some(next) = self.decider.next() else {
            return;
        };
        // Waking costs the caller more than such a delay does.
        let by = next.saturating_add(LATE);
        if self.asleep.is_none_or(|until| by < until) {
            self.asleep = Some(next);
            if let Some(completion_thread) = &self.completion_thread {
                completion_thread.wake();
            }
        }
    }

    /// Has the caller's thread sleep at a wait queue whose threads have to wait anyway. False if
    /// they need not.
    pub(super) fn queue(&mut self, wait_queues: &[Arc<WaitQueue>], at: usize) -> bool {
        let blocked = wait_queues
            .get(at)
            .is_some_and(|wait_queue| wait_queue.is_blocked());
        let waits = blocked && self.decider.queues(at);
        if waits {
            self.decider.sleeps(at);
        }
        waits
    }

    /// Decides on a store to a page. The caller's thread sleeps if the client has to wait.
    pub(super) fn enter(
        &mut self,
        wait_queues: &[Arc<WaitQueue>],
        at: usize,
        prio: Prio,
        gate: &Arc<Gate>,
    ) -> Entry {
        match self.decider.store(ffi::now(), at, prio) {
            Store::Undecided => return Entry::Admitted,
            Store::Joins => match self.opening.add(gate) {
                Some(true) => return Entry::Opens,
                Some(false) => return Entry::Admitted,
                // There are too many: it tries again after this window.
                None => {}
            },
            Store::Opens => {
                self.opening.add(gate);
                self.wake_completion_thread();
                return Entry::Opens;
            }
            Store::Waits => {}
        }
        if let Some(wait_queue) = wait_queues.get(at) {
            wait_queue.block();
            self.decider.sleeps(at);
        }
        self.wake_completion_thread();
        Entry::Waits
    }

    /// Takes the pages of the window that is being closed; nothing if its turn was forgotten.
    pub(super) fn take_closing(&mut self) -> Option<Opening> {
        let is_closing = self.decider.is_closing();
        is_closing.then(|| core::mem::take(&mut self.opening))
    }

    /// Forgets the turn: all clients pass, or try again. The caller drops the answer without the
    /// lock.
    pub(super) fn abandon(&mut self) -> Opening {
        self.decider.abandon(ffi::now());
        self.asleep = None;
        core::mem::take(&mut self.opening)
    }

    /// The completion thread does not run: all clients pass until it does. The caller drops the answer
    /// without the lock; nothing if that is known, or if no submission is decided on.
    pub(super) fn fall_silent(&mut self) -> Option<Opening> {
        if !self.decider.falls_silent(ffi::now()) {
            return None;
        }
        self.asleep = None;
        // It may have been left asleep.
        if let Some(completion_thread) = &self.completion_thread {
            completion_thread.wake();
        }
        Some(core::mem::take(&mut self.opening))
    }

    /// The completion thread runs. If all passed since it did not: for how long, and the pages that
    /// got entries meanwhile, which the caller drops without the lock.
    pub(super) fn run_again(&mut self) -> Option<(Ns, Opening)> {
        let passed = self.decider.runs_again(ffi::now())?;
        Some((passed, core::mem::take(&mut self.opening)))
    }

    /// Decides by these submissions from now on, or lets all pass. The caller drops the answer, and
    /// what is in `submissions` afterwards, without the lock.
    pub(super) fn replace(
        &mut self,
        submissions: &mut Option<Submissions<Vectors>>,
        completion_thread: Option<Waker>,
    ) -> (Option<Waker>, Opening) {
        self.decider.replace(ffi::now(), submissions);
        self.asleep = None;
        let completion_thread = core::mem::replace(&mut self.completion_thread, completion_thread);
        (completion_thread, core::mem::take(&mut self.opening))
    }
}
