// SPDX-License-Identifier: GPL-2.0

//! Property: the division of wide products agrees with the host's.

use loga::fair::{advance, mul_div};
use loga::units::{Ns, Weight};
use proptest::prelude::*;

proptest! {
    #[test]
    fn mul_div_agrees_with_wide_arithmetic(a in any::<u64>(), b in any::<u64>(), c in 1u64..) {
        let exact = u128::from(a) * u128::from(b) / u128::from(c);
        prop_assert_eq!(u128::from(mul_div(a, b, c)), exact.min(u64::MAX.into()));
    }

    /// No client is charged too much, and each of them at most a nanosecond too little.
    #[test]
    fn advances_of_all_add_up_to_the_period(
        used in prop::collection::vec(0u64..10_000_000_000, 1..50),
        span in 1u64..100_000_000_000,
    ) {
        let all: u64 = used.iter().sum();
        let sum: u64 = used
            .iter()
            .map(|used| advance(Ns::new(*used), Ns::new(all), Ns::new(span), Weight::DEFAULT).get())
            .sum();
        if all == 0 {
            prop_assert_eq!(sum, 0);
        } else {
            prop_assert!(sum <= span);
            prop_assert!(span - sum <= used.len() as u64);
        }
    }
}
