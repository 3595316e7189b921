// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What the completion thread has to do next, and what follows from what it has read.
//!
//! The completion thread asks [`Decider::next_action`], does it without the caller's lock, and
//! reports:
//!
//! | action | report |
//! |---|---|
//! | [`Action::RevokeAll`] | [`Decider::undecided`] |
//! | [`Action::CheckRings`] | [`Decider::rings_checked`] |
//! | [`Action::Close`] | [`Decider::closed`] |
//! | [`Action::Read`] | [`Decider::read`] |
//! | [`Action::ReadLeftovers`] | [`Decider::leftovers_read`] |
//! | [`Action::ReadProtected`] | [`Decider::protected_read`] |

use super::{Decider, Submissions};
use crate::engaged::limits::{HT_DEPTH, MAX_GRANT, WAIT_QUEUES};
use crate::engaged::outcome::{Outcome, Report};
use crate::engaged::queue::Record;
use crate::engaged::reserve::Miss;
use crate::engaged::turn::{Doing, Due, Left, Leftovers, Running};
use crate::ids::Chid;
use crate::storage::Storage;
use crate::units::Ns;

/// The completion thread wakes at least that often while a client waits.
pub const HEARTBEAT: Ns = Ns::from_ms(500);

/// What the completion thread has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing any more: no submission is decided on.
    Stop,
    /// Ask again: something was decided.
    Again,
    /// Forget the pages with entries: all clients passed for so long, since the completion thread did
    /// not run, and are decided on from now on.
    Resume(Ns),
    /// Take the entries of all pages away, since clients passed without a decision, and read which of
    /// their channels have work.
    RevokeAll,
    /// Sleep until then, or until it is woken.
    Sleep(Option<Ns>),
    /// Read the channels of protected clients.
    ReadProtected,
    /// Read the channels with work that goes on after its turn: [`Decider::leftovers`].
    ReadLeftovers,
    /// Read the rings of the pages with entries, which stay.
    CheckRings,
    /// Take the entries of these pages away. No store joins their window any more.
    Close,
    /// Read the channels of the turn: [`Decider::work`].
    Read,
}

/// The channels that are known to have work.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Those of the turn.
    pub running: Running,
    /// Those with work that passed without a decision.
    pub undecided: Running,
}

/// What the channels of the turn do.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// What was read.
    pub of: Work,
    /// Whether one of the turn has work for the engine.
    pub busy: bool,
    /// If none has: those with work that rests, or may.
    pub rest: Running,
    /// Whether of one of these only the indices say so.
    pub unseen: bool,
    /// Those that still have work that passed without a decision.
    pub undecided: Running,
}

/// Submissions that have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The wait queue of their client.
    pub at: usize,
    /// How many.
    pub count: u32,
    /// How long they used the engine.
    pub used: Ns,
    /// What a deadline of another client bears, if they were longer than that.
    pub exceeded: Option<Ns>,
    /// The deadlines that they missed.
    pub misses: [Option<Miss>; HT_DEPTH],
}

