// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What happens around a decision: time used by processes becomes time used by
//! groups, and decisions about groups throttle their processes.

use super::budget::Spent;
use super::direct::Direct;
use super::groups::{virtual_time, Groups};
use super::member::{Group, Member, ThrottledBy};
use super::members::Members;
use super::settings::Settings;
use crate::account::doubt::Verdict;
use crate::account::fading::Fade;
use crate::account::sparse::variance_us2;
use crate::fair;
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

/// What is booked of a period, and what is compared for that.
pub(super) struct Booking {
    /// Weights together of the groups that wanted the GPU in the last phase.
    wanting: u64,
    /// Lengths of the last polling phase and of the last period.
    last_poll: Ns,
    last_span: Ns,
    /// Time charged one to one in the period that is being booked.
    direct: Direct,
    /// As `direct`, on the copy engine.
    direct_copies: Direct,
    /// Whether samples of all processes are compared with this phase, and were with the last one.
    compares: bool,
    compared: bool,
    /// There were samples in the non-polling phase before this phase.
    is_sampled: bool,
    /// Channels of a process came or went since the last decision.
    changed: bool,
}

impl Booking {
    /// Nothing was booked.
    pub(super) const NONE: Self = Self {
        wanting: 0,
        last_poll: Ns::ZERO,
        last_span: Ns::ZERO,
        direct: Direct::NONE,
        direct_copies: Direct::NONE,
        compares: false,
        compared: false,
        is_sampled: false,
        changed: false,
    };

    /// There are samples of the non-polling phase; `compares`: of all processes.
    pub(super) fn begin_residue(&mut self, compares: bool) {
        (self.compares, self.is_sampled) = (compares, true);
    }

    /// Channels of a process came or went.
    pub(super) fn note_changed(&mut self) {
        self.changed = true;
    }

    /// Compares what was found between polling phases with what those show, and notes for which
    /// processes the former counts.
    pub(super) fn compare<S: Storage>(&mut self, members: &mut Members<S>, poll: Ns, span: Ns) {
        let sampled = core::mem::take(&mut self.is_sampled);
        let changed = core::mem::take(&mut self.changed);
        let compares = self.compares || changed;
        // What the last comparison left is taken away once.
        if !core::mem::replace(&mut self.compared, compares) && !compares {
            return;
        }
        let (mut direct, phase) = (Direct::NONE, members.phase());
        members.each_awake(|member| {
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
        members.each_awake(|member| {
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

    /// Sums up what the processes used for the groups, before the decision. Returns what throttled
    /// processes used.
    pub(super) fn gather<S: Storage>(
        &mut self,
        members: &mut Members<S>,
        groups: &mut Groups<S>,
        poll: Ns,
        span: Ns,
    ) -> Direct {
        (self.direct, self.wanting) = (Direct::NONE, 0);
        self.direct_copies = Direct::NONE;
        for state in groups.states_mut() {
            (state.busy, state.runs, state.waited) = (Ns::ZERO, 0, Ns::ZERO);
            state.paid = Ns::ZERO;
            (state.copied, state.waited_to_copy) = (Ns::ZERO, Ns::ZERO);
        }
        let phase = members.phase();
        members.each_awake(|member| {
            let Some((group, state)) = groups.with_state(member.group) else {
                return;
            };
            let ran = member.in_phase(phase).ran_on();
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
            if member.counts() && group.count_wanting(phase) {
                self.wanting = self.wanting.saturating_add(state.weight.get().into());
            }
        });
        self.direct
    }

    /// Books the period, after the decision.
    pub(super) fn book<S: Storage>(
        &mut self,
        members: &mut Members<S>,
        groups: &mut Groups<S>,
        settings: &mut Settings<S>,
        period: &Period,
    ) {
        let mut fade = Fade::new(period.now, period.span);
        members.each_awake(|member| {
            member.note_throttled(period.now);
            let received = received(member, period, &self.direct);
            let mut entitled = Ns::ZERO;
            if let Some((group, state)) = groups.with_state(member.group) {
                group.used = group.used.saturating_add(received);
                if member.counts() {
                    entitled = part(group, state.weight, self.wanting, period.span);
                }
            }
            let copied = copied(member, period, &self.direct_copies);
            book(member, period, &mut fade, [received, copied], entitled);
            let spent = Spent {
                used: received,
                allowed: member.throttled_by.is_none(),
            };
            settings.spend(&member.resolved, &spent);
            let (first, holds) = (member.comes_first, member.holds);
            settings.spend_reserve(&member.resolved, received, first, holds);
        });
        (self.last_poll, self.last_span) = (period.poll, period.span);
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
