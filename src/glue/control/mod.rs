// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Interfaces through which users read and change LoGA.
//!
//! | file | contents |
//! |---|---|
//! | `chardev`, `control.c` | `/dev/loga`: its file operations |
//! | `calls`, `specs`, `claim` | its calls |
//! | `wire`, `refused` | its structures and refusals on their way |
//! | `chosen` | the subject that a caller means by a number |
//! | `permission` | what each caller may read and change |
//! | `snapshot`, `describe` | the books of a GPU as it shows them |
//! | `events` | what is told to those who listen |
//! | `listeners` | files that listen, and their queues |
//! | `sysfs` | knobs as files |
//! | `params` | module parameters |
//! | `modinfo` | their names and descriptions |
//! | `debugfs` | costs of LoGA itself |

pub(crate) mod calls;
pub(crate) mod chardev;
mod chosen;
mod claim;
pub(crate) mod debugfs;
mod describe;
pub(crate) mod events;
pub(crate) mod listeners;
mod modinfo;
pub(crate) mod params;
pub(crate) mod permission;
mod refused;
mod snapshot;
mod specs;
pub(crate) mod sysfs;
mod wire;
