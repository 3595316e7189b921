// SPDX-License-Identifier: GPL-2.0

//! `[double]` Tests of what is decided on stores, and of what the completion thread has to do. They
//! play the completion thread: each tells what it would have read.

use super::submissions::US;
use super::{
    Action, Client, Completion, Decider, Doing, Mode, Outcome, Prio, Reading, Record, Row, Running,
    SchedulingParameters, Setting, Specs, Store, Submissions, Wakes, BACKGROUND, HEARTBEAT,
    LEFTOVERS, MAX_GRANT, MOST_UNUSED, RECORDS, RETURN, SHARED_QUEUE, SPECS, WAIT_QUEUES, WINDOW,
};
use crate::ids::Chid;
use crate::policies::dispatch::DispatcherKind;
use crate::quota::Tenant;
use crate::share::Subject;
use crate::units::Ns;
use crate::Vectors;
use core::ops::Deref;
use std::vec;
use std::vec::Vec;

const A: Chid = Chid::from_bits(3);
const B: Chid = Chid::from_bits(4);
const NICE: Prio = Prio::NORMAL;

/// A decider with a caller that keeps what follows from each event until a test asks for it.
#[derive(Default)]
pub(super) struct Harness {
    decider: Decider<Vectors>,
    wakes: Wakes,
    last: Outcome,
}

impl Deref for Harness {
    type Target = Decider<Vectors>;

    fn deref(&self) -> &Decider<Vectors> {
        &self.decider
    }
}

impl Harness {
    fn keep<R>(&mut self, (answer, outcome): (R, Outcome)) -> R {
        self.wakes.add(&outcome.wakes);
        self.last = outcome;
        answer
    }

    fn note(&mut self, outcome: Outcome) {
        self.keep(((), outcome));
    }

    pub(super) fn take_wakes(&mut self) -> Wakes {
        core::mem::take(&mut self.wakes)
    }

    fn next(&self) -> Option<Ns> {
        self.last.next
    }

    fn has_leaked(&self) -> bool {
        self.last.leaked
    }

    /// Whether it is the next action to revoke all, which is done then.
    fn take_leak(&mut self) -> bool {
        let takes = self.decider.take_leak();
        self.last.leaked &= !takes;
        takes
    }

    fn replace(&mut self, now: Ns, submissions: &mut Option<Submissions<Vectors>>) {
        let outcome = self.decider.replace(now, submissions);
        self.note(outcome);
    }

    fn abandon(&mut self, now: Ns) {
        let outcome = self.decider.abandon(now);
        self.note(outcome);
    }

    fn falls_silent(&mut self, now: Ns) -> bool {
        let answer = self.decider.falls_silent(now);
        self.keep(answer)
    }

    pub(super) fn store(&mut self, now: Ns, at: usize, prio: Prio) -> Store {
        let answer = self.decider.store(now, at, prio);
        self.keep(answer)
    }

    pub(super) fn entered(&mut self, now: Ns, at: usize, known: bool) {
        let outcome = self.decider.entered(now, at, known);
        self.note(outcome);
    }

    pub(super) fn sleeps(&mut self, at: usize) {
        self.decider.sleeps(at);
    }

    pub(super) fn wakes_up(&mut self, now: Ns, at: usize, gave_up: bool) {
        let outcome = self.decider.wakes_up(now, at, gave_up);
        self.note(outcome);
    }

    fn join(&mut self, now: Ns, tenant: impl Into<Tenant>, spec: Option<usize>) -> Option<usize> {
        let answer = self.decider.join(now, tenant, spec);
        self.keep(answer)
    }

    fn follow(&mut self, now: Ns, at: usize, spec: Option<usize>) -> Option<bool> {
        let answer = self.decider.follow(now, at, spec);
        self.keep(answer)
    }

    fn leave(&mut self, now: Ns, at: usize) -> bool {
        let answer = self.decider.leave(now, at);
        self.keep(answer)
    }

    fn set_specs(&mut self, now: Ns, specs: &Specs<Vec<Option<Row>>>) {
        let outcome = self.decider.set_specs(now, specs, &[None; SPECS]);
        self.note(outcome);
    }

    fn set_protected(&mut self, now: Ns, any: bool) {
        let outcome = self.decider.set_protected(now, any, |_| false);
        self.note(outcome);
    }

    pub(super) fn next_action(&mut self, now: Ns) -> Action {
        let answer = self.decider.next_action(now);
        self.keep(answer)
    }

