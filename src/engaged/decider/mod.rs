// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What is decided on the submissions of one GPU: the fault path and the completion thread
//! without threads, pages and registers.
//!
//! The caller has a lock around it, a clock, and threads that sleep at wait queues. It tells the
//! [`Decider`] of each [store](Decider::store), of clients that come, change and go, and, as its
//! completion thread, of what it reads ([`Decider::next_action`]). The decider answers with what
//! has to be done, and with an [`Outcome`]: whose threads have to be woken, and when the completion
//! thread has to run. No call allocates, sleeps or reads a clock.
//!
//! All clients pass while there are no [`Submissions`]; one passes without a decision if it has no
//! wait queue, or if all may pass: because a turn is overdue, or while the completion thread does not
//! run ([`Decider::falls_silent`]). The decider remembers that ([`Decider::leak`]): the entries that
//! were made so have to go before it decides again.

mod completion;
mod submissions;

use crate::candidate::Prio;
use crate::engaged::limits::{BACKGROUND, SHARED_QUEUE, WAIT_QUEUES};
use crate::engaged::outcome::Outcome;
use crate::engaged::parameters::{reserve_of, Row, Specs, SPECS};
use crate::engaged::protected::Protected;
use crate::engaged::queue::{Client, Mode, Record, Setting, WaitQueues, Waits};
use crate::engaged::reserve::Misses;
use crate::engaged::turn::{Detection, Leftovers, Running};
use crate::ids::Chid;
use crate::quota::Tenant;
use crate::storage::Storage;
use crate::units::Ns;
pub use completion::{Action, Completion, Reading, Work, HEARTBEAT};
use core::ops::DerefMut;
pub use submissions::{Counters, Step, Submissions};

/// The answer to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// It passes without a decision.
    Undecided,
    /// The window of its client is open: it passes if its page has an entry, or gets one.
    Joins,
    /// The window of its client opens with it: its page gets an entry.
    Opens,
    /// Its thread has to wait: see [`Decider::sleeps`].
    Waits,
}

/// What a spec says.
#[derive(Clone, Copy, Default)]
struct Applied {
    prio: Option<Prio>,
    mode: Mode,
    /// Whether it has a reserve.
    promised: bool,
}

/// What is decided on the submissions of one GPU.
pub struct Decider<S: Storage<Of<Record>: 'static>> {
    /// While submissions are decided on.
    submissions: Option<Submissions<S>>,
    /// What clients waited, and what was missed, under submissions of before.
    past: (Waits, Misses),
    /// The turn of one client, as the completion thread sees it, and its channels with work.
    detection: Detection,
    running: Running,
    /// Channels with work that goes on after its turn.
    leftovers: Leftovers,
    /// Channels with work that passed without a decision, as far as it has not ended.
    undecided: Running,
    /// How long its end is waited for.
    undecided_until: Ns,
    /// Which clients have which wait queue, and what their specs say.
    wait_queues: WaitQueues,
    specs: [Applied; SPECS],
    protected: Protected,
    /// Threads that sleep, by wait queue.
    sleepers: [u32; WAIT_QUEUES],
    /// When the submissions want to be asked.
    timer: Option<Ns>,
    /// Clients passed without being decided on: all entries have to go.
    leaked: bool,
    /// Since when all clients pass, since the completion thread does not run.
    silent: Option<Ns>,
    /// What has followed from an event so far.
    pending: Outcome,
}

impl<S: Storage<Of<Record>: 'static>> Default for Decider<S> {
    fn default() -> Self {
        Self {
            submissions: None,
            past: Default::default(),
            detection: Detection::default(),
            running: Running::NONE,
            leftovers: Leftovers::default(),
            undecided: Running::NONE,
            undecided_until: Ns::ZERO,
            wait_queues: WaitQueues::default(),
            specs: [Applied::default(); SPECS],
            protected: Protected::default(),
            sleepers: [0; WAIT_QUEUES],
            timer: None,
            leaked: false,
            silent: None,
            pending: Outcome::default(),
        }
    }
}

