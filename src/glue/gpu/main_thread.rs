// SPDX-License-Identifier: GPL-2.0

//! [glue] The main thread of one GPU: sleeps until the engine's next deadline or a wake, and
//! carries out what the engine asks for.

use super::bar::MappedRange;
use super::books::Books;
use super::gate::Gate;
use super::phase::PollingPhase;
use super::Gpu;
use crate::account::waits::SampledClient;
use crate::account::{self, Accounting, EngineKind, Owner, PhaseTotals, MAX_SLOTS};
use crate::engaged::SHARED_QUEUE;
use crate::engine::{Action, Wake};
use crate::glue::control::events;
use crate::glue::kernel::ffi;
use crate::glue::kernel::storage::Vectors;
use crate::glue::kernel::thread::{self, WakeFlag, Work};
use crate::glue::trace::{self, Reason};
use crate::gpu::{Decision, Ended};
use crate::ids::{Chid, MAX_CHANNELS};
use crate::regs::OccupantReader;
use crate::track::pages::Pages;
use crate::units::Ns;
use kernel::alloc::KVVec;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// Each throttle is decided again in every period of the engine. After this many periods without a
/// decision, i.e. one after it was due, faults do not wait any longer.
pub(super) const PERIODS_PER_THROTTLE: u64 = 2;
/// Engine 0 computes.
pub(super) const COMPUTE: u8 = 0;
/// Interval at which clients without channels are checked for exit: a process that closed its
/// mappings first gives no other signal.
const SWEEP: Ns = Ns::from_ms(500);
/// Clients that a decision checks for exit, or a move to another cgroup or user.
const CHECKED: usize = 16;
/// Least time between two events about channels that no client owns.
const UNKNOWN_STEP: Ns = Ns::from_ms(1_000);
/// Interval of the idle check while a client is throttled.
const CHECK_INTERVAL: Ns = Ns::from_ms(500);

/// What only the main thread uses.
#[derive(Default)]
pub(super) struct MainState {
    /// Room to watch more clients and channels in the next phase, and the present capacities.
    pub(super) sampling_room: Option<(KVVec<SampledClient>, KVVec<Chid>)>,
    pub(super) sampling_room_of: (usize, usize),
    /// The slots of the channels, once a scan needs them.
    pub(super) slots: Option<MappedRange>,
    /// When unknown time was last reported.
    unknown_reported: Option<Ns>,
}

/// The thread's work.
pub(super) struct Scheduler(pub(crate) Arc<Gpu>);

impl Work for Scheduler {
    fn run(self: Arc<Self>, flag: &WakeFlag) {
        let gpu = &self.0;
        let mut own = MainState::default();
        let mut waits_for_permit = false;
        while !thread::should_stop() {
            let deadline = {
                let books = gpu.books.lock();
                let probe = books.presence.next_probe(&gpu.device);
                books
                    .next_wake(waits_for_permit)
                    .into_iter()
                    .chain(probe)
                    .min()
            };
            let woken = flag.wait_until(deadline.map_or(u64::MAX, Ns::get));
            let wake = if woken {
                Wake::ChannelsChanged
            } else {
                Wake::Timer
            };
            gpu.make_sampling_room(&mut own);
            gpu.engaged.recheck();
            waits_for_permit = !step(gpu, &mut own, wake);
            gpu.update_gates();
        }
    }
}

/// Asks the engine once, and carries out its answer. False if this GPU has to wait until other
/// GPUs have been polled; the thread is woken then.
fn step(gpu: &Gpu, own: &mut MainState, wake: Wake) -> bool {
    let mut books = gpu.books.lock();
    let now = ffi::now();
    if gpu.device.is_lost() {
        books.note_loss(gpu, now);
    } else if gpu.device.is_away() {
        books.release_all(gpu, now);
    }
    books.presence.probe(&gpu.device, now);
    books.check_throttles(gpu);
    let now = ffi::now();
    if books.state.engine.wants_to_poll(now, wake) && !may_poll(gpu, &books) {
        if books.state.engine.next_scan().is_some_and(|at| at <= now) {
            books.scan(gpu, own);
        }
        return false;
    }
    match books.state.engine.wake(now, wake) {
        Action::None if books.state.engine.polling() => {}
        Action::None => {
            gpu.release_permit();
            books.reread_channels(gpu);
            books.forget_gone_clients();
        }
        Action::StartPolling => {
            let begin = ffi::now();
            start_polling(gpu, &mut books, own);
            let took = ffi::now().saturating_sub(begin);
            gpu.took.lock().start.add(took);
        }
        Action::StopPolling => {
            gpu.stop_polling.store(1, Relaxed);
            // Waits until the poller has ended its phase.
            let mut phase = gpu.phase.lock();
            phase.conclude();
            let begin = ffi::now();
            books.decide(&mut phase, gpu, own);
            let took = ffi::now().saturating_sub(begin);
            gpu.took.lock().decide.add(took);
            books.sample_residue(&mut phase, gpu);
            gpu.release_permit();
        }
        Action::Scan => books.scan(gpu, own),
    }
    true
}

/// Whether the poller is free. Sparse accounting needs it only to start the timer.
fn may_poll(gpu: &Gpu, books: &Books) -> bool {
    match books.state.engine.config().effective_accounting() {
        Accounting::Burst => gpu.take_permit(),
        Accounting::Sparse => {
            gpu.release_permit();
            true
        }
    }
}

fn start_polling(gpu: &Gpu, books: &mut Books, own: &mut MainState) {
    if gpu.device.is_blind() {
        return;
    }
    let Some(chip) = books.presence.chip else {
        return;
    };
    let mut phase = gpu.phase.lock();
    if phase.reader.is_none() {
        phase.reader = Some(OccupantReader::new(
            gpu.settings.config.source,
            &chip,
            COMPUTE,
        ));
        if let Some(copies) = phase.copies.as_mut() {
            copies.follow(chip.copy_engine);
        }
    }
    books.note_residue(&mut phase);
    books.sample_waits(&mut phase, own);
    let (accounting, interval) = books.state.plan();
    phase.want(accounting, interval);
    gpu.stop_polling.store(0, Relaxed);
    drop(phase);
    gpu.wake_poller();
}

impl Books {
    /// When the main thread has to wake. While it waits for its permit to poll, only for a scan.
    fn next_wake(&self, waits_for_permit: bool) -> Option<Ns> {
        if waits_for_permit {
            return self.state.engine.next_scan();
        }
        let deadline = self.state.engine.next_deadline();
        let (time, wanted) = match deadline {
            Some(_) => (CHECK_INTERVAL, self.state.engine.has_throttled()),
            None => (SWEEP, !self.clients.is_empty()),
        };
        let later = || ffi::now().saturating_add(time);
        deadline.into_iter().chain(wanted.then(later)).min()
    }

    /// Books a phase, decides, and drives the gates.
    fn decide(&mut self, phase: &mut PollingPhase, gpu: &Gpu, own: &mut MainState) {
        let now = ffi::now();
        self.sums.polls = phase.polls;
        self.sums.reads = phase.reads();
        self.find_tsgs(phase, gpu);
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
        self.reread_channels(gpu);
        self.sweep(CHECKED);
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

    /// Lets all clients run, since the device has gone. Reports it once.
    fn note_loss(&mut self, gpu: &Gpu, now: Ns) {
        if self
            .clients
            .iter()
            .any(|client| client.throttled_since.is_some())
        {
            trace::gpu_fallback(self.gpu, &Reason::Lost);
        }
        self.presence.report_loss(&gpu.device, now);
        self.release_all(gpu, now);
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
