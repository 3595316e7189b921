// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The GPUs of a command: chosen, and claimed before another program can choose by the same
//! figures.
//!
//! The kernel counts the claims that are made. A claim is refused if that number is no longer the one that
//! came with the figures: then all is read again. A claim is for the sake of other programs, so that
//! a program starts without one rather than not at all.

use super::Failure;
use crate::cli;
use crate::control::Snapshot;
use crate::error::Error;
use crate::placing::memory::Memory;
use crate::placing::visible::{Devices, Environment};
use crate::placing::{agreed, Pool, Wish};
use loga::uapi;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// TIMEOUT: of those that claim at a time one succeeds each time, and pauses part the others. The
/// last try compares nothing: a user that claims all the time keeps no program from starting.
const TRIES: u32 = 20;
/// Longest pause after the first try; after the second twice that, and so on.
const PAUSE: Duration = Duration::from_millis(2);
/// For how long a claim counts unless its program is a client before.
const SECONDS: u32 = 30;

/// GPUs that were chosen and claimed.
#[derive(Debug)]
pub(super) struct Claimed {
    /// Their indices, the best one first.
    pub(super) gpus: Vec<u32>,
    /// How programs name GPUs.
    pub(super) devices: Devices,
}

/// Chooses by what `read` gives and claims it by `call`, which returns the number of claims after
/// it; again while others claim meanwhile. `pause` is told how many tries there were.
pub(super) fn claim(
    mut read: impl FnMut() -> Result<Vec<Snapshot>, Failure>,
    mut call: impl FnMut(&uapi::Claim) -> Result<u64, Error>,
    asked: &cli::Asked,
    wish: &Wish,
    environment: &Environment,
    mut pause: impl FnMut(u32),
) -> Result<Claimed, Failure> {
    let mut tries = 1;
    loop {
        let snapshots = read()?;
        let seen = if tries < TRIES {
            agreed(&snapshots)
        } else {
            Some(uapi::CLAIM_ANYWAY)
        };
        if let Some(seen) = seen {
            let devices = Devices::new(&snapshots, &environment.proc);
            let visible = devices.allowed(environment).map_err(Failure::Text)?;
            let asked = devices.resolved(asked).map_err(Failure::Text)?;
            let pool = Pool::new(&snapshots, &asked, visible.as_deref());
            let mut pool = pool.map_err(Failure::Text)?;
            pool.note_memory(&Memory::of(&environment.cgroups), asked.memory);
            let wish = pool.learn(&snapshots, wish, !asked.speeds.is_empty());
            let gpus = pool.choose(&wish).map_err(Failure::Text)?;
            let want = |gpu: u32| pool.claim_pct(gpu, &wish);
            match claim_all(&mut call, &gpus, want, seen) {
                Ok(()) => return Ok(Claimed { gpus, devices }),
                Err(error) => {
                    clear(&mut call, &gpus);
                    if seen == uapi::CLAIM_ANYWAY || !is(uapi::REFUSED_CHANGED, &error) {
                        return Err(error.into());
                    }
                }
            }
        }
        pause(tries);
        tries += 1;
    }
}

/// Claims these GPUs. One without room for a further claim is used without: it is loaded anyway.
fn claim_all(
    call: &mut impl FnMut(&uapi::Claim) -> Result<u64, Error>,
    gpus: &[u32],
    want: impl Fn(u32) -> u32,
    mut seen: u64,
) -> Result<(), Error> {
    for gpu in gpus {
        let made = call(&uapi::Claim {
            gpu: *gpu,
            action: uapi::ACTION_SET,
            want_pct: want(*gpu),
            seconds: SECONDS,
            seen,
            ..Default::default()
        });
        match made {
            Ok(next) if seen != uapi::CLAIM_ANYWAY => seen = next,
            Ok(_) => {}
            Err(error) if is(uapi::REFUSED_FULL, &error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether a call was refused for this reason.
fn is(code: u32, error: &Error) -> bool {
    matches!(error, Error::Refused(refusal) if refusal.code == code)
}

/// Takes the claims of this process back.
pub(super) fn clear(mut call: impl FnMut(&uapi::Claim) -> Result<u64, Error>, gpus: &[u32]) {
    for gpu in gpus {
        let wanted = uapi::Claim {
            gpu: *gpu,
            action: uapi::ACTION_CLEAR,
            seen: uapi::CLAIM_ANYWAY,
            ..Default::default()
        };
        // Those after the one that was refused were not made; all end with this process anyway.
        let _ = call(&wanted);
    }
}

/// Waits for a random time that may be longer with each try.
pub(super) fn pause(tries: u32) {
    let most = PAUSE.saturating_mul(tries).as_nanos().max(1);
    let random = u128::from(RandomState::new().hash_one(tries));
    let ns = u64::try_from(random % most).unwrap_or(0);
    std::thread::sleep(Duration::from_nanos(ns));
}
