// SPDX-License-Identifier: GPL-2.0

//! `[double]` Tests of what throttling costs, and of what runs on while it lasts.

use super::period_tests::{config, gpu, period};
use crate::engaged::SUBMISSION;
use crate::ids::ClientId;
use crate::policies::PolicyKind;
use crate::units::Ns;

#[test]
fn idle_time_that_dispatching_causes_without_throttling_is_not_taken_for_lost_by_it() {
    // Both are entitled to a half: the first is throttled for a hundred periods if that costs
    // nothing. Beside it, the second leaves the GPU idle for a half of the time.
    let throttled = |dispatches: bool, [first, second]: [u64; 2]| {
        let (mut gpu, mut now) = (gpu(config(PolicyKind::MaxMin)), Ns::ZERO);
        let mut throttled = 0;
        for _ in 0..200 {
            let runs = gpu.shares.members()[0].throttled_by().is_none();
            let parts = if runs { [first, second] } else { [0, 50] };
            let waits = [Ns::from_ms(1), Ns::from_ms(8)];
            if dispatches {
                // Of the last period: a half of the time.
                gpu.note_dispatched(gpu.engine.stats().last_poll.get() * 6 / 2 / SUBMISSION.get());
            }
            period(&mut gpu, &mut now, &parts, &waits);
            throttled += u32::from(!runs);
        }
        throttled
    };
    // Where it is idle as long while both run, the throttling is not why.
    assert!((90..=110).contains(&throttled(true, [55, 5])));
    // Where it is not, a tenth of the time may be lost: two fifths in each period.
    let bounded = throttled(true, [70, 20]);
    assert!((40..=55).contains(&bounded), "{bounded}");
    let alone = throttled(false, [55, 5]);
    assert!((30..=45).contains(&alone), "{alone}");
}

#[test]
fn what_runs_on_while_throttled_costs_as_much_as_before() {
    for percent in [0, 30, 60, 90] {
        let (mut gpu, mut now) = (gpu(config(PolicyKind::MaxMin)), Ns::ZERO);
        let mut ran = true;
        for _ in 0..1000 {
            let runs = gpu.shares.members()[0].throttled_by().is_none();
            // What it had queued runs on for a part of the first non-polling phase in which it is
            // throttled.
            let queued = gpu.engine.planned().get() * 5 / 6 * percent / 100;
            let found = (ran && !runs).then(|| (ClientId::new(1), Ns::new(queued)));
            gpu.begin_phase(found.into_iter(), core::iter::empty());
            ran = runs;
            let (parts, waited) = match runs {
                true => ([90, 5, 0], Ns::from_ms(11)),
                false => ([0, 95, 0], Ns::ZERO),
            };
            period(&mut gpu, &mut now, &parts, &[Ns::from_ms(1), waited]);
        }
        let got = |at: usize| gpu.shares.members()[at].account().received.get();
        let share = got(0) * 1000 / (got(0) + got(1));
        // One is ahead by two periods of a thousand at most.
        assert!((498..=502).contains(&share), "{percent}: {share}");
    }
}
