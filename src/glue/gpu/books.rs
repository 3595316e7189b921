// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The books of one GPU: its clients, their pages and their time.
//!
//! Nothing here allocates: the books are locked, and callers pass in the memory needed.

use super::device::presence::Presence;
use super::gates::gate::Gate;
use crate::engaged::{Row, Specs, SPECS};
use crate::engine::{ClientState, Engine};
use crate::glue::control::events;
use crate::glue::control::listeners::About;
use crate::glue::engaged::scheduler::Engaged;
use crate::glue::kernel::ffi;
use crate::glue::kernel::process::{self, Process};
use crate::glue::kernel::storage::{common_storage, storage, Vectors};
use crate::glue::trace;
use crate::glue::trace::work_period::WorkPeriods;
use crate::gpu::GpuState;
use crate::ids::{ClientId, GroupId};
use crate::regs::Chip;
use crate::share::{
    row_for, Group, GroupBy, Identity, Member, RowFor, Settings, Shares, Subject, Totals,
    MAX_CLIENTS, MAX_SETTINGS, MAX_TOTALS,
};
use crate::track::pages::{self, MAX_PAGES};
use crate::uapi;
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Initial capacity in clients.
const FIRST_CLIENTS: usize = 16;

/// Clients that are checked at most with the books locked once, see [`Books::sweep`]: a user may move
/// all of its clients to another cgroup at once.
const CHECKED: usize = 16;

/// A page of submission slots.
pub(crate) type Page = pages::Page<Arc<Gate>>;

/// The clients of a GPU, and how much each used.
pub(crate) struct Books {
    /// Index of the GPU.
    pub(crate) gpu: u32,
    /// Gives clients their wait queues.
    pub(crate) engaged: Arc<Engaged>,
    /// Priorities, modes and reserves.
    pub(crate) specs: Specs<KVVec<Option<Row>>>,
    /// The clients are members of its shares, element by element with `clients`.
    pub(crate) state: GpuState<Vectors>,
    pub(crate) clients: KVVec<ClientKernel>,
    pub(crate) pages: pages::Pages<Vectors, Arc<Gate>>,
    /// Gates to update once the books are unlocked.
    pub(crate) gate_updates: KVec<GateUpdate>,
    /// The chip of the GPU, and whether it answers.
    pub(crate) presence: Presence,
    pub(crate) sums: Sums,
    /// Grants of the dispatcher that were used up to the last decision.
    pub(super) grants: u64,
    /// The group that has the turn, as was told last.
    pub(crate) turn: Option<GroupId>,
    pub(crate) periods: WorkPeriods,
    /// The number of the next client.
    pub(super) next_id: u64,
    /// Clients before this position are still to be checked, see [`Books::sweep`].
    swept: usize,
    /// Until when the last decision applies.
    pub(super) decided_until: Ns,
    pub(crate) mappings: u32,
    /// Files that were open before LoGA was attached.
    pub(crate) unmanaged: u64,
    /// Mappings of submission pages that LoGA does not control, and which reasons were logged.
    pub(crate) unmanaged_mappings: u64,
    pub(super) named: u32,
}

/// Sums since attaching.
#[derive(Default)]
pub(crate) struct Sums {
    /// The last channel seen without a client, by its number in the status word.
    pub(crate) unknown_chid: Option<u16>,
    pub(crate) polls: u64,
    pub(crate) reads: u64,
    pub(crate) revokes: u64,
    pub(crate) restores: u64,
    pub(crate) evasions: u64,
}

/// The kernel side of a client: its process and the state of its gates. Its time is in [`Member`].
pub(crate) struct ClientKernel {
    pub(crate) pid: Process,
    /// Its number in the initial pid namespace.
    pub(crate) tgid: i32,
    pub(crate) comm: [u8; uapi::COMM_LEN],
    /// When its gates were shut, and until when the decision for it applies.
    pub(crate) throttled_since: Option<Ns>,
    pub(super) throttled_until: Ns,
    /// The decision that released it last, and for how long it had been throttled.
    pub(super) released: Option<(Ns, Ns)>,
    pub(crate) since: Ns,
    /// Time of its threads on processors at the last scan that asked for it.
    pub(super) cpu_time: Option<Ns>,
    /// Its channels, as [`Books::census`] counted them last, and the time before.
    pub(super) channels: u32,
    pub(super) channels_before: u32,
    /// Its wait queue, if its submissions are decided on.
    pub(crate) wait_queue: Option<usize>,
}

/// What the client of a process used.
pub(crate) struct UsedBy {
    pub(crate) client: u64,
    pub(crate) gpu_time: Ns,
    /// Time on the copy engine, if that is measured.
    pub(crate) copy_time: Option<Ns>,
}

/// A gate to update.
pub(crate) struct GateUpdate {
    pub(crate) gate: Arc<Gate>,
    /// Number and process of the client, for traces.
    pub(crate) client: u64,
    pub(crate) tgid: i32,
    /// How long it was throttled, if it is released.
    pub(crate) throttled: Option<Ns>,
}

