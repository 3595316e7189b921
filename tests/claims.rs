// SPDX-License-Identifier: GPL-2.0

//! Property: whatever processes claim, take back and outlive, the table of claims agrees with a
//! naive model of it, stays within its bounds, and changes its number with every claim made.

use loga::claims::{Claim, Claimed, Claims, OnGpu, MAX_CLAIMS, MAX_CLAIMS_OF_USER, WHOLE};
use loga::error::Error;
use loga::units::Ns;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const GPUS: u32 = 3;
/// Enough to fill the table of a GPU.
const USERS: u32 = 6;
/// Processes; those of a user are so many that the user reaches its bound.
const PROCESSES: u64 = 500;
/// The number at the beginning.
const SEEN: u64 = 77;

#[derive(Clone, Debug)]
enum Step {
    /// This process claims. The number compared is so much behind, nothing for none.
    Make {
        gpu: u32,
        process: u64,
        want: u32,
        lasts_ms: u64,
        behind: Option<u64>,
    },
    /// A process takes its claims back.
    Clear { process: u64, gpu: Option<u32> },
    /// A process that another one has started becomes a client.
    Appear { gpu: u32, process: u64 },
    /// Time passes.
    Pass(u64),
    /// A process ends.
    End(u64),
    /// A GPU is removed.
    Remove(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let process = 0..PROCESSES;
    // Most last long, so that tables fill.
    let lasts = prop_oneof![1 => 1u64..200, 4 => 5_000u64..30_000];
    let behind = prop_oneof![6 => Just(None), 3 => Just(Some(0)), 1 => (1u64..3).prop_map(Some)];
    let make = (0..GPUS, process.clone(), 1..=WHOLE, lasts, behind).prop_map(
        |(gpu, process, want, lasts_ms, behind)| Step::Make {
            // Half of them choose the same GPU.
            gpu: if process % 2 == 0 { 0 } else { gpu },
            process,
            want,
            lasts_ms,
            behind,
        },
    );
    let clear = (process.clone(), prop::option::of(0..GPUS))
        .prop_map(|(process, gpu)| Step::Clear { process, gpu });
    let appear =
        (0..GPUS, process.clone()).prop_map(|(gpu, process)| Step::Appear { gpu, process });
    let step = prop_oneof![
        200 => make,
        60 => appear,
        6 => clear,
        6 => (0u64..40).prop_map(Step::Pass),
        6 => process.prop_map(Step::End),
        1 => (0..GPUS).prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 0..1_500)
}

const fn user_of(process: u64) -> u32 {
    (process % USERS as u64) as u32
}

const fn cgroup_of(process: u64) -> u64 {
    process / USERS as u64 % 3
}

/// What is measured of the client of a process, if it is a client.
fn wanted(process: u64) -> Option<u32> {
    (process % 5 == 0).then_some((process % 120) as u32)
}

/// All claims, with those that have ended.
#[derive(Default)]
struct Model {
    claims: Vec<Claim>,
    gone: BTreeSet<u64>,
    now: Ns,
    seen: u64,
}

impl Model {
    fn is_there(&self, claim: &Claim) -> bool {
        claim.until > self.now && !self.gone.contains(&claim.process)
    }

    /// The claims that have not ended.
    fn there(&self) -> impl Iterator<Item = &Claim> {
        self.claims.iter().filter(|claim| self.is_there(claim))
    }

    fn make(&mut self, claim: Claim, seen: Option<u64>) -> Result<u64, Error> {
        if seen.is_some_and(|seen| seen != self.seen) {
            return Err(Error::Changed);
        }
        let same = |other: &Claim| (other.gpu, other.process) == (claim.gpu, claim.process);
        let here = |other: &&Claim| other.gpu == claim.gpu && !same(other);
        let of_user = |other: &&Claim| here(other) && other.user == claim.user;
        let of_cgroup = |other: &&Claim| of_user(other) && other.cgroup == claim.cgroup;
        let user = self.there().filter(of_user).count();
        let cgroup = self.there().filter(of_cgroup).count();
        let left = 256 - self.there().filter(here).count();
        // One by one: what the user may still take until it has as many as it leaves.
        let may_take = (0..128 - user)
            .take_while(|more| user + more < left - more)
            .count();
        for (has, full) in [(user, may_take == 0), (cgroup, cgroup >= may_take)] {
            if full {
                let name = "claims";
                return Err(Error::Full { name, max: has });
            }
        }
        self.claims.retain(|other| !same(other));
        self.claims.push(claim);
        self.seen += 1;
        Ok(self.seen)
    }

