// SPDX-License-Identifier: GPL-2.0

//! `[tool]` System calls with any numbers, and the part of the address space that they may touch.
//!
//! The arena lies at a fixed address, so that the same sequence has the same addresses in every
//! process. Everything that a call may point at lies in it, or is not mapped at all.

use super::own_store;
use nix::errno::Errno;
use nix::libc;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Page size.
pub(crate) const PAGE: u64 = 4096;
/// Address of the arena: nothing else is ever mapped there.
const BASE: u64 = 0x10_0000_0000;
/// Pages of the arena.
const PAGES: u64 = 64;
/// Pages at its start that stay readable and writable.
pub(crate) const PLAIN: u64 = 8;
/// The page behind them is read-only; the next one is never mapped.
const READ_ONLY: u64 = PLAIN;
/// First page that files are mapped at.
const SLOTS: u64 = PLAIN + 2;

/// Protection of a mapping of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Page of the arena, from the first that files are mapped at.
    pub(crate) slot: u64,
    /// Bytes.
    pub(crate) length: u64,
    /// Offset in the file.
    pub(crate) offset: u64,
    /// `PROT_*`.
    pub(crate) protection: i32,
}

/// The arena of this process.
#[derive(Debug)]
pub(crate) struct Arena(());

impl Arena {
    /// Reserves it; once per process.
    pub(crate) fn new() -> Result<Self, Errno> {
        let arena = Arena(());
        arena.reserve(0, PAGES)?;
        arena.protect(0, PLAIN, libc::PROT_READ | libc::PROT_WRITE)?;
        arena.protect(READ_ONLY, 1, libc::PROT_READ)?;
        Ok(arena)
    }

    /// Makes some pages inaccessible.
    fn reserve(&self, page: u64, count: u64) -> Result<(), Errno> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        // SAFETY: the range belongs to the arena, where no Rust object lives.
        let rc = unsafe {
            libc::mmap(
                (BASE + page * PAGE) as *mut libc::c_void,
                (count * PAGE) as usize,
                libc::PROT_NONE,
                flags,
                -1,
                0,
            )
        };
        Errno::result(rc as i64).map(drop)
    }

    fn protect(&self, page: u64, count: u64, protection: i32) -> Result<(), Errno> {
        let at = (BASE + page * PAGE) as *mut libc::c_void;
        // SAFETY: as in `reserve`.
        let rc = unsafe { libc::mprotect(at, (count * PAGE) as usize, protection) };
        Errno::result(rc).map(drop)
    }

    /// Address of a byte.
    pub(crate) fn address(&self, page: u64, offset: u64) -> u64 {
        BASE + page * PAGE + offset
    }

    /// Address of a page that can only be read.
    pub(crate) fn read_only(&self) -> u64 {
        self.address(READ_ONLY, 0)
    }

    /// Address of the first page that files are mapped at.
    pub(crate) fn slot(&self, slot: u64) -> u64 {
        self.address(SLOTS + slot % (PAGES - SLOTS), 0)
    }

    /// Whether `length` bytes from an address on are plain memory of the arena.
    pub(crate) fn is_plain(&self, address: u64, length: usize) -> bool {
        let end = BASE + PLAIN * PAGE;
        (BASE..end).contains(&address) && end - address >= length as u64
    }

    /// Writes bytes into plain memory.
    pub(crate) fn put(&mut self, address: u64, bytes: &[u8]) {
        assert!(self.is_plain(address, bytes.len()), "{address:#x}");
        // SAFETY: the range is mapped writable and was checked; no reference into it exists.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    }

    /// Reads bytes from plain memory.
    pub(crate) fn get(&self, address: u64, bytes: &mut [u8]) {
        assert!(self.is_plain(address, bytes.len()), "{address:#x}");
        // SAFETY: as in `put`.
        unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), bytes.len());
        }
    }

    /// Maps a file over a slot.
    pub(crate) fn map(&self, file: &File, wanted: Wanted) -> Result<(), Errno> {
        let room = (PAGES - SLOTS - wanted.slot % (PAGES - SLOTS)) * PAGE;
        let length = wanted.length.min(room);
        // SAFETY: the range is cut to the arena, where no Rust object lives; the kernel checks the
        // rest.
        let rc = unsafe {
            libc::mmap(
                self.slot(wanted.slot) as *mut libc::c_void,
                length as usize,
                wanted.protection,
                libc::MAP_SHARED | libc::MAP_FIXED,
                file.as_raw_fd(),
                wanted.offset as libc::off_t,
            )
        };
        Errno::result(rc as i64).map(drop)
    }

    /// Unmaps some pages of a slot; they can be mapped again.
    pub(crate) fn unmap(&self, slot: u64, pages: u64) -> Result<(), Errno> {
        let first = SLOTS + slot % (PAGES - SLOTS);
        // SAFETY: the range is cut to the slots of the arena, where no Rust object lives.
        let rc = unsafe {
            libc::munmap(
                (BASE + first * PAGE) as *mut libc::c_void,
                (pages.min(PAGES - first) * PAGE) as usize,
            )
        };
        Errno::result(rc).map(drop)
    }

    /// Changes the protection of a page that a file may be mapped at.
    pub(crate) fn change(&self, slot: u64, protection: i32) -> Result<(), Errno> {
        self.protect(SLOTS + slot % (PAGES - SLOTS), 1, protection)
    }

    /// Gives the kernel advice about a page that a file may be mapped at.
    pub(crate) fn advise(&self, slot: u64, advice: i32) -> Result<(), Errno> {
        let at = self.slot(slot) as *mut libc::c_void;
        // SAFETY: the contents of the slots may be lost at any time.
        Errno::result(unsafe { libc::madvise(at, PAGE as usize, advice) }).map(drop)
    }

    /// Has the kernel store a word into a page that a file may be mapped at: a missing page is an
    /// error, not the end of the process.
    pub(crate) fn store(&self, pipe: &Pipe, at: u64, word: u32) -> Result<(), Errno> {
        let mut bytes = word.to_le_bytes();
        nix::unistd::write(&pipe.to, &bytes)?;
        // SAFETY: the four bytes lie in the arena, where no Rust object lives.
        let rc = unsafe { libc::read(pipe.from.as_raw_fd(), at as *mut libc::c_void, 4) };
        let result = Errno::result(rc).map(drop);
        if result.is_err() {
            nix::unistd::read(&pipe.from, &mut bytes)?;
        }
        result
    }

    /// Stores a word into a page that a file may be mapped at; a missing page is an error here, too.
    pub(crate) fn store_itself(&self, at: u64, word: u32) -> Result<(), Errno> {
        // SAFETY: the four bytes lie in the arena, where no Rust object lives.
        unsafe { own_store::store(at as *mut u32, word) }
    }
}

