// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Memory that a driver or a device shares, mapped for reading only.

use nix::sys::mman::{mmap, munmap, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

/// Words that somebody else may change at any time.
pub(crate) trait Window: Send {
    /// The word at a byte offset; nothing outside the window or between two words.
    fn read(&self, offset: usize) -> Option<u32>;
}

/// A part of a file, mapped for reading; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapped {
    base: NonNull<c_void>,
    length: usize,
}

impl Mapped {
    /// Maps `length` bytes from `offset` of the file.
    ///
    /// A part that lies behind the end of an ordinary file raises SIGBUS when it is read: the caller
    /// compares with the length of the file before.
    ///
    /// # Errors
    ///
    /// What mmap returned.
    pub(crate) fn new(file: &File, length: usize, offset: u64) -> io::Result<Self> {
        let size = NonZeroUsize::new(length).ok_or(io::ErrorKind::InvalidInput)?;
        let offset = i64::try_from(offset).map_err(io::Error::other)?;
        let (protection, flags) = (ProtFlags::PROT_READ, MapFlags::MAP_SHARED);
        // SAFETY: a new mapping at an address that the kernel chooses overlaps no live memory.
        let base = unsafe { mmap(None, size, protection, flags, file, offset) }?;
        Ok(Mapped { base, length })
    }
}

impl Window for Mapped {
    fn read(&self, offset: usize) -> Option<u32> {
        let end = offset.checked_add(4)?;
        if end > self.length || offset % 4 != 0 {
            return None;
        }
        // SAFETY: the offset was checked to lie inside the mapping.
        let word = unsafe { self.base.byte_add(offset) }.cast::<u32>();
        // SAFETY: the word is mapped and aligned; others may change it, hence volatile, and no
        // reference to it is ever made.
        Some(unsafe { word.read_volatile() })
    }
}

// SAFETY: the mapping is an address range of the process that nobody writes through.
unsafe impl Send for Mapped {}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `new` mapped the range, it is unmapped once, and no reference to it exists.
        // A range that was mapped can be unmapped, so there is no error to report.
        let _ = unsafe { munmap(self.base, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn mapped_file_reads_words_inside_and_nothing_outside() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[0; 4096]).unwrap();
        file.write_all(&[1, 2, 3, 4, 5, 0, 0, 0]).unwrap();
        file.set_len(8192).unwrap();
        let window = Mapped::new(&file, 4096, 4096).unwrap();
        assert_eq!(window.read(0), Some(0x0403_0201));
        assert_eq!(window.read(4), Some(5));
        assert_eq!((window.read(4096), window.read(2)), (None, None));
        assert_eq!(window.read(usize::MAX - 3), None);
    }
}
