// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The end of a phase: it is charged to the clients, the policy decides, and what was decided
//! is carried out and reported.

use super::main_thread::{MainState, PERIODS_PER_THROTTLE};
use super::phase::PollingPhase;
use crate::account::{self, EngineKind, Owner, PhaseTotals, MAX_SLOTS};
use crate::engaged::SHARED_QUEUE;
use crate::glue::control::events;
use crate::glue::gpu::books::Books;
use crate::glue::gpu::gates::gate::Gate;
use crate::glue::gpu::Gpu;
use crate::glue::kernel::ffi;
use crate::glue::kernel::storage::Vectors;
use crate::glue::trace;
use crate::gpu::{Decision, Ended};
use crate::ids::{Chid, MAX_CHANNELS};
use crate::track::pages::Pages;
use crate::units::Ns;
use kernel::sync::Arc;

/// Least time between two events about channels that no client owns.
const UNKNOWN_STEP: Ns = Ns::from_ms(1_000);

impl Gpu {
    /// As [`Books::sweep`], for all clients, with the books unlocked in between. May sleep.
    pub(crate) fn forget_gone_clients(&self) {
        let mut end = usize::MAX;
        // TIMEOUT: bounded by the clients there are.
        while end != 0 {
            let mut books = self.books.lock();
            let is_booked = books.state.engine.is_parked();
            end = books.sweep_before(end, is_booked);
        }
        self.update_gates();
    }
}

impl Books {
    /// Books a phase, decides, and drives the gates.
    pub(in crate::glue::gpu) fn decide(
        &mut self,
        phase: &mut PollingPhase,
        gpu: &Gpu,
        own: &mut MainState,
    ) {
        let now = ffi::now();
        self.sums.polls = phase.polls;
        self.sums.reads = phase.reads();
        self.find_tsgs(phase, gpu);
        self.note_turns(gpu, now);
        let decision = self.end_phase(phase, now, own);
        trace::phase_end(self.gpu, &decision.totals);
        self.report_fallback(decision.fallback);
        let period = decision.period;
        self.report_evasions();
        self.report_submissions();
        self.trace_decision(period.span);
        if trace::wants_work_periods() {
            let clients = self.state.shares.members();
            self.periods
                .emit(self.gpu, clients, period.poll, period.span);
        }
        if gpu.device.is_blind() {
            self.state.shares.release(now);
        }
        let patience = period.span.max(period.next);
        self.drive_gates(gpu, now, patience.saturating_mul(PERIODS_PER_THROTTLE));
        // Now that the phase is booked.
        self.forget_ended();
        self.reread_channels(gpu);
        self.sweep(true);
    }

    /// Charges the phase to the channels that were seen, and to their clients, and decides. Its
    /// cost does not grow with the other channels.
    fn end_phase(&mut self, phase: &PollingPhase, now: Ns, own: &mut MainState) -> Decision {
        let counts_runs = phase.strata().is_none();
        let mut pages = self.pages.all().iter();
        let first = pages.next().map(|page| page.owner());
        let ended = Ended {
            totals: phase.totals,
            slots: &phase.slots,
            used: phase.used().iter(),
            strata: phase.strata(),
            alone: pages.all(|page| Some(page.owner()) == first),
            copies: phase.copied(),
        };
        let mut owners = Owners {
            pages: &mut self.pages,
            phase,
            counts_runs,
            unknown: None,
        };
        let waits = phase.waits_found();
        let decision = self.state.end_phase(now, ended, &mut owners, waits);
        if let Some(index) = owners.unknown {
            self.note_unknown(index, &decision.totals, own);
        }
        decision
    }

    /// Reports clients that ran outside of polling phases to traces and subscribers.
    fn report_evasions(&mut self) {
        for at in self.state.shares.awake() {
            let (Some(member), Some(client)) =
                (self.state.shares.members().get(at), self.clients.get(at))
            else {
                continue;
            };
            if let Some(gained) = member.evaded() {
                self.sums.evasions = self.sums.evasions.saturating_add(1);
                trace::client_evade(self.gpu, member.id().get(), client.tgid, gained.get());
                events::evaded(self.gpu, &client.about(member), gained);
            }
        }
    }