    /// A child of a process has become a client.
    fn appear(&mut self, process: u64, parent: u64, gpu: u32) -> Option<u32> {
        let user = user_of(process);
        let gpus = |of: u64| -> Vec<u32> {
            let own = self
                .claims
                .iter()
                .filter(|claim| claim.process == of && claim.user == user);
            let mut gpus: Vec<u32> = own
                .filter(|claim| claim.until > self.now)
                .map(|claim| claim.gpu)
                .collect();
            gpus.sort_unstable();
            gpus
        };
        let (own, inherited) = (gpus(process), gpus(parent));
        let of = if own.is_empty() {
            inherited
        } else {
            own.clone()
        };
        if !of.contains(&gpu) {
            return of.first().copied();
        }
        if own.is_empty() {
            // What has ended of its own is still in the list.
            self.claims
                .retain(|claim| (claim.process, claim.gpu) != (process, gpu));
            let claim = self
                .claims
                .iter_mut()
                .find(|claim| (claim.process, claim.gpu) == (parent, gpu));
            claim.expect("it has one").process = process;
        }
        None
    }

    fn clear(&mut self, process: u64, gpu: Option<u32>) -> Result<(), Error> {
        let meant = |claim: &Claim| claim.process == process && gpu.is_none_or(|g| g == claim.gpu);
        let any = self
            .claims
            .iter()
            .any(|claim| meant(claim) && claim.until > self.now);
        self.claims.retain(|claim| !meant(claim));
        any.then_some(()).ok_or(Error::NotSet)
    }

