// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The books of one GPU as `/dev/loga` shows them.

use super::describe::{describe, describe_channels, error_of};
use super::permission::Reader;
use super::wire::{class_number, spec_numbers, throttled_by_number, wait_numbers};
use crate::account::fading::{percent, Sums};
use crate::claims::{Claim, OnGpu};
use crate::engaged::{SHARED_QUEUE, WAIT_QUEUES};
use crate::glue::engaged::scheduler::QueueFigures;
use crate::glue::gpu::books::Books;
use crate::glue::gpu::Gpu;
use crate::glue::kernel::ffi;
use crate::glue::kernel::preempt::PreemptGuard;
use crate::glue::kernel::process::{cgroup_root, shown_cgroup, shown_uid};
use crate::glue::kernel::storage::Vectors;
use crate::share::{Account, Limit, Member, Shares, Subject};
use crate::uapi;
use crate::units::Ns;
use kernel::alloc::flags::GFP_KERNEL_ACCOUNT;
use kernel::prelude::*;

/// What is shown of a group.
#[derive(Clone, Copy, Default)]
struct Part {
    /// What its processes got since it was added up.
    recent: Account,
    /// The caller's processes, and what they got.
    members: u32,
    account: Account,
}

/// The view of a caller.
struct View {
    reader: Reader,
    /// Root of its cgroup namespace.
    root: u64,
    /// Of each group, by position.
    parts: KVVec<Part>,
    /// Channels of each client, by position.
    channels: KVVec<u32>,
    /// What clients got while submissions are decided on, by wait queue.
    queues: KVVec<QueueFigures>,
    /// Up to when all time is booked.
    booked: Ns,
    /// Fading means of all clients.
    sums: Sums,
}

impl View {
    /// Counts channels, and sums up processes, also for each group. It does not add up
    /// (`Shares::add_up`), which may search the table of totals.
    fn prepare(&mut self, books: &Books) {
        for (_, page, _) in books.pages.table().channels() {
            if let Some(count) = self.channels.get_mut(page.at()) {
                *count = count.saturating_add(1);
            }
        }
        self.booked = books.state.engine.booked_until(ffi::now());
        for (member, client) in books.rows().iter() {
            self.sums.add(&member.means(self.booked, client.since()));
            let Some(part) = self.parts.get_mut(member.group()) else {
                continue;
            };
            part.recent.add(&member.recent());
            if self.reader.may_see(member.identity().user) {
                part.members = part.members.saturating_add(1);
                part.account.add(member.account());
            }
        }
    }

    /// Whether the caller may see all processes of a group. Only cgroups have several users.
    fn shows_all_of(&self, shares: &Shares<Vectors>, group: usize) -> bool {
        let part = self.parts.get(group).map_or(0, |part| part.members);
        let group = shares.groups().get(group);
        self.reader.all
            || group.is_some_and(|group| match group.subject() {
                Subject::Cgroup(_) => group.members() == part,
                _ => true,
            })
    }

    /// A client as `/dev/loga` shows it to the calling process.
    fn client(&self, books: &Books, at: usize) -> Option<uapi::Client> {
        let (member, client) = books.rows().get(at)?;
        let group = books.state.shares.state_of(member.group())?;
        let account = member.account_at(ffi::now());
        // The wait queue of all users follows none.
        let follows = client.wait_queue() != Some(SHARED_QUEUE);
        let spec = books.specs.table().resolve(member.identity());
        let spec = spec
            .filter(|_| follows)
            .and_then(|spec| books.specs.table().get(spec))
            .map(spec_numbers);
        let queue = client.wait_queue().and_then(|queue| self.queues.get(queue));
        let figures = queue.copied().unwrap_or_default();
        let prio = figures.prio.map(|prio| prio.get().into());
        let means = member.means(self.booked, client.since());
        Some(uapi::Client {
            id: member.id().get(),
            pid: client.process().number(),
            uid: shown_uid(member.identity().user),
            comm: *client.comm(),
            channels: self.channels.get(at).copied().unwrap_or(0),
            state: match (client.throttled_since(), member.used().is_nothing()) {
                (Some(_), _) => uapi::STATE_THROTTLED,
                (None, false) => uapi::STATE_RUNNING,
                (None, true) => uapi::STATE_IDLE,
            },
            weight: member.resolved().weight.get(),
            limit_pct: member.resolved().limit.unwrap_or(Limit::NONE).get(),
            class: class_number(member.resolved().class),
            throttled_by: throttled_by_number(
                member
                    .throttled_by()
                    .filter(|_| client.throttled_since().is_some()),
            ),
            group: group.id.get(),
            cgroup: shown_cgroup(member.identity(), self.root),
            measured_ns: account.measured.get(),
            gpu_time_ns: account.received.get(),
            error_ns: error_of(books, account.variance_us2).get(),
            variance_us2: account.variance_us2,
            entitled_ns: account.entitled.get(),
            waited_ns: account.waited.get(),
            vtime_ns: if self.shows_all_of(&books.state.shares, member.group()) {
                group.vtime.get()
            } else {
                books.state.engine.start_vtime().get()
            },
            throttled_ns: account.throttled.get(),
            throttled_count: account.throttles,
            runs: account.runs,
            since_ns: client.since().get(),
            evasions: member.evasions(),
            spec: spec.map_or(uapi::NO_SPEC, |spec| spec.subject),
            prio: prio
                .or(spec.map(|spec| spec.prio))
                .unwrap_or(uapi::PRIO_BY_NICE),
            mode: spec.map_or(uapi::MODE_PRT, |spec| spec.mode),
            reserve: spec.map_or(uapi::RESERVE_NONE, |spec| spec.kind),
            submissions: figures.submissions,
            submission_waits: wait_numbers(&figures.waits),
            longest_submission_wait_ns: figures.longest.get(),
            busy_2s_ppm: means.busy_2s,
            busy_30s_ppm: means.busy_30s,
            waited_2s_ppm: means.waited_2s,
            waited_30s_ppm: means.waited_30s,
            copy_time_ns: account.copied.get(),
            copy_error_ns: error_of(books, account.copied_variance_us2).get(),
            copy_variance_us2: account.copied_variance_us2,
            copy_2s_ppm: means.copied_2s,
            copy_30s_ppm: means.copied_30s,
            ended: client.process().identity().is_none().into(),
            // `name_users` fills it in.
            user: 0,
        })
    }

