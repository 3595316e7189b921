// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What happens around a decision: time used by processes becomes time used by
//! groups, and decisions about groups throttle their processes.

use super::budget::Spent;
use super::direct::Direct;
use super::groups::virtual_time;
use super::member::{Account, Group, Member, ThrottledBy};
use super::settings::Settings;
use super::shares::Shares;
use super::totals::Kind;
use crate::account::doubt::Verdict;
use crate::account::fading::Fade;
use crate::account::sparse::variance_us2;
use crate::fair;
use crate::ids::ClientId;
use crate::storage::Storage;
use crate::units::{Ns, VTime, Weight};

/// The period that a decision ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// When the decision was made.
    pub now: Ns,
    /// Length of the polling phase.
    pub poll: Ns,
    /// Length of the polling phase and the non-polling phase before it.
    pub span: Ns,
    /// Expected length of the next period.
    pub next: Ns,
    /// System virtual time after the decision.
    pub t_sys: VTime,
    /// Whether decisions are carried out.
    pub enforce: bool,
    /// Length of the strata, if accounting is sparse: [`crate::account::sparse::Sparse::interval`].
    pub sparse: Option<Ns>,
}

impl<S: Storage> Shares<S> {
    /// Changes every process that is awake.
    pub(super) fn each_awake(&mut self, mut change: impl FnMut(&mut Member)) {
        let members = self.members.all_mut();
        let mut at = self.first;
        while let Some(member) = members.get_mut(at) {
            change(member);
            at = member.next_awake();
        }
    }

    /// Notes what [`Residue`] found to run since the last decision: of clients that are throttled,
    /// and with `compares` of all. Phases of steady length are in step with throttling itself, so
    /// that the two kinds of phase differ without any doing of the clients: nothing is compared
    /// then.
    ///
    /// [`Residue`]: crate::account::residue::Residue
    ///
    /// `copied` is what it found on the copy engine, which is of use for clients that are throttled
    /// only: copies in the non-polling phase are taken to be like those in the polling phase.
    pub fn note_residue(
        &mut self,
        found: impl Iterator<Item = (ClientId, Ns)>,
        copied: impl Iterator<Item = (ClientId, Ns)>,
        compares: bool,
    ) {
        (self.compares, self.is_sampled) = (compares, true);
        self.each_awake(|member| {
            let counts = compares || member.changed || member.throttled_by.is_some();
            member.residue = counts.then_some(Ns::ZERO);
        });
        for (id, time) in found {
            let Some(at) = self.find(id) else {
                continue;
            };
            if compares {
                self.wake(at);
            }
            let Some(member) = self.members.all_mut().get_mut(at) else {
                continue;
            };
            if compares || member.residue.is_some() {
                let residue = member.residue.unwrap_or_default();
                member.residue = Some(residue.saturating_add(time));
            }
        }
        for (id, time) in copied {
            let at = self.find(id);
            let member = at.and_then(|at| self.members.all_mut().get_mut(at));
            if let Some(member) = member.filter(|member| member.throttled_by.is_some()) {
                member.copy_residue = member.copy_residue.saturating_add(time);
            }
        }
    }

    /// The channels of a process came or went: the polling phase that follows does not show what it
    /// did in the non-polling phase, so that what was found there counts, see [`Shares::note_residue`].
    pub fn note_changed(&mut self, at: usize) {
        self.wake(at);
        if let Some(member) = self.members.all_mut().get_mut(at) {
            member.changed = true;
            self.changed = true;
        }
    }

    /// Compares what was found between polling phases with what those show, and notes for which
    /// processes the former counts.
    fn compare(&mut self, poll: Ns, span: Ns) {
        let sampled = core::mem::take(&mut self.is_sampled);
        let changed = core::mem::take(&mut self.changed);
        let compares = self.compares || changed;
        // What the last comparison left is taken away once.
        if !core::mem::replace(&mut self.compared, compares) && !compares {
            return;
        }
        let (mut direct, phase) = (Direct::NONE, self.phase);
        self.each_awake(|member| {
            let member = member.in_phase(phase);
            (member.counted, member.evaded) = (None, None);
            let is_changed = core::mem::take(&mut member.changed) && sampled;
            // Nothing was polled that a policy could scale.
            member.is_unpolled = is_changed && poll.is_zero();
            if is_changed {
                let residue = member.residue.unwrap_or_default();
                member.residue = Some(residue);
                member.counted = Some(member.used.busy.saturating_add(residue));
            }
            direct.add(member.used.busy, member.ran_on());
        });
        let (poll, span) = direct.without(poll, span);
        self.each_awake(|member| {
            if member.throttled_by.is_some() || member.is_unpolled {
                return;
            }
            if let (None, Some(residue)) = (member.counted, member.residue) {
                let busy = member.used.busy;
                let scaled = fair::estimate(busy, poll, span);
                let found = busy.saturating_add(residue);
                if let Verdict::Found { gained } = member.doubt.note(scaled, found, span) {
                    member.evaded = Some(gained).filter(|gained| !gained.is_zero());
                    member.counted = Some(found);
                }
            }
            // What the policy sees is of the polling phase.
            let part = |found| fair::estimate(found, span, poll).min(poll);
            member.used.counted = member.counted.map(part);
        });
    }

