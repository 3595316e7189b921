// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Everything that touches the kernel, and the only place for `unsafe`.
//!
//! | room | contents |
//! |---|---|
//! | `kernel` | interfaces of the kernel: C functions, threads, processes |
//! | `trace` | trace events |
//! | `gpu` | one GPU: its registers, its clients, its threads and its gates |
//! | `engaged` | engaged scheduling: each store is decided on |
//! | `driver` | NVIDIA's driver: opens, RM calls, mappings, and the hooks for them |
//! | `control` | interfaces of users: `/dev/loga`, sysfs, debugfs, parameters |
//!
//! Imports form no circle (`tests/sources.rs` checks it): a file can be read after those that it
//! imports. That is true of files, not of rooms: `gpu` and `engaged` import each other, `gpu`
//! imports `control::events` and `control::params`, and `driver::hook` imports `control::sysfs`.
//!
//! # Lock order
//!
//! a device's lock (kernel) > the lock of `hook`, which is held only briefly;
//! `mmap_lock` (kernel) > `Tracker::files` > `Gpu::books`. `mmap_lock` > `Gate::files` >
//! `i_mmap_rwsem` (kernel), which is only tried there. `Gate::files` > `Engaged::slots` >
//! `Engaged::state`, and `Gate::files` > `Gpu::took`; no other lock of LoGA's is held with
//! `Gate::files`. `Gpu::books` > `Engaged::slots`. The innermost, `Engaged::state`, is a spinlock:
//! nothing sleeps or allocates with it held. `Gpu::readers` and `Gpu::openers` >
//! `Gpu::books`, and `Tracker::readers` and `Tracker::openers` > `Tracker::files`: no other lock is held
//! when one of these `UserQueues` is entered, and none is taken inside it but that one.
//! The lock of `ClaimTable` is taken with none of LoGA's locks held, and no lock inside it.
//! `Gpu::phase` is taken by the poller, and by the main thread inside `Gpu::books`; only
//! `Gpu::threads` is taken inside it. The same is true of the locks of `SharedPoller`. The locks of
//! `events`, which are spinlocks, and `Gpu::took` are taken inside `Gpu::books`, and no lock inside
//! them. A fault waits for its release with none of them held.
//!
//! Who may hold which, who waits for it, and whose holder inherits the priority of those that wait, is
//! in docs/architecture.md. A call of an application is not preempted while it has the books
//! (`Gpu::brief_books`), and so takes no lock there that sleeps.

mod control;
mod driver;
mod engaged;
mod gpu;
mod kernel;
mod trace;

pub(crate) use control::chardev::ControlDevice;
pub(crate) use control::debugfs::Costs;
pub(crate) use driver::hook::{attach_on_load, detach_for_good, prepare};
pub(crate) use driver::notices::Notices;
pub(crate) use gpu::gates::revocation::Revocations;
