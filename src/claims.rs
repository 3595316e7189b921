// SPDX-License-Identifier: GPL-2.0

//! [pure] Claims: the load that programs which are about to start will bring to GPUs.
//!
//! `loga run --gpu auto` reads the figures of all GPUs, chooses one, claims what the program is
//! expected to want of it, and starts the program. The figures show the program only when it has
//! used the GPU for a while: until then its claim counts, so that programs that start at the same
//! time do not all choose the same idle GPU. A number that each claim changes tells a program that
//! another one has claimed a GPU since it read the figures; it then reads them again.
//!
//! A claim ends when its time is up, when its process is gone, or when it is cleared. Once its
//! process is a client of the GPU, it counts what the client is not measured to want yet. If not its
//! process but one that descends from it becomes a client, as with a script that starts the program,
//! the claim is that one's from then on.
//!
//! All claims are in one table, as the number is one. A claim that has ended may still be in it: each call first removes those that it would count.

use crate::error::Error;
use crate::storage::Bounded;
use crate::units::Ns;
use core::ops::DerefMut;

/// Most claims on a GPU.
pub const MAX_CLAIMS: usize = 256;
/// Most claims of a user on a GPU: no user fills the table of a GPU, and the claims of one that
/// starts hundreds of programs spread over all of them.
pub const MAX_CLAIMS_OF_USER: usize = 64;
/// A whole GPU, in percent: the most that a claim may count, and all claims of a user on one GPU
/// together. A user with many claims so keeps others away from a GPU as one program does that
/// computes all the time, and no more; where programs are only counted, as so many idle clients.
pub const WHOLE: u32 = 100;

/// What one process will bring to one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Key of the process.
    pub process: u64,
    /// When it ends.
    pub until: Ns,
    /// Index of the GPU.
    pub gpu: u32,
    /// User of the process.
    pub user: u32,
    /// What it counts, in percent of the GPU.
    pub want: u32,
}

impl Claim {
    /// Its place in the table.
    const fn key(&self) -> (u32, u64) {
        (self.gpu, self.process)
    }
}

/// The claims on all GPUs. The memory is the caller's, of [`MAX_CLAIMS`] elements for each GPU.
///
/// # Invariants
///
/// In ascending order of GPU and process, each pair of them once.
#[derive(Debug)]
pub struct Claims<R> {
    table: Bounded<R>,
    seen: u64,
}

impl<R: DerefMut<Target = [Claim]>> Claims<R> {
    /// No claims. `seen` is a number that no caller has from another table.
    pub const fn new(store: R, seen: u64) -> Self {
        let table = Bounded::new(store);
        Self { table, seen }
    }

    /// A number that each claim that is made changes. It never goes back.
    pub const fn seen(&self) -> u64 {
        self.seen
    }

    /// The claims on a GPU, in ascending order of process.
    pub fn on(&mut self, gpu: u32, now: Ns, is_alive: impl Fn(u64) -> bool) -> &[Claim] {
        self.forget_ended(now, is_alive, |claim| claim.gpu == gpu);
        let all = self.table.all();
        let begin = all.partition_point(|claim| claim.gpu < gpu);
        let end = all.partition_point(|claim| claim.gpu <= gpu);
        all.get(begin..end).unwrap_or_default()
    }

    /// Makes a claim, in place of that of the same process on the same GPU. `seen` is the number
    /// that the choice of the GPU was based on, if it is to be compared. Returns the number after
    /// it.
    ///
    /// # Errors
    ///
    /// [`Error::Changed`] if `seen` is another number, [`Error::Full`]; then nothing has changed.
    pub fn make(
        &mut self,
        claim: Claim,
        seen: Option<u64>,
        now: Ns,
        is_alive: impl Fn(u64) -> bool,
    ) -> Result<u64, Error> {
        let (gpu, user) = (claim.gpu, claim.user);
        self.forget_ended(now, is_alive, |other| other.gpu == gpu);
        if seen.is_some_and(|seen| seen != self.seen) {
            return Err(Error::Changed);
        }
        let here = || {
            let all = self.table.all().iter();
            all.filter(|other| other.gpu == gpu && other.process != claim.process)
        };
        let own = here().filter(|other| other.user == user).count();
        for (count, max) in [(own, MAX_CLAIMS_OF_USER), (here().count(), MAX_CLAIMS)] {
            if count >= max {
                return Err(full(max));
            }
        }
        if !self.put(claim) {
            return Err(full(self.table.room()));
        }
        self.seen = self.seen.saturating_add(1);
        Ok(self.seen)
    }

