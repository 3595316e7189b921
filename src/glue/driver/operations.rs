// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The driver's `file_operations`: found, checked, and its members replaced in place.
//!
//! LoGA finds the object by opening the driver's control device, which is cheap and wakes no GPU,
//! through an inode of its own: no node in `/dev` is needed. The object keeps its address and its
//! owner, so that drivers that compare `f_op` see no difference, and files that were open before
//! are hooked too.
//!
//! A member is replaced only while it has the value that LoGA left there. Values of other modules
//! are detected before LoGA changes the first member.

use crate::glue::kernel::ffi::{self, Card, Ioctl};
use crate::glue::kernel::refusals::refuse;
use crate::rm::{CARDS_MAX, CTL_MINOR, MAJOR};
use core::ptr::NonNull;
use kernel::bindings;
use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::str::CStr;

/// Members that LoGA replaces.
const MEMBERS: usize = 6;

/// A set of the members that LoGA replaces.
#[derive(Clone, Copy)]
pub(super) struct Members {
    pub(crate) open: Open,
    pub(crate) release: Release,
    pub(crate) ioctl: Ioctl,
    pub(super) compat_ioctl: Option<Ioctl>,
    pub(super) mmap: Mmap,
    pub(super) show_fdinfo: Option<ShowFdinfo>,
}

type Open = unsafe extern "C" fn(*mut bindings::inode, *mut bindings::file) -> c_int;
type Release = Open;
pub(super) type ShowFdinfo = unsafe extern "C" fn(*mut bindings::seq_file, *mut bindings::file);
type Mmap = unsafe extern "C" fn(*mut bindings::file, *mut bindings::vm_area_struct) -> c_int;

/// One member in the object, and its two values.
#[derive(Clone, Copy)]
struct Slot {
    at: *mut *mut c_void,
    driver: *mut c_void,
    ours: *mut c_void,
}

/// The module whose functions the members are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hooked {
    /// LoGA's, all of them.
    Ours,
    /// The driver's, all of them.
    Driver,
    /// Another module's, or some of each.
    Others,
}

/// The driver's operations, found and checked.
///
/// # Invariants
///
/// `control` is an open file of the driver, which keeps the driver loaded; `operations` is the
/// writable object it points to.
pub(super) struct Driver {
    control: NonNull<bindings::file>,
    operations: NonNull<bindings::file_operations>,
    /// As the driver had them.
    pub(crate) members: Members,
    /// LoGA's members.
    ours: Members,
}

// SAFETY: The file and the operations may be used from any thread.
unsafe impl Send for Driver {}

// SAFETY: All operations through a shared reference may run concurrently.
unsafe impl Sync for Driver {}

impl Driver {
    /// Opens the control device and checks that its operations can be changed to `ours`. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV`: no module has the major yet; nothing is printed then. `EOPNOTSUPP`: the driver
    /// cannot be hooked; `EBUSY`: another module has hooked it; or the driver's own error.
    pub(crate) fn find(ours: Members) -> Result<Self> {
        // SAFETY: Process context.
        let opened = unsafe { ffi::loga_open_node(MAJOR, CTL_MINOR) };
        let control = from_err_ptr(opened).map_err(|error| {
            if error == ENXIO || error == ENODEV {
                return ENODEV;
            }
            refuse(fmt!(
                "the driver's control device ({MAJOR}:{CTL_MINOR}) cannot be opened: {error:?}"
            ));
            error
        })?;
        let control = NonNull::new(control).ok_or(ENODEV)?;
        let found = Self::check(control);
        if found.is_err() {
            // SAFETY: The reference from the opening, and the last one.
            unsafe { ffi::loga_close_node(control.as_ptr()) };
        }
        let (operations, members) = found?;
        // INVARIANT: Opened above, and checked.
        Ok(Self {
            control,
            operations,
            members,
            ours,
        })
    }

