// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The poller: reads the status word of one GPU in a loop during polling phases, and once in
//! eight polls that of its copy engine. With
//! sparse accounting it only starts the timer that samples the word, see `sampler`.
//!
//! It holds [`Gpu::phase`] for the whole phase. To end it, the main thread sets `stop_polling` and
//! takes that lock, which the poller then releases.
//! The loop allocates nothing, prints nothing and takes no other lock.

use super::phase::PollingPhase;
use super::shared_poller::Polled;
use crate::account::waits::Waits;
use crate::account::{Accountant, Accounting, Copies, Slot, POLLS_PER_COPY_READ};
use crate::glue::gpu::device::Device;
use crate::glue::gpu::Gpu;
use crate::glue::kernel::ffi;
use crate::glue::kernel::preempt::PollGuard;
use crate::glue::kernel::storage::Vectors;
use crate::glue::kernel::thread::{self, WakeFlag, Work};
use crate::glue::trace;
use crate::regs::{ChannelState, Occupant, OccupantReader};
use crate::units::Ns;
use kernel::sync::atomic::{Relaxed, Release};
use kernel::sync::Arc;

/// Polls between two `PAUSE` instructions for the sibling hyperthread, each with a check whether
/// another thread wants the processor.
const POLLS_PER_PAUSE: u32 = 64;
/// Polls after which the poller yields in any case, which reports an RCU-tasks quiescent state.
const POLLS_PER_RESCHED: u32 = 1024;

/// State of the poll loop: the register reader, the accounts, and the last occupant.
struct PollLoop<'a> {
    reader: &'a mut OccupantReader,
    accountant: &'a mut Accountant,
    slots: &'a mut [Slot],
    copies: Option<&'a mut Copies<Vectors>>,
    last: Occupant,
}

impl PollLoop<'_> {
    /// Polls once, and books a change of the occupant. False if the device has gone.
    #[inline(always)]
    fn poll(&mut self, device: &Device) -> bool {
        match self.reader.read(&device.bar0) {
            Ok(occupant) if occupant == self.last => {}
            Ok(occupant) => {
                self.last = occupant;
                note_change(device, self.accountant, self.slots, occupant);
            }
            Err(_) => return false,
        }
        true
    }

    /// Looks at the copy engine, if there is one. Nothing that it shows ends the phase.
    #[inline(always)]
    fn read_copies(&mut self, device: &Device) {
        if let Some(copies) = self.copies.as_mut() {
            copies.poll(&device.bar0, ffi::now);
        }
    }

    /// Checks whether the next client waits: reads states of channels, with a poll after each.
    /// Returns the polls made, and the number of polls until the next check; `None` if the device
    /// has gone.
    #[inline(never)]
    fn ask(&mut self, device: &Device, waits: &mut Waits<Vectors>) -> Option<(u32, u32)> {
        let gap = waits.begin();
        let mut reads: u32 = 0;
        while let Some(chid) = waits.ask(self.last) {
            let state = ChannelState::read(&device.bar0, chid).ok()?;
            waits.note_state(state);
            if !self.poll(device) {
                return None;
            }
            reads = reads.wrapping_add(1);
        }
        Some((reads, gap.saturating_sub(reads.saturating_mul(2)).max(1)))
    }

    /// Yields the processor to threads that want it; [`Accountant::skip`] says which client is
    /// charged for that time. False if the device has gone.
    fn yield_cpu(&mut self, device: &Device, guard: &mut PollGuard) -> bool {
        let from = ffi::now();
        guard.yield_cpu(from);
        let found = self.reader.read(&device.bar0);
        self.last = *found.as_ref().unwrap_or(&self.last);
        note_gap(device, self.accountant, self.slots, from, self.last);
        if let Some(copies) = self.copies.as_mut() {
            copies.skip(&device.bar0, from, ffi::now());
        }
        found.is_ok()
    }
}

