// SPDX-License-Identifier: GPL-2.0

//! [double] Tests of what throttling costs, and of what runs on while it lasts.

use super::period_tests::{config, gpu, period};
use crate::engaged::SUBMISSION;
use crate::ids::ClientId;
use crate::policies::PolicyKind;
use crate::units::Ns;

#[test]
fn time_spent_on_dispatching_is_not_taken_for_lost_by_throttling() {
    // Beside throttled clients, the GPU is idle for three tenths of the time.
    let throttled = |dispatches: bool| {
        let (mut gpu, mut now) = (gpu(config(PolicyKind::MaxMin)), Ns::ZERO);
        let mut throttled = 0;
        for _ in 0..200 {
            let runs = gpu.shares.members()[0].throttled_by().is_none();
            let parts = if runs { [80, 10, 0] } else { [0, 70, 0] };
            let waits = [Ns::from_ms(1), Ns::from_ms(8)];
            if dispatches {
                // Of the last period: a quarter of the time.
                gpu.note_dispatched(gpu.engine.stats().last_poll.get() * 6 / 4 / SUBMISSION.get());
            }
            period(&mut gpu, &mut now, &parts, &waits);
            throttled += u32::from(!runs);
        }
        throttled
    };
    let (without, with) = (throttled(false), throttled(true));
    assert!(
        without < 80 && (90..=110).contains(&with),
        "{without} {with}"
    );
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
