// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Everything that deals with NVIDIA's driver.
//!
//! | file | contents |
//! |---|---|
//! | `operations`, `driver.c` | the driver's `file_operations`: found, checked, members replaced |
//! | `members`, `inside` | LoGA's functions in them, and the calls inside these |
//! | `hook` | attaching and detaching |
//! | `leaving` | no call is inside LoGA's functions any more |
//! | `notices` | notifiers: a driver appears, a GPU is unbound, the machine sleeps |
//! | `tracker`, `files` | the opens and RM calls that come through them |
//! | `takeover` | the mappings that come through them, and the process that pays for each |
//! | `rm_call` | reads the argument of an RM call |
//! | `mapping` | mappings of submission pages, and the faults on them |
//! | `minors` | the GPU of each `/dev/nvidiaN` |

mod files;
pub(crate) mod hook;
mod inside;
mod leaving;
pub(crate) mod mapping;
mod members;
mod minors;
pub(crate) mod notices;
mod operations;
mod rm_call;
mod takeover;
pub(crate) mod tracker;
