// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Which of the clients that wait passes next.

use super::client::{Flight, Payer};
use super::missed::Void;
use super::submissions::{Grant, InFlight, Step, Submissions};
use super::terms::charge;
use super::{Mode, Offer, Rank, Record, HT_DEPTH, HT_SLICE, MAX_GRANT, STARVED};
use crate::policies::dispatch::{Candidate, DispatcherKind};
use crate::storage::Storage;
use crate::units::Ns;

impl<S: Storage<Of<Record>: 'static>> Submissions<S> {
    /// A client that waits, as the dispatcher sees it, with its ticket.
    pub(super) fn candidate(&self, now: Ns, at: usize) -> Option<(Candidate, u64)> {
        let client = self.clients.get(at)?;
        let waiting = client.waiting?;
        let switched = self.last != Some(at);
        let offer = match self.reserves.get(client.setting.reserve) {
            Some(Some(reserve)) => {
                let cost = charge(reserve.terms(), &waiting.forecast, switched);
                reserve.offer(now, cost)
            }
            // Nothing is promised to others, or to it.
            _ => Offer {
                from: now,
                deadline: None,
                promised: None,
                rank: Rank::Free,
            },
        };
        let prio = client.setting.prio;
        let offer = Offer {
            from: offer.from.max(client.owed.until(now)),
            ..offer
        };
        Some((Candidate { prio, offer }, waiting.ticket))
    }

    /// The first of the ready clients but `except`, with its place in the order.
    fn first(&self, now: Ns, except: Option<usize>) -> Option<(usize, Candidate)> {
        let ready = self.positions().filter_map(|at| {
            let (candidate, ticket) = self.candidate(now, at)?;
            let ready = candidate.offer.from <= now && Some(at) != except;
            ready.then_some((self.dispatcher.order(&candidate), ticket, at, candidate))
        });
        let first = ready.min_by_key(|(order, ticket, ..)| (*order, *ticket));
        first.map(|(_, _, at, candidate)| (at, candidate))
    }

    /// The client that has waited longest, if it has waited for too long, and the one that is first
    /// otherwise may be passed over. Without a `first`, protected work keeps all from the engine.
    fn starved(&self, now: Ns, first: Option<usize>) -> Option<usize> {
        let is_promised = |at: usize| self.is_promised(at);
        if first.is_some_and(is_promised) || !self.floor.has(now) {
            return None;
        }
        let waiting = |at: usize| Some((self.client(at)?.waiting?, at));
        let waiting = self.positions().filter_map(waiting);
        let late = waiting.filter(|(waiting, at)| {
            let may = first.is_none_or(|first| *at != first && !is_promised(*at));
            waiting.since.saturating_add(STARVED) <= now && may
        });
        let (_, at) = late.min_by_key(|(waiting, _)| waiting.ticket)?;
        let (candidate, _) = self.candidate(now, at)?;
        (candidate.offer.from <= now).then_some(at)
    }

    /// When the first client will have waited for too long, if that is not so yet.
    fn starves(&self, now: Ns) -> Option<Ns> {
        let waiting = self.positions().filter_map(|at| self.client(at)?.waiting);
        let since = waiting.map(|waiting| waiting.since).min()?;
        let from = since.saturating_add(STARVED).max(self.floor.from(now));
        (from > now).then_some(from)
    }

    /// Whether the client of the turn may add a submission to those in flight.
    fn joins(&self, now: Ns, in_flight: InFlight) -> bool {
        let Some(client) = self.client(in_flight.client) else {
            return false;
        };
        let (Mode::Ht, true) = (client.setting.mode, client.in_flight() < HT_DEPTH) else {
            return false;
        };
        let own = self.candidate(now, in_flight.client).map(|(own, _)| own);
        let Some(own) = own.filter(|own| own.offer.from <= now) else {
            return false;
        };
        let Some((_, other)) = self.first(now, Some(in_flight.client)) else {
            return true;
        };
        if self.starved(now, Some(in_flight.client)).is_some() {
            return false;
        }
        let (own, other) = (self.dispatcher.order(&own), self.dispatcher.order(&other));
        own < other || own == other && now < in_flight.since.saturating_add(HT_SLICE)
    }

    /// Lets the next client pass, if one may.
    pub(super) fn select(&mut self, now: Ns) -> Step {
        if self.open {
            return Step::default();
        }
        self.count_waiting(now);
        let next = match self.in_flight {
            Some(in_flight) => self.joins(now, in_flight).then_some(in_flight.client),
            None => self.first(now, None).map(|(at, _)| at),
        };
        let next = next.filter(|at| !self.shield.holds(now, self.expected(*at)));
        let idle = self.in_flight.is_none();
        let starved = if idle { self.starved(now, next) } else { None };
        let grant = starved.or(next);
        let grant = grant.and_then(|at| self.grant(now, at, starved.is_some()));
        self.note_waits(now);
        Step {
            grant,
            timer: self.next_timer(now),
            ..Step::default()
        }
    }

    /// How long the submission of a client that waits is expected to last.
    fn expected(&self, at: usize) -> Ns {
        let waiting = self.client(at).and_then(|client| client.waiting);
        waiting.map_or(Ns::ZERO, |waiting| {
            waiting.forecast.expected(self.last != Some(at))
        })
    }

    /// Lets a client pass.
    fn grant(&mut self, now: Ns, at: usize, floor: bool) -> Option<Grant> {
        let (candidate, _) = self.candidate(now, at)?;
        self.note_overtaken(now, at);
        let waiting = self.take_waiting(now, at)?;
        let switched = self.last != Some(at);
        let client = self.clients.get_mut(at)?;
        let charged = waiting.forecast.charge(switched);
        let mut flight = Flight {
            charged,
            most: charged,
            switched,
            floor,
            ..Flight::default()
        };
        let mut expected = waiting.forecast.expected(switched);
        if let Some(Some(reserve)) = self.reserves.get_mut(client.setting.reserve) {
            let terms = *reserve.terms();
            flight.payer = Payer::Reserve(client.setting.reserve);
            let cost = charge(&terms, &waiting.forecast, switched);
            flight.most = terms
                .longest
                .map_or(charged, |longest| longest.min(charged));
            flight.bond.due = candidate.offer.promised;
            flight.fee = reserve.start(now, cost);
            flight.charged = cost.saturating_add(flight.fee);
            flight.bond.room = reserve.left(now);
            let order = (self.dispatcher == DispatcherKind::Prio).then_some(Void::Order);
            flight.bond.void = reserve.disturbed.or(order);
            expected = terms.longest.unwrap_or(expected).min(expected);
        }
        client.begin(flight);
        self.last = Some(at);
        self.in_flight.get_or_insert(InFlight {
            client: at,
            since: now,
            progress: now,
        });
        self.counters.grants = self.counters.grants.saturating_add(1);
        let starved = self.counters.starved;
        self.counters.starved = starved.saturating_add(floor.into());
        Some(Grant {
            client: at,
            expected,
            margin: waiting.forecast.margin,
        })
    }

    /// When something is due without an event.
    fn next_timer(&self, now: Ns) -> Option<Ns> {
        let mut waiting = self.positions().filter_map(|at| self.candidate(now, at));
        match self.in_flight {
            Some(in_flight) => waiting
                .next()
                .map(|_| in_flight.progress.saturating_add(MAX_GRANT)),
            None => {
                let from = waiting.map(|(candidate, _)| candidate.offer.from).min()?;
                let from = self.shield.from().map(|opens| from.max(opens));
                let starves = self.shield.is_shut(now).then(|| self.starves(now));
                [from, starves.flatten()].into_iter().flatten().min()
            }
        }
    }
}
