// SPDX-License-Identifier: GPL-2.0

//! [glue] The books of one GPU: its clients, their channels and their time.

use super::bar::Window;
use super::events::{self, About};
use super::ffi;
use super::files::current_tgid;
use super::gate::{Gate, Pages};
use super::latency::Latencies;
use super::order;
use super::process::{self, Process};
use super::trace;
use super::work_period::WorkPeriods;
use crate::account::sparse::{Pace, MIN_INTERVAL};
use crate::account::Commands;
use crate::engine::{ClientState, Engine};
use crate::ids::{Chid, ClientId};
use crate::regs::Chip;
use crate::share::{
    self, Entry, Group, GroupBy, Kind, Member, Row, Settings, MAX_SETTINGS, MAX_TOTALS,
};
use crate::uapi;
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Clients that there is room for at first.
const FIRST_CLIENTS: usize = 16;
/// Clients of one GPU, those without channels included that live on.
const MAX_CLIENTS: usize = 16_384;

/// The clients of one GPU and the groups between which it is divided.
pub(super) type Shares = share::Shares<KVVec<Member>, KVVec<Group>, KVVec<ClientState>>;

/// RM handles by which a channel can be freed.
#[derive(Clone, Copy)]
pub(super) struct Handles {
    /// File of the RM client, to tell clients with the same handles apart. Only compared.
    pub(super) via: usize,
    pub(super) client: u32,
    pub(super) device: u32,
    pub(super) object: u32,
}

/// Who uses the GPU, and how much.
pub(super) struct Books {
    /// Index of the GPU.
    pub(super) gpu: u32,
    pub(super) engine: Engine,
    /// The clients are its members, element by element with `owners`.
    pub(super) shares: Shares,
    pub(super) owners: KVec<Owner>,
    pub(super) settings: Settings<KVVec<Entry>>,
    /// Per user and cgroup.
    pub(super) totals: share::Totals<KVVec<Row>>,
    /// In ascending order of hardware id.
    pub(super) channels: KVec<ChannelRecord>,
    pub(super) chip: Option<Chip>,
    /// How often to look, if accounting is sparse, and the strata of the next phase.
    pub(super) pace: Pace,
    pub(super) interval: Ns,
    /// The slots of the channels, once looks need them.
    pub(super) slots: Option<Window>,
    pub(super) sums: Sums,
    /// What the main thread spent on decisions, and on the beginnings of polling phases.
    pub(super) decide_took: Latencies,
    pub(super) start_took: Latencies,
    pub(super) revoke_took: Latencies,
    pub(super) restore_took: Latencies,
    pub(super) periods: WorkPeriods,
    next_id: u64,
    /// Clients before this one are yet to be looked after, see [`Books::sweep`].
    swept: usize,
    pub(super) mappings: u32,
    pub(super) open_files: u32,
    pub(super) unmanaged: u64,
    /// Subscribers know that the device has gone.
    pub(super) loss_told: bool,
}

/// Sums since attaching.
#[derive(Default)]
pub(super) struct Sums {
    pub(super) idle: Ns,
    pub(super) unknown: Ns,
    pub(super) switches: u64,
    pub(super) polls: u64,
    pub(super) reads: u64,
    pub(super) revokes: u64,
    pub(super) restores: u64,
}

/// What belongs to a client beside what it got.
pub(super) struct Owner {
    pub(super) pid: Process,
    /// Its number in the initial pid namespace.
    pub(super) tgid: i32,
    pub(super) comm: [u8; uapi::COMM_LEN],
    pub(super) gate: Arc<Gate>,
    /// Since when its gate is shut.
    pub(super) shut_since: Option<Ns>,
    pub(super) since: Ns,
}

impl Owner {
    /// As subscribers to events see it.
    pub(super) fn about(&self, member: &Member) -> About<'_> {
        About {
            client: member.id().get(),
            process: &self.pid,
            user: member.who().user,
            comm: &self.comm,
        }
    }
}

/// One channel whose submission page is known.
#[derive(Clone, Copy)]
pub(super) struct ChannelRecord {
    pub(super) chid: Chid,
    pub(super) client: ClientId,
    /// Position of the client in the tables.
    pub(super) owner: usize,
    pub(super) mappings: u32,
    pub(super) handles: Option<Handles>,
    pub(super) measured: Ns,
    pub(super) runs: u64,
    /// Where it was at the last look.
    pub(super) commands: Commands,
}

