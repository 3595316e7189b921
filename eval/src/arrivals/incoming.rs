// SPDX-License-Identifier: GPL-2.0

//! Streams of programs.

use super::known::Record;
use super::program::Arrival;
use crate::scenario::{Client, Span};
use loga::units::Ns;
use rand::SeedableRng;
use rand_pcg::Pcg64;

/// A stream of one application to one node.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// What each program does on the fastest GPU.
    pub client: Client,
    /// The node on which they are started.
    pub node: usize,
    /// Time from one arrival to the next.
    pub gap: Span,
    /// Programs.
    pub count: u64,
    /// Whether the application has run before.
    pub known: bool,
}

/// All programs of some streams in the order of their arrivals. The number of a program's
/// application is that of its stream.
pub fn arrivals(streams: &[Incoming], seed: u64) -> Vec<Arrival> {
    let mut all = Vec::new();
    for (application, stream) in streams.iter().enumerate() {
        // CAST: a few streams.
        let mut random = Pcg64::seed_from_u64(seed.wrapping_mul(64) + application as u64);
        let mut at = 0u64;
        for _ in 0..stream.count {
            at += stream.gap.draw(&mut random);
            all.push(Arrival {
                application,
                node: stream.node,
                gpu: None,
                known: stream.known,
                client: Client {
                    arrive: Ns::new(at),
                    ..stream.client.clone()
                },
            });
        }
    }
    all.sort_by_key(|one| one.client.arrive);
    all
}

/// How long a program takes alone on the fastest GPU, in ns, by the means of what it does.
pub fn alone(client: &Client) -> f64 {
    Record::of(client).time
}
