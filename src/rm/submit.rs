// SPDX-License-Identifier: GPL-2.0

//! `[pure]` How a program submits work to a channel: USERD, GPFIFO entries, pushbuffer methods.
//!
//! A pushbuffer is an array of 32-bit words in memory the GPU can reach: a method header followed
//! by its data words, repeated. A GPFIFO entry points at a pushbuffer. The program stores the index
//! behind its last entry in GP_PUT of the channel's USERD slot; that store is the submission.

/// Bytes of one channel's USERD slot on Kepler. Source: nouveau `fifo/gk104.c`, `gk104_chan_userd`.
pub const USERD_SLOT: u64 = 0x200;
/// Offset of GP_GET in a USERD slot. Source: OGKM `class/cla06f.h`, `Nva06fControl`.
pub const USERD_GP_GET: u64 = 0x88;
/// Offset of GP_PUT in a USERD slot. Source: OGKM `class/cla06f.h`, `Nva06fControl`.
pub const USERD_GP_PUT: u64 = 0x8c;

/// Bytes of one GPFIFO entry. Source: OGKM `class/cla06f.h`, `NVA06F_GP_ENTRY__SIZE`.
pub const GP_ENTRY_SIZE: u64 = 8;
/// Smallest number of GPFIFO entries the stand-in accepts (model only).
pub const GP_ENTRIES_MIN: u32 = 2;
/// Largest number of GPFIFO entries the stand-in accepts (model only).
pub const GP_ENTRIES_MAX: u32 = 32768;

/// Subchannel of the host methods; any subchannel may carry them (methods below 0x100).
pub const SUBCHANNEL_HOST: u32 = 0;
/// Subchannel of the compute engine. Source: OGKM `class/cla06fsubch.h`, `NVA06F_SUBCHANNEL_COMPUTE`.
pub const SUBCHANNEL_COMPUTE: u32 = 1;
/// Subchannel of the copy engine. Source: OGKM `class/cla06fsubch.h`, `NVA06F_SUBCHANNEL_COPY_ENGINE`.
pub const SUBCHANNEL_COPY: u32 = 4;

/// Methods, as byte offsets.
///
/// Source of the host methods: OGKM `class/cla06f.h` (`NVA06F_SEMAPHOREA` and following).
pub mod method {
    /// Upper 8 bits of the semaphore's GPU address.
    pub const SEMAPHORE_A: u32 = 0x0010;
    /// Lower 32 bits of the semaphore's GPU address.
    pub const SEMAPHORE_B: u32 = 0x0014;
    /// Payload to release or to wait for.
    pub const SEMAPHORE_C: u32 = 0x0018;
    /// Operation; writing it executes: see [`super::SEMAPHORE_ACQUIRE`] and the constants beside it.
    pub const SEMAPHORE_D: u32 = 0x001c;
    /// Raises the non-stall interrupt.
    pub const NON_STALL_INTERRUPT: u32 = 0x0020;
    /// Does nothing. Source: OGKM `class/cla06f.h`, `NVA06F_NOP`.
    pub const NOP: u32 = 0x0008;
    /// First engine method; everything below is executed by the host unit.
    pub const ENGINE_FIRST: u32 = 0x0100;
    /// Lower 32 bits of the length of the next command, in ns (model only).
    pub const DURATION_LO: u32 = 0x0600;
    /// Upper 32 bits of the length of the next command, in ns (model only).
    pub const DURATION_HI: u32 = 0x0604;
    /// Starts the command; the engine is occupied for its length (model only).
    pub const LAUNCH: u32 = 0x0608;
}

/// Operation of SEMAPHORE_D: wait until the word equals the payload. Source: OGKM `class/cla06f.h`.
pub const SEMAPHORE_ACQUIRE: u32 = 0x1;
/// Operation of SEMAPHORE_D: store the payload. Source: OGKM `class/cla06f.h`.
pub const SEMAPHORE_RELEASE: u32 = 0x2;
/// The bits of SEMAPHORE_D that hold the operation (2:0; bit 3 is not modelled).
pub const SEMAPHORE_OPERATION: u32 = 0x7;

