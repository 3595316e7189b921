// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Attaching to the driver, and detaching.
//!
//! A call may be inside a wrapper without a reference on this module (`owner` is the driver).
//! Detaching therefore restores the driver's members, waits until no task can be on the way into
//! a wrapper (RCU-tasks), until no call uses LoGA's state (a counter), and once more for those on
//! their last instructions. A caller can keep an ioctl inside the driver by an argument whose page
//! does not arrive: it uses no state meanwhile, and only unloading waits for it. For other calls
//! detaching waits for [`PATIENCE`], then puts LoGA's members back.
//!
//! No lock is held while it waits: `/dev/loga` and the parameter `attach` stay readable.

use super::inside::{self, Current};
use super::leaving::{drain, let_go, wait_for_all_calls, PATIENCE};
use super::members::OURS;
use super::operations::Driver;
use super::tracker::Tracker;
use crate::compatibility;
use crate::glue::control::params;
use crate::glue::control::sysfs::Directory;
use crate::glue::gpu::device::bar::Found;
use crate::glue::gpu::kept::Kept;
use crate::glue::kernel::ffi::{self, Card};
use crate::glue::kernel::print::Line;
use crate::glue::kernel::refusals::{self, refuse};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;
use kernel::time::{delay::fsleep, Delta};

/// An attachment in force.
struct Attachment {
    driver: Arc<Driver>,
    /// Knobs of the GPUs.
    directories: KVec<Directory>,
    tracker: Arc<Tracker>,
}

/// State of the attachment.
enum State {
    Detached,
    /// A thread is attaching; the tracker, once it exists.
    Attaching(Option<Arc<Tracker>>),
    Attached(Attachment),
    /// A thread is detaching, and may fail, or adds GPUs.
    Changing(Arc<Tracker>),
}

struct Hook {
    state: State,
    /// LoGA attaches as soon as a driver or a GPU appears.
    waits: bool,
    /// The last attempt to attach found no driver.
    no_driver: bool,
    /// A driver or a GPU has appeared while a thread attaches, detaches, or adds GPUs.
    missed: bool,
    /// The module's exit has begun: LoGA does not attach any more.
    going: bool,
    /// While it is detached: what stays of the GPUs.
    kept: KVec<Kept>,
}

kernel::sync::global_lock! {
    // SAFETY: Initialised in `prepare`. Nothing uses it before: notifiers and the control device
    // are registered later, and writes to the parameter `attach` only take effect after
    // `loga_attach_ready`.
    unsafe(uninit) static HOOK: Mutex<Hook> = Hook {
        state: State::Detached,
        waits: false,
        no_driver: false,
        missed: false,
        going: false,
        kept: KVec::new(),
    };
}

/// Value of the parameter `attach`; its file is readable before the lock exists.
static IS_ATTACHED: Atomic<u32> = Atomic::new(0);

/// Why LoGA attaches now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Occasion {
    /// The module is loaded.
    Load,
    /// The administrator writes the parameter.
    Asked,
    /// A driver or a GPU has appeared.
    Appeared,
}

/// Initialises the statics of this file, and checks the parameters. Called once, first.
///
/// # Errors
///
/// `EINVAL`: a parameter is wrong; the log names it in one line.
pub(crate) fn prepare() -> Result {
    // SAFETY: Called once, before the module is reachable from anywhere.
    unsafe { HOOK.init() };
    params::read()?;
    Ok(())
}

/// Attaches if the parameter `attach` is 1. Called once, at load. A failure does not fail the load:
/// without a driver LoGA waits for it.
pub(crate) fn attach_on_load() {
    // SAFETY: Called once, while the module loads, after `prepare`.
    if !unsafe { ffi::loga_attach_ready() } {
        return;
    }
    HOOK.lock().waits = true;
    match attach(Occasion::Load) {
        Ok(()) => {}
        Err(error) if error == ENODEV => {
            pr_info!("no NVIDIA driver with a GPU that LoGA follows: LoGA waits for it\n");
        }
        Err(error) => pr_warn!(
            "loaded, but not attached ({error:?}); write 1 to /sys/module/loga/parameters/attach to try again\n"
        ),
    }
}