    fn undecided(&mut self, now: Ns, found: &Running) {
        let outcome = self.decider.undecided(now, found);
        self.note(outcome);
    }

    pub(super) fn rings_checked(&mut self, now: Ns, stored: bool) {
        let outcome = self.decider.rings_checked(now, stored);
        self.note(outcome);
    }

    pub(super) fn closed(&mut self, now: Ns, stored: &Running) {
        let outcome = self.decider.closed(now, stored);
        self.note(outcome);
    }

    pub(super) fn read(&mut self, now: Ns, reading: &Reading) -> Option<Completion> {
        let answer = self.decider.read(now, reading);
        self.keep(answer)
    }

    pub(super) fn leftovers_read(
        &mut self,
        now: Ns,
        found: impl Iterator<Item = ((usize, Chid), Doing)>,
        stray: Option<usize>,
    ) {
        let outcome = self.decider.leftovers_read(now, found, stray);
        self.note(outcome);
    }

    fn protected_read(&mut self, now: Ns, busy: bool) {
        let outcome = self.decider.protected_read(now, busy);
        self.note(outcome);
    }
}

fn engine() -> Option<Submissions<Vectors>> {
    let vacant = || Client::vacant(vec![Record::default(); RECORDS]);
    let clients: Vec<_> = (0..WAIT_QUEUES).map(|_| vacant()).collect();
    let reserves = vec![None; SPECS + 1];
    Some(Submissions::new(DispatcherKind::Prio, clients, reserves))
}

/// With clients of so many users, at the wait queues from 0 on.
pub(super) fn decider(clients: u32) -> Harness {
    let mut decider = Harness::default();
    decider.replace(US(0), &mut engine());
    for user in 0..clients {
        // CAST: a few.
        let wait_queue = Some(user as usize);
        assert_eq!(decider.join(US(0), user, None), wait_queue);
    }
    decider.take_wakes();
    decider
}

fn channels(all: &[Chid]) -> Running {
    let mut channels = Running::NONE;
    all.iter().for_each(|chid| channels.add(*chid));
    channels
}

/// One thread each of these is woken, and all threads of none.
fn wakes_one(decider: &mut Harness, wait_queues: &[usize]) {
    let wakes = decider.take_wakes();
    assert!(wakes.one.iter().eq(wait_queues.iter().copied()));
    assert_eq!(wakes.all.iter().count(), 0);
}

/// The client at a wait queue stores, and has to wait.
fn waits(decider: &mut Harness, now: Ns, at: usize) {
    assert_eq!(decider.store(now, at, NICE), Store::Waits);
    decider.sleeps(at);
}

/// The client at a wait queue submits commands of a channel, and its window is closed.
fn submits(decider: &mut Harness, now: Ns, at: usize, chid: Chid) {
    assert_eq!(decider.store(now, at, NICE), Store::Opens);
    decider.entered(now, at, true);
    decider.rings_checked(now, true);
    assert_eq!(decider.next_action(now), Action::Close);
    decider.closed(now, &channels(&[chid]));
    // Its arrival woke it, as that of one that sleeps.
    decider.take_wakes();
}

/// The channels of the turn were read: `rest` have work that rests.
fn ends(decider: &mut Harness, now: Ns, busy: bool, rest: &[Chid]) -> Option<Completion> {
    let of = decider.work();
    let reading = Reading {
        of,
        busy,
        rest: channels(rest),
        unseen: false,
        undecided: Running::NONE,
    };
    decider.read(now, &reading)
}

#[test]
fn store_without_turns_passes_and_the_completion_thread_stops() {
    let mut decider = Harness::default();
    assert_eq!(decider.store(US(1), 0, NICE), Store::Undecided);
    assert_eq!(decider.next_action(US(1)), Action::Stop);
    assert_eq!((decider.next(), decider.join(US(1), 7, None)), (None, None));
    assert!(!decider.has_leaked());
    assert!(decider.take_wakes().is_empty());
}

