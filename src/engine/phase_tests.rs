// SPDX-License-Identifier: GPL-2.0

//! Tests of the phases, the decisions and the watchdog.

use super::*;
use crate::ids::GroupId;
use crate::units::Weight;

/// An engine with 12 channels that has begun to poll at time zero.
pub(super) fn polling(config: Config) -> Engine {
    // PANIC: the tests call this with valid settings only.
    let mut engine = Engine::new(config, 1).unwrap();
    engine.channels_changed(Ns::ZERO, 12);
    engine.wake(Ns::ZERO, Wake::ChannelsChanged);
    engine
}

/// Phases and rule of the paper.
pub(super) fn paper() -> Config {
    Config {
        scale: Some(Scale::Channels),
        policy: PolicyKind::Event,
        ..Config::paper()
    }
}

fn enforcing() -> Config {
    Config {
        enforce: true,
        ..paper()
    }
}

pub(super) fn ms(time: u64) -> Ns {
    Ns::from_ms(time)
}

/// Totals of a polling phase of `length_ms` with `idle_ms` idle.
pub(super) fn totals(length_ms: u64, idle_ms: u64) -> PhaseTotals {
    PhaseTotals {
        length: ms(length_ms),
        idle: ms(idle_ms),
        ran: ms(length_ms - idle_ms),
        ..PhaseTotals::default()
    }
}

/// Clients that used `busy_ms` each; the first is a second ahead.
fn clients(busy_ms: [u64; 2]) -> [ClientState; 2] {
    [(1, VTime::new(1_000_000_000)), (2, VTime::ZERO)].map(|(id, vtime)| {
        let mut client = ClientState::new(GroupId::new(id), Weight::DEFAULT, vtime);
        client.busy = ms(busy_ms[usize::from(id == 2)]);
        client
    })
}

/// An engine that throttles the first client since 12 ms.
fn throttling() -> Engine {
    let mut engine = polling(enforcing());
    engine.wake(ms(12), Wake::Timer);
    engine.decide(&totals(12, 0), &mut clients([6, 6]));
    engine
}

#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engine))]
mod tests {
    use super::*;

    #[test]
    fn engine_without_channels_has_no_deadline() {
        let engine = Engine::new(paper(), 1);
        assert!(engine.is_ok_and(|mut engine| {
            engine.next_deadline().is_none() && engine.wake(ms(1), Wake::Timer) == Action::None
        }));
    }

    #[test]
    fn engine_with_bad_settings_is_refused() {
        let config = Config {
            ratio: 0,
            ..paper()
        };
        assert!(Engine::new(config, 1).is_err());
        let mut engine = polling(paper());
        assert!(engine.set_config(config).is_err());
        assert_eq!(engine.config().ratio, 5);
    }

    #[test]
    fn phases_with_twelve_channels_last_12_and_60_ms() {
        let mut engine = polling(paper());
        assert_eq!(engine.next_deadline(), Some(ms(12)));
        assert_eq!(engine.wake(ms(11), Wake::Timer), Action::None);
        assert_eq!(engine.wake(ms(12), Wake::Timer), Action::StopPolling);
        engine.decide(&totals(12, 12), &mut []);
        assert_eq!(engine.next_deadline(), Some(ms(72)));
        assert_eq!(engine.wake(ms(71), Wake::Timer), Action::None);
        assert_eq!(engine.wake(ms(72), Wake::Timer), Action::StartPolling);
        assert_eq!(engine.next_deadline(), Some(ms(84)));
    }

    #[test]
    fn decision_covers_the_pause_before_it_as_it_was() {
        let mut engine = polling(paper());
        engine.wake(ms(12), Wake::Timer);
        engine.decide(&totals(12, 12), &mut []);
        // The main thread comes 8 ms late, and polls 2 ms longer than planned.
        engine.wake(ms(80), Wake::Timer);
        engine.wake(ms(94), Wake::Timer);
        let mut clients = clients([0, 14]);
        engine.decide(&totals(14, 0), &mut clients);
        assert_eq!(clients[1].vtime, VTime::new(ms(68 + 14).get()));
        assert_eq!(engine.stats().last_nonpoll, ms(68));
        assert_eq!(engine.stats().last_poll, ms(14));
    }