    fn check(
        control: NonNull<bindings::file>,
    ) -> Result<(NonNull<bindings::file_operations>, Members)> {
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
            refuse(fmt!(
                "the driver's file operations are not in its writable data: cannot be hooked"
            ));
            return Err(ffi::not_supported());
        }
        // SAFETY: As above. A module that is still being initialised may fail to load.
        if !unsafe { ffi::loga_module_is_live(owner) } {
            return Err(ENODEV);
        }
        let (Some(open), Some(release), Some(ioctl), Some(mmap)) =
            (ops.open, ops.release, ops.unlocked_ioctl, ops.mmap)
        else {
            refuse(fmt!(
                "the driver lacks open, release, unlocked_ioctl or mmap: cannot be hooked"
            ));
            return Err(ffi::not_supported());
        };
        let left = does_nothing();
        let members = Members {
            open,
            release,
            ioctl,
            compat_ioctl: ops.compat_ioctl,
            mmap,
            // The value that LoGA left there when it detached last belongs to no module.
            show_fdinfo: ops
                .show_fdinfo
                .filter(|show| *show as *mut c_void != left || left.is_null()),
        };
        let own = |function: *const c_void| {
            // SAFETY: As above.
            unsafe { ffi::loga_in_module_text(owner, function) }
        };
        let names = [
            ("open", Some(open as *const c_void)),
            ("release", Some(release as *const c_void)),
            ("unlocked_ioctl", Some(ioctl as *const c_void)),
            (
                "compat_ioctl",
                members.compat_ioctl.map(|f| f as *const c_void),
            ),
            ("mmap", Some(mmap as *const c_void)),
            (
                "show_fdinfo",
                members.show_fdinfo.map(|f| f as *const c_void),
            ),
        ];
        for (name, function) in names {
            if !function.is_none_or(own) {
                refuse(fmt!("the driver's file operations are hooked already ({name}), by another copy of LoGA or another module; remove it first"));
                return Err(EBUSY);
            }
        }
        Ok((operations, members))
    }

    /// The driver's module.
    pub(crate) fn owner(&self) -> *const bindings::module {
        // SAFETY: By the invariant.
        unsafe { (*self.operations.as_ptr()).owner }
    }

    /// Names LoGA as a holder of the driver's module.
    pub(super) fn hold(&self) {
        // SAFETY: By the invariant the owner of the operations is loaded.
        unsafe { ffi::loga_hold(self.owner()) };
    }

    /// Takes that back.
    pub(super) fn unhold(&self) {
        // SAFETY: As above.
        unsafe { ffi::loga_unhold(self.owner()) };
    }

    /// Name of the driver's module.
    pub(crate) fn name(&self) -> &'static str {
        // SAFETY: By the invariant the owner of the operations is loaded; attaching holds it.
        let name = unsafe { ffi::loga_module_name(self.owner()) };
        // SAFETY: A module's name is a string that lives as long as the module.
        unsafe { CStr::from_char_ptr(name) }.to_str().unwrap_or("?")
    }

    /// Version of the driver's module, if it names one.
    pub(super) fn version(&self) -> Option<&'static str> {
        // SAFETY: By the invariant the owner of the operations is loaded; attaching holds it.
        let version = unsafe { ffi::loga_module_version(self.owner()) };
        if version.is_null() {
            return None;
        }
        // SAFETY: Not null: a string that lives as long as the module.
        unsafe { CStr::from_char_ptr(version) }.to_str().ok()
    }

    /// The cards as the driver lists them; none if the caller has no address space for the answer,
    /// or the driver does not answer. May sleep.
    pub(crate) fn cards(&self) -> KVec<Card> {
        let mut cards = KVec::new();
        if cards
            .extend_with(CARDS_MAX, Card::default(), GFP_KERNEL)
            .is_err()
        {
            return cards;
        }
        // SAFETY: The file is open by the invariant, the function is its driver's, and there is
        // room for this many. CAST: a small constant.
        let count = unsafe {
            ffi::loga_ask_cards(
                self.control.as_ptr(),
                self.members.ioctl,
                cards.as_mut_ptr(),
                CARDS_MAX as c_uint,
            )
        };
        cards.truncate(usize::try_from(count).unwrap_or(0));
        cards
    }

    /// All members. `release` comes first: closing a file without a record is harmless, but LoGA
    /// must see each file with a record being closed.
    fn slots(&self) -> [Option<Slot>; MEMBERS] {
        let ops = self.operations.as_ptr();
        let (driver, ours) = (&self.members, &self.ours);
        // SAFETY: (all) only the address of a member of the object is computed.
        unsafe {
            [
                slot(
                    &raw mut (*ops).release,
                    Some(driver.release),
                    Some(ours.release),
                ),
                slot(&raw mut (*ops).open, Some(driver.open), Some(ours.open)),
                slot(
                    &raw mut (*ops).unlocked_ioctl,
                    Some(driver.ioctl),
                    Some(ours.ioctl),
                ),
                slot(
                    &raw mut (*ops).compat_ioctl,
                    driver.compat_ioctl,
                    ours.compat_ioctl,
                )
                .filter(|_| driver.compat_ioctl.is_some()),
                slot(&raw mut (*ops).mmap, Some(driver.mmap), Some(ours.mmap)),
                self.fdinfo_slot(),
            ]
        }
    }

    /// The member that a driver need not have: only if there is a function that may stay in its
    /// place.
    fn fdinfo_slot(&self) -> Option<Slot> {
        let ops = self.operations.as_ptr();
        // SAFETY: Only the address of a member of the object is computed.
        let at = unsafe { &raw mut (*ops).show_fdinfo };
        let slot = slot(at, self.members.show_fdinfo, self.ours.show_fdinfo)?;
        if self.members.show_fdinfo.is_some() {
            return Some(slot);
        }
        let driver = does_nothing();
        (!driver.is_null()).then_some(Slot { driver, ..slot })
    }

    /// Puts LoGA's functions in. On failure nothing has changed.
    ///
    /// # Errors
    ///
    /// `EBUSY`: another module was faster. A call may be inside a wrapper then.
    pub(crate) fn hook(&self) -> Result {
        if self.members.show_fdinfo.is_none() {
            if let Some(slot) = self.fdinfo_slot() {
                // From NULL to the function that stays.
                exchange(&slot, core::ptr::null_mut(), slot.driver);
            }
        }
        self.change(|slot| (slot.driver, slot.ours), true)
    }

    /// Restores the driver's functions, all but `release`. On failure nothing has changed.
    ///
    /// # Errors
    ///
    /// `EBUSY`: another module has put its own in.
    pub(super) fn unhook(&self) -> Result {
        self.change(|slot| (slot.ours, slot.driver), false)
    }

    /// As [`Driver::unhook`], for `release`.
    pub(super) fn unhook_release(&self) {
        if let Some(slot) = &self.slots()[0] {
            exchange(slot, slot.ours, slot.driver);
        }
    }

    /// Replaces the driver's functions by LoGA's again, after [`Driver::unhook`].
    pub(super) fn hook_again(&self) {
        for slot in self.slots().iter().flatten() {
            exchange(slot, slot.driver, slot.ours);
        }
    }

    /// Changes members from one value to another: all of them or none.
    fn change(
        &self,
        values: impl Fn(&Slot) -> (*mut c_void, *mut c_void),
        release: bool,
    ) -> Result {
        let slots = self.slots();
        for (at, slot) in slots.iter().enumerate() {
            let Some(slot) = slot.as_ref().filter(|_| release || at != 0) else {
                continue;
            };
            let (from, to) = values(slot);
            if exchange(slot, from, to) {
                continue;
            }
            let done = slots.iter().take(at).enumerate();
            for (_, slot) in done.filter(|(at, _)| release || *at != 0) {
                if let Some(slot) = slot {
                    let (from, to) = values(slot);
                    exchange(slot, to, from);
                }
            }
            return Err(EBUSY);
        }
        Ok(())
    }

    /// The module whose functions the members are.
    pub(super) fn hooked(&self) -> Hooked {
        let slots = self.slots();
        let all = |is: &dyn Fn(*mut c_void, &Slot) -> bool| {
            slots.iter().flatten().all(|slot| {
                // SAFETY: By the invariant the object is there; a word is read whole.
                is(unsafe { slot.at.read_volatile() }, slot)
            })
        };
        if all(&|now, slot| now == slot.ours) {
            Hooked::Ours
        } else if all(&|now, slot| now == slot.driver || (now.is_null() && now != slot.ours)) {
            Hooked::Driver
        } else {
            Hooked::Others
        }
    }
}

/// A member and its two values: `driver` without LoGA, `ours` with it.
fn slot<T: Copy>(at: *mut Option<T>, driver: Option<T>, ours: Option<T>) -> Option<Slot> {
    const { assert!(size_of::<Option<T>>() == size_of::<*mut c_void>()) };
    // SAFETY: (both) a function pointer in an `Option` has the size of a pointer, asserted above.
    let value =
        |function: Option<T>| unsafe { core::mem::transmute_copy::<_, *mut c_void>(&function) };
    Some(Slot {
        at: at.cast(),
        driver: value(driver),
        ours: value(ours),
    })
}

fn exchange(slot: &Slot, from: *mut c_void, to: *mut c_void) -> bool {
    // SAFETY: By the invariant of `Driver` the object is writable, and this is one of its members.
    unsafe { ffi::loga_exchange_pointer(slot.at, from, to) }
}

/// A kernel function that does nothing, for a member that the driver does not have.
fn does_nothing() -> *mut c_void {
    // SAFETY: Returns an address.
    unsafe { ffi::loga_does_nothing() }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // SAFETY: The reference from `find`, and the last one.
        unsafe { ffi::loga_close_node(self.control.as_ptr()) };
    }
}
