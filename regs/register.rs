// SPDX-License-Identifier: GPL-2.0

//! `[hw]` How a register is declared: its name in the manual, where it is, and its fields.

/// Declares registers as in the kernel's `register!`, each as a type that holds one value of it:
///
/// ```text
/// register! {
///     /// What it says. Source: the manual.
///     pub(super) Example = NV_EXAMPLE[Chid, stride = 8] @ 0x00_1000 {
///         /// What it means.
///         31:31 busy => bool;
///         11:0 id => Chid;
///         27:16 count;
///     }
/// }
/// ```
///
/// Without brackets there is one such register, else one for each channel or unit, `stride` bytes
/// apart. An offset that is no literal stands in parentheses. A field is a number, a `bool`, or of
/// a type with a function `from_bits`. LoGA ignores bits that are not declared.
macro_rules! register {
    ($(
        $(#[$about:meta])*
        $vis:vis $type:ident = $name:ident $([$index:ident, stride = $stride:expr])? @ $offset:tt {
            $($(#[$of:meta])* $high:literal : $low:literal $field:ident $(=> $as:ident)?;)*
        }
    )+) => {$(
        #[doc = concat!("`", stringify!($name), "`.")]
        #[doc = ""]
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis struct $type(u32);

        #[allow(dead_code, reason = "not all is needed of every register")]
        impl $type {
            register!(@place $vis, $offset $($index, $stride)?);

            /// A value that was read by other means.
            $vis const fn from_bits(word: u32) -> Self {
                Self(word)
            }

            $(
                $(#[$of])*
                $vis const fn $field(self) -> register!(@type $($as)?) {
                    const MASK: u32 = u32::MAX >> (31 - ($high - $low));
                    register!(@convert (self.0 >> $low) & MASK $(, $as)?)
                }
            )*
        }
    )+};

    (@place $vis:vis, $offset:tt) => {
        /// Offset in bytes.
        $vis const OFFSET: u32 = $offset;

        /// Reads it: one read.
        ///
        /// # Errors
        ///
        /// [`DeviceGone`](crate::regs::DeviceGone) for all ones.
        #[inline]
        $vis fn read(mmio: &impl crate::regs::Mmio) -> Result<Self, crate::regs::DeviceGone> {
            crate::regs::read_alive(mmio, Self::OFFSET).map(Self)
        }
    };
    (@place $vis:vis, $offset:tt $index:ident, $stride:expr) => {
        /// Offset in bytes of the register of a channel or unit.
        $vis const fn offset(of: $index) -> u32 {
            $offset + $stride * register!(@number of $index)
        }

        /// Reads the register of a channel or unit: one read.
        ///
        /// # Errors
        ///
        /// [`DeviceGone`](crate::regs::DeviceGone) for all ones.
        #[inline]
        $vis fn read(
            mmio: &impl crate::regs::Mmio,
            of: $index,
        ) -> Result<Self, crate::regs::DeviceGone> {
            crate::regs::read_alive(mmio, Self::offset(of)).map(Self)
        }
    };

    // CAST: (both) widening.
    (@number $of:ident Chid) => { $of.get() as u32 };
    (@number $of:ident $index:ident) => { $of as u32 };

    (@type) => { u32 };
    (@type $as:ident) => { $as };

    (@convert $bits:expr) => { $bits };
    (@convert $bits:expr, bool) => { $bits != 0 };
    (@convert $bits:expr, $as:ident) => { $as::from_bits($bits) };
}

pub(super) use register;

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_regs_register))]
mod tests {
    use super::super::{DeviceGone, FakeMmio};
    use crate::ids::Chid;

    register! {
        /// One of its kind.
        Single = NV_SINGLE @ 0x10 {
            31:0 whole;
            31:31 top => bool;
            11:4 middle;
            15:4 channel => Chid;
        }

        /// One for each channel.
        Each = NV_EACH[Chid, stride = 8] @ 0x20 {}

        /// One for each engine.
        Engine = NV_ENGINE[u8, stride = 4] @ 0x40 {}
    }

    #[test]
    fn field_is_the_bits_between_both_numbers() {
        let value = Single::from_bits(0x8000_1ab5);
        assert_eq!(value.whole(), 0x8000_1ab5);
        assert!(value.top());
        assert!(!Single::from_bits(0x7fff_ffff).top());
        assert_eq!(value.middle(), 0xab);
        assert_eq!(value.channel(), Chid::from_bits(0x1ab));
    }

    #[test]
    fn registers_of_channels_and_units_are_a_stride_apart() {
        assert_eq!(Each::offset(Chid::from_bits(3)), 0x38);
        assert_eq!(Engine::offset(2), 0x48);
    }

    #[test]
    fn read_takes_one_read_and_finds_a_lost_device() {
        let mmio = FakeMmio::new([(0x10, 7), (0x38, 0xffff_ffff)]);
        assert_eq!(Single::read(&mmio), Ok(Single::from_bits(7)));
        assert_eq!(Each::read(&mmio, Chid::from_bits(3)), Err(DeviceGone));
        assert_eq!(mmio.reads(), 2);
    }
}
