// SPDX-License-Identifier: GPL-2.0

//! Property: waits estimated from samples agree with the waits themselves, whatever the
//! clients do.

use loga::account::waits::{SampledClient, Waits};
use loga::ids::{Chid, ClientId};
use loga::regs::{Occupant, Work};
use loga::units::Ns;
use proptest::prelude::*;

/// Time of a register read.
const READ_NS: u64 = 1_000;
/// Channels of each client; it submits to one of them.
const CHANNELS: u16 = 12;
/// Length of the phase: some thousand samples.
const PHASE_NS: u64 = 1_000_000_000;

/// A client that runs a command, then pauses.
#[derive(Clone, Debug)]
struct Client {
    command_ns: u64,
    pause_ns: u64,
    channel: u16,
    /// Pending since, running until or pausing until a time.
    state: State,
    waited: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Waits,
    Runs(u64),
    Pauses(u64),
}

/// A GPU that serves its clients round robin, a command at a time.
struct Gpu {
    now: u64,
    clients: Vec<Client>,
    last: usize,
}

impl Gpu {
    /// Lets time pass.
    fn pass(&mut self, until: u64) {
        while self.now < until {
            for client in &mut self.clients {
                match client.state {
                    State::Runs(end) if end <= self.now => {
                        client.state = State::Pauses(self.now + client.pause_ns);
                    }
                    _ => {}
                }
                match client.state {
                    State::Pauses(end) if end <= self.now => client.state = State::Waits,
                    _ => {}
                }
            }
            let count = self.clients.len();
            if self.running().is_none() {
                let turn = (1..=count).map(|step| (self.last + step) % count);
                let waits = |at: &usize| matches!(self.clients[*at].state, State::Waits);
                if let Some(at) = turn.into_iter().find(waits) {
                    self.last = at;
                    let client = &mut self.clients[at];
                    client.state = State::Runs(self.now + client.command_ns);
                }
            }
            let next = self.clients.iter().filter_map(|client| match client.state {
                State::Runs(at) | State::Pauses(at) => Some(at),
                State::Waits => None,
            });
            let next = next.min().unwrap_or(until).min(until).max(self.now + 1);
            for client in &mut self.clients {
                if matches!(client.state, State::Waits) {
                    client.waited += next - self.now;
                }
            }
            self.now = next;
        }
    }

    fn running(&self) -> Option<usize> {
        let runs = |client: &Client| matches!(client.state, State::Runs(_));
        self.clients.iter().position(runs)
    }

    /// The status word.
    fn occupant(&self) -> Occupant {
        self.running().map_or(Occupant::Idle, |at| {
            let chid = at as u32 * u32::from(CHANNELS) + u32::from(self.clients[at].channel);
            Occupant::Channel(Chid::from_bits(chid))
        })
    }

    /// The state of a channel.
    fn work(&self, chid: Chid) -> Work {
        let client = &self.clients[usize::from(chid.get() / CHANNELS)];
        if chid.get() % CHANNELS != client.channel {
            return Work::None;
        }
        match client.state {
            State::Waits => Work::Waits,
            State::Runs(_) => Work::Runs,
            State::Pauses(_) => Work::None,
        }
    }
}

/// Polls for a phase as the poller does; returns the estimates.
fn poll(gpu: &mut Gpu, seed: u64) -> Vec<(u64, u32)> {
    let count = gpu.clients.len();
    let storage = (
        vec![SampledClient::default(); count],
        vec![Chid::from_bits(0); count * usize::from(CHANNELS)],
    );
    let mut waits = Waits::<loga::Vectors>::new(storage.0, storage.1, seed);
    let owner = |chid: u16| ClientId::new(u64::from(chid / CHANNELS));
    let channels = 0..count as u16 * CHANNELS;
    assert!(waits.sample(
        (0..count as u64).map(ClientId::new),
        channels.map(|chid| (owner(chid), Chid::from_bits(chid.into()))),
    ));
    let (mut read, mut next) = (0u64, 0u64);
    while gpu.now < PHASE_NS {
        gpu.pass(gpu.now + READ_NS);
        read += 1;
        if read >= next {
            next = read + u64::from(waits.begin());
            while let Some(chid) = waits.ask(gpu.occupant()) {
                gpu.pass(gpu.now + READ_NS);
                waits.note(gpu.work(chid));
                gpu.pass(gpu.now + READ_NS);
                read += 2;
            }
        }
    }
    let phase = Ns::new(PHASE_NS);
    let found = waits.found().iter();
    found
        .map(|client| (client.waited(phase).compute.get(), client.samples()))
        .collect()
}

/// Commands from 20 us to 2 ms; pauses up to 4 ms, none for every other client.
fn client() -> impl Strategy<Value = Client> {
    let pause = prop_oneof![Just(0), 20_000u64..4_000_000];
    (20_000u64..2_000_000, pause, 0..CHANNELS).prop_map(|(command_ns, pause_ns, channel)| Client {
        command_ns,
        pause_ns,
        channel,
        state: State::Waits,
        waited: 0,
    })
}

/// Whether all estimates are within four standard deviations of the truth, and a point: the poll or
/// the read after it finds a client on the engine, for a read's time longer than it is there.
fn check(mut gpu: Gpu, seed: u64) -> Result<(), TestCaseError> {
    let found = poll(&mut gpu, seed);
    for (client, (waited, samples)) in gpu.clients.iter().zip(found) {
        let p = client.waited as f64 / gpu.now as f64;
        let deviation = (p * (1.0 - p) / f64::from(samples)).sqrt();
        let error = (waited as f64 / PHASE_NS as f64 - p).abs();
        prop_assert!(
            error <= 4.0 * deviation + 0.01,
            "{client:?}: {error} beside {deviation} after {samples} samples"
        );
        prop_assert!(samples > 1000, "{samples} samples");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn estimate_of_any_mix_agrees_with_its_waits(
        clients in prop::collection::vec(client(), 1..5),
        seed in any::<u64>(),
    ) {
        check(Gpu { now: 0, clients, last: 0 }, seed)?;
    }
}

/// Rounds of as many polls as there are between two samples of a client, on average: with equal
/// gaps a client would be sampled at the same point of its round each time.
#[test]
fn estimate_of_clients_in_step_with_the_samples_agrees_with_their_waits() {
    let round_ns = 2 * 64 * READ_NS;
    for command_ns in [round_ns / 8, round_ns / 4, round_ns * 3 / 8] {
        let client = |channel| Client {
            command_ns,
            pause_ns: round_ns - command_ns - command_ns,
            channel,
            state: State::Waits,
            waited: 0,
        };
        let gpu = Gpu {
            now: 0,
            clients: vec![client(0), client(7)],
            last: 0,
        };
        assert!(check(gpu, 1).is_ok(), "commands of {command_ns} ns");
    }
}
