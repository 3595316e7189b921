// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Engaged scheduling: each store to a submission page is decided on before it reaches the
//! GPU. What is decided, and when, is in [`crate::engaged`].
//!
//! | file | contents |
//! |---|---|
//! | `scheduler` | engaged scheduling of one GPU: how it is told of what happens, and what other threads ask |
//! | `fault` | what the fault handler asks |
//! | `state` | what its lock protects |
//! | `wait_queue` | where the threads of a client sleep until it may store |
//! | `opening` | the pages through which a client may store now |
//! | `completion` | the thread that ends windows and sees the end of commands |
//! | `specs` | priorities, modes and reserves of the clients of a GPU |

pub(crate) mod completion;
mod fault;
mod opening;
pub(crate) mod scheduler;
pub(crate) mod specs;
mod state;
mod wait_queue;

pub(crate) use specs::ListedSpec;