#[test]
fn store_of_a_client_waits_for_the_submission_of_another() {
    let mut decider = decider(2);
    submits(&mut decider, US(10), 0, A);
    waits(&mut decider, US(12), 1);
    assert!(decider.queues(1));
    assert!(!decider.queues(0));
    assert!(decider.work().running.has(A));
    let next = decider.next().unwrap();
    assert_eq!(decider.next_action(next), Action::Read);
    assert_eq!(ends(&mut decider, next, true, &[]), None);
    wakes_one(&mut decider, &[]);
    let next = decider.next().unwrap();
    let ended = ends(&mut decider, next, false, &[]).unwrap();
    assert_eq!((ended.at, ended.count, ended.misses), (0, 1, [None; 4]));
    assert_eq!(ended.used, next.saturating_sub(US(10)));
    assert!(decider.work().running.is_empty());
    wakes_one(&mut decider, &[1]);
    decider.wakes_up(next, 1, false);
    assert_eq!(decider.store(next, 1, NICE), Store::Opens);
}

#[test]
fn further_store_joins_the_window_until_it_is_closed() {
    let mut decider = decider(2);
    assert_eq!(decider.store(US(10), 0, NICE), Store::Opens);
    assert_eq!(decider.store(US(11), 0, NICE), Store::Joins);
    waits(&mut decider, US(12), 1);
    let next = decider.next().unwrap();
    assert_eq!(decider.next_action(next), Action::CheckRings);
    decider.rings_checked(next, true);
    assert_eq!(decider.next_action(next), Action::Close);
    // The entries are going.
    waits(&mut decider, next, 0);
    decider.closed(next, &channels(&[A, B]));
    assert!(decider.work().running.has(A));
    assert!(decider.work().running.has(B));
}

#[test]
fn window_without_a_store_is_no_submission_and_the_next_passes() {
    let mut decider = decider(2);
    assert_eq!(decider.store(US(10), 0, NICE), Store::Opens);
    waits(&mut decider, US(11), 1);
    decider.take_wakes();
    let end = US(10).saturating_add(WINDOW);
    assert_eq!(decider.next_action(end), Action::Close);
    decider.closed(end, &Running::NONE);
    wakes_one(&mut decider, &[1]);
    assert_eq!(decider.submissions().unwrap().counters().unused, 1);
}

/// The client at a wait queue gets an entry and stores nothing, and its window is closed.
fn stores_nothing(decider: &mut Harness, now: Ns, at: usize) {
    assert_eq!(decider.store(now, at, NICE), Store::Opens);
    let end = now.saturating_add(WINDOW);
    assert_eq!(decider.next_action(end), Action::Close);
    decider.closed(end, &Running::NONE);
    decider.take_wakes();
}

#[test]
fn client_competes_for_the_gpu_from_its_first_submission_until_it_uses_no_grant_any_more() {
    let mut decider = decider(1);
    let competes = |decider: &Harness| decider.client(0).unwrap().competes();
    stores_nothing(&mut decider, US(100), 0);
    assert!(!competes(&decider));
    for round in 1..=2 {
        let now = US(round * 10_000);
        submits(&mut decider, now, 0, A);
        let end = now.saturating_add(US(20));
        assert!(ends(&mut decider, end, false, &[]).is_some());
        for unused in 1..=MOST_UNUSED {
            assert!(competes(&decider));
            stores_nothing(
                &mut decider,
                now.saturating_add(US(200 * u64::from(unused))),
                0,
            );
        }
        assert!(!competes(&decider));
    }
    assert!(decider.client(1).is_none());
}

#[test]
fn client_with_a_reserve_does_not_compete_for_the_gpu() {
    let mut engine = engine().unwrap();
    let at = engine.join(Setting::default()).unwrap();
    engine.arrive(US(1), at);
    engine.completed(US(10), at, US(9));
    assert!(engine.client(at).unwrap().competes());
    let reserved = Setting {
        reserve: BACKGROUND + 1,
        ..Setting::default()
    };
    engine.set(US(11), at, reserved);
    assert!(!engine.client(at).unwrap().competes());
}

#[test]
fn grant_that_is_not_used_goes_to_the_next() {
    let mut decider = decider(3);
    submits(&mut decider, US(10), 0, A);
    waits(&mut decider, US(11), 1);
    waits(&mut decider, US(12), 2);
    assert!(ends(&mut decider, US(30), false, &[]).is_some());
    wakes_one(&mut decider, &[1]);
    let back = US(30).saturating_add(RETURN);
    assert_eq!(decider.next_action(back), Action::Again);
    wakes_one(&mut decider, &[2]);
}

