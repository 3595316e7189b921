// SPDX-License-Identifier: GPL-2.0

//! [glue] What comes from NVIDIA's driver.
//!
//! | file | contents |
//! |---|---|
//! | `operations`, `driver.c` | the driver's `file_operations`: found, checked, members replaced |
//! | `members`, `inside` | LoGA's functions in them, and the calls that are inside |
//! | `hook` | attaching and detaching |
//! | `notices` | when there is reason to: a driver comes, a GPU leaves, the machine sleeps |
//! | `tracker`, `files` | the opens and RM calls that come through them |
//! | `takeover` | the mappings that come through them, and for which process |
//! | `rm_call` | what an RM call asks |
//! | `mapping` | mappings of submission pages, and the faults on them |
//! | `minors` | which GPU is `/dev/nvidiaN` |

mod files;
pub(crate) mod hook;
mod inside;
pub(crate) mod mapping;
mod members;
mod minors;
pub(crate) mod notices;
mod operations;
mod rm_call;
mod takeover;
pub(crate) mod tracker;
