// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The books of one GPU: its clients, their pages and their time.
//!
//! `Gpu::books` locks them. Each part is an owner with rules of its own; what concerns several of them is
//! done here, so that these hold whenever the books are unlocked:
//!
//! - The members of the shares and [`Clients`] are the same clients in the same order.
//! - A client that has ended and owns no page is there only until it is checked.
//! - The wait queues of clients and pages follow from the specs.
//!
//! Nothing here allocates: callers pass in the memory needed. Nothing wakes the main thread either:
//! a function returns whether that is to be done.

use super::client::ClientKernel;
use super::clients::{ClientRows, Clients, Throttled};
use super::device::presence::Presence;
use super::device::Device;
use super::gates::gate::Gate;
use super::submission_pages::{SubmissionPages, TakenPage};
use super::unmanaged::UnmanagedUses;
use crate::engaged::{Row, SPECS};
use crate::engine::{ClientState, Engine};
use crate::glue::control::events;
use crate::glue::engaged::scheduler::Engaged;
use crate::glue::engaged::specs::ClientSpecs;
use crate::glue::kernel::ffi;
use crate::glue::kernel::process::{self, Process};
use crate::glue::kernel::storage::{common_storage, storage, Vectors};
use crate::glue::trace;
use crate::glue::trace::work_period::WorkPeriods;
use crate::gpu::GpuState;
use crate::ids::GroupId;
use crate::regs::Chip;
use crate::share::{
    row_for, shortest_period, Group, GroupBy, Identity, Member, RowFor, Settings, Shares, Subject,
    Totals, MAX_CLIENTS, MAX_SETTINGS, MAX_TOTALS,
};
use crate::track::call::Allocators;
use crate::track::pages::PageClaim;
use crate::uapi::Refusal;
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Initial capacity in clients.
const FIRST_CLIENTS: usize = 16;

/// Clients that are checked at most with the books locked once, see [`Books::sweep`]: a user may move
/// all of its clients to another cgroup at once.
const CHECKED: usize = 16;

/// The clients of a GPU, and how much each used.
pub(crate) struct Books {
    /// Index of the GPU.
    pub(crate) gpu: u32,
    /// Time, groups and settings.
    pub(crate) state: GpuState<Vectors>,
    pub(crate) clients: Clients,
    pub(crate) pages: SubmissionPages,
    /// Priorities, modes and reserves.
    pub(crate) specs: ClientSpecs,
    /// The chip of the GPU, and whether it answers.
    pub(crate) presence: Presence,
    pub(crate) unmanaged: UnmanagedUses,
    pub(crate) sums: Sums,
    /// The group that has the turn, as was told last.
    pub(crate) turn: Option<GroupId>,
    pub(crate) periods: WorkPeriods,
}

/// What polling phases have shown since attaching.
#[derive(Default)]
pub(crate) struct Sums {
    /// The last channel seen without a client, by its number in the status word.
    pub(crate) unknown_chid: Option<u16>,
    pub(crate) polls: u64,
    pub(crate) reads: u64,
    pub(crate) evasions: u64,
}

