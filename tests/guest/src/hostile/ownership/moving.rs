// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Processes of several users that come, run, free channels, move to another cgroup and are
//! killed at random: each user is charged what it used, and nothing vanishes.
//!
//! The driver gives pages and numbers of channels on at once, so that most of them have several owners
//! in a window. Now and then nobody has a channel, and LoGA's thread of the GPU parks.

use super::handing::{charged, OFF};
use super::{model, BETWEEN, ENFORCING, USER};
use crate::caller::Caller;
use crate::calls::Calls;
use crate::cgroups::Cgroup;
use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::stage::{Stage, FINE, LAZY};
use crate::truth::Truth;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};
use throttle::random::Random;

crate::ktap::tests![
    users_whose_processes_come_and_go_at_random_are_charged_what_they_used: timed,
];

const USERS: [u32; 3] = [USER, USER + 1, USER + 2];
/// How long a process of each user runs at most, in ms: what is charged to another one shows.
const RUNS_MS: [u64; USERS.len()] = [40, 10, 1];
/// Processes at a time.
const SLOTS: usize = 4;
/// Time of a measurement: at either end a period and a command of each are partly in it.
const WINDOW: Duration = Duration::from_secs(12);

/// What runs at random.
struct Actors {
    random: Random,
    slots: [Option<Actor>; SLOTS],
    cgroups: [Cgroup; 2],
    /// Processes of each user so far.
    pids: [BTreeSet<u32>; USERS.len()],
    /// What was done: processes, runs, moves, channels that were freed, kills of one that ran.
    done: [u32; 5],
}

struct Actor {
    caller: Caller,
    user: usize,
    runs: bool,
    /// Its first channel is freed.
    spent: bool,
}

impl Actors {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    /// A process of a random user, with channels of one or two pages.
    fn start(&mut self) -> Result<Actor, String> {
        // CAST: a few.
        let user = self.below(USERS.len() as u64) as usize;
        let mut caller = Caller::new()?;
        caller.ask(&format!("become {}", USERS[user]))?;
        let channels = 1 + self.below(9);
        caller.ask(&format!("open {channels}"))?;
        self.pids[user].insert(caller.pid());
        self.done[0] += 1;
        Ok(Actor {
            caller,
            user,
            runs: false,
            spent: false,
        })
    }

    /// Something happens to the process of a slot, or to none.
    fn step(&mut self) -> Result<(), String> {
        // CAST: a few.
        let at = self.below(SLOTS as u64) as usize;
        let Some(mut actor) = self.slots[at].take() else {
            self.slots[at] = Some(self.start()?);
            return Ok(());
        };
        if actor.runs && actor.caller.has_answered(Duration::ZERO)? {
            actor.caller.answer(Duration::ZERO)?;
            actor.runs = false;
            if self.below(2) == 0 {
                // Another one gets its pages at once.
                drop(actor);
                self.slots[at] = Some(self.start()?);
                return Ok(());
            }
        }
        match self.below(8) {
            0..=4 if !actor.runs && !actor.spent => {
                let kernel_us = [100, 1000][self.below(2) as usize];
                let ms = 1 + self.below(RUNS_MS[actor.user]);
                actor.caller.send(&format!("run {kernel_us} {ms}"))?;
                actor.runs = true;
                self.done[1] += 1;
            }
            5 => {
                let cgroup = self.below(2) as usize;
                self.cgroups[cgroup].add_process(actor.caller.pid())?;
                self.done[2] += 1;
            }
            6 if !actor.runs && !actor.spent => {
                actor.caller.ask("destroy 0")?;
                actor.spent = true;
                self.done[3] += 1;
            }
            7 => {
                self.done[4] += u32::from(actor.runs);
                actor.caller.kill()?;
                return Ok(());
            }
            _ => {}
        }
        self.slots[at] = Some(actor);
        Ok(())
    }

    /// All processes end, and for a while nobody has a channel.
    fn rest(&mut self) {
        self.slots = Default::default();
        std::thread::sleep(BETWEEN);
    }
}

fn seed() -> Result<u64, String> {
    let mut bytes = [0; 8];
    let mut file = File::open("/dev/urandom").map_err(|error| error.to_string())?;
    file.read_exact(&mut bytes)
        .map_err(|error| error.to_string())?;
    Ok(u64::from_le_bytes(bytes))
}

fn users_whose_processes_come_and_go_at_random_are_charged_what_they_used() -> Verdict {
    let loga = format!("{ENFORCING} group_by=cgroup");
    let stage = Stage::set(&model(&format!("{LAZY} {FINE}")), &loga)?;
    let seed = seed()?;
    println!("# seed {seed}");
    let mut actors = Actors {
        random: Random::new(seed),
        slots: Default::default(),
        cgroups: [Cgroup::make("one")?, Cgroup::make("other")?],
        pids: Default::default(),
        done: [0; 5],
    };
    let calls = Calls::open()?;
    Truth::reset()?;
    let (since, before) = (Instant::now(), charged(&calls, USERS)?);
    while since.elapsed() < WINDOW {
        actors.step()?;
        match actors.below(200) {
            0 => actors.rest(),
            // Of decisions, 50 ms apart, some fall between any two steps.
            pause => std::thread::sleep(Duration::from_millis(pause % 4)),
        }
    }
    actors.rest();
    let after = charged(&calls, USERS)?;
    let truth = Truth::read()?;
    // An open device keeps the module.
    drop(calls);
    println!(
        "# processes, runs, moves, freed channels, kills: {:?}",
        actors.done
    );
    ensure!(
        actors.done.iter().all(|count| *count > 5),
        "{:?}",
        actors.done
    );
    for (user, pids) in actors.pids.iter().enumerate() {
        let used: f64 = pids.iter().map(|pid| truth.ran_share(*pid)).sum();
        let charged = (after[user] - before[user]) as f64 / truth.window_ns as f64;
        println!(
            "# user {user}: used {:.1} %, charged {:.1}",
            100.0 * used,
            100.0 * charged
        );
        within(
            "percent used and not charged",
            100.0 * (used - charged).abs(),
            ..=OFF,
        )?;
    }
    stage.check_no_fallback()?;
    drop(actors);
    stage.teardown()
}
