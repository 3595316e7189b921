// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Which clients wait for an engaged engine, and which one is on it.

use super::client::Waiting;
use super::floor::Floor;
use super::missed::{Miss, Misses};
use super::shield::Shield;
use super::terms::charge;
use super::waits::{Held, Waits};
use super::{Client, Owed, Record, Reserve, Setting, Void, HT_DEPTH, MAX_GRANT, UNUSED};
use crate::policies::dispatch::DispatcherKind;
use crate::storage::Storage;
use crate::units::Ns;
use core::ops::Range;

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

/// What follows from an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The client that may pass.
    pub grant: Option<Grant>,
    /// When [`Submissions::timer`] wants to be called, if nothing else happens before.
    pub timer: Option<Ns>,
    /// Whether all clients that wait but that of the turn may pass: see [`Submissions::is_open`].
    pub opened: bool,
    /// The submission that has ended was late.
    pub miss: Option<Miss>,
    /// It was longer than a deadline of another client bears, which is this much.
    pub exceeded: Option<Ns>,
}

/// Sums since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Grants.
    pub grants: u64,
    /// Arrivals that had to wait.
    pub waits: u64,
    /// Grants that came back unused.
    pub unused: u64,
    /// Commands of more than twice what was expected, of clients whose reserve expects something.
    pub underestimates: u64,
    /// Clients of which the longest is expected from then on.
    pub doubted: u64,
    /// Commands longer than a deadline of another client bears, that were not declared.
    pub exceeded: u64,
    /// Commands longer than the longest that the owner of their reserve had declared.
    pub breaches: u64,
    /// Times that all clients had to be let pass.
    pub opens: u64,
    /// Grants to clients that had waited for too long.
    pub starved: u64,
    /// Deadlines of reserves that were missed.
    pub misses: Misses,
    /// For how long clients waited, as far as it is booked.
    pub waited: Waits,
}

/// The clients whose submissions are in flight: one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InFlight {
    pub(super) client: usize,
    pub(super) since: Ns,
    /// When it began, or something of it completed.
    pub(super) progress: Ns,
}

/// Clients and reserves of one engaged engine. The memory is the caller's: its lengths are the most
/// clients, and one more than the most reserves: none is at [`BACKGROUND`](super::BACKGROUND).
pub struct Submissions<S: Storage<Of<Record>: 'static>> {
    pub(super) dispatcher: DispatcherKind,
    pub(super) clients: S::Of<Client<S::Of<Record>>>,
    /// From here on no client is there.
    end: usize,
    pub(super) reserves: S::Of<Option<Reserve>>,
    /// Until when what reserves have used ahead that are gone is paid for.
    pub(super) paid: Ns,
    pub(super) tickets: u64,
    pub(super) in_flight: Option<InFlight>,
    /// The client that was granted last.
    pub(super) last: Option<usize>,
    pub(super) open: bool,
    /// Since when a client that comes before that of the turn passes, since that is overdue.
    pub(super) overlaps: Option<Ns>,
    pub(super) shield: Shield,
    pub(super) floor: Floor,
    pub(super) counters: Counters,
}

