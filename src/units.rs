// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Units: nanoseconds of the host clock, virtual time, weights.
//!
//! All arithmetic saturates: a number at the end of its range is wrong, but it neither wraps into a
//! small one nor stops the machine.

use crate::error::{in_range, Error};
use core::num::{NonZeroU32, NonZeroU64};

/// Nanoseconds per millisecond.
const NS_PER_MS: u64 = 1_000_000;
/// Nanoseconds per microsecond.
const NS_PER_US: u64 = 1_000;

/// A point in time or a length of time in nanoseconds of the host's monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ns(u64);

impl Ns {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// This many nanoseconds.
    pub const fn new(ns: u64) -> Self {
        Self(ns)
    }

    /// This many microseconds.
    pub const fn from_us(us: u64) -> Self {
        Self(us.saturating_mul(NS_PER_US))
    }

    /// This many milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(NS_PER_MS))
    }

    /// The number of nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether this is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The sum, or the largest time.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or no time when `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The product, or the largest time.
    #[must_use]
    pub const fn saturating_mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

/// A time as a signed number of nanoseconds.
pub fn signed(time: Ns) -> i64 {
    i64::try_from(time.get()).unwrap_or(i64::MAX)
}

/// A signed number as a time; nothing below zero.
pub fn unsigned(ns: i64) -> Ns {
    Ns::new(u64::try_from(ns).unwrap_or(0))
}

/// Nanoseconds of virtual time: GPU time, divided by the weight of the client that used it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VTime(u64);

impl VTime {
    /// The beginning of virtual time.
    pub const ZERO: Self = Self(0);

    /// This many nanoseconds of virtual time.
    pub const fn new(ns: u64) -> Self {
        Self(ns)
    }

    /// The number of nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The sum, or the largest virtual time.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or zero when `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// How much of the GPU a client may have, relative to the others.
///
/// # Invariants
///
/// In [`Weight::MIN`]`..=`[`Weight::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(NonZeroU32);

impl Weight {
    /// Smallest weight.
    pub const MIN: u32 = 1;
    /// Largest weight.
    pub const MAX: u32 = 10_000;
    /// The weight of a client for which no weight is set.
    pub const DEFAULT: Self = Self(NonZeroU32::MIN.saturating_add(99));

    /// This weight.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] outside 1 to 10000.
    pub fn new(raw: u32) -> Result<Self, Error> {
        in_range("weight", raw.into(), Self::MIN.into(), Self::MAX.into())?;
        Ok(NonZeroU32::new(raw).map_or(Self::DEFAULT, Self))
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// What each unit of it gets of `whole`, rounded down.
    pub fn divide(self, whole: u64) -> u64 {
        whole / NonZeroU64::from(self.0)
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_units))]
mod tests {
    use super::*;

    #[test]
    fn ns_add_at_max_saturates() {
        let max = Ns::new(u64::MAX);
        assert_eq!(max.saturating_add(Ns::new(1)), max);
        assert_eq!(Ns::from_ms(u64::MAX), max);
    }

    #[test]
    fn ns_sub_below_zero_saturates() {
        assert_eq!(Ns::new(1).saturating_sub(Ns::new(2)), Ns::ZERO);
        assert_eq!(VTime::new(1).saturating_sub(VTime::new(2)), VTime::ZERO);
    }

    #[test]
    fn ns_from_units_scales() {
        assert_eq!(Ns::from_ms(3).get(), 3_000_000);
        assert_eq!(Ns::from_us(3).get(), 3_000);
    }

    #[test]
    fn weight_outside_range_is_refused() {
        assert!(Weight::new(0).is_err());
        assert!(Weight::new(10_001).is_err());
        assert_eq!(Weight::new(1).map(Weight::get), Ok(1));
        assert_eq!(Weight::new(10_000).map(Weight::get), Ok(10_000));
    }
}
