// SPDX-License-Identifier: GPL-2.0

//! `[pure]` One exact division of a 128-bit product, without 128-bit division.
//!
//! The kernel has no library function for the latter, and products of two times
//! exceed 64 bits for phases of a few seconds.

use core::num::NonZeroU64;

use super::WHOLE;

/// `a * b / c` rounded down, or the largest number when it does not fit or `c` is 0.
#[inline]
pub fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    match (a.checked_mul(b), c) {
        (_, 0) => u64::MAX,
        (Some(product), _) => product / c,
        (None, _) => mul_div_wide(a, b, c),
    }
}

/// As [`mul_div`], for a product of more than 64 bits.
#[cold]
fn mul_div_wide(a: u64, b: u64, c: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    // CAST: the two halves of the product.
    let (high, low) = ((product >> 64) as u64, product as u64);
    if high >= c {
        return u64::MAX;
    }
    divide_wide(high, low, c)
}

/// What a share of `whole` is, rounded down.
pub fn part(whole: u64, share: u64) -> u64 {
    let wide = u128::from(whole) * u128::from(share);
    if wide >= u128::from(WHOLE) << 64 {
        return u64::MAX;
    }
    // CAST: it fits, as was just seen.
    (wide / u128::from(WHOLE)) as u64
}

/// The lower half of a number.
const DIGIT: u64 = u32::MAX as u64;

/// `(high * 2^64 + low) / divisor` for `high < divisor`: two digits of 32 bits each.
/// Source: Knuth, The Art of Computer Programming, volume 2, 4.3.1, algorithm D.
fn divide_wide(high: u64, low: u64, divisor: u64) -> u64 {
    // The guesses need a divisor with a large first digit.
    let shift = divisor.leading_zeros();
    let divisor = divisor << shift;
    let carried = low.checked_shr(64 - shift).unwrap_or(0);
    let (high, low) = ((high << shift) | carried, low << shift);
    let (first, rest) = next_digit(high, low >> 32, divisor);
    let (second, _) = next_digit(rest, low & DIGIT, divisor);
    (first << 32) | second
}

/// `(rest * 2^32 + digit) / divisor`, one digit, and what is left. `rest < divisor`, and the
/// highest bit of the divisor is set.
fn next_digit(rest: u64, digit: u64, divisor: u64) -> (u64, u64) {
    let (first, second) = (divisor >> 32, divisor & DIGIT);
    // A division by zero cannot happen, but rustc 1.85 does not see that for `first.max(1)`,
    // and objtool does not know that the panic it puts there never returns.
    let divided_by = NonZeroU64::new(first).unwrap_or(NonZeroU64::MIN);
    let mut quotient = rest / divided_by;
    let mut left = rest.wrapping_sub(quotient.wrapping_mul(first));
    // The guess is too large by two at most.
    for _ in 0..2 {
        let fits = quotient <= DIGIT && quotient.wrapping_mul(second) <= ((left << 32) | digit);
        if left > DIGIT || fits {
            break;
        }
        quotient = quotient.wrapping_sub(1);
        left = left.wrapping_add(first);
    }
    // The remainder is less than the divisor, so that the bits lost above do not matter.
    let whole = (rest << 32) | digit;
    (quotient, whole.wrapping_sub(quotient.wrapping_mul(divisor)))
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_ratio))]
mod tests {
    use super::*;

    #[test]
    fn mul_div_of_a_small_product_rounds_down() {
        assert_eq!(mul_div(7, 3, 2), 10);
        assert_eq!(mul_div(0, 3, 2), 0);
    }

    #[test]
    fn mul_div_of_a_wide_product_is_exact() {
        assert_eq!(mul_div(u64::MAX, u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(mul_div(1 << 40, 1 << 40, 1 << 41), 1 << 39);
        assert_eq!(mul_div(u64::MAX, 10, 11), 16_769_767_339_735_956_013);
        // The guess of a digit is too large by one, and by two.
        let divisor = (1 << 63) | DIGIT;
        assert_eq!(
            mul_div(1 << 63, u64::MAX - 1, divisor),
            18_446_744_065_119_617_027
        );
        assert_eq!(
            mul_div(1 << 63, u64::MAX - DIGIT, divisor),
            18_446_744_060_824_649_735
        );
    }

    #[test]
    fn part_of_a_wide_product_is_exact() {
        assert_eq!(part(u64::MAX, WHOLE), u64::MAX);
        assert_eq!(part(u64::MAX, WHOLE * 2), u64::MAX);
        assert_eq!(part(1 << 50, WHOLE / 4), 1 << 48);
        assert_eq!(part(3, WHOLE / 2), 1);
    }

    #[test]
    fn mul_div_past_the_range_saturates() {
        assert_eq!(mul_div(u64::MAX, 2, 1), u64::MAX);
        assert_eq!(mul_div(1, 1, 0), u64::MAX);
    }
}
