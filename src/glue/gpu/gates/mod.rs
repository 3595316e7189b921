// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The gates of pages: who may store, and how that is taken away.
//!
//! | file | contents |
//! |---|---|
//! | `gate` | takes a page away, and gives it back |
//! | `updates` | which gates are to be updated once the books are unlocked |
//! | `revocation` | removing the entries of a page, without waiting for a lock of a tenant |
//! | `turn_waits` | how long threads have waited for their turn |
//! | `kinds` | which channels of a page compute |

pub(crate) mod gate;
pub(crate) mod kinds;
pub(crate) mod revocation;
mod turn_waits;
pub(in crate::glue::gpu) mod updates;
