// SPDX-License-Identifier: GPL-2.0

//! [pure] What is decided on the submissions of one GPU: the fault path and the watcher without
//! threads, pages and registers.
//!
//! The caller has a lock around it, a clock, and threads that sleep at places. It tells the
//! [`Decider`] of each [store](Decider::store), of clients that come, change and go, and, as its
//! watcher, of what it reads ([`Decider::next_action`]). The decider answers with what has to be done, and
//! says whose threads have to be woken ([`Decider::take_wakes`]) and when the watcher has to run
//! ([`Decider::next`]). No call allocates, sleeps or reads a clock.
//!
//! All clients pass while there are no [`Turns`]; one passes without a decision if it has no place,
//! or if all may pass because a turn is overdue. The decider remembers that ([`Decider::leak`]): the
//! entries that were made so have to go before it decides again.

use super::leftovers::Leftovers;
use super::missed::Misses;
use super::places::{Places, CROWD, PLACES};
use super::protected::Protected;
use super::reports::{Report, Reports};
use super::running::Running;
use super::specs::{reserve_of, Row, Specs, SPECS};
use super::turns::{Step, Turns, BACKGROUND};
use super::waits::Waits;
use super::wakes::Wakes;
use super::watch::Watch;
use super::{Mode, Record, Setting};
use crate::candidate::Prio;
use crate::ids::Chid;
use crate::storage::Storage;
use crate::units::Ns;
use core::ops::DerefMut;

/// The answer to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// It passes without a decision.
    Passes,
    /// The window of its client is open: it passes if its page has an entry, or gets one.
    Joins,
    /// The window of its client opens with it: its page gets an entry.
    Opens,
    /// Its thread has to wait: see [`Decider::sleeps`].
    Waits,
}

/// What a spec says.
#[derive(Clone, Copy, Default)]
struct Followed {
    prio: Option<Prio>,
    mode: Mode,
    /// Whether it has a reserve.
    promised: bool,
}

/// What is decided on the submissions of one GPU.
pub struct Decider<S: Storage<Of<Record>: 'static>> {
    /// While submissions are decided on.
    pub(super) turns: Option<Turns<S>>,
    /// What clients waited, and what was missed, under turns of before.
    past: (Waits, Misses),
    /// The turn of one client, as the watcher sees it, and its channels with work.
    pub(super) watch: Watch,
    pub(super) running: Running,
    /// Channels with work that goes on after its turn.
    pub(super) leftovers: Leftovers,
    /// Channels with work that passed without a decision, as far as it has not ended.
    pub(super) undecided: Running,
    /// How long its end is waited for.
    pub(super) undecided_until: Ns,
    /// Which clients have which place, and what their specs say.
    places: Places,
    specs: [Followed; SPECS],
    pub(super) protected: Protected,
    /// Threads that sleep, by place.
    pub(super) sleepers: [u32; PLACES],
    /// When the turns want to be asked.
    pub(super) timer: Option<Ns>,
    /// Clients passed without being decided on: all entries have to go.
    pub(super) leaked: bool,
    pub(super) wakes: Wakes,
    /// What has happened to clients, until it is told.
    pub(super) reports: Reports,
}

impl<S: Storage<Of<Record>: 'static>> Default for Decider<S> {
    fn default() -> Self {
        Self {
            turns: None,
            past: Default::default(),
            watch: Watch::default(),
            running: Running::NONE,
            leftovers: Leftovers::default(),
            undecided: Running::NONE,
            undecided_until: Ns::ZERO,
            places: Places::default(),
            specs: [Followed::default(); SPECS],
            protected: Protected::default(),
            sleepers: [0; PLACES],
            timer: None,
            leaked: false,
            wakes: Wakes::default(),
            reports: Reports::NONE,
        }
    }
}

