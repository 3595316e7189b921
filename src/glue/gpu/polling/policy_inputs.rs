// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Inputs of policies other than GPU time.
//!
//! *Channel scans*, for policies that work in stages: the main thread reads the state and the ring
//! of every channel, and checks each gate for sleeping threads. For policies that want it, it also
//! reads how long clients were on a processor. It checks that no client is throttled on an idle
//! GPU.
//!
//! *Waits*: before a polling phase the main thread lists the clients that the poller has to check,
//! and books the results after it. The list is empty if the policy does not use waits.
//!
//! *Residue and evasions*: samples at random instants of the non-polling phase show the occupant
//! of the engine.

use super::main_state::MainState;
use super::phase::{PollingPhase, COMPUTE};
use crate::engaged::Counters;
use crate::engine::Fallback;
use crate::glue::control::events;
use crate::glue::gpu::books::Books;
use crate::glue::gpu::Gpu;
use crate::glue::kernel::ffi;
use crate::glue::trace::{self, Reason};
use crate::policies::{Inputs, ScanResult};
use crate::regs::{EngineStatus, Mmio, Occupant};
use crate::share::Member;
use crate::units::Ns;
use kernel::prelude::*;

/// Least time that a throttle decided after a scan applies, before a missing scan counts as late.
const LEAST_PATIENCE: Ns = Ns::from_ms(10);

/// Lists the clients that the poller checks in the coming phase: those that are not throttled,
/// if the policy uses waits. Without room for all it checks none, see [`make_sampling_room`].
pub(super) fn sample_waits(books: &Books, phase: &mut PollingPhase, own: &mut MainState) {
    phase.waits.stop();
    if books.state.engine.config().wants() != Inputs::Waits {
        return;
    }
    if let Some((watched, list)) = own.take_sampling_room() {
        phase.waits.refit(watched, list);
    }
    let runs = |member: &&Member| member.throttled_by().is_none();
    let members = books.state.shares.members().iter();
    let clients = members.filter(runs).map(Member::id);
    let channels = books.pages.table().channels();
    phase.waits.sample(
        clients,
        channels.map(|(chid, page, _)| (page.owner(), chid)),
    );
    own.note_sampling_room(phase.waits.room());
}

/// Makes room to check all clients and channels for waits in the next polling phase. Without
/// memory none are checked. The books may not be locked.
pub(super) fn make_sampling_room(gpu: &Gpu, own: &mut MainState) {
    let books = gpu.books.lock();
    if books.state.engine.config().wants() != Inputs::Waits {
        return;
    }
    let clients = books.state.shares.members().len();
    // CAST: at most 4096 channels.
    let channels = books.pages.table().allocated() as usize;
    drop(books);
    own.make_sampling_room(clients, channels);
}

/// Begins sampling in a non-polling phase, unless it has begun: the residue of throttled clients,
/// and whether the others run as in polling phases.
pub(super) fn sample_residue(books: &Books, phase: &mut PollingPhase, gpu: &Gpu) {
    let (engine, shares) = (&books.state.engine, &books.state.shares);
    if !engine.samples_pauses() || phase.is_sampling() {
        return;
    }
    // By the policy, by a limit or by its class. Clients that are asleep are not throttled.
    let members = shares.members();
    let is_throttled = |at: usize| {
        members
            .get(at)
            .is_some_and(|member| member.throttled_by().is_some())
    };
    let throttled = shares.awake().any(is_throttled);
    let until = engine.next_deadline();
    let length = until.map_or(Ns::ZERO, |until| until.saturating_sub(ffi::now()));
    phase.begin_residue(gpu.main_waker(), length, throttled);
}

/// Ends the samples, and books the residue, before the next polling phase.
pub(super) fn note_residue(books: &mut Books, phase: &mut PollingPhase) {
    let Some(residue) = phase.end_sampling() else {
        return;
    };
    let pages = books.pages.table();
    let client = |&(occupant, time): &(Occupant, Ns)| {
        let chid = match occupant {
            Occupant::Channel(chid) => chid,
            Occupant::Tsg { id, context } => pages.channel_of_tsg(id, context)?,
            Occupant::Idle | Occupant::Unknown => return None,
        };
        Some((pages.page_of_channel(chid)?.owner(), time))
    };
    let found = residue.found().iter().filter_map(client);
    let copied = residue.found_copying().iter().filter_map(client);
    books.state.begin_phase(found, copied);
}