/// Storage for `count` elements.
fn storage<T: Clone + Default>(count: usize) -> Result<KVVec<T>> {
    let mut store = KVVec::new();
    store.extend_with(count, T::default(), GFP_KERNEL)?;
    Ok(store)
}

impl Books {
    /// Empty books.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(gpu: u32, engine: Engine, chip: Option<Chip>) -> Result<Self> {
        let groups = FIRST_CLIENTS.saturating_mul(2);
        Ok(Self {
            gpu,
            engine,
            shares: Shares::new(
                storage(FIRST_CLIENTS)?,
                storage(groups)?,
                storage(groups)?,
                GroupBy::Process,
            ),
            owners: KVec::new(),
            settings: Settings::new(storage(MAX_SETTINGS)?),
            totals: share::Totals::new(storage(MAX_TOTALS)?),
            channels: KVec::new(),
            chip,
            pace: Pace::new(),
            interval: MIN_INTERVAL,
            slots: None,
            sums: Sums::default(),
            decide_took: Latencies::new()?,
            start_took: Latencies::new()?,
            revoke_took: Latencies::new()?,
            restore_took: Latencies::new()?,
            periods: WorkPeriods::new(),
            next_id: 1,
            swept: 0,
            mappings: 0,
            open_files: 0,
            unmanaged: 0,
            loss_told: false,
        })
    }

    /// Position of the calling process among the clients, made if there is none.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also for more than [`MAX_CLIENTS`]; `ESRCH` outside of a process.
    pub(super) fn client_of_caller(&mut self) -> Result<usize> {
        let pid = Process::of_caller()?;
        if let Some(at) = self.owners.iter().position(|owner| owner.pid == pid) {
            return Ok(at);
        }
        let who = pid.who().ok_or(ESRCH)?;
        let mut comm = [0; uapi::COMM_LEN];
        // SAFETY: The buffer has the length that the function fills.
        unsafe { ffi::loga_leader_comm(comm.as_mut_ptr()) };
        let owner = Owner {
            pid,
            tgid: current_tgid(),
            comm,
            gate: Gate::new()?,
            shut_since: None,
            since: ffi::now(),
        };
        self.make_room()?;
        self.owners.reserve(1, GFP_KERNEL)?;
        self.periods.reserve(self.owners.len().saturating_add(1))?;
        let id = ClientId::new(self.next_id);
        let at = self
            .shares
            .join(id, who, &self.settings, self.engine.start_vtime())
            .map_err(|_| ENOMEM)?;
        self.next_id = self.next_id.saturating_add(1);
        for (kind, key) in [(Kind::User, who.user.into()), (Kind::Cgroup, who.cgroup)] {
            self.totals.begin_process(kind, key, owner.since);
        }
        trace::client_create(self.gpu, id.get(), owner.tgid, who.user, &comm);
        if let Some(member) = self.shares.members().get(at) {
            events::appeared(self.gpu, &owner.about(member));
        }
        self.owners.push(owner, GFP_KERNEL)?;
        Ok(at)
    }

    /// Makes room for a further client.
    fn make_room(&mut self) -> Result {
        if self.shares.has_room() {
            return Ok(());
        }
        let count = self.owners.len().saturating_mul(2).max(FIRST_CLIENTS);
        if self.owners.len() >= MAX_CLIENTS {
            return Err(ENOMEM);
        }
        let groups = count.saturating_mul(2);
        self.shares
            .grow(storage(count)?, storage(groups)?, storage(groups)?);
        Ok(())
    }

    /// Number and GPU time of a process's client, if it is one.
    pub(super) fn used_by(&self, process: &Process) -> Option<(u64, Ns)> {
        let at = self.owners.iter().position(|owner| owner.pid == *process)?;
        let member = self.shares.members().get(at)?;
        Some((member.id().get(), member.account().received))
    }

    pub(super) fn add_channels(
        &mut self,
        pages: Pages,
        client: ClientId,
        handles: Option<Handles>,
    ) -> Result {
        self.channels.reserve(pages.slots.into(), GFP_KERNEL)?;
        let owner = self.shares.find(client).ok_or(ESRCH)?;
        let range = pages.first_chid..pages.first_chid.saturating_add(pages.slots);
        for chid in range.filter_map(Chid::new) {
            // A hardware id that is mapped again by another process has a new owner.
            self.keep_channels(|old| old.chid != chid || old.client == client);
            match self.channels.iter_mut().find(|old| old.chid == chid) {
                Some(old) => old.mappings = old.mappings.saturating_add(1),
                None => {
                    let channel = ChannelRecord {
                        chid,
                        client,
                        owner,
                        mappings: 1,
                        handles,
                        measured: Ns::ZERO,
                        runs: 0,
                        commands: Commands::default(),
                    };
                    self.channels.push(channel, GFP_KERNEL)?;
                    trace::channel_create(self.gpu, chid.get().into(), client.get());
                }
            }
        }
        order::sort_by_key(&mut self.channels, |channel| channel.chid);
        Ok(())
    }

    /// Takes one mapping off the channels of a client that it showed.
    pub(super) fn drop_mapping(&mut self, client: ClientId, pages: Pages) {
        self.mappings = self.mappings.saturating_sub(1);
        let range = pages.first_chid..pages.first_chid.saturating_add(pages.slots);
        for channel in self.channels.iter_mut() {
            if channel.client == client && range.contains(&channel.chid.get()) {
                channel.mappings = channel.mappings.saturating_sub(1);
            }
        }
        self.keep_channels(|channel| channel.mappings != 0);
    }

    /// Forgets all channels but these.
    pub(super) fn keep_channels(&mut self, keep: impl Fn(&ChannelRecord) -> bool) {
        let gpu = self.gpu;
        self.channels.retain(|channel| {
            let kept = keep(channel);
            if !kept {
                let measured = channel.measured.get();
                trace::channel_destroy(
                    gpu,
                    channel.chid.get().into(),
                    channel.client.get(),
                    measured,
                );
            }
            kept
        });
    }

    /// Forgets clients without channels whose process is gone, and follows those that moved to
    /// another cgroup or user. A process that lives keeps its virtual time: it cannot shake off
    /// what it used, or a hold, by mapping again.
    pub(super) fn forget_gone_clients(&mut self) {
        self.swept = self.owners.len();
        self.sweep(usize::MAX);
    }

    /// As [`Books::forget_gone_clients`], of so many clients at most, the ones after those of the
    /// last time.
    pub(super) fn sweep(&mut self, count: usize) {
        let before = self.owners.len();
        if self.swept == 0 {
            self.swept = before;
        }
        let (mut at, mut left) = (self.swept.min(before), count);
        while let (Some(last), Some(less)) = (at.checked_sub(1), left.checked_sub(1)) {
            (at, left) = (last, less);
            let (Some(member), Some(owner)) = (self.shares.members().get(at), self.owners.get(at))
            else {
                break;
            };
            let t_sys = self.engine.start_vtime();
            if let Some(who) = owner.pid.who() {
                if who != *member.who() {
                    // Without room for another group it stays where it is.
                    let _ = self.shares.rejoin(at, who, &self.settings, t_sys);
                }
                continue;
            }
            let id = member.id();
            if !self.channels.iter().any(|channel| channel.client == id) {
                self.forget(at);
            }
        }
        self.swept = at;
        if self.owners.len() != before {
            self.settings.retain_processes(process::is_alive);
        }
    }

    /// Forgets the client at `at`. What it used stays in the totals.
    fn forget(&mut self, at: usize) {
        let (Some(member), Ok(owner)) = (
            self.shares.members().get(at).copied(),
            self.owners.remove(at),
        ) else {
            return;
        };
        self.shares.leave(at, self.engine.start_vtime());
        for channel in self.channels.iter_mut() {
            if channel.owner > at {
                channel.owner = channel.owner.saturating_sub(1);
            }
        }
        owner.gate.restore();
        let account = member.account_at(ffi::now());
        events::exited(self.gpu, &owner.about(&member), account.received);
        trace::client_destroy(
            self.gpu,
            member.id().get(),
            owner.tgid,
            account.measured.get(),
            account.received.get(),
        );
    }
}