    #[test]
    fn time_is_booked_until_the_present_period_or_now_without_channels() {
        let engine = Engine::new(paper(), 1);
        assert!(engine.is_ok_and(|engine| engine.booked_until(ms(5)) == ms(5)));
        let mut engine = polling(paper());
        assert_eq!(engine.booked_until(ms(5)), Ns::ZERO);
        engine.wake(ms(12), Wake::Timer);
        engine.decide(&totals(12, 12), &mut []);
        assert_eq!(engine.booked_until(ms(71)), ms(12));
        engine.wake(ms(72), Wake::Timer);
        assert_eq!(engine.booked_until(ms(80)), ms(12));
        engine.wake(ms(84), Wake::Timer);
        engine.decide(&totals(12, 12), &mut []);
        engine.channels_changed(ms(90), 0);
        engine.wake(ms(90), Wake::ChannelsChanged);
        engine.wake(ms(90), Wake::Timer);
        engine.decide(&totals(0, 0), &mut []);
        assert_eq!(engine.booked_until(ms(99)), ms(99));
        // Not those of before: it slept since.
        engine.channels_changed(ms(200), 12);
        engine.wake(ms(200), Wake::ChannelsChanged);
        assert_eq!(engine.booked_until(ms(201)), ms(200));
    }

    #[test]
    fn channel_created_in_a_pause_starts_polling() {
        let mut engine = polling(paper());
        engine.wake(ms(12), Wake::Timer);
        engine.decide(&totals(12, 12), &mut []);
        engine.channels_changed(ms(30), 13);
        assert_eq!(
            engine.wake(ms(30), Wake::ChannelsChanged),
            Action::StartPolling
        );
        assert_eq!(engine.next_deadline(), Some(ms(43)));
    }

    #[test]
    fn channel_created_while_polling_ends_the_phase() {
        let mut engine = polling(paper());
        engine.channels_changed(ms(5), 13);
        assert_eq!(
            engine.wake(ms(5), Wake::ChannelsChanged),
            Action::StopPolling
        );
    }

    #[test]
    fn channels_created_in_a_row_wait_for_something_to_see() {
        let mut engine = polling(paper());
        engine.channels_changed(Ns::from_us(10), 13);
        assert_eq!(
            engine.wake(Ns::from_us(10), Wake::ChannelsChanged),
            Action::None
        );
        assert_eq!(engine.next_deadline(), Some(ms(1)));
    }

    #[test]
    fn last_channel_destroyed_parks_the_engine() {
        let mut engine = polling(paper());
        engine.channels_changed(Ns::from_us(10), 0);
        assert_eq!(
            engine.wake(Ns::from_us(10), Wake::ChannelsChanged),
            Action::StopPolling
        );
        engine.decide(&totals(0, 0), &mut []);
        assert_eq!(engine.next_deadline(), None);
        engine.channels_changed(ms(900), 12);
        assert_eq!(
            engine.wake(ms(900), Wake::ChannelsChanged),
            Action::StartPolling
        );
    }

    #[test]
    fn polling_always_has_no_pause() {
        let always = Config {
            poll_always: true,
            ..paper()
        };
        let mut engine = polling(always);
        engine.wake(ms(12), Wake::Timer);
        engine.decide(&totals(12, 12), &mut []);
        assert_eq!(engine.wake(ms(12), Wake::Timer), Action::StartPolling);
    }

