// SPDX-License-Identifier: GPL-2.0

//! What a hard reserve may use: its rate, and a bound beyond it, whatever happens to its clients and to
//! itself.

use loga::units::Ns;

/// What one that promises no deadline catches up, if it was late.
pub(super) const CATCHES_UP: Ns = Ns::from_ms(100);

/// What was used beyond the rate. While nothing is promised it is paid at the rate of before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket {
    /// Nanoseconds.
    level: f64,
    at: Ns,
    /// Part of the time, and greatest capacity and greatest command so far.
    rate: f64,
    fastest: f64,
    capacity: Ns,
    longest: Ns,
    /// The most that was expected of a command.
    expected: Ns,
    /// What may be in flight of it besides: clients, and submissions of each.
    beside: u64,
}

impl Bucket {
    fn flow(&mut self, now: Ns) {
        let time = now.saturating_sub(self.at).get() as f64;
        self.level = (self.level - time * self.rate).max(0.0);
        self.at = now;
    }

    /// So much is promised from now on, of which so many submissions may be in flight.
    pub(super) fn promise(&mut self, now: Ns, capacity: Ns, period: Ns, in_flight: u64) {
        self.flow(now);
        self.fastest = self
            .fastest
            .max(capacity.get() as f64 / period.get() as f64);
        self.rate = capacity.get() as f64 / period.get() as f64;
        self.capacity = self.capacity.max(capacity);
        self.beside = self.beside.max(in_flight);
    }

    /// It is cleared: what was used beyond its rate is forgiven, but for a capacity or the longest
    /// command that is declared.
    pub(super) fn forgive(&mut self, now: Ns, most: Ns) {
        self.flow(now);
        self.level = self.level.min(most.get() as f64);
    }

    /// So much is expected of a command that is granted by it.
    pub(super) fn expects(&mut self, expected: Ns) {
        self.expected = self.expected.max(expected);
    }

    /// By how much it may be ahead, or behind while its clients want more: a capacity twice, since PE may
    /// use what was saved in one period and what it has in the next, what is in flight, and what it
    /// catches up.
    pub(super) fn slack(&self) -> Ns {
        let more = self.longest.saturating_add(self.expected);
        let more = more.saturating_mul(self.beside);
        let late = self.fastest * CATCHES_UP.get() as f64;
        let most = self.capacity.saturating_mul(2).saturating_add(more);
        most.saturating_add(Ns::new(late as u64))
    }

    /// A command that was granted by it has used the engine. Returns by how much it has used too much.
    pub(super) fn uses(&mut self, now: Ns, used: Ns) -> Option<Ns> {
        self.flow(now);
        self.longest = self.longest.max(used);
        self.level += used.get() as f64;
        let over = self.level - self.slack().get() as f64;
        // What is rounded.
        (over > 1_000.0).then(|| Ns::new(over as u64))
    }
}