impl PollingPhase {
    /// Polls until `stop_polling` is set. False if the device has gone.
    #[inline(never)]
    fn poll(&mut self, gpu: &Gpu) -> bool {
        let Some(reader) = self.reader.as_mut() else {
            return true;
        };
        let device = &*gpu.device;
        let mut guard = PollGuard::new();
        let first = reader.read(&device.bar0);
        let mut poll_loop = PollLoop {
            reader,
            accountant: &mut self.accountant,
            slots: &mut self.slots,
            copies: self.copies.as_deref_mut(),
            last: *first.as_ref().unwrap_or(&Occupant::Idle),
        };
        let begin = ffi::now();
        trace::phase_begin(device.number(), begin, poll_loop.last);
        poll_loop
            .accountant
            .begin(poll_loop.slots, begin, poll_loop.last);
        if let Some(copies) = poll_loop.copies.as_mut() {
            copies.begin(&device.bar0, begin);
        }
        let mut alive = true;
        let (mut polls, mut pause_at, mut resched_at) = (0u32, POLLS_PER_PAUSE, POLLS_PER_RESCHED);
        while alive && gpu.stop_polling.load(Relaxed) == 0 {
            if !poll_loop.poll(device) {
                alive = false;
                break;
            }
            polls = polls.wrapping_add(1);
            if polls % POLLS_PER_COPY_READ == 0 {
                poll_loop.read_copies(device);
            }
            if polls != pause_at {
                continue;
            }
            core::hint::spin_loop();
            let mut gap = POLLS_PER_PAUSE;
            if self.waits.samples_any() {
                let Some((made, left)) = poll_loop.ask(device, &mut self.waits) else {
                    alive = false;
                    break;
                };
                polls = polls.wrapping_add(made);
                self.state_reads = self.state_reads.saturating_add(made.into());
                gap = left;
            }
            pause_at = polls.wrapping_add(gap);
            // Two yields are less than half of the range of `u32` apart.
            let resched_due = polls.wrapping_sub(resched_at) < u32::MAX / 2;
            if resched_due || guard.should_yield() {
                resched_at = polls.wrapping_add(POLLS_PER_RESCHED);
                alive = poll_loop.yield_cpu(device, &mut guard);
            }
        }
        drop(guard);
        self.polls = self.polls.saturating_add(polls.into());
        let end = ffi::now();
        self.totals = poll_loop.accountant.end(poll_loop.slots, end);
        if let Some(copies) = poll_loop.copies {
            copies.end(end);
        }
        self.finished = true;
        alive
    }
}

/// Books a change of the occupant that was just seen. Not inlined, so that the loop keeps its
/// values in registers while nothing changes, which is nearly always.
#[inline(never)]
fn note_change(
    device: &Device,
    accountant: &mut Accountant,
    slots: &mut [Slot],
    occupant: Occupant,
) {
    let now = ffi::now();
    trace::context_switch(device.number(), now, accountant.current(), occupant);
    accountant.observe(slots, now, occupant);
}

/// Books a gap in polling from `from` until now.
#[inline(never)]
fn note_gap(
    device: &Device,
    accountant: &mut Accountant,
    slots: &mut [Slot],
    from: Ns,
    occupant: Occupant,
) {
    let now = ffi::now();
    if occupant != accountant.current() {
        trace::context_switch(device.number(), now, accountant.current(), occupant);
    }
    accountant.skip(slots, from, now, occupant);
}

impl Polled for Gpu {
    fn poll_if_wanted(&self) {
        let mut phase = self.phase.lock();
        if !phase.wanted || self.device.is_away() {
            return;
        }
        if phase.accounting == Accounting::Sparse {
            phase.wanted = false;
            phase.begin_sampling(self.main_waker());
            return;
        }
        let alive = phase.poll(self);
        phase.wanted = false;
        drop(phase);
        if !alive {
            self.device.lost.store(1, Release);
            self.wake();
        }
    }

    fn wake(&self) {
        Gpu::wake(self);
    }
}

/// The thread's work, if each GPU has its own poller.
pub(in crate::glue::gpu) struct Poller(pub(crate) Arc<Gpu>);

impl Work for Poller {
    fn run(self: Arc<Self>, flag: &WakeFlag) {
        while !thread::should_stop() {
            flag.wait_until(u64::MAX);
            self.0.poll_if_wanted();
        }
    }
}
