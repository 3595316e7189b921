// SPDX-License-Identifier: GPL-2.0

//! Tests of scans: the engine does not trust policies that work in stages either.

use super::*;
use crate::ids::GroupId;
use crate::units::Weight;

fn staged() -> Engine {
    let config = Config {
        policy: PolicyKind::Timeslice,
        inputs: Inputs::Channels,
        enforce: true,
        ..Config::paper()
    };
    // PANIC: these settings are valid.
    let mut engine = Engine::new(config, 1).unwrap();
    engine.channels_changed(Ns::ZERO, 12);
    engine.wake(Ns::ZERO, Wake::ChannelsChanged);
    engine
}

fn clients() -> [ClientState; 2] {
    [1, 2].map(|id| ClientState::new(GroupId::new(id), Weight::DEFAULT, VTime::new(1_000)))
}

fn after(scan: &Scan, time: Ns) -> Next {
    Next {
        at: scan.now.saturating_add(time),
        t_sys: scan.t_sys,
        overdue: false,
    }
}

/// Scans of clients that want the GPU, until one of them has the turn.
fn with_a_turn() -> (Engine, [ClientState; 2]) {
    let (mut engine, mut clients) = (staged(), clients());
    let mut now = Ns::ZERO;
    while engine.holder().is_none() && now < Ns::from_ms(1_000) {
        for client in &mut clients {
            client.channels = 12;
            client.seen.pending = !client.throttled;
            client.seen.blocked = client.throttled;
        }
        engine.decide_scan(now, &mut clients);
        now = engine.stages.due(engine.config()).unwrap_or(now);
    }
    (engine, clients)
}

#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engine_stages))]
mod tests {
    use super::*;

    #[test]
    fn scan_is_asked_for_only_with_stages_and_enforcement() {
        let mut engine = staged();
        assert_eq!(engine.wake(Ns::ZERO, Wake::Timer), Action::Scan);
        let account_only = Config {
            enforce: false,
            ..*engine.config()
        };
        assert!(engine.set_config(account_only).is_ok());
        assert_eq!(engine.wake(Ns::ZERO, Wake::Timer), Action::None);
    }

    #[test]
    fn stage_that_breaks_its_contract_lets_all_clients_run() {
        type Rule = fn(&Scan, &mut [ClientState]) -> Next;
        let broken: [(Violation, Rule); 4] = [
            (Violation::Inputs, |scan, clients| {
                clients[0].seen.pending = true;
                after(scan, Ns::from_ms(1))
            }),
            (Violation::VirtualTime, |scan, clients| {
                clients[0].vtime = VTime::ZERO;
                after(scan, Ns::from_ms(1))
            }),
            (Violation::Deadline, |scan, _| after(scan, Ns::ZERO)),
            (Violation::Deadline, |scan, _| {
                after(scan, Ns::new(u64::MAX))
            }),
        ];
        for (violation, rule) in broken {
            let (mut engine, mut clients) = (staged(), clients());
            engine.decide_scan_by(Ns::from_ms(1), &mut clients, &mut |scan, _, clients| {
                clients
                    .iter_mut()
                    .for_each(|client| client.throttled = true);
                clients[0].kept = KeptOfClient::Timeslice(Default::default());
                rule(scan, clients)
            });
            assert_eq!(engine.last_fallback(), Some(Fallback::Contract(violation)));
            assert!(clients.iter().all(|client| !client.throttled));
            assert_eq!(clients[0].kept, KeptOfClient::Nothing);
            assert_eq!(clients[0].vtime, VTime::new(1_000));
        }
    }

