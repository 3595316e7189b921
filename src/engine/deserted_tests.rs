// SPDX-License-Identifier: GPL-2.0

//! Tests of the last channel that goes in a non-polling phase.

use super::phase_tests::{ms, paper, polling, totals};
use super::*;

#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engine_deserted))]
mod tests {
    use super::*;

    #[test]
    fn last_channel_destroyed_in_a_pause_parks_the_engine() {
        let mut engine = polling(paper());
        engine.wake(ms(12), Wake::Timer);
        engine.decide(&totals(12, 12), &mut []);
        engine.channels_changed(ms(30), 0);
        // What samples found in the pause is booked before.
        let wake = Wake::ChannelsChanged;
        let book = |engine: &mut Engine, now| {
            assert_eq!(engine.wake(now, Wake::Timer), Action::StartPolling);
            assert_eq!(engine.wake(now, Wake::Timer), Action::StopPolling);
            engine.decide(&totals(0, 0), &mut []);
            assert_eq!(engine.next_deadline(), None);
            engine.stats().last_nonpoll
        };
        assert_eq!(book(&mut engine, ms(30)), ms(18));
        // No more often than polling phases are forced.
        engine.channels_changed(ms(31), 12);
        assert_eq!(engine.wake(ms(31), wake), Action::None);
        engine.channels_changed(ms(32), 0);
        assert_eq!(engine.wake(ms(32), wake), Action::None);
        assert_eq!(engine.next_deadline(), Some(ms(35)));
        assert_eq!(book(&mut engine, ms(35)), ms(4));
    }

    #[test]
    fn last_channel_destroyed_in_a_pause_without_samples_parks_the_engine() {
        let staged = Config {
            policy: PolicyKind::Sampling,
            ..paper()
        };
        let mut engine = polling(staged);
        engine.wake(ms(12), Wake::Timer);
        engine.decide(&totals(12, 12), &mut []);
        engine.channels_changed(ms(30), 0);
        engine.wake(ms(30), Wake::ChannelsChanged);
        assert_eq!(engine.booked_until(ms(31)), ms(31));
    }
}
