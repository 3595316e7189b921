// SPDX-License-Identifier: GPL-2.0

//! `[double]` The decider with applications, a GPU and a completion thread of a random history.

use super::decider::{decider, Harness};
use super::submissions::US;
use super::{Action, Doing, Prio, Reading, Running, Store};
use crate::ids::Chid;
use crate::random::XorShift;
use crate::units::Ns;
use std::vec;
use std::vec::Vec;

const CLIENTS: usize = 5;
/// Longest command.
const LONGEST: Ns = Ns::from_us(1_500);
/// Actions of the completion thread at one time.
const MOST_ACTIONS: usize = 8 * CLIENTS;

/// An application with one thread and one channel.
#[derive(Clone, Copy)]
struct Application {
    /// When it stores next.
    next: Ns,
    /// When it wanted to.
    since: Ns,
    sleeps: bool,
    /// When its command ends.
    end: Ns,
    submitted: u32,
}

/// Applications, their GPU and its completion thread.
struct World {
    decider: Harness,
    applications: Vec<Application>,
    random: XorShift,
    /// What was stored through the window.
    stored: Running,
    longest_wait: Ns,
}

impl World {
    fn new(seed: u64) -> Self {
        let application = |at: usize| Application {
            // CAST: a few.
            next: US(at as u64),
            since: US(at as u64),
            sleeps: false,
            end: US(0),
            submitted: 0,
        };
        Self {
            // CAST: a few.
            decider: decider(CLIENTS as u32),
            applications: (0..CLIENTS).map(application).collect(),
            random: XorShift::new(seed),
            stored: Running::NONE,
            longest_wait: US(0),
        }
    }

    fn up_to(&mut self, most: Ns) -> Ns {
        Ns::new((u64::from(self.random.bits16()) * most.get()) >> 16)
    }

    fn chid(at: usize) -> Chid {
        // CAST: a few.
        Chid::from_bits(at as u32)
    }

    /// Those that are woken store a little later.
    fn wake(&mut self, now: Ns) {
        let wakes = self.decider.take_wakes();
        let woken: Vec<usize> = wakes.one.iter().chain(wakes.all.iter()).collect();
        for at in woken {
            let later = self.up_to(US(30));
            if let Some(application) = self.applications.get_mut(at).filter(|one| one.sleeps) {
                application.sleeps = false;
                application.next = now.saturating_add(later);
                self.decider.wakes_up(now, at, false);
            }
        }
    }

    fn store(&mut self, now: Ns, at: usize) {
        match self.decider.store(now, at, Prio::NORMAL) {
            Store::Waits => {
                self.applications[at].sleeps = true;
                self.decider.sleeps(at);
            }
            Store::Opens | Store::Joins => {
                self.decider.entered(now, at, true);
                let alone = self.applications.iter().all(|other| other.end <= now);
                assert!(alone, "beside the submission of another");
                self.stored.add(Self::chid(at));
                let (length, pause) = (self.up_to(LONGEST), self.up_to(US(500)));
                let application = &mut self.applications[at];
                let waited = now.saturating_sub(application.since);
                self.longest_wait = self.longest_wait.max(waited);
                application.end = now.saturating_add(length);
                application.next = application.end.saturating_add(pause);
                application.since = application.next;
                application.submitted += 1;
            }
            Store::Undecided => panic!("passes without a decision"),
        }
    }

    /// Does what is due. Returns when something will be.
    fn detection(&mut self, now: Ns) -> Option<Ns> {
        for _ in 0..MOST_ACTIONS {
            self.wake(now);
            match self.decider.next_action(now) {
                Action::Again => {}
                Action::Sleep(until) => return until,
                Action::CheckRings => self.decider.rings_checked(now, !self.stored.is_empty()),
                Action::Close => {
                    let stored = core::mem::replace(&mut self.stored, Running::NONE);
                    self.decider.closed(now, &stored);
                }
                Action::Read => {
                    let of = self.decider.work();
                    let works = |at: usize| {
                        of.running.has(Self::chid(at)) && self.applications[at].end > now
                    };
                    let reading = Reading {
                        of,
                        busy: (0..CLIENTS).any(works),
                        rest: Running::NONE,
                        unseen: false,
                        undecided: Running::NONE,
                    };
                    self.decider.read(now, &reading);
                }
                Action::ReadLeftovers => {
                    let none: Vec<((usize, Chid), Doing)> = vec![];
                    self.decider.leftovers_read(now, none.into_iter(), None);
                }
                Action::ReadProtected | Action::RevokeAll | Action::Resume(_) | Action::Stop => {
                    panic!("nothing to read")
                }
            }
        }
        panic!("the completion thread does not come to rest");
    }

    /// Plays until then. Returns how many submissions each application has made.
    fn play(&mut self, until: Ns) -> Vec<u32> {
        let mut now = US(0);
        while now < until {
            for at in 0..CLIENTS {
                let application = self.applications[at];
                if !application.sleeps && application.next <= now {
                    self.store(now, at);
                }
            }
            let rest = self.detection(now);
            assert_eq!(self.decider.submissions().unwrap().broken(), None);
            let awake = self.applications.iter().filter(|one| !one.sleeps);
            let next = awake.map(|one| one.next).chain(rest).min();
            let next = next.expect("all wait, and nothing is due");
            // The completion thread is late now and then.
            let late = self.up_to(US(3));
            now = next.max(now).saturating_add(late);
        }
        self.applications.iter().map(|one| one.submitted).collect()
    }
}

#[test]
fn clients_of_random_lengths_submit_one_at_a_time_and_none_waits_for_ever() {
    for seed in 1..30 {
        let mut world = World::new(seed);
        let submitted = world.play(Ns::from_ms(400));
        let (least, most) = (submitted.iter().min(), submitted.iter().max());
        assert!(least.unwrap() * 2 > *most.unwrap(), "{seed}: {submitted:?}");
        // A command of each other, and what it takes to see its end and to come back to a store.
        let round = LONGEST.saturating_add(US(400)).saturating_mul(5);
        assert!(
            world.longest_wait < round,
            "{seed}: {:?}",
            world.longest_wait
        );
    }
}
