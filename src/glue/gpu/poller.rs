// SPDX-License-Identifier: GPL-2.0

//! [glue] The poller: watches the status word of one GPU during polling phases. With
//! sparse accounting it only starts the timer that does, see `sampler`.
//!
//! It holds [`Gpu::phase`] for the whole phase. Whoever wants the result sets
//! `stop_polling` and takes that lock: getting it is the poller's acknowledgement.
//! The loop allocates nothing, prints nothing and takes no other lock.

use super::device::Device;
use super::phase::Phase;
use super::shared_poller::Polled;
use super::Gpu;
use crate::account::waits::Waits;
use crate::account::{Accountant, Accounting, Slot};
use crate::glue::kernel::ffi;
use crate::glue::kernel::preempt::Processor;
use crate::glue::kernel::storage::Vectors;
use crate::glue::kernel::thread::{self, Bell, Work};
use crate::glue::trace;
use crate::regs::{ChannelState, Occupant, Sampler};
use crate::units::Ns;
use kernel::sync::atomic::{Relaxed, Release};
use kernel::sync::Arc;

/// Iterations between two pauses, which let the other thread of a core breathe, and after which
/// somebody else who wants the processor gets it.
const POLLS_PER_PAUSE: u32 = 64;
/// Iterations after which the poller tells the kernel that it is alive.
const POLLS_PER_BREATH: u32 = 1024;

/// What looks at the engine, and what it has seen.
struct Eyes<'a> {
    sampler: &'a mut Sampler,
    accountant: &'a mut Accountant,
    slots: &'a mut [Slot],
    last: Occupant,
}

impl Eyes<'_> {
    /// Polls once, and notes a change. False if the device has gone.
    #[inline(always)]
    fn poll(&mut self, device: &Device) -> bool {
        match self.sampler.sample(&device.bar0) {
            Ok(occupant) if occupant == self.last => {}
            Ok(occupant) => {
                self.last = occupant;
                note_change(device, self.accountant, self.slots, occupant);
            }
            Err(_) => return false,
        }
        true
    }

    /// Asks whether the next client waits: states of channels, with a poll after each. Returns
    /// the polls made, and after how many more the next client is asked for; nothing if the
    /// device has gone.
    #[inline(never)]
    fn ask(&mut self, device: &Device, waits: &mut Waits<Vectors>) -> Option<(u32, u32)> {
        let gap = waits.begin();
        let mut reads: u32 = 0;
        while let Some(chid) = waits.ask(self.last) {
            let state = ChannelState::read(&device.bar0, chid).ok()?;
            waits.note(state.compute_work());
            if !self.poll(device) {
                return None;
            }
            reads = reads.wrapping_add(1);
        }
        Some((reads, gap.saturating_sub(reads.saturating_mul(2)).max(1)))
    }

    /// Lets others have the processor, if they want it; see [`Accountant::skip`] for who is
    /// charged meanwhile. False if the device has gone.
    fn lend(&mut self, device: &Device, processor: &mut Processor) -> bool {
        let from = ffi::now();
        processor.lend(from);
        let found = self.sampler.sample(&device.bar0);
        self.last = *found.as_ref().unwrap_or(&self.last);
        note_gap(device, self.accountant, self.slots, from, self.last);
        found.is_ok()
    }
}

impl Phase {
    /// Polls until told to stop. False if the device has gone.
    #[inline(never)]
    fn poll(&mut self, gpu: &Gpu) -> bool {
        let Some(sampler) = self.sampler.as_mut() else {
            return true;
        };
        let device = &*gpu.device;
        let mut processor = Processor::hold();
        let first = sampler.sample(&device.bar0);
        let mut eyes = Eyes {
            sampler,
            accountant: &mut self.accountant,
            slots: &mut self.slots,
            last: *first.as_ref().unwrap_or(&Occupant::Idle),
        };
        let begin = ffi::now();
        trace::phase_begin(device.number(), begin, eyes.last);
        eyes.accountant.begin(eyes.slots, begin, eyes.last);
        let mut alive = true;
        let (mut polls, mut pause_at, mut breath_at) = (0u32, POLLS_PER_PAUSE, POLLS_PER_BREATH);
        while alive && gpu.stop_polling.load(Relaxed) == 0 {
            if !eyes.poll(device) {
                alive = false;
                break;
            }
            polls = polls.wrapping_add(1);
            if polls != pause_at {
                continue;
            }
            core::hint::spin_loop();
            let mut gap = POLLS_PER_PAUSE;
            if self.waits.watches() {
                let Some((made, left)) = eyes.ask(device, &mut self.waits) else {
                    alive = false;
                    break;
                };
                polls = polls.wrapping_add(made);
                self.state_reads = self.state_reads.saturating_add(made.into());
                gap = left;
            }
            pause_at = polls.wrapping_add(gap);
            // From one breath to the next it is less than half of the range of numbers.
            let breathes = polls.wrapping_sub(breath_at) < u32::MAX / 2;
            if breathes || processor.is_wanted() {
                breath_at = polls.wrapping_add(POLLS_PER_BREATH);
                alive = eyes.lend(device, &mut processor);
            }
        }
        drop(processor);
        self.polls = self.polls.saturating_add(polls.into());
        self.totals = eyes.accountant.end(eyes.slots, ffi::now());
        self.finished = true;
        alive
    }
}

/// The engine changed hands, just now. Not inlined: the loop that sees no change, which is
/// nearly always, keeps its values in registers.
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

/// The poller stood still from `from` until just now.
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
            phase.begin_looks(self.main_ringer());
            return;
        }
        let alive = phase.poll(self);
        phase.wanted = false;
        drop(phase);
        if !alive {
            self.device.lost.store(1, Release);
            self.ring();
        }
    }

    fn ring(&self) {
        Gpu::ring(self);
    }
}

/// The thread's work, where each GPU has its own.
pub(super) struct Poller(pub(crate) Arc<Gpu>);

impl Work for Poller {
    fn run(self: Arc<Self>, bell: &Bell) {
        while !thread::should_stop() {
            bell.wait_until(u64::MAX);
            self.0.poll_if_wanted();
        }
    }
}
