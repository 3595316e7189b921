// SPDX-License-Identifier: GPL-2.0

//! NV_PFIFO_ENGINE_STATUS of Kepler to Turing: which channel is on an engine.
//!
//! Sources: gk20a `fifo_engine_status`; gv100 `dev_fifo`; tu104 `dev_fifo`; the rule
//! for contexts that are being switched: nouveau `engine/fifo/gk104.c`.

use super::register::register;
use super::{DeviceGone, Occupant, ALL_ONES};
use crate::ids::{Chid, TsgId};

register! {
    /// The status word of one engine; 0 is compute and graphics. Source: gk20a
    /// `fifo_engine_status`.
    pub EngineStatus = NV_PFIFO_ENGINE_STATUS[u8, stride = 8] @ 0x00_2640 {
        /// ENGINE: work is being executed.
        31:31 busy => bool;
        /// NEXT_ID_TYPE: as ID_TYPE, for the context that comes next.
        28:28 next_id_is_tsg => bool;
        /// NEXT_ID.
        27:16 next_id;
        /// CTX_STATUS.
        15:13 ctx_status => CtxStatus;
        /// ID_TYPE: the id is that of a TSG.
        12:12 id_is_tsg => bool;
        /// ID.
        11:0 id;
    }
}

/// Where the engine is with its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtxStatus {
    /// There is none.
    Invalid,
    /// The context in ID is on the engine.
    Valid,
    /// The next context is being loaded.
    Load,
    /// The old context is being saved.
    Save,
    /// The old context is being saved, then the next one is loaded.
    Switch,
}

impl CtxStatus {
    /// The highest bit says that a switch is in progress, the lowest that there is a context. Of
    /// the codes that no manual defines, 2 is taken for INVALID, 3 for VALID and 4 for SAVE.
    const fn from_bits(bits: u32) -> Self {
        match bits {
            1 | 3 => Self::Valid,
            4 | 6 => Self::Save,
            5 => Self::Load,
            7 => Self::Switch,
            _ => Self::Invalid,
        }
    }
}

impl EngineStatus {
    /// Whether the meaning of this word depends on what the context-switch firmware
    /// is doing, so that its loading bit has to be read.
    pub const fn needs_loading_bit(word: u32) -> bool {
        let status = Self::from_bits(word);
        status.busy() && matches!(status.ctx_status(), CtxStatus::Switch)
    }

    /// The occupant that is charged while the engine shows this word.
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
        let status = Self::from_bits(word);
        if !status.busy() {
            return Ok(Occupant::Idle);
        }
        Ok(match status.ctx_status() {
            CtxStatus::Load => status.next(),
            CtxStatus::Switch if loading => status.next(),
            CtxStatus::Switch | CtxStatus::Save | CtxStatus::Valid => status.current(),
            CtxStatus::Invalid => Occupant::Unknown,
        })
    }

    /// Whether a TSG is on the engine, and no switch is in progress: the firmware's pointer to the
    /// current context shows one of its channels.
    pub const fn shows_tsg(word: u32) -> bool {
        let status = Self::from_bits(word);
        status.busy() && status.id_is_tsg() && matches!(status.ctx_status(), CtxStatus::Valid)
    }

    /// The context on the engine.
    const fn current(self) -> Occupant {
        context(self.id(), self.id_is_tsg())
    }

    /// The context that comes next.
    const fn next(self) -> Occupant {
        context(self.next_id(), self.next_id_is_tsg())
    }
}

/// A channel or a TSG.
const fn context(id: u32, is_tsg: bool) -> Occupant {
    if is_tsg {
        Occupant::Tsg {
            id: TsgId::from_bits(id),
            context: 0,
        }
    } else {
        Occupant::Channel(Chid::from_bits(id))
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
        let (id, context) = (TsgId::from_bits(id), 0);
        Ok(Occupant::Tsg { id, context })
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