    /// Sums up what the processes used for the groups. Before the decision; takes changed settings
    /// over first. Returns what throttled processes used, for [`crate::account::PhaseTotals`].
    /// `poll` is the length of the polling phase, `span` that of the period.
    pub fn gather(&mut self, settings: &Settings<S>, poll: Ns, span: Ns) -> Direct {
        self.compare(poll, span);
        self.take_over(settings);
        (self.direct, self.wanting) = (Direct::NONE, 0);
        self.direct_copies = Direct::NONE;
        for state in self.states_mut() {
            (state.busy, state.runs, state.waited) = (Ns::ZERO, 0, Ns::ZERO);
            state.paid = Ns::ZERO;
            (state.copied, state.waited_to_copy) = (Ns::ZERO, Ns::ZERO);
        }
        let (members, groups) = (self.members.all_mut(), self.groups.all_mut());
        let states = self.states.all_mut();
        let mut at = self.first;
        while let Some(member) = members.get_mut(at) {
            at = member.next_awake();
            let Some(group) = groups.get_mut(member.group) else {
                continue;
            };
            let Some(state) = states.get_mut(group.state_index) else {
                continue;
            };
            let ran = member.in_phase(self.phase).ran_on();
            member.count_turn_wait(poll, span);
            let used = &member.used;
            self.direct.add(used.busy, ran);
            if !used.copied.is_zero() || !member.copy_residue.is_zero() {
                self.direct_copies.add(used.copied, member.copied_on());
                if !member.sits_out() {
                    state.copied = state.copied.saturating_add(used.copied);
                }
            }
            if !member.sits_out() {
                state.waited_to_copy = state.waited_to_copy.saturating_add(used.waited_to_copy);
                member.wants = !used.busy().is_zero()
                    || !used.waited.is_zero()
                    || member.throttled_by == Some(ThrottledBy::Policy);
            }
            // A process that was throttled pays one to one for what it ran. A process that is kept
            // out takes part in no comparison, but pays.
            // What a reserve promises is no part of what the policy divides.
            let paid = if member.comes_first {
                Ns::ZERO
            } else if let Some(ran) = ran {
                ran
            } else if member.sits_out() {
                fair::estimate(used.busy, self.last_poll, self.last_span)
            } else {
                state.busy = state.busy.saturating_add(used.busy());
                state.runs = state.runs.saturating_add(used.runs);
                state.waited = state.waited.saturating_add(used.waited);
                member.evaded.unwrap_or_default()
            };
            if !paid.is_zero() {
                state.paid = state.paid.saturating_add(paid);
                state.vtime = state.vtime.saturating_add(virtual_time(paid, state.weight));
            }
            // A limit does not end with its throttling: a process throttled by one wants its time.
            if member.counts() && group.count_wanting(self.phase) {
                self.wanting = self.wanting.saturating_add(state.weight.get().into());
            }
        }
        self.direct
    }

    /// Books the period and sets which processes are throttled, see [`Member::throttled_by`]. After
    /// the decision.
    pub fn book(&mut self, settings: &mut Settings<S>, period: &Period) {
        let (members, groups) = (self.members.all_mut(), self.groups.all_mut());
        let states = self.states.all();
        let mut fade = Fade::new(period.now, period.span);
        let mut at = self.first;
        while let Some(member) = members.get_mut(at) {
            at = member.next_awake();
            member.note_throttled(period.now);
            let received = received(member, period, &self.direct);
            let mut group = groups.get_mut(member.group);
            if let Some(group) = &mut group {
                group.used = group.used.saturating_add(received);
            }
            let group = group.filter(|_| member.counts());
            let entitled = group.map_or(Ns::ZERO, |group| {
                let state = states.get(group.state_index);
                state.map_or(Ns::ZERO, |state| {
                    part(group, state.weight, self.wanting, period.span)
                })
            });
            let copied = copied(member, period, &self.direct_copies);
            book(member, period, &mut fade, [received, copied], entitled);
            let spent = Spent {
                used: received,
                allowed: member.throttled_by.is_none(),
            };
            settings.spend(&member.resolved, &spent);
            let (first, holds) = (member.comes_first, member.holds);
            settings.spend_reserve(&member.resolved, received, first, holds);
        }
        if period.enforce {
            settings.settle(period.now, period.span, period.next);
        } else {
            settings.suspend();
        }
        self.throttle(settings, period);
        self.last_poll = period.poll;
        self.last_span = period.span;
        self.t_sys = period.t_sys;
        if self.has_quiet {
            self.let_sleep();
        }
        self.drop_paid_groups(period.t_sys);
        self.phase = self.phase.wrapping_add(1);
    }

