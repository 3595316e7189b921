// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Weighted water-filling: what each client is entitled to when demands differ.

/// A whole GPU, as a share. Its product with up to four seconds fits a word.
pub const WHOLE: u64 = 1 << 32;
/// What may be left of the GPU.
const TOLERANCE: u64 = WHOLE >> 10;
/// Passes over the clients at most. In each one after the second, the product of the share left to
/// divide and of the weights that still want more falls at least fourfold.
const MAX_PASSES: u32 = 12;

/// The share that each unit of weight gets, so that the shares
/// `min(demand, weight * level)` add up to a [`WHOLE`] GPU, to a thousandth, and not to more. When
/// all demands together are no more than that, the level is a whole GPU.
///
/// `claims` are demands, as shares, and weights, which are not zero and fit 32 bits. `all` are the
/// sums of both, over the clients that demand anything. `guess` is any level, such as the last one:
/// if it is near, one pass is enough.
///
/// Newton's method on a concave function: one pass over the clients for each step, without an order
/// among them. A step from anywhere ends at the level or below it, and the next steps rise to it.
pub fn level(claims: impl Iterator<Item = (u64, u64)> + Clone, all: (u64, u64), guess: u64) -> u64 {
    let (demands, weights) = all;
    if demands <= WHOLE {
        return WHOLE;
    }
    let least = WHOLE.checked_div(weights).unwrap_or(WHOLE);
    let mut level = guess.clamp(least, WHOLE);
    for _ in 0..MAX_PASSES {
        let (mut satisfied, mut weights) = (0u64, 0u64);
        for (demand, weight) in claims.clone() {
            // Shares of 33 bits: neither a product nor a sum outgrows a word.
            if demand <= weight.wrapping_mul(level) {
                satisfied = satisfied.wrapping_add(demand);
            } else {
                weights = weights.wrapping_add(weight);
            }
        }
        let left = WHOLE.saturating_sub(satisfied);
        let given = weights.saturating_mul(level);
        // No client wants more than a guess that is much too high.
        let next = left.checked_div(weights);
        level = next.map_or(least, |next| next.max(least));
        if next.is_some() && (given..given.saturating_add(TOLERANCE)).contains(&left) {
            break;
        }
    }
    level
}

/// `part` of `whole` as a share; a whole GPU at most, and when `whole` is nothing. Of times of more
/// than four seconds, only the upper bits count.
pub fn share(part: u64, whole: u64) -> u64 {
    if part >= whole {
        return WHOLE;
    }
    if whole < WHOLE {
        return (part << 32) / whole;
    }
    let coarse = 32u32.saturating_sub(whole.leading_zeros());
    ((part >> coarse) << 32) / (whole >> coarse).max(1)
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_fill))]
mod tests {
    use super::*;

    const PERCENT: u64 = WHOLE / 100;

    fn fill(claims: impl Iterator<Item = (u64, u64)> + Clone, guess: u64) -> u64 {
        let all = claims
            .clone()
            .fold((0, 0), |sum, claim| (sum.0 + claim.0, sum.1 + claim.1));
        level(claims, all, guess)
    }

    /// The level, which does not depend on the guess.
    fn level_of(claims: &[(u64, u64)]) -> u64 {
        let fill = |guess| {
            fill(
                claims.iter().map(|claim| (claim.0 * PERCENT, claim.1)),
                guess,
            )
        };
        let level = fill(0);
        for guess in [1, level / 2, level - 1, level, level + 1, level * 2, WHOLE] {
            assert_eq!(fill(guess), level);
        }
        level
    }

    #[test]
    fn level_of_a_hog_beside_light_clients_is_what_they_leave() {
        let hog = level_of(&[(100, 1), (10, 1), (10, 1), (10, 1)]);
        assert!(hog.abs_diff(70 * PERCENT) < 100);
    }

    #[test]
    fn level_of_hogs_is_an_equal_part() {
        let equal = level_of(&[(100, 1), (100, 1), (100, 1), (100, 1)]);
        assert!(equal.abs_diff(25 * PERCENT) < 100);
    }

    #[test]
    fn share_of_long_times_is_as_exact_as_a_word() {
        assert_eq!(share(1, 4), WHOLE / 4);
        assert_eq!(share(5, 4), WHOLE);
        assert_eq!(share(0, 0), WHOLE);
        let third = share(WHOLE * 5, WHOLE * 15);
        assert!(third.abs_diff(WHOLE / 3) < WHOLE / 60_000);
    }

    #[test]
    fn level_follows_weights() {
        let unit = level_of(&[(100, 300), (100, 100)]);
        assert!((unit * 300).abs_diff(75 * PERCENT) < 1000);
    }

    #[test]
    fn level_of_modest_demands_is_a_whole_gpu() {
        assert_eq!(level_of(&[(20, 1), (30, 1)]), WHOLE);
        assert_eq!(level_of(&[]), WHOLE);
    }

    #[test]
    fn level_with_many_steps_neither_overfills_nor_leaves_a_thousandth() {
        // Demands that halve: one more is satisfied in each pass.
        let claims = || (0..40u32).map(|step| ((80 * PERCENT) >> step, 1u64 << (step / 2)));
        let level = fill(claims(), 0);
        let filled: u64 = claims()
            .map(|(demand, weight)| demand.min(weight * level))
            .sum();
        assert!(filled <= WHOLE);
        assert!(WHOLE - filled < WHOLE / 1000);
    }
}
