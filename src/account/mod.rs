// SPDX-License-Identifier: GPL-2.0

//! `[pure]` From changes of the engine's occupant to time on the engine per channel.
//!
//! Time between two observed changes is charged to the occupant between them. The occupant at the
//! end of the phase is charged to the end, and an occupant that did not change gets the whole
//! phase. Time in which the engine ran no channel's work is idle time. Source: LoGA paper, sections
//! 3.3 and 4.1.
//!
//! [`sparse`] does the same from a few samples at random instants. [`residue`] samples between
//! polling phases: for commands that run on after their client is throttled, and for clients that
//! run when the poller does not, which [`doubt`] judges. [`waits`] estimates which clients wait,
//! and [`Commands`] counts the commands that a channel was given and has completed. [`fading`] has
//! means of the recent past. [`Copies`] accounts the copy engine beside all of this.

mod burst;
mod commands;
mod copies;
pub mod decay;
pub mod doubt;
pub mod fading;
mod ledger;
pub mod residue;
pub mod sparse;
#[cfg(any(test, loga_kunit))]
mod sparse_tests;
pub mod waits;
#[cfg(any(test, loga_kunit))]
mod waits_tests;

pub use burst::Accountant;
pub use commands::Commands;
pub use copies::{Copied, Copies, POLLS_PER_COPY_READ};
pub use ledger::{settle, Accounts, Charge, Owner};

use crate::ids::{TsgId, MAX_CHANNELS};
use crate::names::named;
use crate::regs::Occupant;
use crate::units::Ns;

/// Slots that can be used: one per channel id, then one per channel-group id.
pub const MAX_SLOTS: usize = 2 * MAX_CHANNELS;

named! {
    /// How GPU time is accounted.
    pub enum Accounting of "accounting" {
        /// The status word is read in a loop during polling phases, as in the paper.
        #[default]
        Burst = "burst",
        /// The status word is read at random instants.
        Sparse = "sparse",
    }
}

/// An engine whose time is accounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// The one for compute and graphics: what GPU time without a further word is time of.
    Compute,
    /// The first copy engine.
    Copy,
}

/// Bits in one word of the set of used slots.
const WORD_BITS: usize = 64;

/// What one channel (or TSG) did in a polling phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Time for which its work was on the engine.
    pub ran: Ns,
    /// Times the engine took up its work. A run that was already there when the
    /// phase began is not counted again.
    pub runs: u32,
    /// Of a TSG: the context of a channel of it that ran, 0 if none was seen. Source:
    /// [`Occupant::Tsg`].
    pub context: u32,
}

/// Index of the slot of an occupant: channels first, TSGs from [`MAX_CHANNELS`].
/// Nothing for an idle engine or an unknown occupant.
pub const fn slot_of(occupant: Occupant) -> Option<usize> {
    match occupant {
        Occupant::Channel(chid) => Some(chid.index()),
        Occupant::Tsg { id, .. } => Some(MAX_CHANNELS + id.index()),
        Occupant::Idle | Occupant::Unknown => None,
    }
}

/// The TSG whose slot has this index.
pub fn tsg_of(index: usize) -> Option<TsgId> {
    let id = u32::try_from(index.checked_sub(MAX_CHANNELS)?).ok()?;
    (index < MAX_SLOTS).then(|| TsgId::from_bits(id))
}

/// Whether two observations in a row are of one run: a channel of the same TSG goes on.
fn goes_on(before: Occupant, after: Occupant) -> bool {
    before == after || slot_of(before).is_some_and(|slot| slot_of(after) == Some(slot))
}

impl Slot {
    /// Notes the context of a TSG that is charged.
    fn note_context(&mut self, occupant: Occupant) {
        if let Occupant::Tsg { context, .. } = occupant {
            if context != 0 {
                self.context = context;
            }
        }
    }
}

/// Where the time of one polling phase went.
///
/// # Invariants
///
/// `length` is the sum of `idle`, `unknown` and `ran`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseTotals {
    /// Length of the phase.
    pub length: Ns,
    /// Time in which no work was on the engine.
    pub idle: Ns,
    /// Time of an occupant that has no slot, or, after [`settle`], no owner.
    pub unknown: Ns,
    /// Time of all others.
    pub ran: Ns,
    /// Changes of the occupant that were seen.
    pub switches: u64,
    /// Time that throttled clients ran in this phase and the non-polling phase before it. It is
    /// charged to them one to one, so the scaled part of the period excludes it.
    pub direct: Ns,
    /// The part of that in this phase.
    pub direct_polled: Ns,
}

impl PhaseTotals {
    /// Totals of a phase in which nothing has been seen yet.
    const ZERO: Self = Self {
        length: Ns::ZERO,
        idle: Ns::ZERO,
        unknown: Ns::ZERO,
        ran: Ns::ZERO,
        switches: 0,
        direct: Ns::ZERO,
        direct_polled: Ns::ZERO,
    };
}

/// Which slots were used in a phase.
#[derive(Clone, Copy)]
pub struct UsedSlots([u64; MAX_SLOTS / WORD_BITS]);

impl UsedSlots {
    const fn new() -> Self {
        Self([0; MAX_SLOTS / WORD_BITS])
    }

    /// Notes that a slot is used.
    fn mark(&mut self, index: Option<usize>) {
        let Some(index) = index else {
            return;
        };
        if let Some(word) = self.0.get_mut(index / WORD_BITS) {
            *word |= 1 << (index % WORD_BITS);
        }
    }

    /// Indices of the slots, ascending.
    ///
    /// Takes time in proportion to the slots that were used, not to all slots.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(index, word)| {
            ones(*word)
                // CAST: a position below WORD_BITS.
                .map(move |bit| index * WORD_BITS + bit as usize)
        })
    }
}

/// Clears the slots that were used.
fn clear(slots: &mut [Slot], used: &mut UsedSlots) {
    for index in used.iter() {
        if let Some(slot) = slots.get_mut(index) {
            *slot = Slot::default();
        }
    }
    *used = UsedSlots::new();
}

/// Positions of the bits that are set, ascending.
fn ones(word: u64) -> impl Iterator<Item = u32> {
    let nonzero = |rest: u64| (rest != 0).then_some(rest);
    // Each step clears the lowest bit.
    core::iter::successors(nonzero(word), move |rest| {
        nonzero(rest & rest.wrapping_sub(1))
    })
    .map(u64::trailing_zeros)
}
