// SPDX-License-Identifier: GPL-2.0

//! Construction of LoGA: for a scenario, or for processes on an ideal GPU.

use super::state::{Residues, Scans};
use super::waiting::Waiting;
use super::{Kept, Loga, Poller, Times};
use crate::control::bound::Bound;
use crate::control::entities::Entities;
use crate::scenario::{Between, Client, Costs, Policy, Promise};
use crate::world::Ledger;
use loga::account::sparse::Sparse;
use loga::account::{Accountant, Copies, Slot};
use loga::engine::{Config, Engine, Inputs};
use loga::error::Error;
use loga::gpu::GpuState;
use loga::ids::MAX_CHANNELS;
use loga::policies::{ClientState, PolicyKind};
use loga::regs::Occupant;
use loga::share::{
    Change, Class, CoarseReserve, Entry, Group, GroupBy, Identity, Member, Row, Settings, Shares,
    Subject, Totals, MAX_LEVELS, MAX_SETTINGS, MAX_TOTALS,
};
use std::collections::VecDeque;

/// The cgroup around those of all clients.
const ROOT: u64 = 1;

impl Loga {
    /// LoGA with a policy and the settings of a scenario.
    ///
    /// # Errors
    ///
    /// A setting out of range.
    pub fn new(
        policy: PolicyKind,
        settings: &Policy,
        costs: &Costs,
        clients: &[&Client],
        seed: u64,
    ) -> Result<Self, Error> {
        let entities = Entities::new(clients, settings.by);
        let mut scans = Scans::new(policy, settings.enforce, settings.trap, clients.len());
        scans.cpu_boost = settings.cpu_boost.into();
        let group_by = match settings.by {
            Between::Client => GroupBy::Process,
            Between::User => GroupBy::User,
            Between::Cgroup => GroupBy::Cgroup,
        };
        let config = Config {
            poll_ms: settings.poll_ms,
            scale: settings.scale,
            // The simulator supplies all inputs.
            inputs: Inputs::Cpu,
            ratio: settings.ratio,
            randomize: settings.randomize,
            accounting: settings.accounting,
            enforce: settings.enforce || scans.evened,
            policy,
            poll_always: settings.poll_always,
            group_by,
            ..Config::default()
        };
        // What a reserve promises is no part of what is divided evenly.
        let is_even = |client: usize| {
            let reserve = clients[client].engaged.promise;
            clients[client].always_wants() && (reserve.is_none() || settings.dispatch.is_some())
        };
        let always = |entity| {
            let members = &Entities::get(&entities, entity).members;
            members.iter().any(|client| is_even(*client))
        };
        let always = (0..entities.len()).map(always).collect();
        let depth = clients.iter().map(|client| client.deepest()).sum();
        let [users, cgroups] =
            [Between::User, Between::Cgroup].map(|by| Entities::new(clients, by));
        let mut above = [0; MAX_LEVELS];
        above[0] = ROOT;
        let identity = |client: usize| Identity {
            // CAST: (all) at most 4096 clients.
            process: client as u64 + 1,
            user: users.of(client) as u32 + 1,
            cgroup: cgroups.of(client) as u64 + ROOT + 1,
            above,
        };
        let identities: Vec<_> = (0..clients.len()).map(identity).collect();
        let bound = Bound::new(policy, settings.enforce, always, depth);
        let mut loga = Self::with(config, &identities, entities, scans, bound, seed)?;
        loga.costs = Times {
            read: costs.read.0.get(),
            scan: costs.scan.0.get(),
            revoke: costs.revoke.0.get(),
            fault: costs.fault.0.get(),
            wakeup: costs.wakeup.0.get(),
        };
        loga.waiting = Waiting::new(loga.state.engine.config(), loga.costs.read, seed);
        loga.set_shares(settings.by, clients)?;
        // Of a policy beside a dispatcher, that one keeps them.
        if settings.dispatch.is_none() {
            loga.set_reserves(clients);
        }
        Ok(loga)
    }