/// Attaches if LoGA waits for a driver; if it is attached, follows GPUs that the driver has again,
/// and those that it did not have before. Called in a work item.
pub(super) fn attach_or_retake() {
    let mut hook = HOOK.lock();
    if matches!(hook.state, State::Attaching(_) | State::Changing(_)) {
        hook.missed = true;
        return;
    }
    if let State::Attached(attachment) = &hook.state {
        let (driver, tracker) = (attachment.driver.clone(), attachment.tracker.clone());
        drop(hook);
        let cards = driver.cards();
        tracker.retake_bound(driver.owner(), &cards);
        // Those that were refused are found again, and refused again.
        refusals::forget();
        match tracker.find_new(&driver) {
            Ok(found) if found.is_empty() && tracker.refused() == 0 => {}
            Ok(found) => follow(&tracker, found, &cards),
            Err(error) => pr_err!("GPUs that the driver has now are not followed: {error:?}\n"),
        }
        return;
    }
    let waits = hook.waits;
    drop(hook);
    if waits {
        // Errors are logged already, except that there is no driver.
        let _ = attach(Occasion::Appeared);
    }
}

/// Follows GPUs that the driver has got since LoGA attached.
fn follow(tracker: &Arc<Tracker>, found: KVec<Found>, cards: &[Card]) {
    // Keeps threads from detaching meanwhile.
    let Some(mut attachment) = take_attachment(Some(tracker)) else {
        return;
    };
    tracker.follow(found, cards, |gpu| {
        let added = Directory::add(gpu).and_then(|directory| {
            let pushed = attachment.directories.push(directory, GFP_KERNEL);
            pushed.map_err(Error::from)
        });
        if let Err(error) = added {
            pr_warn!("{}: no knobs in sysfs: {error:?}\n", gpu.device.address);
        }
    });
    // One that was unbound meanwhile, before notifiers found it.
    tracker.drop_unbound(attachment.driver.owner());
    settle(State::Attached(attachment));
}

/// Ends what a thread was at, and does what has come meanwhile.
fn settle(state: State) {
    let mut hook = HOOK.lock();
    let before = core::mem::replace(&mut hook.state, state);
    let missed = core::mem::take(&mut hook.missed);
    drop(hook);
    drop(before);
    if missed {
        attach_or_retake();
    }
}

/// Takes the attachment to change it, if there is one; with `of`, the one with this tracker. The
/// caller puts it back.
fn take_attachment(of: Option<&Arc<Tracker>>) -> Option<Attachment> {
    let mut hook = HOOK.lock();
    let State::Attached(attachment) = &hook.state else {
        return None;
    };
    let tracker = attachment.tracker.clone();
    if of.is_some_and(|of| !Arc::ptr_eq(of, &tracker)) {
        return None;
    }
    match core::mem::replace(&mut hook.state, State::Changing(tracker)) {
        State::Attached(attachment) => Some(attachment),
        other => {
            hook.state = other;
            None
        }
    }
}

/// Whether LoGA waits for a driver's module. A driver that is there but cannot be attached to is
/// tried again when it gets a GPU, not at each load of a module.
pub(super) fn is_waiting() -> bool {
    let hook = HOOK.lock();
    hook.waits && hook.no_driver
}

/// Detaches for good, before the module is freed. Clients have no mappings: those hold the module.
pub(crate) fn detach_for_good() {
    let mut warned = false;
    {
        let mut hook = HOOK.lock();
        hook.going = true;
        hook.waits = false;
    }
    // TIMEOUT: none. It waits for a thread that attaches or detaches, for another module that
    // hooked the driver after LoGA, and for calls inside the driver: code that they return to
    // cannot be freed.
    while let Err(error) = detach(None) {
        if !core::mem::replace(&mut warned, true) {
            pr_warn!("unloading waits ({error:?}): for another module that hooked the driver, or for a thread that attaches\n");
        }
        fsleep(Delta::from_millis(100));
    }
    // Nothing else frees a static.
    HOOK.lock().kept = KVec::new();
    wait_for_all_calls();
}

/// Hooks the driver and starts accounting. May sleep; on failure nothing has changed.
///
/// # Errors
///
/// `ENODEV`: no driver, or the module is being unloaded; `EOPNOTSUPP`: the driver cannot be hooked,
/// or has no GPU of a kind that LoGA follows; `EBUSY`: it is hooked already, or another thread is
/// attaching or detaching; `EINVAL`: a parameter has become wrong; `ENOMEM`.
fn attach(occasion: Occasion) -> Result {
    let kept = {
        let mut hook = HOOK.lock();
        if hook.going {
            return Err(ENODEV);
        }
        match hook.state {
            State::Attached(_) => return Ok(()),
            State::Detached => hook.state = State::Attaching(None),
            _ => return Err(EBUSY),
        }
        core::mem::replace(&mut hook.kept, KVec::new())
    };
    match build(occasion, &kept) {
        Ok(attachment) => {
            HOOK.lock().waits = false;
            IS_ATTACHED.store(1, Relaxed);
            settle(State::Attached(attachment));
            Ok(())
        }
        Err(error) => {
            {
                let mut hook = HOOK.lock();
                hook.no_driver = error == ENODEV;
                hook.kept = kept;
            }
            settle(State::Detached);
            Err(error)
        }
    }
}

