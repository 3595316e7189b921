// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Claims on all GPUs of an attachment.
//!
//! All GPUs share one table, as the number that a claim is compared with counts the claims on all
//! of them. No lock is taken inside its lock, and a snapshot copies the claims before it locks the
//! books: callers that claim delay no decision.

use crate::claims::{Claim, Claims, OnGpu, MAX_CLAIMS};
use crate::error;
use crate::glue::kernel::ffi;
use crate::glue::kernel::pi_mutex::{new_pi_mutex, PiMutex};
use crate::glue::kernel::preempt::PreemptGuard;
use crate::glue::kernel::process::{is_alive, Process};
use crate::glue::kernel::storage::storage;
use crate::share::Identity;
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A claim to make.
pub(crate) struct Wanted {
    /// Index of the GPU.
    pub(crate) gpu: u32,
    /// What it counts, in percent.
    pub(crate) want: u32,
    /// For how long.
    pub(crate) lasts: Ns,
    /// The level at which cgroups of a user are told apart, see [`Identity::tenant`].
    pub(crate) depth: u32,
}

/// The claims on all GPUs.
#[pin_data]
pub(crate) struct ClaimTable {
    #[pin]
    claims: PiMutex<Claims<KVVec<Claim>>>,
}

impl ClaimTable {
    /// An empty table for this many GPUs. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(gpus: usize) -> Result<Arc<Self>> {
        let store = storage(gpus.saturating_mul(MAX_CLAIMS))?;
        // Later than all numbers of the attachment before: each claim took longer than 1 ns.
        let seen = ffi::now().get();
        Arc::pin_init(
            pin_init!(Self {
                claims <- new_pi_mutex!(Claims::new(store, seen)),
            }),
            GFP_KERNEL,
        )
    }

    /// Makes room for the claims on this many GPUs. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn make_room(&self, gpus: usize) -> Result {
        let store = storage(gpus.saturating_mul(MAX_CLAIMS))?;
        // The memory that is not used any more is freed outside the lock.
        let spare = self.with(|claims| claims.grow(store));
        drop(spare);
        Ok(())
    }

    /// Locks the table for `act`, which must not sleep nor allocate.
    fn with<R>(&self, act: impl FnOnce(&mut Claims<KVVec<Claim>>) -> R) -> R {
        let mut claims = self.claims.lock();
        // Waiting threads raise this one to their own priority. Those of the same priority would wait
        // for the threads that preempt it.
        let _stays = PreemptGuard::new();
        let result = act(&mut claims);
        drop(claims);
        result
    }

    /// Makes a claim for a process. `seen` is the number that it is based on, if that is to be
    /// compared. Returns the number after it.
    ///
    /// # Errors
    ///
    /// As [`Claims::make`].
    pub(crate) fn make(
        &self,
        identity: &Identity,
        wanted: &Wanted,
        seen: Option<u64>,
    ) -> Result<u64, error::Error> {
        let now = ffi::now();
        let claim = Claim {
            process: identity.process,
            until: now.saturating_add(wanted.lasts),
            gpu: wanted.gpu,
            user: identity.user,
            cgroup: identity.tenant(wanted.depth).cgroup,
            want: wanted.want,
        };
        self.with(|claims| claims.make(claim, seen, now, is_alive))
    }

    /// Takes the claims of a process back, on one GPU or on all. Returns the number of the claims.
    ///
    /// # Errors
    ///
    /// As [`Claims::clear`].
    pub(crate) fn clear(&self, process: u64, gpu: Option<u32>) -> Result<u64, error::Error> {
        self.with(|claims| {
            claims.clear(process, gpu, ffi::now())?;
            Ok(claims.seen())
        })
    }

    /// As [`Claims::appeared`], now.
    pub(super) fn appeared(&self, process: &Process, gpu: u32) -> Option<u32> {
        let identity = process.identity()?;
        let (now, ancestors) = (ffi::now(), process.ancestors());
        self.with(|claims| claims.appeared(identity.process, identity.user, ancestors, gpu, now))
    }

    /// Forgets the claims on a GPU.
    pub(super) fn forget_gpu(&self, gpu: u32) {
        self.with(|claims| claims.forget_gpu(gpu));
    }

    /// A copy of the claims on a GPU. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn on(&self, gpu: u32) -> Result<OnGpu<KVec<Claim>>> {
        let mut copy = KVec::new();
        let (count, seen) = self.with(|claims| {
            let count = claims.on(gpu, ffi::now(), is_alive).len();
            (count, claims.seen())
        });
        // Mostly there are none.
        if count == 0 {
            return Ok(OnGpu::new(copy, seen));
        }
        copy.reserve(MAX_CLAIMS, GFP_KERNEL)?;
        let seen = self.with(|claims| {
            for claim in claims.on(gpu, ffi::now(), is_alive) {
                // There is room: a GPU has no more.
                let _ = copy.push_within_capacity(*claim);
            }
            claims.seen()
        });
        Ok(OnGpu::new(copy, seen))
    }
}
