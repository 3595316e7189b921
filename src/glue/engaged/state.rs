// SPDX-License-Identifier: GPL-2.0

//! `[glue]` What the lock of engaged scheduling protects: the decider, and what it does not know of,
//! pages and the thread of the completion thread.
//!
//! Nothing here allocates, frees or sleeps.

use super::opening::Opening;
use super::wait_queue::WaitQueue;
use crate::candidate::Prio;
use crate::engaged::{
    Action, Client, Decider, Outcome, Reports, Store, Submissions, Waits, Wakes, RECORDS, SPECS,
    WAIT_QUEUES,
};
use crate::glue::gpu::gates::gate::Gate;
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
    /// What has happened to clients, until it is told.
    pub(super) reports: Reports,
    /// Clients have passed without being decided on.
    leaked: bool,
    /// Until when the completion thread sleeps; `None`: until it is woken.
    asleep: Option<Ns>,
    completion_thread: Option<Waker>,
    /// How often the lock was taken for stores that faulted.
    pub(super) taken_by_stores: u64,
}

/// Memory for [`Engaged::engage`](super::scheduler::Engaged), which is not on the stack.
pub(crate) struct EngagedRoom(pub(super) KBox<Option<Submissions<Vectors>>>);

impl EngagedRoom {
    /// Room for a dispatcher.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline(never)]
    pub(crate) fn new(kind: DispatcherKind) -> Result<Self> {
        let mut clients = KVVec::with_capacity(WAIT_QUEUES, GFP_KERNEL)?;
        for _ in 0..WAIT_QUEUES {
            clients.push(Client::vacant(storage(RECORDS)?), GFP_KERNEL)?;
        }
        let submissions = Submissions::new(kind, clients, storage(RESERVES)?);
        Ok(Self(KBox::new(Some(submissions), GFP_KERNEL)?))
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
            reports: Reports::NONE,
            leaked: false,
            asleep: None,
            completion_thread: None,
            taken_by_stores: 0,
        })
    }

    /// Does what follows from an event with the lock held. Returns whose threads have to be woken
    /// without it.
    pub(super) fn carry_out(&mut self, outcome: &Outcome) -> Wakes {
        self.reports.note(outcome);
        self.leaked = outcome.leaked;
        if let Some(next) = outcome.next {
            // Waking costs the caller more than such a delay does.
            let by = next.saturating_add(LATE);
            if self.asleep.is_none_or(|until| by < until) {
                self.asleep = Some(next);
                self.wake_completion_thread();
            }
        }
        outcome.wakes
    }

    /// Has the completion thread run if clients passed without being decided on.
    pub(super) fn recheck(&self) {
        if self.leaked {
            self.wake_completion_thread();
        }
    }

    /// Has the completion thread run, whether something is due or not.
    fn wake_completion_thread(&self) {
        if let Some(completion_thread) = &self.completion_thread {
            completion_thread.wake();
        }
    }

    /// Has the caller's thread sleep at a wait queue whose threads have to wait anyway. False if
    /// they need not.
    pub(super) fn queue(&mut self, wait_queue: &WaitQueue, at: usize) -> (bool, Outcome) {
        self.decider.queue(at, wait_queue.is_blocked())
    }

    /// Decides on a store to a page. The caller's thread sleeps if the client has to wait.
    pub(super) fn enter(
        &mut self,
        now: Ns,
        wait_queue: Option<&WaitQueue>,
        at: usize,
        prio: Prio,
        gate: &Arc<Gate>,
    ) -> (Entry, Outcome) {
        let (store, outcome) = self.decider.store(now, at, prio);
        let entry = match store {
            Store::Undecided => Entry::Admitted,
            Store::Joins => match self.opening.add(gate) {
                Some(true) => Entry::Opens,
                Some(false) => Entry::Admitted,
                // There are too many: it tries again after this window.
                None => Entry::Waits,
            },
            Store::Opens => {
                self.opening.add(gate);
                Entry::Opens
            }
            Store::Waits => Entry::Waits,
        };
        if let (Entry::Waits, Some(wait_queue)) = (&entry, wait_queue) {
            wait_queue.block();
            self.decider.sleeps(at);
        }
        (entry, outcome)
    }

    /// What the completion thread has to do now, and with which pages with entries: copies, since the
    /// fault path goes on meanwhile, or those that are forgotten. The caller drops them without the lock.
    pub(super) fn next_action(&mut self, now: Ns) -> ((Action, Opening), Outcome) {
        let (action, outcome) = self.decider.next_action(now);
        self.asleep = match action {
            Action::Sleep(until) => until,
            Action::Stop => None,
            // It is awake, and asks again.
            _ => Some(Ns::ZERO),
        };
        let opening = match action {
            Action::Resume(_) => core::mem::take(&mut self.opening),
            Action::CheckRings | Action::Close => self.opening.clone(),
            _ => Opening::default(),
        };
        ((action, opening), outcome)
    }

    /// Takes the pages of the window that is being closed; nothing if its turn was forgotten.
    pub(super) fn take_closing(&mut self) -> Option<Opening> {
        let is_closing = self.decider.is_closing();
        is_closing.then(|| core::mem::take(&mut self.opening))
    }

    /// The GPU is not read for a while: all clients pass, or try again. The caller drops the pages
    /// without the lock.
    pub(super) fn abandon(&mut self, now: Ns) -> (Opening, Outcome) {
        let outcome = self.decider.abandon(now);
        self.asleep = None;
        (core::mem::take(&mut self.opening), outcome)
    }

    /// The completion thread does not run: all clients pass until it does. The caller drops the pages
    /// without the lock; nothing if that is known, or if no submission is decided on.
    pub(super) fn fall_silent(&mut self, now: Ns) -> (Option<Opening>, Outcome) {
        let (falls, outcome) = self.decider.falls_silent(now);
        if falls {
            // It may have been left asleep.
            self.asleep = None;
            self.wake_completion_thread();
        }
        let opening = falls.then(|| core::mem::take(&mut self.opening));
        (opening, outcome)
    }

    /// Decides by these submissions from now on, or lets all pass. The caller drops the answer, and
    /// what is in `submissions` afterwards, without the lock.
    pub(super) fn replace(
        &mut self,
        now: Ns,
        submissions: &mut Option<Submissions<Vectors>>,
        completion_thread: Option<Waker>,
    ) -> ((Option<Waker>, Opening), Outcome) {
        let outcome = self.decider.replace(now, submissions);
        self.asleep = None;
        let completion_thread = core::mem::replace(&mut self.completion_thread, completion_thread);
        let before = (completion_thread, core::mem::take(&mut self.opening));
        (before, outcome)
    }
}
