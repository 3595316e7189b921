// SPDX-License-Identifier: GPL-2.0

//! Everything that the state machine reaches: registers, memory, owners, the log.

use super::clock::now;
use super::memory::Aperture;
use super::params::Params;
use super::space::{Space, SPACES};
use crate::gpu::{regs, Bus, Chid, Interval, Notice};
use crate::rm::submit;
use crate::truth::{Account, Entry, Truth};
use kernel::prelude::*;

/// Words of the bitmap of address spaces.
const DUE_WORDS: usize = SPACES.div_ceil(64);
/// Rows of the ground truth's table of processes.
const ACCOUNTS: usize = 512;

/// Physical places of the card's apertures.
#[derive(Clone, Copy)]
pub struct Apertures {
    /// BAR0.
    pub bar0: u64,
    /// Bytes of BAR0.
    pub bar0_size: u64,
    /// BAR1.
    pub bar1: u64,
    /// Bytes of BAR1.
    pub bar1_size: u64,
    /// Offset of the USERD area in BAR1.
    pub userd: u64,
    /// BAR3, through which video memory is reached.
    pub bar3: u64,
    /// Bytes of BAR3.
    pub bar3_size: u64,
}

/// The owner of a channel.
#[derive(Clone, Copy, Default)]
pub(super) struct Owner {
    pub(super) pid: i32,
    pub(super) space: Option<usize>,
}

/// Everything the state machine reaches.
pub(super) struct Board {
    pub(super) bar0: Aperture,
    pub(super) userd: Aperture,
    pub(super) userd_offset: u64,
    pub(super) vidmem: Aperture,
    pub(super) owners: KVVec<Owner>,
    pub(super) spaces: KVVec<Option<KBox<Space>>>,
    pub(super) truth: Truth<KVVec<Option<Entry>>, KVVec<Account>>,
    /// Registers keep what they read.
    pub(super) silent: bool,
    /// Completions not reported to the host yet, by address space.
    completed: KVVec<Completed>,
    /// Address spaces that have some, one bit each.
    due: [u64; DUE_WORDS],
}

/// Completions of one client not reported to the host yet.
#[derive(Clone, Copy, Default)]
pub(super) struct Completed {
    /// Commands.
    pub(super) commands: u32,
    /// The channel of the last one.
    pub(super) last: Chid,
}

impl Board {
    /// The card's memory, cleared.
    pub(super) fn new(params: &Params, at: Apertures, now: u64) -> Result<Self> {
        let channels = regs::CHANNELS as usize;
        let userd_size = u64::from(regs::CHANNELS) * submit::USERD_SLOT;
        let mut spaces = KVVec::with_capacity(SPACES, GFP_KERNEL)?;
        for _ in 0..SPACES {
            spaces.push(None, GFP_KERNEL)?;
        }
        let entries = KVVec::from_elem(None, params.log_entries as usize, GFP_KERNEL)?;
        let accounts = KVVec::from_elem(Account::default(), ACCOUNTS, GFP_KERNEL)?;
        let board = Self {
            bar0: Aperture::new(at.bar0, at.bar0_size)?,
            userd: Aperture::new(at.bar1 + at.userd, userd_size)?,
            userd_offset: at.userd,
            vidmem: Aperture::new(at.bar3, at.bar3_size)?,
            owners: KVVec::from_elem(Owner::default(), channels, GFP_KERNEL)?,
            spaces,
            truth: Truth::new(entries, accounts, now),
            silent: false,
            completed: KVVec::from_elem(Completed::default(), SPACES, GFP_KERNEL)?,
            due: [0; DUE_WORDS],
        };
        board.bar0.fill(0);
        board.userd.fill(0);
        Ok(board)
    }

    /// Whether there are completions to report to the host.
    pub(super) fn has_completed(&self) -> bool {
        self.due.iter().any(|&word| word != 0)
    }

    /// Takes the completions of one address space.
    pub(super) fn take_completed(&mut self) -> Option<(usize, Completed)> {
        let index = self.due.iter().position(|&word| word != 0)?;
        // CAST: below 64.
        let slot = index * 64 + self.due[index].trailing_zeros() as usize;
        self.due[index] &= self.due[index] - 1;
        let completed = self.completed.get_mut(slot)?;
        let taken = *completed;
        completed.commands = 0;
        Some((slot, taken))
    }
}

impl Bus for Board {
    fn vidmem_read(&mut self, address: u64) -> Option<u32> {
        self.vidmem.read(address)
    }

    fn memory_read(&mut self, chid: Chid, va: u64) -> Option<u32> {
        let space = self.owners.get(usize::from(chid.0))?.space?;
        let (memory, offset) = self.spaces.get(space)?.as_ref()?.find(va)?;
        memory.read(offset)
    }

    fn memory_write(&mut self, chid: Chid, va: u64, value: u32) -> bool {
        let owner = self.owners.get(usize::from(chid.0));
        let space = owner.and_then(|owner| self.spaces.get(owner.space?)?.as_ref());
        match space.and_then(|space| space.find(va)) {
            Some((memory, offset)) => memory.write(offset, value),
            None => false,
        }
    }

    fn userd_read(&mut self, offset: u64) -> u32 {
        let slot = offset.checked_sub(self.userd_offset);
        slot.and_then(|slot| self.userd.read(slot)).unwrap_or(0)
    }

    fn userd_write(&mut self, offset: u64, value: u32) {
        if let Some(slot) = offset.checked_sub(self.userd_offset) {
            self.userd.write(slot, value);
        }
    }

    fn publish(&mut self, offset: u32, value: u32) {
        if !self.silent {
            self.bar0.write(u64::from(offset), value);
        }
    }

    fn record(&mut self, interval: Interval) {
        let owner = self.owners.get(usize::from(interval.chid.0));
        self.truth
            .record(interval, owner.map_or(0, |owner| owner.pid));
    }

    fn clock(&mut self, _call: u64) -> u64 {
        now()
    }

    fn notify(&mut self, notice: Notice) {
        let Notice::NonStall(chid) = notice else {
            return;
        };
        let owner = self.owners.get(usize::from(chid.0));
        let Some(slot) = owner.and_then(|owner| owner.space) else {
            return;
        };
        if let Some(completed) = self.completed.get_mut(slot) {
            completed.commands = completed.commands.saturating_add(1);
            completed.last = chid;
            self.due[slot / 64] |= 1 << (slot % 64);
        }
    }
}
