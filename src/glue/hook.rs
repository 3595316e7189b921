// SPDX-License-Identifier: GPL-2.0

//! [glue] LoGA's place in the driver's `file_operations`: attach and detach.
//!
//! The driver's one `file_operations` object is found by opening its control
//! node. Four members are replaced in place; the object itself, its address and
//! its owner stay, so that drivers which compare `f_op` see no difference, and
//! files that were open before are reached too.
//!
//! A call may be inside a wrapper without a reference on this module (`owner` is
//! the driver). Detaching therefore restores the members, waits until nobody can
//! still be on the way into a wrapper (RCU-tasks), until the calls inside have
//! come out (a counter), and once more for those on their last instructions.

use super::sysfs::Directory;
use super::tracker::Tracker;
use super::{ffi, members, params};
use core::ptr::NonNull;
use kernel::bindings;
use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::sync::Arc;
use kernel::time::{delay::fsleep, Delta};

/// The driver's control node: opening it is cheap and wakes no GPU.
const CONTROL_NODE: &CStr = c"/dev/nvidiactl";
/// Character major of the driver.
const NVIDIA_MAJOR: u32 = 195;

/// The members that LoGA replaces, as the driver had them.
#[derive(Clone, Copy)]
pub(super) struct Members {
    pub(super) open: Open,
    pub(super) release: Release,
    pub(super) ioctl: Ioctl,
    pub(super) compat_ioctl: Option<Ioctl>,
    pub(super) mmap: Mmap,
    pub(super) show_fdinfo: Option<ShowFdinfo>,
}

type Open = unsafe extern "C" fn(*mut bindings::inode, *mut bindings::file) -> c_int;
type Release = Open;
pub(super) type Ioctl = unsafe extern "C" fn(*mut bindings::file, c_uint, usize) -> c_long;
pub(super) type ShowFdinfo = unsafe extern "C" fn(*mut bindings::seq_file, *mut bindings::file);
type Mmap = unsafe extern "C" fn(*mut bindings::file, *mut bindings::vm_area_struct) -> c_int;

/// The driver's operations, found and checked but not changed.
///
/// # Invariants
///
/// `control` is an open file of the driver, which keeps the driver loaded; `operations` is the
/// writable object it points to.
struct Driver {
    control: NonNull<bindings::file>,
    operations: NonNull<bindings::file_operations>,
    members: Members,
}

// SAFETY: The file and the operations may be used from any thread.
unsafe impl Send for Driver {}

/// An attachment in force.
pub(super) struct Attachment {
    driver: Driver,
    /// Knobs of the GPUs.
    directories: KVec<Directory>,
    pub(super) tracker: Arc<Tracker>,
}

kernel::sync::global_lock! {
    // SAFETY: Initialised in `attach_on_load`, before anything else can reach it.
    unsafe(uninit) static ATTACHMENT: Mutex<Option<Attachment>> = None;
}

/// Calls inside a wrapper.
static IN_FLIGHT: Atomic<i64> = Atomic::new(0);

/// What the wrappers use: set before the first member is replaced, cleared after the last call
/// has come out.
static CURRENT: Atomic<usize> = Atomic::new(0);

/// Proof of being counted inside a wrapper.
pub(super) struct InWrapper(());

impl InWrapper {
    pub(super) fn enter() -> Self {
        IN_FLIGHT.fetch_add(1, Full);
        Self(())
    }

    /// The tracker and the driver's own members.
    pub(super) fn current(&self) -> (&Tracker, &Members) {
        let attachment = CURRENT.load(kernel::sync::atomic::Acquire) as *const Current;
        // SAFETY: A wrapper is only reached while attached, `CURRENT` was set before, and
        // `detach` does not free it before the count that `self` stands for has dropped.
        let current = unsafe { &*attachment };
        (&current.tracker, &current.members)
    }
}

impl Drop for InWrapper {
    fn drop(&mut self) {
        IN_FLIGHT.fetch_sub(1, Full);
    }
}

struct Current {
    tracker: Arc<Tracker>,
    members: Members,
}

impl Driver {
    /// Opens the control node and checks that its operations can be changed.
    fn find() -> Result<Self> {
        // SAFETY: The path is a valid string; the result is checked.
        let control = from_err_ptr(unsafe {
            bindings::filp_open(
                CONTROL_NODE.as_char_ptr(),
                // CAST: a small positive constant.
                bindings::O_RDWR as c_int,
                0,
            )
        })
        .inspect_err(|error| {
            pr_err!("no NVIDIA driver: {CONTROL_NODE:?} cannot be opened ({error:?}); load the driver first\n");
        })?;
        let control = NonNull::new(control).ok_or(ENODEV)?;
        let found = Self::check(control);
        if found.is_err() {
            // SAFETY: The reference from `filp_open`.
            unsafe { bindings::fput(control.as_ptr()) };
        }
        let (operations, members) = found?;
        // INVARIANT: Opened above, and checked.
        Ok(Self {
            control,
            operations,
            members,
        })
    }

