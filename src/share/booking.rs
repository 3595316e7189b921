// SPDX-License-Identifier: GPL-2.0

//! [pure] What happens around a decision: time used by processes becomes time used by
//! groups, and decisions about groups become holds of processes.

use super::budget::Spent;
use super::member::{Account, Group, Hold, Member, Used};
use super::setting::{Class, Limit};
use super::settings::{Entry, Settings};
use super::shares::{virtual_time, weight_of, Shares};
use super::totals::{Kind, Row, Totals};
use crate::account::sparse::variance_us2;
use crate::fair;
use crate::ids::ClientId;
use crate::policies::ClientState;
use crate::units::{Ns, VTime};
use core::ops::DerefMut;

/// What those who were held back used of a period, which is charged to them as it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Apart {
    /// Of the polling phase.
    polled: Ns,
    /// Of both phases.
    all: Ns,
}

impl Apart {
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

impl<M, G, C> Shares<M, G, C>
where
    M: DerefMut<Target = [Member]>,
    G: DerefMut<Target = [Group]>,
    C: DerefMut<Target = [ClientState]>,
{
    /// Forgets what was used in the last phase. Before time is charged to the members.
    pub fn begin(&mut self) {
        for member in self.members.all_mut() {
            member.used = Used::default();
        }
    }

    /// Notes what was found to run on since the last decision, after which [`Drain`] looked.
    ///
    /// [`Drain`]: crate::account::drain::Drain
    pub fn note_drained(&mut self, found: impl Iterator<Item = (ClientId, Ns)>) {
        for member in self.members.all_mut() {
            member.drained = member.hold.map(|_| Ns::ZERO);
        }
        for (id, time) in found {
            let at = self.find(id);
            let member = at.and_then(|at| self.members.all_mut().get_mut(at));
            if let Some(drained) = member.and_then(|member| member.drained.as_mut()) {
                *drained = drained.saturating_add(time);
            }
        }
    }

    /// Sums up what the processes used for the groups. Before the decision; takes
    /// changed settings over first. Returns what those who were held back used:
    /// [`crate::account::PhaseTotals::apart`].
    pub fn gather<S>(&mut self, settings: &Settings<S>) -> Ns
    where
        S: DerefMut<Target = [Entry]>,
    {
        if self.generation != settings.generation() {
            self.take_over(settings);
        }
        self.apart = Apart::NONE;
        for (state, group) in self
            .states
            .all_mut()
            .iter_mut()
            .zip(self.groups.all_mut().iter_mut())
        {
            state.busy = Ns::ZERO;
            state.runs = 0;
            state.waited = Ns::ZERO;
            group.wants = false;
            group.wanting = 0;
        }
        for member in self.members.all_mut() {
            if !member.sits_out() {
                member.wants = !member.used.busy.is_zero()
                    || !member.used.waited.is_zero()
                    || member.hold == Some(Hold::Policy);
            }
            let Some(state) = self.states.all_mut().get_mut(member.group) else {
                continue;
            };
            // Who was held back pays what it ran as it is. Who sits out takes part in no
            // comparison, but pays.
            let paid = if let Some(ran) = member.ran_on() {
                self.apart.polled = self.apart.polled.saturating_add(member.used.busy);
                self.apart.all = self.apart.all.saturating_add(ran);
                ran
            } else if member.sits_out() {
                fair::estimate(member.used.busy, self.last_poll, self.last_span)
            } else {
                state.busy = state.busy.saturating_add(member.used.busy);
                state.runs = state.runs.saturating_add(member.used.runs);
                state.waited = state.waited.saturating_add(member.used.waited);
                Ns::ZERO
            };
            state.vtime = state.vtime.saturating_add(virtual_time(paid, state.weight));
            if let Some(group) = self.groups.all_mut().get_mut(member.group) {
                // A limit does not end with its hold: who sits one out wants its time.
                let counts = member.wants && member.hold != Some(Hold::Class);
                group.wants |= counts;
                group.wanting = group.wanting.saturating_add(counts.into());
            }
        }
        self.apart.all
    }

    /// Books the period and says who is held back, see [`Member::hold`]. After the
    /// decision.
    pub fn book<S, R>(
        &mut self,
        settings: &mut Settings<S>,
        totals: &mut Totals<R>,
        period: &Period,
    ) where
        S: DerefMut<Target = [Entry]>,
        R: DerefMut<Target = [Row]>,
    {
        self.entitle(period.span);
        for member in self.members.all_mut() {
            member.note_held(period.now);
            let group = self.groups.all().get(member.group);
            let got = received(member, period, &self.apart, group);
            member.pending = Account::default();
            member.drained = None;
            member.account.add(&got);
            if let Some(group) = self.groups.all_mut().get_mut(member.group) {
                group.account.add(&got);
            }
            let keys = [
                (Kind::User, u64::from(member.who.user)),
                (Kind::Cgroup, member.who.cgroup),
            ];
            for ((kind, key), row) in keys.into_iter().zip(member.rows.iter_mut()) {
                if got != Account::default() {
                    *row = totals.charge(kind, key, *row, &got, period.now);
                }
            }
            settings.spend(&member.resolved, &spent(member, &got));
        }
        if period.enforce {
            settings.settle(period.now, period.span, period.next);
        } else {
            settings.suspend();
        }
        self.hold(settings, period);
        self.last_poll = period.poll;
        self.last_span = period.span;
        self.drop_paid_groups(period.t_sys);
    }

    /// Lets everybody run, whatever was decided: until the next decision.
    pub fn release(&mut self, now: Ns) {
        for state in self.states.all_mut() {
            state.held = false;
        }
        for member in self.members.all_mut() {
            member.set_hold(None, now);
        }
    }

    /// Takes over settings that have changed.
    fn take_over<S>(&mut self, settings: &Settings<S>)
    where
        S: DerefMut<Target = [Entry]>,
    {
        self.generation = settings.generation();
        for group in self.groups.all_mut() {
            group.cap = 0;
        }
        for member in self.members.all_mut() {
            member.resolved = settings.resolve(&member.who);
            if let Some(group) = self.groups.all_mut().get_mut(member.group) {
                let cap = member.resolved.limit.unwrap_or(Limit::NONE).get();
                group.cap = group.cap.saturating_add(cap);
            }
        }
        for (group, state) in self
            .groups
            .all_mut()
            .iter_mut()
            .zip(self.states.all_mut().iter_mut())
        {
            state.weight = weight_of(group.subject(), &group.who, settings);
            let own = settings.get(group.subject()).and_then(|own| own.limit);
            group.cap = group.cap.min(own.unwrap_or(Limit::NONE).get());
        }
    }

    /// Divides a period by weights among the groups that wanted the GPU.
    fn entitle(&mut self, span: Ns) {
        let states = self.states.all().iter();
        let weights = states
            .zip(self.groups.all())
            .filter(|(_, group)| group.wants)
            .fold(0u64, |sum, (state, _)| {
                sum.saturating_add(state.weight.get().into())
            });
        for (group, state) in self.groups.all_mut().iter_mut().zip(self.states.all()) {
            let limit = Limit::new(group.cap).unwrap_or(Limit::NONE).of(span);
            let whole = fair::entitlement(span, state.weight, weights).min(limit);
            group.part = match (group.wants, whole.get().checked_div(group.wanting.into())) {
                (true, Some(part)) => Ns::new(part),
                _ => Ns::ZERO,
            };
        }
    }

    /// Says who is held back from now on.
    pub(super) fn hold<S>(&mut self, settings: &Settings<S>, period: &Period)
    where
        S: DerefMut<Target = [Entry]>,
    {
        let states = self.states.all();
        let by_rule = |member: &Member| {
            if !period.enforce {
                None
            } else if settings.exhausted(&member.resolved) {
                Some(Hold::Limit)
            } else if states.get(member.group).is_some_and(|state| state.held) {
                Some(Hold::Policy)
            } else {
                None
            }
        };
        // Who is kept back by its own limit leaves the GPU to the idle class.
        let normal_wants = self.members.all().iter().any(|member| {
            member.wants
                && member.resolved.class == Class::Normal
                && by_rule(member) != Some(Hold::Limit)
        });
        for member in self.members.all_mut() {
            let hold = match (member.resolved.class, by_rule(member)) {
                (Class::Idle, None) if normal_wants && period.enforce => Some(Hold::Class),
                (_, hold) => hold,
            };
            member.set_hold(hold, period.now);
        }
    }
}

/// What a process got in a period.
fn received(member: &Member, period: &Period, apart: &Apart, group: Option<&Group>) -> Account {
    let estimated = || {
        let poll = period.poll.saturating_sub(apart.polled);
        fair::estimate(
            member.used.busy,
            poll,
            period.span.saturating_sub(apart.all),
        )
    };
    let counts = member.wants && member.hold != Some(Hold::Class);
    let waited = fair::estimate(member.used.waited, period.poll, period.span);
    let held = if member.hold.is_some() && member.wants {
        period.span
    } else {
        Ns::ZERO
    };
    Account {
        measured: member.used.busy,
        received: member.ran_on().unwrap_or_else(estimated),
        entitled: match group {
            Some(group) if counts => group.part,
            _ => Ns::ZERO,
        },
        waited: waited.max(held),
        // Times that it was newly found are not runs.
        runs: match period.sparse {
            Some(_) => 0,
            None => member.used.runs.into(),
        },
        variance_us2: period.sparse.map_or(0, |interval| {
            variance_us2(member.used.runs.into(), interval)
        }),
        held: member.pending.held,
        holds: member.pending.holds,
    }
}

/// What a process took from the budgets that it is under.
fn spent(member: &Member, got: &Account) -> Spent {
    Spent {
        used: got.received,
        allowed: member.hold.is_none(),
    }
}
