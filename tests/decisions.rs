// SPDX-License-Identifier: GPL-2.0

//! Properties of the engine and its policies over many periods: virtual time never goes back, no
//! client gets far ahead, and none stays throttled when something is wrong.

use loga::account::PhaseTotals;
use loga::engine::{
    Action, Config, Engine, Fallback, Inputs, KeptOfGpu, Phase, Scale, Wake, MAX_LATE,
};
use loga::fair::estimate;
use loga::ids::GroupId;
use loga::policies::{ClientState, PolicyKind};
use loga::units::{Ns, VTime, Weight};
use proptest::prelude::*;

/// What happens in one period.
#[derive(Clone, Debug)]
struct Period {
    /// What each client would use, in parts of 1000 of the polling phase.
    demand: Vec<u16>,
    /// How late the main thread comes, in microseconds.
    late_us: u64,
    /// Channels allocated from the middle of the pause on.
    channels: u32,
}

fn period(clients: usize) -> impl Strategy<Value = Period> {
    let demand = prop_oneof![Just(0u16), 1u16..1000, Just(1000)];
    (
        prop::collection::vec(demand, clients),
        0u64..2000,
        prop_oneof![9 => Just(24u32), 1 => 1u32..100],
    )
        .prop_map(|(demand, late_us, channels)| Period {
            demand,
            late_us,
            channels,
        })
}

fn history() -> impl Strategy<Value = (Vec<u32>, Vec<Period>)> {
    (1usize..8).prop_flat_map(|clients| {
        (
            prop::collection::vec(1u32..=1000, clients),
            prop::collection::vec(period(clients), 1..60),
        )
    })
}

fn config(policy: PolicyKind, enforce: bool) -> Config {
    Config {
        policy,
        enforce,
        inputs: Inputs::Channels,
        scale: Some(Scale::Channels),
        ..Config::paper()
    }
}

fn any_policy() -> impl Strategy<Value = PolicyKind> {
    let of_phases = |kind: &PolicyKind| !kind.staged();
    let kinds: Vec<_> = PolicyKind::ALL.iter().copied().filter(of_phases).collect();
    prop::sample::select(kinds)
}

fn clients(weights: &[u32]) -> Vec<ClientState> {
    (1u64..)
        .zip(weights)
        .map(|(id, weight)| {
            let weight = Weight::new(*weight).unwrap();
            ClientState::new(GroupId::new(id), weight, VTime::ZERO)
        })
        .collect()
}

/// Time used when all demands are served, cut in proportion to the phase: then all wait while they
/// do not run. Throttled clients use nothing.
fn serve(clients: &mut [ClientState], demand: &[u16], length: Ns) -> PhaseTotals {
    let parts =
        |client: &ClientState, part: u16| if client.throttled { 0 } else { u64::from(part) };
    let wanted: u64 = clients
        .iter()
        .zip(demand)
        .map(|(client, part)| parts(client, *part))
        .sum();
    let mut ran = Ns::ZERO;
    for (client, part) in clients.iter_mut().zip(demand) {
        let part = parts(client, *part);
        client.busy = Ns::new(length.get() * part / wanted.max(1000));
        client.waited = match wanted > 1000 && part > 0 {
            true => length.saturating_sub(client.busy),
            false => Ns::ZERO,
        };
        ran = ran.saturating_add(client.busy);
    }
    PhaseTotals {
        length,
        idle: length.saturating_sub(ran),
        ran,
        ..PhaseTotals::default()
    }
}

/// An engine that moves through periods.
struct Machine {
    engine: Engine,
    now: Ns,
}

impl Machine {
    fn new(config: Config, channels: u32) -> Self {
        let mut engine = Engine::new(config, 1).unwrap();
        engine.channels_changed(Ns::ZERO, channels);
        assert_eq!(
            engine.wake(Ns::ZERO, Wake::ChannelsChanged),
            Action::StartPolling
        );
        let now = Ns::ZERO;
        Self { engine, now }
    }

    /// Goes on to the end of the polling phase and serves the clients.
    fn poll(&mut self, period: &Period, clients: &mut [ClientState]) -> PhaseTotals {
        let since = self.now;
        self.now = self.engine.next_deadline().unwrap();
        self.now = self.now.saturating_add(Ns::from_us(period.late_us));
        assert_eq!(self.engine.wake(self.now, Wake::Timer), Action::StopPolling);
        serve(clients, &period.demand, self.now.saturating_sub(since))
    }

