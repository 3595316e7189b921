// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Channels that exist, as phases count them, and when they force a decision.
//!
//! Any program may allocate, map and free channels as fast as it likes. So only the first and the
//! last channel of a client force a decision, and a polling phase begins for it once in
//! [`Config::least_gap`] at most; and a client counts as [`MOST_CHANNELS`] at most where phases
//! grow with channels.
//!
//! [`Config::least_gap`]: super::Config::least_gap

use super::{Action, Config, Engine, State, MIN_SPARSE};
use crate::account::Accounting;
use crate::units::Ns;

/// Channels of one client that count for the lengths of phases. CUDA allocates twelve; with many
/// more, one client would make phases of seconds, in which no decision is made.
pub const MOST_CHANNELS: u32 = 16;

/// Channels that exist on a GPU: those that clients allocated, not the slots of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Clients that have channels.
    clients: u32,
    /// Channels of all clients, at most [`MOST_CHANNELS`] of each.
    channels: u32,
}

impl Census {
    /// Adds a client with this many channels; a client without channels does not count.
    pub fn add(&mut self, channels: u32) {
        if channels == 0 {
            return;
        }
        self.clients = self.clients.saturating_add(1);
        self.channels = self.channels.saturating_add(channels.min(MOST_CHANNELS));
    }

    /// Channels, as phases count them.
    pub const fn channels(&self) -> u32 {
        self.channels
    }
}

impl Config {
    /// Least time between two polling phases that begin for a decision that is forced.
    pub fn least_gap(&self) -> Ns {
        Ns::from_ms(u64::from(self.poll_ms).saturating_mul(self.ratio.into()))
    }
}

impl Engine {
    /// Notes which channels exist now. Returns whether the main thread has to wake up and call
    /// [`Engine::wake`] with [`super::Wake::ChannelsChanged`]: if a client got its first channel
    /// or lost its last one.
    pub fn count(&mut self, now: Ns, census: Census) -> bool {
        let before = core::mem::replace(&mut self.clients, census.clients);
        if before == census.clients {
            self.allocated = census.channels;
            return false;
        }
        self.channels_changed(now, census.channels)
    }

    /// Notes that channels were created or destroyed, and that a decision is due; `allocated` is
    /// how many there are now. Call [`Engine::wake`] with [`super::Wake::ChannelsChanged`]
    /// afterwards, if this returns true.
    pub fn channels_changed(&mut self, now: Ns, allocated: u32) -> bool {
        self.allocated = allocated;
        self.decide_soon(now)
    }

    /// Makes the next decision come soon: a non-polling phase ends now, a polling phase as soon as
    /// it has lasted `poll_ms`, [`MIN_SPARSE`] with sparse accounting. Not earlier, because
    /// applications create a dozen channels in a row, and a phase of no length would see no client
    /// active and lift all of them. With sparse accounting it goes on for as long without a channel:
    /// one that comes meanwhile is sampled. And no non-polling phase ends within
    /// [`Config::least_gap`] of the last one that was cut short. Returns whether the main thread has to wake up.
    pub fn decide_soon(&mut self, now: Ns) -> bool {
        let earliest = self.earliest().max(now);
        match &mut self.state {
            State::Polling { since, deadline } => {
                let least = match self.accounting {
                    Accounting::Burst if self.allocated == 0 => Ns::ZERO,
                    Accounting::Burst => Ns::from_ms(self.config.poll_ms.into()),
                    Accounting::Sparse => MIN_SPARSE,
                };
                let soonest = since.saturating_add(least).max(now);
                let sooner = soonest < *deadline;
                *deadline = soonest.min(*deadline);
                sooner
            }
            State::NonPolling { deadline, .. } if earliest < *deadline => {
                *deadline = earliest;
                self.forced = Some(earliest);
                true
            }
            State::Parked => self.allocated > 0,
            State::NonPolling { .. } | State::Stopping { .. } => false,
        }
    }

    /// Whether samples are taken in non-polling phases: not with sparse accounting, nor for policies
    /// in stages, whose phases have no known length. There all time is charged alike.
    pub fn samples_pauses(&self) -> bool {
        self.accounting == Accounting::Burst && !self.config.policy.staged()
    }

    /// Whether there are no channels.
    pub const fn is_deserted(&self) -> bool {
        self.allocated == 0
    }

    /// Length of a period with the channels and clients of now.
    pub fn usual_period(&self) -> Ns {
        let lengths = self
            .config
            .lengths(self.allocated.max(1), self.active, None);
        lengths.period()
    }

