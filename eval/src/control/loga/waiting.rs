// SPDX-License-Identifier: GPL-2.0

//! Clients that wait for the GPU, as the module's poller samples them between polls.
//!
//! The module's code chooses the reads and estimates from them. A sample happens at one instant
//! here, and the poller goes on polling: in the module, the polls between
//! two of its reads see a change of the engine one read late.

use crate::world::Machine;
use loga::account::waits::{SampledClient, Waited, Waits};
use loga::engine::Config;
use loga::ids::{Chid, ClientId};
use loga::policies::Inputs;
use loga::regs::{ChannelState, Occupant, Work};
use loga::units::Ns;
use loga::Vectors;

/// Length of a read where reads take no time, in ns.
const READ: u64 = 1_000;
/// Reads of sparse accounting to one sample, as in the module.
const READS_PER_SAMPLE: u64 = 4;

/// Samples of clients that wait for the GPU.
pub(super) struct Waiting {
    waits: Waits<Vectors>,
    wanted: bool,
    read: u64,
    /// When the next sample begins.
    next: Option<u64>,
    /// Reads of sparse accounting so far.
    reads: u64,
}

impl Waiting {
    /// For these settings; `read` is the time of a register read in ns.
    pub(super) fn new(config: &Config, read: u64, seed: u64) -> Self {
        Self {
            waits: Waits::new(Vec::new(), Vec::new(), seed),
            // For policies that work in stages, scans show the waits.
            wanted: config.wants() == Inputs::Waits,
            read: if read == 0 { READ } else { read },
            next: None,
            reads: 0,
        }
    }

    /// Whether the policy needs the samples.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// When the next sample begins.
    pub(super) fn next(&self) -> Option<u64> {
        self.next
    }

    /// A polling phase begins with these clients and channels, both in ascending order.
    /// With sparse accounting, samples are taken beside its reads.
    pub(super) fn begin(
        &mut self,
        now: u64,
        clients: &[ClientId],
        channels: &[(ClientId, Chid)],
        at_once: bool,
    ) {
        let (room, places) = self.waits.room();
        if room < clients.len() || places < channels.len() {
            let clients = vec![SampledClient::default(); clients.len()];
            let channels = vec![Chid::from_bits(0); channels.len()];
            self.waits.refit(clients, channels);
        }
        let watched = self
            .waits
            .sample(clients.iter().copied(), channels.iter().copied());
        self.next = (at_once && watched && self.waits.samples_any()).then_some(now);
    }

    /// A sample is due; the last poll saw `occupant`.
    pub(super) fn sample(&mut self, machine: &Machine, occupant: Occupant) {
        let reads = self.ask(machine, occupant);
        let gap = u64::from(reads).saturating_mul(self.read);
        self.next = Some(machine.now().saturating_add(gap));
    }

    /// Sparse accounting has read the status word: one in [`READS_PER_SAMPLE`] takes a sample too.
    pub(super) fn sample_beside(&mut self, machine: &Machine, occupant: Occupant) {
        if self.reads % READS_PER_SAMPLE == 0 && self.wanted && self.waits.samples_any() {
            self.ask(machine, occupant);
        }
        self.reads += 1;
    }

    fn ask(&mut self, machine: &Machine, occupant: Occupant) -> u32 {
        let reads = self.waits.begin();
        while let Some(chid) = self.waits.ask(occupant) {
            match ChannelState::read(&machine.registers(), chid) {
                Ok(state) => self.waits.note_state(state),
                Err(_) => self.waits.note(Work::None),
            }
        }
        reads
    }

    /// The polling phase has ended.
    pub(super) fn end(&mut self) {
        self.next = None;
    }

    /// How long clients waited in the phase of this length that ended.
    pub(super) fn found(&self, phase: Ns) -> impl Iterator<Item = (ClientId, Waited)> + '_ {
        let found = self.waits.found().iter().filter(|_| self.wanted);
        found.map(move |watched| (watched.id(), watched.waited(phase)))
    }
}

#[cfg(test)]
mod tests {
    use crate::control::loga::copying_tests::world_of;
    use loga::ids::ClientId;
    use loga::units::Ns;

    #[test]
    fn time_waited_is_that_in_which_another_ran() {
        let text = "length_ms = 100\n[policy]\nname = \"maxmin\"\n\
            randomize = false\nscale = \"channels\"\naccounting = \"burst\"\n\
            [[client]]\nname = \"a\"\n[[client.phase]]\nkernel_us = 300\n\
            [[client]]\nname = \"b\"\n[[client.phase]]\nkernel_us = 100\n\
            [[client]]\nname = \"sleeper\"\n[[client.phase]]\ncpu_us = 1000000\nkernel_us = 1\n";
        let mut world = world_of(text);
        // The first polling phase lasts 36 ms; nothing new is watched until 216 ms.
        assert!(!world.run(40_000_000, &mut None));
        let phase = Ns::from_ms(36);
        let waited = |id| {
            let mut found = world.control.waiting.found(phase);
            let found = found.find(|(one, _)| *one == ClientId::new(id));
            found.map_or(0.0, |(_, waited)| waited.compute.get() as f64)
        };
        // 300 us and 100 us in turn. Some two hundred samples of each.
        let round = 400.0 / 36e6;
        assert!(
            (waited(0) * round - 100.0).abs() < 25.0,
            "{}",
            waited(0) * round
        );
        assert!(
            (waited(1) * round - 300.0).abs() < 25.0,
            "{}",
            waited(1) * round
        );
        assert_eq!(waited(2), 0.0);
    }
}
