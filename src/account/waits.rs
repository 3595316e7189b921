// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Which clients wait for the engine: samples of the channel table between polls.
//!
//! A client waits while one of its channels has work and none of them is on the engine. One client
//! after the other is sampled, once in [`READS_PER_SAMPLE`] reads on average. A client does not
//! wait if the last poll saw a channel of it; of any other client, the states of the channels are
//! read until one has work. Between two such reads lies a poll, so that a change of the engine is
//! seen at most one read late.
//!
//! Two things keep the samples from favouring one state of the GPU. The gap between them is random:
//! a client that submits in step with it would always be sampled at the same point of its round.
//! And the gap does not depend on what is found: it counts from the beginning of a sample, and no
//! sample is longer, because at most [`READS_MAX`] states are read. Of a client with more channels,
//! those are read where work was found last; if none has work, the next ones follow in its next
//! sample.
//!
//! Waits for the copy engine are noted in the same samples, from the copy channels that are read in
//! them: a client waits for it while one of these has work and none is on that engine. A sample that
//! ends early, because the client computes or waits to compute, counts as one without: what a client
//! does that copies and computes at a time is found too rarely.
//!
//! *Estimate*: `waited = phase * samples that found it waiting / samples`. The channel that had
//! work last is read first, so that a sample of a client that uses one channel at a time belongs to
//! one instant; a client that uses many is sampled at slightly different ones.
//! *Error*: `phase * sqrt(p (1 - p) / samples)` for a part `p` of the time (standard deviation,
//! independent samples), and for each of its commands the time of a read too little. With one
//! client there are 15 samples to a polling phase of a millisecond, if a read takes a microsecond;
//! as many to each client where phases grow with clients.
//! *Cost*: no clock is read, and nothing is read between two samples but the status word.

use crate::fair::mul_div;
use crate::ids::{Chid, ClientId};
use crate::random::XorShift;
use crate::regs::{ChannelState, Occupant, Work};
use crate::storage::Storage;
use crate::units::Ns;

/// Reads between the beginnings of two samples, polls included, on average.
pub const READS_PER_SAMPLE: u32 = 64;
/// Channels of a client whose state is read in a sample, at most.
pub const READS_MAX: usize = 15;

// A sample of [`READS_MAX`] reads, with as many polls between them, must fit into the shortest gap.
const _: () = assert!(2 * READS_MAX < READS_PER_SAMPLE as usize / 2);

/// A client that is sampled, and what was found.
#[derive(Clone, Copy, Debug, Default)]
pub struct SampledClient {
    id: ClientId,
    /// Its channels in the list of channels.
    first: usize,
    count: usize,
    /// Which of them is read first.
    hint: usize,
    samples: u32,
    waiting: u32,
    waiting_to_copy: u32,
}

/// Estimates of the time of a polling phase in which a client waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// For the compute engine.
    pub compute: Ns,
    /// For the copy engine.
    pub copy: Ns,
}

impl Waited {
    /// For the compute engine only.
    pub const fn to_compute(compute: Ns) -> Self {
        let copy = Ns::ZERO;
        Self { compute, copy }
    }
}

impl SampledClient {
    /// Its identity.
    pub const fn id(&self) -> ClientId {
        self.id
    }

    /// What it waited in a polling phase of length `phase`; nothing without samples.
    pub fn waited(&self, phase: Ns) -> Waited {
        if self.samples == 0 {
            return Waited::default();
        }
        let part = |found: u32| Ns::new(mul_div(phase.get(), found.into(), self.samples.into()));
        Waited {
            compute: part(self.waiting),
            copy: part(self.waiting_to_copy),
        }
    }

    /// Samples in this phase.
    pub const fn samples(&self) -> u32 {
        self.samples
    }

    /// Samples that found it waiting.
    pub const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Whether no sample found it waiting for an engine.
    pub const fn waits_for_none(&self) -> bool {
        self.waiting == 0 && self.waiting_to_copy == 0
    }
}

/// The clients that are sampled, and the sample under way. Belongs to the poller during a
/// polling phase. The storage belongs to the caller; its length is the room there is.
pub struct Waits<S: Storage> {
    clients: S::Of<SampledClient>,
    channels: S::Of<Chid>,
    /// Clients in use.
    len: usize,
    /// The client that is sampled.
    at: usize,
    /// Channels read in this sample; nothing if none is under way.
    read: Option<usize>,
    /// Whether a channel that was read in it waits to copy, and whether one copies.
    waits_to_copy: bool,
    copies: bool,
    random: XorShift,
}

impl<S: Storage> Waits<S> {
    /// No client is sampled. The same seed gives the same gaps.
    pub const fn new(clients: S::Of<SampledClient>, channels: S::Of<Chid>, seed: u64) -> Self {
        Self {
            clients,
            channels,
            len: 0,
            at: 0,
            read: None,
            waits_to_copy: false,
            copies: false,
            random: XorShift::new(seed),
        }
    }

    /// Clients and channels that there is room for.
    pub fn room(&self) -> (usize, usize) {
        (self.clients.len(), self.channels.len())
    }

    /// Takes other storage. No client is sampled afterwards.
    pub fn refit(&mut self, clients: S::Of<SampledClient>, channels: S::Of<Chid>) {
        self.clients = clients;
        self.channels = channels;
        self.stop();
    }

    /// Samples no client from now on.
    pub fn stop(&mut self) {
        self.len = 0;
        self.read = None;
    }

