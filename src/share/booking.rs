// SPDX-License-Identifier: GPL-2.0

//! [pure] What happens around a decision: time used by processes becomes time used by
//! groups, and decisions about groups throttle their processes.

use super::budget::Spent;
use super::groups::virtual_time;
use super::member::{Account, Group, Member, ThrottledBy, Used};
use super::setting::{Class, Limit};
use super::settings::Settings;
use super::shares::Shares;
use super::totals::{Kind, Totals};
use crate::account::doubt::Verdict;
use crate::account::sparse::variance_us2;
use crate::fair;
use crate::ids::ClientId;
use crate::storage::Storage;
use crate::units::{Ns, VTime, Weight};

/// What throttled processes used of a period, which is charged to them one to one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direct {
    /// Of the polling phase.
    polled: Ns,
    /// Of both phases.
    all: Ns,
}

impl Direct {
    /// Nothing.
    pub(super) const NONE: Self = Self {
        polled: Ns::ZERO,
        all: Ns::ZERO,
    };
}

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
    /// Forgets what was used in the last phase. Before time is charged to the members.
    pub fn begin(&mut self) {
        self.each_awake(|member| member.used = Used::default());
    }

    /// Changes every process that is awake.
    fn each_awake(&mut self, mut change: impl FnMut(&mut Member)) {
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
    pub fn note_residue(&mut self, found: impl Iterator<Item = (ClientId, Ns)>, compares: bool) {
        self.each_awake(|member| {
            let counts = compares || member.throttled_by.is_some();
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
    }

    /// Compares what was found between polling phases with what those show, and notes for which
    /// processes the former counts.
    fn compare(&mut self, poll: Ns, span: Ns) {
        let (mut polled, mut all) = (Ns::ZERO, Ns::ZERO);
        let mut at = self.first;
        while let Some(member) = self.members.all().get(at) {
            at = member.next_awake();
            if let Some(ran) = member.ran_on() {
                polled = polled.saturating_add(member.used.busy);
                all = all.saturating_add(ran);
            }
        }
        let (poll, span) = (poll.saturating_sub(polled), span.saturating_sub(all));
        self.each_awake(|member| {
            (member.counted, member.evaded) = (None, None);
            let Some(residue) = member.residue.filter(|_| member.throttled_by.is_none()) else {
                return;
            };
            let busy = member.used.busy;
            let scaled = fair::estimate(busy, poll, span);
            let found = busy.saturating_add(residue);
            if let Verdict::Found { gained } = member.doubt.note(scaled, found, span) {
                member.evaded = Some(gained).filter(|gained| !gained.is_zero());
                member.counted = Some(found);
                // What the policy sees is of the polling phase.
                let part = fair::estimate(found, span, poll).min(poll);
                member.used.counted = Some(part);
            }
        });
    }

    /// Sums up what the processes used for the groups. Before the decision; takes changed settings
    /// over first. Returns what throttled processes used: [`crate::account::PhaseTotals::direct`].
    /// `poll` is the length of the polling phase, `span` that of the period.
    pub fn gather(&mut self, settings: &Settings<S>, poll: Ns, span: Ns) -> Ns {
        self.compare(poll, span);
        self.take_over(settings);
        self.direct = Direct::NONE;
        self.wanting = 0;
        for state in self.states_mut() {
            (state.busy, state.runs, state.waited) = (Ns::ZERO, 0, Ns::ZERO);
        }
        let (members, groups) = (self.members.all_mut(), self.groups.all_mut());
        let states = self.states.all_mut();
        let mut at = self.first;
        while let Some(member) = members.get(at) {
            at = member.next_awake();
            if let Some(group) = groups.get_mut(member.group) {
                group.wanting = 0;
            }
        }
        let mut at = self.first;
        while let Some(member) = members.get_mut(at) {
            at = member.next_awake();
            if !member.sits_out() {
                member.wants = !member.used.busy().is_zero()
                    || !member.used.waited.is_zero()
                    || member.throttled_by == Some(ThrottledBy::Policy);
            }
            let Some(group) = groups.get_mut(member.group) else {
                continue;
            };
            let Some(state) = states.get_mut(group.state_index) else {
                continue;
            };
            // A process that was throttled pays one to one for what it ran. A process that is kept
            // out takes part in no comparison, but pays.
            let paid = if let Some(ran) = member.ran_on() {
                self.direct.polled = self.direct.polled.saturating_add(member.used.busy);
                self.direct.all = self.direct.all.saturating_add(ran);
                ran
            } else if member.sits_out() {
                fair::estimate(member.used.busy, self.last_poll, self.last_span)
            } else {
                state.busy = state.busy.saturating_add(member.used.busy());
                state.runs = state.runs.saturating_add(member.used.runs);
                state.waited = state.waited.saturating_add(member.used.waited);
                member.evaded.unwrap_or_default()
            };
            if !paid.is_zero() {
                state.vtime = state.vtime.saturating_add(virtual_time(paid, state.weight));
            }
            // A limit does not end with its throttling: a process throttled by one wants its time.
            if member.counts() {
                if group.wanting == 0 {
                    self.wanting = self.wanting.saturating_add(state.weight.get().into());
                }
                group.wanting = group.wanting.saturating_add(1);
            }
        }
        self.direct.all
    }

    /// Books the period and sets which processes are throttled, see [`Member::throttled_by`]. After
    /// the decision.
    pub fn book(&mut self, settings: &mut Settings<S>, totals: &mut Totals<S>, period: &Period) {
        let (members, groups) = (self.members.all_mut(), self.groups.all_mut());
        let states = self.states.all();
        let mut at = self.first;
        while let Some(member) = members.get_mut(at) {
            at = member.next_awake();
            member.note_throttled(period.now);
            let group = groups.get_mut(member.group);
            let state = group
                .as_ref()
                .and_then(|group| states.get(group.state_index));
            let entitled = match (&group, state) {
                (Some(group), Some(state)) if member.counts() => {
                    part(group, state.weight, self.wanting, period.span)
                }
                _ => Ns::ZERO,
            };
            let got = received(member, period, &self.direct, entitled);
            member.pending = Account::default();
            member.residue = None;
            member.account.add(&got);
            if let Some(group) = group {
                group.account.add(&got);
            }
            if got != Account::default() {
                let [user, cgroup] = &mut member.rows;
                *user = totals.charge(Kind::User, &member.identity, *user, &got, period.now);
                *cgroup = totals.charge(Kind::Cgroup, &member.identity, *cgroup, &got, period.now);
            }
            settings.spend(&member.resolved, &spent(member, &got));
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
        self.deactivate_idle();
        self.drop_paid_groups(period.t_sys);
    }

    /// Lets all processes run, whatever was decided: until the next decision.
    pub fn release(&mut self, now: Ns) {
        for state in self.states_mut() {
            state.throttled = false;
        }
        // Throttled processes are awake.
        self.each_awake(|member| member.set_throttled_by(None, now));
    }

    /// Takes over settings that have changed, if they have.
    pub(super) fn take_over(&mut self, settings: &Settings<S>) {
        if self.generation == settings.generation() {
            return;
        }
        self.generation = settings.generation();
        self.regroup(settings);
        for group in self.groups.all_mut() {
            group.cap = 0;
        }
        for member in self.members.all_mut() {
            member.resolved = settings.resolve(&member.identity);
            if let Some(group) = self.groups.all_mut().get_mut(member.group) {
                let cap = member.resolved.limit.unwrap_or(Limit::NONE).get();
                group.cap = group.cap.saturating_add(cap);
            }
        }
        for group in self.groups.all_mut() {
            if let Some(state) = self.states.all_mut().get_mut(group.state_index) {
                state.weight = settings.weight_of(group.subject, &group.identity);
            }
            let own = settings.limit_of(group.subject, &group.identity);
            group.cap = group.cap.min(own.unwrap_or(Limit::NONE).get());
        }
        // A process that is under a limit now may not sleep.
        self.wake_all();
    }

    /// Sets which processes are throttled from now on.
    pub(super) fn throttle(&mut self, settings: &Settings<S>, period: &Period) {
        self.wake_throttled();
        let (groups, states) = (self.groups.all(), self.states.all());
        let is_throttled = |member: &Member| {
            let group = groups.get(member.group);
            let state = group.and_then(|group| states.get(group.state_index));
            state.is_some_and(|state| state.throttled)
        };
        let by_rule = |member: &Member| {
            if !period.enforce {
                None
            } else if settings.exhausted(&member.resolved) {
                Some(ThrottledBy::Limit)
            } else if is_throttled(member) {
                Some(ThrottledBy::Policy)
            } else {
                None
            }
        };
        // A process that its own limit throttles leaves the GPU to the idle class.
        let wants = |member: &Member| {
            member.wants
                && member.resolved.class == Class::Normal
                && by_rule(member) != Some(ThrottledBy::Limit)
        };
        let normal_wants = self
            .awake()
            .any(|at| self.members.all().get(at).is_some_and(wants));
        let members = self.members.all_mut();
        let mut at = self.first;
        while let Some(member) = members.get_mut(at) {
            at = member.next_awake();
            let by = match (member.resolved.class, by_rule(member)) {
                (Class::Idle, None) if normal_wants && period.enforce => Some(ThrottledBy::Class),
                (_, by) => by,
            };
            member.set_throttled_by(by, period.now);
        }
    }
}

/// The part of each process of a group that wanted the GPU, when a period is divided by weights
/// among all groups that did, of the weight `all` together.
fn part(group: &Group, weight: Weight, all: u64, span: Ns) -> Ns {
    let limit = Limit::new(group.cap).unwrap_or(Limit::NONE).of(span);
    let whole = fair::entitlement(span, weight, all).min(limit);
    let part = whole.get().checked_div(group.wanting.into());
    Ns::new(part.unwrap_or(0))
}

/// What a process got in a period.
fn received(member: &Member, period: &Period, direct: &Direct, entitled: Ns) -> Account {
    let estimated = || {
        let poll = period.poll.saturating_sub(direct.polled);
        fair::estimate(
            member.used.busy,
            poll,
            period.span.saturating_sub(direct.all),
        )
    };
    let waited = fair::estimate(member.used.waited, period.poll, period.span);
    let throttled = if member.throttled_by.is_some() && member.wants {
        period.span
    } else {
        Ns::ZERO
    };
    Account {
        measured: member.used.busy,
        received: match (member.ran_on(), member.counted) {
            (Some(ran), _) => ran,
            (None, Some(found)) => found.saturating_add(member.evaded.unwrap_or_default()),
            (None, None) => estimated(),
        },
        entitled,
        waited: waited.max(throttled),
        // Times that samples newly found it are not runs.
        runs: match period.sparse {
            Some(_) => 0,
            None => member.used.runs.into(),
        },
        variance_us2: period.sparse.map_or(0, |interval| {
            variance_us2(member.used.runs.into(), interval)
        }),
        throttled: member.pending.throttled,
        throttles: member.pending.throttles,
    }
}

/// What a process took from the budgets that it is under.
fn spent(member: &Member, got: &Account) -> Spent {
    Spent {
        used: got.received,
        allowed: member.throttled_by.is_none(),
    }
}