impl<S: Storage<Of<Record>: 'static>> Submissions<S> {
    /// An idle engine without clients.
    pub fn new(
        dispatcher: DispatcherKind,
        clients: S::Of<Client<S::Of<Record>>>,
        reserves: S::Of<Option<Reserve>>,
    ) -> Self {
        Self {
            dispatcher,
            clients,
            end: 0,
            reserves,
            paid: Ns::ZERO,
            tickets: 0,
            in_flight: None,
            last: None,
            open: false,
            overlaps: None,
            shield: Shield::default(),
            floor: Floor::default(),
            counters: Counters::default(),
        }
    }

    /// By what order clients pass.
    pub const fn dispatcher(&self) -> DispatcherKind {
        self.dispatcher
    }

    /// Sums since the beginning.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The client at a position, if there is one.
    pub fn client(&self, at: usize) -> Option<&Client<S::Of<Record>>> {
        self.clients.get(at).filter(|client| client.present)
    }

    /// Positions at which clients may be there: those of all clients that are.
    pub(super) fn positions(&self) -> Range<usize> {
        0..self.end
    }

    /// The reserve at a position, if there is one.
    pub fn reserve(&self, at: usize) -> Option<&Reserve> {
        self.reserves.get(at)?.as_ref()
    }

    /// Whose submissions are in flight.
    pub fn holder(&self) -> Option<usize> {
        self.in_flight.map(|in_flight| in_flight.client)
    }

    /// Whether all clients but that of the turn pass, because nothing of it completed for
    /// [`MAX_GRANT`].
    pub const fn is_open(&self) -> bool {
        self.open
    }

    /// A client comes. Nothing if there is no room.
    pub fn join(&mut self, setting: Setting) -> Option<usize> {
        let at = self.clients.iter().position(|client| !client.present)?;
        self.join_at(at, setting, Owed::default());
        Some(at)
    }

    /// A client comes to this position, which is vacant.
    pub fn join_at(&mut self, at: usize, setting: Setting, owed: Owed) {
        if let Some(client) = self.clients.get_mut(at) {
            client.reset(Some(setting));
            client.owed = owed;
            self.end = self.end.max(at.saturating_add(1));
        }
    }

    /// A client wants to submit. Threads of it that wait at the same time count as one arrival: a
    /// grant lets the client pass, and those that did not make it arrive again.
    pub fn arrive(&mut self, now: Ns, at: usize) -> Step {
        let Some(client) = self.client(at) else {
            return self.select(now);
        };
        let forecast = client.forecast();
        if self.is_open_for(at) {
            self.note_overlap(now, at);
            return Step {
                grant: Some(Grant {
                    client: at,
                    expected: forecast.mean,
                    margin: forecast.margin,
                }),
                ..Step::default()
            };
        }
        if let Some(client) = self.clients.get_mut(at).filter(|client| !client.waits()) {
            let ticket = self.tickets;
            self.tickets = ticket.saturating_add(1);
            client.waiting = Some(Waiting {
                ticket,
                since: now,
                forecast,
                held: Held::new(now),
                overtaken: false,
                counted: false,
            });
        }
        let step = self.select(now);
        if step.grant.is_none_or(|grant| grant.client != at) {
            self.counters.waits = self.counters.waits.saturating_add(1);
        }
        step
    }

    /// The oldest submission of a client in flight has completed and used the engine for `used`.
    pub fn completed(&mut self, now: Ns, at: usize, used: Ns) -> Step {
        self.end(now, at, used, true)
    }

    /// As [`completed`](Self::completed), while the engine still had work that had passed without a
    /// decision: `used` is no length of the submission then, and it is charged what was expected of
    /// it at most.
    pub fn completed_beside_others(&mut self, now: Ns, at: usize, used: Ns) -> Step {
        self.end(now, at, used, false)
    }

    /// `alone`: nothing else was on the engine.
    fn end(&mut self, now: Ns, at: usize, used: Ns, alone: bool) -> Step {
        let Some(client) = self.clients.get_mut(at).filter(|client| client.present) else {
            return self.select(now);
        };
        client.unused = 0;
        let flight = client.end();
        let switched = flight.is_none_or(|flight| flight.switched);
        match alone {
            true => client.history.learn(used, switched),
            false => client.history.count(),
        }
        let Some(flight) = flight else {
            // It passed while all did.
            let index = client.setting.reserve;
            if let Some(Some(reserve)) = self.reserves.get_mut(index) {
                reserve.charge(now, used);
            }
            return self.select(now);
        };
        let most = if alone { used } else { flight.most };
        let used = used.min(most);
        let ended = client.in_flight() == 0;
        let exceeded = self.disturb(now, at, flight.reserve(), used);
        let miss = self.settle(now, at, flight, used, alone);
        if !alone {
            self.disturb_all(Void::Fallback);
        }
        if ended {
            self.leave_engine(now, at);
        } else if let Some(in_flight) = self.in_flight.as_mut() {
            in_flight.progress = now;
        }
        Step {
            miss,
            exceeded,
            ..self.select(now)
        }
    }

    /// A client did not use its newest grant: it was stopped, or it returned from the fault for
    /// another reason. The caller asks for no further grant of it before it knows.
    pub fn returned(&mut self, now: Ns, at: usize) -> Step {
        self.counters.unused = self.counters.unused.saturating_add(1);
        let flight = self.clients.get_mut(at).and_then(|client| {
            client.unused = client.unused.saturating_add(1);
            client.take_back()
        });
        if let Some(flight) = flight {
            // Alone, it kept the engine from others meanwhile.
            let alone = self
                .client(at)
                .is_some_and(|client| client.in_flight() == 0);
            let since = self
                .in_flight
                .filter(|_| alone)
                .map(|in_flight| in_flight.progress);
            let held = since.map_or(Ns::ZERO, |since| now.saturating_sub(since));
            self.charge(now, at, flight, held.max(UNUSED));
            if self
                .clients
                .get(at)
                .is_some_and(|client| client.in_flight() == 0)
            {
                self.leave_engine(now, at);
            }
        }
        self.select(now)
    }

    /// A client that waited does so no longer: a signal ended its threads.
    pub fn withdrawn(&mut self, now: Ns, at: usize) -> Step {
        self.take_waiting(now, at);
        self.select(now)
    }

    /// A client is gone; what it had in flight is charged, and not waited for.
    pub fn left(&mut self, now: Ns, at: usize) -> Step {
        self.take_waiting(now, at);
        self.end_flights(now, at);
        if let Some(client) = self.clients.get_mut(at) {
            client.reset(None);
        }
        let mut there = self.positions();
        self.end = there
            .rfind(|at| self.client(*at).is_some())
            .map_or(0, |last| last.saturating_add(1));
        self.leave_engine(now, at);
        self.last = self.last.filter(|last| *last != at);
        self.select(now)
    }

    /// Forgets the clients that wait and what is in flight: the GPU is not scheduled for a while.
    pub fn abandon(&mut self, now: Ns) {
        for at in self.positions() {
            self.take_waiting(now, at);
            self.end_flights(now, at);
        }
        self.in_flight = None;
        self.open = false;
        self.overlaps = None;
    }

    /// What a client has in flight is not waited for. The first pays for the time since something
    /// completed, in which it kept the engine from others, or all had to pass; each pays what a grant
    /// costs at least.
    fn end_flights(&mut self, now: Ns, at: usize) {
        let in_flight = self.in_flight.filter(|in_flight| in_flight.client == at);
        let held = in_flight.map_or(Ns::ZERO, |in_flight| {
            now.saturating_sub(in_flight.progress).min(MAX_GRANT)
        });
        for number in 0..HT_DEPTH {
            let Some(flight) = self.clients.get_mut(at).and_then(Client::end) else {
                break;
            };
            let used = if number == 0 { held } else { Ns::ZERO };
            self.disturb(now, at, flight.reserve(), used);
            self.charge(now, at, flight, used.max(UNUSED));
        }
    }

    /// Sets something for a client. It counts from the next selection on, also if it waits.
    pub fn set(&mut self, now: Ns, at: usize, setting: Setting) -> Step {
        let waiting = self.stop_waiting(now, at);
        if let Some(client) = self.clients.get_mut(at).filter(|client| client.present) {
            client.setting = setting;
            client.waiting = waiting;
        }
        self.select(now)
    }

    /// Whether a client waits.
    pub fn waits(&self) -> bool {
        let there = self.clients.get(self.positions());
        there.is_some_and(|there| there.iter().any(Client::waits))
    }

    /// Time has passed: a reserve may have been filled up, or nothing completed for too long.
    pub fn timer(&mut self, now: Ns) -> Step {
        let overdue = self
            .in_flight
            .is_some_and(|in_flight| in_flight.progress.saturating_add(MAX_GRANT) <= now);
        if overdue && !self.open && self.waits() {
            self.open = true;
            self.counters.opens = self.counters.opens.saturating_add(1);
            self.void_all(now);
            // The client of the turn waits for its end.
            let holder = self.holder();
            let others = self.positions().filter(|at| Some(*at) != holder);
            for at in others {
                if self.take_waiting(now, at).is_some() {
                    self.note_overlap(now, at);
                }
            }
            return Step {
                opened: true,
                ..Step::default()
            };
        }
        self.select(now)
    }

    /// A client waits no longer.
    pub(super) fn take_waiting(&mut self, now: Ns, at: usize) -> Option<Waiting> {
        let waiting = self.stop_waiting(now, at)?;
        self.book_wait(now, at, &waiting);
        Some(waiting)
    }

    /// The reserve of a client counts its arrival no longer.
    fn stop_waiting(&mut self, now: Ns, at: usize) -> Option<Waiting> {
        let client = self.clients.get_mut(at)?;
        let waiting = client.waiting.take()?;
        if waiting.counted {
            if let Some(Some(reserve)) = self.reserves.get_mut(client.setting.reserve) {
                reserve.stop_waiting(now);
            }
        }
        Some(Waiting {
            counted: false,
            ..waiting
        })
    }

    /// Reserves count the clients that wait and may pass: one that gets no grant for what it owes
    /// does not keep its reserve from being idle.
    pub(super) fn count_waiting(&mut self, now: Ns) {
        let there = self.positions();
        for client in self.clients.get_mut(there).unwrap_or_default() {
            let may_pass = client.owed.until(now) <= now;
            let Some(waiting) = client.waiting.as_mut() else {
                continue;
            };
            if core::mem::replace(&mut waiting.counted, may_pass) == may_pass {
                continue;
            }
            let Some(Some(reserve)) = self.reserves.get_mut(client.setting.reserve) else {
                continue;
            };
            if may_pass {
                // The most that it may be asked for.
                let cost = charge(reserve.terms(), &waiting.forecast, true);
                reserve.wait(now, cost);
            } else {
                reserve.stop_waiting(now);
            }
        }
    }
}
