// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The clients of one engine: who waits, for what, and who is next.
//!
//! # Invariants
//!
//! - A client without a pending arrival gets no grant, and one arrival gets one grant.
//! - A reserve counts a pending arrival of its clients once, while its client may pass: one that gets no
//!   grant for what it owes does not keep its reserve from being idle.
//! - Each moment of a wait is booked once, for one cause.
//! - From `end` on no client is there.

use super::causes::{Cause, Held, Waits};
use super::client::{Client, Owed, Setting, Waiting};
use super::history::Record;
use crate::candidate::Offer;
use crate::engaged::allowance::Floor;
use crate::engaged::limits::{BACKGROUND, STARVED};
use crate::engaged::protected::Shield;
use crate::engaged::reserve::{Reserve, Reserves};
use crate::policies::dispatch::{Candidate, DispatcherKind};
use crate::storage::Storage;
use crate::units::Ns;
use core::ops::Range;

/// The reserves of one engine.
pub(crate) type Table<S> = Reserves<<S as Storage>::Of<Option<Reserve>>>;

/// The clients of one engine. The memory is the caller's; its length is the most clients.
pub(crate) struct Clients<S: Storage<Of<Record>: 'static>> {
    dispatcher: DispatcherKind,
    all: S::Of<Client<S::Of<Record>>>,
    /// From here on no client is there.
    end: usize,
    tickets: u64,
    /// The client that was granted last.
    last: Option<usize>,
    /// For how long clients waited, as far as it is booked.
    waited: Waits,
}

