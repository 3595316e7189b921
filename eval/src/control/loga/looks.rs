// SPDX-License-Identifier: GPL-2.0

//! Looks at the channels, for policies that work in stages: what they show and what they cost.
//!
//! The main thread looks at each allocated channel, one after the other, and the policy sees what
//! is there when it has looked at the last one. It begins when it is done with the gates of the
//! decision before. As in the module, channels of copy engines show nothing.
//!
//! *Accounting alone* (`enforce = false`) means for `sampling` what the LoGA paper does in its
//! section 5.3: barrier, drain and turns are as ever, but nobody is held back in a free run. To
//! that end all have the same virtual time before each look: who is the furthest ahead after one
//! free run is then at the policy's limit, not beyond it.

use super::{Kept, Loga};
use crate::world::Machine;
use loga::policies::{ClientState, Look, Memory, PolicyKind, Seen};
use loga::units::{Ns, VTime};

/// Time between looks while a policy watches; a free run is longer.
const WATCHED: u64 = 1_000_000;

/// What is kept for looks.
pub(super) struct Looks {
    /// When the look ends that has begun.
    pub(super) ends: Option<u64>,
    /// Whether nobody is held back in free runs.
    evened: bool,
    /// Whether submissions are trapped while a client is watched.
    traps: bool,
    /// Whether somebody is watched.
    watches: bool,
    /// Commands submitted and completed up to the last look, by entity.
    counted: Vec<(u64, u64)>,
}

impl Looks {
    pub(super) fn new(policy: PolicyKind, enforce: bool, traps: bool, entities: usize) -> Self {
        let samples = policy == PolicyKind::Sampling;
        Self {
            ends: None,
            evened: samples && !enforce,
            traps: samples && traps,
            watches: false,
            counted: vec![(0, 0); entities],
        }
    }

    /// Whether the policy works in stages although decisions are not to be carried out.
    pub(super) fn evened(&self) -> bool {
        self.evened
    }
}

impl Loga {
    /// The main thread begins to read.
    pub(super) fn begin_look(&mut self, now: u64) {
        let channels = u64::from(self.allocated);
        let cost = self.costs.look.saturating_mul(channels);
        self.ledger.cpu += cost;
        self.looks.ends = Some(now.saturating_add(cost));
    }

    /// It has read everything, and asks the engine.
    pub(super) fn end_look(&mut self, machine: &mut Machine) {
        let now = machine.now();
        self.looks.ends = None;
        self.kept.retain(|kept| !kept.gone);
        let mut states = self.seen(machine);
        if self.looks.evened {
            let t_sys = self.engine.start_vtime();
            let most = states.iter().map(|state| state.vtime).fold(t_sys, Ord::max);
            states.iter_mut().for_each(|state| state.vtime = most);
        }
        let before: Vec<_> = states.iter().map(|state| state.vtime).collect();
        let fallbacks = self.engine.stats().fallbacks;
        let (policy, mut next) = (self.engine.config().policy, Ns::ZERO);
        let mut rule = |look: &Look, memory: &mut Memory, clients: &mut [ClientState]| {
            let answer = policy.look(look, memory, clients);
            next = answer.at;
            answer
        };
        self.engine.look_by(Ns::new(now), &mut states, &mut rule);
        self.ledger.looks += 1;
        self.looks.watches = next <= Ns::new(now.saturating_add(WATCHED));
        self.check_look(&before, &states, fallbacks);
        self.drive_gates(machine, &states);
        self.plan();
    }

    /// The entities, with what their channels show.
    fn seen(&mut self, machine: &Machine) -> Vec<ClientState> {
        let mut states = Vec::with_capacity(self.kept.len());
        for kept in &self.kept {
            let mut state = kept.state;
            let (mut channels, mut seen) = (0, Seen::default());
            let (mut submitted, mut completed) = (0, 0);
            for client in &self.entities.get(kept.entity).members {
                let work = machine.board.work(*client);
                submitted += work.submitted;
                completed += work.completed;
                seen.pending |= work.pending();
                seen.blocked |= self.asleep[*client];
                if self.here[*client] {
                    channels += u32::from(machine.channels[*client].allocated);
                }
            }
            let before = &mut self.looks.counted[kept.entity];
            // CAST: commands of the seconds between two looks.
            seen.submitted = (submitted - before.0) as u32;
            seen.completed = (completed - before.1) as u32;
            *before = (submitted, completed);
            state.channels = channels;
            state.seen = seen;
            states.push(state);
        }
        states
    }

    /// Whether the submission of a client is trapped, because it is watched.
    pub(super) fn is_trapped(&self, client: usize) -> bool {
        let looks = &self.looks;
        looks.traps && looks.watches && !self.gates[self.entities.of(client)].closed
    }

    /// The oracles of a look.
    fn check_look(&mut self, before: &[VTime], states: &[ClientState], fallbacks: u64) {
        for ((kept, before), state) in self.kept.clone().iter().zip(before).zip(states) {
            let Kept { entity, .. } = *kept;
            if state.vtime < *before {
                self.violate(format!(
                    "virtual time: that of entity {entity} fell in a look"
                ));
            }
            if self.looks.evened && !self.looks.watches && state.held {
                self.violate(format!(
                    "accounting alone: entity {entity} is held in a free run"
                ));
            }
        }
        self.check_fallbacks(fallbacks);
    }
}