/// What the client of a process used.
pub(crate) struct UsedBy {
    pub(crate) client: u64,
    pub(crate) gpu_time: Ns,
    /// Time on the copy engine, if that is measured.
    pub(crate) copy_time: Option<Ns>,
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

/// The client that a process is accounted with.
pub(super) struct ClientOf {
    pub(super) at: usize,
    /// Whether the process has been made one.
    pub(super) is_new: bool,
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
        device: Arc<Device>,
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
            gpu: device.number(),
            state: GpuState::new(
                engine,
                Shares::new(members, groups, states, totals, GroupBy::Process),
                Settings::new(storage(MAX_SETTINGS)?).with_reserves(storage(SPECS)?),
            ),
            clients: Clients::new(clients),
            pages: SubmissionPages::new(device)?,
            specs: ClientSpecs::new(engaged)?,
            presence: Presence::new(chip),
            unmanaged: UnmanagedUses::default(),
            sums: Sums::default(),
            turn: None,
            periods: WorkPeriods::new(users),
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
            clients,
            users,
        } = room;
        self.state.shares.grow(members, groups, states);
        self.clients.grow(clients);
        self.periods.grow(users);
        None
    }

    /// The clients with what is accounted of each.
    pub(crate) fn rows(&self) -> ClientRows<'_> {
        self.clients.with(self.state.shares.members())
    }

    /// The client that a process is accounted with; makes it one if it has none.
    ///
    /// # Errors
    ///
    /// The reason. The process is accounted with no client then.
    pub(super) fn client_of(&mut self, process: &Process) -> Result<ClientOf, NoClient> {
        let known = |at| ClientOf { at, is_new: false };
        if let Some(at) = self.clients.find(process) {
            return Ok(known(at));
        }
        let identity = process.identity().ok_or(NoClient::Refused(ESRCH))?;
        match self.row_for(&identity) {
            RowFor::New => {}
            RowFor::SharedWith(at) => return Ok(known(at)),
            RowFor::InPlaceOf(at) => self.forget(at),
            RowFor::Refused => return Err(NoClient::Refused(ENFILE)),
        }
        let count = self.clients.all().len();
        if !self.state.shares.has_room() || !self.clients.has_room() {
            if count >= MAX_CLIENTS {
                return Err(NoClient::Refused(ENFILE));
            }
            return Err(NoClient::Room(count.saturating_mul(2).max(FIRST_CLIENTS)));
        }
        let id = self.clients.next_id();
        let at = self
            .state
            .join(id, identity)
            .map_err(|_| NoClient::Refused(ENOMEM))?;
        let wait_queue = self.specs.join(&identity, self.state.shares.depth());
        let client = ClientKernel::new(process, ffi::now(), wait_queue);
        self.state.shares.begin_process(&identity, client.since());
        let (tgid, comm) = (client.tgid(), client.comm());
        trace::client_create(self.gpu, id.get(), tgid, identity.user, comm);
        let member = self.state.shares.members().get(at);
        self.clients.add(self.gpu, client, member);
        Ok(ClientOf { at, is_new: true })
    }

    /// The row of a process that has none yet.
    fn row_for(&self, identity: &Identity) -> RowFor {
        let members = self.state.shares.members();
        let pages = self.pages.table();
        let owns_page = |at: usize| {
            let client = members.get(at);
            client.is_none_or(|client| pages.has_owner(client.id()))
        };
        let clients = members.iter().map(Member::identity);
        row_for(
            identity,
            self.state.shares.depth(),
            clients,
            self.clients.all().len(),
            owns_page,
        )
    }

    /// Number and times of a process's client, if it is one.
    pub(crate) fn used_by(&self, process: &Process) -> Option<UsedBy> {
        let (member, _) = self.rows().get(self.clients.find(process)?)?;
        let account = member.account();
        let copies = self.state.sums().copies.measured || !account.copied.is_zero();
        Some(UsedBy {
            client: member.id().get(),
            gpu_time: account.received,
            copy_time: copies.then_some(account.copied),
        })
    }

    /// The user of a process, if it is a client or lives.
    pub(super) fn user_of(&self, process: &Process) -> Option<u32> {
        let member = self
            .clients
            .find(process)
            .and_then(|at| self.state.shares.members().get(at));
        let identity = member.map(|member| *member.identity());
        identity
            .or_else(|| process.identity())
            .map(|identity| identity.user)
    }

    /// Removes clients without pages that have exited, and updates clients that moved to another
    /// cgroup or user: at most [`CHECKED`] of them, continuing after those of the last call. A live
    /// process keeps its virtual time: it cannot drop its usage, or a throttle, by mapping again.
    /// While something is measured, one that has moved is updated at a decision, once that is
    /// `booked`.
    pub(super) fn sweep(&mut self, booked: bool) {
        let first = self.sweep_before(self.clients.unchecked(), booked);
        self.clients.note_checked(first);
    }

    /// As [`Books::sweep`], for clients before a position. Returns that of the first one checked.
    pub(super) fn sweep_before(&mut self, end: usize, booked: bool) -> usize {
        let before = self.clients.all().len();
        let end = end.min(before);
        let first = end.saturating_sub(CHECKED);
        for at in (first..end).rev() {
            self.refresh_client(at, booked);
        }
        if self.clients.all().len() != before {
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
        let Some((member, client)) = self.rows().get(at) else {
            return;
        };
        let owns_page = || self.pages.table().has_owner(member.id());
        if let Some(mut identity) = client.process().identity() {
            let before = member.identity().user;
            if identity.user != before && owns_page() {
                identity.user = before;
            }
            if booked && identity != *member.identity() {
                // Without room for another group it stays in its old one.
                if self.state.rejoin(at, identity).is_ok() {
                    self.follow_spec(at);
                    let rows = self.clients.with(self.state.shares.members());
                    self.specs.assign_wait_queue_of(at, rows, &mut self.pages);
                }
            }
        } else if !owns_page() {
            self.forget(at);
        }
    }

    /// Removes the client at `at`, which owns no page. Its usage stays in the totals.
    fn forget(&mut self, at: usize) {
        let (Some(member), Some(client)) = (
            self.state.shares.members().get(at).copied(),
            self.clients.remove(at),
        ) else {
            return;
        };
        self.state.leave(at);
        if let Some(wait_queue) = client.wait_queue() {
            self.specs.leave(wait_queue);
        }
        self.pages.forget_position(at);
        let account = member.account_at(ffi::now());
        events::exited(self.gpu, &client.about(&member), account.received);
        trace::client_destroy(
            self.gpu,
            member.id().get(),
            client.tgid(),
            account.measured.get(),
            account.received.get(),
        );
    }

    /// Whether a mapping by the client at `at` would move a page of which something may have been
    /// measured.
    pub(super) fn is_measured_of_another(&self, number: u16, at: usize, proven: bool) -> bool {
        let claim = self.claim(at, proven);
        let moves = claim.is_some_and(|claim| self.pages.table().would_move(number, &claim));
        moves && !self.state.engine.is_parked()
    }

    fn claim(&self, at: usize, proven: bool) -> Option<PageClaim> {
        let member = self.state.shares.members().get(at)?;
        Some(PageClaim {
            owner: member.id(),
            at,
            proven,
        })
    }

    /// Notes that a page is being mapped by the client at `at`, see [`SubmissionPages::map`]; the channels
    /// are to be counted then.
    ///
    /// # Errors
    ///
    /// Those of that function.
    pub(super) fn map(
        &mut self,
        number: u16,
        at: usize,
        proven: bool,
        gate: Arc<Gate>,
    ) -> Result<TakenPage> {
        let claim = self.claim(at, proven).ok_or(EINVAL)?;
        let is_parked = self.state.engine.is_parked();
        self.pages
            .map(&self.clients, number, &claim, gate, is_parked)
    }

    /// Notes that an area with a page has gone. While a phase is measured, a page whose channels are gone
    /// too keeps its owner until that is booked: they may have run in it. True if a decision is due.
    #[must_use]
    pub(super) fn unmap(&mut self, number: u16) -> bool {
        if self.pages.unmap(&self.clients, number) && self.state.engine.is_parked() {
            self.forget_ended();
        }
        self.count_channels()
    }

    /// Ends pages that are not mapped and have no channels any more, see
    /// [`SubmissionPages::end_freed`]. True if a decision is due.
    #[must_use]
    pub(super) fn end_freed(&mut self) -> bool {
        self.pages.end_freed(&self.clients);
        if self.state.engine.is_parked() {
            self.forget_ended();
        }
        self.count_channels()
    }

    /// Removes the pages that have ended, and clients that own no page then and have exited.
    pub(super) fn forget_ended(&mut self) {
        // TIMEOUT: each pass removes a page.
        while let Some((owner, at)) = self.pages.take_ended() {
            if !self.pages.table().has_owner(owner) {
                self.refresh_client(at, true);
            }
        }
    }

    /// Reads the channels of pages again that may have changed, see [`SubmissionPages::read_doubtful`].
    /// True if a decision is due.
    #[must_use]
    pub(super) fn reread_channels(&mut self, freed: bool) -> bool {
        let is_parked = self.state.engine.is_parked();
        // Counting visits all clients, which a decision must not do.
        self.pages.read_doubtful(&self.clients, is_parked, freed) && self.count_channels()
    }

    /// Reads the channels of all pages.
    pub(super) fn read_all_channels(&mut self) {
        let is_parked = self.state.engine.is_parked();
        self.pages.read_all(&self.clients, is_parked);
    }

    /// Counts the existing channels, for the engine. True if a decision is due.
    #[must_use]
    pub(super) fn count_channels(&mut self) -> bool {
        let (pages, shares) = (self.pages.table().all(), &mut self.state.shares);
        let census = self
            .clients
            .count_channels(pages, |at| shares.note_changed(at));
        if self.specs.table().any_protected() {
            self.assign_wait_queues();
        }
        self.state.engine.count(ffi::now(), census)
    }

    /// A channel may have been allocated in any page of these users, see
    /// [`SubmissionPages::doubt_copies`].
    pub(super) fn doubt_copies(&self, allocators: &Allocators) -> Option<Arc<Gate>> {
        let members = self.state.shares.members();
        self.pages.doubt_copies(|page| {
            let member = members.get(page.at());
            member.is_some_and(|member| allocators.include(member.identity().user))
        })
    }

    /// Throttles and releases clients as was decided `now`; [`Books::set_gates`] has to follow if any is
    /// throttled or was. The decision applies `until`.
    pub(super) fn throttle(&mut self, now: Ns, until: Ns) -> Throttled {
        let shares = &self.state.shares;
        self.clients.follow_decision(self.gpu, shares, now, until)
    }

    /// Opens and shuts gates as was decided `now` of their owners.
    pub(super) fn set_gates(&mut self, now: Ns, until: Ns) {
        self.pages.set_gates(&self.clients, now, until);
    }

    /// Lists all gates to be updated.
    pub(super) fn update_all_gates(&mut self) {
        self.pages.update_all(&self.clients);
    }

    /// Submissions are decided on from now on, or no more: gives all clients wait queues, or none.
    pub(super) fn join_wait_queues(&mut self) {
        self.specs.announce();
        self.set_reserves();
        let depth = self.state.shares.depth();
        let members = self.state.shares.members().iter();
        for (member, client) in members.zip(self.clients.all_mut()) {
            client.set_wait_queue(self.specs.join(member.identity(), depth));
        }
        self.assign_wait_queues();
        self.update_all_gates();
    }

    /// Gives the client at `at` the wait queue of the spec that it follows.
    fn follow_spec(&mut self, at: usize) {
        let (Some(member), Some(client)) = (
            self.state.shares.members().get(at),
            self.clients.all_mut().get_mut(at),
        ) else {
            return;
        };
        if let Some(before) = client.wait_queue() {
            let depth = self.state.shares.depth();
            client.set_wait_queue(self.specs.follow(before, member.identity(), depth));
        }
    }

    /// Gives all pages the wait queues of their owners, see [`ClientSpecs::assign_wait_queues`].
    fn assign_wait_queues(&mut self) {
        let rows = self.clients.with(self.state.shares.members());
        self.specs.assign_wait_queues(rows, &mut self.pages);
    }

    /// Forgets the specs of processes that have exited and of cgroups that are gone, and those whose
    /// lease is over.
    pub(super) fn forget_ended_specs(&mut self) {
        if self.specs.forget_ended() {
            self.follow_specs();
        }
    }

    /// Sets the spec of a subject, or forgets it. Returns the one before.
    ///
    /// # Errors
    ///
    /// The reason; nothing has changed then.
    pub(super) fn set_spec(
        &mut self,
        subject: Subject,
        row: Option<Row>,
    ) -> Result<Option<Row>, Refusal> {
        self.forget_ended_specs();
        let shortest = self.shortest_period();
        let rows = self.clients.with(self.state.shares.members());
        let put = self.specs.put(subject, row, shortest, rows, &self.pages)?;
        if put.changes {
            self.follow_specs();
        }
        Ok(put.before)
    }

    /// Sets the spec of a subject as it was before.
    pub(super) fn restore_spec(&mut self, subject: Subject, before: Option<Row>) {
        self.specs.put_back(subject, before);
        self.follow_specs();
    }

    /// Carries out what has been set.
    fn follow_specs(&mut self) {
        self.specs.announce();
        self.set_reserves();
        (0..self.clients.all().len()).for_each(|at| self.follow_spec(at));
        self.assign_wait_queues();
    }

    /// The shortest period of a reserve while submissions are not decided on; nothing while they are,
    /// and without enforcement.
    fn shortest_period(&self) -> Option<Ns> {
        let engine = &self.state.engine;
        let is_coarse = engine.config().enforce && engine.config().dispatch.is_none();
        is_coarse.then(|| shortest_period(engine.usual_period()))
    }

    /// Promises what is promised while submissions are not decided on, or nothing while they are.
    pub(super) fn set_reserves(&mut self) {
        let rows = self.specs.coarse(self.shortest_period());
        self.state.settings.set_reserves(rows);
    }
}
