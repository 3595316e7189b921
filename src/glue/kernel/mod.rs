// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Interfaces of the kernel that the kernel crate lacks.
//!
//! | file | contents |
//! |---|---|
//! | `ffi`, `shim.c`, `process.c` | C functions that the other files call |
//! | `compat`, `compat.h`, `kernels.mk` | what differs between kernels |
//! | `thread` | kernel threads, and how they are woken |
//! | `pi_mutex` | a mutex with priority inheritance |
//! | `preempt` | disabling preemption, and yielding |
//! | `process` | identity of a process, and how a caller sees it |
//! | `storage` | tables in vectors |
//! | `store_queue` | where threads sleep in a store |
//! | `text` | the page of a file in sysfs |
//! | `user_queues` | where callers of one user wait for each other |
//! | `print` | texts of the pure parts, for the log |
//! | `refusals` | what was refused while LoGA attached: the log, and a parameter |
//! | `order` | sorting without a panic |

pub(crate) mod compat;
pub(crate) mod ffi;
pub(crate) mod order;
pub(crate) mod pi_mutex;
pub(crate) mod preempt;
pub(crate) mod print;
pub(crate) mod process;
pub(crate) mod refusals;
pub(crate) mod storage;
pub(crate) mod store_queue;
pub(crate) mod text;
pub(crate) mod thread;
pub(crate) mod user_queues;
