// SPDX-License-Identifier: GPL-2.0

//! [pure] Weighted water-filling: who is entitled to what when demands differ.

use super::mul_div;

/// A whole GPU, as a share. Its product with up to four seconds fits a word.
pub const WHOLE: u64 = 1 << 32;
/// Passes over the clients at most. In each one the product of what is left to divide
/// and of the weights that still want more falls at least fourfold.
const MAX_PASSES: u32 = 12;

/// The share that each unit of weight gets, so that the shares
/// `min(demand, weight * level)` add up to a [`WHOLE`] GPU and not to more. When all
/// demands together are no more than that, the level is a whole GPU.
///
/// `claims` are demands, as shares, and weights, which are not zero. The exact level
/// is approached from below (Newton's method on a concave function), with one pass
/// over the clients for each step and without an order among them.
pub fn level(claims: impl Iterator<Item = (u64, u64)> + Clone) -> u64 {
    let mut level = 0;
    for _ in 0..MAX_PASSES {
        let (mut satisfied, mut weights) = (0u64, 0u64);
        for (demand, weight) in claims.clone() {
            if demand <= weight.saturating_mul(level) {
                satisfied = satisfied.saturating_add(demand);
            } else {
                weights = weights.saturating_add(weight);
            }
        }
        let Some(next) = WHOLE.saturating_sub(satisfied).checked_div(weights) else {
            return WHOLE;
        };
        if next <= level {
            break;
        }
        level = next;
    }
    level
}

/// `part` of `whole` as a share; a whole GPU at most, and when `whole` is nothing. Of times of more
/// than four seconds, what is below 65 us does not count.
pub fn share(part: u64, whole: u64) -> u64 {
    let coarse = if whole >= WHOLE { 16 } else { 0 };
    mul_div(part >> coarse, WHOLE, whole >> coarse).min(WHOLE)
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_fill))]
mod tests {
    use super::*;

    const PERCENT: u64 = WHOLE / 100;

    fn level_of(claims: &[(u64, u64)]) -> u64 {
        level(claims.iter().map(|claim| (claim.0 * PERCENT, claim.1)))
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
        let level = level(claims());
        let filled: u64 = claims()
            .map(|(demand, weight)| demand.min(weight * level))
            .sum();
        assert!(filled <= WHOLE);
        assert!(WHOLE - filled < WHOLE / 1000);
    }
}