/// A pipe to and from this process.
#[derive(Debug)]
pub(crate) struct Pipe {
    from: OwnedFd,
    to: OwnedFd,
}

impl Pipe {
    /// Makes it.
    pub(crate) fn new() -> Result<Self, Errno> {
        let (from, to) = nix::unistd::pipe()?;
        Ok(Pipe { from, to })
    }
}

/// An ioctl with any number and any argument.
pub(crate) fn ioctl(file: &File, request: u32, argument: u64) -> Result<i32, Errno> {
    // SAFETY: all addresses that the kernel may write to are plain memory of the arena, or not
    // mapped: see the head of this file.
    Errno::result(unsafe { libc::ioctl(file.as_raw_fd(), request.into(), argument) })
}

/// A second descriptor of an open file.
pub(crate) fn duplicate(file: &File) -> Result<File, Errno> {
    // SAFETY: the descriptor is open.
    let fd = Errno::result(unsafe { libc::dup(file.as_raw_fd()) })?;
    // SAFETY: it is new, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}

/// A page that this process shares with its children.
#[derive(Debug)]
pub(crate) struct Shared(*mut u64);

impl Shared {
    /// Makes it.
    pub(crate) fn new() -> Result<Self, Errno> {
        // SAFETY: a new mapping at an address that the kernel chooses.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        Errno::result(at as i64)?;
        Ok(Shared(at.cast()))
    }

    /// Stores the number.
    pub(crate) fn set(&self, number: u64) {
        // SAFETY: the page stays mapped, is aligned, and one process at a time writes it.
        unsafe { self.0.write_volatile(number) };
    }

    /// The number.
    pub(crate) fn get(&self) -> u64 {
        // SAFETY: as in `set`.
        unsafe { self.0.read_volatile() }
    }
}
