// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Processes, the groups between which the GPU is divided, and what each got.

use super::activity::{Activity, QUIET};
use super::resolved::Resolved;
use super::setting::{Class, Identity, Limit, Subject};
use crate::account::doubt::Doubt;
use crate::account::fading::{Fading, Means};
use crate::account::{Charge, EngineKind, Slot};
use crate::fair;
use crate::ids::{ClientId, GroupId};
use crate::units::Ns;

/// What a process, group, user or cgroup got of a GPU since it appeared. All values only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// GPU time seen in polling phases.
    pub measured: Ns,
    /// GPU time: what was seen, scaled by the periods that it stands for.
    pub received: Ns,
    /// What a division by weights among the processes that wanted the GPU gives, not more than its
    /// limit.
    pub entitled: Ns,
    /// Time in which it wanted the GPU and did not have it: commands waiting while others ran, scaled
    /// like `received`, time of threads that wait for their turn, and time throttled, by the policy,
    /// its limit, its class or a reserve. Commands that wait are observed for [`Inputs::Waits`] only:
    /// not under policies that work in stages, nor under those that need less with phases that grow
    /// with channels.
    ///
    /// [`Inputs::Waits`]: crate::policies::Inputs::Waits
    pub waited: Ns,
    /// Time throttled.
    pub throttled: Ns,
    /// Times throttled.
    pub throttles: u64,
    /// Times the engine took up its work in polling phases; sparse accounting adds none.
    pub runs: u64,
    /// Variance of `received` from sparse accounting, in square microseconds, see
    /// [`crate::account::sparse`]. That of burst accounting is not known.
    pub variance_us2: u64,
    /// Time on the copy engine, scaled like `received`. Where copies are not measured it does not
    /// grow.
    pub copied: Ns,
    /// As `variance_us2`, of `copied`.
    pub copied_variance_us2: u64,
}

impl Account {
    /// Adds another account.
    pub fn add(&mut self, other: &Account) {
        self.measured = self.measured.saturating_add(other.measured);
        self.received = self.received.saturating_add(other.received);
        self.entitled = self.entitled.saturating_add(other.entitled);
        self.waited = self.waited.saturating_add(other.waited);
        self.throttled = self.throttled.saturating_add(other.throttled);
        self.throttles = self.throttles.saturating_add(other.throttles);
        self.runs = self.runs.saturating_add(other.runs);
        self.variance_us2 = self.variance_us2.saturating_add(other.variance_us2);
        self.copied = self.copied.saturating_add(other.copied);
        self.copied_variance_us2 = self
            .copied_variance_us2
            .saturating_add(other.copied_variance_us2);
    }

    /// What has been added to it since it was `earlier`.
    pub(super) fn since(&self, earlier: &Account) -> Account {
        Account {
            measured: self.measured.saturating_sub(earlier.measured),
            received: self.received.saturating_sub(earlier.received),
            entitled: self.entitled.saturating_sub(earlier.entitled),
            waited: self.waited.saturating_sub(earlier.waited),
            throttled: self.throttled.saturating_sub(earlier.throttled),
            throttles: self.throttles.saturating_sub(earlier.throttles),
            runs: self.runs.saturating_sub(earlier.runs),
            variance_us2: self.variance_us2.saturating_sub(earlier.variance_us2),
            copied: self.copied.saturating_sub(earlier.copied),
            copied_variance_us2: self
                .copied_variance_us2
                .saturating_sub(earlier.copied_variance_us2),
        }
    }
}

/// What a process did in one polling phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// GPU time.
    pub busy: Ns,
    /// Times the engine took up its work.
    pub runs: u32,
    /// Time in which its commands waited and none of them ran.
    pub waited: Ns,
    /// Time on the copy engine.
    pub copied: Ns,
    /// Time in which its copies waited and none of them ran.
    pub waited_to_copy: Ns,
    /// Times the copy engine took up its work.
    pub(super) copies: u32,
    /// GPU time for the policy, where polling phases do not show it.
    pub(super) counted: Option<Ns>,
}