    /// LoGA that takes no time, for processes that belong to cgroups and users.
    ///
    /// # Errors
    ///
    /// A setting out of range.
    pub fn ideal(
        config: Config,
        group_by: GroupBy,
        identities: &[Identity],
        clients: &[&Client],
        seed: u64,
    ) -> Result<Self, Error> {
        let config = Config {
            inputs: Inputs::Cpu,
            group_by,
            ..config
        };
        let entities = Entities::new(clients, Between::Client);
        let scans = Scans::new(config.policy, true, false, clients.len());
        // The bound is one of equal clients without limits.
        let bound = Bound::new(config.policy, false, vec![false; clients.len()], 0);
        Self::with(config, identities, entities, scans, bound, seed)
    }

    fn with(
        config: Config,
        identities: &[Identity],
        entities: Entities,
        scans: Scans,
        bound: Bound,
        seed: u64,
    ) -> Result<Self, Error> {
        let count = identities.len();
        let kept = |identity: &Identity| Kept {
            identity: *identity,
            ..Kept::default()
        };
        Ok(Self {
            costs: Times::default(),
            state: GpuState::new(
                Engine::new(config, seed)?,
                Shares::new(
                    vec![Member::default(); count],
                    vec![Group::default(); 2 * count],
                    vec![ClientState::default(); 2 * count],
                    Totals::new(vec![Row::default(); MAX_TOTALS]),
                    config.group_by,
                ),
                Settings::new(vec![Entry::default(); (2 * count).max(MAX_SETTINGS)])
                    .with_reserves(vec![CoarseReserve::default(); count]),
            ),
            accountant: Accountant::new(),
            sparse: Sparse::new(seed),
            sparse_next: None,
            slots: vec![Slot::default(); MAX_CHANNELS],
            reader: None,
            copies: Copies::new(vec![Slot::default(); MAX_CHANNELS]),
            last: Occupant::Idle,
            unseen: None,
            poller: Poller::Sleeps,
            main: None,
            rung: None,
            decides: None,
            scans,
            todo: VecDeque::new(),
            allocated: 0,
            kept: identities.iter().map(kept).collect(),
            gone: Vec::new(),
            waiting: Waiting::new(&config, 0, seed),
            residues: Residues::new(seed),
            owner: vec![None; MAX_CHANNELS],
            bound,
            ledger: Ledger::default(),
            entities,
            ids: 0,
            next: None,
        })
    }

    /// Promises each client its own reserve, if it has one.
    fn set_reserves(&mut self, clients: &[&Client]) {
        let reserve = |(kept, client): (&Kept, &&Client)| match client.engaged.promise {
            Some(Promise::Own(terms)) => {
                let process = Subject::Process(kept.identity.process);
                Some((process, Some(terms.coarse())))
            }
            _ => None,
        };
        let rows: Vec<_> = self.kept.iter().zip(clients).filter_map(reserve).collect();
        self.state.settings.set_reserves(rows.iter().copied());
    }

    /// Sets the weights, limits and classes of the scenario.
    fn set_shares(&mut self, by: Between, clients: &[&Client]) -> Result<(), Error> {
        for (number, client) in clients.iter().enumerate() {
            let identity = self.kept[number].identity;
            let own = Change {
                limit: client.limit_pct,
                class: Some(client.class).filter(|class| *class != Class::Normal),
                ..Change::default()
            };
            let of_group = Change {
                weight: Some(client.weight.get()),
                target: client.target_pct,
                ..Change::default()
            };
            let process = Subject::Process(identity.process);
            let settings = &mut self.state.settings;
            match by {
                Between::Client => settings.set(process, Some(identity), &of_group)?,
                Between::User => settings.set(Subject::User(identity.user), None, &of_group)?,
                Between::Cgroup => {
                    settings.set(Subject::Cgroup(identity.cgroup), None, &of_group)?
                }
            }
            if own != Change::default() {
                settings.set(process, Some(identity), &own)?;
            }
        }
        Ok(())
    }
}
