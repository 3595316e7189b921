// SPDX-License-Identifier: GPL-2.0

//! `[hw]` The registers that LoGA reads, and their layouts by family.
//!
//! LoGA only reads registers. Each is declared by the macro `register!` (`register.rs`) with its
//! name in the manual, its place and its fields, and is a type of its own. Every read goes through
//! [`Mmio`], so that the same code runs on BAR0 and on a table in a test. A read of all ones means
//! that the device is gone: an error, not data.
//!
//! Register facts are taken from the manuals named in each file: `gk20a` is the
//! register description published for the GK20A, `gv100` and `tu104` are the manuals
//! of the open-gpu-doc collection, `nouveau` is the driver in the kernel. Facts that
//! no hardware of ours has confirmed are marked *unverified*.

mod channel_state;
mod channel_table;
mod chip;
mod copy_reader;
mod device_info;
mod engine_status;
mod reader;
mod register;
mod userd;

pub use channel_state::{ChannelState, Work};
pub use channel_table::ChannelTable;
pub use chip::{detect, Chip, Family};
pub use copy_reader::CopyReader;
pub use engine_status::EngineStatus;
pub use reader::{occupant, OccupantReader, Source};
pub use userd::{userd_base, Ring, USERD_SLOT};

use crate::ids::{Chid, Chipset, TsgId};
use core::fmt;

/// What every read returns when the device has left the bus.
pub const ALL_ONES: u32 = 0xffff_ffff;

/// Register window of a GPU (BAR0).
pub trait Mmio {
    /// Reads the 32-bit register at this byte offset.
    fn read32(&self, offset: u32) -> u32;
}

/// The device has left the bus: it answered with all ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceGone;

/// Why the registers could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The device has left the bus.
    DeviceGone,
    /// The chip is known, but its status words are not decoded.
    UnsupportedChip {
        /// Which chip.
        chipset: Chipset,
    },
    /// PMC_BOOT_0 names no chip known here.
    UnknownChip {
        /// PMC_BOOT_0.
        boot0: u32,
    },
    /// A register holds a value that cannot be.
    Implausible {
        /// Which register.
        offset: u32,
        /// What it holds.
        value: u32,
    },
}

impl From<DeviceGone> for Error {
    fn from(_: DeviceGone) -> Self {
        Error::DeviceGone
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::DeviceGone => write!(f, "the device does not answer (all ones)"),
            Error::UnsupportedChip { chipset } => {
                write!(f, "chip {:#x} ", chipset.get())?;
                if let Some(family) = Family::of(*chipset) {
                    write!(f, "({family}) ")?;
                }
                f.write_str("is not supported, want Kepler to Pascal")
            }
            Error::UnknownChip { boot0 } => {
                write!(f, "PMC_BOOT_0 {boot0:#010x} names no known chip")
            }
            Error::Implausible { offset, value } => {
                write!(f, "register {offset:#x} holds {value:#x}, which cannot be")
            }
        }
    }
}

/// What is on an engine, and so is charged from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupant {
    /// Nothing: the engine has no work.
    Idle,
    /// A channel.
    Channel(Chid),
    /// A TSG.
    Tsg {
        /// Which.
        id: TsgId,
        /// The instance block of that one of its channels which is on the engine, as in the channel
        /// table; 0: not known.
        context: u32,
    },
    /// The engine works, but does not show for which channel.
    Unknown,
}

/// A status word and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The word as read.
    pub word: u32,
    /// What is charged.
    pub occupant: Occupant,
}

/// Whether a read was refused: the GPU answers with 0xBADxxxxx where a register is not there or may
/// not be read, and with all ones if the device is gone. Source: open-gpu-kernel-modules,
/// `GPU_READ_PRI_ERROR_CODE`.
const fn is_refused(word: u32) -> bool {
    word >> 20 == 0xbad || word == ALL_ONES
}

/// Reads a register that never holds all ones while the device answers.
fn read_alive(mmio: &impl Mmio, offset: u32) -> Result<u32, DeviceGone> {
    match mmio.read32(offset) {
        ALL_ONES => Err(DeviceGone),
        value => Ok(value),
    }
}

/// A register window in a test: a few registers, zero elsewhere, reads counted.
#[cfg(any(test, loga_kunit))]
struct FakeMmio<const N: usize> {
    registers: [(u32, u32); N],
    reads: core::cell::Cell<u32>,
}

#[cfg(any(test, loga_kunit))]
impl<const N: usize> FakeMmio<N> {
    fn new(registers: [(u32, u32); N]) -> Self {
        let reads = core::cell::Cell::new(0);
        Self { registers, reads }
    }

    fn set(&mut self, offset: u32, value: u32) {
        let mut registers = self.registers.iter_mut();
        let register = registers.find(|register| register.0 == offset);
        assert!(register.is_some(), "no such register in this test");
        if let Some(register) = register {
            register.1 = value;
        }
    }

    fn reads(&self) -> u32 {
        self.reads.get()
    }
}

#[cfg(any(test, loga_kunit))]
impl<const N: usize> Mmio for FakeMmio<N> {
    fn read32(&self, offset: u32) -> u32 {
        self.reads.set(self.reads.get().saturating_add(1));
        self.registers
            .iter()
            .find(|register| register.0 == offset)
            .map_or(0, |register| register.1)
    }
}
