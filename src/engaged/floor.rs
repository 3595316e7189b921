// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Floor: what no priority takes from the other clients.
//!
//! Rule: of the clients without a reserve, one that has waited for [`STARVED`] passes before those
//! of a higher priority, while the account has anything left. The account earns a twentieth of all
//! time, [`MOST_MS`] at most, and pays what those submissions use.
//!
//! Bound: all that pass this way use at most a twentieth of any window, [`MOST_MS`], and one
//! submission more. If their submissions fit into that, none of `n` clients waits for longer than
//! [`STARVED`] and the submissions of all. A client with a reserve is never passed over: what was
//! promised is kept.
//!
//! A client that waits for protected work, with a reserve or without, passes by the same rule.

use super::account::Account;
use crate::units::Ns;

/// How long a client waits before it passes first.
pub const STARVED: Ns = Ns::from_ms(1_000);
/// Most that the account has, and owes.
const MOST_MS: u64 = 50;
const OWES_MS: u64 = 1_000_000_000;
/// Part of the time that it earns.
const PART: u64 = 20;

/// The account. What it owes has no bound that matters.
pub(super) type Floor = Account<PART, MOST_MS, OWES_MS>;
