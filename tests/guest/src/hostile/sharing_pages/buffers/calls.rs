// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The calls that are made with a submission page, and what they are made with.

use super::super::uring::{Op, Uring};
use loga::rm as abi;
use loga::uapi;
use nix::errno::Errno;
use nix::libc;
use nix::libc::c_long;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

/// Bytes that a call reads or writes.
pub(super) const BYTES: usize = 8;

/// How a call ended.
pub(super) type Outcome = Result<i64, Errno>;

/// What calls are made with.
pub(super) struct Means {
    /// Within the page, and other memory.
    page: usize,
    heap: Box<[usize; 8]>,
    pub(super) pipe: (OwnedFd, OwnedFd),
    /// A pipe that always has something to read.
    pub(super) full: (OwnedFd, OwnedFd),
    pub(super) pair: (UnixDatagram, UnixDatagram),
    zero: File,
    memory: File,
    pub(super) file: File,
    gpu: File,
    uring: Uring,
}

impl Means {
    pub(super) fn make(page: usize) -> Result<Self, String> {
        let pipe = || {
            let flags = nix::fcntl::OFlag::O_NONBLOCK;
            nix::unistd::pipe2(flags).map_err(|errno| errno.to_string())
        };
        let open = |path: &str| {
            let mut options = File::options();
            let file = options.read(true).write(true).open(path);
            file.map_err(|error| format!("{path}: {error}"))
        };
        let pair = UnixDatagram::pair().map_err(|error| error.to_string())?;
        pair.0
            .set_nonblocking(true)
            .map_err(|error| error.to_string())?;
        let path = format!("/tmp/buffers-{}", std::process::id());
        std::fs::write(&path, [0; 4096]).map_err(|error| error.to_string())?;
        let file = open(&path)?;
        std::fs::remove_file(&path).map_err(|error| error.to_string())?;
        Ok(Means {
            page,
            heap: Box::new([0; 8]),
            pipe: pipe()?,
            full: pipe()?,
            pair,
            zero: open("/dev/zero")?,
            memory: open("/proc/self/mem")?,
            file,
            gpu: open("/dev/nvidia0")?,
            uring: Uring::new()?,
        })
    }

    pub(super) fn heap(&self) -> usize {
        self.heap.as_ptr().expose_provenance()
    }

    /// A vector of this memory.
    fn vector(&self, memory: usize) -> [usize; 2] {
        [memory, BYTES]
    }

    /// Something to read.
    fn fill(&self) -> Outcome {
        let arguments = [fd(&self.full.1), self.heap(), BYTES];
        ask(libc::SYS_write, &arguments)
    }
}

/// Makes a system call.
pub(super) fn ask(number: c_long, arguments: &[usize]) -> Outcome {
    let at = |index: usize| arguments.get(index).copied().unwrap_or(0);
    // SAFETY: addresses are of the page, in a slot that no channel of the program has, or of memory
    // that lives longer than the call; the kernel checks everything else.
    let rc = unsafe { libc::syscall(number, at(0), at(1), at(2), at(3), at(4), at(5)) };
    Errno::result(rc)
}

pub(super) fn fd(file: &impl AsRawFd) -> usize {
    // CAST: descriptors are small and positive.
    file.as_raw_fd() as usize
}

fn at(words: &[usize]) -> usize {
    words.as_ptr().expose_provenance()
}