    /// Takes the claims of a process back, on one GPU or on all.
    ///
    /// # Errors
    ///
    /// [`Error::NotSet`] if there is none.
    pub fn clear(&mut self, process: u64, gpu: Option<u32>, now: Ns) -> Result<(), Error> {
        let is_meant =
            |claim: &Claim| claim.process == process && gpu.is_none_or(|index| index == claim.gpu);
        let is_there = |claim: &Claim| is_meant(claim) && claim.until > now;
        let any = self.table.all().iter().any(is_there);
        self.table.retain(|claim| !is_meant(claim));
        if any {
            Ok(())
        } else {
            Err(Error::NotSet)
        }
    }

    /// A process of a user has become a client of a GPU. It inherits the claim on that GPU if the
    /// nearest of its `ancestors` with claims has one and is the same user's; `ancestors` begin with
    /// the nearest. Returns a GPU that it, or this ancestor, has claimed if that has claimed some and
    /// not this one.
    pub fn appeared(
        &mut self,
        process: u64,
        user: u32,
        ancestors: impl Iterator<Item = u64>,
        gpu: u32,
        now: Ns,
    ) -> Option<u32> {
        let all = self.table.all();
        let of = |line: u64| {
            let own = all.iter().filter(move |claim| claim.process == line);
            own.filter(|claim| claim.until > now && claim.user == user)
        };
        let mut line = core::iter::once(process).chain(ancestors);
        let claimant = line.find(|one| of(*one).next().is_some())?;
        let first = of(claimant).next()?.gpu;
        let Some(claim) = of(claimant).find(|claim| claim.gpu == gpu).copied() else {
            return Some(first);
        };
        if claimant != process {
            self.table.retain(|one| one.key() != claim.key());
            self.put(Claim { process, ..claim });
        }
        None
    }

    /// Forgets the claims on a GPU that is gone.
    pub fn forget_gpu(&mut self, gpu: u32) {
        self.table.retain(|claim| claim.gpu != gpu);
    }

    /// Forgets claims that have ended, of those that are `meant`.
    fn forget_ended(
        &mut self,
        now: Ns,
        is_alive: impl Fn(u64) -> bool,
        meant: impl Fn(&Claim) -> bool,
    ) {
        self.table
            .retain(|claim| !meant(claim) || (claim.until > now && is_alive(claim.process)));
    }

    /// Puts a claim into its place in the order, or in place of that of the same process on the same
    /// GPU. False if there is no room.
    fn put(&mut self, claim: Claim) -> bool {
        match self.find(&claim) {
            Ok(at) => {
                if let Some(slot) = self.table.all_mut().get_mut(at) {
                    *slot = claim;
                }
                true
            }
            Err(at) => self.table.insert(at, claim),
        }
    }

    /// Position of the claim of the same process on the same GPU, or where it would be.
    fn find(&self, claim: &Claim) -> Result<usize, usize> {
        let all = self.table.all();
        all.binary_search_by_key(&claim.key(), Claim::key)
    }
}

const fn full(max: usize) -> Error {
    let name = "claims";
    Error::Full { name, max }
}

/// What the claims on one GPU count together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    /// Claims of processes that are no clients of the GPU yet: a process is one program.
    pub count: u32,
    /// What they count, in percent of the GPU: more than 100 with several users.
    pub pct: u32,
    /// [`Claims::seen`].
    pub seen: u64,
}

/// A copy of the claims on one GPU.
#[derive(Debug)]
pub struct OnGpu<R> {
    claims: R,
    seen: u64,
}

impl<R: DerefMut<Target = [Claim]>> OnGpu<R> {
    /// These claims, in the order of [`Claims::on`], as of the number `seen`.
    pub const fn new(claims: R, seen: u64) -> Self {
        Self { claims, seen }
    }

    /// What they count beside the clients of the GPU. Of each client: the key of its process, and
    /// what gives its measured want, in percent.
    pub fn claimed<W>(mut self, clients: impl Iterator<Item = (u64, W)>) -> Claimed
    where
        W: FnOnce() -> u32,
    {
        let mut count = u32::try_from(self.claims.len()).unwrap_or(u32::MAX);
        // Mostly there are none.
        if count == 0 {
            return Claimed {
                seen: self.seen,
                ..Claimed::default()
            };
        }
        for (process, want) in clients {
            let at = self
                .claims
                .binary_search_by_key(&process, |claim| claim.process);
            if let Some(claim) = at.ok().and_then(|at| self.claims.get_mut(at)) {
                claim.want = claim.want.saturating_sub(want());
                count = count.saturating_sub(1);
            }
        }
        Claimed {
            count,
            pct: sum(&self.claims),
            seen: self.seen,
        }
    }
}

