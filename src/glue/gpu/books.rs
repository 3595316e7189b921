// SPDX-License-Identifier: GPL-2.0

//! [glue] The books of one GPU: its clients, their pages and their time.
//!
//! Nothing here allocates: the books are locked, and callers bring what is needed.

use super::gate::Gate;
use super::presence::Presence;
use crate::engine::{Census, ClientState, Engine};
use crate::glue::control::events::{self, About};
use crate::glue::kernel::ffi;
use crate::glue::kernel::process::{self, Process};
use crate::glue::kernel::storage::{storage, Vectors};
use crate::glue::trace;
use crate::glue::trace::work_period::WorkPeriods;
use crate::gpu::GpuState;
use crate::ids::ClientId;
use crate::regs::Chip;
use crate::share::{
    Group, GroupBy, Kind, Member, Settings, Shares, Totals, Who, MAX_SETTINGS, MAX_TOTALS,
};
use crate::track::pages::{self, MAX_PAGES};
use crate::uapi;
use crate::units::Ns;
use kernel::alloc::flags::GFP_KERNEL_ACCOUNT;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Clients that there is room for at first.
const FIRST_CLIENTS: usize = 16;
/// Clients of one GPU, those without channels included that live on.
const MAX_CLIENTS: usize = 16_384;
/// Clients of one user. Further processes of the user are accounted with the first one, so that
/// no user can take the table from others.
const MAX_CLIENTS_OF_USER: usize = 2_048;

/// A page of submission slots.
pub(crate) type Page = pages::Page<Arc<Gate>>;

/// Who uses the GPU, and how much.
pub(crate) struct Books {
    /// Index of the GPU.
    pub(crate) gpu: u32,
    /// The clients are members of its shares, element by element with `owners`.
    pub(crate) state: GpuState<Vectors>,
    pub(crate) owners: KVVec<Owner>,
    pub(crate) pages: pages::Pages<Vectors, Arc<Gate>>,
    /// Gates to be turned once the books are unlocked.
    pub(super) turns: KVec<Turn>,
    /// Which chip it is, and whether it answers.
    pub(crate) presence: Presence,
    pub(crate) sums: Sums,
    pub(crate) periods: WorkPeriods,
    next_id: u64,
    /// Clients before this one are yet to be looked after, see [`Books::sweep`].
    swept: usize,
    pub(crate) mappings: u32,
    /// Files that were open before LoGA was attached.
    pub(crate) unmanaged: u64,
    /// Mappings of submission pages that LoGA failed to take on.
    pub(crate) unmanaged_mappings: u64,
}

/// Sums since attaching.
#[derive(Default)]
pub(crate) struct Sums {
    /// The channel of unknown time that was seen last, by its number in the status word.
    pub(crate) unknown_chid: Option<u16>,
    pub(crate) polls: u64,
    pub(crate) reads: u64,
    pub(crate) revokes: u64,
    pub(crate) restores: u64,
    pub(crate) evasions: u64,
}

/// What belongs to a client beside what it got.
pub(crate) struct Owner {
    pub(crate) pid: Process,
    /// Its number in the initial pid namespace.
    pub(crate) tgid: i32,
    pub(crate) comm: [u8; uapi::COMM_LEN],
    /// Since when its gates are shut, and until when that stands.
    pub(crate) shut_since: Option<Ns>,
    pub(super) shut_until: Ns,
    pub(crate) since: Ns,
    /// Its channels, as [`Books::census`] counted them last.
    channels: u32,
}

/// A gate to be turned.
pub(super) struct Turn {
    pub(crate) gate: Arc<Gate>,
    /// Number and process of the client, for traces.
    pub(crate) client: u64,
    pub(crate) tgid: i32,
    /// How long it was throttled, if it is released.
    pub(crate) throttled: Option<Ns>,
}

impl Owner {
    /// As subscribers to events see it.
    pub(crate) fn about(&self, member: &Member) -> About<'_> {
        About {
            client: member.id().get(),
            process: &self.pid,
            user: member.who().user,
            comm: &self.comm,
        }
    }
}

/// Storage for more clients, allocated before the books are locked.
pub(super) struct Room {
    members: KVVec<Member>,
    groups: KVVec<Group>,
    states: KVVec<ClientState>,
    owners: KVVec<Owner>,
    users: KVVec<(u32, Ns)>,
}

impl Room {
    /// For so many clients.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(clients: usize) -> Result<Self> {
        // Groups without members pay what they owe.
        let groups = clients.saturating_mul(2);
        Ok(Self {
            members: storage(clients)?,
            groups: storage(groups)?,
            states: storage(groups)?,
            owners: KVVec::with_capacity(clients, GFP_KERNEL_ACCOUNT)?,
            users: KVVec::with_capacity(clients, GFP_KERNEL_ACCOUNT)?,
        })
    }
}

/// Why a process is not a client yet.
pub(super) enum NoClient {
    /// Room for so many clients is wanted.
    Room(usize),
    /// It has begun to exit, or there is no room for it at all.
    Refused(Error),
}

