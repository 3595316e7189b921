// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Arithmetic of virtual-time fair queuing.
//!
//! Source: LoGA paper, section 3.4. All divisions round down: a client is charged
//! at most one nanosecond too little per period, and never too much.

mod fill;
mod ratio;

pub use fill::{level, share, WHOLE};
pub use ratio::{mul_div, part};

use crate::units::{Ns, VTime, Weight};

/// How far the virtual time of a client advances:
/// `used / used_by_all * span * 100 / weight`.
///
/// `used` and `used_by_all` are GPU times of one polling phase, `span` is the time
/// that phase stands for. No client advances when none used the GPU.
pub fn advance(used: Ns, used_by_all: Ns, span: Ns, weight: Weight) -> VTime {
    if used_by_all.is_zero() {
        return VTime::ZERO;
    }
    let share = mul_div(used.get(), span.get(), used_by_all.get());
    let normal: u64 = Weight::DEFAULT.get().into();
    VTime::new(mul_div(share, normal, weight.get().into()))
}

/// The virtual time beyond which a client is throttled: the longest step that a
/// client of the weight `lightest` can take, `span * 100 / lightest`, after `system`.
pub fn threshold(system: VTime, span: Ns, lightest: Weight) -> VTime {
    system.saturating_add(advance(span, span, span, lightest))
}

/// GPU time in a whole period, estimated from the time used in its polling phase:
/// `used / poll * span`. Zero when nothing was polled.
#[inline]
pub fn estimate(used: Ns, poll: Ns, span: Ns) -> Ns {
    if poll.is_zero() {
        return Ns::ZERO;
    }
    Ns::new(mul_div(used.get(), span.get(), poll.get()))
}

/// What a division by weights gives a client: `total * weight / weights`, where
/// `weights` is the sum over the clients among which `total` is divided.
#[inline]
pub fn entitlement(total: Ns, weight: Weight, weights: u64) -> Ns {
    if weights == 0 {
        return Ns::ZERO;
    }
    Ns::new(mul_div(total.get(), weight.get().into(), weights))
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_fair))]
mod tests {
    use super::*;

    const SPAN: Ns = Ns::from_ms(72);

    #[test]
    fn advance_for_half_the_use_is_half_the_span() {
        let by = advance(Ns::from_ms(3), Ns::from_ms(6), SPAN, Weight::DEFAULT);
        assert_eq!(by, VTime::new(36_000_000));
    }

    #[test]
    fn advance_when_no_client_used_the_gpu_is_zero() {
        let by = advance(Ns::ZERO, Ns::ZERO, SPAN, Weight::DEFAULT);
        assert_eq!(by, VTime::ZERO);
    }

    #[test]
    fn advance_with_three_times_the_weight_is_a_third() {
        let full = advance(Ns::new(9), Ns::new(9), Ns::new(900), Weight::DEFAULT);
        let third = Weight::new(300).unwrap_or_default();
        assert_eq!(full, VTime::new(900));
        assert_eq!(
            advance(Ns::new(9), Ns::new(9), Ns::new(900), third),
            VTime::new(300)
        );
    }

    #[test]
    fn advance_with_a_remainder_rounds_down() {
        let by = advance(Ns::new(1), Ns::new(3), Ns::new(100), Weight::DEFAULT);
        assert_eq!(by, VTime::new(33));
    }

    // Regression: the prototype cut every interval to microseconds.
    #[test]
    fn advance_below_a_microsecond_is_not_lost() {
        let by = advance(Ns::new(999), Ns::new(1998), Ns::new(2000), Weight::DEFAULT);
        assert_eq!(by, VTime::new(1000));
    }

    #[test]
    fn threshold_at_the_end_of_time_saturates() {
        let end = VTime::new(u64::MAX);
        assert_eq!(threshold(end, SPAN, Weight::DEFAULT), end);
    }

    #[test]
    fn threshold_is_a_step_of_the_lightest() {
        let at = |weight| {
            let lightest = Weight::new(weight).unwrap_or_default();
            threshold(VTime::new(5), Ns::new(700), lightest)
        };
        assert_eq!(at(100), VTime::new(705));
        assert_eq!(at(50), VTime::new(1405));
    }

    #[test]
    fn estimate_scales_to_the_period() {
        let time = estimate(Ns::from_ms(3), Ns::from_ms(12), SPAN);
        assert_eq!(time, Ns::from_ms(18));
        assert_eq!(estimate(Ns::from_ms(3), Ns::ZERO, SPAN), Ns::ZERO);
    }

    #[test]
    fn entitlement_without_clients_is_zero() {
        assert_eq!(entitlement(SPAN, Weight::DEFAULT, 0), Ns::ZERO);
        assert_eq!(entitlement(SPAN, Weight::DEFAULT, 400), Ns::from_ms(18));
    }
}
