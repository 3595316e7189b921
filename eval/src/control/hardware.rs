// SPDX-License-Identifier: GPL-2.0

//! Baseline `hardware`: no scheduler.
//!
//! The GPU takes the channels in turn, a command or a timeslice each. Good for: it costs nothing.
//! Bad for: a client with longer commands gets more.

use crate::world::{Control, Machine, Verdict};

/// No scheduler.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hardware;

impl Control for Hardware {
    #[inline]
    fn submit(&mut self, _: &mut Machine, _: usize, _: usize, _: u64) -> Verdict {
        Verdict::Now
    }
}
