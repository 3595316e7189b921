// SPDX-License-Identifier: GPL-2.0

//! `[glue]` What LoGA refuses while it attaches, and why: a line in the kernel log, and the same line
//! in the parameter `refusals`, which `loga doctor` reads. Nothing here is called with the lock of the
//! parameters held.

use super::ffi;
use kernel::fmt;
use kernel::prelude::*;
use kernel::str::CString;

/// Forgets what was refused: a new attempt begins. May sleep.
pub(crate) fn forget() {
    // SAFETY: The caller may sleep, and does not have the lock of the parameters.
    unsafe { ffi::loga_refusals_forget() };
}

/// Logs a line, and keeps it. May sleep.
pub(crate) fn refuse(line: fmt::Arguments<'_>) {
    pr_err!("{}\n", line);
    // Without memory the log alone has it.
    if let Ok(line) = CString::try_from_fmt(line) {
        // SAFETY: A string that lives longer than the call; otherwise as in `forget`.
        unsafe { ffi::loga_refusals_add(line.as_char_ptr()) };
    }
}
