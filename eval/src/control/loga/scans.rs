// SPDX-License-Identifier: GPL-2.0

//! Scans of the channels, for policies that work in stages: what they show and what they cost.
//!
//! The main thread reads each allocated channel, one after the other, and the policy sees the state
//! at the end of the scan. A scan begins when the main thread is done with the gates of the
//! previous decision. As in the module, channels of copy engines show nothing.
//!
//! *Accounting alone* (`enforce = false`) means for `sampling` what the LoGA paper does in its
//! section 5.3: barrier, residue and turns stay, but no client is throttled in a free run. To that
//! end all clients have the same virtual time before each scan: the one furthest ahead after one
//! free run is then at the policy's limit, not beyond it.

use super::Loga;
use crate::world::Machine;
use loga::policies::ScanResult;
use loga::share::Member;
use loga::units::Ns;

/// Time between scans while a policy watches; a free run is longer.
const WATCHED: u64 = 1_000_000;

impl Loga {
    /// The main thread begins to read.
    pub(super) fn begin_scan(&mut self, now: u64) {
        let channels = u64::from(self.allocated);
        let cost = self.costs.scan.saturating_mul(channels);
        self.ledger.cpu += cost;
        self.scans.ends = Some(now.saturating_add(cost));
    }

    /// It has read all channels, and asks the engine.
    pub(super) fn end_scan(&mut self, machine: &mut Machine) {
        let now = machine.now();
        self.scans.ends = None;
        self.forget_gone();
        self.scan(machine);
        if self.scans.evened {
            let t_sys = self.state.engine.start_vtime();
            let states = self.state.shares.states_mut();
            let most = states.iter().map(|state| state.vtime).fold(t_sys, Ord::max);
            states.iter_mut().for_each(|state| state.vtime = most);
        }
        let before = self.vtimes();
        let fallback = self.state.end_scan(Ns::new(now));
        self.ledger.scans += 1;
        let next = self.state.engine.next_scan();
        let soon = Ns::new(now.saturating_add(WATCHED));
        self.scans.watches = next.is_some_and(|next| next <= soon);
        self.check_vtimes(&before, None);
        self.check_fallback(fallback);
        let throttled = |member: &Member| member.throttled_by().is_some();
        let free = self.scans.evened && !self.scans.watches;
        if free && self.state.shares.members().iter().any(throttled) {
            self.violate("accounting alone: a client is throttled in a free run".to_owned());
        }
        self.drive_gates(machine);
        self.boost_cpu(machine);
        self.plan();
    }

    /// The client that alone may submit has more of its processor, as an agent would give it.
    fn boost_cpu(&self, machine: &mut Machine) {
        if self.scans.cpu_boost == 1 {
            return;
        }
        let kept = self.kept.iter().enumerate();
        let mut runs = kept.filter(|(_, kept)| kept.here && kept.since.is_none());
        let alone = match (runs.next(), runs.next()) {
            (Some((client, _)), None) => Some(client),
            _ => None,
        };
        machine.cpus.boost(alone, self.scans.cpu_boost);
    }

    /// What the channels of each client show.
    fn scan(&mut self, machine: &Machine) {
        self.state.begin_scan();
        for client in 0..self.kept.len() {
            let Some(at) = self.position(client) else {
                continue;
            };
            let work = machine.board.work(client);
            let cpu = machine.cpus.ran(client).unwrap_or(0);
            let before = &mut self.scans.counted[client];
            let seen = ScanResult {
                pending: work.pending(),
                blocked: self.kept[client].asleep,
                // CAST: (both) commands of the seconds between two scans.
                submitted: (work.submitted - before.0) as u32,
                completed: (work.completed - before.1) as u32,
                cpu: Ns::new(cpu - before.2),
            };
            *before = (work.submitted, work.completed, cpu);
            let channels = u32::from(machine.channels[client].allocated);
            self.state.shares.add_scan(at, &seen, channels);
        }
    }

    /// Whether the submission of a client is trapped, because it is watched.
    pub(super) fn is_trapped(&self, client: usize) -> bool {
        let scans = &self.scans;
        scans.traps && scans.watches && !self.kept[client].closed
    }
}
