// SPDX-License-Identifier: GPL-2.0

//! Registers that do not say what the card does.

use super::machine::Machine;
use kernel::prelude::*;

/// Bytes of registers written while the lock is held.
const RANDOM_PART: u64 = 0x1000;

/// What the registers read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registers {
    /// What the card does.
    Live,
    /// What they read last; PTIMER stands still too.
    Still,
    /// Random words.
    Random,
    /// All ones: the card has fallen off the bus.
    Gone,
}

impl Machine {
    /// Changes what the registers read; the card itself goes on.
    pub fn set_registers(&self, state: Registers) {
        // From here on nothing that happens shows.
        self.with(|core| core.board.silent = true);
        match state {
            Registers::Still => {}
            Registers::Gone => self.with(|core| core.board.bar0.fill(0xff)),
            Registers::Random => self.fill_at_random(),
            Registers::Live => self.with(|core| {
                core.board.silent = false;
                core.board.bar0.fill(0);
                core.gpu.publish_all(&mut core.board);
            }),
        }
    }

    /// Writes a fixed sequence of random words to all registers, a part at a time.
    fn fill_at_random(&self) {
        // Xorshift. Source: G. Marsaglia, Xorshift RNGs, 2003.
        let mut state = 0x2545_f491u32;
        for part in 0..self.at.bar0_size / RANDOM_PART {
            self.with(|core| {
                for word in 0..RANDOM_PART / 4 {
                    state ^= state << 13;
                    state ^= state >> 17;
                    state ^= state << 5;
                    core.board.bar0.write(part * RANDOM_PART + 4 * word, state);
                }
            });
        }
    }
}

/// Changes what the registers of the first card read. A parameter may be given before the card
/// exists, where it makes no sense.
fn set_registers(state: Registers) -> kernel::ffi::c_int {
    match super::stand::machine(0) {
        Some(machine) => {
            machine.set_registers(state);
            0
        }
        None => EBUSY.to_errno(),
    }
}

/// Called by `shim.c` when `registers` is written.
#[no_mangle]
extern "C" fn loga_model_set_registers(what: u32) -> kernel::ffi::c_int {
    match what {
        0 => set_registers(Registers::Live),
        1 => set_registers(Registers::Still),
        2 => set_registers(Registers::Random),
        _ => {
            pr_err!("registers must be 0, 1 or 2, not {what}\n");
            EINVAL.to_errno()
        }
    }
}

/// Called by `shim.c` when `lost` is written.
#[no_mangle]
extern "C" fn loga_model_set_lost(lost: bool) -> kernel::ffi::c_int {
    match lost {
        true => set_registers(Registers::Gone),
        false => set_registers(Registers::Live),
    }
}
