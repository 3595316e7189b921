// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What happens to submissions, and what follows: which client may pass.
//!
//! Three owners keep what there is: the [clients](Clients) that wait, the [reserves](Reserves), and the
//! [turn](Turn) with what is in flight; this tells each of an event what concerns it, and selects. It is
//! told what happened, and gives back at most one grant and the time at which it wants to be called
//! again. No call takes longer than the number of clients.
//!
//! # Invariants
//!
//! - The engine is not idle while a waiting client is *ready*: its reserve lets it start now, and no
//!   protected client uses the engine or did so less than `linger` ago. A client without budget is
//!   not chosen, so no turn is lost to one.
//! - Of several ready clients, the [dispatcher](crate::policies::dispatch) says which is first;
//!   among equals, the one that has waited longest. One that has waited for [`STARVED`] comes
//!   before it, if neither has a reserve: see `allowance`.

use crate::engaged::allowance::Floor;
use crate::engaged::limits::{
    BACKGROUND, HT_DEPTH, MAX_DEBT, MAX_GRANT, SHARED_QUEUE, STARVED, UNUSED,
};
use crate::engaged::protected::Shield;
use crate::engaged::queue::{Client, Clients, Mode, Owed, Record, Setting, Surprise, Table, Waits};
use crate::engaged::reserve::{Flight, Miss, Misses, Reserve, Reserves, Terms, Void};
use crate::engaged::turn::{Grant, Turn};
use crate::policies::dispatch::DispatcherKind;
use crate::storage::Storage;
use crate::units::Ns;

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

/// Clients and reserves of one engaged engine. The memory is the caller's: its lengths are the most
/// clients, and one more than the most reserves: none is at [`BACKGROUND`].
pub struct Submissions<S: Storage<Of<Record>: 'static>> {
    clients: Clients<S>,
    reserves: Table<S>,
    turn: Turn,
    shield: Shield,
    floor: Floor,
    counters: Counters,
}

