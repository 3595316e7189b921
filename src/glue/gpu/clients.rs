// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The clients of a GPU: their processes, and which of them are throttled.
//!
//! They are, element by element, the members of the GPU's shares: `Books` adds a client to both, and
//! removes it from both. No number is given to two clients.

use super::client::ClientKernel;
use super::gates::gate::Page;
use crate::engine::Census;
use crate::glue::control::events;
use crate::glue::kernel::process::Process;
use crate::glue::kernel::storage::Vectors;
use crate::ids::ClientId;
use crate::share::{Member, Shares};
use crate::units::Ns;
use kernel::prelude::*;

/// The clients of a GPU.
pub(crate) struct Clients {
    table: KVVec<ClientKernel>,
    /// The number of the next one.
    next_id: u64,
    /// Those before this position are still to be checked, see `Books::sweep`.
    unchecked: usize,
    /// Until when the last decision applies.
    decided_until: Ns,
    /// How often one was throttled, and released.
    throttles: u64,
    releases: u64,
}

/// Whom a decision throttles.
pub(super) struct Throttled {
    /// How many are throttled.
    pub(super) count: u32,
    /// Whether any is, or was until now.
    pub(super) any: bool,
}

impl Clients {
    /// None, with this storage.
    pub(super) const fn new(table: KVVec<ClientKernel>) -> Self {
        Self {
            table,
            next_id: 1,
            unchecked: 0,
            decided_until: Ns::ZERO,
            throttles: 0,
            releases: 0,
        }
    }

    /// The clients.
    pub(crate) fn all(&self) -> &[ClientKernel] {
        &self.table
    }

    /// The clients, to change what is known of each.
    pub(super) fn all_mut(&mut self) -> &mut [ClientKernel] {
        &mut self.table
    }

    /// The client at a position.
    pub(crate) fn get(&self, at: usize) -> Option<&ClientKernel> {
        self.table.get(at)
    }

    /// Position of a process.
    pub(super) fn find(&self, process: &Process) -> Option<usize> {
        let mut all = self.table.iter();
        all.position(|client| client.process() == process)
    }

    /// The clients with what is accounted of each.
    pub(crate) fn with<'a>(&'a self, members: &'a [Member]) -> ClientRows<'a> {
        ClientRows {
            members,
            clients: &self.table,
        }
    }

    /// Whether one more can be added without memory.
    pub(super) fn has_room(&self) -> bool {
        self.table.len() < self.table.capacity()
    }

    /// For how many there is storage.
    pub(super) fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Moves to larger storage.
    pub(super) fn grow(&mut self, mut table: KVVec<ClientKernel>) {
        for client in self.table.drain_all() {
            // There is room: it is larger.
            let _ = table.push_within_capacity(client);
        }
        self.table = table;
    }

    /// The number of the next one that is added.
    pub(super) const fn next_id(&self) -> ClientId {
        ClientId::new(self.next_id)
    }

    /// Adds a client behind all others, for which there is room, and tells of it. One that is throttled
    /// already, as a fresh process of a throttled group, waits as the others do.
    pub(super) fn add(&mut self, gpu: u32, mut client: ClientKernel, member: Option<&Member>) {
        self.next_id = self.next_id.saturating_add(1);
        if let Some(member) = member {
            events::appeared(gpu, &client.about(member));
            if let Some(by) = member.throttled_by() {
                client.throttle(client.since(), self.decided_until);
                events::throttled(gpu, &client.about(member), by);
                self.throttles = self.throttles.saturating_add(1);
            }
        }
        // There is room.
        let _ = self.table.push_within_capacity(client);
    }

    /// Removes the client at `at`.
    pub(super) fn remove(&mut self, at: usize) -> Option<ClientKernel> {
        self.table.remove(at).ok()
    }

    /// Clients before this position are to be checked next: all of them, once those of the last round
    /// have been.
    pub(super) fn unchecked(&self) -> usize {
        match self.unchecked {
            0 => self.table.len(),
            unchecked => unchecked,
        }
    }

    /// Notes that only clients before `first` are still to be checked in this round.
    pub(super) const fn note_checked(&mut self, first: usize) {
        self.unchecked = first;
    }

    /// Throttles and releases clients that are awake, by a decision of `now` that applies `until`. A
    /// client that is asleep is not throttled.
    pub(super) fn follow_decision(
        &mut self,
        gpu: u32,
        shares: &Shares<Vectors>,
        now: Ns,
        until: Ns,
    ) -> Throttled {
        self.decided_until = until;
        let (mut count, mut any_released) = (0u32, false);
        for at in shares.awake() {
            let (Some(member), Some(client)) = (shares.members().get(at), self.table.get_mut(at))
            else {
                continue;
            };
            match (client.throttled_since(), member.throttled_by()) {
                (None, Some(by)) => {
                    client.throttle(now, until);
                    events::throttled(gpu, &client.about(member), by);
                    self.throttles = self.throttles.saturating_add(1);
                }
                (Some(since), None) => {
                    let time = client.release(since, now);
                    any_released = true;
                    events::released(gpu, &client.about(member), time);
                    self.releases = self.releases.saturating_add(1);
                    continue;
                }
                (Some(since), Some(_)) => client.throttle(since, until),
                (None, None) => continue,
            }
            count = count.saturating_add(1);
        }
        Throttled {
            count,
            any: count != 0 || any_released,
        }
    }

    /// How often one was throttled.
    pub(crate) const fn throttles(&self) -> u64 {
        self.throttles
    }

    /// How often one was released.
    pub(crate) const fn releases(&self) -> u64 {
        self.releases
    }

    /// Counts the channels of these pages, for the engine, and calls `changed` with the positions of the
    /// clients of which some came or went.
    pub(super) fn count_channels(
        &mut self,
        pages: &[Page],
        mut changed: impl FnMut(usize),
    ) -> Census {
        for client in self.table.iter_mut() {
            client.recount_channels();
        }
        for page in pages {
            if let Some(client) = self.table.get_mut(page.at()) {
                client.count_channels(page.allocated());
            }
        }
        let mut census = Census::default();
        for (at, client) in self.table.iter().enumerate() {
            let (channels, is_as_before) = client.counted_channels();
            census.add(channels);
            if !is_as_before {
                changed(at);
            }
        }
        census
    }

    /// Calls `found` with the position of each client with channels, and how long it was on processors
    /// since the last time. There are fewer of them than pages of slots, whatever else a user starts.
    pub(super) fn take_cpu_times(&mut self, mut found: impl FnMut(usize, Ns)) {
        for (at, client) in self.table.iter_mut().enumerate() {
            if client.counted_channels().0 != 0 {
                found(at, client.take_cpu_time());
            }
        }
    }
}

/// The clients as they are now: what is accounted of each, and its process.
#[derive(Clone, Copy)]
pub(crate) struct ClientRows<'a> {
    members: &'a [Member],
    clients: &'a [ClientKernel],
}

impl<'a> ClientRows<'a> {
    /// The client at a position.
    pub(crate) fn get(self, at: usize) -> Option<(&'a Member, &'a ClientKernel)> {
        Some((self.members.get(at)?, self.clients.get(at)?))
    }

    /// All of them, by position.
    pub(crate) fn iter(self) -> impl Iterator<Item = (&'a Member, &'a ClientKernel)> + Clone {
        self.members.iter().zip(self.clients)
    }
}