    #[test]
    fn turn_ends_when_all_clients_run_whatever_the_reason() {
        let (mut engine, clients) = with_a_turn();
        let running = clients.iter().find(|client| !client.throttled);
        assert!(running.is_some());
        assert!(engine.holder() == running.map(|client| client.id));
        let account_only = Config {
            enforce: false,
            ..*engine.config()
        };
        assert!(engine.set_config(account_only).is_ok());
        assert_eq!(engine.holder(), None);

        let (mut engine, _) = with_a_turn();
        let other = Config {
            policy: PolicyKind::Credit,
            ..*engine.config()
        };
        assert!(engine.holder().is_some());
        assert!(engine.set_config(other).is_ok());
        // It is given anew by a scan.
        assert_eq!(engine.holder(), None);

        let (mut engine, _) = with_a_turn();
        assert!(engine.holder().is_some());
        assert!(engine.watchdog(Ns::from_ms(60_000)).is_some());
        assert_eq!(engine.holder(), None);
    }

    #[test]
    fn barrier_that_never_ends_is_ended() {
        let (mut engine, mut clients) = (staged(), clients());
        let mut now = Ns::ZERO;
        while engine.last_fallback().is_none() && now < Ns::from_ms(10_000) {
            engine.decide_scan_by(now, &mut clients, &mut |scan, _, clients| {
                clients
                    .iter_mut()
                    .for_each(|client| client.throttled = true);
                after(scan, Ns::from_ms(30_000))
            });
            now = engine.stages.due(engine.config()).unwrap_or(now);
        }
        assert!(matches!(
            engine.last_fallback(),
            Some(Fallback::Barrier { .. })
        ));
        assert!(clients.iter().all(|client| !client.throttled));
        assert!(now <= Ns::from_ms(3_100));
    }

    #[test]
    fn scan_that_comes_too_late_fires_the_watchdog() {
        let (mut engine, mut clients) = (staged(), clients());
        engine.decide_scan_by(Ns::ZERO, &mut clients, &mut |scan, _, clients| {
            clients[0].throttled = true;
            after(scan, Ns::from_ms(1))
        });
        assert_eq!(engine.watchdog(Ns::from_ms(2_001)), None);
        assert!(engine.watchdog(Ns::from_ms(2_002)).is_some());
    }

    #[test]
    fn scan_after_a_change_of_policy_is_not_late() {
        let (mut engine, mut clients) = (staged(), clients());
        engine.decide_scan_by(Ns::from_ms(9_000), &mut clients, &mut |scan, _, clients| {
            clients[0].throttled = true;
            after(scan, Ns::from_ms(1))
        });
        let other = Config {
            policy: PolicyKind::Sampling,
            ..*engine.config()
        };
        assert!(engine.set_config(other).is_ok());
        assert!(engine.has_throttled());
        assert_eq!(engine.watchdog(Ns::from_ms(9_001)), None);
        // A phase may end before the scan comes.
        engine.decide(&PhaseTotals::default(), &mut clients);
        assert!(!engine.has_throttled());
        assert_eq!(engine.watchdog(Ns::from_ms(9_001)), None);
    }

    #[test]
    fn drain_that_never_ends_is_counted_and_lets_others_run() {
        for policy in [PolicyKind::Sampling, PolicyKind::Timeslice] {
            let (mut engine, mut clients) = (staged(), clients());
            assert!(engine
                .set_config(Config {
                    policy,
                    ..*engine.config()
                })
                .is_ok());
            let mut ran = false;
            let mut now = Ns::ZERO;
            while now < Ns::from_ms(3_000) {
                for client in &mut clients {
                    client.channels = 12;
                    client.seen.blocked = client.throttled;
                }
                // The work of the first never ends; that of the second does once it is throttled.
                clients[0].seen.pending = true;
                clients[1].seen.pending = !clients[1].throttled;
                engine.decide_scan(now, &mut clients);
                ran |= !clients[1].throttled && now >= Ns::from_ms(1_000);
                now = engine.stages.due(engine.config()).unwrap_or(now);
            }
            assert!(ran);
            assert!(engine.stats().overdue > 0);
            assert_eq!(engine.last_fallback(), None);
        }
    }
}
