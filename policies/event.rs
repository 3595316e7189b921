// SPDX-License-Identifier: GPL-2.0

//! Policy `event`: virtual-time fair queuing on total GPU time.
//!
//! Rule: `dvt = used / used_by_all * (t_poll + t_nonpoll) * 100 / weight`;
//! `t_sys = min vt over clients active in the phase`; idle clients that are behind are lifted to
//! `t_sys`; `throttled = vt > t_sys + (t_poll + t_nonpoll) * 100 / w_min`.
//!
//! `w_min` is the smallest weight among the clients that were active or throttled (100 when no
//! weights are set: the rule of the paper). It makes the lead as long as the longest step of any
//! client in one period. With a shorter lead, a client of small weight would overtake the client
//! that is throttled for it, and the lifting of idle clients would take from the latter what it is
//! owed.
//!
//! A client that is known to wait is not idle. In the long phases of the paper each client that
//! wants the GPU gets it once in each, and waits are not measured; in a short phase a client may
//! wait all the time for the timeslices of the others, and would lose what it is owed.
//!
//! Good for: equal (weighted) shares among clients that always have work.
//! Bad for: mixes in which no other client wants the time: it is not work-conserving, a client that
//! wants little keeps the system time low and stops the client that wants much.
//! Bound: between clients that always have work, GPU time over weight differs by at
//! most two periods of the lightest, plus what was submitted before a client was throttled, which
//! cannot be stopped: that is paid for whole.
//! Source: LoGA paper, sections 3.4 and 4.2.

use super::{ClientState, Phase, Policy, Rule};
use crate::fair;
use crate::units::{Ns, VTime, Weight};

/// Virtual-time fair queuing on total GPU time.
pub struct Event;

impl Policy for Event {
    const NAME: &'static str = "event";
    const RULE: Rule<Self> =
        Rule::Phases(|phase, (), clients| fair_queue(phase, clients, |client| client.busy));
    type OfClient = ();
    type OfGpu = ();
}

/// Virtual-time fair queuing on any `metric` of use.
pub(super) fn fair_queue(
    phase: &Phase,
    clients: &mut [ClientState],
    metric: impl Fn(&ClientState) -> Ns,
) -> VTime {
    let (used_by_all, t_sys) = advance(phase, clients, metric);
    let limit = fair::threshold(t_sys, phase.lead, lightest(clients));
    for client in clients.iter_mut() {
        // On an idle GPU no client waits for another one.
        client.throttled = !used_by_all.is_zero() && client.vtime > limit;
    }
    t_sys
}

/// Advances the virtual times, and returns what all used and the new system time.
pub(super) fn advance(
    phase: &Phase,
    clients: &mut [ClientState],
    metric: impl Fn(&ClientState) -> Ns,
) -> (Ns, VTime) {
    let used_by_all = clients
        .iter()
        .fold(Ns::ZERO, |sum, client| sum.saturating_add(metric(client)));
    let (_, span) = phase.divided();
    for client in clients.iter_mut() {
        let by = fair::advance(metric(client), used_by_all, span, client.weight);
        client.vtime = client.vtime.saturating_add(by);
    }
    let t_sys = clients
        .iter()
        .filter(|client| wants(client))
        .map(|client| client.vtime)
        .min()
        .map_or(phase.t_sys, |least| least.max(phase.t_sys));
    for client in clients.iter_mut().filter(|client| !wants(client)) {
        client.vtime = client.vtime.max(t_sys);
    }
    (used_by_all, t_sys)
}

/// Whether a client used the GPU in the phase, or is known to have waited for it.
fn wants(client: &ClientState) -> bool {
    client.active() || !client.waited.is_zero()
}

/// The smallest weight among the clients that compete: active, waiting or throttled.
fn lightest(clients: &[ClientState]) -> Weight {
    clients
        .iter()
        .filter(|client| wants(client) || client.throttled)
        .map(|client| client.weight)
        .min()
        .unwrap_or_default()
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_policy_event_rules))]
mod tests {
    use super::*;
    use crate::ids::GroupId;
    use crate::policies::{KeptOfGpu, PolicyKind};

    /// 12 ms polled, 60 ms not, system time at one second.
    const PHASE: Phase = Phase {
        poll: Ns::from_ms(12),
        nonpoll: Ns::from_ms(60),
        direct: Ns::ZERO,
        lead: Ns::from_ms(72),
        idle: Ns::ZERO,
        t_sys: VTime::new(1_000_000_000),
    };

    /// A client that used `busy_ms` and is `ahead_ms` ahead of the system.
    fn client(busy_ms: u64, ahead_ms: u64) -> ClientState {
        let ahead = VTime::new(Ns::from_ms(ahead_ms).get());
        let vtime = PHASE.t_sys.saturating_add(ahead);
        let mut client = ClientState::new(GroupId::default(), Weight::DEFAULT, vtime);
        client.busy = Ns::from_ms(busy_ms);
        client.runs = 1;
        client
    }

    fn decide(clients: &mut [ClientState]) -> VTime {
        PolicyKind::Event.decide(&PHASE, &mut KeptOfGpu::default(), clients)
    }

    /// How far a client is ahead of the system time before the decision, in ms.
    fn ahead_ms(client: &ClientState) -> u64 {
        client.vtime.saturating_sub(PHASE.t_sys).get() / 1_000_000
    }

    #[test]
    fn vtime_with_a_third_of_the_use_advances_a_third_of_the_period() {
        let mut clients = [client(4, 0), client(8, 0)];
        decide(&mut clients);
        assert_eq!(ahead_ms(&clients[0]), 24);
        assert_eq!(ahead_ms(&clients[1]), 48);
    }

