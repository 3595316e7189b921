// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Claims: the load that programs which are about to start will bring to GPUs.
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
use crate::quota::{Held, Quota, Tenant};
use crate::storage::Bounded;
use crate::units::Ns;
use core::ops::DerefMut;

/// Most claims on a GPU.
pub const MAX_CLAIMS: usize = 256;
/// Most claims of a user on a GPU, in all its cgroups, half of them in its first: the claims of one
/// that starts hundreds of programs spread over all GPUs.
pub const MAX_CLAIMS_OF_USER: usize = 128;
/// How the claims on a GPU are divided.
const CLAIMS: Quota = Quota::new(MAX_CLAIMS, MAX_CLAIMS_OF_USER);
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
    /// Its cgroup at the tenants' level, when it claimed.
    pub cgroup: u64,
    /// What it counts, in percent of the GPU.
    pub want: u32,
}

impl Claim {
    /// Its place in the table.
    const fn key(&self) -> (u32, u64) {
        (self.gpu, self.process)
    }

    const fn tenant(&self) -> Tenant {
        Tenant {
            user: self.user,
            cgroup: self.cgroup,
        }
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

    /// Moves the claims to a larger memory, and returns the one that is not used any more.
    pub fn grow(&mut self, store: R) -> R {
        self.table.grow(store)
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
        let gpu = claim.gpu;
        self.forget_ended(now, is_alive, |other| other.gpu == gpu);
        if seen.is_some_and(|seen| seen != self.seen) {
            return Err(Error::Changed);
        }
        let all = self.table.all().iter();
        let here = all.filter(|other| other.gpu == gpu && other.process != claim.process);
        let held = Held::count(claim.tenant(), here.map(Claim::tenant));
        CLAIMS.check(&held).map_err(full)?;
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