fn build(occasion: Occasion, kept: &[Kept]) -> Result<Attachment> {
    refusals::forget();
    let settings = params::read()?;
    let driver = Driver::find(OURS).inspect_err(|error| {
        if *error == ENODEV && occasion == Occasion::Asked {
            refuse(fmt!(
                "no NVIDIA driver: no module has character major 195; load the driver first"
            ));
        }
    })?;
    let driver = Arc::new(driver, GFP_KERNEL)?;
    let tracker = Tracker::start(&settings, &driver, kept)?;
    let mut directories = KVec::new();
    for gpu in tracker.gpus() {
        directories.push(Directory::add(gpu)?, GFP_KERNEL)?;
    }
    let current = Current::new(tracker.clone(), driver.members)?;
    // From here on notifiers find the GPUs. Changes before that are checked now.
    HOOK.lock().state = State::Attaching(Some(tracker.clone()));
    tracker.drop_unbound(driver.owner());
    inside::use_current(current);
    if let Err(error) = driver.hook() {
        refuse(fmt!(
            "another module hooked the driver at the same time; remove it first"
        ));
        // TIMEOUT: as in `detach_for_good`; only calls that began between two stores are inside.
        let _ = drain(None);
        inside::forget_current();
        tracker.stop();
        return Err(error);
    }
    driver.hold();
    pr_info!(
        "attached to module {}: policy={}, enforce={}\n",
        driver.name(),
        settings.config.policy.name(),
        u8::from(settings.config.enforce)
    );
    // Stand-ins for the driver name no version.
    if let Some(unknown) = driver.version().and_then(compatibility::remark) {
        pr_warn!("{}\n", Line(&unknown));
    }
    Ok(Attachment {
        driver,
        directories,
        tracker,
    })
}

/// Detaches from the driver: all clients run, and all calls go to the driver directly. What was set and
/// counted stays until LoGA is attached again. Sleeps with no lock held, for `patience` at most; without
/// `patience` until it is done, and nothing stays.
///
/// # Errors
///
/// `EBUSY` while mappings of submission pages exist or come, while calls stay inside the driver, if
/// another module hooked the driver on top of LoGA, or while another thread attaches or detaches;
/// `EINTR`: the caller has a fatal signal. Nothing has changed then.
fn detach(patience: Option<Delta>) -> Result {
    let Some(attachment) = take_attachment(None) else {
        return match HOOK.lock().state {
            State::Detached => Ok(()),
            _ => Err(EBUSY),
        };
    };
    if let Err(error) = let_go(&attachment.driver, &attachment.tracker, patience) {
        settle(State::Attached(attachment));
        return Err(error);
    }
    IS_ATTACHED.store(0, Relaxed);
    attachment.driver.unhold();
    inside::forget_current();
    let Attachment {
        driver,
        directories,
        tracker,
    } = attachment;
    drop(directories);
    tracker.stop();
    let kept = match patience {
        Some(_) => tracker.keep(),
        None => KVec::new(),
    };
    drop(driver);
    pr_info!("detached\n");
    HOOK.lock().kept = kept;
    // Last: another thread may attach from now on.
    settle(State::Detached);
    Ok(())
}

/// The tracker in force, for `/dev/loga`.
pub(crate) fn tracker() -> Option<Arc<Tracker>> {
    match &HOOK.lock().state {
        State::Attached(attachment) => Some(attachment.tracker.clone()),
        State::Changing(tracker) => Some(tracker.clone()),
        _ => None,
    }
}

/// The tracker whose GPUs LoGA follows, also while it attaches. For notifiers.
pub(crate) fn followed() -> Option<Arc<Tracker>> {
    match &HOOK.lock().state {
        State::Attaching(tracker) => tracker.clone(),
        State::Attached(attachment) => Some(attachment.tracker.clone()),
        State::Changing(tracker) => Some(tracker.clone()),
        State::Detached => None,
    }
}

#[no_mangle]
extern "C" fn loga_attach_set(attach_wanted: bool) -> c_int {
    let result = if attach_wanted {
        attach(Occasion::Asked)
    } else {
        HOOK.lock().waits = false;
        detach(Some(PATIENCE))
    };
    result.map_or_else(|error| error.to_errno(), |()| 0)
}

#[no_mangle]
extern "C" fn loga_attach_get() -> bool {
    IS_ATTACHED.load(Relaxed) != 0
}
