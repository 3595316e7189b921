// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The main thread of one GPU: sleeps until the engine's next deadline or a wake, and
//! carries out what the engine asks for.

use super::decisions::{decide, reread_channels};
use super::main_state::MainState;
use super::phase::COMPUTE;
use super::policy_inputs::{
    check_throttles, make_sampling_room, note_residue, note_turn, sample_residue, sample_waits,
    scan,
};
use crate::account::Accounting;
use crate::engine::{Action, Wake};
use crate::glue::gpu::books::Books;
use crate::glue::gpu::Gpu;
use crate::glue::kernel::ffi;
use crate::glue::kernel::thread::{self, WakeFlag, Work};
use crate::glue::trace::{self, Reason};
use crate::regs::OccupantReader;
use crate::units::Ns;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// Interval at which clients without channels are checked for exit: a process that closed its
/// mappings first gives no other signal.
const SWEEP: Ns = Ns::from_ms(500);
/// Interval of the idle check while a client is throttled.
const CHECK_INTERVAL: Ns = Ns::from_ms(500);

/// The thread's work.
pub(in crate::glue::gpu) struct Scheduler(pub(crate) Arc<Gpu>);

impl Work for Scheduler {
    fn run(self: Arc<Self>, flag: &WakeFlag) {
        let gpu = &self.0;
        let mut own = MainState::default();
        let mut waits_for_permit = false;
        while !thread::should_stop() {
            let deadline = {
                let books = gpu.books.lock();
                let probe = books.presence.next_probe(&gpu.device);
                let wake = next_wake(&books, waits_for_permit);
                wake.into_iter().chain(probe).min()
            };
            let woken = flag.wait_until(deadline.map_or(u64::MAX, Ns::get));
            let wake = if woken {
                Wake::ChannelsChanged
            } else {
                Wake::Timer
            };
            make_sampling_room(gpu, &mut own);
            gpu.engaged.recheck();
            waits_for_permit = !step(gpu, &mut own, wake);
            gpu.update_gates();
            let parked = gpu.books.lock().state.engine.is_parked();
            if parked {
                // Nothing calls this thread until somebody uses the GPU.
                gpu.forget_gone_clients();
            }
        }
    }
}

/// Asks the engine once, and carries out its answer, and tells who has the turn. False if this GPU
/// has to wait until other GPUs have been polled; the thread is woken then.
fn step(gpu: &Gpu, own: &mut MainState, wake: Wake) -> bool {
    let mut books = gpu.books.lock();
    let has_permit = advance(&mut books, gpu, own, wake);
    note_turn(&mut books, gpu);
    let stuck = books.pages.count_stuck(books.rows());
    gpu.stuck.store(stuck, Relaxed);
    has_permit
}

fn advance(books: &mut Books, gpu: &Gpu, own: &mut MainState, wake: Wake) -> bool {
    let now = ffi::now();
    if gpu.device.is_lost() {
        note_loss(books, gpu, now);
    } else if gpu.device.is_away() {
        gpu.release_all(books, now);
    }
    books.presence.probe(&gpu.device, now);
    check_throttles(books, gpu);
    let now = ffi::now();
    if books.state.engine.wants_to_poll(now, wake) && !may_poll(gpu, books) {
        if books.state.engine.next_scan().is_some_and(|at| at <= now) {
            scan(books, gpu, own);
        }
        return false;
    }
    match books.state.engine.wake(now, wake) {
        Action::None if books.state.engine.polling() => {}
        Action::None => {
            if books.state.engine.is_parked() {
                // Of channels that are gone.
                gpu.phase.lock().end_sampling();
                books.forget_ended();
            } else {
                // A polling phase may not begin yet: samples stand for the time until then.
                sample_residue(books, &mut gpu.phase.lock(), gpu);
            }
            gpu.release_permit();
            reread_channels(books, gpu);
            // Of a parked engine the rest follows, see the caller.
            let is_booked = books.state.engine.is_parked();
            books.sweep(is_booked);
        }
        Action::StartPolling => {
            let begin = ffi::now();
            start_polling(gpu, books, own);
            let took = ffi::now().saturating_sub(begin);
            gpu.took.lock().start.add(took);
        }
        Action::StopPolling => {
            gpu.stop_polling.store(1, Relaxed);
            // Waits until the poller has ended its phase.
            let mut phase = gpu.phase.lock();
            phase.conclude();
            let begin = ffi::now();
            decide(books, &mut phase, gpu, own);
            let took = ffi::now().saturating_sub(begin);
            gpu.took.lock().decide.add(took);
            sample_residue(books, &mut phase, gpu);
            gpu.release_permit();
        }
        Action::Scan => scan(books, gpu, own),
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
    let mut phase = gpu.phase.lock();
    let chip = books.presence.chip.filter(|_| !gpu.device.is_blind());
    // Without channels there is nothing to poll; what samples found since the last phase is booked.
    if books.state.engine.is_deserted() {
        note_residue(books, &mut phase);
    }
    let Some(chip) = chip.filter(|_| !books.state.engine.is_deserted()) else {
        phase.forget();
        return;
    };
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
    note_residue(books, &mut phase);
    sample_waits(books, &mut phase, own);
    let (accounting, interval) = books.state.plan();
    phase.want(accounting, interval);
    gpu.stop_polling.store(0, Relaxed);
    drop(phase);
    gpu.wake_poller();
}

/// When the main thread has to wake. While it waits for its permit to poll, only for a scan.
fn next_wake(books: &Books, waits_for_permit: bool) -> Option<Ns> {
    let engine = &books.state.engine;
    if waits_for_permit {
        return engine.next_scan();
    }
    let deadline = engine.next_deadline();
    let (time, wanted) = match deadline {
        Some(_) => (CHECK_INTERVAL, engine.has_throttled()),
        None => (SWEEP, !books.clients.all().is_empty()),
    };
    let later = || ffi::now().saturating_add(time);
    deadline.into_iter().chain(wanted.then(later)).min()
}

/// Lets all clients run, since the device has gone. Reports it once.
fn note_loss(books: &mut Books, gpu: &Gpu, now: Ns) {
    let mut clients = books.clients.all().iter();
    if clients.any(|client| client.throttled_since().is_some()) {
        trace::gpu_fallback(books.gpu, &Reason::Lost);
    }
    books.presence.report_loss(&gpu.device, now);
    gpu.release_all(books, now);
}