/// What claims on one GPU count together: those of each user at most a whole GPU.
fn sum(claims: &[Claim]) -> u32 {
    let of_user = |user: u32| claims.iter().filter(move |claim| claim.user == user);
    let first = |user: u32| claims.iter().position(|claim| claim.user == user);
    // Each user once, at its first claim.
    let users = (0..).zip(claims).map(|(at, claim)| (at, claim.user));
    let users = users.filter(|(at, user)| first(*user) == Some(*at));
    let wants = users.map(|(_, user)| {
        let wants = of_user(user).map(|claim| claim.want);
        wants.fold(0, u32::saturating_add).min(WHOLE)
    });
    wants.fold(0, u32::saturating_add)
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_claims))]
mod tests {
    use super::*;

    const END: Ns = Ns::from_ms(1_000);

    fn claim(gpu: u32, process: u64, want: u32) -> Claim {
        Claim {
            process,
            until: END,
            gpu,
            user: 30,
            want,
        }
    }

    fn of_user(user: u32, claim: Claim) -> Claim {
        Claim { user, ..claim }
    }

    /// What they count without clients.
    fn pct(claims: &[Claim]) -> u32 {
        let mut copy = [Claim::default(); 4];
        let copy = &mut copy[..claims.len()];
        for (to, from) in copy.iter_mut().zip(claims) {
            *to = *from;
        }
        let clients = core::iter::empty::<(u64, fn() -> u32)>();
        OnGpu::new(copy, 0).claimed(clients).pct
    }

    #[test]
    fn claim_of_the_same_process_and_gpu_replaces_the_one_before() {
        let mut store = [Claim::default(); 4];
        let mut claims = Claims::new(&mut store[..], 7);
        for (claim, seen) in [
            (claim(0, 5, 40), 8),
            (claim(1, 5, 40), 9),
            (claim(0, 5, 60), 10),
        ] {
            assert_eq!(claims.make(claim, None, Ns::ZERO, |_| true), Ok(seen));
        }
        assert_eq!(claims.seen(), 10);
        assert!(claims.on(0, Ns::ZERO, |_| true) == [claim(0, 5, 60)]);
        assert!(claims.on(1, Ns::ZERO, |_| true) == [claim(1, 5, 40)]);
        assert!(claims.on(2, Ns::ZERO, |_| true).is_empty());
    }

    #[test]
    fn claim_based_on_an_earlier_number_is_refused_and_changes_nothing() {
        let mut store = [Claim::default(); 4];
        let mut claims = Claims::new(&mut store[..], 7);
        let (one, other) = (claim(0, 5, 40), claim(1, 6, 40));
        assert_eq!(claims.make(one, Some(7), Ns::ZERO, |_| true), Ok(8));
        // Also of another GPU: the choice was between all of them.
        let stale = claims.make(other, Some(7), Ns::ZERO, |_| true);
        assert_eq!(stale, Err(Error::Changed));
        assert_eq!(claims.seen(), 8);
        assert!(claims.on(1, Ns::ZERO, |_| true).is_empty());
        assert_eq!(claims.make(other, Some(8), Ns::ZERO, |_| true), Ok(9));
    }

    #[test]
    fn process_on_none_of_the_gpus_that_it_has_claimed_is_elsewhere() {
        let mut store = [Claim::default(); 4];
        let mut claims = Claims::new(&mut store[..], 0);
        let none = core::iter::empty;
        assert_eq!(claims.appeared(5, 30, none(), 0, Ns::ZERO), None);
        for gpu in [1, 2] {
            let made = claims.make(claim(gpu, 5, 40), None, Ns::ZERO, |_| true);
            assert!(made.is_ok());
        }
        let mut elsewhere = |process, gpu, now| claims.appeared(process, 30, none(), gpu, now);
        assert_eq!(elsewhere(5, 0, Ns::ZERO), Some(1));
        assert_eq!([1, 2].map(|gpu| elsewhere(5, gpu, Ns::ZERO)), [None; 2]);
        // Without a claim of its own, and when its claims have ended.
        assert_eq!(elsewhere(6, 0, Ns::ZERO), None);
        assert_eq!(elsewhere(5, 0, END), None);
    }