impl<S: Storage<Of<Record>: 'static>> Clients<S> {
    /// None is there.
    pub(crate) fn new(dispatcher: DispatcherKind, all: S::Of<Client<S::Of<Record>>>) -> Self {
        Self {
            dispatcher,
            all,
            end: 0,
            tickets: 0,
            last: None,
            waited: Waits::default(),
        }
    }

    /// Which invariant is broken, if one is.
    #[cfg(test)]
    pub(crate) fn broken(&self, reserves: &Table<S>) -> Option<&'static str> {
        let beyond = self.end..self.all.len();
        if beyond.into_iter().any(|at| self.get(at).is_some()) {
            return Some("a client is beyond the end");
        }
        let mut all = reserves.all();
        let is_wrong = all.any(|(at, reserve)| {
            reserve.waiting() != u32::try_from(self.counted_of(at).count()).unwrap()
        });
        is_wrong.then_some("a reserve does not count the clients that wait")
    }

    /// By what order clients pass.
    pub(crate) const fn dispatcher(&self) -> DispatcherKind {
        self.dispatcher
    }

    /// For how long clients waited, as far as it is booked.
    pub(crate) const fn waited(&self) -> &Waits {
        &self.waited
    }

    /// The client at a position, if there is one.
    pub(crate) fn get(&self, at: usize) -> Option<&Client<S::Of<Record>>> {
        self.all.get(at).filter(|client| client.is_present())
    }

    /// The client at a position, if there is one, to change it.
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut Client<S::Of<Record>>> {
        self.all.get_mut(at).filter(|client| client.is_present())
    }

    /// Positions at which clients may be there: those of all clients that are.
    pub(crate) fn positions(&self) -> Range<usize> {
        0..self.end
    }

    /// The reserve that a client has.
    pub(crate) fn reserve_of(&self, at: usize) -> Option<usize> {
        Some(self.get(at)?.setting().reserve)
    }

    /// A position at which none is.
    pub(crate) fn vacant(&self) -> Option<usize> {
        self.all.iter().position(|client| !client.is_present())
    }

    /// A client comes to this position, which is vacant.
    pub(crate) fn join_at(&mut self, at: usize, setting: Setting, owed: Owed) {
        if let Some(client) = self.all.get_mut(at) {
            client.reset(Some(setting));
            *client.owed_mut() = owed;
            self.end = self.end.max(at.saturating_add(1));
        }
    }

    /// A client is gone, which waits no longer.
    pub(crate) fn leave(&mut self, at: usize) {
        if let Some(client) = self.all.get_mut(at) {
            client.reset(None);
        }
        let mut there = self.positions();
        self.end = there
            .rfind(|at| self.get(*at).is_some())
            .map_or(0, |last| last.saturating_add(1));
        self.last = self.last.filter(|last| *last != at);
    }

    /// What those at these positions owe that owe the most, whether they are still there or not.
    pub(crate) fn owed(&self, now: Ns, positions: impl Iterator<Item = usize>) -> Owed {
        let all = positions.filter_map(|at| self.all.get(at));
        let owed = all.map(|client| *client.owed());
        owed.max_by_key(|owed| owed.until(now)).unwrap_or_default()
    }

    /// A client was on the engine beside clients that come before it.
    pub(crate) fn pay_overlap(&mut self, now: Ns, at: usize, ran: Ns) {
        if let Some(client) = self.all.get_mut(at) {
            client.pay_overlap(now, at, ran);
        }
    }

    /// A client wants to submit. Threads of it that wait at the same time count as one arrival.
    pub(crate) fn arrive(&mut self, now: Ns, at: usize) {
        let ticket = self.tickets;
        let Some(client) = self.get_mut(at).filter(|client| !client.waits()) else {
            return;
        };
        let forecast = client.forecast();
        *client.waiting_mut() = Some(Waiting {
            ticket,
            since: now,
            forecast,
            held: Held::new(now),
            overtaken: false,
            counted: false,
        });
        self.tickets = ticket.saturating_add(1);
    }

    /// Whether a client waits.
    pub(crate) fn any_waits(&self) -> bool {
        let there = self.all.get(self.positions());
        there.is_some_and(|there| there.iter().any(Client::waits))
    }

    fn waiting(&self, at: usize) -> Option<&Waiting> {
        self.all.get(at)?.waiting()
    }

    fn waiting_mut(&mut self, at: usize) -> Option<&mut Waiting> {
        self.all.get_mut(at)?.waiting_mut().as_mut()
    }

    /// A client waits no longer.
    pub(crate) fn take_waiting(
        &mut self,
        now: Ns,
        at: usize,
        reserves: &mut Table<S>,
    ) -> Option<Waiting> {
        let waiting = self.stop_waiting(now, at, reserves)?;
        self.book_wait(now, at, &waiting);
        Some(waiting)
    }

    /// The reserve of a client counts its arrival no longer.
    fn stop_waiting(&mut self, now: Ns, at: usize, reserves: &mut Table<S>) -> Option<Waiting> {
        let client = self.all.get_mut(at)?;
        let waiting = client.waiting_mut().take()?;
        if waiting.counted {
            reserves.stop_waiting(now, client.setting().reserve);
        }
        Some(Waiting {
            counted: false,
            ..waiting
        })
    }

    /// Sets something for a client. It counts from the next selection on, also if it waits.
    pub(crate) fn set(&mut self, now: Ns, at: usize, setting: Setting, reserves: &mut Table<S>) {
        let waiting = self.stop_waiting(now, at, reserves);
        if let Some(client) = self.get_mut(at) {
            client.set(setting);
            *client.waiting_mut() = waiting;
        }
    }

    /// Reserves count the clients that wait and may pass.
    pub(crate) fn count_waiting(&mut self, now: Ns, reserves: &mut Table<S>) {
        let there = self.positions();
        for client in self.all.get_mut(there).unwrap_or_default() {
            let may_pass = client.owed().until(now) <= now;
            let reserve = client.setting().reserve;
            let Some(waiting) = client.waiting_mut().as_mut() else {
                continue;
            };
            if core::mem::replace(&mut waiting.counted, may_pass) == may_pass {
                continue;
            }
            if may_pass {
                // The most that it may be asked for.
                reserves.wait(now, reserve, waiting.forecast.charge(true));
            } else {
                reserves.stop_waiting(now, reserve);
            }
        }
    }

    /// The most that the arrivals may cost that a reserve counts.
    pub(crate) fn counted_of(&self, reserve: usize) -> impl Iterator<Item = Ns> + '_ {
        let own = self.all.iter();
        let own = own.filter(move |one| one.is_present() && one.setting().reserve == reserve);
        let waiting = own.filter_map(Client::waiting);
        let counted = waiting.filter(|waiting| waiting.counted);
        counted.map(|waiting| waiting.forecast.charge(true))
    }

    /// Whether a client has a reserve of its own.
    pub(crate) fn is_promised(&self, at: usize) -> bool {
        self.reserve_of(at)
            .is_some_and(|reserve| reserve != BACKGROUND)
    }

    /// Whether another client was on the engine before, if this one passes now.
    pub(crate) fn switches_to(&self, at: usize) -> bool {
        self.last != Some(at)
    }

    /// A client was granted.
    pub(crate) fn note_granted(&mut self, at: usize) {
        self.last = Some(at);
    }

    /// A client that waits, as the dispatcher sees it, with its ticket.
    pub(crate) fn candidate(
        &self,
        now: Ns,
        at: usize,
        reserves: &Table<S>,
    ) -> Option<(Candidate, u64)> {
        let client = self.all.get(at)?;
        let waiting = client.waiting()?;
        let expected = waiting.forecast.charge(self.switches_to(at));
        let offer = reserves.offer(now, client.setting().reserve, expected);
        let prio = client.setting().prio;
        let offer = Offer {
            from: offer.from.max(client.owed().until(now)),
            ..offer
        };
        Some((Candidate { prio, offer }, waiting.ticket))
    }

    /// The first of the ready clients but `except`, as the dispatcher sees it.
    pub(crate) fn first(
        &self,
        now: Ns,
        except: Option<usize>,
        reserves: &Table<S>,
    ) -> Option<(usize, Candidate)> {
        let ready = self.positions().filter_map(|at| {
            let (candidate, ticket) = self.candidate(now, at, reserves)?;
            let ready = candidate.offer.from <= now && Some(at) != except;
            ready.then_some((self.dispatcher.order(&candidate), ticket, at, candidate))
        });
        let first = ready.min_by_key(|(order, ticket, ..)| (*order, *ticket));
        first.map(|(_, _, at, candidate)| (at, candidate))
    }

    /// The client that has waited longest, if it has waited for too long, and the one that is first
    /// otherwise may be passed over. Without a `first`, protected work keeps all from the engine.
    pub(crate) fn starved(
        &self,
        now: Ns,
        first: Option<usize>,
        floor: &Floor,
        reserves: &Table<S>,
    ) -> Option<usize> {
        let is_promised = |at: usize| self.is_promised(at);
        if first.is_some_and(is_promised) || !floor.has(now) {
            return None;
        }
        let waiting = |at: usize| Some((self.get(at)?.waiting()?, at));
        let waiting = self.positions().filter_map(waiting);
        let late = waiting.filter(|(waiting, at)| {
            let may = first.is_none_or(|first| *at != first && !is_promised(*at));
            waiting.since.saturating_add(STARVED) <= now && may
        });
        let (_, at) = late.min_by_key(|(waiting, _)| waiting.ticket)?;
        let (candidate, _) = self.candidate(now, at, reserves)?;
        (candidate.offer.from <= now).then_some(at)
    }

    /// When the first client will have waited for too long, if that is not so yet.
    pub(crate) fn starves(&self, now: Ns, floor: &Floor) -> Option<Ns> {
        let waiting = self.positions().filter_map(|at| self.get(at)?.waiting());
        let since = waiting.map(|waiting| waiting.since).min()?;
        let from = since.saturating_add(STARVED).max(floor.from(now));
        (from > now).then_some(from)
    }

    /// How long the submission of a client that waits is expected to last.
    pub(crate) fn expected(&self, at: usize) -> Ns {
        self.waiting(at).map_or(Ns::ZERO, |waiting| {
            waiting.forecast.expected(self.switches_to(at))
        })
    }

    /// Whether a client comes before another one whenever both are ready.
    pub(crate) fn comes_before(&self, first: usize, other: usize, reserves: &Table<S>) -> bool {
        let settings = [first, other].map(|at| self.get(at).map(Client::setting));
        let [Some(first), Some(other)] = settings else {
            return false;
        };
        let [promised, other_promised] =
            [first, other].map(|setting| reserves.get(setting.reserve).is_some());
        match self.dispatcher {
            DispatcherKind::Prio => (promised, first.prio) > (other_promised, other.prio),
            DispatcherKind::Edf => promised && !other_promised,
        }
    }

    /// Notes for the others that wait and are ready that a client passes before them. `begins`: it had
    /// not the turn.
    pub(crate) fn note_overtaken(
        &mut self,
        now: Ns,
        passes: usize,
        begins: bool,
        reserves: &Table<S>,
    ) {
        for at in self.positions().filter(|at| *at != passes) {
            let Some((candidate, _)) = self.candidate(now, at, reserves) else {
                continue;
            };
            let ready = candidate.offer.from <= now;
            if let Some(waiting) = self.waiting_mut(at) {
                waiting.overtaken = ready || waiting.overtaken && !begins;
            }
        }
    }

    /// Books for what clients have waited until now, and notes for what they do from now on. Returns
    /// whether deadlines are promised to one that is ready.
    pub(crate) fn note_waits(
        &mut self,
        now: Ns,
        holder: Option<usize>,
        shield: &Shield,
        reserves: &Table<S>,
    ) -> bool {
        let mut firm = false;
        for at in self.positions() {
            let Some((candidate, _)) = self.candidate(now, at, reserves) else {
                continue;
            };
            let from = candidate.offer.from;
            let reserve = self.reserve_of(at);
            firm |= from <= now && reserve.is_some_and(|reserve| reserves.is_firm(reserve));
            let Some(waiting) = self.waiting(at).copied() else {
                continue;
            };
            let cause = cause(now, at, &waiting, holder, shield);
            self.book_wait(now, at, &waiting);
            if let Some(waiting) = self.waiting_mut(at) {
                waiting.held.hold(now, from, cause);
            }
        }
        firm
    }

    /// Adds what a client has waited since it was booked to its sums and to those of all.
    fn book_wait(&mut self, now: Ns, at: usize, waiting: &Waiting) {
        let waited = waiting.held.waited(now);
        self.waited.add_all(&waited);
        if let Some(client) = self.all.get_mut(at) {
            client.book(&waited);
        }
    }
}

/// What holds up a client that is ready, while another has the turn or none.
fn cause(now: Ns, at: usize, waiting: &Waiting, holder: Option<usize>, shield: &Shield) -> Cause {
    match holder {
        Some(holder) if holder != at && waiting.overtaken => Cause::Order,
        Some(_) => Cause::Running,
        None => match shield.from() {
            None => Cause::Running,
            Some(from) if from > now => Cause::Linger,
            // Only its reserve, until the caller's timer runs.
            Some(_) => Cause::Budget,
        },
    }
}
