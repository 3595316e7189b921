// SPDX-License-Identifier: GPL-2.0

//! Everything that the state machine reaches: registers, memory, owners, the log.

use super::machine::now;
use super::memory::Aperture;
use super::params::Params;
use super::space::Space;
use super::space::SPACES;
use crate::abi::submit;
use crate::gpu::regs;
use crate::gpu::Bus;
use crate::gpu::Chid;
use crate::gpu::Interval;
use crate::gpu::Notice;
use crate::truth::Account;
use crate::truth::Entry;
use crate::truth::Truth;
use kernel::prelude::*;

/// Completions kept until the host is told; more than end in one call.
const NOTICES: usize = 32;
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

/// Who owns a channel.
#[derive(Clone, Copy)]
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
    pub(super) lost: bool,
    /// Channels whose completions the host has not been told.
    completed: [Option<Chid>; NOTICES],
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
            owners: KVVec::from_elem(
                Owner {
                    pid: 0,
                    space: None,
                },
                channels,
                GFP_KERNEL,
            )?,
            spaces,
            truth: Truth::new(entries, accounts, now),
            lost: false,
            completed: [None; NOTICES],
        };
        board.bar0.fill(0);
        board.userd.fill(0);
        Ok(board)
    }

    /// Tells the host of the completions so far.
    ///
    /// Waking a process takes microseconds, for which a card does not wait: to be called when the
    /// card has gone on to what comes next.
    pub(super) fn interrupt(&mut self) {
        for slot in 0..NOTICES {
            let Some(chid) = self.completed[slot].take() else {
                break;
            };
            self.signal(chid);
        }
    }

    fn signal(&self, chid: Chid) {
        let space = self
            .owners
            .get(usize::from(chid.0))
            .and_then(|owner| owner.space);
        let space = space.and_then(|space| self.spaces.get(space)?.as_ref());
        if let Some(space) = space {
            space.signal(chid);
        }
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
        if !self.lost {
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
        match self.completed.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => *slot = Some(chid),
            None => self.signal(chid),
        }
    }
}