    /// Whether a client is sampled.
    pub const fn samples_any(&self) -> bool {
        self.len != 0
    }

    /// Samples these clients from now on, in ascending order of id, with nothing found yet.
    /// `channels` are in ascending order, each with its client; channels of other clients are
    /// skipped. Clients without channels are left out. The client that goes first changes from
    /// phase to phase. False if there is no room; then no client is sampled.
    pub fn sample(
        &mut self,
        clients: impl Iterator<Item = ClientId>,
        channels: impl Iterator<Item = (ClientId, Chid)> + Clone,
    ) -> bool {
        self.stop();
        let mut len = 0;
        for id in clients {
            let Some(place) = self.clients.get_mut(len) else {
                return false;
            };
            *place = SampledClient {
                id,
                ..SampledClient::default()
            };
            len = len.saturating_add(1);
        }
        let sampled = self.clients.get_mut(..len).unwrap_or_default();
        // Mostly the channels of a client follow one another.
        let mut last = 0;
        let mut find = |sampled: &[SampledClient], id| {
            if sampled.get(last).map(SampledClient::id) != Some(id) {
                last = sampled.binary_search_by_key(&id, SampledClient::id).ok()?;
            }
            Some(last)
        };
        for (id, _) in channels.clone() {
            if let Some(client) = find(sampled, id).and_then(|at| sampled.get_mut(at)) {
                client.count = client.count.saturating_add(1);
            }
        }
        let (mut first, mut len) = (0usize, 0usize);
        for at in 0..sampled.len() {
            let Some(client) = sampled.get(at).copied().filter(|client| client.count > 0) else {
                continue;
            };
            // Clients without channels are left out.
            if let Some(place) = sampled.get_mut(len) {
                *place = SampledClient {
                    first,
                    count: 0,
                    ..client
                };
            }
            first = first.saturating_add(client.count);
            len = len.saturating_add(1);
        }
        if first > self.channels.len() {
            return false;
        }
        let sampled = self.clients.get_mut(..len).unwrap_or_default();
        for (id, chid) in channels {
            let Some(client) = find(sampled, id).and_then(|at| sampled.get_mut(at)) else {
                continue;
            };
            if let Some(place) = self
                .channels
                .get_mut(client.first.saturating_add(client.count))
            {
                *place = chid;
            }
            client.count = client.count.saturating_add(1);
        }
        self.len = len;
        true
    }

    /// Begins a sample of the next client, and returns after how many reads, with those of this
    /// sample and polls, the next sample begins.
    pub fn begin(&mut self) -> u32 {
        self.at = self.at.saturating_add(1);
        if self.at >= self.len {
            self.at = 0;
        }
        self.read = Some(0);
        (self.waits_to_copy, self.copies) = (false, false);
        // From half the mean to one and a half, evenly.
        READS_PER_SAMPLE / 2 + ((self.random.bits16() * (READS_PER_SAMPLE + 1)) >> 16)
    }

    /// The channel to read next, while the last poll saw `occupant`; nothing when the sample is
    /// complete. Its answer goes to [`Waits::note`].
    pub fn ask(&mut self, occupant: Occupant) -> Option<Chid> {
        let read = self.read?;
        let clients = self.clients.get(..self.len).unwrap_or_default();
        let client = clients.get(self.at)?;
        let end = client.first.saturating_add(client.count);
        let channels = self.channels.get(client.first..end).unwrap_or_default();
        let is_there = match occupant {
            Occupant::Channel(chid) => channels.binary_search(&chid).is_ok(),
            _ => false,
        };
        if is_there {
            self.complete(false, None);
            return None;
        }
        if read >= client.count.min(READS_MAX) {
            // The channels that were read have no work: next time, others go first.
            self.complete(false, Some(read));
            return None;
        }
        let at = client.hint.saturating_add(read);
        let turned = at.checked_sub(client.count).unwrap_or(at);
        channels.get(turned).copied()
    }

    /// Notes the state of the channel that was named last.
    pub fn note_state(&mut self, state: ChannelState) {
        let work = state.work();
        if state.is_compute() {
            return self.note(work);
        }
        self.waits_to_copy |= work == Work::Waits;
        self.copies |= work == Work::Runs;
        self.note(Work::None);
    }

    /// The same for what a channel has to do with the compute engine.
    pub fn note(&mut self, work: Work) {
        match (work, self.read) {
            (Work::None | Work::Acquires, Some(read)) => self.read = Some(read.saturating_add(1)),
            (Work::Waits, Some(read)) => self.complete(true, Some(read)),
            // The poll saw a group of channels, or the channel came on the engine since.
            (Work::Runs, Some(read)) => self.complete(false, Some(read)),
            (_, None) => {}
        }
    }

    /// Ends the sample. `found` is how many channels were read before the one with work.
    fn complete(&mut self, waits: bool, found: Option<usize>) {
        self.read = None;
        let Some(client) = self.clients.get_mut(self.at) else {
            return;
        };
        client.samples = client.samples.saturating_add(1);
        client.waiting = client.waiting.saturating_add(waits.into());
        let to_copy = self.waits_to_copy && !self.copies;
        client.waiting_to_copy = client.waiting_to_copy.saturating_add(to_copy.into());
        if let Some(read) = found {
            let at = client.hint.saturating_add(read);
            client.hint = at.checked_sub(client.count).unwrap_or(at);
        }
    }

    /// What was found of each client.
    pub fn found(&self) -> &[SampledClient] {
        self.clients.get(..self.len).unwrap_or_default()
    }
}
