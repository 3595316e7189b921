// SPDX-License-Identifier: GPL-2.0

//! [glue] Printing what the pure parts say of themselves.

use kernel::fmt;

/// Lets the kernel print what the pure parts can say of themselves.
pub(crate) struct Line<'a, T>(pub(crate) &'a T);

impl<T: core::fmt::Display> fmt::Display for Line<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        core::fmt::Display::fmt(self.0, f)
    }
}
