// SPDX-License-Identifier: GPL-2.0

//! Tests of changes of policy under load: every ordered pair.

use super::*;
use crate::ids::GroupId;
use crate::units::Weight;

const CLIENTS: usize = 3;

/// An engine, three busy clients, the time.
struct Bench {
    engine: Engine,
    clients: [ClientState; CLIENTS],
    now: Ns,
}

impl Bench {
    fn new(policy: PolicyKind) -> Option<Self> {
        let config = Config {
            policy,
            inputs: Inputs::Cpu,
            enforce: true,
            ..Config::paper()
        };
        let mut engine = Engine::new(config, 1).ok()?;
        engine.channels_changed(Ns::ZERO, 36);
        engine.wake(Ns::ZERO, Wake::ChannelsChanged);
        let mut clients = [ClientState::default(); CLIENTS];
        for (id, client) in (1..).zip(&mut clients) {
            *client = ClientState::new(GroupId::new(id), Weight::DEFAULT, VTime::ZERO);
            client.channels = 12;
        }
        Some(Self {
            engine,
            clients,
            now: Ns::ZERO,
        })
    }

    /// Moves on by one action. The first client uses most of what it may.
    fn step(&mut self) -> Action {
        self.now = self
            .engine
            .next_deadline()
            .unwrap_or(self.now)
            .max(self.now);
        let action = self.engine.wake(self.now, Wake::Timer);
        match action {
            Action::StopPolling => {
                let mut totals = PhaseTotals {
                    length: Ns::from_ms(3),
                    ..PhaseTotals::default()
                };
                for (client, busy_us) in self.clients.iter_mut().zip([2_000, 600, 400]) {
                    let busy = if client.throttled { 0 } else { busy_us };
                    client.busy = Ns::from_us(busy);
                    client.waited = Ns::from_us(3_000 - busy);
                    client.runs = 1;
                    totals.ran = totals.ran.saturating_add(client.busy);
                }
                totals.idle = totals.length.saturating_sub(totals.ran);
                self.engine.decide(&totals, &mut self.clients);
            }
            Action::Scan => {
                for client in &mut self.clients {
                    client.seen = ScanResult {
                        pending: !client.throttled,
                        blocked: client.throttled,
                        submitted: 1,
                        completed: u32::from(!client.throttled),
                        cpu: Ns::from_us(10),
                    };
                }
                self.engine.decide_scan(self.now, &mut self.clients);
            }
            Action::None | Action::StartPolling => {}
        }
        action
    }

    /// Changes the policy. It wakes the main thread, as the caller has to.
    fn change(&mut self, policy: PolicyKind) -> bool {
        let config = Config {
            policy,
            ..*self.engine.config()
        };
        self.engine.set_config(config).is_ok()
    }
}

/// Runs `check` for every ordered pair of policies, at many points of the cycle.
fn holds_for_pairs(check: fn(&mut Bench, PolicyKind) -> bool) -> bool {
    PolicyKind::ALL.iter().all(|from| {
        PolicyKind::ALL.iter().all(|to| {
            [1, 2, 3, 7, 20, 51, 200].iter().all(|steps| {
                Bench::new(*from).is_some_and(|mut bench| {
                    for _ in 0..*steps {
                        bench.step();
                    }
                    from == to || (bench.change(*to) && check(&mut bench, *to))
                })
            })
        })
    })
}

#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engine_switch))]
mod tests {
    use super::*;

    #[test]
    fn change_of_policy_lets_all_clients_run_at_once() {
        assert!(holds_for_pairs(|bench, _| {
            let now = bench.now;
            // A decision may come first when a phase ends just now.
            for _ in 0..2 {
                bench.engine.next_deadline();
                let action = bench.engine.wake(now, Wake::Timer);
                if action == Action::Scan {
                    break;
                }
                if action == Action::StopPolling {
                    bench
                        .engine
                        .decide(&PhaseTotals::default(), &mut bench.clients);
                    return bench.clients.iter().all(|client| !client.throttled);
                }
            }
            bench
                .clients
                .iter_mut()
                .for_each(|client| client.seen = ScanResult::default());
            bench.engine.decide_scan(now, &mut bench.clients);
            let staged = bench.engine.config().policy.staged();
            staged || bench.clients.iter().all(|client| !client.throttled)
        }));
    }

    #[test]
    fn change_of_policy_leaves_no_client_behind_and_sets_none_back() {
        assert!(holds_for_pairs(|bench, _| {
            let before = bench.clients;
            while bench.engine.stats().changes == 0 {
                bench.step();
            }
            let t_sys = bench.engine.start_vtime();
            let kept = before.iter().zip(&bench.clients);
            kept.into_iter().all(|(before, after)| {
                after.id == before.id && after.vtime >= before.vtime && after.vtime >= t_sys
            })
        }));
    }

    #[test]
    fn all_clients_run_again_after_a_change_of_policy() {
        assert!(holds_for_pairs(|bench, _| {
            let mut ran = [false; CLIENTS];
            for _ in 0..2_000 {
                bench.step();
                for (ran, client) in ran.iter_mut().zip(&bench.clients) {
                    *ran |= !client.throttled;
                }
            }
            ran == [true; CLIENTS] && bench.engine.last_fallback().is_none()
        }));
    }

    #[test]
    fn what_a_policy_kept_is_gone_after_a_change() {
        assert!(holds_for_pairs(|bench, to| {
            bench.engine.decide_scan(bench.now, &mut bench.clients);
            let clear = bench.clients.iter().all(|client| client.kept.is_clear());
            clear && (to.staged() || bench.engine.kept == KeptOfGpu::Nothing)
        }));
    }

    #[test]
    fn enforcement_that_begins_forgives_what_was_not_enforced() {
        let mut bench = Bench::new(PolicyKind::Event).unwrap();
        let set = |bench: &mut Bench, enforce| {
            let config = Config {
                enforce,
                ..*bench.engine.config()
            };
            bench.engine.set_config(config)
        };
        assert!(set(&mut bench, false).is_ok());
        for _ in 0..300 {
            bench.step();
        }
        assert!(bench.clients[0].vtime > bench.clients[2].vtime);
        assert!(set(&mut bench, true).is_ok());
        bench.engine.decide_scan(bench.now, &mut bench.clients);
        assert_eq!(bench.clients[0].vtime, bench.clients[2].vtime);
    }
}
