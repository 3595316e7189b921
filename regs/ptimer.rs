// SPDX-License-Identifier: GPL-2.0

//! PTIMER: the GPU's own clock.
//!
//! Sources: gv100 `dev_timer`; nouveau `subdev/timer/nv04.c`.

use super::{read_alive, DeviceGone, Mmio};

/// Bits 31:5 are nanoseconds 31:5.
const TIME_0: u32 = 0x00_9400;
/// Bits 28:0 are nanoseconds 60:32.
const TIME_1: u32 = 0x00_9410;
/// Times that the high half may change while the low one is read. It changes once
/// in four seconds.
const MAX_TRIES: u32 = 4;

/// Time of the GPU's clock in nanoseconds, in steps of 32. Not comparable with host
/// time.
///
/// # Errors
///
/// [`DeviceGone`] when a register holds all ones, or when the two halves never agree.
pub fn gpu_time(mmio: &impl Mmio) -> Result<u64, DeviceGone> {
    let mut high = read_alive(mmio, TIME_1)?;
    for _ in 0..MAX_TRIES {
        // All ones in the low half can be a time, so the high half decides.
        let low = mmio.read32(TIME_0);
        let again = read_alive(mmio, TIME_1)?;
        if again == high {
            return Ok((u64::from(high & 0x1fff_ffff) << 32) | u64::from(low & !0x1f));
        }
        high = again;
    }
    Err(DeviceGone)
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_regs_ptimer))]
mod tests {
    use super::super::FakeMmio;
    use super::*;
    use core::cell::Cell;

    /// A clock whose halves are read at the moment the low one wraps.
    struct WrappingClock(Cell<u64>);

    impl Mmio for WrappingClock {
        fn read32(&self, offset: u32) -> u32 {
            let now = self.0.get();
            self.0.set(now.wrapping_add(0x40));
            // CAST: one half each.
            match offset {
                0x9400 => now as u32,
                _ => (now >> 32) as u32,
            }
        }
    }

    #[test]
    fn gpu_time_joins_both_halves() {
        let mmio = FakeMmio::new([(0x9400, 0x1234_567f), (0x9410, 0x2)]);
        assert_eq!(gpu_time(&mmio), Ok(0x2_1234_5660));
    }

    #[test]
    fn gpu_time_while_the_low_half_wraps_is_not_torn() {
        let mmio = WrappingClock(Cell::new(0x1_ffff_ffe0));
        let time = gpu_time(&mmio);
        assert!(time.is_ok_and(|time| (0x2_0000_0000..0x2_0000_0200).contains(&time)));
    }

    #[test]
    fn gpu_time_of_a_lost_device_is_an_error() {
        let mmio = FakeMmio::new([(0x9400, 0xffff_ffff), (0x9410, 0xffff_ffff)]);
        assert_eq!(gpu_time(&mmio), Err(DeviceGone));
    }
}
