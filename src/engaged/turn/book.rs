// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The turn: whose submissions are in flight, from a grant to its end.
//!
//! # Invariants
//!
//! - Submissions of one client at a time are in flight, its *holder*'s: one, or up to [`HT_DEPTH`] of
//!   a client under [`Mode::Ht`](crate::engaged::Mode::Ht). There is a holder as long as there is one of
//!   them.
//! - Without a completion for [`MAX_GRANT`] while others wait, all other clients pass (the turn is
//!   *open*) until what is in flight has completed or its holder has left. Without a holder no turn is
//!   open, and no client overlaps with it.

use crate::engaged::limits::{HT_DEPTH, HT_SLICE, MAX_GRANT};
use crate::engaged::reserve::Flight;
use crate::units::Ns;

/// A client may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Position of the client.
    pub client: usize,
    /// How long its submission is expected to last.
    pub expected: Ns,
    /// By how much it may be off.
    pub margin: Ns,
}

/// The client whose submissions are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    client: usize,
    since: Ns,
    /// When it began, or something of it completed.
    progress: Ns,
}

/// Whose submissions are in flight, and which.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    holder: Option<Holder>,
    flights: [Flight; HT_DEPTH],
    count: usize,
    open: bool,
    /// Since when a client that comes before the holder passes, since it is overdue.
    overlaps: Option<Ns>,
}

impl Turn {
    /// Which invariant is broken, if one is.
    #[cfg(test)]
    pub(crate) fn broken(&self) -> Option<&'static str> {
        let is_held = self.holder.is_some();
        match () {
            () if is_held != (self.count > 0) => Some("a holder and nothing in flight, or none"),
            () if self.open && !is_held => Some("a turn is open without a holder"),
            () if self.overlaps.is_some() && !self.open => {
                Some("an overlap with a turn that is not open")
            }
            () => None,
        }
    }

    /// Whose submissions are in flight.
    pub(crate) fn holder(&self) -> Option<usize> {
        self.holder.map(|holder| holder.client)
    }

    /// How many submissions of a client are in flight.
    pub(crate) fn in_flight(&self, client: usize) -> usize {
        if self.holder() == Some(client) {
            self.count
        } else {
            0
        }
    }

    /// Those in flight.
    pub(crate) fn flights_mut(&mut self) -> &mut [Flight] {
        self.flights.get_mut(..self.count).unwrap_or_default()
    }

    /// Whether its holder may add one under `Ht`.
    pub(crate) fn has_room(&self) -> bool {
        self.count < HT_DEPTH
    }

    /// Whether its holder goes on while an equal one is ready.
    pub(crate) fn is_young(&self, now: Ns) -> bool {
        let since = self.holder.map(|holder| holder.since);
        since.is_some_and(|since| now < since.saturating_add(HT_SLICE))
    }

    /// A submission of a client is granted, which has the turn, or gets it.
    pub(crate) fn begin(&mut self, now: Ns, client: usize, flight: Flight) {
        self.holder.get_or_insert(Holder {
            client,
            since: now,
            progress: now,
        });
        if let Some(free) = self.flights.get_mut(self.count) {
            *free = flight;
            self.count = self.count.saturating_add(1);
        }
    }

    /// Takes out the oldest submission of a client.
    pub(crate) fn end(&mut self, client: usize) -> Option<Flight> {
        let left = self.in_flight(client).checked_sub(1)?;
        let oldest = self.flights.first().copied();
        self.flights.rotate_left(1);
        self.count = left;
        oldest
    }

    /// Takes out the newest submission of a client.
    pub(crate) fn take_back(&mut self, client: usize) -> Option<Flight> {
        let left = self.in_flight(client).checked_sub(1)?;
        self.count = left;
        self.flights.get(left).copied()
    }

    /// Something of the turn has completed, and more is in flight.
    pub(crate) fn note_progress(&mut self, now: Ns) {
        if let Some(holder) = self.holder.as_mut() {
            holder.progress = now;
        }
    }

    /// For how long nothing of it has completed.
    pub(crate) fn held(&self, now: Ns) -> Option<Ns> {
        let holder = self.holder?;
        Some(now.saturating_sub(holder.progress))
    }

    /// When it is overdue, if nothing of it completes before.
    pub(crate) fn overdue_from(&self) -> Option<Ns> {
        let holder = self.holder?;
        Some(holder.progress.saturating_add(MAX_GRANT))
    }

    /// The turn ends if it is this client's. Returns since when clients that come before it had to
    /// pass, if they had, and there is no turn now.
    pub(crate) fn leave(&mut self, client: usize) -> Option<Ns> {
        self.holder = self.holder.filter(|holder| holder.client != client);
        if self.holder.is_some() {
            return None;
        }
        self.open = false;
        self.count = 0;
        self.overlaps.take()
    }

    /// It has no holder any more.
    pub(crate) fn forget(&mut self) {
        self.holder = None;
        (self.count, self.open) = (0, false);
        self.overlaps = None;
    }

    /// Whether all clients but its holder pass.
    pub(crate) const fn is_open(&self) -> bool {
        self.open
    }

    /// All clients but its holder pass from now on.
    pub(crate) fn open(&mut self) {
        self.open = true;
    }

    /// A client that comes before the holder passes, since it is overdue.
    pub(crate) fn note_overlap(&mut self, now: Ns) {
        self.overlaps.get_or_insert(now);
    }
}
