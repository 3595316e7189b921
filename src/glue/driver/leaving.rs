// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Leaving the driver: its members are restored, and no call uses LoGA's state any more.

use super::inside;
use super::operations::{Driver, Hooked};
use super::tracker::Tracker;
use crate::glue::kernel::ffi;
use kernel::prelude::*;
use kernel::time::{delay::fsleep, Delta};

/// Longest time that detaching waits for calls inside the driver.
pub(super) const PATIENCE: Delta = Delta::from_secs(3);
/// Interval of checking whether the calls have returned.
const CHECK: Delta = Delta::from_millis(2);

/// Restores the driver's members and waits until no call uses LoGA's state, see `inside`. On failure
/// LoGA's members are put back. A mapping that comes meanwhile through LoGA's `mmap` is taken over as
/// ever, and is a failure.
///
/// # Errors
///
/// As `hook::detach`.
pub(super) fn let_go(driver: &Driver, tracker: &Tracker, patience: Option<Delta>) -> Result {
    let hooked = driver.hooked();
    if hooked == Hooked::Others {
        return Err(hooked_after(patience));
    }
    tracker.close().inspect_err(|_| {
        pr_err!(
            "cannot detach: submission pages are mapped; end the programs that use the GPU first\n"
        );
    })?;
    if hooked == Hooked::Ours && driver.unhook().is_err() {
        tracker.reopen();
        return Err(hooked_after(patience));
    }
    let mut gone = drain(patience).and_then(|()| tracker.is_closed());
    if gone.is_ok() {
        // Last: if LoGA's members must be put back, no file with a record was closed unseen.
        driver.unhook_release();
        gone = drain(patience);
    }
    gone.inspect_err(|error| {
        if hooked == Hooked::Ours {
            driver.hook_again();
        }
        tracker.reopen();
        if *error == EBUSY {
            pr_err!(
                "cannot detach: submission pages are mapped, or {} calls stay inside the driver; end the programs that use the GPU first\n",
                inside::users()
            );
        }
        pr_warn!("submission pages mapped while LoGA tried to detach are neither charged nor throttled\n");
    })
}

/// `EBUSY`; logged only for a caller with `patience`, since one without retries.
fn hooked_after(patience: Option<Delta>) -> Error {
    if patience.is_some() {
        pr_err!("cannot detach: another module hooked the driver after LoGA; remove it first\n");
    }
    EBUSY
}

/// Waits until no call through a replaced member can use LoGA's state: for `patience`, or without a
/// bound.
///
/// # Errors
///
/// `EBUSY`: it took longer; `EINTR`: the caller has a fatal signal.
pub(super) fn drain(patience: Option<Delta>) -> Result {
    synchronize();
    let since = ffi::now();
    let mut warned = false;
    while inside::users() != 0 {
        let waited = ffi::now().saturating_sub(since).get();
        // CAST: a small constant.
        let is_long = waited > PATIENCE.as_nanos() as u64;
        match patience {
            // CAST: as above.
            Some(patience) if waited > patience.as_nanos() as u64 => return Err(EBUSY),
            // SAFETY: Process context, and no lock is held.
            Some(_) if unsafe { ffi::loga_sleep_killable(2) } => return Err(EINTR),
            Some(_) => {}
            None => {
                if is_long && !core::mem::replace(&mut warned, true) {
                    pr_warn!(
                        "unloading waits for {} calls inside the driver\n",
                        inside::users()
                    );
                }
                fsleep(CHECK);
            }
        }
    }
    synchronize();
    Ok(())
}

/// Waits until no call is inside a wrapper, before code that calls return to is freed. Sleeps.
pub(super) fn wait_for_all_calls() {
    let since = ffi::now();
    let mut warned = false;
    // TIMEOUT: none. The callers may end when they like; the warning says what to do.
    while inside::count() != 0 {
        let waited = ffi::now().saturating_sub(since).get();
        // CAST: a small constant.
        let is_long = waited > PATIENCE.as_nanos() as u64;
        if is_long && !core::mem::replace(&mut warned, true) {
            pr_warn!(
                "unloading waits for {} calls inside the driver: end the programs that made them\n",
                inside::count()
            );
        }
        fsleep(CHECK);
    }
    synchronize();
}

/// Waits until no task can be on the way into a wrapper. May sleep.
fn synchronize() {
    // SAFETY: Sleeps; called from process context without a lock that a hooked call takes.
    unsafe { ffi::loga_synchronize_rcu_tasks() };
}