    #[test]
    fn vtime_on_a_half_idle_gpu_advances_by_share_of_use() {
        let mut clients = [client(3, 0), client(3, 0)];
        decide(&mut clients);
        assert_eq!(ahead_ms(&clients[0]), 36);
    }

    #[test]
    fn vtime_with_double_weight_advances_half() {
        let mut clients = [client(6, 0), client(6, 0)];
        clients[0].weight = Weight::new(200).unwrap_or_default();
        decide(&mut clients);
        assert_eq!(ahead_ms(&clients[0]), 18);
        assert_eq!(ahead_ms(&clients[1]), 36);
    }

    #[test]
    fn client_that_waits_is_not_idle() {
        let mut clients = [client(12, 50), client(0, 10)];
        clients[1].waited = Ns::from_ms(12);
        let t_sys = decide(&mut clients);
        assert_eq!(t_sys, clients[1].vtime);
        assert_eq!(ahead_ms(&clients[1]), 10);
        assert!(clients[0].throttled);
    }

    #[test]
    fn system_time_is_the_least_of_the_active() {
        let mut clients = [client(6, 10), client(6, 50), client(0, 0)];
        let t_sys = decide(&mut clients);
        assert_eq!(t_sys, clients[0].vtime);
    }

    #[test]
    fn system_time_without_active_clients_stands_still() {
        let mut clients = [client(0, 10), client(0, 50)];
        assert_eq!(decide(&mut clients), PHASE.t_sys);
    }

    #[test]
    fn idle_client_behind_is_lifted_to_system_time() {
        let mut clients = [client(12, 10), client(0, 0)];
        let t_sys = decide(&mut clients);
        assert_eq!(ahead_ms(&clients[0]), 82);
        assert_eq!(clients[1].vtime, t_sys);
    }

    #[test]
    fn idle_client_ahead_stays_where_it_is() {
        let mut clients = [client(12, 0), client(0, 500)];
        decide(&mut clients);
        assert_eq!(ahead_ms(&clients[1]), 500);
    }

    #[test]
    fn client_ahead_by_exactly_a_period_runs() {
        let mut clients = [client(6, 0), client(6, 72)];
        decide(&mut clients);
        assert!(!clients[1].throttled);
    }

    #[test]
    fn client_ahead_by_more_than_a_period_is_throttled() {
        let mut clients = [client(6, 0), client(6, 73)];
        decide(&mut clients);
        assert!(clients[1].throttled);
        assert!(!clients[0].throttled);
    }

    // Found by the property test of backlogged clients.
    #[test]
    fn client_ahead_of_a_light_one_may_lead_by_its_step() {
        for (ahead_ms, throttled) in [(180, false), (181, true)] {
            let mut clients = [client(6, 0), client(6, ahead_ms)];
            clients[0].weight = Weight::new(50).unwrap_or_default();
            decide(&mut clients);
            assert_eq!(clients[1].throttled, throttled);
        }
    }

    #[test]
    fn throttled_client_of_small_weight_still_sets_the_lead() {
        let mut clients = [client(6, 0), client(6, 73), client(0, 500)];
        clients[2].weight = Weight::new(50).unwrap_or_default();
        clients[2].throttled = true;
        decide(&mut clients);
        assert!(!clients[1].throttled);
        assert!(clients[2].throttled);
    }

    #[test]
    fn system_time_ahead_of_all_clients_is_not_set_back() {
        let mut clients = [client(12, 0)];
        clients[0].vtime = VTime::ZERO;
        assert_eq!(decide(&mut clients), PHASE.t_sys);
    }

    #[test]
    fn throttled_client_without_use_does_not_keep_system_time_low() {
        let mut clients = [client(12, 80), client(0, 100)];
        clients[1].throttled = true;
        let t_sys = decide(&mut clients);
        assert_eq!(t_sys, clients[0].vtime);
        assert!(!clients[1].throttled);
    }

    #[test]
    fn throttled_client_that_still_runs_commands_is_charged() {
        let mut clients = [client(6, 0), client(6, 100)];
        clients[1].throttled = true;
        decide(&mut clients);
        assert_eq!(ahead_ms(&clients[1]), 136);
        assert!(clients[1].throttled);
    }

    #[test]
    fn client_alone_is_never_throttled() {
        let mut clients = [client(12, 1000)];
        clients[0].throttled = true;
        decide(&mut clients);
        assert!(!clients[0].throttled);
    }

    // Regression: the prototype left a throttled client throttled while the GPU was idle.
    #[test]
    fn throttled_client_on_an_idle_gpu_is_released() {
        let mut clients = [client(0, 1000), client(0, 0)];
        clients[0].throttled = true;
        decide(&mut clients);
        assert!(!clients[0].throttled);
    }

    // Regression: the prototype divided by average run length instead of total time.
    #[test]
    fn two_runs_count_twice_as_much_as_one() {
        let mut clients = [client(8, 0), client(4, 0)];
        clients[0].runs = 2;
        clients[1].runs = 1;
        decide(&mut clients);
        assert_eq!(ahead_ms(&clients[0]), 48);
        assert_eq!(ahead_ms(&clients[1]), 24);
    }

    // Regression: the prototype charged nothing to a command that began before the
    // phase and ended after it.
    #[test]
    fn command_longer_than_the_phase_is_charged() {
        let mut clients = [client(12, 0), client(0, 0)];
        clients[0].runs = 0;
        decide(&mut clients);
        assert_eq!(ahead_ms(&clients[0]), 72);
    }
}
