// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Writing the value of a file in sysfs.

use kernel::fmt;
use kernel::prelude::*;

/// Text written to a page.
pub(crate) struct Text<'a> {
    page: &'a mut [u8],
    len: usize,
}

impl Text<'_> {
    /// # Safety
    ///
    /// `page` must point to a page, with no other user while this lives.
    pub(crate) unsafe fn page(page: *mut c_char) -> Self {
        // SAFETY: The caller's promise.
        let page =
            unsafe { core::slice::from_raw_parts_mut(page.cast::<u8>(), kernel::page::PAGE_SIZE) };
        Self { page, len: 0 }
    }

    /// Bytes written.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            *self.page.get_mut(self.len).ok_or(fmt::Error)? = byte;
            self.len = self.len.saturating_add(1);
        }
        Ok(())
    }
}