impl<S: Storage<Of<Record>: 'static>> Decider<S> {
    /// The clients and reserves, while submissions are decided on.
    pub const fn turns(&self) -> Option<&Turns<S>> {
        self.turns.as_ref()
    }

    /// What clients waited, and what was missed, since the beginning.
    pub fn sums(&self) -> (Waits, Misses) {
        let (mut waits, mut misses) = self.past;
        if let Some(turns) = &self.turns {
            waits.add_all(&turns.counters().waited);
            misses.add_all(&turns.counters().misses);
        }
        (waits, misses)
    }

    /// Decides by these turns from now on, or lets all pass, if there are none. Those of before are
    /// in `turns` afterwards, for the caller to drop without its lock. The pages with entries are no
    /// longer those of a turn, as after [`forget_turn`](Self::forget_turn).
    pub fn replace(&mut self, now: Ns, turns: &mut Option<Turns<S>>) {
        self.forget_turn(now);
        self.past = self.sums();
        match turns {
            Some(_) => self.places = Places::default(),
            None => self.protected.set(false),
        }
        core::mem::swap(&mut self.turns, turns);
    }

    /// Forgets the turn: all clients that wait pass, or try again.
    pub fn forget_turn(&mut self, now: Ns) {
        if let Some(turns) = self.turns.as_mut() {
            turns.abandon(now);
        }
        self.watch = Watch::default();
        (self.running, self.undecided) = (Running::NONE, Running::NONE);
        self.leftovers = Leftovers::default();
        self.timer = None;
        self.wakes.add_all(None);
    }

    /// Clients pass without being decided on: all entries have to go.
    pub fn leak(&mut self) {
        self.leaked = true;
    }

    /// Whether they did.
    pub const fn has_leaked(&self) -> bool {
        self.leaked
    }

    /// Whose threads have to be woken. The caller does so once it has released its lock.
    pub fn take_wakes(&mut self) -> Wakes {
        core::mem::take(&mut self.wakes)
    }

    /// What there is to tell of the clients at a place, from this one on; it is told once.
    pub fn take_report(&mut self, from: usize) -> Option<(usize, Report)> {
        self.reports.take(from)
    }

    /// Whether all clients had to pass since that was told last.
    pub fn take_opened(&mut self) -> bool {
        self.reports.take_opened()
    }

    /// When the watcher has to run, if nothing else happens before.
    pub fn next(&self) -> Option<Ns> {
        let all = [
            self.watch.next(),
            self.protected.next(),
            self.leftovers.next(),
            self.timer,
        ];
        all.into_iter().flatten().min()
    }

    /// Decides on a store to a page of the client at a place, by a thread of this priority.
    pub fn store(&mut self, now: Ns, at: usize, prio: Prio) -> Store {
        let Some(turns) = self.turns.as_ref() else {
            return Store::Passes;
        };
        // Without a client the place is being given anew.
        if turns.client(at).is_none() || turns.is_open_for(at) {
            self.leaked = true;
            return Store::Passes;
        }
        // No user decides for those of others.
        let prio = if at == CROWD { Prio::NORMAL } else { prio };
        self.set(now, at, Some(prio));
        if self.watch.open_for() == Some(at) {
            return Store::Joins;
        }
        // While its own window is being closed, it tries again after that.
        if self.watch.window_of() != Some(at) && self.opens(now, at) {
            return Store::Opens;
        }
        Store::Waits
    }

    /// Opens the window of a client that may pass; else it waits for its turn.
    fn opens(&mut self, now: Ns, at: usize) -> bool {
        if self.watch.granted() != Some(at) {
            self.decide(now, |turns| turns.arrive(now, at));
        }
        self.watch.open(now, at)
    }

    /// The entry is made through which a client stores. False: where its rings were is not known,
    /// so what it stores will not be seen.
    pub fn entered(&mut self, now: Ns, at: usize, known: bool) {
        self.watch.entered(now, at);
        self.leaked |= !known;
    }

    /// Whether a thread at a place has to wait, whatever page it stores to, if all threads there had
    /// to before.
    pub fn queues(&self, at: usize) -> bool {
        let turns = self.turns.as_ref().filter(|turns| !turns.is_open_for(at));
        let waits = turns
            .and_then(|turns| turns.client(at))
            .is_some_and(|client| client.waits());
        waits && self.watch.window_of() != Some(at)
    }

    /// Threads that sleep at a place.
    pub fn sleepers(&self, at: usize) -> u32 {
        self.sleepers.get(at).copied().unwrap_or(0)
    }

    /// A thread sleeps at a place from now on.
    pub fn sleeps(&mut self, at: usize) {
        if let Some(sleepers) = self.sleepers.get_mut(at) {
            *sleepers = sleepers.saturating_add(1);
        }
    }

    /// It does so no longer. `gave_up`: a signal ended it. Returns whether no thread of the client
    /// waits any more because of that.
    pub fn wakes_up(&mut self, now: Ns, at: usize, gave_up: bool) -> bool {
        let left = self.sleepers.get_mut(at).map_or(0, |sleepers| {
            *sleepers = sleepers.saturating_sub(1);
            *sleepers
        });
        let withdrawn = gave_up && left == 0;
        if withdrawn {
            self.decide(now, |turns| turns.withdrawn(now, at));
        }
        withdrawn
    }

    /// A new client of a user that follows a spec: its place.
    pub fn join(&mut self, now: Ns, user: u32, spec: Option<usize>) -> Option<usize> {
        let turns = self.turns.as_mut()?;
        // Nobody escapes by a new process. What is promised to a spec holds, whatever others owe.
        let users = spec.is_none().then(|| self.places.of_user(user));
        let owed = turns.owed(now, users.into_iter().flatten());
        let at = self.places.join(user, spec);
        if turns.client(at).is_none() {
            turns.join_at(at, Setting::default(), owed);
        }
        self.set(now, at, None);
        Some(at)
    }

    /// A client at a place follows a spec from now on, perhaps another one. False if it has to leave
    /// the place, and join anew; nothing if no submission is decided on.
    pub fn follow(&mut self, now: Ns, at: usize, spec: Option<usize>) -> Option<bool> {
        self.turns.as_ref()?;
        if self.places.follow(at, spec) {
            self.set(now, at, None);
            return Some(true);
        }
        // Its pages may have entries.
        self.leaked = true;
        self.wakes.all.add(at);
        Some(false)
    }

    /// A client leaves its place. Returns whether it had the turn: then the pages with entries are no
    /// longer those of a turn.
    pub fn leave(&mut self, now: Ns, at: usize) -> bool {
        if self.turns.is_none() || !self.places.leave(at) {
            return false;
        }
        let Some(turns) = self.doubting(now) else {
            return false;
        };
        let had_turn = turns.holder() == Some(at);
        let step = turns.left(now, at);
        self.leftovers.remove(|_, of| of == at);
        if had_turn {
            self.watch = Watch::default();
            self.running = Running::NONE;
        }
        self.carry_out(now, step);
        had_turn
    }

    /// Decides by these specs from now on. `bounds`: the longest command of others that the reserve
    /// of each [bears](Specs::bears).
    pub fn set_specs<R>(&mut self, now: Ns, specs: &Specs<R>, bounds: &[Option<Ns>; SPECS])
    where
        R: DerefMut<Target = [Option<Row>]>,
    {
        for (at, (kept, bound)) in self.specs.iter_mut().zip(bounds).enumerate() {
            let spec = specs.get(at).map(|row| row.spec).unwrap_or_default();
            *kept = Followed {
                prio: spec.prio,
                mode: spec.mode,
                promised: spec.reserve.is_some(),
            };
            if let Some(turns) = self.turns.as_mut() {
                let terms = spec.reserve;
                turns.set_reserve(now, reserve_of(at), terms);
                turns.set_bound(reserve_of(at), *bound);
            }
        }
        (0..PLACES).for_each(|at| self.set(now, at, None));
        self.decide(now, |turns| turns.timer(now));
    }

    /// There are protected clients from now on, other ones, or none.
    pub fn set_protected(&mut self, now: Ns, any: bool) {
        self.protected.set(any);
        match any {
            true => self.decide(now, |turns| turns.timer(now)),
            false => {
                let step = self.turns.as_mut().map(|turns| turns.protected(now, false));
                if let Some(step) = step {
                    self.carry_out(now, step);
                }
            }
        }
    }

    /// Channels of protected clients are not waited for: their work may never end.
    pub fn ignore(&mut self, gone: impl FnMut(Chid) -> bool) {
        self.running.remove(gone);
    }

    /// Keeps the engine free after work of protected clients, see [`Turns::set_linger`].
    pub fn set_linger(&mut self, linger: Ns, adapts: bool) {
        if let Some(turns) = self.turns.as_mut() {
            turns.set_linger(linger, adapts);
        }
    }

    /// Sets for the clients at a place what their spec says. `prio` is the priority of a thread.
    fn set(&mut self, now: Ns, at: usize, prio: Option<Prio>) {
        let spec = self.places.spec(at);
        let followed = spec.and_then(|spec| self.specs.get(spec)).copied();
        let Some(turns) = self.turns.as_ref() else {
            return;
        };
        let Some(before) = turns.client(at).map(|client| *client.setting()) else {
            return;
        };
        let followed = followed.unwrap_or_default();
        let promised = spec.filter(|_| followed.promised);
        let setting = Setting {
            prio: followed.prio.or(prio).unwrap_or(before.prio),
            mode: followed.mode,
            reserve: promised.map_or(BACKGROUND, reserve_of),
        };
        if setting != before {
            self.decide(now, |turns| turns.set(now, at, setting));
        }
    }

    /// The turns, to tell them of an event. No client passes beside protected work that is not known.
    pub(super) fn doubting(&mut self, now: Ns) -> Option<&mut Turns<S>> {
        let turns = self.turns.as_mut()?;
        if self.protected.decide(now) {
            turns.doubt();
        }
        Some(turns)
    }

    /// Tells the turns of an event, if submissions are decided on, and does what follows from it.
    pub(super) fn decide(&mut self, now: Ns, event: impl FnOnce(&mut Turns<S>) -> Step) {
        if let Some(step) = self.doubting(now).map(event) {
            self.carry_out(now, step);
        }
    }

    /// Does what follows from an event.
    pub(super) fn carry_out(&mut self, now: Ns, step: Step) {
        self.timer = step.timer;
        if step.opened {
            self.reports.note_open();
            // That of the turn waits for its end.
            let holder = self.turns.as_ref().and_then(Turns::holder);
            self.wakes.add_all(holder);
        }
        if let Some(grant) = step.grant {
            self.watch.grant(now, grant);
            self.wakes.one.add(grant.client);
        }
    }
}