#[test]
fn thread_that_did_not_make_it_through_the_window_arrives_again() {
    let mut decider = decider(1);
    submits(&mut decider, US(10), 0, A);
    decider.sleeps(0);
    assert!(ends(&mut decider, US(30), false, &[]).is_some());
    wakes_one(&mut decider, &[]);
    assert_eq!(decider.next_action(US(31)), Action::Again);
    wakes_one(&mut decider, &[0]);
    assert!(matches!(
        decider.next_action(US(31)),
        Action::Sleep(Some(_))
    ));
}

#[test]
fn completion_thread_sleeps_for_good_without_a_thread_that_waits() {
    let mut decider = decider(1);
    assert_eq!(decider.next_action(US(5)), Action::Sleep(None));
    submits(&mut decider, US(10), 0, A);
    assert!(ends(&mut decider, US(30), false, &[]).is_some());
    assert_eq!(decider.next_action(US(31)), Action::Sleep(None));
    // Of a client that is gone.
    decider.sleeps(5);
    let beat = US(31).saturating_add(HEARTBEAT);
    assert_eq!(decider.next_action(US(31)), Action::Sleep(Some(beat)));
}

#[test]
fn work_that_rests_goes_on_beside_the_next_turn_which_does_not_pay_for_it() {
    let mut decider = decider(2);
    submits(&mut decider, US(10), 0, A);
    waits(&mut decider, US(11), 1);
    assert_eq!(ends(&mut decider, US(30), false, &[A]), None);
    assert!(ends(&mut decider, US(200), false, &[A]).is_some());
    wakes_one(&mut decider, &[1]);
    assert!(decider.leftovers().channels().map(|(_, chid)| chid).eq([A]));
    let first = decider.leftovers().channels().next().unwrap();
    let reads = |decider: &mut Harness, now, doing| {
        decider.leftovers_read(now, [(first, doing)].into_iter(), None);
    };
    reads(&mut decider, US(209), Doing::Rests);
    submits(&mut decider, US(210), 1, B);
    assert_eq!(decider.next_action(US(229)), Action::ReadLeftovers);
    reads(&mut decider, US(229), Doing::Waits);
    reads(&mut decider, US(309), Doing::Runs);
    let ended = ends(&mut decider, US(410), false, &[]).unwrap();
    // It had the engine for 80 of 200 us.
    assert_eq!((ended.at, ended.used), (1, US(120)));
    // It submits anew through a window: it is of a turn again.
    reads(&mut decider, US(499), Doing::Rests);
    submits(&mut decider, US(500), 0, A);
    assert_eq!(decider.leftovers().channels().count(), 0);
}

/// The client at a wait queue submits commands of these channels, which all rest until its turn
/// ends. False if it has to wait instead.
fn rests(decider: &mut Harness, now: Ns, at: usize, chids: &[Chid]) -> bool {
    decider.leftovers_read(now, core::iter::empty(), None);
    if decider.store(now, at, NICE) != Store::Opens {
        return false;
    }
    decider.entered(now, at, true);
    decider.rings_checked(now, true);
    assert_eq!(decider.next_action(now), Action::Close);
    decider.closed(now, &channels(chids));
    let after = |us| now.saturating_add(US(us));
    assert_eq!(ends(decider, after(10), false, chids), None);
    assert!(ends(decider, after(200), false, chids).is_some());
    decider.take_wakes();
    true
}

/// So many channels of a client.
fn chids(first: u32, count: u32) -> Vec<Chid> {
    let all = first..first.saturating_add(count);
    all.map(Chid::from_bits).collect()
}

/// Fills the table of leftovers with channels of eight clients of one user.
fn fill(decider: &mut Harness) {
    for client in 0..8 {
        assert_eq!(decider.join(US(0), 7, None), Some(client));
        // CAST: a few.
        let (number, first) = (client as u64, 100 + 16 * client as u32);
        assert!(rests(decider, US(1000 * number), client, &chids(first, 16)));
    }
    assert_eq!(decider.leftovers().channels().count(), LEFTOVERS);
}

#[test]
fn one_user_that_fills_the_leftovers_stops_nobody_else() {
    let mut decider = decider(0);
    fill(&mut decider);
    let other = decider.join(US(0), 8, None).unwrap();
    for turn in 10..20 {
        assert!(rests(&mut decider, US(1000 * turn), other, &[A]));
    }
    assert!(decider.leftovers().is_crowded());
    assert!(!decider.leftovers().has(A));
    assert_eq!(decider.store(US(21_000), other, NICE), Store::Opens);
}