    #[test]
    fn sparse_phases_follow_each_other_without_a_pause() {
        let sparse = Config {
            accounting: Some(Accounting::Sparse),
            ..paper()
        };
        let mut engine = polling(sparse);
        assert_eq!(engine.next_deadline(), Some(ms(72)));
        engine.wake(ms(72), Wake::Timer);
        engine.decide(&totals(72, 72), &mut []);
        // The decision takes a while, which the strata of the next phase cover.
        assert_eq!(engine.wake(ms(73), Wake::Timer), Action::StartPolling);
        engine.channels_changed(ms(74), 12);
        assert_eq!(
            engine.next_deadline(),
            Some(ms(73).saturating_add(MIN_SPARSE))
        );
        engine.wake(ms(123), Wake::Timer);
        engine.decide(&totals(50, 50), &mut []);
        assert_eq!(engine.stats().last_nonpoll, Ns::ZERO);
    }

    #[test]
    fn way_of_accounting_changes_with_the_next_phase() {
        let mut engine = polling(paper());
        let sparse = Config {
            accounting: Some(Accounting::Sparse),
            ..paper()
        };
        assert!(engine.set_config(sparse).is_ok());
        assert_eq!(engine.accounting(), Accounting::Burst);
        engine.wake(ms(12), Wake::Timer);
        engine.decide(&totals(12, 12), &mut []);
        engine.wake(ms(72), Wake::Timer);
        assert_eq!(engine.accounting(), Accounting::Sparse);
        assert_eq!(engine.planned(), ms(72));
    }

    #[test]
    fn randomised_phases_keep_their_ratio() {
        let randomised = Config {
            randomize: true,
            ..paper()
        };
        let mut engine = polling(randomised);
        let poll = engine.next_deadline().unwrap_or_default();
        engine.wake(poll, Wake::Timer);
        engine.decide(&totals(12, 12), &mut []);
        let nonpoll = engine
            .next_deadline()
            .unwrap_or_default()
            .saturating_sub(poll);
        assert!(poll != ms(12));
        assert!(nonpoll.get().abs_diff(poll.get() * 5) < 10);
    }

    #[test]
    fn new_client_starts_at_system_time() {
        let mut engine = polling(paper());
        assert_eq!(engine.start_vtime(), VTime::ZERO);
        engine.wake(ms(12), Wake::Timer);
        let mut clients = clients([0, 12]);
        engine.decide(&totals(12, 0), &mut clients);
        assert_eq!(engine.start_vtime(), clients[1].vtime);
        assert_eq!(engine.start_vtime(), VTime::new(ms(12).get()));
    }

    #[test]
    fn decision_without_enforcement_throttles_no_client() {
        let mut engine = polling(paper());
        engine.wake(ms(12), Wake::Timer);
        let mut clients = clients([6, 6]);
        engine.decide(&totals(12, 0), &mut clients);
        assert!(!clients[0].throttled);
        assert!(clients[0].vtime > VTime::new(1_000_000_000));
    }

    // Regression: a phase cut short by a new channel made the threshold tiny.
    #[test]
    fn decision_forced_early_throttles_no_client_a_little_ahead() {
        let mut engine = polling(enforcing());
        engine.channels_changed(ms(1), 13);
        engine.wake(ms(1), Wake::ChannelsChanged);
        let mut clients = clients([0, 1]);
        clients[0].vtime = VTime::new(ms(50).get());
        engine.decide(&totals(1, 0), &mut clients);
        assert!(!clients[0].throttled);
    }