    /// A group as `/dev/loga` shows it to the calling process: of a group with other users' clients
    /// only the caller's part.
    fn group(&self, books: &Books, at: usize) -> Option<uapi::Group> {
        let group = books.state.shares.groups().get(at)?;
        let state = books.state.shares.state_of(at)?;
        let (kind, key) = match group.subject() {
            Subject::Process(_) => (uapi::GROUP_BY_PROCESS, 0),
            Subject::User(user) => (uapi::GROUP_BY_USER, shown_uid(user).into()),
            Subject::Cgroup(id) => (uapi::GROUP_BY_CGROUP, id),
        };
        let part = self.parts.get(at).copied().unwrap_or_default();
        let (members, vtime, account) = if self.shows_all_of(&books.state.shares, at) {
            let mut whole = *group.account();
            whole.add(&part.recent);
            (group.members(), state.vtime, whole)
        } else {
            (part.members, books.state.engine.start_vtime(), part.account)
        };
        Some(uapi::Group {
            id: state.id.get(),
            key,
            kind,
            members,
            weight: state.weight.get(),
            throttled: state.throttled.into(),
            vtime_ns: vtime.get(),
            measured_ns: account.measured.get(),
            gpu_time_ns: account.received.get(),
            entitled_ns: account.entitled.get(),
            waited_ns: account.waited.get(),
            throttled_ns: account.throttled.get(),
            throttled_count: account.throttles,
            runs: account.runs,
            copy_time_ns: account.copied.get(),
            turn: (books.turn == Some(state.id)).into(),
            reserved: 0,
        })
    }

    /// Whether the caller may see any process of a group.
    fn shows(&self, group: usize) -> bool {
        self.reader.all || self.parts.get(group).is_some_and(|part| part.members != 0)
    }
}

/// The tables of a snapshot.
pub(super) struct Tables {
    pub(crate) clients: KVVec<uapi::Client>,
    pub(crate) groups: KVVec<uapi::Group>,
    pub(crate) channels: KVVec<uapi::Channel>,
}

/// Up to this number of rows, a caller is not preempted while it has the books locked: otherwise
/// waiting threads would also wait for the threads that preempt it.
const BRIEF: usize = 256;

/// TIMEOUT: most attempts to size the tables; the books outgrow them only by clients that appear
/// between two locks.
const TRIES: u32 = 4;