#[test]
fn channel_for_which_no_room_is_left_pays_when_it_is_on_the_engine() {
    let mut decider = decider(0);
    fill(&mut decider);
    let other = decider.join(US(0), 8, None).unwrap();
    assert!(rests(&mut decider, US(10_000), other, &[A]));
    let strays = |decider: &mut Harness, now| {
        decider.leftovers_read(now, core::iter::empty(), Some(other));
    };
    strays(&mut decider, US(11_000));
    submits(&mut decider, US(11_000), 0, B);
    strays(&mut decider, US(11_080));
    let ended = ends(&mut decider, US(11_200), false, &[]).unwrap();
    // The other one had the engine for 80 of 200 us.
    assert_eq!((ended.at, ended.used), (0, US(120)));
    // In its own turn it pays as everybody else.
    strays(&mut decider, US(12_000));
    submits(&mut decider, US(12_000), other, A);
    strays(&mut decider, US(12_100));
    let ended = ends(&mut decider, US(12_200), false, &[]).unwrap();
    assert_eq!((ended.at, ended.used), (other, US(200)));
}

#[test]
fn overdue_turn_lets_all_others_pass_and_their_entries_go_after_it() {
    let mut decider = decider(2);
    submits(&mut decider, US(10), 0, A);
    waits(&mut decider, US(20), 1);
    let mut now = US(10).saturating_add(MAX_GRANT).saturating_add(US(10));
    assert_eq!(decider.next_action(now), Action::Again);
    let wakes = decider.take_wakes();
    assert!(wakes.all.iter().any(|at| at == 1));
    assert!(!wakes.all.iter().any(|at| at == 0));
    assert_eq!(decider.store(now, 1, NICE), Store::Undecided);
    assert!(!decider.queues(1));
    // Not before its end.
    assert!(decider.has_leaked());
    assert!(!decider.take_leak());
    now = now.saturating_add(US(10));
    assert!(ends(&mut decider, now, false, &[]).is_some());
    assert!(decider.take_leak());
    assert!(!decider.has_leaked());
    decider.undecided(now, &channels(&[B]));
    assert!(decider.work().undecided.has(B));
}

#[test]
fn length_beside_undecided_work_is_not_learned() {
    let learned = |undecided: &[Chid]| {
        let mut decider = decider(1);
        decider.undecided(US(0), &channels(undecided));
        submits(&mut decider, US(10), 0, A);
        ends(&mut decider, US(500), false, &[]).unwrap();
        let engine = decider.submissions().unwrap();
        engine.client(0).unwrap().history().longest()
    };
    assert_eq!((learned(&[B]), learned(&[])), (US(0), US(490)));
}

#[test]
fn store_beside_protected_clients_waits_until_they_are_read() {
    let mut decider = decider(1);
    decider.set_protected(US(0), true);
    waits(&mut decider, US(10), 0);
    assert_eq!(decider.next_action(US(10)), Action::ReadProtected);
    decider.protected_read(US(12), true);
    wakes_one(&mut decider, &[]);
    let next = decider.next().unwrap();
    assert_eq!(decider.next_action(next), Action::ReadProtected);
    decider.protected_read(next, false);
    wakes_one(&mut decider, &[0]);
    assert_eq!(decider.store(next, 0, NICE), Store::Opens);
}

#[test]
fn client_that_leaves_in_its_turn_passes_it_on() {
    let mut decider = decider(2);
    submits(&mut decider, US(10), 0, A);
    waits(&mut decider, US(11), 1);
    assert!(decider.leave(US(20), 0));
    wakes_one(&mut decider, &[1]);
    assert!(decider.work().running.is_empty());
    // Its wait queue is vacant, and entries may be there.
    assert_eq!(decider.store(US(21), 0, NICE), Store::Undecided);
    assert!(decider.take_leak());
    assert!(decider.leave(US(22), 1));
}

#[test]
fn last_thread_that_a_signal_ends_withdraws_its_client() {
    let mut decider = decider(2);
    submits(&mut decider, US(10), 0, A);
    waits(&mut decider, US(11), 1);
    decider.sleeps(1);
    decider.wakes_up(US(12), 1, true);
    assert!(decider.queues(1));
    decider.wakes_up(US(12), 1, true);
    assert!(!decider.queues(1));
    assert!(ends(&mut decider, US(30), false, &[]).is_some());
    wakes_one(&mut decider, &[]);
}

