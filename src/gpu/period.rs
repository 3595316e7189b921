// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The steps of a period, in their order.

use super::GpuState;
use crate::account::waits::Waited;
use crate::account::{settle, Copied, EngineKind, Owner, PhaseTotals, Slot};
use crate::engine::{Fallback, Inputs};
use crate::ids::ClientId;
use crate::share::Period;
use crate::storage::Storage;
use crate::units::Ns;

/// A polling phase that has ended.
#[derive(Clone, Copy)]
pub struct Ended<'a, U> {
    /// Where its time went.
    pub totals: PhaseTotals,
    /// What each channel did.
    pub slots: &'a [Slot],
    /// Indices of the slots that were used.
    pub used: U,
    /// Length of its strata, if accounting was sparse.
    pub strata: Option<Ns>,
    /// All channels belong to one client.
    pub alone: bool,
    /// What the copy engine did; nothing if that was not measured.
    pub copies: Option<Copied<'a>>,
}

/// What a period came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The period as it was booked.
    pub period: Period,
    /// Where the time of its polling phase went, once its channels had owners.
    pub totals: PhaseTotals,
    /// Why the engine let all clients run against the policy's answer, if it did.
    pub fallback: Option<Fallback>,
}

impl<S: Storage> GpuState<S> {
    /// A polling phase begins, and samples were taken in the non-polling phase before it: `found`
    /// is the time of each client that they found, `copied` that on the copy engine.
    pub fn begin_phase(
        &mut self,
        found: impl Iterator<Item = (ClientId, Ns)>,
        copied: impl Iterator<Item = (ClientId, Ns)>,
    ) {
        let compares = self.engine.config().randomize;
        self.shares.note_residue(found, copied, compares);
    }

    /// A polling phase has ended: charges its time, has the policy decide, and books the period.
    ///
    /// `owner` returns the client that owns a slot. `waits` are the times for which clients waited
    /// in the phase, used if the policy asks for them.
    pub fn end_phase(
        &mut self,
        now: Ns,
        phase: Ended<'_, impl Iterator<Item = usize>>,
        owner: &mut impl Owner,
        waits: impl Iterator<Item = (ClientId, Waited)>,
    ) -> Decision {
        let (strata, alone) = (phase.strata, phase.alone);
        let totals = self.charge(phase, owner, waits);
        let fallback = self.decide(&totals);
        let period = self.book(now, &totals, strata, alone);
        Decision {
            period,
            totals,
            fallback,
        }
    }

    /// First step of [`GpuState::end_phase`]: time of channels becomes time of groups.
    pub fn charge(
        &mut self,
        phase: Ended<'_, impl Iterator<Item = usize>>,
        owner: &mut impl Owner,
        waits: impl Iterator<Item = (ClientId, Waited)>,
    ) -> PhaseTotals {
        let mut totals = phase.totals;
        let shares = &mut self.shares;
        let compute = EngineKind::Compute;
        settle(compute, &mut totals, phase.slots, phase.used, owner, shares);
        // A phase in which nothing was polled says nothing about that.
        if !totals.length.is_zero() {
            self.sums.copies.measured = phase.copies.is_some();
        }
        if let Some(found) = phase.copies {
            let (mut copied, used) = (found.totals, found.used.iter());
            let copy = EngineKind::Copy;
            settle(copy, &mut copied, found.slots, used, owner, shares);
            let sums = &mut self.sums.copies;
            sums.polled = sums.polled.saturating_add(copied.length);
            sums.idle = sums.idle.saturating_add(copied.idle);
            sums.unknown = sums.unknown.saturating_add(copied.unknown);
        }
        if self.engine.config().wants() == Inputs::Waits {
            // In the order of the table, without some of the clients.
            let mut next = 0;
            for (id, waited) in waits {
                if let Some(at) = self.shares.find_near(id, next) {
                    self.shares.add_waited(at, waited, totals.length);
                    next = at.saturating_add(1);
                }
            }
        }
        self.sums.idle = self.sums.idle.saturating_add(totals.idle);
        self.sums.unknown = self.sums.unknown.saturating_add(totals.unknown);
        self.sums.switches = self.sums.switches.saturating_add(totals.switches);
        let span = self.engine.span(&totals);
        let direct = self.shares.gather(&self.settings, totals.length, span);
        (totals.direct, totals.direct_polled) = (direct.all, direct.polled);
        totals
    }