    /// Tells subscribers of deadlines that were missed or broken since the last time.
    fn report_submissions(&self) {
        if !self.engaged.is_on() {
            return;
        }
        if self.engaged.take_opened() {
            events::overdue(self.gpu);
        }
        let mut from = 0;
        while let Some((wait_queue, report)) = self.engaged.take_report(from) {
            from = wait_queue.saturating_add(1);
            let clients = self.state.shares.members().iter().zip(self.clients.iter());
            // Those at one wait queue are of one user: the first stands for all. Not where users
            // share one, of whom none shall be taken for another.
            let mut there = clients.filter(|(_, client)| {
                wait_queue != SHARED_QUEUE && client.wait_queue == Some(wait_queue)
            });
            let about = there.next().map(|(member, client)| client.about(member));
            events::submissions(self.gpu, about.as_ref(), &report);
        }
    }

    /// Writes the decision to trace events, if they are on.
    fn trace_decision(&self, span: Ns) {
        if !trace::wants_decisions() {
            return;
        }
        let (mut active, mut throttled) = (0u32, 0u32);
        for (member, client) in self.state.shares.members().iter().zip(self.clients.iter()) {
            let (busy, is_throttled) = (member.used().busy, member.throttled_by().is_some());
            active = active.saturating_add((!busy.is_zero()).into());
            throttled = throttled.saturating_add(is_throttled.into());
            let group = self.state.shares.state_of(member.group());
            trace::client_decide(
                self.gpu,
                member.id().get(),
                client.tgid,
                busy.get(),
                group.map_or(0, |state| state.vtime.get()),
                is_throttled.into(),
            );
        }
        // CAST: `MAX_CLIENTS` fits.
        let clients = self.clients.len() as u32;
        let t_sys = self.state.engine.start_vtime().get();
        trace::decision_make(self.gpu, span.get(), t_sys, clients, active, throttled);
    }

    /// Reports time on the engine of a channel that no client owns, as an event at most once a
    /// second.
    fn note_unknown(&mut self, index: usize, totals: &PhaseTotals, own: &mut MainState) {
        const { assert!(MAX_SLOTS == 2 * MAX_CHANNELS) };
        let now = ffi::now();
        // CAST: at most 8191.
        self.sums.unknown_chid = Some(index as u16);
        trace::time_unknown(self.gpu, index as u32, totals.unknown.get());
        let due = own
            .unknown_reported
            .is_none_or(|last| now.saturating_sub(last) >= UNKNOWN_STEP);
        if due {
            own.unknown_reported = Some(now);
            events::unknown(self.gpu, index as u64);
        }
    }
}

/// Finds the owners of channels that were on an engine, and charges the channels.
struct Owners<'a> {
    pages: &'a mut Pages<Vectors, Arc<Gate>>,
    phase: &'a PollingPhase,
    counts_runs: bool,
    /// The last channel on the compute engine that no client owns.
    unknown: Option<usize>,
}

impl Owner for Owners<'_> {
    fn owner(&mut self, on: EngineKind, index: usize) -> Option<usize> {
        let slots = match on {
            EngineKind::Compute => &self.phase.slots[..],
            EngineKind::Copy => self.phase.copied()?.slots,
        };
        let slot = slots.get(index)?;
        let tsg = account::tsg_of(index);
        let chid = match tsg {
            Some(id) => self.pages.channel_of_tsg(id, slot.context),
            None => u16::try_from(index).ok().and_then(Chid::new),
        };
        let owner = chid.and_then(|chid| {
            if let Some(id) = tsg {
                self.pages.note_tsg(chid, id);
            }
            self.pages.charge(on, chid, slot, self.counts_runs)
        });
        if owner.is_none() && !slot.ran.is_zero() && on == EngineKind::Compute {
            self.unknown = Some(index);
        }
        owner
    }
}
