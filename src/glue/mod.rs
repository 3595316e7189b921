// SPDX-License-Identifier: GPL-2.0

//! [glue] Everything that touches the kernel, and the only place for `unsafe`.
//!
//! `driver` finds the driver's `file_operations` and puts LoGA's functions, `members`, into
//! them; `hook` attaches and detaches, and `notices` says when there is reason to.
//! `tracker` follows the opens, RM calls (`request` reads them) and mappings that come through
//! them, with `files` as its table. `mapping` stands in front of the mappings of submission
//! pages, `gate` takes a page away, and `holdings` says whose page it is. `bar` reads
//! registers, `presence` says whether that is allowed, `poller` watches them, and with
//! `shared_poller` one thread does so for all GPUs; `looks` does so at random
//! instants. `gpu` is one GPU, `books` its
//! clients and their time, `scheduler` its main thread, and `watch` what policies are
//! told beside that. `process` says whose a process is, and `permission` who may see and change what. `chardev` takes the calls of
//! `/dev/loga`, `control` carries them out, with a `snapshot` of the books (sorted by
//! `order`) for one and `events` for those who listen; `sysfs` has the same `knobs` as
//! files. `latency` tells what it all costs. `trace` and `work_period` are the trace
//! events.
//!
//! # Lock order
//!
//! a device's lock (kernel) > the lock of `hook`, which is held for moments only;
//! `mmap_lock` (kernel) > `Tracker::files` > `Gpu::books`. `mmap_lock` > `Gate::files` >
//! the driver's own locks > `i_mmap_rwsem` (kernel); no other lock of LoGA's is held with
//! `Gate::files`. `Gpu::readers` > `Gpu::books`; nothing else is held where it is taken.
//! `Gpu::phase` is taken by
//! the poller, and by the main thread inside `Gpu::books`; nothing but
//! `Gpu::threads` is taken inside it. So are the locks of `SharedPoller`. The locks
//! of `events` are taken inside `Gpu::books`, and nothing inside them. A fault waits
//! for its release with none of them held.

mod bar;
mod books;
mod chardev;
mod control;
mod driver;
mod events;
mod ffi;
mod files;
mod gate;
mod gpu;
mod holdings;
mod hook;
mod knobs;
mod latency;
mod looks;
mod mapping;
mod members;
mod minors;
mod notices;
mod order;
mod params;
mod permission;
mod poller;
mod presence;
mod process;
mod request;
mod scheduler;
mod shared_poller;
mod snapshot;
mod sysfs;
mod thread;
mod trace;
mod tracker;
mod watch;
mod work_period;

pub(crate) use chardev::ControlDevice;
pub(crate) use hook::{attach_on_load, detach_for_good, prepare};
pub(crate) use latency::Costs;
pub(crate) use notices::Notices;

/// Page size of the host.
const PAGE: u64 = kernel::page::PAGE_SIZE as u64;
