// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The knobs of a GPU as files, one value each: `/sys/class/misc/loga/gpu<N>/`.
//!
//! The interface is docs/abi/sysfs-class-misc-loga. The check of a knob is the same as in
//! `/dev/loga`, which also returns the reason of a refusal; here the answer is an errno.

use super::permission::require_change;
use crate::glue::gpu::Gpu;
use crate::glue::kernel::ffi;
use crate::glue::kernel::text::Text;
use crate::knobs::Knob;
use crate::policies::PolicyKind;
use crate::uapi::{self, Configure};
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::fmt::{self, Write};
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::Arc;

/// The directory of one GPU, while this lives.
///
/// # Invariants
///
/// `directory` is registered and holds a reference on a [`Gpu`].
pub(crate) struct Directory {
    directory: NonNull<c_void>,
    /// The reference.
    gpu: *const Gpu,
}

// SAFETY: The directory and the reference may be given up from any thread.
unsafe impl Send for Directory {}

impl Directory {
    /// Makes the directory. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EEXIST`.
    pub(crate) fn add(gpu: &Arc<Gpu>) -> Result<Self> {
        let index = gpu.device.number();
        let gpu = Arc::into_raw(gpu.clone());
        // SAFETY: The control device is registered as long as the module is loaded, and the
        // reference lives until the directory is removed.
        let directory = from_err_ptr(unsafe { ffi::loga_directory_add(index, gpu.cast()) })
            .and_then(|directory| NonNull::new(directory).ok_or(ENOMEM))
            .inspect_err(|_| {
                // SAFETY: The reference from above, which was not passed on.
                drop(unsafe { Arc::from_raw(gpu) });
            })?;
        // INVARIANT: Just registered, with the reference.
        Ok(Self { directory, gpu })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // SAFETY: Registered by the invariant; no thread is inside a knob after this.
        unsafe { ffi::loga_directory_remove(self.directory.as_ptr()) };
        // SAFETY: The reference that the directory held.
        drop(unsafe { Arc::from_raw(self.gpu) });
    }
}

/// Writes the value of a knob.
fn show(gpu: &Gpu, name: &str, f: &mut Text<'_>) -> fmt::Result {
    let config = gpu.effective_config(&gpu.books.lock());
    if name == "available_policies" {
        let supported = |kind: &&PolicyKind| config.supplies(**kind).is_ok();
        for (at, kind) in PolicyKind::ALL.iter().filter(supported).enumerate() {
            let gap = if at == 0 { "" } else { " " };
            write!(f, "{gap}{}", kind.name())?;
        }
        return writeln!(f);
    }
    let (_, knob) = Knob::find(name).ok_or(fmt::Error)?;
    writeln!(f, "{}", knob.written((knob.get)(&config)))
}

/// # Safety
///
/// `gpu` must be that of a registered [`Directory`], and `name` a string.
unsafe fn arguments<'a>(gpu: *const c_void, name: *const c_char) -> (&'a Gpu, &'a str) {
    // SAFETY: The directory holds a reference while a thread is inside a knob.
    let gpu = unsafe { &*gpu.cast::<Gpu>() };
    // SAFETY: The caller's promise.
    let name = unsafe { CStr::from_char_ptr(name) };
    (gpu, name.to_str().unwrap_or_default())
}

#[no_mangle]
unsafe extern "C" fn loga_knob_show(
    gpu: *const c_void,
    name: *const c_char,
    buf: *mut c_char,
) -> isize {
    // SAFETY: Called by knob_show() of control.c only.
    let (gpu, name) = unsafe { arguments(gpu, name) };
    // SAFETY: sysfs gives a page.
    let mut text = unsafe { Text::page(buf) };
    match show(gpu, name, &mut text) {
        // CAST: at most a page.
        Ok(()) => text.len() as isize,
        Err(_) => EIO.to_errno() as isize,
    }
}

#[no_mangle]
unsafe extern "C" fn loga_knob_store(
    gpu: *const c_void,
    name: *const c_char,
    buf: *const c_char,
    len: usize,
) -> isize {
    // SAFETY: Called by knob_store() of control.c only.
    let (gpu, name) = unsafe { arguments(gpu, name) };
    // SAFETY: sysfs gives a buffer of this length.
    let bytes = unsafe { core::slice::from_raw_parts(buf.cast::<u8>(), len) };
    match store(gpu, name, bytes) {
        // CAST: at most a page.
        Ok(()) => len as isize,
        Err(error) => error.to_errno() as isize,
    }
}

fn store(gpu: &Gpu, name: &str, bytes: &[u8]) -> Result {
    // The mode of the file admits user 0 even without the capability.
    require_change()?;
    let value = core::str::from_utf8(bytes).map_err(|_| EINVAL)?;
    let value = value.strip_suffix('\n').unwrap_or(value);
    let mut knobs = Configure {
        gpu: uapi::ALL_GPUS,
        ..Configure::default()
    };
    knobs.set(name, value).map_err(|_| EINVAL)?;
    let knobs = knobs.check().map_err(|_| EINVAL)?;
    let room = gpu.prepare(&knobs)?;
    gpu.configure(&knobs, room).map_err(|_| EINVAL)?;
    gpu.settings_changed();
    Ok(())
}
