// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The calls of io_uring, one at a time.
//!
//! Source: `include/uapi/linux/io_uring.h`.

use nix::errno::Errno;
use nix::libc;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{fence, Ordering};
use throttle::sys::{Mapping, Visibility};

/// Entries of the ring of calls, and so of its index array.
const ENTRIES: usize = 4;
/// Offsets of the three mappings in the file.
const OFF_SQ_RING: u64 = 0;
const OFF_CQ_RING: u64 = 0x800_0000;
const OFF_SQES: u64 = 0x1000_0000;
/// Bytes of an entry of each ring.
const SQE: usize = 64;
const CQE: usize = 16;
/// `io_uring_enter`: wait for completions.
const ENTER_GETEVENTS: libc::c_ulong = 1;
/// `io_uring_register`: buffers.
const REGISTER_BUFFERS: libc::c_ulong = 0;

/// What a call does with a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// From the file to the buffer.
    Read = 22,
    /// From the buffer to the file.
    Write = 23,
}

/// Where the kernel keeps things; `struct io_uring_params`, in words.
#[repr(C)]
#[derive(Default)]
struct Params {
    entries: [u32; 2],
    flags: u32,
    thread: [u32; 2],
    features: u32,
    workers: u32,
    reserved: [u32; 3],
    /// head, tail, ring_mask, ring_entries, flags, dropped, array, reserved.
    sq: [u32; 8],
    sq_user: u64,
    /// head, tail, ring_mask, ring_entries, overflow, cqes, flags, reserved.
    cq: [u32; 8],
    cq_user: u64,
}

const _: () = assert!(size_of::<Params>() == 120);

/// A ring of calls.
pub(super) struct Uring {
    file: OwnedFd,
    params: Params,
    sq: Mapping,
    cq: Mapping,
    sqes: Mapping,
}

impl Uring {
    pub(super) fn new() -> Result<Self, String> {
        let mut params = Params::default();
        // SAFETY: the kernel reads and fills the structure, whose size was checked above.
        let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, ENTRIES, &raw mut params) };
        let fd = Errno::result(fd).map_err(|errno| format!("io_uring_setup: {errno}"))?;
        // CAST: descriptors are small.
        // SAFETY: the kernel has just opened it for this caller.
        let file = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let map = |length, offset| {
            let mapped = Mapping::new(file.as_fd(), length, offset, Visibility::Shared);
            mapped.map_err(|error| format!("io_uring: {error}"))
        };
        let sq_length = params.sq[6] as usize + ENTRIES * 4;
        let cq_length = params.cq[5] as usize + params.cq[3] as usize * CQE;
        let (sq, cq) = (map(sq_length, OFF_SQ_RING)?, map(cq_length, OFF_CQ_RING)?);
        let sqes = map(ENTRIES * SQE, OFF_SQES)?;
        Ok(Uring {
            file,
            params,
            sq,
            cq,
            sqes,
        })
    }

    /// Makes a call, by the caller or (`by_worker`) by a thread of the kernel, and waits for its end.
    pub(super) fn call(
        &self,
        op: Op,
        file: &impl AsRawFd,
        address: usize,
        length: usize,
        by_worker: bool,
    ) -> Result<i64, Errno> {
        /// `IOSQE_ASYNC`.
        const ASYNC: u32 = 1 << 4;
        let flags = if by_worker { ASYNC } else { 0 };
        let low = |word: usize| word as u32;
        // CAST (all): descriptors, halves of addresses, small numbers.
        let words: [u32; SQE / 4] = [
            op as u32 | flags << 8,
            file.as_raw_fd() as u32,
            u32::MAX,
            u32::MAX,
            low(address),
            low(address >> 32),
            low(length),
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ];
        let sq = |field: usize| self.params.sq[field] as usize;
        let tail = self.sq.observe(sq(1));
        let index = tail & self.sq.read(sq(2));
        for (at, word) in words.into_iter().enumerate() {
            self.sqes.write(index as usize * SQE + at * 4, word);
        }
        self.sq.write(sq(6) + index as usize * 4, index);
        self.sq.publish(sq(1), tail.wrapping_add(1));
        self.enter()?;
        fence(Ordering::SeqCst);
        let cq = |field: usize| self.params.cq[field] as usize;
        let head = self.cq.observe(cq(0));
        let at = cq(5) + (head & self.cq.read(cq(2))) as usize * CQE;
        // CAST: the result is signed there.
        let result = self.cq.observe(at + 8) as i32;
        self.cq.publish(cq(0), head.wrapping_add(1));
        match result {
            0.. => Ok(result.into()),
            _ => Err(Errno::from_raw(-result)),
        }
    }

    fn enter(&self) -> Result<(), Errno> {
        let none = std::ptr::null::<libc::c_void>();
        // SAFETY: one call is submitted and waited for; no signal mask is passed.
        let rc = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.file.as_raw_fd(),
                1,
                1,
                ENTER_GETEVENTS,
                none,
                0,
            )
        };
        Errno::result(rc).map(drop)
    }

    /// Registers memory as a buffer of calls.
    pub(super) fn register(&self, address: usize, length: usize) -> Result<i64, Errno> {
        let vector = [address, length];
        // SAFETY: the kernel reads one vector, and checks the address in it.
        let rc = unsafe {
            libc::syscall(
                libc::SYS_io_uring_register,
                self.file.as_raw_fd(),
                REGISTER_BUFFERS,
                vector.as_ptr(),
                1,
            )
        };
        Errno::result(rc)
    }
}
