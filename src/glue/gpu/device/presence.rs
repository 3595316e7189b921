// SPDX-License-Identifier: GPL-2.0

//! `[glue]` A GPU that goes away and comes back, or stops answering.
//!
//! A GPU is *away* while the machine sleeps or the GPU is not bound to its driver: LoGA reads no
//! register of it then. It is *lost* while it answers with all ones: LoGA probes it once a second
//! as long as files of it are open. In both states all clients run.
//!
//! Registers are read with `Gpu::phase` or `Gpu::books` locked, or by the timer, which is cancelled
//! with `Gpu::phase` locked. Readers first check whether the GPU is away; `Gpu::go_away` takes both
//! locks once after setting it. No register is read after that.

use super::{log_refused_chip, Device};
use crate::glue::control::events;
use crate::regs::{self, Chip};
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;

/// Interval of probing a GPU that does not answer.
const PROBE: Ns = Ns::from_ms(1_000);
/// Least time between two log lines about one GPU that is lost and comes back.
const TELL: Ns = Ns::from_ms(10_000);

/// State of a GPU that may be lost and come back.
pub(crate) struct Presence {
    pub(crate) chip: Option<Chip>,
    /// The chip is one that LoGA does not follow.
    refused: bool,
    /// Open files of this GPU.
    pub(crate) open_files: u32,
    /// The loss was reported to subscribers, and printed.
    loss_reported: bool,
    loss_printed: bool,
    /// When a loss was last printed.
    printed: Ns,
    /// Time of the last probe.
    probed: Ns,
}

impl Presence {
    /// The state of a GPU that was just found.
    pub(in crate::glue::gpu) fn new(chip: Option<Chip>) -> Self {
        Self {
            chip,
            refused: false,
            open_files: 0,
            loss_reported: false,
            loss_printed: false,
            printed: Ns::ZERO,
            probed: Ns::ZERO,
        }
    }

    /// Detects the chip, unless it is known or was refused. Logs once if LoGA cannot follow it.
    pub(in crate::glue::gpu) fn detect(&mut self, device: &Device) {
        if self.chip.is_some() || self.refused || device.is_away() {
            return;
        }
        match regs::detect(&device.bar0).and_then(Chip::followed) {
            Ok(chip) => {
                device.describe_chip(&chip);
                self.chip = Some(chip);
            }
            // The GPU sleeps.
            Err(regs::Error::DeviceGone) => {}
            Err(cause) => {
                self.refused = true;
                log_refused_chip(&device.address, &cause);
            }
        }
    }

    /// Whether the chip is one that LoGA does not follow.
    pub(in crate::glue::gpu) const fn is_refused(&self) -> bool {
        self.refused
    }

    /// Time of the next probe, if the GPU does not answer.
    pub(in crate::glue::gpu) fn next_probe(&self, device: &Device) -> Option<Ns> {
        let asks = self.open_files != 0 && !device.is_away();
        let silent = device.is_lost() || (self.chip.is_none() && !self.refused);
        (asks && silent).then(|| self.probed.saturating_add(PROBE))
    }

    /// Probes a GPU that does not answer, if it is time. Called by the main thread.
    pub(in crate::glue::gpu) fn probe(&mut self, device: &Device, now: Ns) {
        if self.next_probe(device).is_some_and(|at| at <= now) {
            self.probed = now;
            self.ask_whether_back(device, now);
        }
    }

    /// Probes the GPU now.
    pub(in crate::glue::gpu) fn ask_whether_back(&mut self, device: &Device, now: Ns) {
        self.detect(device);
        if !device.is_lost() || device.is_away() {
            return;
        }
        if regs::detect(&device.bar0).is_err() {
            return;
        }
        device.lost.store(0, Relaxed);
        if core::mem::take(&mut self.loss_reported) {
            events::back(device.number());
            if core::mem::take(&mut self.loss_printed) {
                pr_info!("{}: the GPU answers again\n", device.address);
            }
        }
        self.probed = now;
    }

    /// Reports once that a GPU has stopped answering.
    pub(in crate::glue::gpu) fn report_loss(&mut self, device: &Device, now: Ns) {
        if core::mem::replace(&mut self.loss_reported, true) {
            return;
        }
        events::lost(device.number());
        // A user can make a GPU disappear and come back: limits the log lines.
        if self.printed.is_zero() || now.saturating_sub(self.printed) > TELL {
            self.printed = now;
            self.loss_printed = true;
            pr_warn!(
                "{}: the GPU does not answer any more (all ones); all clients run until it does\n",
                device.address
            );
        }
    }
}