/// Longest command in ns; a longer one faults its channel (model only).
pub const COMMAND_NS_MAX: u64 = 60_000_000_000;

/// One GPFIFO entry: address (multiple of 4, below 2^40) and length of a pushbuffer in words.
///
/// Source: OGKM `class/cla06f.h`, `NVA06F_GP_ENTRY0_GET` and following.
pub const fn gp_entry(va: u64, words: u32) -> [u32; 2] {
    // CAST: the fields hold bits 31:2 and 39:32 of the address.
    [
        (va as u32) & !3,
        ((va >> 32) as u32 & 0xff) | ((words & 0x1f_ffff) << 10),
    ]
}

/// The pushbuffer address in a GPFIFO entry.
pub const fn gp_entry_va(entry: [u32; 2]) -> u64 {
    // CAST: widening.
    ((entry[0] & !3) as u64) | (((entry[1] & 0xff) as u64) << 32)
}

/// The pushbuffer length in a GPFIFO entry, in words.
pub const fn gp_entry_words(entry: [u32; 2]) -> u32 {
    (entry[1] >> 10) & 0x1f_ffff
}

/// Header of `count` data words for consecutive methods from byte offset `method`.
///
/// Source: OGKM `class/cla06f.h`, `NVA06F_DMA_INCR_OPCODE` (1) and the fields beside it.
pub const fn incrementing(subchannel: u32, method: u32, count: u32) -> u32 {
    (1 << 29) | ((count & 0x1fff) << 16) | ((subchannel & 7) << 13) | ((method >> 2) & 0x1fff)
}

/// What one command with completion needs.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// [`SUBCHANNEL_COMPUTE`] or [`SUBCHANNEL_COPY`], as the channel's engine asks.
    pub subchannel: u32,
    /// How long it occupies the engine, in ns.
    pub duration_ns: u64,
    /// GPU address of the word written at completion.
    pub semaphore_va: u64,
    /// What is written there.
    pub payload: u32,
    /// Whether the non-stall interrupt is raised at completion.
    pub interrupt: bool,
}

/// Words of [`Command::encode`].
pub const COMMAND_WORDS: usize = 11;

impl Command {
    /// The pushbuffer of this command: duration, launch, semaphore release, interrupt or NOP.
    pub const fn encode(&self) -> [u32; COMMAND_WORDS] {
        let last = if self.interrupt {
            method::NON_STALL_INTERRUPT
        } else {
            method::NOP
        };
        // CAST: halves of 64-bit values.
        [
            incrementing(self.subchannel, method::DURATION_LO, 3),
            self.duration_ns as u32,
            (self.duration_ns >> 32) as u32,
            1,
            incrementing(SUBCHANNEL_HOST, method::SEMAPHORE_A, 4),
            (self.semaphore_va >> 32) as u32,
            self.semaphore_va as u32,
            self.payload,
            SEMAPHORE_RELEASE,
            incrementing(SUBCHANNEL_HOST, last, 1),
            0,
        ]
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_rm_submit))]
mod tests {
    use super::*;

    #[test]
    fn gp_entry_round_trips_address_and_length() {
        let entry = gp_entry(0x12_3456_7898, 0x1234);
        assert_eq!(gp_entry_va(entry), 0x12_3456_7898);
        assert_eq!(gp_entry_words(entry), 0x1234);
    }

    #[test]
    fn header_names_method_subchannel_and_count() {
        assert_eq!(
            incrementing(SUBCHANNEL_COMPUTE, method::DURATION_LO, 3),
            0x2003_2180
        );
        assert_eq!(
            incrementing(SUBCHANNEL_HOST, method::SEMAPHORE_A, 4),
            0x2004_0004
        );
    }
}
