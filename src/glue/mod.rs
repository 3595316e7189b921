// SPDX-License-Identifier: GPL-2.0

//! [glue] Everything that touches the kernel, and the only place for `unsafe`.
//!
//! | room | contents |
//! |---|---|
//! | `kernel` | what the kernel offers: C functions, threads, processes |
//! | `trace` | trace events |
//! | `gpu` | one GPU: its registers, its clients, its threads and its gates |
//! | `driver` | what comes from NVIDIA's driver: opens, RM calls, mappings, and the hooks for them |
//! | `control` | what users see and change: `/dev/loga`, sysfs, debugfs, parameters |
//!
//! Imports form no circle (`tests/sources.rs` checks it): a file can be read after those that it
//! names. That holds of files, not of rooms: `gpu` names `control::events` and `control::params`, and
//! `driver::hook` names `control::sysfs`.
//!
//! # Lock order
//!
//! a device's lock (kernel) > the lock of `hook`, which is held for moments only;
//! `mmap_lock` (kernel) > `Tracker::files` > `Gpu::books`. `mmap_lock` > `Gate::files` >
//! the driver's own locks > `i_mmap_rwsem` (kernel); no other lock of LoGA's is held with
//! `Gate::files`. `Gpu::readers` > `Gpu::books`; nothing else is held where it is taken.
//! `Gpu::phase` is taken by the poller, and by the main thread inside `Gpu::books`; nothing but
//! `Gpu::threads` is taken inside it. So are the locks of `SharedPoller`. The locks of `events`,
//! and `Gpu::took`, are taken inside `Gpu::books`, and nothing inside them. A fault waits for its
//! release with none of them held.

mod control;
mod driver;
mod gpu;
mod kernel;
mod trace;

pub(crate) use control::chardev::ControlDevice;
pub(crate) use control::debugfs::Costs;
pub(crate) use driver::hook::{attach_on_load, detach_for_good, prepare};
pub(crate) use driver::notices::Notices;