    fn check(
        control: NonNull<bindings::file>,
    ) -> Result<(NonNull<bindings::file_operations>, Members)> {
        // SAFETY: The file is open.
        let is_driver = unsafe {
            ffi::loga_file_is_chrdev(control.as_ptr())
                && ffi::loga_file_major(control.as_ptr()) == NVIDIA_MAJOR
        };
        if !is_driver {
            pr_err!("{CONTROL_NODE:?} is not a character device of major {NVIDIA_MAJOR}\n");
            return Err(ENODEV);
        }
        // SAFETY: The file is open, so its operations are there.
        let operations =
            NonNull::new(unsafe { (*control.as_ptr()).f_op }.cast_mut()).ok_or(ENODEV)?;
        // SAFETY: As above.
        let ops = unsafe { operations.as_ref() };
        let owner = ops.owner;
        if owner.is_null()
            // SAFETY: The owner is a live module: the open file holds it.
            || !unsafe { ffi::loga_in_module_data(owner, operations.as_ptr().cast()) }
        {
            pr_err!(
                "the driver's file operations are not in its writable data: cannot be hooked\n"
            );
            return Err(EOPNOTSUPP);
        }
        let (Some(open), Some(release), Some(ioctl), Some(mmap)) =
            (ops.open, ops.release, ops.unlocked_ioctl, ops.mmap)
        else {
            pr_err!("the driver lacks open, release, unlocked_ioctl or mmap: cannot be hooked\n");
            return Err(EOPNOTSUPP);
        };
        let members = Members {
            open,
            release,
            ioctl,
            compat_ioctl: ops.compat_ioctl,
            mmap,
            show_fdinfo: ops.show_fdinfo,
        };
        // SAFETY: As above.
        if !unsafe { ffi::loga_in_module_text(owner, open as *const c_void) } {
            pr_err!("the driver's file operations are hooked already, by another copy of LoGA or another module\n");
            return Err(EBUSY);
        }
        Ok((operations, members))
    }

    /// Name of the driver's module.
    fn name(&self) -> &'static str {
        // SAFETY: By the invariant the owner of the operations is loaded; attaching holds it.
        let name = unsafe { ffi::loga_module_name((*self.operations.as_ptr()).owner) };
        // SAFETY: A module's name is a string that lives as long as the module.
        unsafe { CStr::from_char_ptr(name) }.to_str().unwrap_or("?")
    }

    /// Replaces one member. The object must be the one found, and the value of its type.
    fn write<T: Copy>(
        &self,
        select: fn(*mut bindings::file_operations) -> *mut Option<T>,
        value: Option<T>,
    ) {
        const { assert!(size_of::<Option<T>>() == size_of::<*mut c_void>()) };
        let slot = select(self.operations.as_ptr());
        // SAFETY: A function pointer in an `Option` has the size of a pointer, asserted above.
        let value = unsafe { core::mem::transmute_copy::<Option<T>, *mut c_void>(&value) };
        // SAFETY: By the invariant the object is writable, and the slot is one of its members.
        unsafe { ffi::loga_write_pointer(slot.cast(), value) };
    }

    fn replace(&self, members: &Members) {
        // SAFETY: (all) the closure only computes the address of a member.
        self.write(
            |ops| unsafe { &raw mut (*ops).release },
            Some(members.release),
        );
        // SAFETY: As above.
        self.write(|ops| unsafe { &raw mut (*ops).open }, Some(members.open));
        // SAFETY: As above.
        self.write(
            |ops| unsafe { &raw mut (*ops).unlocked_ioctl },
            Some(members.ioctl),
        );
        // SAFETY: As above.
        self.write(
            |ops| unsafe { &raw mut (*ops).compat_ioctl },
            members.compat_ioctl,
        );
        // SAFETY: As above.
        self.write(|ops| unsafe { &raw mut (*ops).mmap }, Some(members.mmap));
        // A driver without this member gets it, and loses it again: the kernel's one reader
        // (fs/proc/fd.c) loads it once, checks and calls.
        // SAFETY: As above.
        self.write(
            |ops| unsafe { &raw mut (*ops).show_fdinfo },
            members.show_fdinfo,
        );
    }

    /// Whether the members are still those that LoGA wrote.
    fn is_ours(&self) -> bool {
        // SAFETY: By the invariant the object is there.
        let open = unsafe { (*self.operations.as_ptr()).open };
        open.is_some_and(|open| core::ptr::fn_addr_eq(open, members::open as Open))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // SAFETY: The reference from `filp_open`.
        unsafe { bindings::fput(self.control.as_ptr()) };
    }
}