/// A call: its name, and what it does.
pub(super) type Call = (&'static str, fn(&Means) -> Outcome);

/// A request of a structure of eight bytes.
const FREE: usize = abi::request(abi::nr::FREE, size_of::<abi::Free>()) as usize;

/// Every call.
pub(super) const CALLS: &[Call] = &[
    ("write to a pipe", |m| {
        ask(libc::SYS_write, &[fd(&m.pipe.1), m.page, BYTES])
    }),
    ("writev to a pipe", |m| {
        let vector = m.vector(m.page);
        ask(libc::SYS_writev, &[fd(&m.pipe.1), at(&vector), 1])
    }),
    ("vmsplice to a pipe", |m| {
        let vector = m.vector(m.page);
        ask(libc::SYS_vmsplice, &[fd(&m.pipe.1), at(&vector), 1, 0])
    }),
    ("vmsplice of a gift", |m| {
        let (vector, gift) = ([m.page & !4095, 4096], 8);
        ask(libc::SYS_vmsplice, &[fd(&m.pipe.1), at(&vector), 1, gift])
    }),
    ("read from a pipe", |m| {
        m.fill()?;
        ask(libc::SYS_read, &[fd(&m.full.0), m.page, BYTES])
    }),
    ("send to a socket", |m| {
        let nowait = libc::MSG_DONTWAIT as usize;
        ask(libc::SYS_sendto, &[fd(&m.pair.0), m.page, BYTES, nowait])
    }),
    ("sendmsg to a socket", |m| {
        let vector = m.vector(m.page);
        // struct msghdr: no name, one vector, no control data.
        let message = [0, 0, at(&vector), 1, 0, 0, 0];
        let nowait = libc::MSG_DONTWAIT as usize;
        ask(libc::SYS_sendmsg, &[fd(&m.pair.0), at(&message), nowait])
    }),
    ("receive from a socket", |m| {
        ask(libc::SYS_sendto, &[fd(&m.pair.1), m.heap(), BYTES])?;
        let nowait = libc::MSG_DONTWAIT as usize;
        ask(libc::SYS_recvfrom, &[fd(&m.pair.0), m.page, BYTES, nowait])
    }),
    ("readv of zeroes", |m| {
        let vector = m.vector(m.page);
        ask(libc::SYS_readv, &[fd(&m.zero), at(&vector), 1])
    }),
    ("write to a file", |m| {
        ask(libc::SYS_pwrite64, &[fd(&m.file), m.page, BYTES, 0])
    }),
    ("read from a file", |m| {
        ask(libc::SYS_pread64, &[fd(&m.file), m.page, BYTES, 0])
    }),
    ("process_vm_readv", |m| {
        let (own, other) = (m.vector(m.heap()), m.vector(m.page));
        let pid = std::process::id() as usize;
        ask(
            libc::SYS_process_vm_readv,
            &[pid, at(&own), 1, at(&other), 1],
        )
    }),
    ("process_vm_writev", |m| {
        let (own, other) = (m.vector(m.heap()), m.vector(m.page));
        let pid = std::process::id() as usize;
        ask(
            libc::SYS_process_vm_writev,
            &[pid, at(&own), 1, at(&other), 1],
        )
    }),
    ("process_vm_writev from it", |m| {
        let (own, other) = (m.vector(m.page), m.vector(m.heap()));
        let pid = std::process::id() as usize;
        ask(
            libc::SYS_process_vm_writev,
            &[pid, at(&own), 1, at(&other), 1],
        )
    }),
    ("write by /proc/self/mem", |m| {
        ask(
            libc::SYS_pwrite64,
            &[fd(&m.memory), m.heap(), BYTES, m.page],
        )
    }),
    ("futex of a process", |m| {
        // FUTEX_WAIT_PRIVATE for a value that is not there.
        ask(libc::SYS_futex, &[m.page, 128, 0xffff])
    }),
    ("futex of all", |m| {
        ask(libc::SYS_futex, &[m.page, 0, 0xffff])
    }),
    ("MADV_POPULATE_WRITE", |m| {
        ask(libc::SYS_madvise, &[m.page & !4095, 4096, 23])
    }),
    ("mlock", |m| ask(libc::SYS_mlock, &[m.page & !4095, 4096])),
    ("munlock", |m| {
        ask(libc::SYS_munlock, &[m.page & !4095, 4096])
    }),
    ("argument of ppoll", |m| {
        let now = [0, 0];
        ask(libc::SYS_ppoll, &[m.page, 1, at(&now), 0, 8])
    }),
    ("path of a file", |m| {
        let here = libc::AT_FDCWD as usize;
        ask(libc::SYS_faccessat, &[here, m.page, 0])
    }),
    ("result of clock_gettime", |m| {
        // CLOCK_PROCESS_CPUTIME_ID: the others are read without the kernel.
        ask(libc::SYS_clock_gettime, &[2, m.page])
    }),
    ("getrandom", |m| {
        ask(libc::SYS_getrandom, &[m.page, BYTES, 0])
    }),
    ("argument of a call of the driver", |m| {
        ask(libc::SYS_ioctl, &[fd(&m.gpu), FREE, m.page])
    }),
    ("argument of a snapshot", |m| {
        let loga = File::open(uapi::DEVICE_PATH);
        // Without LoGA there is no such file; any other one does not know the call.
        let file = loga.as_ref().unwrap_or(&m.zero);
        let answer = ask(
            libc::SYS_ioctl,
            &[fd(file), uapi::IOC_SNAPSHOT as usize, m.page],
        );
        answer.or(Err(Errno::EINVAL))
    }),
    ("io_uring: write", |m| {
        m.uring.call(Op::Write, &m.pipe.1, m.page, BYTES, false)
    }),
    ("io_uring: write by a worker", |m| {
        m.uring.call(Op::Write, &m.file, m.page, BYTES, true)
    }),
    ("io_uring: read", |m| {
        m.uring.call(Op::Read, &m.zero, m.page, BYTES, false)
    }),
    ("io_uring: read by a worker", |m| {
        m.uring.call(Op::Read, &m.file, m.page, BYTES, true)
    }),
    ("io_uring: registered buffer", |m| {
        m.uring.register(m.page & !4095, 4096)
    }),
];