impl Used {
    /// Whether it had no work on an engine.
    pub const fn is_nothing(&self) -> bool {
        self.busy.is_zero() && self.copied.is_zero()
    }

    /// GPU time, as the policy sees it.
    pub(super) fn busy(&self) -> Ns {
        self.counted.unwrap_or(self.busy)
    }
}

/// Why a process is throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThrottledBy {
    /// The policy decided it.
    Policy,
    /// It, a cgroup around it or its user has used up its limit.
    Limit,
    /// It is of the idle class, and a process of the normal class wants the GPU.
    Class,
    /// A process with a coarse reserve comes first.
    Reserve,
}

/// One process that uses a GPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Member {
    pub(super) id: ClientId,
    pub(super) identity: Identity,
    pub(super) used: Used,
    /// The phase that `used` is of.
    pub(super) phase: u32,
    pub(super) account: Account,
    /// The part of `account` that its group, its user and its cgroup have as well: all of it, while it
    /// sleeps.
    pub(super) added: Account,
    /// The last period that it took part in, and means of those before.
    pub(super) fading: Fading,
    pub(super) resolved: Resolved,
    /// Position of its group.
    pub(super) group: usize,
    /// GPU time received before it came to its group.
    pub(super) before: Ns,
    pub(super) throttled_by: Option<ThrottledBy>,
    /// Up to when the time for which it is throttled is in `pending`.
    pub(super) throttled_since: Option<Ns>,
    /// Throttled time that is not booked yet, and how often that began.
    pub(super) pending: Ns,
    pub(super) throttles: u32,
    /// GPU time that samples found in the non-polling phase, if there were any, see
    /// [`crate::account::residue`].
    pub(super) residue: Option<Ns>,
    /// Its channels came or went since the last decision.
    pub(super) changed: bool,
    /// All that it used in the period is `residue`: its channels came or went, and nothing was polled.
    pub(super) is_unpolled: bool,
    /// As `residue`, time on the copy engine, while it is throttled.
    pub(super) copy_residue: Ns,
    /// Time since the last decision in which a thread of it waited for its turn.
    pub(super) turn_waited: Ns,
    /// The comparison of its polling phases with that, while it is not throttled.
    pub(super) doubt: Doubt,
    /// GPU time that it is charged for the period in place of the scaled time.
    pub(super) counted: Option<Ns>,
    /// What it had gained before, if it is charged so from this period on.
    pub(super) evaded: Option<Ns>,
    /// Wanted the GPU when it was last allowed to run.
    pub(super) wants: bool,
    /// It may use its coarse reserve, and the policy has no say.
    pub(super) comes_first: bool,
    /// The same, and others are held back for it.
    pub(super) holds: bool,
    /// Its part of its group's lead, while it moves to another one.
    pub(super) lead: Ns,
    /// Rows of its user and its cgroup in the table of totals, as of last time.
    pub(super) rows: [u16; 2],
    pub(super) activity: Activity,
}

impl Member {
    /// Its number.
    pub const fn id(&self) -> ClientId {
        self.id
    }

    /// Its process, cgroups and user.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What it did in the last polling phase.
    pub const fn used(&self) -> &Used {
        &self.used
    }

    /// What it got.
    pub const fn account(&self) -> &Account {
        &self.account
    }

    /// What holds for it.
    pub const fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// Position of its group in the table of groups.
    pub const fn group(&self) -> usize {
        self.group
    }

    /// Whether it is to be throttled, and why.
    pub const fn throttled_by(&self) -> Option<ThrottledBy> {
        self.throttled_by
    }

    /// The part of it that its group, its user and its cgroup do not have yet.
    pub fn recent(&self) -> Account {
        self.account.since(&self.added)
    }