/// Sets the lock of this file up. Once, before anything else here.
pub(crate) fn prepare() {
    // SAFETY: Called once, before the module is reachable from anywhere.
    unsafe { ATTACHMENT.init() };
}

/// Attaches if the parameter `attach` says so. Once, at load.
///
/// # Errors
///
/// As [`attach`].
pub(crate) fn attach_on_load() -> Result {
    // SAFETY: Called once, while the module loads.
    if unsafe { ffi::loga_attach_ready() } {
        attach()?;
    }
    Ok(())
}

/// Detaches before the code goes. Nobody has mappings: they hold the module. Waits for another
/// module that hooked the driver on top of LoGA.
pub(crate) fn detach_for_good() {
    // TIMEOUT: until the other module is gone; code that it calls cannot be freed.
    while detach().is_err() {
        fsleep(Delta::from_secs(1));
    }
    synchronize();
}

/// Hooks the driver and starts accounting. May sleep.
///
/// # Errors
///
/// `ENODEV`, `ENOENT`: no driver; `EOPNOTSUPP`: it cannot be hooked, or no GPU is of a known
/// kind; `EBUSY`: it is hooked already; `ENOMEM`. Nothing is changed then.
fn attach() -> Result {
    let mut slot = ATTACHMENT.lock();
    if slot.is_some() {
        return Ok(());
    }
    let settings = params::read()?;
    let driver = Driver::find()?;
    let tracker = Tracker::start(&settings)?;
    let mut directories = KVec::new();
    for gpu in tracker.gpus() {
        directories.push(Directory::add(gpu)?, GFP_KERNEL)?;
    }
    let current = KBox::new(
        Current {
            tracker: tracker.clone(),
            members: driver.members,
        },
        GFP_KERNEL,
    )?;
    // CAST: a pointer, kept as a number to be atomic.
    CURRENT.store(
        KBox::into_raw(current) as usize,
        kernel::sync::atomic::Release,
    );
    driver.replace(&Members {
        open: members::open,
        release: members::release,
        ioctl: members::ioctl,
        compat_ioctl: driver
            .members
            .compat_ioctl
            .map(|_| members::compat_ioctl as Ioctl),
        mmap: members::mmap,
        show_fdinfo: Some(members::show_fdinfo),
    });
    let name = driver.name();
    *slot = Some(Attachment {
        driver,
        directories,
        tracker,
    });
    pr_info!(
        "attached to module {name}: policy={}, enforce={}\n",
        settings.engine.policy.name(),
        u8::from(settings.engine.enforce)
    );
    Ok(())
}

/// Lets go of the driver. Everybody runs; every file goes to the driver alone. May sleep long:
/// waits for calls that are inside the driver.
///
/// # Errors
///
/// `EBUSY` while mappings of submission pages exist, or when somebody hooked the driver on top
/// of LoGA. Nothing is changed then.
fn detach() -> Result {
    let mut slot = ATTACHMENT.lock();
    let Some(attachment) = slot.as_ref() else {
        return Ok(());
    };
    if !attachment.driver.is_ours() {
        pr_err!("cannot detach: another module hooked the driver after LoGA; remove it first\n");
        return Err(EBUSY);
    }
    attachment.tracker.close().inspect_err(|_| {
        pr_err!(
            "cannot detach: submission pages are mapped; end the programs that use the GPU first\n"
        );
    })?;
    attachment.driver.replace(&attachment.driver.members);
    synchronize();
    // TIMEOUT: a call can only be inside as long as the driver keeps it; killing its process
    // ends it.
    while IN_FLIGHT.load(Relaxed) != 0 {
        fsleep(Delta::from_millis(1));
    }
    synchronize();
    let current = CURRENT.xchg(0, Full) as *mut Current;
    // SAFETY: Made by `KBox::into_raw` in `attach`; no wrapper is running or can start.
    drop(unsafe { KBox::from_raw(current) });
    let attachment = slot.take();
    drop(slot);
    if let Some(attachment) = attachment {
        drop(attachment.directories);
        attachment.tracker.stop();
    }
    pr_info!("detached\n");
    Ok(())
}

/// The tracker in force, for `/dev/loga`.
pub(super) fn tracker() -> Option<Arc<Tracker>> {
    ATTACHMENT
        .lock()
        .as_ref()
        .map(|attachment| attachment.tracker.clone())
}

fn synchronize() {
    // SAFETY: Sleeps; called from process context with only mutexes held that no hooked call takes.
    unsafe { ffi::loga_synchronize_rcu_tasks() };
}

#[no_mangle]
extern "C" fn loga_attach_set(attach_wanted: bool) -> c_int {
    let result = if attach_wanted { attach() } else { detach() };
    result.map_or_else(|error| error.to_errno(), |()| 0)
}

#[no_mangle]
extern "C" fn loga_attach_get() -> bool {
    ATTACHMENT.lock().is_some()
}