#[test]
fn spec_of_a_wait_queue_is_set_for_its_client_and_users_set_none_for_the_crowd() {
    let mut decider = decider(0);
    let (prio, mode) = (Prio::HIGHEST, Mode::Ht);
    let mut specs = Specs::new(vec![None; SPECS]);
    let spec = SchedulingParameters {
        prio: Some(prio),
        mode,
        reserve: None,
    };
    specs.set(Row::new(Subject::User(7), spec)).unwrap();
    decider.set_specs(US(0), &specs);
    let at = decider.join(US(1), 7, Some(0)).unwrap();
    decider.store(US(2), at, NICE);
    let setting =
        |decider: &Harness, at| *decider.submissions().unwrap().client(at).unwrap().setting();
    assert_eq!(
        (setting(&decider, at).prio, setting(&decider, at).mode),
        (prio, mode)
    );
    assert_eq!(decider.follow(US(3), at, None), Some(true));
    assert_eq!(setting(&decider, at).mode, Mode::Prt);
    // One of several of a wait queue has to leave it.
    let crowd = (100..).find_map(|user| {
        let at = decider.join(US(4), user, None)?;
        (at == SHARED_QUEUE).then_some(at)
    });
    let crowd = crowd.unwrap();
    decider.store(US(5), crowd, prio);
    assert_eq!(setting(&decider, crowd).prio, NICE);
    assert_eq!(decider.follow(US(6), crowd, Some(0)), Some(false));
    assert!(decider.take_leak());
    assert!(decider.take_wakes().all.iter().any(|at| at == crowd));
}

#[test]
fn turn_that_is_forgotten_lets_all_try_again() {
    let mut decider = decider(2);
    submits(&mut decider, US(10), 0, A);
    waits(&mut decider, US(11), 1);
    decider.abandon(US(20));
    assert_eq!(decider.take_wakes().all.iter().count(), WAIT_QUEUES);
    assert_eq!(
        (decider.next(), decider.work().running.is_empty()),
        (None, true)
    );
    assert_eq!(decider.store(US(21), 1, NICE), Store::Opens);
}

#[test]
fn sums_outlive_the_turns() {
    let mut decider = decider(2);
    submits(&mut decider, US(10), 0, A);
    waits(&mut decider, US(11), 1);
    ends(&mut decider, US(31), false, &[]).unwrap();
    let (waits, _) = decider.sums();
    assert_eq!(waits.total(), US(20));
    let mut before = engine();
    decider.replace(US(40), &mut before);
    assert!(before.is_some_and(|engine| engine.counters().grants == 2));
    decider.replace(US(41), &mut None);
    assert_eq!(decider.sums().0.total(), US(20));
    assert_eq!(decider.store(US(42), 0, NICE), Store::Undecided);
}

#[test]
fn all_pass_while_the_completion_thread_is_silent_and_are_decided_on_once_it_runs() {
    let mut decider = decider(3);
    submits(&mut decider, US(0), 0, A);
    waits(&mut decider, US(10), 1);
    assert!(decider.queues(1));
    assert!(decider.falls_silent(US(3_000_000)));
    // All threads are woken, once.
    assert_eq!(decider.take_wakes().all.iter().count(), WAIT_QUEUES);
    assert!(!decider.falls_silent(US(3_000_001)));
    for at in [0, 1, 2, 0] {
        assert!(!decider.queues(at));
        assert_eq!(decider.store(US(3_000_010), at, NICE), Store::Undecided);
    }
    // No entry is taken away before the thread runs.
    assert!(!decider.take_leak());
    let resumes = Action::Resume(US(1_500_000));
    assert_eq!(decider.next_action(US(4_500_000)), resumes);
    assert_eq!(decider.next_action(US(4_500_001)), Action::RevokeAll);
    submits(&mut decider, US(4_500_010), 2, B);
    waits(&mut decider, US(4_500_020), 0);
}

#[test]
fn silence_without_submissions_lets_nobody_wait_later() {
    let mut decider = Harness::default();
    assert!(!decider.falls_silent(US(0)));
    decider.replace(US(0), &mut engine());
    assert!(decider.falls_silent(US(1)));
    // It is set anew, and its thread runs.
    decider.replace(US(2), &mut engine());
    assert_eq!(decider.next_action(US(3)), Action::RevokeAll);
    assert_eq!(decider.join(US(3), 7, None), Some(0));
    assert_eq!(decider.store(US(4), 0, NICE), Store::Opens);
}
