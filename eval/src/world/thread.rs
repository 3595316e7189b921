// SPDX-License-Identifier: GPL-2.0

//! `[double]` Clients as threads, which go on only while they have their processor.

use super::actor::Doing;
use super::{Control, World};
use crate::scenario::Wait;

impl<C: Control> World<C> {
    /// Does what is due at this time.
    pub(crate) fn do_due(&mut self, now: u64) {
        self.machine.board.now = now.max(self.machine.board.now);
        if self.next().is_some_and(|next| next <= now) {
            self.due();
        }
    }

    /// Lets a client go on as soon as it has its processor.
    pub(super) fn resume(&mut self, client: usize) {
        if self.machine.cpus.runs(client) {
            return self.run_thread(client);
        }
        // What is due with its processor follows at this same time.
        self.machine.cpus.wake(client, self.machine.board.now);
    }

    /// Another world let a thread go on, or one has computed, or a processor is passed on.
    pub(super) fn pass_cpus(&mut self, now: u64) {
        if let Some(client) = self.machine.cpus.resumed() {
            return self.run_thread(client);
        }
        if let Some(client) = self.machine.cpus.computed(now) {
            return self.run_thread(client);
        }
        if let Some((client, true)) = self.machine.cpus.pass(now) {
            self.run_thread(client);
        }
    }

    /// A client has its processor, or needs none, and goes on.
    pub(super) fn run_thread(&mut self, client: usize) {
        match self.actors[client].doing {
            // Its command is on the way, or it spins for its turn.
            Doing::Enters | Doing::Blocked | Doing::Wakes => {}
            Doing::Retries => {
                let pending = self.actors[client].pending.take();
                if pending.is_none_or(|(engine, length)| self.enter(client, engine, length)) {
                    self.go(client);
                }
            }
            _ => self.go(client),
        }
    }

    /// A client gives up its processor.
    pub(super) fn sleep(&mut self, client: usize) {
        self.machine.cpus.sleep(client, self.machine.board.now);
    }

    /// A client waits for the end of a command: it keeps its processor if it spins.
    pub(super) fn wait(&mut self, client: usize) {
        let actor = &mut self.actors[client];
        actor.doing = Doing::Waits;
        if actor.definition().wait == Wait::Block {
            self.sleep(client);
        }
    }
}