impl<S: Storage<Of<Record>: 'static>> Decider<S> {
    /// The clients and reserves, while submissions are decided on.
    pub const fn submissions(&self) -> Option<&Submissions<S>> {
        self.submissions.as_ref()
    }

    /// The client at a wait queue, if there is one and submissions are decided on.
    pub fn client(&self, at: usize) -> Option<&Client<S::Of<Record>>> {
        self.submissions.as_ref()?.client(at)
    }

    /// What clients waited, and what was missed, since the beginning.
    pub fn sums(&self) -> (Waits, Misses) {
        let (mut waits, mut misses) = self.past;
        if let Some(submissions) = &self.submissions {
            waits.add_all(&submissions.counters().waited);
            misses.add_all(&submissions.counters().misses);
        }
        (waits, misses)
    }

    /// Decides by these submissions from now on, or lets all pass, if there are none. Those of
    /// before are in `submissions` afterwards, for the caller to drop without its lock. The pages
    /// with entries are no longer those of a turn, as after [`abandon`](Self::abandon).
    pub fn replace(&mut self, now: Ns, submissions: &mut Option<Submissions<S>>) -> Outcome {
        self.forget_turn(now);
        self.silent = None;
        self.past = self.sums();
        match submissions {
            Some(_) => self.wait_queues.clear(),
            None => self.protected.set(false),
        }
        core::mem::swap(&mut self.submissions, submissions);
        self.outcome()
    }

    /// The GPU is not read for a while: all clients that wait pass, or try again. The completion thread
    /// need not run before one does.
    pub fn abandon(&mut self, now: Ns) -> Outcome {
        self.leaked = true;
        self.forget_turn(now);
        Outcome {
            next: None,
            ..self.outcome()
        }
    }

    /// Forgets the turn.
    fn forget_turn(&mut self, now: Ns) {
        if let Some(submissions) = self.submissions.as_mut() {
            submissions.abandon(now);
        }
        self.detection = Detection::default();
        (self.running, self.undecided) = (Running::NONE, Running::NONE);
        self.leftovers.clear();
        self.timer = None;
        self.pending.wakes.add_all(None);
    }

    /// The completion thread does not run: all clients pass until it asks for its
    /// [next action](Self::next_action). False if that is known, or if no submission is decided on.
    pub fn falls_silent(&mut self, now: Ns) -> (bool, Outcome) {
        let falls = self.submissions.is_some() && self.silent.is_none();
        if falls {
            self.forget_turn(now);
            self.silent = Some(now);
            self.leaked = true;
        }
        (falls, self.outcome())
    }

    /// Whether all pass since the completion thread does not run.
    pub const fn is_silent(&self) -> bool {
        self.silent.is_some()
    }

    /// Clients pass without being decided on: all entries have to go.
    pub fn leak(&mut self) -> Outcome {
        self.leaked = true;
        self.outcome()
    }

    /// What has followed from the event that ends here.
    fn outcome(&mut self) -> Outcome {
        Outcome {
            next: self.next(),
            leaked: self.leaked,
            ..core::mem::take(&mut self.pending)
        }
    }

    /// When the completion thread has to run, if nothing else happens before.
    fn next(&self) -> Option<Ns> {
        let all = [
            self.detection.next(),
            self.protected.next(),
            self.leftovers.next(),
            self.timer,
        ];
        all.into_iter().flatten().min()
    }

    /// Decides on a store to a page of the client at a wait queue, by a thread of this priority.
    pub fn store(&mut self, now: Ns, at: usize, prio: Prio) -> (Store, Outcome) {
        let answer = self.answer(now, at, prio);
        (answer, self.outcome())
    }

    fn answer(&mut self, now: Ns, at: usize, prio: Prio) -> Store {
        let Some(submissions) = self.submissions.as_ref() else {
            return Store::Undecided;
        };
        // Without a client the wait queue is being given anew.
        if self.silent.is_some() || submissions.client(at).is_none() || submissions.is_open_for(at)
        {
            self.leaked = true;
            return Store::Undecided;
        }
        // No user decides for those of others.
        let prio = if at == SHARED_QUEUE {
            Prio::NORMAL
        } else {
            prio
        };
        self.set(now, at, Some(prio));
        if self.detection.open_for() == Some(at) {
            return Store::Joins;
        }
        // While its own window is being closed, it tries again after that.
        if self.detection.window_of() != Some(at) && self.opens(now, at) {
            return Store::Opens;
        }
        Store::Waits
    }

    /// Opens the window of a client that may pass; else it waits for its turn.
    fn opens(&mut self, now: Ns, at: usize) -> bool {
        if self.detection.granted() != Some(at) {
            self.decide(now, |submissions| submissions.arrive(now, at));
        }
        self.detection.open(now, at)
    }

    /// The entry is made through which a client stores. False: where its rings were is not known,
    /// so what it stores will not be seen.
    pub fn entered(&mut self, now: Ns, at: usize, known: bool) -> Outcome {
        self.detection.entered(now, at);
        self.leaked |= !known;
        self.outcome()
    }

    /// Whether a thread at a wait queue has to wait, whatever page it stores to, if all threads
    /// there had to before.
    pub fn queues(&self, at: usize) -> bool {
        let submissions = self
            .submissions
            .as_ref()
            .filter(|submissions| !submissions.is_open_for(at));
        let waits = submissions
            .and_then(|submissions| submissions.client(at))
            .is_some_and(|client| client.waits());
        waits && self.silent.is_none() && self.detection.window_of() != Some(at)
    }

    /// Has a thread sleep at a wait queue whose threads [have to wait](Self::queues) anyway, if those
    /// before it had to: `blocked`. False if it need not.
    pub fn queue(&mut self, at: usize, blocked: bool) -> (bool, Outcome) {
        let waits = blocked && self.queues(at);
        if waits {
            self.sleeps(at);
        }
        (waits, self.outcome())
    }

    /// Threads that sleep at a wait queue.
    pub fn sleepers(&self, at: usize) -> u32 {
        self.sleepers.get(at).copied().unwrap_or(0)
    }

    /// A thread sleeps at a wait queue from now on.
    pub fn sleeps(&mut self, at: usize) {
        if let Some(sleepers) = self.sleepers.get_mut(at) {
            *sleepers = sleepers.saturating_add(1);
        }
    }

    /// It does so no longer. `gave_up`: a signal ended it.
    pub fn wakes_up(&mut self, now: Ns, at: usize, gave_up: bool) -> Outcome {
        let left = self.sleepers.get_mut(at).map_or(0, |sleepers| {
            *sleepers = sleepers.saturating_sub(1);
            *sleepers
        });
        if gave_up && left == 0 {
            self.decide(now, |submissions| submissions.withdrawn(now, at));
        }
        self.outcome()
    }

    /// A new client of a tenant that follows a spec: its wait queue.
    pub fn join(
        &mut self,
        now: Ns,
        tenant: impl Into<Tenant>,
        spec: Option<usize>,
    ) -> (Option<usize>, Outcome) {
        let at = self.seat(now, tenant.into(), spec);
        (at, self.outcome())
    }

    fn seat(&mut self, now: Ns, tenant: Tenant, spec: Option<usize>) -> Option<usize> {
        let submissions = self.submissions.as_mut()?;
        // Nobody escapes by a new process. What is promised to a spec holds, whatever others owe.
        let users = spec
            .is_none()
            .then(|| self.wait_queues.of_user(tenant.user));
        let owed = submissions.owed(now, users.into_iter().flatten());
        let at = self.wait_queues.join(tenant, spec);
        if submissions.client(at).is_none() {
            submissions.join_at(at, Setting::default(), owed);
        }
        self.set(now, at, None);
        Some(at)
    }

    /// A client at a wait queue follows a spec from now on, perhaps another one. False if it has to
    /// leave the wait queue, and join anew; nothing if no submission is decided on.
    pub fn follow(&mut self, now: Ns, at: usize, spec: Option<usize>) -> (Option<bool>, Outcome) {
        let decided = self.submissions.is_some();
        let follows = decided.then(|| self.wait_queues.follow(at, spec));
        match follows {
            Some(true) => self.set(now, at, None),
            Some(false) => {
                // Its pages may have entries.
                self.leaked = true;
                self.pending.wakes.all.add(at);
            }
            None => {}
        }
        (follows, self.outcome())
    }

    /// A client leaves its wait queue. Returns whether it had the turn: then the pages with entries
    /// are no longer those of a turn.
    pub fn leave(&mut self, now: Ns, at: usize) -> (bool, Outcome) {
        let had_turn = self.remove(now, at);
        (had_turn, self.outcome())
    }

    fn remove(&mut self, now: Ns, at: usize) -> bool {
        if self.submissions.is_none() || !self.wait_queues.leave(at) {
            return false;
        }
        let Some(submissions) = self.doubting(now) else {
            return false;
        };
        let had_turn = submissions.holder() == Some(at);
        let step = submissions.left(now, at);
        self.leftovers.leave(at);
        if had_turn {
            self.detection = Detection::default();
            self.running = Running::NONE;
        }
        self.apply(now, step);
        had_turn
    }

    /// Decides by these specs from now on. `bounds`: the longest command of others that the reserve
    /// of each bears, see [`Specs::bounds`].
    pub fn set_specs<R>(
        &mut self,
        now: Ns,
        specs: &Specs<R>,
        bounds: &[Option<Ns>; SPECS],
    ) -> Outcome
    where
        R: DerefMut<Target = [Option<Row>]>,
    {
        for (at, (kept, bound)) in self.specs.iter_mut().zip(bounds).enumerate() {
            let spec = specs.get(at).map(|row| row.spec).unwrap_or_default();
            *kept = Applied {
                prio: spec.prio,
                mode: spec.mode,
                promised: spec.reserve.is_some(),
            };
            if let Some(submissions) = self.submissions.as_mut() {
                let terms = spec.reserve;
                submissions.set_reserve(now, reserve_of(at), terms);
                submissions.set_bound(reserve_of(at), *bound);
            }
        }
        (0..WAIT_QUEUES).for_each(|at| self.set(now, at, None));
        self.decide(now, |submissions| submissions.timer(now));
        self.outcome()
    }

    /// There are protected clients from now on, other ones, or none. Channels of them are not waited
    /// for: their work may never end.
    pub fn set_protected(
        &mut self,
        now: Ns,
        any: bool,
        is_protected: impl FnMut(Chid) -> bool,
    ) -> Outcome {
        self.running.remove(is_protected);
        self.protected.set(any);
        match any {
            true => self.decide(now, |submissions| submissions.timer(now)),
            false => {
                let step = self
                    .submissions
                    .as_mut()
                    .map(|submissions| submissions.protected(now, false));
                if let Some(step) = step {
                    self.apply(now, step);
                }
            }
        }
        self.outcome()
    }

    /// Keeps the engine free after work of protected clients, see [`Submissions::set_linger`].
    pub fn set_linger(&mut self, linger: Ns, adapts: bool) {
        if let Some(submissions) = self.submissions.as_mut() {
            submissions.set_linger(linger, adapts);
        }
    }

    /// Sets for the clients at a wait queue what their spec says. `prio` is the priority of a
    /// thread.
    fn set(&mut self, now: Ns, at: usize, prio: Option<Prio>) {
        let spec = self.wait_queues.spec(at);
        let applied = spec.and_then(|spec| self.specs.get(spec)).copied();
        let Some(submissions) = self.submissions.as_ref() else {
            return;
        };
        let Some(before) = submissions.client(at).map(|client| *client.setting()) else {
            return;
        };
        let applied = applied.unwrap_or_default();
        let promised = spec.filter(|_| applied.promised);
        let setting = Setting {
            prio: applied.prio.or(prio).unwrap_or(before.prio),
            mode: applied.mode,
            reserve: promised.map_or(BACKGROUND, reserve_of),
        };
        if setting != before {
            self.decide(now, |submissions| submissions.set(now, at, setting));
        }
    }

    /// The submissions, to tell them of an event. No client passes beside protected work that is
    /// not known.
    fn doubting(&mut self, now: Ns) -> Option<&mut Submissions<S>> {
        let submissions = self.submissions.as_mut()?;
        if self.protected.decide(now) {
            submissions.doubt();
        }
        Some(submissions)
    }

    /// Tells the submissions of an event, if submissions are decided on, and does what follows from
    /// it.
    fn decide(&mut self, now: Ns, event: impl FnOnce(&mut Submissions<S>) -> Step) {
        if let Some(step) = self.doubting(now).map(event) {
            self.apply(now, step);
        }
    }

    /// Does what follows from an event.
    fn apply(&mut self, now: Ns, step: Step) {
        self.timer = step.timer;
        if step.opened {
            self.pending.opened = true;
            // That of the turn waits for its end.
            let holder = self.submissions.as_ref().and_then(Submissions::holder);
            self.pending.wakes.add_all(holder);
        }
        if let Some(grant) = step.grant {
            self.detection.grant(now, grant);
            self.pending.wakes.one.add(grant.client);
        }
    }
}
