// SPDX-License-Identifier: GPL-2.0

//! [glue] Whether the registers of a GPU may be read, and whether it answers.
//!
//! A GPU is *away* while the machine sleeps or its driver does not have it: no register of it is
//! read then. It is *lost* while it answers with all ones: it is asked once a second whether it
//! is back, as long as files of it are open. In both states everybody runs.
//!
//! Registers are read with [`Gpu::phase`] or [`Gpu::books`] locked, or by the timer, which the
//! holder of the former cancels. Who reads looks first whether the GPU is away; who sends it
//! away takes both locks once after saying so. Nothing reads after that.

use super::books::Books;
use super::Gpu;
use crate::glue::control::events;
use crate::glue::control::params::{describe_chip, refuse_chip};
use crate::glue::kernel::ffi;
use crate::regs;
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};

/// How often a GPU that does not answer is asked.
const PROBE: Ns = Ns::from_ms(1_000);
/// Least time between two lines in the log about one GPU that goes and comes.
const TELL: Ns = Ns::from_ms(10_000);

/// Why registers must not be read.
#[derive(Clone, Copy)]
pub(crate) enum Away {
    /// The machine sleeps, or is about to.
    Asleep,
    /// The driver does not have the GPU.
    Unbound,
}

/// 1: the machine sleeps. GPUs that are found meanwhile sleep too.
static ASLEEP: Atomic<u32> = Atomic::new(0);

/// Notes that the machine goes to sleep, or is awake again.
pub(crate) fn note_sleep(sleeps: bool) {
    ASLEEP.store(sleeps.into(), Relaxed);
}

/// Whether the machine sleeps, or is about to.
pub(crate) fn machine_sleeps() -> bool {
    ASLEEP.load(Relaxed) != 0
}

/// Whether a GPU is away, and why: 1 for each reason.
pub(crate) struct Absence {
    asleep: Atomic<u32>,
    unbound: Atomic<u32>,
}

impl Absence {
    /// That of a GPU that is found now.
    pub(crate) fn of_new() -> Self {
        Self {
            asleep: Atomic::new(ASLEEP.load(Relaxed)),
            unbound: Atomic::new(0),
        }
    }

    /// Whether no register may be read.
    pub(crate) fn is_away(&self) -> bool {
        self.asleep.load(Acquire) != 0 || self.unbound.load(Acquire) != 0
    }

    fn reason(&self, why: Away) -> &Atomic<u32> {
        match why {
            Away::Asleep => &self.asleep,
            Away::Unbound => &self.unbound,
        }
    }
}

impl Gpu {
    /// Whether no register may be read. For who holds `phase` or `books`.
    pub(crate) fn is_away(&self) -> bool {
        self.absence.is_away()
    }

    /// Whether it is away for this reason.
    pub(crate) fn is_away_for(&self, why: Away) -> bool {
        self.absence.reason(why).load(Acquire) != 0
    }

    /// Whether nothing can be measured.
    pub(crate) fn is_blind(&self) -> bool {
        self.lost.load(Acquire) != 0 || self.is_away()
    }

    /// Reads no register any more, and lets everybody run. True if it was not away for this
    /// reason. May sleep.
    pub(crate) fn go_away(&self, why: Away) -> bool {
        let before = self.absence.reason(why).xchg(1, Full);
        self.stop_polling.store(1, Relaxed);
        // Waits for the poller, and cancels the timer.
        self.phase.lock().conclude(self);
        // Waits for the main thread and for everybody else who reads.
        self.books.lock().release_all(self, ffi::now());
        self.turn_gates();
        self.ring();
        before == 0
    }

    /// Goes on, if that was the only reason not to.
    pub(crate) fn come_back(&self, why: Away) {
        self.absence.reason(why).store(0, Release);
        self.ring();
    }
}

impl Books {
    /// Finds out which chip it is, unless that is known or was refused. Says so once if LoGA
    /// cannot follow it.
    pub(crate) fn detect(&mut self, gpu: &Gpu) {
        if self.chip.is_some() || self.refused || gpu.is_away() {
            return;
        }
        match regs::detect(&gpu.bar0).and_then(regs::Chip::followed) {
            Ok(chip) => {
                describe_chip(gpu, &chip);
                self.chip = Some(chip);
            }
            // It sleeps.
            Err(regs::Error::DeviceGone) => {}
            Err(cause) => {
                self.refused = true;
                refuse_chip(&gpu.address, &cause);
            }
        }
    }

    /// When a GPU that does not answer is asked next.
    pub(crate) fn next_probe(&self, gpu: &Gpu) -> Option<Ns> {
        let asks = self.open_files != 0 && !gpu.is_away();
        let silent = gpu.lost.load(Acquire) != 0 || (self.chip.is_none() && !self.refused);
        (asks && silent).then(|| self.probed.saturating_add(PROBE))
    }

    /// Asks a GPU that does not answer whether it is back, if it is time for that. For the main
    /// thread.
    pub(crate) fn probe(&mut self, gpu: &Gpu, now: Ns) {
        if self.next_probe(gpu).is_some_and(|at| at <= now) {
            self.probed = now;
            self.ask_whether_back(gpu, now);
        }
    }

    /// Asks it now.
    pub(crate) fn ask_whether_back(&mut self, gpu: &Gpu, now: Ns) {
        self.detect(gpu);
        if gpu.lost.load(Acquire) == 0 || gpu.is_away() {
            return;
        }
        if regs::detect(&gpu.bar0).is_err() {
            return;
        }
        gpu.lost.store(0, Relaxed);
        if core::mem::take(&mut self.loss_told) {
            events::back(self.gpu);
            if core::mem::take(&mut self.loss_printed) {
                pr_info!("{}: the GPU answers again\n", gpu.address);
            }
        }
        self.probed = now;
    }

    /// Says once that a GPU has stopped answering.
    pub(crate) fn tell_loss(&mut self, gpu: &Gpu, now: Ns) {
        if core::mem::replace(&mut self.loss_told, true) {
            return;
        }
        events::lost(self.gpu);
        // A user may make a GPU go and come.
        if self.printed.is_zero() || now.saturating_sub(self.printed) > TELL {
            self.printed = now;
            self.loss_printed = true;
            pr_warn!(
                "{}: the GPU does not answer any more (all ones); everybody runs until it does\n",
                gpu.address
            );
        }
    }
}