impl ClientKernel {
    /// The client as events describe it.
    pub(crate) fn about(&self, member: &Member) -> About<'_> {
        About {
            client: member.id().get(),
            process: &self.pid,
            user: member.identity().user,
            comm: &self.comm,
        }
    }
}

/// Storage for more clients, allocated before the books are locked.
pub(super) struct Room {
    members: KVVec<Member>,
    groups: KVVec<Group>,
    states: KVVec<ClientState>,
    clients: KVVec<ClientKernel>,
    users: KVVec<(u32, Ns)>,
}

impl Room {
    /// Allocates room for this many clients.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(clients: usize) -> Result<Self> {
        // A group without members stays until it has paid its debt.
        let groups = clients.saturating_mul(2);
        Ok(Self {
            members: common_storage(clients)?,
            groups: common_storage(groups)?,
            states: common_storage(groups)?,
            clients: KVVec::with_capacity(clients, GFP_KERNEL)?,
            users: KVVec::with_capacity(clients, GFP_KERNEL)?,
        })
    }
}

/// Why a process could not be made a client.
pub(super) enum NoClient {
    /// The caller has to bring room for this many clients.
    Room(usize),
    /// It has begun to exit, or there is no row for it.
    Refused(Error),
}

impl Books {
    /// Empty books.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline(never)]
    pub(crate) fn new(
        gpu: u32,
        engine: Engine,
        chip: Option<Chip>,
        engaged: Arc<Engaged>,
    ) -> Result<KBox<Self>> {
        let Room {
            members,
            groups,
            states,
            clients,
            users,
        } = Room::new(FIRST_CLIENTS)?;
        let totals = Totals::new(storage(MAX_TOTALS)?);
        let made = try_init!(Self {
            gpu,
            engaged,
            specs: Specs::new(storage(SPECS)?),
            state: GpuState::new(
                engine,
                Shares::new(members, groups, states, totals, GroupBy::Process),
                Settings::new(storage(MAX_SETTINGS)?).with_reserves(storage(SPECS)?),
            ),
            clients,
            pages: pages::Pages::new(storage(MAX_PAGES)?),
            gate_updates: KVec::with_capacity(2 * MAX_PAGES, GFP_KERNEL)?,
            presence: Presence::new(chip),
            sums: Sums::default(),
            grants: 0,
            turn: None,
            periods: WorkPeriods::new(users),
            next_id: 1,
            swept: 0,
            decided_until: Ns::ZERO,
            mappings: 0,
            unmanaged: 0,
            unmanaged_mappings: 0,
            named: 0,
        }? Error);
        KBox::try_init(made, GFP_KERNEL)
    }

    /// Moves to `room` if it is larger. Returns it if it is not, to be freed without the lock.
    pub(super) fn grow(&mut self, room: Room) -> Option<Room> {
        if room.clients.capacity() <= self.clients.capacity() {
            return Some(room);
        }
        let Room {
            members,
            groups,
            states,
            mut clients,
            users,
        } = room;
        self.state.shares.grow(members, groups, states);
        for client in self.clients.drain_all() {
            // There is room: checked above.
            let _ = clients.push_within_capacity(client);
        }
        self.clients = clients;
        self.periods.grow(users);
        None
    }

    /// Position of a process among the clients.
    pub(super) fn find_process(&self, process: &Process) -> Option<usize> {
        self.clients
            .iter()
            .position(|client| client.pid == *process)
    }

    /// Position of the client that a process is accounted with; makes it one if it has none.
    ///
    /// # Errors
    ///
    /// The reason. The process is accounted with no client then.
    pub(super) fn client_of(&mut self, process: &Process) -> Result<usize, NoClient> {
        if let Some(at) = self.find_process(process) {
            return Ok(at);
        }
        let identity = process.identity().ok_or(NoClient::Refused(ESRCH))?;
        match self.row_for(&identity) {
            RowFor::New => {}
            RowFor::SharedWith(at) => return Ok(at),
            RowFor::InPlaceOf(at) => self.forget(at),
            RowFor::Refused => return Err(NoClient::Refused(ENFILE)),
        }
        let count = self.clients.len();
        if !self.state.shares.has_room() || count == self.clients.capacity() {
            if count >= MAX_CLIENTS {
                return Err(NoClient::Refused(ENFILE));
            }
            return Err(NoClient::Room(count.saturating_mul(2).max(FIRST_CLIENTS)));
        }
        let id = ClientId::new(self.next_id);
        let at = self
            .state
            .join(id, identity)
            .map_err(|_| NoClient::Refused(ENOMEM))?;
        self.next_id = self.next_id.saturating_add(1);
        let tenant = identity.tenant(self.state.shares.depth());
        let mut client = ClientKernel {
            pid: process.clone(),
            tgid: process.initial_number(),
            comm: process.comm(),
            throttled_since: None,
            throttled_until: Ns::ZERO,
            released: None,
            cpu_time: None,
            channels: 0,
            channels_before: 0,
            wait_queue: self.engaged.join(tenant, self.specs.resolve(&identity)),
            since: ffi::now(),
        };
        self.state.shares.begin_process(&identity, client.since);
        trace::client_create(self.gpu, id.get(), client.tgid, identity.user, &client.comm);
        if let Some(member) = self.state.shares.members().get(at) {
            events::appeared(self.gpu, &client.about(member));
            // A fresh process of a throttled group waits as the others do.
            if let Some(by) = member.throttled_by() {
                client.throttled_since = Some(client.since);
                client.throttled_until = self.decided_until;
                events::throttled(self.gpu, &client.about(member), by);
                self.sums.revokes = self.sums.revokes.saturating_add(1);
            }
        }
        // There is room: checked above.
        let _ = self.clients.push_within_capacity(client);
        Ok(at)
    }

