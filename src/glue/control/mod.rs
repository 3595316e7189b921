// SPDX-License-Identifier: GPL-2.0

//! [glue] What users see and change.
//!
//! | file | contents |
//! |---|---|
//! | `chardev`, `control.c` | `/dev/loga`: its file operations |
//! | `calls` | what its calls do |
//! | `wire`, `refused` | its structures and refusals on their way |
//! | `chosen` | whom a caller means by a number |
//! | `permission` | who may see and change what |
//! | `snapshot` | the books of a GPU as it shows them |
//! | `events` | subscribers to events, and their queues |
//! | `sysfs` | knobs as files |
//! | `params` | module parameters |
//! | `modinfo` | their names and descriptions |
//! | `debugfs` | what LoGA itself costs |

pub(crate) mod calls;
pub(crate) mod chardev;
mod chosen;
pub(crate) mod debugfs;
pub(crate) mod events;
mod modinfo;
pub(crate) mod params;
pub(super) mod permission;
mod refused;
mod snapshot;
pub(crate) mod sysfs;
mod wire;