    /// When a polling phase may be forced next.
    pub(super) fn earliest(&self) -> Ns {
        let after = |last: Ns| last.saturating_add(self.config.least_gap());
        match self.config.effective_accounting() {
            Accounting::Burst => self.forced.map_or(Ns::ZERO, after),
            // Its phases are never shorter than [`MIN_SPARSE`], and nothing is known of what is
            // between them.
            Accounting::Sparse => Ns::ZERO,
        }
    }

    /// The first channel came while there was none: a polling phase begins, but not as often as
    /// channels can come and go.
    pub(super) fn unpark(&mut self, now: Ns) -> Action {
        self.nonpoll = Ns::ZERO;
        self.began = Some(now);
        let earliest = self.earliest();
        if now >= earliest {
            self.forced = Some(now);
            return self.start(now);
        }
        self.forced = Some(earliest);
        self.state = State::NonPolling {
            since: now,
            deadline: earliest,
        };
        Action::None
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engine_census))]
mod tests {
    use super::super::{PolicyKind, Scale, Wake};
    use super::*;
    use crate::account::PhaseTotals;

    fn census(clients: &[u32]) -> Census {
        let mut census = Census::default();
        clients.iter().for_each(|channels| census.add(*channels));
        census
    }

    fn engine() -> Engine {
        let config = Config {
            scale: Some(Scale::Channels),
            policy: PolicyKind::Event,
            ..Config::paper()
        };
        // PANIC: the settings are valid.
        Engine::new(config, 1).unwrap()
    }

    /// Goes on to this time as a main thread does, which wakes at deadlines and when it is `woken`.
    /// Returns the decisions made.
    fn run(engine: &mut Engine, woken: bool, now: Ns) -> u64 {
        let before = engine.stats().decisions;
        let wake = if woken {
            Wake::ChannelsChanged
        } else {
            Wake::Timer
        };
        for _ in 0..4 {
            if engine.wake(now, wake) == Action::StopPolling {
                let totals = PhaseTotals {
                    length: Ns::from_ms(1),
                    idle: Ns::from_ms(1),
                    ..PhaseTotals::default()
                };
                engine.decide(&totals, &mut []);
            }
        }
        engine.stats().decisions - before
    }

    /// Decisions in a second, in which the clients with channels alternate every 300 us.
    fn churned(one: &[u32], other: &[u32]) -> u64 {
        let mut engine = engine();
        let mut decisions = 0;
        for step in 0..3333u64 {
            let now = Ns::from_us(step * 300);
            let clients = if step % 2 == 0 { one } else { other };
            let woken = engine.count(now, census(clients));
            decisions += run(&mut engine, woken, now);
        }
        decisions
    }

    #[test]
    fn client_counts_as_some_channels_at_most() {
        assert_eq!(census(&[3, 0, 12]).channels(), 15);
        assert_eq!(census(&[3, 4096]).channels(), 3 + MOST_CHANNELS);
        assert_eq!(census(&[]), Census::default());
    }

    #[test]
    fn first_channel_of_a_client_wakes_the_main_thread_a_further_one_does_not() {
        let mut engine = engine();
        assert!(engine.count(Ns::ZERO, census(&[1])));
        assert!(run(&mut engine, true, Ns::ZERO) == 0);
        assert!(engine.polling());
        assert!(!engine.count(Ns::from_us(10), census(&[7])));
        assert!(!engine.count(Ns::from_us(20), census(&[1])));
        assert!(engine.count(Ns::from_us(30), census(&[])));
    }

    #[test]
    fn second_channel_that_comes_and_goes_forces_nothing() {
        // Twelve channels: a period is 72 ms, and 14 of them a second.
        assert!(churned(&[12], &[11]) <= 15);
    }

    #[test]
    fn only_channel_that_comes_and_goes_forces_a_decision_in_the_least_gap() {
        assert!(churned(&[1], &[]) <= 200);
    }

    #[test]
    fn client_that_comes_and_goes_beside_another_forces_a_decision_in_the_least_gap() {
        let decisions = churned(&[12, 1], &[12]);
        assert!(decisions <= 200);
        // It is not ignored either.
        assert!(decisions > 50);
    }

    #[test]
    fn decision_that_was_put_off_comes() {
        let mut engine = engine();
        let woken = engine.count(Ns::ZERO, census(&[12]));
        run(&mut engine, woken, Ns::ZERO);
        assert!(engine.count(Ns::from_ms(2), census(&[12, 1])));
        assert_eq!(run(&mut engine, true, Ns::from_ms(2)), 1);
        // At 0 ms a polling phase was forced, the next may begin at 5.
        assert!(engine.count(Ns::from_ms(3), census(&[12])));
        assert_eq!(engine.next_deadline(), Some(Ns::from_ms(5)));
    }
}
