// SPDX-License-Identifier: GPL-2.0

//! Baseline `hardware`: nobody schedules.
//!
//! The GPU takes the channels in turn, a command or a timeslice each. Good for: it costs nothing.
//! Bad for: who has the longer commands gets more.

use crate::world::{Booked, Control, Ledger, Machine, Verdict};

/// Nobody schedules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hardware;

impl Control for Hardware {
    fn come(&mut self, _: &mut Machine, _: usize) {}

    fn gone(&mut self, _: &mut Machine, _: usize) {}

    #[inline]
    fn submit(&mut self, _: &mut Machine, _: usize, _: usize, _: u64) -> Verdict {
        Verdict::Now
    }

    #[inline]
    fn ended(&mut self, _: &mut Machine, _: usize, _: usize) {}

    #[inline]
    fn look(&mut self, _: &mut Machine) {}

    #[inline]
    fn next(&self) -> Option<u64> {
        None
    }

    fn act(&mut self, _: &mut Machine) {}

    fn booked(&self, _: &Machine, _: usize) -> Booked {
        Booked::default()
    }

    fn ledger(&self, _: &Machine) -> Ledger {
        Ledger::default()
    }
}
