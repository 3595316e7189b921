// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Limits of engaged scheduling that several rooms keep to.

use crate::units::Ns;

/// Most clients that are told apart: wait queues, the last of which all others share.
pub const WAIT_QUEUES: usize = 64;
/// The wait queue of all clients that have none of their own.
pub const SHARED_QUEUE: usize = WAIT_QUEUES - 1;
/// Most submissions in flight of a client under [`Mode::Ht`](super::Mode::Ht).
pub const HT_DEPTH: usize = 4;
/// How long a client under [`Mode::Ht`](super::Mode::Ht) goes on while an equal one is ready.
pub const HT_SLICE: Ns = Ns::from_us(2_000);
/// What a submission costs beside its commands: see `docs/engaged-figures.md`.
pub const SUBMISSION: Ns = Ns::from_us(60);
/// Longest time without a completion while others wait.
pub const MAX_GRANT: Ns = Ns::from_ms(2_000);
/// How long a client waits before it passes first, see `allowance`.
pub const STARVED: Ns = Ns::from_ms(1_000);
/// How long a page has an entry without a store.
pub const WINDOW: Ns = Ns::from_us(60);
/// How long a client that was granted may take to come back to its store.
pub const RETURN: Ns = Ns::from_us(200);
/// What a grant costs at least that its client does not use.
pub const UNUSED: Ns = Ns::from_us(20);
/// For how long a client has the engine at most that does not use its grant.
pub(super) const UNUSED_MOST: Ns = RETURN.saturating_add(WINDOW);
/// Grants in a row that a client does not use until it is no longer taken for one that wants its turn.
/// Its thread may not have come back in time once or twice.
pub const MOST_UNUSED: u32 = 4;
/// What a reserve without promised deadlines may be late with beyond its period, and catch up.
pub(super) const LATE: Ns = Ns::from_ms(100);
/// A debt that takes longer to pay is forgiven beyond this.
pub const MAX_DEBT: Ns = Ns::from_ms(60_000);
/// Position of clients for which no reserve is set: there is none at it.
pub const BACKGROUND: usize = 0;
