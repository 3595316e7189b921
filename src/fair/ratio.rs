// SPDX-License-Identifier: GPL-2.0

//! [pure] One exact division of a 128-bit product, without 128-bit division.
//!
//! The kernel has no library function for the latter, and products of two times
//! exceed 64 bits for phases of a few seconds.

/// `a * b / c` rounded down, or the largest number when it does not fit or `c` is 0.
pub fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    if c == 0 {
        return u64::MAX;
    }
    if let Some(product) = a.checked_mul(b) {
        return product / c;
    }
    let product = u128::from(a) * u128::from(b);
    // CAST: the two halves of the product.
    let (high, low) = ((product >> 64) as u64, product as u64);
    if high >= c {
        return u64::MAX;
    }
    divide_wide(high, low, c)
}

/// `(high * 2^64 + low) / divisor` for `high < divisor`: schoolbook division by bits.
fn divide_wide(high: u64, low: u64, divisor: u64) -> u64 {
    let mut rest = high;
    let mut quotient = 0;
    for bit in (0..u64::BITS).rev() {
        let carry = rest >> 63;
        rest = (rest << 1) | ((low >> bit) & 1);
        quotient <<= 1;
        if carry == 1 || rest >= divisor {
            // The carry stands for 2^64, which the wrapped difference includes.
            rest = rest.wrapping_sub(divisor);
            quotient |= 1;
        }
    }
    quotient
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
    }

    #[test]
    fn mul_div_past_the_range_saturates() {
        assert_eq!(mul_div(u64::MAX, 2, 1), u64::MAX);
        assert_eq!(mul_div(1, 1, 0), u64::MAX);
    }
}
