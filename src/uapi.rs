// SPDX-License-Identifier: GPL-2.0

//! [pure] What the kernel module and the tools say to each other over `/dev/loga`.
//!
//! Every structure is `repr(C)`, made of fixed-width integers, without implicit
//! padding, and its size is asserted at compile time. A caller states the version
//! and the size of the structure it was built with; a kernel that knows another
//! one refuses with `EINVAL` instead of guessing.
//!
//! All times are nanoseconds of the monotonic clock of the host.

/// Version of every structure in this file. Raised when a layout changes.
pub const VERSION: u32 = 1;

/// Path of the control device.
pub const DEVICE_PATH: &str = "/dev/loga";

/// Number of the ioctl that takes a [`Snapshot`], `_IOWR('L', 1, Snapshot)`.
pub const IOC_SNAPSHOT: u32 = iowr(1, core::mem::size_of::<Snapshot>());

/// Magic letter of the ioctl numbers.
const IOC_MAGIC: u32 = b'L' as u32;

/// Builds the number of a read-write ioctl as `include/uapi/asm-generic/ioctl.h` does.
const fn iowr(nr: u32, size: usize) -> u32 {
    const READ_WRITE: u32 = 3;
    // CAST: the structures of this file are smaller than the 14 bits of the field.
    (READ_WRITE << 30) | ((size as u32) << 16) | (IOC_MAGIC << 8) | nr
}

/// Longest policy name, with its terminating zero.
pub const POLICY_NAME_LEN: usize = 16;

/// Longest command name of a process, with its terminating zero (`TASK_COMM_LEN`).
pub const COMM_LEN: usize = 16;

/// Argument of [`IOC_SNAPSHOT`]: where to put the tables, and what came back.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot {
    /// In: [`VERSION`].
    pub version: u32,
    /// In: `size_of::<Snapshot>()`.
    pub size: u32,
    /// In: index of the GPU, from 0. `ENODEV` past the last one.
    pub gpu: u32,
    /// In: zero.
    pub flags: u32,
    /// In: address of an array of [`Client`].
    pub clients: u64,
    /// In: address of an array of [`Channel`].
    pub channels: u64,
    /// In: room in `clients`, in elements. Out: how many there are; the table is
    /// cut to the room when this is larger.
    pub client_count: u32,
    /// In: room in `channels`, in elements. Out: as `client_count`.
    pub channel_count: u32,
    /// Out: the GPU itself.
    pub info: Gpu,
}

/// One GPU and what its poller saw.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Gpu {
    /// Chip id as in PMC_BOOT_0 bits 28:20, `0xf1` for a GK110B.
    pub chipset: u32,
    /// PCI domain.
    pub pci_domain: u32,
    /// PCI bus number in bits 15:8, device and function in bits 7:0.
    pub pci_bdf: u32,
    /// Bits `GPU_*`.
    pub flags: u32,
    /// Name of the policy, zero-terminated.
    pub policy: [u8; POLICY_NAME_LEN],
    /// One of `SOURCE_*`.
    pub source: u32,
    /// Open files of the GPU's device node that LoGA manages.
    pub open_files: u32,
    /// Time of this snapshot.
    pub now_ns: u64,
    /// Sum of the lengths of all polling phases.
    pub polled_ns: u64,
    /// Sum of the lengths of all non-polling phases.
    pub unpolled_ns: u64,
    /// Part of `polled_ns` in which the engine held nobody's work.
    pub idle_ns: u64,
    /// Part of `polled_ns` held by channels whose owner is not known.
    pub unknown_ns: u64,
    /// System virtual time.
    pub t_sys_ns: u64,
    /// Length of the last polling phase.
    pub last_poll_ns: u64,
    /// Length of the last non-polling phase.
    pub last_nonpoll_ns: u64,
    /// Iterations of the poll loop.
    pub polls: u64,
    /// Register reads made by the poll loop.
    pub register_reads: u64,
    /// Changes of the engine's occupant that were seen.
    pub switches: u64,
    /// Polling phases ended.
    pub decisions: u64,
    /// Clients held back, ever.
    pub revokes: u64,
    /// Clients released, ever.
    pub restores: u64,
    /// Times the watchdog let everybody run.
    pub fallbacks: u64,
    /// Files that were open before LoGA was attached and are passed through.
    pub unmanaged_files: u64,
}

/// The poller is inside a polling phase.
pub const GPU_POLLING: u32 = 1 << 0;
/// Decisions are carried out (`enforce=1`).
pub const GPU_ENFORCING: u32 = 1 << 1;
/// The device answered with all ones: it is gone, nobody is held back.
pub const GPU_LOST: u32 = 1 << 2;

/// `source=engine-status`.
pub const SOURCE_ENGINE_STATUS: u32 = 0;
/// `source=channel-table`.
pub const SOURCE_CHANNEL_TABLE: u32 = 1;

/// One client: what fairness is between, a process for now.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Client {
    /// Unique since the module was loaded, never used again.
    pub id: u64,
    /// Process id of the owner, in the pid namespace of the reader; 0 if not visible there.
    pub pid: i32,
    /// User id of the owner, in the user namespace of the reader.
    pub uid: u32,
    /// Command name of the owner.
    pub comm: [u8; COMM_LEN],
    /// Channels allocated.
    pub channels: u32,
    /// One of `STATE_*`.
    pub state: u32,
    /// Weight, 1 to 10000.
    pub weight: u32,
    /// Zero.
    pub reserved: u32,
    /// GPU time in all polling phases: measured.
    pub measured_ns: u64,
    /// GPU time since the client appeared: measured time scaled by the phases it stands for.
    pub gpu_time_ns: u64,
    /// What an equal (weighted) division among the active clients would have given it.
    pub entitled_ns: u64,
    /// Virtual time.
    pub vtime_ns: u64,
    /// Time spent held back.
    pub held_ns: u64,
    /// Times it was held back.
    pub held_count: u64,
    /// Times the engine took up its work in polling phases: `measured_ns / runs` is the
    /// mean length of a run.
    pub runs: u64,
    /// When it appeared.
    pub since_ns: u64,
}

/// The client had no work in the last polling phase.
pub const STATE_IDLE: u32 = 0;
/// The client had work in the last polling phase and may submit.
pub const STATE_RUNNING: u32 = 1;
/// The client's submission pages are revoked.
pub const STATE_HELD: u32 = 2;

/// One channel whose submission page is known.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Channel {
    /// Hardware channel id.
    pub chid: u32,
    /// Submission mappings of it that exist now.
    pub mappings: u32,
    /// [`Client::id`] of the owner.
    pub client: u64,
    /// GPU time in all polling phases.
    pub measured_ns: u64,
    /// Times the engine took up its work in polling phases.
    pub runs: u64,
}

const _: () = assert!(core::mem::size_of::<Gpu>() == 168);
const _: () = assert!(core::mem::size_of::<Client>() == 112);
const _: () = assert!(core::mem::size_of::<Channel>() == 32);
const _: () = assert!(core::mem::size_of::<Snapshot>() == 40 + 168);