    #[test]
    fn program_inherits_the_claim_of_the_script_that_started_it() {
        let mut store = [Claim::default(); 4];
        let mut claims = Claims::new(&mut store[..], 0);
        for gpu in [1, 2] {
            let made = claims.make(claim(gpu, 5, 40), None, Ns::ZERO, |_| true);
            assert!(made.is_ok());
        }
        let line = || [6u64, 5, 4].into_iter();
        // Not of another user, not on another GPU, not when it has ended.
        assert_eq!(claims.appeared(7, 31, line(), 1, Ns::ZERO), None);
        assert_eq!(claims.appeared(7, 30, line(), 0, Ns::ZERO), Some(1));
        assert_eq!(claims.appeared(7, 30, line(), 1, END), None);
        assert!(claims.on(1, Ns::ZERO, |_| true) == [claim(1, 5, 40)]);
        assert_eq!(claims.appeared(7, 30, line(), 1, Ns::ZERO), None);
        assert!(claims.on(1, Ns::ZERO, |_| true) == [claim(1, 7, 40)]);
        // A second program of the script has no claim on that GPU.
        assert_eq!(claims.appeared(8, 30, line(), 1, Ns::ZERO), Some(2));
        assert_eq!(claims.seen(), 2);
        // Its own claims count before those of others.
        assert_eq!(claims.appeared(7, 30, line(), 2, Ns::ZERO), Some(1));
        assert!(claims.on(2, Ns::ZERO, |_| true) == [claim(2, 5, 40)]);
    }

    #[test]
    fn claim_ends_with_its_time_its_process_or_its_gpu() {
        let mut store = [Claim::default(); 4];
        let mut claims = Claims::new(&mut store[..], 0);
        let before = END.saturating_sub(Ns::new(1));
        for process in [5, 6] {
            assert!(claims
                .make(claim(0, process, 40), None, Ns::ZERO, |_| true)
                .is_ok());
        }
        assert!(claims
            .make(claim(1, 5, 40), None, Ns::ZERO, |_| true)
            .is_ok());
        assert_eq!(claims.on(0, before, |_| true).len(), 2);
        assert!(claims.on(0, before, |process| process == 5) == [claim(0, 5, 40)]);
        assert!(claims.on(0, END, |_| true).is_empty());
        assert_eq!(claims.on(1, before, |_| true).len(), 1);
        claims.forget_gpu(1);
        assert!(claims.on(1, before, |_| true).is_empty());
    }

    #[test]
    fn clear_takes_back_own_claims_and_refuses_where_there_is_none() {
        let mut store = [Claim::default(); 4];
        let mut claims = Claims::new(&mut store[..], 0);
        for claim in [claim(0, 5, 40), claim(1, 5, 40), claim(1, 6, 40)] {
            assert!(claims.make(claim, None, Ns::ZERO, |_| true).is_ok());
        }
        assert_eq!(claims.clear(5, Some(0), Ns::ZERO), Ok(()));
        assert_eq!(claims.clear(5, Some(0), Ns::ZERO), Err(Error::NotSet));
        assert_eq!(claims.clear(5, None, END), Err(Error::NotSet));
        assert!(claims.on(1, Ns::ZERO, |_| true) == [claim(1, 6, 40)]);
        assert_eq!(claims.seen(), 3);
    }

    #[test]
    fn claims_of_one_user_count_one_gpu_at_most() {
        let own = [claim(0, 5, 70), claim(0, 6, 70)];
        assert_eq!(pct(&own), 100);
        let [one, two] = own;
        assert_eq!(pct(&[one, of_user(31, claim(0, 7, 20)), two]), 120);
        assert_eq!(pct(&[claim(0, 5, 30), claim(0, 6, 20)]), 50);
        assert_eq!(pct(&[]), 0);
    }

    #[test]
    fn claim_of_a_client_counts_what_the_client_does_not_want_yet() {
        let claims = || {
            [
                claim(0, 5, 70),
                claim(0, 6, 20),
                of_user(31, claim(0, 7, 10)),
            ]
        };
        let counted = |wants: &[(u64, u32)]| {
            let mut claims = claims();
            let clients = wants.iter().map(|(process, want)| (*process, || *want));
            OnGpu::new(&mut claims[..], 9).claimed(clients)
        };
        let claimed = |count, pct| Claimed {
            count,
            pct,
            seen: 9,
        };
        assert_eq!(counted(&[]), claimed(3, 100));
        // A client is one program, and no second one by its claim.
        assert_eq!(counted(&[(4, 50), (5, 30)]), claimed(2, 70));
        // One that wants more than it claimed takes nothing from the others.
        assert_eq!(counted(&[(5, 90), (7, 10), (8, 50)]), claimed(1, 20));
    }
}
