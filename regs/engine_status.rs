// SPDX-License-Identifier: GPL-2.0

//! NV_PFIFO_ENGINE_STATUS of Kepler to Turing: who is on an engine.
//!
//! Sources: gk20a `fifo_engine_status`; gv100 `dev_fifo`; tu104 `dev_fifo`; the rule
//! for contexts that are being switched: nouveau `engine/fifo/gk104.c`.

use super::{DeviceGone, Occupant, ALL_ONES};
use crate::ids::{Chid, TsgId};

/// Offset of the status word of engine 0.
const ENGINE_STATUS: u32 = 0x00_2640;
/// Bytes from one engine's word to the next.
const STRIDE: u32 = 8;

/// ID_TYPE: the id is that of a channel group.
const ID_IS_TSG: u32 = 1 << 12;
/// NEXT_ID_TYPE: as ID_TYPE, for the context that comes next.
const NEXT_ID_IS_TSG: u32 = 1 << 28;
/// NEXT_ID begins here; ID begins at bit 0.
const NEXT_ID_SHIFT: u32 = 16;
/// ENGINE: work is being executed.
const BUSY: u32 = 1 << 31;
/// CTX_STATUS, three bits.
const CTX_STATUS_SHIFT: u32 = 13;
const CTX_STATUS_MASK: u32 = 7;
/// CTX_STATUS: the context in ID is on the engine. Also the lowest bit of the others.
const CTX_VALID: u32 = 1;
/// CTX_STATUS: the highest bit says that a switch is in progress.
const CTX_SWITCHING: u32 = 4;
/// CTX_STATUS: the next context is being loaded.
const CTX_LOAD: u32 = 5;
/// CTX_STATUS: the old context is being saved, then the next one is loaded.
const CTX_SWITCH: u32 = 7;

/// The status word of one engine.
pub struct EngineStatus;

impl EngineStatus {
    /// Offset of the word of this engine; 0 is compute and graphics.
    pub const fn offset(engine: u8) -> u32 {
        // CAST: widening.
        ENGINE_STATUS + STRIDE * engine as u32
    }

    /// Whether the meaning of this word depends on what the context-switch firmware
    /// is doing, so that its loading bit has to be read.
    pub const fn needs_loading_bit(word: u32) -> bool {
        word & BUSY != 0 && ctx_status(word) == CTX_SWITCH
    }

    /// Who is charged while the engine shows this word.
    ///
    /// An engine that is not BUSY executes nothing, even if a context is still
    /// resident: it is idle. `loading` is the firmware's loading bit and matters
    /// only if [`EngineStatus::needs_loading_bit`].
    ///
    /// # Errors
    ///
    /// [`DeviceGone`] for all ones.
    pub const fn decode(word: u32, loading: bool) -> Result<Occupant, DeviceGone> {
        if word == ALL_ONES {
            return Err(DeviceGone);
        }
        if word & BUSY == 0 {
            return Ok(Occupant::Idle);
        }
        Ok(match ctx_status(word) {
            CTX_SWITCH if loading => next(word),
            CTX_LOAD => next(word),
            // CTX_SWITCH before loading, save, and the undefined code 4.
            status if status & CTX_SWITCHING != 0 => current(word),
            status if status & CTX_VALID != 0 => current(word),
            _ => Occupant::Unknown,
        })
    }
}

/// CTX_STATUS of a word.
const fn ctx_status(word: u32) -> u32 {
    (word >> CTX_STATUS_SHIFT) & CTX_STATUS_MASK
}

/// The context on the engine.
const fn current(word: u32) -> Occupant {
    if word & ID_IS_TSG != 0 {
        Occupant::Tsg(TsgId::from_bits(word))
    } else {
        Occupant::Channel(Chid::from_bits(word))
    }
}

/// The context that comes next.
const fn next(word: u32) -> Occupant {
    if word & NEXT_ID_IS_TSG != 0 {
        Occupant::Tsg(TsgId::from_bits(word >> NEXT_ID_SHIFT))
    } else {
        Occupant::Channel(Chid::from_bits(word >> NEXT_ID_SHIFT))
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_regs_engine_status))]
mod tests {
    use super::*;

    fn channel(id: u32) -> Result<Occupant, DeviceGone> {
        Ok(Occupant::Channel(Chid::from_bits(id)))
    }

    fn tsg(id: u32) -> Result<Occupant, DeviceGone> {
        Ok(Occupant::Tsg(TsgId::from_bits(id)))
    }

    #[test]
    fn offset_of_engines_is_eight_bytes_apart() {
        assert_eq!(EngineStatus::offset(0), 0x2640);
        assert_eq!(EngineStatus::offset(4), 0x2660);
    }

    #[test]
    fn decode_busy_and_valid_is_the_channel() {
        assert_eq!(EngineStatus::decode(0x8000_2005, false), channel(5));
    }

    // Regression: the prototype never matched channel 0.
    #[test]
    fn decode_channel_zero_is_a_channel() {
        assert_eq!(EngineStatus::decode(0x8000_2000, false), channel(0));
    }

    #[test]
    fn decode_busy_group_is_the_group() {
        assert_eq!(EngineStatus::decode(0x8000_3007, false), tsg(7));
    }

    // Regression: the prototype charged the context that had run last.
    #[test]
    fn decode_resident_but_not_busy_is_idle() {
        assert_eq!(EngineStatus::decode(0x0000_2005, false), Ok(Occupant::Idle));
        assert_eq!(EngineStatus::decode(0, false), Ok(Occupant::Idle));
    }

    #[test]
    fn decode_load_is_the_next_context() {
        assert_eq!(EngineStatus::decode(0x8009_a005, false), channel(9));
        assert_eq!(EngineStatus::decode(0x9009_a005, false), tsg(9));
    }

    #[test]
    fn decode_save_is_the_old_context() {
        assert_eq!(EngineStatus::decode(0x8009_c005, true), channel(5));
    }

    #[test]
    fn decode_switch_follows_the_loading_bit() {
        assert_eq!(EngineStatus::decode(0x8009_e005, false), channel(5));
        assert_eq!(EngineStatus::decode(0x8009_e005, true), channel(9));
    }

    #[test]
    fn decode_busy_without_context_is_unknown() {
        assert_eq!(
            EngineStatus::decode(0x8000_0005, false),
            Ok(Occupant::Unknown)
        );
    }

    #[test]
    fn decode_reload_and_fault_bits_change_nothing() {
        assert_eq!(EngineStatus::decode(0xe000_2005, false), channel(5));
    }

    #[test]
    fn decode_all_ones_is_a_lost_device() {
        assert_eq!(EngineStatus::decode(0xffff_ffff, true), Err(DeviceGone));
    }

    #[test]
    fn loading_bit_is_needed_only_in_a_busy_switch() {
        assert!(EngineStatus::needs_loading_bit(0x8009_e005));
        assert!(!EngineStatus::needs_loading_bit(0x8009_a005));
        assert!(!EngineStatus::needs_loading_bit(0x0009_e005));
    }
}