impl<S: Storage<Of<Record>: 'static>> Decider<S> {
    /// Whether all entries have to go before the next decision, since clients passed without one. Not
    /// while they still do.
    pub(in crate::engaged) fn take_leak(&mut self) -> bool {
        let open = self
            .submissions
            .as_ref()
            .is_none_or(|submissions| submissions.is_open());
        !open && self.silent.is_none() && core::mem::take(&mut self.leaked)
    }

    /// These channels have work that passed without a decision: lengths that are measured beside it
    /// are not those of submissions.
    pub fn undecided(&mut self, now: Ns, found: &Running) -> Outcome {
        self.undecided = found.only(|chid| !self.running.has(chid));
        // TIMEOUT: a command without end.
        self.undecided_until = now.saturating_add(MAX_GRANT);
        self.outcome()
    }

    /// What the completion thread has to do now. Each answer but [`Action::Stop`] and
    /// [`Action::Sleep`] ends a stage of the turn, or makes the completion thread read channels.
    pub fn next_action(&mut self, now: Ns) -> (Action, Outcome) {
        let action = self.action(now);
        (action, self.outcome())
    }

    fn action(&mut self, now: Ns) -> Action {
        if let Some(since) = self.silent.take() {
            // The completion thread has not seen the turns that were granted meanwhile.
            self.forget_turn(now);
            return Action::Resume(now.saturating_sub(since));
        }
        if self.take_leak() {
            return Action::RevokeAll;
        }
        if self.submissions.is_none() {
            return Action::Stop;
        }
        let is_due = |at: Option<Ns>| at.is_some_and(|at| at <= now);
        if is_due(self.protected.next()) {
            return Action::ReadProtected;
        }
        if is_due(self.leftovers.next()) {
            return Action::ReadLeftovers;
        }
        if is_due(self.timer) {
            self.ask(now);
            return Action::Again;
        }
        match self.detection.due(now) {
            None => self.rest(now),
            Some(Due::Return) => {
                if let Some(at) = self.detection.take_back() {
                    self.decide(now, |submissions| submissions.returned(now, at));
                }
                Action::Again
            }
            Some(Due::CheckRings) => Action::CheckRings,
            Some(Due::Close) => {
                self.detection.begin_close();
                Action::Close
            }
            Some(Due::Read) => Action::Read,
        }
    }

    /// Asks the submissions, which wanted that at this time.
    fn ask(&mut self, now: Ns) {
        let step = self.doubting(now).map(|submissions| submissions.timer(now));
        if let Some(step) = step {
            self.leaked |= step.opened;
            self.apply(now, step);
        }
    }

    /// Nothing is due.
    fn rest(&mut self, now: Ns) -> Action {
        self.arrive_for_sleepers(now);
        if !self.pending.wakes.is_empty() {
            return Action::Again;
        }
        self.detection.expect(now);
        let waits = self.sleepers.iter().any(|sleepers| *sleepers != 0);
        let beat = waits.then(|| now.saturating_add(HEARTBEAT));
        Action::Sleep([self.next(), beat].into_iter().flatten().min())
    }

    /// Threads that sleep while their client has no pending arrival, and no grant or window: those
    /// that did not make it through the last one. They arrive.
    fn arrive_for_sleepers(&mut self, now: Ns) {
        for at in 0..WAIT_QUEUES {
            let sleeps = self.sleepers(at) != 0;
            if !sleeps
                || self.detection.granted() == Some(at)
                || self.detection.window_of() == Some(at)
            {
                continue;
            }
            let submissions = self
                .submissions
                .as_ref()
                .filter(|submissions| !submissions.is_open_for(at));
            let client = submissions.and_then(|submissions| submissions.client(at));
            if client.is_some_and(|client| !client.waits()) {
                self.decide(now, |submissions| submissions.arrive(now, at));
            }
        }
    }

    /// The channels that are known to have work.
    pub const fn work(&self) -> Work {
        Work {
            running: self.running,
            undecided: self.undecided,
        }
    }

    /// The channels with work that goes on after its turn.
    pub const fn leftovers(&self) -> &Leftovers {
        &self.leftovers
    }

    /// The rings were read. `stored`: something was stored through the window.
    pub fn rings_checked(&mut self, now: Ns, stored: bool) -> Outcome {
        self.detection.checked(now, stored);
        self.outcome()
    }

    /// Whether a window is being closed. Its turn may be forgotten meanwhile.
    pub fn is_closing(&self) -> bool {
        self.detection.is_closing()
    }

    /// The entries are gone; these channels gained work through the window. Without any, its client
    /// has not used its grant.
    pub fn closed(&mut self, now: Ns, stored: &Running) -> Outcome {
        stored.all().iter().for_each(|chid| self.running.add(*chid));
        let is_waited_for = |chid: &Chid| self.running.has(*chid);
        let all = stored.all().iter().all(is_waited_for);
        if let Some(at) = self.detection.window_of().filter(|_| !all) {
            self.leftovers.crowd(now, at);
        }
        self.leftovers.remove(|chid, _| stored.has(chid));
        let at = self.detection.close(now, !stored.is_empty());
        if let Some(at) = at.filter(|_| stored.is_empty()) {
            self.decide(now, |submissions| submissions.returned(now, at));
        }
        self.outcome()
    }

    /// The channels of the turn were read. If they have no work, or only work that has rested for
    /// long enough, its submissions have ended, and the next client may pass; what rests goes on
    /// beside the turns of others.
    pub fn read(&mut self, now: Ns, reading: &Reading) -> (Option<Completion>, Outcome) {
        let completion = self.complete(now, reading);
        (completion, self.outcome())
    }

    fn complete(&mut self, now: Ns, reading: &Reading) -> Option<Completion> {
        let late = now >= self.undecided_until;
        self.undecided = if late {
            Running::NONE
        } else {
            reading.undecided
        };
        let left = match (reading.busy, reading.rest.is_empty()) {
            (true, _) => Left::Work,
            (false, false) if reading.unseen => Left::Unseen,
            (false, false) => Left::Rest,
            (false, true) => Left::Nothing,
        };
        let ended = self.detection.read(now, left)?;
        self.running = Running::NONE;
        let at = self
            .submissions
            .as_ref()
            .and_then(|submissions| submissions.holder())?;
        self.leave_over(now, at, &reading.rest);
        let alone = reading.of.undecided.is_empty() && !ended.beside;
        let breaches =
            |submissions: Option<&Submissions<S>>| submissions.map_or(0, Submissions::breaches);
        let before = breaches(self.submissions());
        let (mut misses, mut exceeded) = ([None; HT_DEPTH], None);
        for number in 0..ended.count {
            let Some(submissions) = self.doubting(now) else {
                break;
            };
            let step = match alone {
                true => submissions.completed(now, at, ended.each),
                false => submissions.completed_beside_others(now, at, ended.each),
            };
            self.apply(now, step);
            exceeded = exceeded.or(step.exceeded);
            // CAST: as many as are in flight.
            if let Some(miss) = misses.get_mut(number as usize) {
                *miss = step.miss;
            }
        }
        let broken = breaches(self.submissions()).saturating_sub(before);
        let mut report = Report {
            exceeded: exceeded.is_some().into(),
            breached: u32::try_from(broken).unwrap_or(u32::MAX),
            ..Report::default()
        };
        misses.iter().flatten().for_each(|miss| report.miss(miss));
        self.pending.report = report.says_something().then_some((at, report));
        Some(Completion {
            at,
            count: ended.count,
            used: ended.each.saturating_mul(ended.count.into()),
            exceeded,
            misses,
        })
    }

    /// The turn of the client at a wait queue has ended; these channels of it have work that rests.
    fn leave_over(&mut self, now: Ns, at: usize, rest: &Running) {
        let all = rest.all().iter();
        all.for_each(|chid| self.leftovers.add(now, *chid, at));
    }

    /// Channels with work that goes on after its turn were read, in the order and with the positions
    /// of [`Leftovers::channels`]; `stray`: the wait queue of a channel that is on the engine and not
    /// among them. Their clients are charged what of it was on the engine; the client of the turn is
    /// not.
    pub fn leftovers_read(
        &mut self,
        now: Ns,
        found: impl Iterator<Item = ((usize, Chid), Doing)>,
        stray: Option<usize>,
    ) -> Outcome {
        let mut found = found.peekable();
        let ran = self.leftovers.note(now, stray, |position, chid| {
            // Others have only removed some since.
            while found.next_if(|((at, _), _)| *at < position).is_some() {}
            match found.peek() {
                Some((at, doing)) if *at == (position, chid) => *doing,
                _ => Doing::Rests,
            }
        });
        if let (Some((at, ran)), Some(submissions)) = (ran, self.submissions.as_mut()) {
            if submissions.ran_beside(now, at, ran) {
                self.detection.beside(now, ran);
            }
        }
        self.outcome()
    }

    /// Such channels cannot be read any more.
    pub fn forget_leftovers(&mut self) -> Outcome {
        self.leftovers.clear();
        self.outcome()
    }

    /// The channels of protected clients were read. `busy`: one has work.
    pub fn protected_read(&mut self, now: Ns, busy: bool) -> Outcome {
        if let Some(submissions) = self.submissions.as_mut() {
            let step = submissions.protected(now, busy);
            let watched = submissions.watches_protected(now, busy);
            self.protected.note(now, busy, watched);
            self.apply(now, step);
        }
        self.outcome()
    }
}
