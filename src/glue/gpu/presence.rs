// SPDX-License-Identifier: GPL-2.0

//! [glue] A GPU that goes away and comes back, or stops answering.
//!
//! A GPU is *away* while the machine sleeps or its driver does not have it: no register of it is
//! read then. It is *lost* while it answers with all ones: it is asked once a second whether it
//! is back, as long as files of it are open. In both states everybody runs.
//!
//! Registers are read with `Gpu::phase` or `Gpu::books` locked, or by the timer, which the
//! holder of the former cancels. Who reads looks first whether the GPU is away; who sends it
//! away takes both locks once after saying so. Nothing reads after that.

use super::device::{refuse_chip, Device};
use crate::glue::control::events;
use crate::regs::{self, Chip};
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;

/// How often a GPU that does not answer is asked.
const PROBE: Ns = Ns::from_ms(1_000);
/// Least time between two lines in the log about one GPU that goes and comes.
const TELL: Ns = Ns::from_ms(10_000);

/// What is known of a GPU that may go and come.
pub(crate) struct Presence {
    pub(crate) chip: Option<Chip>,
    /// The chip is one that LoGA does not follow.
    refused: bool,
    /// Files of it that are open.
    pub(crate) open_files: u32,
    /// Subscribers know that the device has gone, and so does the log.
    loss_told: bool,
    loss_printed: bool,
    /// When the log was told last.
    printed: Ns,
    /// When it was asked last whether it is back.
    probed: Ns,
}

impl Presence {
    /// That of a GPU that is found now.
    pub(super) fn new(chip: Option<Chip>) -> Self {
        Self {
            chip,
            refused: false,
            open_files: 0,
            loss_told: false,
            loss_printed: false,
            printed: Ns::ZERO,
            probed: Ns::ZERO,
        }
    }

    /// Finds out which chip it is, unless that is known or was refused. Says so once if LoGA
    /// cannot follow it.
    pub(super) fn detect(&mut self, device: &Device) {
        if self.chip.is_some() || self.refused || device.is_away() {
            return;
        }
        match regs::detect(&device.bar0).and_then(Chip::followed) {
            Ok(chip) => {
                device.describe_chip(&chip);
                self.chip = Some(chip);
            }
            // It sleeps.
            Err(regs::Error::DeviceGone) => {}
            Err(cause) => {
                self.refused = true;
                refuse_chip(&device.address, &cause);
            }
        }
    }

    /// When a GPU that does not answer is asked next.
    pub(super) fn next_probe(&self, device: &Device) -> Option<Ns> {
        let asks = self.open_files != 0 && !device.is_away();
        let silent = device.is_lost() || (self.chip.is_none() && !self.refused);
        (asks && silent).then(|| self.probed.saturating_add(PROBE))
    }

    /// Asks a GPU that does not answer whether it is back, if it is time for that. For the main
    /// thread.
    pub(super) fn probe(&mut self, device: &Device, now: Ns) {
        if self.next_probe(device).is_some_and(|at| at <= now) {
            self.probed = now;
            self.ask_whether_back(device, now);
        }
    }

    /// Asks it now.
    pub(super) fn ask_whether_back(&mut self, device: &Device, now: Ns) {
        self.detect(device);
        if !device.is_lost() || device.is_away() {
            return;
        }
        if regs::detect(&device.bar0).is_err() {
            return;
        }
        device.lost.store(0, Relaxed);
        if core::mem::take(&mut self.loss_told) {
            events::back(device.number());
            if core::mem::take(&mut self.loss_printed) {
                pr_info!("{}: the GPU answers again\n", device.address);
            }
        }
        self.probed = now;
    }

    /// Says once that a GPU has stopped answering.
    pub(super) fn tell_loss(&mut self, device: &Device, now: Ns) {
        if core::mem::replace(&mut self.loss_told, true) {
            return;
        }
        events::lost(device.number());
        // A user may make a GPU go and come.
        if self.printed.is_zero() || now.saturating_sub(self.printed) > TELL {
            self.printed = now;
            self.loss_printed = true;
            pr_warn!(
                "{}: the GPU does not answer any more (all ones); everybody runs until it does\n",
                device.address
            );
        }
    }
}