impl<S: Storage<Of<Record>: 'static>> Submissions<S> {
    /// An idle engine without clients.
    pub fn new(
        dispatcher: DispatcherKind,
        clients: S::Of<Client<S::Of<Record>>>,
        reserves: S::Of<Option<Reserve>>,
    ) -> Self {
        Self {
            clients: Clients::new(dispatcher, clients),
            reserves: Reserves::new(reserves),
            turn: Turn::default(),
            shield: Shield::default(),
            floor: Floor::default(),
            counters: Counters::default(),
        }
    }

    /// By what order clients pass.
    pub const fn dispatcher(&self) -> DispatcherKind {
        self.clients.dispatcher()
    }

    /// Sums since the beginning.
    pub fn counters(&self) -> Counters {
        Counters {
            waited: *self.clients.waited(),
            ..self.counters
        }
    }

    /// Commands longer than declared, since the beginning.
    pub(super) const fn breaches(&self) -> u64 {
        self.counters.breaches
    }

    /// The client at a position, if there is one.
    pub fn client(&self, at: usize) -> Option<&Client<S::Of<Record>>> {
        self.clients.get(at)
    }

    /// The reserve at a position, if there is one.
    pub fn reserve(&self, at: usize) -> Option<&Reserve> {
        self.reserves.get(at)
    }

    /// Whose submissions are in flight.
    pub fn holder(&self) -> Option<usize> {
        self.turn.holder()
    }

    /// Whether all clients but that of the turn pass, because nothing of it completed for
    /// [`MAX_GRANT`].
    pub const fn is_open(&self) -> bool {
        self.turn.is_open()
    }

    /// Whether a client passes without a decision, since that of the turn is overdue.
    pub fn is_open_for(&self, at: usize) -> bool {
        self.turn.is_open() && self.turn.holder() != Some(at)
    }

    /// Whether a client waits.
    pub fn waits(&self) -> bool {
        self.clients.any_waits()
    }

    /// What those at these positions owe that owe the most, whether they are still there or not.
    pub fn owed(&self, now: Ns, wait_queues: impl Iterator<Item = usize>) -> Owed {
        self.clients.owed(now, wait_queues)
    }

    /// Which invariant of an owner is broken, if one is.
    #[cfg(test)]
    pub(crate) fn broken(&self) -> Option<&'static str> {
        let mut turn = self.turn;
        let flights = turn.flights_mut();
        let reserves = self.reserves.broken(flights);
        self.turn
            .broken()
            .or(reserves)
            .or_else(|| self.clients.broken(&self.reserves))
    }

    /// A client gets no grant before this.
    #[cfg(test)]
    pub(in crate::engaged) fn bar(&mut self, at: usize, until: Ns) {
        self.clients.get_mut(at).unwrap().owed_mut().bar(until);
    }

    /// A client comes. Nothing if there is no room.
    pub fn join(&mut self, setting: Setting) -> Option<usize> {
        let at = self.clients.vacant()?;
        self.join_at(at, setting, Owed::default());
        Some(at)
    }

    /// A client comes to this position, which is vacant.
    pub fn join_at(&mut self, at: usize, setting: Setting, owed: Owed) {
        self.clients.join_at(at, setting, owed);
    }

    /// A client wants to submit. Threads of it that wait at the same time count as one arrival: a
    /// grant lets the client pass, and those that did not make it arrive again.
    pub fn arrive(&mut self, now: Ns, at: usize) -> Step {
        let Some(client) = self.clients.get(at) else {
            return self.select(now);
        };
        if self.is_open_for(at) {
            let forecast = client.forecast();
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
        self.clients.arrive(now, at);
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
        let Some(client) = self.clients.get_mut(at) else {
            return self.select(now);
        };
        let flight = self.turn.end(at);
        let switched = flight.is_none_or(|flight| flight.is_switched());
        client.used(alone.then_some(used), switched);
        let Some(flight) = flight else {
            // It passed while all did.
            self.reserves
                .charge_ungranted(now, client.setting().reserve, used);
            return self.select(now);
        };
        let most = if alone { used } else { flight.most() };
        let used = used.min(most);
        let exceeded = self.disturb(now, at, flight.reserve(), used);
        let miss = self.settle(now, at, flight, used, alone);
        if !alone {
            self.reserves.disturb_all(Void::Fallback);
        }
        if self.turn.in_flight(at) == 0 {
            self.leave_engine(now, at);
        } else {
            self.turn.note_progress(now);
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
        if let Some(client) = self.clients.get_mut(at) {
            client.did_not_use();
        }
        if let Some(flight) = self.turn.take_back(at) {
            // Alone, it kept the engine from others meanwhile.
            let alone = self.turn.in_flight(at) == 0;
            let held = self.turn.held(now).filter(|_| alone);
            let used = held.unwrap_or(Ns::ZERO).max(UNUSED);
            self.charge(now, at, &flight, used);
            if alone {
                self.leave_engine(now, at);
            }
        }
        self.select(now)
    }

    /// A client that waited does so no longer: a signal ended its threads.
    pub fn withdrawn(&mut self, now: Ns, at: usize) -> Step {
        self.clients.take_waiting(now, at, &mut self.reserves);
        self.select(now)
    }

    /// A client is gone; what it had in flight is charged, and not waited for.
    pub fn left(&mut self, now: Ns, at: usize) -> Step {
        self.clients.take_waiting(now, at, &mut self.reserves);
        self.end_flights(now, at);
        self.clients.leave(at);
        self.leave_engine(now, at);
        self.select(now)
    }

    /// Forgets the clients that wait and what is in flight: the GPU is not scheduled for a while.
    pub fn abandon(&mut self, now: Ns) {
        for at in self.clients.positions() {
            self.clients.take_waiting(now, at, &mut self.reserves);
            self.end_flights(now, at);
        }
        self.turn.forget();
    }

    /// What a client has in flight is not waited for. The first pays for the time since something
    /// completed, in which it kept the engine from others, or all had to pass; each pays what a grant
    /// costs at least.
    fn end_flights(&mut self, now: Ns, at: usize) {
        let held = self.turn.held(now).unwrap_or(Ns::ZERO).min(MAX_GRANT);
        for number in 0..HT_DEPTH {
            let Some(flight) = self.turn.end(at) else {
                break;
            };
            let used = if number == 0 { held } else { Ns::ZERO };
            self.disturb(now, at, flight.reserve(), used);
            self.charge(now, at, &flight, used.max(UNUSED));
        }
    }

    /// Sets something for a client. It counts from the next selection on, also if it waits.
    pub fn set(&mut self, now: Ns, at: usize, setting: Setting) -> Step {
        self.clients.set(now, at, setting, &mut self.reserves);
        self.select(now)
    }

    /// Adds a reserve that was admitted. Nothing if there is no room.
    pub fn promise(&mut self, now: Ns, terms: Terms) -> Option<usize> {
        let at = self.reserves.vacant()?;
        self.set_reserve(now, at, Some(terms));
        Some(at)
    }

    /// What the reserve at a position promises from now on, if anything.
    pub fn set_reserve(&mut self, now: Ns, at: usize, terms: Option<Terms>) {
        let waiting = self.clients.counted_of(at);
        let flights = self.turn.flights_mut();
        self.reserves.set(now, at, terms, flights, waiting);
    }

    /// The longest command of others that the deadline of a reserve bears, see
    /// [`bears`](crate::engaged::bears); `None`: commands of any length.
    pub fn set_bound(&mut self, at: usize, bound: Option<Ns>) {
        self.reserves.set_bound(at, bound);
    }

    /// Time has passed: a reserve may have been filled up, or nothing completed for too long.
    pub fn timer(&mut self, now: Ns) -> Step {
        let overdue = self.turn.overdue_from().is_some_and(|from| from <= now);
        if !overdue || self.turn.is_open() || !self.waits() {
            return self.select(now);
        }
        self.turn.open();
        self.counters.opens = self.counters.opens.saturating_add(1);
        self.void_all(now);
        // The client of the turn waits for its end.
        let holder = self.turn.holder();
        for at in self.clients.positions().filter(|at| Some(*at) != holder) {
            let waiting = self.clients.take_waiting(now, at, &mut self.reserves);
            if waiting.is_some() {
                self.note_overlap(now, at);
            }
        }
        Step {
            opened: true,
            ..Step::default()
        }
    }

    /// Counts clients that wait for what is overdue, when all have to pass.
    fn void_all(&mut self, now: Ns) {
        for at in self.clients.positions() {
            let candidate = self.clients.candidate(now, at, &self.reserves);
            let reserve = self.clients.reserve_of(at);
            let (Some((candidate, _)), Some(reserve)) = (candidate, reserve) else {
                continue;
            };
            if self.reserves.void(now, reserve, candidate.offer.promised) {
                self.counters.misses.add(Some(Void::Fallback));
            }
        }
    }

    /// Work that a client submitted in an earlier turn was on the engine for this time, until now.
    /// Its reserve pays; and if a client that comes before it has the turn, it pays for that too, see
    /// `turn::leftovers`, but not while all may pass since the turn is overdue. True if the turn is
    /// another client's.
    pub fn ran_beside(&mut self, now: Ns, at: usize, ran: Ns) -> bool {
        let holder = self.turn.holder();
        if holder == Some(at) {
            // Its turn pays.
            return false;
        }
        let Some(reserve) = self.clients.reserve_of(at) else {
            return holder.is_some();
        };
        self.reserves.charge_ungranted(now, reserve, ran);
        let Some(holder) = holder else {
            return false;
        };
        self.disturb(now, at, Some(reserve), ran);
        if self.clients.comes_before(holder, at, &self.reserves) && !self.turn.is_open() {
            self.clients.pay_overlap(now, at, ran);
        }
        true
    }

    /// A client passes, since that of the turn is overdue.
    fn note_overlap(&mut self, now: Ns, passes: usize) {
        let before = |holder| self.clients.comes_before(passes, holder, &self.reserves);
        if self.turn.holder().is_some_and(before) {
            self.turn.note_overlap(now);
        }
    }

    /// The turn ends if it is this client's. What it ran beside clients that come before it and had
    /// to pass, it pays.
    fn leave_engine(&mut self, now: Ns, at: usize) {
        if let Some(since) = self.turn.leave(at) {
            let ran = now.saturating_sub(since);
            self.clients.pay_overlap(now, at, ran);
        }
    }

    /// Notes a submission of a client that has ended: it may have been longer than other reserves
    /// count with. Then its client gets no grant until the time that is not promised would have paid
    /// for what was too much: so long commands of it cannot follow each other. Returns what the
    /// deadline of one bears, if it was longer than that.
    fn disturb(&mut self, now: Ns, at: usize, of: Option<usize>, used: Ns) -> Option<Ns> {
        let client = self.clients.get(at);
        let may = client.map_or(1, |client| client.setting().mode.depth());
        // CAST: a small number.
        let left = self.turn.in_flight(at) as u64;
        let excess = self.reserves.disturb(of, used, may, left)?;
        self.counters.exceeded = self.counters.exceeded.saturating_add(1);
        // Users that share the wait queue of all do not stop each other for long.
        let most = if at == SHARED_QUEUE {
            STARVED
        } else {
            MAX_DEBT
        };
        if let (Some(debt), Some(client)) = (excess.debt, self.clients.get_mut(at)) {
            let until = now.saturating_add(debt.min(most));
            client.owed_mut().bar(until);
        }
        Some(excess.bears)
    }

    /// Charges a submission of a client that has ended.
    fn charge(&mut self, now: Ns, of: usize, flight: &Flight, used: Ns) {
        if flight.is_of_floor() {
            self.floor.pay(now, used);
        }
        let present = self.clients.reserve_of(of);
        self.reserves.charge(now, present, flight, used);
    }

    /// Charges a submission that has completed, and judges what was expected and promised of it.
    fn settle(
        &mut self,
        now: Ns,
        at: usize,
        flight: Flight,
        used: Ns,
        alone: bool,
    ) -> Option<Miss> {
        self.charge(now, at, &flight, used);
        let beside = self.turn.flights_mut();
        if let Some(reserve) = self.clients.reserve_of(at) {
            let all = beside.iter_mut();
            all.for_each(|other| other.blame_change(&flight, reserve));
        }
        let settled = self.reserves.settle(now, flight, used, alone, beside);
        let breaches = self.counters.breaches;
        self.counters.breaches = breaches.saturating_add(settled.breach.into());
        self.compare(at, &flight, used);
        settled.miss.map(|(late, void)| {
            self.counters.misses.add(void);
            Miss {
                client: at,
                late,
                void,
            }
        })
    }

    /// Compares a submission that has completed with what was expected of it.
    fn compare(&mut self, at: usize, flight: &Flight, used: Ns) {
        let expects = self.reserves.expects(flight.reserve());
        let Some(client) = self.clients.get_mut(at).filter(|_| expects) else {
            return;
        };
        let surprise = client.compare(flight.charged(), used);
        let counters = &mut self.counters;
        if surprise != Surprise::No {
            counters.underestimates = counters.underestimates.saturating_add(1);
        }
        if surprise == Surprise::Doubted {
            counters.doubted = counters.doubted.saturating_add(1);
        }
    }

    /// Keeps the engine idle so long after work of protected clients, at most
    /// [`MAX_LINGER`](crate::engaged::MAX_LINGER). `adapts`: only as long as their pauses last, so long
    /// at most.
    pub fn set_linger(&mut self, linger: Ns, adapts: bool) {
        self.shield.set_linger(linger, adapts);
    }

    /// Work of protected clients is there from now on, or none is.
    pub fn protected(&mut self, now: Ns, busy: bool) -> Step {
        let waits = self.waits();
        self.shield.note(now, busy, waits);
        self.select(now)
    }

    /// Whether the end of the work of protected clients has to be seen, for which another client
    /// waits, or that of a pause.
    pub fn watches_protected(&self, now: Ns, busy: bool) -> bool {
        busy && self.waits() || self.shield.learns(now)
    }

    /// Whether work of protected clients is there is not known until [`protected`](Self::protected)
    /// says so: no client passes until then, but one that has waited for too long.
    pub fn doubt(&mut self) {
        self.shield.doubt();
    }

    /// Lets the next client pass, if one may.
    fn select(&mut self, now: Ns) -> Step {
        if self.turn.is_open() {
            return Step::default();
        }
        self.clients.count_waiting(now, &mut self.reserves);
        let holder = self.turn.holder();
        let next = match holder {
            Some(holder) => self.joins(now, holder).then_some(holder),
            None => self
                .clients
                .first(now, None, &self.reserves)
                .map(|(at, _)| at),
        };
        let next = next.filter(|at| !self.shield.holds(now, self.clients.expected(*at)));
        let starved = match holder {
            Some(_) => None,
            None => self.clients.starved(now, next, &self.floor, &self.reserves),
        };
        let grant = starved.or(next);
        let grant = grant.and_then(|at| self.grant(now, at, starved.is_some()));
        self.note_waits(now);
        Step {
            grant,
            timer: self.next_timer(now),
            ..Step::default()
        }
    }

    /// Whether the client of the turn may add a submission to those in flight.
    fn joins(&self, now: Ns, holder: usize) -> bool {
        let mode = self.clients.get(holder).map(|client| client.setting().mode);
        if mode != Some(Mode::Ht) || !self.turn.has_room() {
            return false;
        }
        let own = self.clients.candidate(now, holder, &self.reserves);
        let Some((own, _)) = own.filter(|(own, _)| own.offer.from <= now) else {
            return false;
        };
        let first = self.clients.first(now, Some(holder), &self.reserves);
        let Some((_, other)) = first else {
            return true;
        };
        let starved = self
            .clients
            .starved(now, Some(holder), &self.floor, &self.reserves);
        if starved.is_some() {
            return false;
        }
        let dispatcher = self.clients.dispatcher();
        let (own, other) = (dispatcher.order(&own), dispatcher.order(&other));
        own < other || own == other && self.turn.is_young(now)
    }

    /// Lets a client pass. `floor`: since it has waited for too long.
    fn grant(&mut self, now: Ns, at: usize, floor: bool) -> Option<Grant> {
        let (candidate, _) = self.clients.candidate(now, at, &self.reserves)?;
        let begins = self.turn.holder().is_none();
        self.clients.note_overtaken(now, at, begins, &self.reserves);
        let waiting = self.clients.take_waiting(now, at, &mut self.reserves)?;
        let forecast = waiting.forecast();
        let switched = self.clients.switches_to(at);
        let mut flight = Flight::new(forecast.charge(switched), switched, floor);
        let reserve = self.clients.reserve_of(at).unwrap_or(BACKGROUND);
        let is_prio = self.clients.dispatcher() == DispatcherKind::Prio;
        let order = is_prio.then_some(Void::Order);
        let due = candidate.offer.promised;
        let longest = self.reserves.start(now, reserve, &mut flight, due, order);
        let expected = forecast.expected(switched);
        self.turn.begin(now, at, flight);
        self.clients.note_granted(at);
        self.counters.grants = self.counters.grants.saturating_add(1);
        let starved = self.counters.starved;
        self.counters.starved = starved.saturating_add(floor.into());
        Some(Grant {
            client: at,
            expected: longest.map_or(expected, |longest| longest.min(expected)),
            margin: forecast.margin,
        })
    }

    /// Books for what clients have waited. If none with a promised deadline has the turn, or is ready
    /// and waits, nothing is left of what has disturbed reserves before.
    fn note_waits(&mut self, now: Ns) {
        let holder = self.turn.holder();
        let reserve = holder.and_then(|holder| self.clients.reserve_of(holder));
        let runs = reserve.is_some_and(|reserve| self.reserves.is_firm(reserve));
        let waits = self
            .clients
            .note_waits(now, holder, &self.shield, &self.reserves);
        if !runs && !waits {
            self.reserves.calm();
        } else if self.shield.is_shut(now) {
            self.reserves.disturb_all(Void::Foreign);
        }
    }

    /// When something is due without an event.
    fn next_timer(&self, now: Ns) -> Option<Ns> {
        let candidate = |at| self.clients.candidate(now, at, &self.reserves);
        let mut waiting = self.clients.positions().filter_map(candidate);
        if let Some(overdue) = self.turn.overdue_from() {
            return waiting.next().map(|_| overdue);
        }
        let from = waiting.map(|(candidate, _)| candidate.offer.from).min()?;
        let from = self.shield.from().map(|opens| from.max(opens));
        let starves = self.shield.is_shut(now);
        let starves = starves.then(|| self.clients.starves(now, &self.floor));
        [from, starves.flatten()].into_iter().flatten().min()
    }
}