    #[test]
    fn policy_that_breaks_its_contract_lets_all_clients_run() {
        type Rule = fn(&Phase, &mut [ClientState]) -> VTime;
        let broken: [(Violation, Rule); 5] = [
            (Violation::Inputs, |phase, clients| {
                clients[0].busy = Ns::ZERO;
                phase.t_sys
            }),
            (Violation::VirtualTime, |phase, clients| {
                clients[0].vtime = VTime::ZERO;
                phase.t_sys
            }),
            (Violation::SystemTime, |_, _| VTime::ZERO),
            (Violation::AllThrottled, |phase, clients| {
                clients
                    .iter_mut()
                    .for_each(|client| client.throttled = true);
                phase.t_sys
            }),
            (Violation::IdleThrottle, |phase, clients| {
                clients[0].throttled = true;
                phase.t_sys
            }),
        ];
        for (violation, rule) in broken {
            let mut engine = throttling();
            let busy = if violation == Violation::IdleThrottle {
                0
            } else {
                6
            };
            let mut clients = clients([busy, busy]);
            clients[0].throttled = true;
            let totals = totals(12, 12 - 2 * busy);
            engine.decide_by(&totals, &mut clients, &mut { rule });
            assert_eq!(engine.last_fallback(), Some(Fallback::Contract(violation)));
            assert!(!clients[0].throttled);
            assert!(!clients[1].throttled);
            assert_eq!(clients[0].vtime, VTime::new(1_000_000_000));
            assert_eq!(engine.stats().fallbacks, 1);
        }
    }

    #[test]
    fn watchdog_in_time_is_silent() {
        let mut engine = throttling();
        let deadline = engine.next_deadline().unwrap_or_default();
        assert_eq!(engine.watchdog(deadline.saturating_add(MAX_LATE)), None);
    }

    #[test]
    fn watchdog_after_a_missed_deadline_fires_once() {
        let mut engine = throttling();
        let deadline = engine.next_deadline().unwrap_or_default();
        let late = MAX_LATE.saturating_add(Ns::new(1));
        let now = deadline.saturating_add(late);
        assert_eq!(engine.watchdog(now), Some(Fallback::Late { by: late }));
        assert_eq!(engine.watchdog(now), None);
        assert_eq!(engine.stats().fallbacks, 1);
    }

    #[test]
    fn watchdog_after_a_decision_that_never_came_fires() {
        let mut engine = throttling();
        engine.wake(ms(72), Wake::Timer);
        assert_eq!(engine.wake(ms(84), Wake::Timer), Action::StopPolling);
        assert!(engine.watchdog(ms(84 + 2001)).is_some());
    }

    #[test]
    fn decision_that_never_came_is_asked_for_again() {
        let mut engine = polling(paper());
        assert_eq!(engine.wake(ms(12), Wake::Timer), Action::StopPolling);
        assert_eq!(engine.wake(ms(13), Wake::Timer), Action::StopPolling);
        assert_eq!(engine.next_deadline(), Some(ms(12)));
    }

    #[test]
    fn watchdog_after_a_busy_phase_forgets_idle_checks() {
        let mut engine = throttling();
        engine.note_idle(ms(13), true);
        engine.wake(ms(72), Wake::Timer);
        engine.wake(ms(84), Wake::Timer);
        engine.decide(&totals(12, 0), &mut clients([6, 6]));
        engine.note_idle(ms(100), true);
        assert_eq!(engine.watchdog(ms(2050)), None);
    }

    #[test]
    fn watchdog_without_throttled_clients_is_silent() {
        let mut engine = polling(enforcing());
        assert_eq!(engine.watchdog(ms(1_000_000)), None);
    }

    #[test]
    fn watchdog_on_a_gpu_that_stays_idle_fires() {
        let slow = Config {
            ratio: 1000,
            ..enforcing()
        };
        let mut engine = polling(slow);
        engine.wake(ms(12), Wake::Timer);
        let mut clients = clients([6, 6]);
        clients[0].vtime = VTime::new(ms(60_000).get());
        engine.decide(&totals(12, 0), &mut clients);
        engine.note_idle(ms(100), true);
        engine.note_idle(ms(2000), true);
        assert_eq!(engine.watchdog(ms(2100)), None);
        assert_eq!(
            engine.watchdog(ms(2101)),
            Some(Fallback::IdleThrottle { lasting: ms(2001) })
        );
    }

    #[test]
    fn watchdog_on_a_gpu_seen_busy_starts_again() {
        let mut engine = throttling();
        engine.note_idle(ms(13), true);
        engine.note_idle(ms(14), false);
        engine.note_idle(ms(15), true);
        assert_eq!(engine.watchdog(ms(2014)), None);
    }
}