    /// The row of a process that has none yet.
    fn row_for(&self, identity: &Identity) -> RowFor {
        let members = self.state.shares.members();
        let owns_page = |at: usize| {
            let client = members.get(at);
            client.is_none_or(|client| self.pages.has_owner(client.id()))
        };
        let clients = members.iter().map(Member::identity);
        row_for(
            identity,
            self.state.shares.depth(),
            clients,
            self.clients.len(),
            owns_page,
        )
    }

    /// Number and times of a process's client, if it is one.
    pub(crate) fn used_by(&self, process: &Process) -> Option<UsedBy> {
        let member = self
            .state
            .shares
            .members()
            .get(self.find_process(process)?)?;
        let account = member.account();
        let copies = self.state.sums().copies.measured || !account.copied.is_zero();
        Some(UsedBy {
            client: member.id().get(),
            gpu_time: account.received,
            copy_time: copies.then_some(account.copied),
        })
    }

    /// Removes clients without pages that have exited, and updates clients that moved to another
    /// cgroup or user: at most [`CHECKED`] of them, continuing after those of the last call. A live
    /// process keeps its virtual time: it cannot drop its usage, or a throttle, by mapping again.
    /// While something is measured, one that has moved is updated at a decision, once that is
    /// `booked`.
    pub(super) fn sweep(&mut self, booked: bool) {
        if self.swept == 0 {
            self.swept = self.clients.len();
        }
        self.swept = self.sweep_before(self.swept, booked);
    }

    /// As [`Books::sweep`], for clients before a position. Returns that of the first one checked.
    pub(super) fn sweep_before(&mut self, end: usize, booked: bool) -> usize {
        let before = self.clients.len();
        let end = end.min(before);
        let first = end.saturating_sub(CHECKED);
        for at in (first..end).rev() {
            self.refresh_client(at, booked);
        }
        if self.clients.len() != before {
            self.forget_settings();
        }
        self.forget_ended_specs();
        first
    }

    /// Forgets what is set for processes and cgroups that are gone, unless others use the pages of
    /// the processes on.
    pub(crate) fn forget_settings(&mut self) {
        let members = self.state.shares.members();
        let holds = |subject, of: &Identity| match subject {
            Subject::Process(key) => of.process == key,
            Subject::Cgroup(id) => of.is_in(id),
            Subject::User(_) => true,
        };
        let stays = |subject| {
            let mut all = members.iter();
            process::exists(subject) || all.any(|one| holds(subject, one.identity()))
        };
        self.state.settings.retain(stays);
    }

    /// Removes the client at `at` if it has exited, or, once all that was measured is `booked`, updates
    /// its cgroup and user. While it owns a page its user stays: a process that becomes another one
    /// takes no page along.
    pub(super) fn refresh_client(&mut self, at: usize, booked: bool) {
        let (Some(member), Some(client)) =
            (self.state.shares.members().get(at), self.clients.get(at))
        else {
            return;
        };
        if let Some(mut identity) = client.pid.identity() {
            let before = member.identity().user;
            if identity.user != before && self.pages.has_owner(member.id()) {
                identity.user = before;
            }
            if booked && identity != *member.identity() {
                // Without room for another group it stays in its old one.
                if self.state.rejoin(at, identity).is_ok() {
                    self.follow_spec_with_pages(at);
                }
            }
        } else if !self.pages.has_owner(member.id()) {
            self.forget(at);
        }
    }

    /// Removes the client at `at`, which owns no page. Its usage stays in the totals.
    fn forget(&mut self, at: usize) {
        let (Some(member), Ok(client)) = (
            self.state.shares.members().get(at).copied(),
            self.clients.remove(at),
        ) else {
            return;
        };
        self.state.leave(at);
        if let Some(wait_queue) = client.wait_queue {
            self.engaged.leave(wait_queue);
        }
        self.pages.forget_position(at);
        let account = member.account_at(ffi::now());
        events::exited(self.gpu, &client.about(&member), account.received);
        trace::client_destroy(
            self.gpu,
            member.id().get(),
            client.tgid,
            account.measured.get(),
            account.received.get(),
        );
    }
}