    /// Goes on to the beginning of the next polling phase.
    fn pause(&mut self, period: &Period) {
        let half = self
            .engine
            .next_deadline()
            .unwrap()
            .saturating_sub(self.now);
        let half = self.now.saturating_add(Ns::new(half.get() / 2));
        if period.channels != 24 {
            self.engine.channels_changed(half, period.channels);
            // At once, or as soon as a decision may be forced again.
            self.now = self.engine.next_deadline().unwrap().max(half);
        } else {
            self.now = self.engine.next_deadline().unwrap();
        }
        let action = self.engine.wake(self.now, Wake::ChannelsChanged);
        assert_eq!(action, Action::StartPolling);
    }
}

proptest! {
    #[test]
    fn virtual_time_of_any_history_never_goes_back(
        (weights, periods) in history(),
        policy in any_policy(),
        enforce in any::<bool>(),
    ) {
        let mut machine = Machine::new(config(policy, enforce), 24);
        let mut clients = clients(&weights);
        for period in &periods {
            let totals = machine.poll(period, &mut clients);
            let (before, t_sys) = (clients.clone(), machine.engine.start_vtime());
            machine.engine.decide(&totals, &mut clients);
            prop_assert!(machine.engine.start_vtime() >= t_sys);
            for (after, before) in clients.iter().zip(&before) {
                // What a client is ahead may be forgiven, by this policy.
                let least = match policy {
                    PolicyKind::MaxMin => machine.engine.start_vtime(),
                    _ => before.vtime,
                };
                prop_assert!(after.vtime >= before.vtime.min(least));
                prop_assert!(enforce || !after.throttled);
            }
            prop_assert_eq!(machine.engine.last_fallback(), None);
            machine.pause(period);
        }
    }

    /// A client that is not throttled is at most a period of the lightest ahead; in the next period
    /// it advances by at most its own. A phase in which no client used the GPU lets all of them
    /// run, and so allows one more such step. Idle clients are not behind.
    #[test]
    fn lead_over_system_time_is_bounded((weights, periods) in history()) {
        let mut machine = Machine::new(config(PolicyKind::Event, true), 24);
        let mut clients = clients(&weights);
        let lightest = u64::from(*weights.iter().min().unwrap());
        let (mut longest, mut steps) = (Ns::ZERO, 2);
        for period in &periods {
            let totals = machine.poll(period, &mut clients);
            machine.engine.decide(&totals, &mut clients);
            let stats = *machine.engine.stats();
            let span = stats.last_poll.saturating_add(stats.last_nonpoll);
            // A phase that was cut short is judged by the length it was meant to have.
            longest = longest.max(span).max(Ns::from_ms(6 * 100));
            steps += u64::from(totals.ran.is_zero());
            let bound = steps * (longest.get() * 100 / lightest + 1);
            let t_sys = machine.engine.start_vtime();
            for client in &clients {
                let lead = client.vtime.saturating_sub(t_sys).get();
                prop_assert!(lead <= bound, "{lead} of {bound}");
                prop_assert!(client.vtime >= t_sys);
            }
            machine.pause(period);
        }
    }

    /// Among clients that always have work, what they got over their weights differs by
    /// at most two periods of the lightest, however long it goes on.
    #[test]
    fn backlogged_clients_get_what_their_weights_say(
        weights in prop::collection::vec(1u32..=1000, 2..6),
        hunger in prop::collection::vec(50u16..1000, 6),
        rounds in 50usize..200,
        policy in prop::sample::select(vec![PolicyKind::Event, PolicyKind::MaxMin]),
    ) {
        let mut machine = Machine::new(config(policy, true), 24);
        let mut clients = clients(&weights);
        let mut got = vec![0u64; clients.len()];
        let period = Period {
            demand: hunger.iter().map(|part| part * 20).collect(),
            late_us: 0,
            channels: 24,
        };
        for _ in 0..rounds {
            let totals = machine.poll(&period, &mut clients);
            let busy: Vec<_> = clients.iter().map(|client| client.busy).collect();
            machine.engine.decide(&totals, &mut clients);
            let stats = *machine.engine.stats();
            let span = stats.last_poll.saturating_add(stats.last_nonpoll);
            for ((sum, client), busy) in got.iter_mut().zip(&clients).zip(busy) {
                let time = estimate(busy, stats.last_poll, span).get();
                *sum += time * 100 / u64::from(client.weight.get());
            }
            machine.pause(&period);
        }
        let lightest = u64::from(*weights.iter().min().unwrap());
        let bound = 2 * Ns::from_ms(144).get() * 100 / lightest + rounds as u64;
        let spread = got.iter().max().unwrap() - got.iter().min().unwrap();
        prop_assert!(spread <= bound, "{spread} of {bound}");
    }

    #[test]
    fn no_client_is_throttled_after_a_broken_contract(
        (weights, periods) in history(),
        broken in 0usize..5,
    ) {
        let mut rule = |phase: &Phase, clients: &mut [ClientState]| {
            let t_sys = PolicyKind::Event.decide(phase, &mut KeptOfGpu::default(), clients);
            match broken {
                0 => clients[0].weight = Weight::new(clients[0].weight.get() + 1).unwrap(),
                1 => clients[0].runs += 1,
                2 => clients[0].id = GroupId::new(clients[0].id.get() + 1),
                3 => clients.iter_mut().for_each(|client| client.throttled = true),
                _ => return VTime::ZERO,
            }
            t_sys
        };
        let mut machine = Machine::new(config(PolicyKind::Event, true), 24);
        let mut clients = clients(&weights);
        for period in &periods {
            let totals = machine.poll(period, &mut clients);
            let vtimes: Vec<_> = clients.iter().map(|client| client.vtime).collect();
            let fallbacks = machine.engine.stats().fallbacks;
            machine.engine.decide_by(&totals, &mut clients, &mut rule);
            if machine.engine.stats().fallbacks > fallbacks {
                prop_assert!(clients.iter().all(|client| !client.throttled));
                prop_assert!(clients.iter().map(|client| client.vtime).eq(vtimes));
                prop_assert!(matches!(
                    machine.engine.last_fallback(),
                    Some(Fallback::Contract(_))
                ));
            } else {
                // Returning zero is no fault as long as system time is zero.
                prop_assert_eq!(broken, 4);
            }
            machine.pause(period);
        }
    }

    #[test]
    fn watchdog_fires_iff_a_client_is_throttled_past_the_bound(
        (weights, periods) in history(),
        late_ms in 0u64..10_000,
    ) {
        let mut machine = Machine::new(config(PolicyKind::Event, true), 24);
        let mut clients = clients(&weights);
        for period in &periods {
            let totals = machine.poll(period, &mut clients);
            machine.engine.decide(&totals, &mut clients);
            machine.pause(period);
        }
        // From here on the main thread never comes back.
        let deadline = machine.engine.next_deadline().unwrap();
        let now = deadline.saturating_add(Ns::from_ms(late_ms));
        // An idle GPU is another reason for a fallback; exclude it.
        machine.engine.note_idle(now, false);
        let throttled = clients.iter().any(|client| client.throttled);
        let fires = throttled && Ns::from_ms(late_ms) > MAX_LATE;
        prop_assert_eq!(machine.engine.watchdog(now).is_some(), fires);
        prop_assert_eq!(machine.engine.watchdog(now), None.filter(|_: &Fallback| fires));
    }

    /// The phases keep the same ratio and mean when they are varied.
    #[test]
    fn varied_phases_keep_their_mean(seed in any::<u64>()) {
        let varied = Config { randomize: true, ..config(PolicyKind::Event, false) };
        let mut engine = Engine::new(varied, seed).unwrap();
        engine.channels_changed(Ns::ZERO, 12);
        let mut action = engine.wake(Ns::ZERO, Wake::ChannelsChanged);
        let mut now = Ns::ZERO;
        for _ in 0..2 * 500 {
            now = engine.next_deadline().unwrap();
            action = engine.wake(now, Wake::Timer);
            if action == Action::StopPolling {
                engine.decide(&PhaseTotals::default(), &mut []);
            }
        }
        prop_assert_eq!(action, Action::StartPolling);
        let mean = now.get() / 500;
        prop_assert!(mean.abs_diff(Ns::from_ms(72).get()) < Ns::from_ms(5).get());
    }
}
