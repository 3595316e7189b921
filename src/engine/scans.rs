// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Decisions after scans, for policies that work in stages, and changes of policy.

use super::{check, ClientState, Engine, Fallback, KeptOfClient, KeptOfGpu};
use super::{Next, Scan, MAX_NONPOLL};
use crate::ids::GroupId;
use crate::units::{Ns, VTime};

/// A policy may throttle all clients for this long without a break: longer than any policy waits
/// for channels to run empty.
pub const MAX_BARRIER: Ns = Ns::from_ms(2_000);

/// After a policy broke its contract, all clients run for this long.
const AFTER_FAULT: Ns = Ns::from_ms(1_000);

impl Engine {
    /// The group that has the turn, see [`Policy::HOLDER`](crate::policies::Policy::HOLDER); none
    /// while all run, whatever the reason.
    pub fn holder(&self) -> Option<GroupId> {
        let decides = self.config.enforce && self.config.policy.staged() && !self.stages.changed();
        self.kept
            .holder()
            .filter(|_| decides && self.throttled != 0)
    }

    /// Decides which clients are throttled until the next scan.
    ///
    /// Call it after [`super::Action::Scan`], with [`ClientState::seen`] and
    /// [`ClientState::channels`] of every client; carry out the difference in `throttled`
    /// afterwards. Right after a change of policy it lets all clients run.
    ///
    /// The policy's answer is checked as in [`Engine::decide`].
    pub fn decide_scan(&mut self, now: Ns, clients: &mut [ClientState]) {
        let policy = self.config.policy;
        self.decide_scan_by(now, clients, &mut |scan, kept, clients| {
            policy.decide_scan(scan, kept, clients)
        });
    }

    /// As [`Engine::decide_scan`], with a rule that need not be in the table.
    pub(super) fn decide_scan_by(
        &mut self,
        now: Ns,
        clients: &mut [ClientState],
        rule: &mut dyn FnMut(&Scan, &mut KeptOfGpu, &mut [ClientState]) -> Next,
    ) {
        self.apply_change(clients);
        if !(self.config.enforce && self.config.policy.staged()) {
            self.settle_throttles(clients);
            return;
        }
        self.stats.scans = self.stats.scans.saturating_add(1);
        let scan = Scan {
            now,
            since: now.saturating_sub(self.stages.last.unwrap_or(now)),
            slice: Ns::from_ms(self.config.poll_ms.into()),
            ratio: self.config.ratio,
            t_sys: self.t_sys,
        };
        self.stages.last = Some(now);
        let mut kept = self.kept;
        let answer = check::run_scan(&scan, clients, MAX_NONPOLL, &mut |scan, clients| {
            rule(scan, &mut kept, clients)
        });
        match answer {
            Ok(next) => {
                self.kept = kept;
                self.t_sys = next.t_sys;
                self.stages.at = next.at;
                self.stats.overdue = self.stats.overdue.saturating_add(next.overdue.into());
            }
            Err(violation) => self.restart(now, clients, Fallback::Contract(violation)),
        }
        self.bound_barrier(now, clients);
        self.settle_throttles(clients);
    }

    /// Lets all clients run when all have been throttled for too long.
    fn bound_barrier(&mut self, now: Ns, clients: &mut [ClientState]) {
        if clients.iter().any(|client| !client.throttled) || clients.is_empty() {
            self.stages.barrier_since = None;
            return;
        }
        let since = *self.stages.barrier_since.get_or_insert(now);
        let lasting = now.saturating_sub(since);
        // The next scan may come too late: then the watchdog's bound holds.
        if lasting > MAX_BARRIER {
            self.restart(now, clients, Fallback::Barrier { lasting });
        } else {
            let bound = since.saturating_add(MAX_BARRIER).saturating_add(Ns::new(1));
            self.stages.at = self.stages.at.min(bound);
        }
    }

    /// Lets all clients run for a while, then the policy begins anew.
    fn restart(&mut self, now: Ns, clients: &mut [ClientState], reason: Fallback) {
        self.fall_back(reason);
        self.forget(clients);
        self.stages.barrier_since = None;
        self.stages.at = now.saturating_add(AFTER_FAULT);
    }

    /// After a change of policy or the beginning of enforcement: all clients run, and have the same
    /// virtual time, the largest of all, so that none is set back.
    pub(super) fn apply_change(&mut self, clients: &mut [ClientState]) {
        if !self.stages.changed {
            return;
        }
        self.stages.changed = false;
        self.stats.changes = self.stats.changes.saturating_add(1);
        let largest = clients.iter().map(|client| client.vtime).max();
        self.t_sys = self.t_sys.max(largest.unwrap_or(VTime::ZERO));
        for client in clients.iter_mut() {
            client.vtime = self.t_sys;
        }
        self.forget(clients);
    }

    /// Lets all clients run and clears what the policy kept.
    fn forget(&mut self, clients: &mut [ClientState]) {
        self.kept = KeptOfGpu::Nothing;
        self.throttled = 0;
        for client in clients.iter_mut() {
            client.throttled = false;
            client.kept = KeptOfClient::Nothing;
        }
    }
}