    /// What it got until `now`, including the time for which it is being throttled.
    pub fn account_at(&self, now: Ns) -> Account {
        let mut account = self.account;
        let since = self.throttled_since.unwrap_or(now);
        let throttled = self.pending.saturating_add(now.saturating_sub(since));
        account.throttled = account.throttled.saturating_add(throttled);
        account.throttles = account.throttles.saturating_add(self.throttles.into());
        account
    }

    /// Fading means of what is added to its account as `received`, `waited` and `copied`, for a time
    /// up to which all periods are booked; it appeared at the time `since`.
    pub fn means(&self, now: Ns, since: Ns) -> Means {
        self.fading.at(now, since)
    }

    /// Whether it is kept out of the competition (throttled by a limit, its class or a reserve): no
    /// client waits for it.
    pub(super) const fn sits_out(&self) -> bool {
        matches!(
            self.throttled_by,
            Some(ThrottledBy::Limit | ThrottledBy::Class | ThrottledBy::Reserve)
        )
    }

    /// GPU time received since it came to its group.
    pub(super) const fn used_in_group(&self) -> Ns {
        self.account.received.saturating_sub(self.before)
    }

    /// Whether it is one of the processes between which a period is divided.
    pub(super) fn counts(&self) -> bool {
        self.wants && self.throttled_by != Some(ThrottledBy::Class)
    }

    /// Times that it was found to run outside of polling phases for longer than within them.
    pub const fn evasions(&self) -> u64 {
        self.doubt.times()
    }

    /// What it had gained by that, if it was found out in the period that was booked last.
    pub const fn evaded(&self) -> Option<Ns> {
        self.evaded
    }

    /// Forgets what it used in another phase than this one.
    pub(super) fn in_phase(&mut self, phase: u32) -> &mut Self {
        if self.phase != phase {
            (self.phase, self.used) = (phase, Used::default());
        }
        self
    }

    /// Adds what it waited for its turn since the last decision, `span` ago, to what it waited in the
    /// polling phase, of length `poll`.
    pub(super) fn count_turn_wait(&mut self, poll: Ns, span: Ns) {
        let waited = core::mem::take(&mut self.turn_waited);
        if waited.is_zero() {
            return;
        }
        let most = poll.saturating_sub(self.used.busy);
        let part = fair::estimate(waited, span, poll);
        self.used.waited = self.used.waited.saturating_add(part).min(most);
    }

    /// All GPU time that it used in the period, if that is known: of one that is throttled, or of
    /// which no polling phase shows anything.
    pub(super) fn ran_on(&self) -> Option<Ns> {
        let is_known = self.throttled_by.is_some() || self.is_unpolled;
        let residue = self.residue.filter(|_| is_known)?;
        Some(residue.saturating_add(self.used.busy))
    }

    /// As [`Member::ran_on`], on the copy engine.
    pub(super) fn copied_on(&self) -> Option<Ns> {
        self.ran_on()?;
        Some(self.copy_residue.saturating_add(self.used.copied))
    }

    /// Changes whether it is throttled.
    #[inline]
    pub(super) fn set_throttled_by(&mut self, by: Option<ThrottledBy>, now: Ns) {
        if by.is_none() && self.throttled_by.is_none() {
            return;
        }
        self.note_throttled(now);
        if self.throttled_by.is_none() && by.is_some() {
            self.throttles = self.throttles.saturating_add(1);
        }
        self.throttled_by = by;
        self.throttled_since = by.map(|_| now);
    }

    /// Position of the process that is awake after this one, or [`END`](super::activity::END).
    pub(super) const fn next_awake(&self) -> usize {
        self.activity.next
    }

    /// Notes after the decision on a phase whether the process did anything, and returns whether it
    /// has done nothing for long enough to sleep.
    pub(super) fn note_activity(&mut self, phase: u32) -> bool {
        let does_nothing = self.used.is_nothing()
            && self.used.waited.is_zero()
            && self.used.waited_to_copy.is_zero()
            && self.throttled_by.is_none()
            && self.resolved.limit.is_none()
            && self.resolved.class == Class::Normal;
        if !does_nothing {
            self.activity.last = phase;
        }
        self.is_quiet(phase)
    }

