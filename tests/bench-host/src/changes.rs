// SPDX-License-Identifier: GPL-2.0

//! A GPU with many clients of which some come, go, move between cgroups or are lowered: what is
//! done with the books locked.

use loga::account::{Accounts, EngineKind, Slot};
use loga::engine::{ClientState, Config, Engine};
use loga::gpu::GpuState;
use loga::ids::ClientId;
use loga::share::{
    Change, Entry, Group, GroupBy, Identity, Member, Period, Row, Settings, Shares, Subject,
    Totals, MAX_CLIENTS, MAX_CLIENTS_OF_USER, MAX_SETTINGS, MAX_TOTALS,
};
use loga::units::Ns;
use loga::Vectors;

/// The measured numbers of clients: those that one user may have, alone and beside as many as a GPU
/// may have.
pub const COUNTS: [usize; 2] = [MAX_CLIENTS_OF_USER, MAX_CLIENTS];

/// A GPU whose clients change.
pub struct Changing {
    gpu: GpuState<Vectors>,
    next: u64,
    now: Ns,
}

/// Process `id`, in one of two cgroups of its user's.
fn identity(id: u64, cgroup: u64) -> Identity {
    let mut identity = Identity {
        process: id,
        // CAST: less than the number of clients.
        user: 1000 + (id / MAX_CLIENTS_OF_USER as u64) as u32,
        cgroup: 10 + cgroup,
        ..Identity::default()
    };
    (identity.above[0], identity.above[1]) = (1, 2);
    identity
}

impl Changing {
    /// So many clients, each of which has used the GPU; room for one more.
    pub fn new(count: usize, by: GroupBy) -> Self {
        let config = Config {
            group_by: by,
            enforce: true,
            ..Config::paper()
        };
        let room = count + 1;
        let shares = Shares::new(
            vec![Member::default(); room],
            vec![Group::default(); 2 * room],
            vec![ClientState::default(); 2 * room],
            Totals::new(vec![Row::default(); MAX_TOTALS]),
            by,
        );
        let settings = Settings::new(vec![Entry::default(); MAX_SETTINGS]);
        // PANIC: the default settings are in range.
        let engine = Engine::new(config, 1).expect("settings in range");
        let mut changing = Self {
            gpu: GpuState::new(engine, shares, settings),
            next: 1,
            now: Ns::ZERO,
        };
        for _ in 0..count {
            changing.join();
        }
        // Everything is booked, and nobody does anything for so long that all sleep.
        changing.use_all();
        for _ in 0..40 {
            changing.decide();
        }
        changing
    }

    /// Every client uses the GPU for a moment.
    pub fn use_all(&mut self) {
        let slot = Slot {
            ran: Ns::from_us(1),
            runs: 1,
            ..Slot::default()
        };
        for at in 0..self.count() {
            self.gpu.shares.charge_at(at, EngineKind::Compute, &slot);
        }
    }

    /// Clients that there are.
    pub fn count(&self) -> usize {
        self.gpu.shares.members().len()
    }

    /// A decision, but for the policy.
    pub fn decide(&mut self) {
        let span = Ns::from_ms(60);
        self.now = self.now.saturating_add(span);
        let period = Period {
            now: self.now,
            poll: Ns::from_ms(10),
            span,
            next: span,
            enforce: true,
            ..Period::default()
        };
        let gpu = &mut self.gpu;
        gpu.shares.gather(&gpu.settings, period.poll, span);
        gpu.shares.book(&mut gpu.settings, &period);
    }

    /// A further process joins.
    pub fn join(&mut self) {
        let id = self.next;
        self.next += 1;
        let joined = self.gpu.join(ClientId::new(id), identity(id, 0));
        // PANIC: there is room for one more.
        joined.expect("room");
    }

    /// The process at this position is gone.
    pub fn leave(&mut self, at: usize) {
        self.gpu.leave(at);
    }

    /// The process at this position moves to its user's other cgroup.
    pub fn move_over(&mut self, at: usize) {
        let Some(member) = self.gpu.shares.members().get(at) else {
            return;
        };
        let before = *member.identity();
        let moved = identity(before.process, (before.cgroup - 10) ^ 1);
        // PANIC: there is room for as many groups as clients.
        self.gpu.rejoin(at, moved).expect("room");
    }

    /// The user of the process at this position lowers it.
    pub fn lower(&mut self, at: usize) {
        let member = self.gpu.shares.members().get(at);
        let Some(identity) = member.map(|member| *member.identity()) else {
            return;
        };
        let weight = self.gpu.settings.entry(Subject::Process(identity.process));
        let weight = weight.and_then(Entry::weight).map_or(0, |it| it.get());
        let change = Change::weight(1 + weight % 2);
        // PANIC: it is lower than what is set.
        self.gpu.lower(Some(at), &identity, &change).expect("lower");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_come_go_move_and_are_lowered() {
        for by in [GroupBy::Process, GroupBy::User, GroupBy::Cgroup] {
            let mut changing = Changing::new(8, by);
            changing.join();
            changing.leave(0);
            changing.move_over(3);
            changing.lower(4);
            changing.lower(4);
            changing.decide();
            assert_eq!(changing.count(), 8);
            let members = changing.gpu.shares.members();
            assert_eq!(members[3].identity().cgroup, 11);
            assert_eq!(members[4].resolved().weight.get(), 2);
        }
    }
}