    fn claimed(&self, gpu: u32) -> Claimed {
        let mut of_users = BTreeMap::<u32, u32>::new();
        let mut count = 0;
        for claim in self.there().filter(|claim| claim.gpu == gpu) {
            count += u32::from(wanted(claim.process).is_none());
            let left = claim
                .want
                .saturating_sub(wanted(claim.process).unwrap_or(0));
            *of_users.entry(claim.user).or_default() += left;
        }
        Claimed {
            count,
            pct: of_users.values().map(|pct| *pct.min(&100)).sum(),
            seen: self.seen,
        }
    }
}

type Table = Claims<Vec<Claim>>;

fn table() -> Table {
    Claims::new(vec![Claim::default(); GPUS as usize * MAX_CLAIMS], SEEN)
}

/// The claims on each GPU.
fn listed(table: &mut Table, model: &Model) -> Vec<Vec<Claim>> {
    let is_alive = |process| !model.gone.contains(&process);
    (0..GPUS)
        .map(|gpu| table.on(gpu, model.now, is_alive).to_vec())
        .collect()
}

fn claimed(claims: &[Claim], seen: u64) -> Claimed {
    let clients = (0..PROCESSES).filter_map(|process| {
        let want = wanted(process)?;
        Some((process, move || want))
    });
    OnGpu::new(claims.to_vec(), seen).claimed(clients)
}

/// Takes a step in both; returns whether a claim was made.
fn take(table: &mut Table, model: &mut Model, step: &Step) -> Result<bool, TestCaseError> {
    match *step {
        Step::Make {
            gpu,
            process,
            want,
            lasts_ms,
            behind,
        } => {
            if model.gone.contains(&process) {
                // Only a process that runs can claim.
                return Ok(false);
            }
            let claim = Claim {
                process,
                until: model.now.saturating_add(Ns::from_ms(lasts_ms)),
                gpu,
                user: user_of(process),
                cgroup: cgroup_of(process),
                want,
            };
            let seen = behind.map(|behind| model.seen - behind);
            let before = listed(table, model);
            let gone = &model.gone;
            let made = table.make(claim, seen, model.now, |process| !gone.contains(&process));
            prop_assert_eq!(made, model.make(claim, seen));
            if made.is_err() {
                prop_assert_eq!(listed(table, model), before);
            }
            return Ok(made.is_ok());
        }
        // A process that has ended cannot call.
        Step::Clear { process, .. } if model.gone.contains(&process) => {}
        Step::Clear { process, gpu } => {
            let cleared = table.clear(process, gpu, model.now);
            prop_assert_eq!(cleared, model.clear(process, gpu));
        }
        Step::Appear { gpu, process } => {
            // Mostly of the same user.
            let parent = (process + u64::from(USERS)) % PROCESSES;
            if [process, parent].iter().any(|one| model.gone.contains(one)) {
                // A process that has ended is no client, and no parent.
                return Ok(false);
            }
            let line = std::iter::once(parent);
            let told = table.appeared(process, user_of(process), line, gpu, model.now);
            prop_assert_eq!(told, model.appear(process, parent, gpu));
        }
        Step::Pass(ms) => model.now = model.now.saturating_add(Ns::from_ms(ms)),
        Step::End(process) => {
            model.gone.insert(process);
        }
        Step::Remove(gpu) => {
            table.forget_gpu(gpu);
            model.claims.retain(|claim| claim.gpu != gpu);
        }
    }
    Ok(false)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn claims_agree_with_a_naive_model(steps in steps()) {
        let mut table = table();
        let mut model = Model { seen: SEEN, ..Model::default() };
        for (number, step) in steps.iter().enumerate() {
            let before = table.seen();
            let made = take(&mut table, &mut model, step)?;
            prop_assert_eq!(table.seen() > before, made);
            prop_assert_eq!(table.seen() < before, false);
            // All figures now and then: most steps change one claim.
            if number % 16 != 0 && number + 1 != steps.len() {
                continue;
            }
            let listed = listed(&mut table, &model);
            for (gpu, claims) in (0..GPUS).zip(&listed) {
                prop_assert!(claims.len() <= MAX_CLAIMS);
                prop_assert!(claims.is_sorted_by_key(|claim| claim.process));
                prop_assert_eq!(claimed(claims, table.seen()), model.claimed(gpu));
            }
            for (claims, user) in listed.iter().flat_map(|claims| (0..USERS).map(move |user| (claims, user))) {
                let own = claims.iter().filter(|claim| claim.user == user);
                prop_assert!(own.count() <= MAX_CLAIMS_OF_USER);
            }
        }
    }
}

/// Makes a claim of each of these processes on GPU 0.
fn crowd(table: &mut Table, processes: std::ops::Range<u64>, user: u32) -> Vec<Result<u64, Error>> {
    let claim = |process| Claim {
        process,
        until: Ns::from_ms(1_000),
        user,
        want: 10,
        ..Claim::default()
    };
    processes
        .map(|process| table.make(claim(process), None, Ns::ZERO, |_| true))
        .collect()
}

#[test]
fn containers_of_one_user_leave_claims_to_each_other() {
    let mut table = table();
    let name = "claims";
    assert!(crowd(&mut table, 0..64, 0).iter().all(Result::is_ok));
    let mut claim = |process, cgroup| {
        let claim = Claim {
            process,
            until: Ns::from_ms(1_000),
            cgroup,
            ..Claim::default()
        };
        table.make(claim, None, Ns::ZERO, |_| true)
    };
    assert_eq!(claim(100, 0), Err(Error::Full { name, max: 64 }));
    let made: Vec<_> = (200..264).map(|process| claim(process, 7)).collect();
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 32);
    assert!(claim(300, 8).is_ok());
}

#[test]
fn user_fills_its_part_and_leaves_as_much_to_others() {
    let mut table = table();
    let name = "claims";
    let made = crowd(&mut table, 0..65, 1);
    assert!(made[..64].iter().all(Result::is_ok));
    assert_eq!(made[64], Err(Error::Full { name, max: 64 }));
    // In place of one that it has.
    assert!(crowd(&mut table, 0..1, 1)[0].is_ok());
    // Each later one takes a part of what is left, and leaves as much.
    for (user, part) in [(2, 48), (3, 36), (4, 27), (5, 21)] {
        let first = u64::from(user) * 100;
        let made = crowd(&mut table, first..first + 64, user);
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), part);
        assert_eq!(made[part], Err(Error::Full { name, max: part }));
    }
    // The first user's, now of another one that has its part.
    assert_eq!(
        crowd(&mut table, 0..1, 2),
        [Err(Error::Full { name, max: 48 })]
    );
    // Another GPU has room, also for the first user.
    let on = |gpu, user| Claim {
        gpu,
        process: 7_000,
        until: Ns::from_ms(1),
        user,
        cgroup: 0,
        want: 1,
    };
    assert!(table.make(on(1, 1), None, Ns::ZERO, |_| true).is_ok());
    assert_eq!(
        table.make(on(0, 1), None, Ns::ZERO, |_| true),
        Err(Error::Full { name, max: 64 })
    );
    // Room comes back with processes that have ended.
    let made = table.make(on(0, 1), None, Ns::ZERO, |process| process < 63);
    assert!(made.is_ok());
}