/// Scans the channels, asks the policy, and drives the gates.
pub(super) fn scan(books: &mut Books, gpu: &Gpu, own: &mut MainState) {
    if books.state.engine.config().policy.staged() && !gpu.device.is_away() {
        scan_channels(books, gpu, own);
    }
    let now = ffi::now();
    let before = books.state.engine.stats().overdue;
    let fallback = books.state.end_scan(now);
    report_fallback(books.gpu, fallback);
    let overdue = books.state.engine.stats().overdue;
    if overdue > before && overdue.is_power_of_two() {
        pr_warn!(
            "gpu {}: a channel did not run empty in time, {overdue} times so far\n",
            books.gpu
        );
    }
    if gpu.device.is_blind() {
        books.state.shares.release(now);
    }
    let deadline = books.state.engine.next_deadline().unwrap_or(now);
    let period = deadline.saturating_sub(now).max(LEAST_PATIENCE);
    gpu.drive_gates(books, now, period);
}

/// Scans all channels, and the gates for sleeping threads.
fn scan_channels(books: &mut Books, gpu: &Gpu, own: &mut MainState) {
    own.map_slots(&gpu.device, books.presence.chip);
    books.state.begin_scan();
    let shares = &mut books.state.shares;
    if books.state.engine.config().wants() == Inputs::Cpu {
        books.clients.take_cpu_times(|at, cpu| {
            let seen = ScanResult {
                cpu,
                ..ScanResult::default()
            };
            shares.add_scan(at, &seen, 0);
        });
    }
    books.pages.scan(own.slots(), |at, seen, channels| {
        shares.add_scan(at, seen, channels);
    });
}

/// Notes for the policy how many submissions were let pass, and how long clients waited for their
/// turns, of those that compete for the GPU.
pub(super) fn note_turns(books: &mut Books, gpu: &Gpu, own: &mut MainState, now: Ns) {
    if !gpu.engaged.is_on() {
        own.take_grants(0);
        return;
    }
    // Whoever stores and submits nothing shall not hide what throttling costs.
    let used = |sums: Counters| sums.grants.saturating_sub(sums.unused);
    let grants = gpu.engaged.counters().map_or(0, used);
    books.state.note_dispatched(own.take_grants(grants));
    for page in books.pages.table().all() {
        let Some(gate) = page.gate() else {
            continue;
        };
        let waited = gate.turn_waits().take(now);
        let competes = |at| gpu.engaged.competes(at);
        if !waited.is_zero() && gate.wait_queue().is_some_and(competes) {
            books.state.shares.note_turn_wait(page.at(), waited);
        }
    }
}

/// Lets all clients run if one was throttled while the GPU was idle for too long, or if this
/// thread came too late. The main thread calls it whenever it wakes.
///
/// If the main thread hangs, no client is throttled for ever: each fault that waits in a gate
/// has a bound of its own, and needs no lock for it.
pub(super) fn check_throttles(books: &mut Books, gpu: &Gpu) {
    if !books.state.engine.has_throttled() || gpu.device.is_away() {
        return;
    }
    let now = ffi::now();
    let word = gpu.device.bar0.read32(EngineStatus::offset(COMPUTE));
    // During a switch the occupant does not matter: the engine is not idle.
    let is_idle = EngineStatus::decode(word, false) == Ok(Occupant::Idle);
    books.state.engine.note_idle(now, is_idle);
    if let Some(cause) = books.state.engine.watchdog(now) {
        report_fallback(books.gpu, Some(cause));
        gpu.release_all(books, now);
    }
}

/// Tells subscribers when another group has the turn, or none any more. Costs a comparison as
/// long as nothing changes.
pub(super) fn note_turn(books: &mut Books, gpu: &Gpu) {
    let runs_all = gpu.device.is_blind() || gpu.device.is_away();
    let holder = books.state.engine.holder().filter(|_| !runs_all);
    if holder == books.turn {
        return;
    }
    books.turn = holder;
    let shares = &books.state.shares;
    let of_holder = |(member, _): &(&Member, _)| {
        let group = shares.state_of(member.group()).map(|state| state.id);
        group.is_some() && group == holder
    };
    let group = books.rows().iter().filter(of_holder);
    events::turn(
        books.gpu,
        group.map(|(member, client)| client.about(member)),
    );
}

/// Reports a fallback, if there was one.
pub(super) fn report_fallback(gpu: u32, fallback: Option<Fallback>) {
    if let Some(cause) = fallback {
        trace::gpu_fallback(gpu, &Reason::Engine(cause));
        events::fallback(gpu, &Reason::Engine(cause));
    }
}