    /// A dispatcher let so many submissions pass since the last decision, and they were used.
    pub fn note_dispatched(&mut self, submissions: u64) {
        self.dispatching.add(submissions);
    }

    /// Second step: the policy decides.
    pub fn decide(&mut self, totals: &PhaseTotals) -> Option<Fallback> {
        if self.engine.concerns_all() {
            self.shares.wake_all();
        }
        let before = self.engine.stats().fallbacks;
        let (length, span) = (totals.length, self.engine.span(totals));
        let throttled = self.shares.states().iter().any(|state| state.throttled);
        let dispatching = (self.dispatching).of_phase(length, totals.idle, span, throttled);
        let mut seen = *totals;
        // The watchdog is told of a GPU that was idle all the time.
        if seen.idle < seen.length {
            seen.idle = seen.idle.saturating_sub(dispatching);
        }
        self.engine.decide(&seen, self.shares.states_mut());
        self.fallback_since(before)
    }

    /// Last step: books the period, and sets which clients are throttled.
    pub fn book(
        &mut self,
        now: Ns,
        totals: &PhaseTotals,
        strata: Option<Ns>,
        alone: bool,
    ) -> Period {
        let stats = self.engine.stats();
        let period = Period {
            now,
            poll: totals.length,
            span: stats.last_poll.saturating_add(stats.last_nonpoll),
            next: self.engine.planned(),
            t_sys: self.engine.start_vtime(),
            enforce: self.engine.config().enforce,
            sparse: strata,
        };
        self.shares.book(&mut self.settings, &period);
        if strata.is_some() {
            self.set_interval(totals.length, alone);
        }
        period
    }

    /// A scan of the channels begins: what the last one showed is forgotten. [`Shares::add_scan`]
    /// adds what this one shows.
    ///
    /// [`Shares::add_scan`]: crate::share::Shares::add_scan
    pub fn begin_scan(&mut self) {
        self.shares.wake_all();
        self.shares.begin_scan();
    }

    /// The scan has ended: the policy decides, and throttled members are marked.
    pub fn end_scan(&mut self, now: Ns) -> Option<Fallback> {
        let fallback = self.decide_scan(now);
        self.apply(now);
        fallback
    }

    /// First step of [`GpuState::end_scan`]: the policy decides.
    pub fn decide_scan(&mut self, now: Ns) -> Option<Fallback> {
        let before = self.engine.stats().fallbacks;
        self.shares.wake_all();
        self.engine.decide_scan(now, self.shares.states_mut());
        self.fallback_since(before)
    }

    /// Last step: marks the members that are throttled.
    pub fn apply(&mut self, now: Ns) {
        let enforce = self.engine.config().enforce;
        self.shares.apply(&self.settings, now, enforce);
    }

    /// Chooses the strata of the next phase. Clients that sleep used nothing, and are under no
    /// limit.
    fn set_interval(&mut self, length: Ns, alone: bool) {
        let shares = &self.shares;
        let members = || shares.awake().filter_map(|at| shares.members().get(at));
        let limited = members().any(|member| member.resolved().is_limited());
        let throttled = members().any(|member| member.throttled_by().is_some());
        // Each engine is to be divided as exactly.
        let copied = members().map(|member| member.used().copied);
        let copied = copied.filter(|time| !time.is_zero());
        let used = members().map(|member| member.used().busy).chain(copied);
        self.interval = self.pace.interval(length, alone, limited, throttled, used);
    }

    /// The reason for the last fallback, if there was one since there were `before`.
    fn fallback_since(&self, before: u64) -> Option<Fallback> {
        let happened = self.engine.stats().fallbacks > before;
        self.engine.last_fallback().filter(|_| happened)
    }
}