    /// Takes over settings that have changed, if they have.
    pub(super) fn take_over(&mut self, settings: &Settings<S>) {
        if self.generation == settings.generation() {
            return;
        }
        self.generation = settings.generation();
        self.regroup(settings);
        for at in 0..self.members().len() {
            self.resolve(at, settings);
        }
        for at in 0..self.groups().len() {
            self.resolve_group(at, settings);
        }
        // A process that is under a limit now may not sleep.
        self.wake_all();
    }

    /// Adds what processes got since the last call to their groups, users and cgroups: before these
    /// are read. Those that sleep have nothing to be added.
    pub fn add_up(&mut self) {
        let mut at = self.first;
        while let Some(member) = self.members().get(at) {
            let next = member.next_awake();
            self.add_up_one(at);
            at = next;
        }
    }

    /// As [`Shares::add_up`], for the process at `at`: before it leaves them, or falls asleep.
    pub(super) fn add_up_one(&mut self, at: usize) {
        let Some(member) = self.members.all_mut().get_mut(at) else {
            return;
        };
        let got = member.recent();
        if got == Account::default() {
            return;
        }
        member.added = member.account;
        if let Some(group) = self.groups.all_mut().get_mut(member.group) {
            group.account.add(&got);
        }
        let [user, cgroup] = &mut member.rows;
        let (totals, booked) = (&mut self.totals, member.fading.booked());
        *user = totals.charge(Kind::User, &member.identity, *user, &got, booked);
        *cgroup = totals.charge(Kind::Cgroup, &member.identity, *cgroup, &got, booked);
    }
}

/// The part of each process of a group that wanted the GPU, when a period is divided by weights
/// among all groups that did, of the weight `all` together.
#[inline]
fn part(group: &Group, weight: Weight, all: u64, span: Ns) -> Ns {
    let whole = fair::entitlement(span, weight, all);
    let whole = group
        .cap()
        .map_or(whole, |limit| whole.min(limit.rate().of(span)));
    match group.wanting {
        1 => whole,
        processes => Ns::new(whole.get().checked_div(processes.into()).unwrap_or(0)),
    }
}

/// GPU time that a process is charged for a period.
#[inline]
fn received(member: &Member, period: &Period, direct: &Direct) -> Ns {
    match (member.ran_on(), member.counted) {
        (Some(ran), _) => ran,
        (None, Some(found)) => found.saturating_add(member.evaded.unwrap_or_default()),
        (None, None) => {
            let (poll, span) = direct.without(period.poll, period.span);
            fair::estimate(member.used.busy, poll, span)
        }
    }
}

/// Time on the copy engine that a process is charged for a period.
#[inline]
fn copied(member: &Member, period: &Period, direct: &Direct) -> Ns {
    let polled = member.used.copied;
    if polled.is_zero() && member.copy_residue.is_zero() {
        return Ns::ZERO;
    }
    member.copied_on().unwrap_or_else(|| {
        let (poll, span) = direct.without(period.poll, period.span);
        fair::estimate(polled, poll, span)
    })
}

/// Adds what a process got in a period, on the compute engine and on the copy engine, to its
/// account and its means.
#[inline]
fn book(
    member: &mut Member,
    period: &Period,
    fade: &mut Fade,
    [received, copied]: [Ns; 2],
    entitled: Ns,
) {
    let waited = if member.throttled_by.is_some() && member.wants {
        period.span
    } else if member.used.waited.is_zero() {
        Ns::ZERO
    } else {
        fair::estimate(member.used.waited, period.poll, period.span)
    };
    let runs = u64::from(member.used.runs);
    let account = &mut member.account;
    account.measured = account.measured.saturating_add(member.used.busy);
    account.received = account.received.saturating_add(received);
    account.entitled = account.entitled.saturating_add(entitled);
    account.waited = account.waited.saturating_add(waited);
    account.copied = account.copied.saturating_add(copied);
    match period.sparse {
        // Times that samples newly found it are not runs.
        Some(interval) => {
            let variance = variance_us2(runs, interval);
            account.variance_us2 = account.variance_us2.saturating_add(variance);
            let copies = u64::from(member.used.copies);
            let variance = variance_us2(copies, interval);
            account.copied_variance_us2 = account.copied_variance_us2.saturating_add(variance);
        }
        None => account.runs = account.runs.saturating_add(runs),
    }
    account.throttled = account.throttled.saturating_add(member.pending);
    account.throttles = account.throttles.saturating_add(member.throttles.into());
    (member.pending, member.throttles) = (Ns::ZERO, 0);
    (member.residue, member.copy_residue) = (None, Ns::ZERO);
    member.fading.add(fade, received, waited, copied);
}
