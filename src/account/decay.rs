// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Exponential decay, `exp(-time / tau)`, in integers.
//!
//! The exponent is made one of two. Its whole part is a shift, the first four bits of its fraction
//! select a factor from a table, and the factor of the rest, which is above 0.957, is the series of
//! `exp` up to the fifth power. There is no loop.
//!
//! *Error*: below `2^-29` of a whole, compared with floating point in `tests/fading.rs`.

use crate::fair::{part, WHOLE};
use crate::units::Ns;

/// The logarithm of e to base two, times `2^63`.
const LOG2_E: u64 = 13_306_513_097_844_322_492;

/// The natural logarithm of two, as a part of [`WHOLE`].
const LN_2: u64 = 2_977_044_472;

/// Bits of a fraction that select from [`LOST`], and the other ones.
const SELECTING: u32 = 4;
const OTHERS: u32 = 32 - SELECTING;

/// `1 - 2^(-i / 16)`, as parts of [`WHOLE`].
const LOST: [u64; 1 << SELECTING] = [
    0, 182092523, 356464920, 523444500, 683344693, 836465643, 983094767, 1123507297, 1257966796,
    1386725654, 1510025558, 1628097951, 1741164462, 1849437324, 1953119772, 2052406424,
];

/// A decay with one time constant.
#[derive(Clone, Copy, Debug)]
pub struct Decay {
    /// Halvings in a nanosecond, times `2^64`.
    halvings: u64,
}

impl Decay {
    /// The decay to the e-th part in the time `tau`, of 2 ns or more.
    pub const fn new(tau: Ns) -> Self {
        let tau = tau.get();
        if tau < 2 {
            return Self { halvings: u64::MAX };
        }
        let rest = (LOG2_E % tau).saturating_mul(2).saturating_add(tau / 2) / tau;
        Self {
            halvings: (LOG2_E / tau).saturating_mul(2).saturating_add(rest),
        }
    }

    /// What is left after some time, `exp(-time / tau)`, as a part of [`WHOLE`].
    #[inline]
    pub fn kept(self, time: Ns) -> u64 {
        let halvings = part(time.get(), self.halvings);
        let fraction = halvings % WHOLE;
        let rest = fraction % (1 << OTHERS);
        // CAST: a position in the table.
        let lost = LOST.get((fraction >> OTHERS) as usize);
        let kept = WHOLE.saturating_sub(lost.copied().unwrap_or(0));
        let kept = kept.saturating_sub(multiply(kept, lost_in(rest)));
        // CAST: 32 bits.
        kept.checked_shr((halvings >> 32) as u32).unwrap_or(0)
    }
}

/// What is lost after less than a sixteenth of a halving, `1 - 2^(-rest)`: the series of
/// `1 - exp(-z)`, from its highest power on.
#[inline]
fn lost_in(rest: u64) -> u64 {
    let z = multiply(rest, LN_2);
    let sum = WHOLE.saturating_sub(z / 5);
    let sum = WHOLE.saturating_sub(multiply(z, sum) / 4);
    let sum = WHOLE.saturating_sub(multiply(z, sum) / 3);
    let sum = WHOLE.saturating_sub(multiply(z, sum) / 2);
    multiply(z, sum)
}

/// The product of two parts of [`WHOLE`], one of which is below it.
#[inline]
const fn multiply(one: u64, other: u64) -> u64 {
    one.saturating_mul(other) / WHOLE
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_decay))]
mod tests {
    use super::*;

    /// A halving takes a second, but for some nanoseconds.
    const SECOND: Decay = Decay::new(Ns::new(1_442_695_041));

    #[test]
    fn decay_of_whole_halvings_is_a_power_of_two() {
        assert_eq!(SECOND.kept(Ns::ZERO), WHOLE);
        for halvings in 1..20u64 {
            let kept = SECOND.kept(Ns::from_ms(1000 * halvings));
            assert!(kept.abs_diff(WHOLE >> halvings) <= 8);
        }
    }

    #[test]
    fn decay_after_a_very_long_time_leaves_nothing() {
        for seconds in [33, 100, 10_000_000_000] {
            assert_eq!(SECOND.kept(Ns::from_ms(1000 * seconds)), 0);
        }
        assert_eq!(SECOND.kept(Ns::new(u64::MAX)), 0);
    }

    #[test]
    fn decay_of_two_times_is_their_product() {
        for ms in 0..3000 {
            let (one, other) = (Ns::from_ms(ms), Ns::from_us(ms * 613));
            let both = SECOND.kept(one.saturating_add(other));
            let product = SECOND.kept(one) * (SECOND.kept(other) - 1) / WHOLE;
            assert!(both.abs_diff(product) <= 8);
        }
    }
}
