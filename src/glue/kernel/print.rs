// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Printing texts of the pure parts.

use kernel::fmt;

/// Makes a `core` `Display` of the pure parts printable by the kernel's `fmt`.
pub(crate) struct Line<'a, T>(pub(crate) &'a T);

impl<T: core::fmt::Display> fmt::Display for Line<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        core::fmt::Display::fmt(self.0, f)
    }
}
