// SPDX-License-Identifier: GPL-2.0

//! One channel: an entry of the channel table and the state of its command fetch.

use super::regs;

/// STATUS of a channel. Source: GK20A `hw_ccsr`, GV100 `dev_fifo` `NV_PCCSR_CHANNEL_STATUS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// No work.
    Idle = 0,
    /// Work waits for the runlist to come round.
    Pending = 1,
    /// The channel waits for a semaphore.
    PendingAcquire = 3,
    /// Its command executes and more may be fetched.
    OnPbdmaAndEngine = 6,
    /// Its last command executes.
    OnEngine = 7,
}

/// Where the command fetch of a channel stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fetch {
    /// Address of the next pushbuffer word.
    pub(super) va: u64,
    /// Pushbuffer words left.
    pub(super) words: u32,
    /// Method the next data word belongs to.
    pub(super) method: u32,
    /// Data words left of the current header.
    pub(super) count: u32,
    /// Bytes the method advances per data word: 4, or 0 for a non-incrementing header.
    pub(super) increment: u32,
    /// Subchannel of the current header.
    pub(super) subchannel: u32,
    /// Semaphore address.
    pub(super) semaphore: u64,
    /// Semaphore payload.
    pub(super) payload: u32,
    /// Whether the channel waits for the payload in its semaphore.
    pub(super) acquiring: bool,
    /// Length of the next command, in ns.
    pub(super) duration: u64,
    /// A command that was launched and has not started, in ns.
    pub(super) launch: Option<u64>,
}

/// An entry of the channel table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// First word of the entry: instance block and BIND.
    pub(super) inst: u32,
    /// Runlist the driver assigned.
    pub(super) runlist: u8,
    /// ENABLE.
    pub(super) enabled: bool,
    /// NEXT; kept, without a meaning here.
    pub(super) next_bit: bool,
    /// PBDMA_FAULTED.
    pub(super) faulted: bool,
    /// STATUS.
    pub(super) status: Status,
    /// Whether a runlist contains the channel.
    pub(super) listed: bool,
    /// TSG the runlist put it in.
    pub(super) tsg: Option<u16>,
    /// Next channel of the runlist, in a ring.
    pub(super) link: u16,
    /// Address of the GPFIFO, from RAMFC.
    pub(super) gp_base: u64,
    /// Entries of the GPFIFO, from RAMFC; 0: none.
    pub(super) gp_entries: u32,
    /// Index of the next entry to fetch.
    pub(super) gp_get: u32,
    /// Command fetch.
    pub(super) fetch: Fetch,
    /// Position in the ring.
    pub(super) place: u32,
    /// Whether it is in the list of channels with a rung doorbell.
    pub(super) rung: bool,
    /// The next channel of that list.
    pub(super) next_rung: Option<u16>,
    /// Second word of the entry as last published.
    pub(super) published: u32,
}

impl Fetch {
    /// The state after bind.
    pub(super) const NEW: Self = Self {
        va: 0,
        words: 0,
        method: 0,
        count: 0,
        increment: 4,
        subchannel: 0,
        semaphore: 0,
        payload: 0,
        acquiring: false,
        duration: 0,
        launch: None,
    };
}

impl Channel {
    /// A channel after reset.
    pub const NEW: Self = Self {
        inst: 0,
        runlist: 0,
        enabled: false,
        next_bit: false,
        faulted: false,
        status: Status::Idle,
        listed: false,
        tsg: None,
        link: 0,
        gp_base: 0,
        gp_entries: 0,
        gp_get: 0,
        fetch: Fetch::NEW,
        place: 0,
        rung: false,
        next_rung: None,
        published: 0,
    };

    /// Whether an instance block is bound.
    pub fn bound(&self) -> bool {
        self.inst & regs::CHANNEL_BIND != 0
    }

    /// Whether the channel was stopped by a fault.
    pub fn faulted(&self) -> bool {
        self.faulted
    }

    /// Whether the driver has it enabled.
    pub fn enabled(&self) -> bool {
        self.enabled
    }

    /// STATUS as last determined.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Whether the scheduler may consider it.
    pub(super) fn schedulable(&self) -> bool {
        self.bound() && self.enabled && self.listed && !self.faulted && self.gp_entries != 0
    }

    /// The second word of the entry.
    pub(super) fn state_word(&self) -> u32 {
        let mut word = (self.status as u32) << regs::CHANNEL_STATUS_SHIFT;
        word |= (u32::from(self.runlist) & 0xf) << regs::CHANNEL_RUNLIST_SHIFT;
        if self.enabled {
            word |= regs::CHANNEL_ENABLE;
        }
        if self.next_bit {
            word |= regs::CHANNEL_NEXT;
        }
        if self.faulted {
            word |= regs::CHANNEL_PBDMA_FAULTED;
        }
        if self.status != Status::Idle {
            word |= regs::CHANNEL_BUSY;
        }
        word
    }
}