impl Books {
    /// Empty books.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(gpu: u32, engine: Engine, chip: Option<Chip>) -> Result<Self> {
        let Room {
            members,
            groups,
            states,
            owners,
            users,
        } = Room::new(FIRST_CLIENTS)?;
        Ok(Self {
            gpu,
            state: GpuState::new(
                engine,
                Shares::new(members, groups, states, GroupBy::Process),
                Settings::new(storage(MAX_SETTINGS)?),
                Totals::new(storage(MAX_TOTALS)?),
            ),
            owners,
            pages: pages::Pages::new(storage(MAX_PAGES)?),
            turns: KVec::with_capacity(2 * MAX_PAGES, GFP_KERNEL)?,
            presence: Presence::new(chip),
            sums: Sums::default(),
            periods: WorkPeriods::new(users),
            next_id: 1,
            swept: 0,
            mappings: 0,
            unmanaged: 0,
            unmanaged_mappings: 0,
        })
    }

    /// Moves to more room, if it is more. What is not needed any more comes back, to be freed
    /// without the lock.
    pub(super) fn grow(&mut self, room: Room) -> Option<Room> {
        if room.owners.capacity() <= self.owners.capacity() {
            return Some(room);
        }
        let Room {
            members,
            groups,
            states,
            mut owners,
            users,
        } = room;
        self.state.shares.grow(members, groups, states);
        for owner in self.owners.drain_all() {
            // There is room: checked above.
            let _ = owners.push_within_capacity(owner);
        }
        self.owners = owners;
        self.periods.grow(users);
        None
    }

    /// Position of a process among the clients.
    pub(super) fn find_process(&self, process: &Process) -> Option<usize> {
        self.owners.iter().position(|owner| owner.pid == *process)
    }

    /// Position of a process among the clients, made if there is none.
    ///
    /// # Errors
    ///
    /// What is missing; nothing has changed then.
    pub(super) fn client_of(&mut self, process: &Process) -> Result<usize, NoClient> {
        if let Some(at) = self.find_process(process) {
            return Ok(at);
        }
        let who = process.who().ok_or(NoClient::Refused(ESRCH))?;
        if let Some(at) = self.overflow_of(&who) {
            return Ok(at);
        }
        let count = self.owners.len();
        if !self.state.shares.has_room() || count == self.owners.capacity() {
            if count >= MAX_CLIENTS {
                return Err(NoClient::Refused(ENOMEM));
            }
            return Err(NoClient::Room(count.saturating_mul(2).max(FIRST_CLIENTS)));
        }
        let id = ClientId::new(self.next_id);
        let at = self
            .state
            .join(id, who)
            .map_err(|_| NoClient::Refused(ENOMEM))?;
        self.next_id = self.next_id.saturating_add(1);
        let owner = Owner {
            pid: process.clone(),
            tgid: process.initial_number(),
            comm: process.comm(),
            shut_since: None,
            shut_until: Ns::ZERO,
            channels: 0,
            since: ffi::now(),
        };
        for kind in [Kind::User, Kind::Cgroup] {
            self.state.totals.begin_process(kind, &who, owner.since);
        }
        trace::client_create(self.gpu, id.get(), owner.tgid, who.user, &owner.comm);
        if let Some(member) = self.state.shares.members().get(at) {
            events::appeared(self.gpu, &owner.about(member));
        }
        // There is room: checked above.
        let _ = self.owners.push_within_capacity(owner);
        Ok(at)
    }

    /// The client that further processes of a user are accounted with, if it has as many as one
    /// user may have.
    fn overflow_of(&self, who: &Who) -> Option<usize> {
        if self.owners.len() < MAX_CLIENTS_OF_USER {
            return None;
        }
        let members = self.state.shares.members().iter().enumerate();
        let mut own = members.filter(|(_, member)| member.who().user == who.user);
        let (first, _) = own.next()?;
        (own.count() >= MAX_CLIENTS_OF_USER).then_some(first)
    }

    /// Number and GPU time of a process's client, if it is one.
    pub(crate) fn used_by(&self, process: &Process) -> Option<(u64, Ns)> {
        let member = self
            .state
            .shares
            .members()
            .get(self.find_process(process)?)?;
        Some((member.id().get(), member.account().received))
    }

    /// Channels that exist, for the engine.
    pub(super) fn census(&mut self) -> Census {
        for owner in self.owners.iter_mut() {
            owner.channels = 0;
        }
        for page in self.pages.all() {
            if let Some(owner) = self.owners.get_mut(page.at()) {
                owner.channels = owner.channels.saturating_add(page.allocated());
            }
        }
        let mut census = Census::default();
        for owner in self.owners.iter() {
            census.add(owner.channels);
        }
        census
    }

    /// Forgets clients without pages whose process is gone, and follows those that moved to
    /// another cgroup or user. A process that lives keeps its virtual time: it cannot shake off
    /// what it used, or a throttling, by mapping again.
    pub(crate) fn forget_gone_clients(&mut self) {
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
            self.look_after(at);
        }
        self.swept = at;
        if self.owners.len() != before {
            self.state.settings.retain_processes(process::is_alive);
        }
    }

    /// Forgets the client at `at` if it is gone, or follows it.
    pub(super) fn look_after(&mut self, at: usize) {
        let (Some(member), Some(owner)) =
            (self.state.shares.members().get(at), self.owners.get(at))
        else {
            return;
        };
        if let Some(who) = owner.pid.who() {
            if who != *member.who() {
                // Without room for another group it stays where it is.
                let _ = self.state.rejoin(at, who);
            }
        } else if !self.pages.has_owner(member.id()) {
            self.forget(at);
        }
    }

    /// Forgets the client at `at`, which owns no page. What it used stays in the totals.
    fn forget(&mut self, at: usize) {
        let (Some(member), Ok(owner)) = (
            self.state.shares.members().get(at).copied(),
            self.owners.remove(at),
        ) else {
            return;
        };
        self.state.leave(at);
        self.pages.forget_position(at);
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
