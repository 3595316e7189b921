// SPDX-License-Identifier: GPL-2.0

//! What the completion thread does: what the decider says. It takes time for it, and sleeps in between.

use super::completion::State;
use super::{Engaged, Opened};
use crate::world::Machine;
use loga::engaged::{Action, Doing, Leftovers, Outcome, Reading, Running, LEFTOVERS};
use loga::ids::Chid;
use loga::units::Ns;

impl Engaged {
    /// Does what is due.
    pub(super) fn watch(&mut self, machine: &mut Machine) {
        if let State::Does(_, action) = self.completion_thread.state {
            self.finish(machine, action);
        }
        let now = machine.now();
        loop {
            let (action, outcome) = self.decider.next_action(Ns::new(now));
            self.wake_threads(machine, &outcome.wakes);
            let takes = match action {
                Action::Stop => return self.completion_thread.sleep(None, 0),
                // It is never silent here.
                Action::Again | Action::Resume(_) => continue,
                Action::Sleep(until) => {
                    return self.completion_thread.sleep(until, self.costs.rouse)
                }
                Action::Read if now < self.tick(now) => {
                    let tick = Ns::new(self.tick(now));
                    return self.completion_thread.sleep(Some(tick), 0);
                }
                Action::Close => self.costs.close,
                Action::RevokeAll => 0,
                Action::CheckRings
                | Action::Read
                | Action::ReadLeftovers
                | Action::ReadProtected => self.costs.look,
            };
            if action == Action::Read {
                self.completion_thread.reading = Some(self.reading(machine));
            }
            self.ledger.cpu += takes;
            if takes > 0 {
                let until = now.saturating_add(takes);
                self.completion_thread.state = State::Does(until, action);
                return;
            }
            self.finish(machine, action);
        }
    }

    /// From when on it may be read whether commands have ended.
    fn tick(&self, now: u64) -> u64 {
        match self.costs.tick {
            0 => now,
            tick => now.div_ceil(tick) * tick,
        }
    }

    /// Something has been done: the decider is told of it.
    fn finish(&mut self, machine: &mut Machine, action: Action) {
        let now = Ns::new(machine.now());
        let outcome = match action {
            Action::RevokeAll => self.revoke_all(machine),
            Action::CheckRings => {
                let stored = self.opening.iter().any(|opened| stored(machine, *opened));
                self.decider.rings_checked(now, stored)
            }
            Action::Close => {
                let mut found = Running::NONE;
                for opened in std::mem::take(&mut self.opening) {
                    self.members[opened.client].entry = false;
                    if stored(machine, opened) {
                        found.add(channel(machine, opened.client));
                    }
                }
                self.decider.closed(now, &found)
            }
            Action::Read => {
                let Some(reading) = self.completion_thread.reading.take() else {
                    return;
                };
                let (ended, outcome) = self.decider.read(now, &reading);
                if let Some(ended) = ended {
                    self.charge(ended.at, ended.used);
                }
                outcome
            }
            Action::ReadLeftovers => {
                let left: Leftovers = *self.decider.leftovers();
                let found = left.channels().take(LEFTOVERS);
                // Nothing waits for a semaphore here.
                let found = found.map(|channel| (channel, Doing::Nothing));
                self.decider.leftovers_read(now, found, None)
            }
            Action::ReadProtected => {
                let members = self.members.iter().enumerate();
                let mut passing = members.filter(|(_, member)| member.passes);
                let busy = passing.any(|(client, _)| machine.board.work(client).pending());
                self.decider.protected_read(now, busy)
            }
            Action::Stop | Action::Again | Action::Resume(_) | Action::Sleep(_) => return,
        };
        // It asks again, whenever something is due.
        self.wake_threads(machine, &outcome.wakes);
    }

    /// What the channels of the turn do.
    fn reading(&self, machine: &Machine) -> Reading {
        let (of, works) = (self.decider.work(), |chid| pending(machine, chid));
        Reading {
            of,
            busy: of.running.all().iter().any(|chid| works(*chid)),
            rest: Running::NONE,
            unseen: false,
            undecided: of.undecided.only(works),
        }
    }

    /// Clients passed without a decision: their entries go, and what they submitted is noted.
    fn revoke_all(&mut self, machine: &Machine) -> Outcome {
        let mut found = Running::NONE;
        for (client, member) in self.members.iter_mut().enumerate() {
            member.entry = self.opening.iter().any(|opened| opened.client == client);
            let decided = member.at.is_some() && !member.passes;
            if decided && machine.board.work(client).pending() {
                found.add(channel(machine, client));
            }
        }
        self.decider.undecided(Ns::new(machine.now()), &found)
    }

    /// The pages with entries are no longer those of a turn.
    pub(super) fn forget_window(&mut self) {
        for opened in self.opening.drain(..) {
            self.members[opened.client].entry = false;
        }
    }
}

/// The channel of a client for kernels.
fn channel(machine: &Machine, client: usize) -> Chid {
    Chid::from_bits(machine.channels[client].compute.into())
}

/// Whether a channel has work.
fn pending(machine: &Machine, chid: Chid) -> bool {
    let mut all = 0..machine.channels.len();
    let owner = all.find(|client| channel(machine, *client) == chid);
    owner.is_some_and(|client| machine.board.work(client).pending())
}

/// Whether something was stored through a window.
fn stored(machine: &Machine, opened: Opened) -> bool {
    machine.board.work(opened.client).submitted != opened.before
}