    pub(super) const fn is_quiet(&self, phase: u32) -> bool {
        phase.wrapping_sub(self.activity.last) >= QUIET
    }

    /// Adds the throttled time up to `now` to what is to be booked.
    pub(super) fn note_throttled(&mut self, now: Ns) {
        if let Some(since) = self.throttled_since {
            self.pending = self.pending.saturating_add(now.saturating_sub(since));
            self.throttled_since = Some(since.max(now));
        }
    }
}

impl Charge for Member {
    fn charge(&mut self, on: EngineKind, slot: &Slot) {
        let used = &mut self.used;
        let (time, runs) = match on {
            EngineKind::Compute => (&mut used.busy, &mut used.runs),
            EngineKind::Copy => (&mut used.copied, &mut used.copies),
        };
        *time = time.saturating_add(slot.ran);
        *runs = runs.saturating_add(slot.runs);
    }
}

/// What competes for a GPU: a process, all processes of a user, or of a cgroup.
#[derive(Clone, Copy, Debug, Default)]
pub struct Group {
    /// The id of its state.
    pub(super) id: GroupId,
    pub(super) subject: Subject,
    /// That of any of its processes: shows which cgroups are around it.
    pub(super) identity: Identity,
    pub(super) members: u32,
    /// It is there for what its processes attained alone, which have ended.
    pub(super) is_remembered: bool,
    /// Its processes that take part in decisions.
    pub(super) awake: u32,
    /// It was throttled when the last of them ceased to take part.
    pub(super) was_throttled: bool,
    /// Position of its state.
    pub(super) state_index: usize,
    pub(super) account: Account,
    /// Percentages of a GPU that its processes may use, together, and that it may use as a whole.
    pub(super) caps: u32,
    pub(super) limit: Option<Limit>,
    /// GPU time that the processes it has now received since they came to it.
    pub(super) used: Ns,
    /// Being divided among its processes, while groups are formed anew.
    pub(super) parts: Parts,
    /// Its processes that wanted the GPU in a phase, and which phase that was.
    pub(super) wanting: u32,
    pub(super) phase: u32,
}

/// The lead of a group, while it is divided among its processes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parts {
    /// All of it.
    pub(super) lead: Ns,
    /// What its processes used in it, and how many they are.
    pub(super) used: u64,
    pub(super) count: u64,
    /// Of `used` or `count` so far, and of `lead`.
    pub(super) so_far: u64,
    pub(super) given: u64,
}

impl Group {
    /// Counts one more process that wanted the GPU in this phase. True for the first one.
    pub(super) fn count_wanting(&mut self, phase: u32) -> bool {
        let is_first = core::mem::replace(&mut self.phase, phase) != phase;
        self.wanting = if is_first {
            1
        } else {
            self.wanting.saturating_add(1)
        };
        is_first
    }

    /// Its number.
    pub const fn id(&self) -> GroupId {
        self.id
    }

    /// The process, user or cgroup that is this group.
    pub const fn subject(&self) -> Subject {
        self.subject
    }

    /// Highest percentage of a GPU that its processes may use.
    pub(super) fn cap(&self) -> Option<Limit> {
        let cap = self.caps.min(self.limit.unwrap_or(Limit::NONE).get());
        Limit::new(cap).ok().filter(|limit| *limit != Limit::NONE)
    }

    /// Processes in it. Without any, it is kept until what it used is paid for, or as long as
    /// [`Group::is_remembered`].
    pub const fn members(&self) -> u32 {
        self.members
    }

    /// Whether it is there for what its processes attained alone, which have ended.
    pub const fn is_remembered(&self) -> bool {
        self.is_remembered
    }

    /// What its processes got, those that have exited included, as of [`Shares::add_up`].
    ///
    /// [`Shares::add_up`]: super::Shares::add_up
    pub const fn account(&self) -> &Account {
        &self.account
    }
}