impl Tables {
    /// Copies the books. Memory is allocated before they are locked, and user memory is not
    /// accessed while they are. Of unprivileged callers, see [`Gpu::enter_as_reader`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EAGAIN` if the books grew each time; `ERESTARTSYS`: a signal has come.
    pub(super) fn collect(gpu: &Gpu, snapshot: &mut uapi::Snapshot) -> Result<Self> {
        let reader = Reader::calling();
        let enter = || (!reader.all).then(|| gpu.enter_as_reader()).transpose();
        if reader.all {
            gpu.forget_gone_clients();
            gpu.books.lock().forget_settings();
        }
        for _ in 0..TRIES {
            let first = enter()?;
            let books = gpu.books.lock();
            let (clients, groups) = (books.clients.all().len(), books.state.shares.groups().len());
            let channels = books.pages.table().channel_count();
            drop(books);
            drop(first);
            // Some more, for clients that appear before the next lock.
            let grown = |count: usize| count.saturating_add(count / 8).saturating_add(8);
            let (clients, groups, channels) = (grown(clients), grown(groups), grown(channels));
            // CAST: (all) 32 bits fit.
            let room = |count: u32, there: usize| there.min(count as usize);
            let mut tables = Self {
                clients: table(room(snapshot.client_count, clients))?,
                groups: table(room(snapshot.group_count, groups))?,
                channels: table(room(snapshot.channel_count, channels))?,
            };
            let mut view = View {
                reader,
                root: cgroup_root(),
                parts: KVVec::new(),
                channels: KVVec::new(),
                queues: KVVec::new(),
                booked: Ns::ZERO,
                sums: Sums::default(),
            };
            view.channels.extend_with(clients, 0, GFP_KERNEL_ACCOUNT)?;
            view.queues
                .extend_with(WAIT_QUEUES, QueueFigures::default(), GFP_KERNEL_ACCOUNT)?;
            view.parts
                .extend_with(groups, Part::default(), GFP_KERNEL_ACCOUNT)?;
            let claims = gpu.claims.on(gpu.device.number())?;
            let first = enter()?;
            let books = gpu.books.lock();
            // Wait queues are not given anew while the books are locked.
            gpu.engaged.figures(&mut view.queues);
            let there = (
                books.clients.all().len(),
                books.state.shares.groups().len(),
                books.pages.table().channel_count(),
            );
            if there.0 <= clients && there.1 <= groups && there.2 <= channels {
                snapshot.info = describe(&books, gpu);
                if !reader.all {
                    snapshot.info.withhold();
                }
                let rows = there.0.saturating_add(there.1).saturating_add(there.2);
                let stays = (rows <= BRIEF).then(PreemptGuard::new);
                tables.fill(&books, &mut view, claims, snapshot);
                drop(books);
                drop(stays);
                drop(first);
                tables.name_users(gpu, reader.all)?;
                return Ok(tables);
            }
        }
        Err(EAGAIN)
    }

    /// Names processes that use the pages of clients that have ended. May sleep.
    fn name_users(&mut self, gpu: &Gpu, all: bool) -> Result {
        for client in self.clients.iter_mut().filter(|client| client.ended != 0) {
            client.user = gpu.user_of_ended(client.id, all)?.unwrap_or(0);
        }
        Ok(())
    }

    /// Fills the tables as far as there is room, and sets the full counts.
    fn fill(
        &mut self,
        books: &Books,
        view: &mut View,
        claims: OnGpu<KVec<Claim>>,
        snapshot: &mut uapi::Snapshot,
    ) {
        view.prepare(books);
        let view = &*view;
        let members = books.state.shares.members();
        // All users see the sums and the claims.
        snapshot.info.note_sums(&view.sums);
        let wants = books.rows().iter();
        let wants = wants.map(|(member, client)| {
            let want = move || member.means(view.booked, client.since()).want_2s();
            let percent = move || percent(want().into());
            (member.identity().process, percent)
        });
        snapshot.info.note_claims(&claims.claimed(wants));
        let visible = |member: &Member| view.reader.may_see(member.identity().user);
        let clients = members
            .iter()
            .enumerate()
            .filter(|(_, member)| visible(member));
        snapshot.client_count = take(&mut self.clients, clients.map(|(at, _)| at), |at| {
            view.client(books, at)
        });
        let groups = books.state.shares.groups().iter().enumerate();
        let groups = groups.filter(|(at, group)| !group.is_remembered() && view.shows(*at));
        let groups = groups.map(|(at, _)| at);
        snapshot.group_count = take(&mut self.groups, groups, |at| view.group(books, at));
        let is_shown = |at: usize| view.reader.all || members.get(at).is_some_and(visible);
        let channels = describe_channels(books).filter(|(at, _)| is_shown(*at));
        snapshot.channel_count = take(&mut self.channels, channels, |(_, channel)| Some(channel));
    }
}

/// An empty table with room, charged to the caller.
fn table<T>(room: usize) -> Result<KVVec<T>> {
    Ok(KVVec::with_capacity(room, GFP_KERNEL_ACCOUNT)?)
}

/// Describes the elements at `places` that there is room for; returns the number of all.
fn take<P, T>(
    table: &mut KVVec<T>,
    places: impl Iterator<Item = P>,
    describe: impl Fn(P) -> Option<T>,
) -> u32 {
    let mut count = 0u32;
    for at in places {
        count = count.saturating_add(1);
        if table.len() < table.capacity() {
            if let Some(element) = describe(at) {
                // There is room.
                let _ = table.push_within_capacity(element);
            }
        }
    }
    count
}
