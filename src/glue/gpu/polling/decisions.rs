// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The end of a phase: it is charged to the clients, the policy decides, and what was decided
//! is carried out and reported.

use super::main_state::MainState;
use super::phase::PollingPhase;
use super::policy_inputs::{note_turns, report_fallback};
use crate::account::{self, EngineKind, Owner, PhaseTotals, MAX_SLOTS};
use crate::engaged::SHARED_QUEUE;
use crate::glue::control::events;
use crate::glue::gpu::books::Books;
use crate::glue::gpu::submission_pages::SubmissionPages;
use crate::glue::gpu::Gpu;
use crate::glue::kernel::ffi;
use crate::glue::trace;
use crate::gpu::{Decision, Ended};
use crate::ids::{Chid, MAX_CHANNELS};
use crate::units::Ns;
use kernel::sync::atomic::Full;

/// Books a phase, decides, and drives the gates.
pub(super) fn decide(books: &mut Books, phase: &mut PollingPhase, gpu: &Gpu, own: &mut MainState) {
    let now = ffi::now();
    books.sums.polls = phase.polls;
    books.sums.reads = phase.reads();
    find_tsgs(books, phase, gpu);
    note_turns(books, gpu, own, now);
    let decision = end_phase(books, phase, now, own);
    trace::phase_end(books.gpu, &decision.totals);
    report_fallback(books.gpu, decision.fallback);
    let period = decision.period;
    report_evasions(books);
    report_submissions(books, gpu);
    trace_decision(books, period.span);
    if trace::wants_work_periods() {
        let clients = books.state.shares.members();
        books
            .periods
            .emit(books.gpu, clients, period.poll, period.span);
    }
    if gpu.device.is_blind() {
        books.state.shares.release(now);
    }
    gpu.drive_gates(books, now, period.span.max(period.next));
    // Now that the phase is booked.
    books.forget_ended();
    reread_channels(books, gpu);
    books.sweep(true);
}

/// Reads the channels of pages again that may have changed; wakes the main thread if a decision is due.
pub(super) fn reread_channels(books: &mut Books, gpu: &Gpu) {
    if gpu.device.is_away() {
        return;
    }
    let freed = gpu.freed.xchg(0, Full) != 0;
    if books.reread_channels(freed) {
        gpu.wake();
    }
}

/// Reads the channels of all pages, if a TSG has run of which no channel is known: they were
/// allocated since the last read. Called when a phase has ended, before it is booked.
fn find_tsgs(books: &mut Books, phase: &PollingPhase, gpu: &Gpu) {
    let pages = books.pages.table();
    let is_unknown = |index: usize| {
        let slot = phase.slots.get(index).filter(|slot| slot.context != 0);
        let tsg = account::tsg_of(index).zip(slot);
        tsg.is_some_and(|(id, slot)| pages.channel_of_tsg(id, slot.context).is_none())
    };
    if !gpu.device.is_away() && phase.used().iter().any(is_unknown) {
        books.read_all_channels();
    }
}

/// Charges the phase to the channels that were seen, and to their clients, and decides. Its
/// cost does not grow with the other channels.
fn end_phase(books: &mut Books, phase: &PollingPhase, now: Ns, own: &mut MainState) -> Decision {
    let counts_runs = phase.strata().is_none();
    let mut pages = books.pages.table().all().iter();
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
        pages: &mut books.pages,
        phase,
        counts_runs,
        unknown: None,
    };
    let waits = phase.waits_found();
    let decision = books.state.end_phase(now, ended, &mut owners, waits);
    if let Some(index) = owners.unknown {
        note_unknown(books, index, &decision.totals, own);
    }
    decision
}

/// Reports clients that ran outside of polling phases to traces and subscribers.
fn report_evasions(books: &mut Books) {
    let (rows, sums) = (
        books.clients.with(books.state.shares.members()),
        &mut books.sums,
    );
    for at in books.state.shares.awake() {
        let Some((member, client)) = rows.get(at) else {
            continue;
        };
        if let Some(gained) = member.evaded() {
            sums.evasions = sums.evasions.saturating_add(1);
            trace::client_evade(books.gpu, member.id().get(), client.tgid(), gained.get());
            events::evaded(books.gpu, &client.about(member), gained);
        }
    }
}

/// Tells subscribers of deadlines that were missed or broken since the last time.
fn report_submissions(books: &Books, gpu: &Gpu) {
    let engaged = &gpu.engaged;
    if !engaged.is_on() {
        return;
    }
    if engaged.take_opened() {
        events::overdue(books.gpu);
    }
    let mut from = 0;
    while let Some((wait_queue, report)) = engaged.take_report(from) {
        from = wait_queue.saturating_add(1);
        // Those at one wait queue are of one user: the first stands for all. Not where users
        // share one, of whom none shall be taken for another.
        let mut there = books.rows().iter().filter(|(_, client)| {
            wait_queue != SHARED_QUEUE && client.wait_queue() == Some(wait_queue)
        });
        let about = there.next().map(|(member, client)| client.about(member));
        events::submissions(books.gpu, about.as_ref(), &report);
    }
}

/// Writes the decision to trace events, if they are on.
fn trace_decision(books: &Books, span: Ns) {
    if !trace::wants_decisions() {
        return;
    }
    let (mut active, mut throttled) = (0u32, 0u32);
    for (member, client) in books.rows().iter() {
        let (busy, is_throttled) = (member.used().busy, member.throttled_by().is_some());
        active = active.saturating_add((!busy.is_zero()).into());
        throttled = throttled.saturating_add(is_throttled.into());
        let group = books.state.shares.state_of(member.group());
        trace::client_decide(
            books.gpu,
            member.id().get(),
            client.tgid(),
            busy.get(),
            group.map_or(0, |state| state.vtime.get()),
            is_throttled.into(),
        );
    }
    // CAST: `MAX_CLIENTS` fits.
    let clients = books.clients.all().len() as u32;
    let t_sys = books.state.engine.start_vtime().get();
    trace::decision_make(books.gpu, span.get(), t_sys, clients, active, throttled);
}

/// Reports time on the engine of a channel that no client owns, as an event at most once a
/// second.
fn note_unknown(books: &mut Books, index: usize, totals: &PhaseTotals, own: &mut MainState) {
    const { assert!(MAX_SLOTS == 2 * MAX_CHANNELS) };
    // CAST: at most 8191.
    books.sums.unknown_chid = Some(index as u16);
    trace::time_unknown(books.gpu, index as u32, totals.unknown.get());
    if own.reports_unknown(ffi::now()) {
        events::unknown(books.gpu, index as u64);
    }
}

/// Finds the owners of channels that were on an engine, and charges the channels.
struct Owners<'a> {
    pages: &'a mut SubmissionPages,
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
            Some(id) => self.pages.table().channel_of_tsg(id, slot.context),
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
