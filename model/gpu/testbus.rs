// SPDX-License-Identifier: GPL-2.0

//! `[double]` Memory and host for the GPU's tests: small arrays, and counters of what happened.

use super::{regs, Bus, Channel, Chid, Gpu, Interval, Notice, Timing, ENGINES};
use crate::rm::submit;
use crate::rm::submit::Command;

/// A GPU that switches for free.
pub(crate) const FREE: Timing = Timing {
    switch_ns: 0,
    timeslice_ns: 0,
    doorbell_ns: 10,
    snoop_ns: 0,
};

/// A GPU that takes 30 ns for a switch.
pub(crate) const SWITCH: Timing = Timing {
    switch_ns: 30,
    timeslice_ns: 0,
    doorbell_ns: 10,
    snoop_ns: 0,
};

/// Channels of the tests' GPU.
pub(super) const CHANNELS: usize = 6;
/// Words of memory per channel, all at address 0 of the channel's own address space: GPFIFO of 8
/// entries, then 6 pushbuffers of 16 words, then the semaphore.
const WORDS: usize = 16 + 6 * 16 + 1;
/// Address of the semaphore.
pub(super) const SEMAPHORE: u64 = (16 + 6 * 16) * 4;
/// Entries of the GPFIFO.
pub(super) const ENTRIES: u32 = 8;
/// Offset of USERD in BAR1.
const USERD: u64 = 0x10000;
/// Intervals kept.
const INTERVALS: usize = 24;

/// The double.
pub(super) struct TestBus {
    memory: [[u32; WORDS]; CHANNELS],
    get: [u32; CHANNELS],
    put: [u32; CHANNELS],
    runlists: [[u32; 2 * CHANNELS]; ENGINES],
    /// The first intervals recorded.
    pub(super) intervals: [Option<Interval>; INTERVALS],
    /// Number of intervals recorded.
    pub(super) recorded: usize,
    /// Notices received: completions and faults of each channel.
    pub(super) completions: [u32; CHANNELS],
    /// Faults of each channel.
    pub(super) faults: [u32; CHANNELS],
    /// Last engine status word published for GR.
    pub(super) status: u32,
    /// Times that GR was shown without work.
    pub(super) idle_shown: u32,
    /// Times that a channel was shown without work.
    pub(super) channels_idle: u32,
    /// Delay from the beginning of a call to the change of the registers.
    pub(super) lag: u64,
}

/// The GPU of the tests.
pub(super) type TestGpu<'a> = Gpu<&'a mut [Channel]>;

impl TestBus {
    /// Empty memory.
    pub(super) fn new() -> Self {
        Self {
            memory: [[0; WORDS]; CHANNELS],
            get: [0; CHANNELS],
            put: [0; CHANNELS],
            runlists: [[0; 2 * CHANNELS]; ENGINES],
            intervals: [None; INTERVALS],
            recorded: 0,
            completions: [0; CHANNELS],
            faults: [0; CHANNELS],
            status: 0,
            idle_shown: 0,
            channels_idle: 0,
            lag: 0,
        }
    }

    /// The word a completed command leaves.
    pub(super) fn semaphore(&self, chid: u16) -> u32 {
        self.memory[usize::from(chid)][WORDS - 1]
    }

    /// Stores a word where a channel's program would.
    pub(super) fn poke(&mut self, chid: u16, va: u64, value: u32) {
        self.memory[usize::from(chid)][(va / 4) as usize] = value;
    }

    /// Submits a command, as a program does: pushbuffer, GPFIFO entry, GP_PUT.
    pub(super) fn submit(&mut self, chid: u16, duration_ns: u64, payload: u32) {
        self.submit_to(chid, submit::SUBCHANNEL_COMPUTE, duration_ns, payload);
    }

    /// As [`TestBus::submit`], on a subchannel.
    pub(super) fn submit_to(&mut self, chid: u16, subchannel: u32, duration_ns: u64, payload: u32) {
        let words = Command {
            subchannel,
            duration_ns,
            semaphore_va: SEMAPHORE,
            payload,
            interrupt: true,
        }
        .encode();
        let slot = usize::from(chid);
        let at = 16 + 16 * (self.put[slot] as usize % 6);
        for (to, from) in self.memory[slot][at..].iter_mut().zip(words) {
            *to = from;
        }
        self.submit_raw(chid, submit::gp_entry(4 * at as u64, words.len() as u32));
    }

    /// Submits a GPFIFO entry.
    pub(super) fn submit_raw(&mut self, chid: u16, entry: [u32; 2]) {
        let slot = usize::from(chid);
        let at = 2 * self.put[slot] as usize;
        self.memory[slot][at] = entry[0];
        self.memory[slot][at + 1] = entry[1];
        self.put[slot] = (self.put[slot] + 1) % ENTRIES;
    }

    /// Stores GP_PUT without a submission.
    pub(super) fn set_put(&mut self, chid: u16, put: u32) {
        self.put[usize::from(chid)] = put;
    }

    /// GP_GET as the program sees it.
    pub(super) fn get(&self, chid: u16) -> u32 {
        self.get[usize::from(chid)]
    }
}

impl Bus for TestBus {
    fn vidmem_read(&mut self, address: u64) -> Option<u32> {
        match address >> 12 {
            1 => Some(*self.runlists[0].get((address & 0xfff) as usize / 4)?),
            2 => Some(*self.runlists[1].get((address & 0xfff) as usize / 4)?),
            // Instance blocks: the GPFIFO lies at 0 and has 8 entries.
            _ if address & 0xfff == regs::RAMFC_GP_BASE_HI => Some(3 << 16),
            _ => Some(0),
        }
    }

    fn memory_read(&mut self, chid: Chid, va: u64) -> Option<u32> {
        self.memory[usize::from(chid.0)]
            .get((va / 4) as usize)
            .copied()
    }

    fn memory_write(&mut self, chid: Chid, va: u64, value: u32) -> bool {
        match self.memory[usize::from(chid.0)].get_mut((va / 4) as usize) {
            Some(word) => *word = value,
            None => return false,
        }
        true
    }

    fn userd_read(&mut self, offset: u64) -> u32 {
        let slot = ((offset - USERD) / submit::USERD_SLOT) as usize;
        self.put[slot]
    }

    fn userd_write(&mut self, offset: u64, value: u32) {
        let slot = ((offset - USERD) / submit::USERD_SLOT) as usize;
        self.get[slot] = value;
    }

    fn publish(&mut self, offset: u32, value: u32) {
        if offset == regs::ENGINE_STATUS {
            self.status = value;
            self.idle_shown += u32::from(value & regs::STATUS_BUSY == 0);
        }
        let states = (regs::CHANNEL..entry(CHANNELS as u16)).contains(&offset) && offset % 8 == 4;
        self.channels_idle += u32::from(states && value & regs::CHANNEL_BUSY == 0);
    }

    fn record(&mut self, interval: Interval) {
        if let Some(slot) = self.intervals.get_mut(self.recorded) {
            *slot = Some(interval);
        }
        self.recorded += 1;
    }

    fn clock(&mut self, call: u64) -> u64 {
        call + self.lag
    }

    fn notify(&mut self, notice: Notice) {
        match notice {
            Notice::NonStall(chid) => self.completions[usize::from(chid.0)] += 1,
            Notice::Fault(chid) => self.faults[usize::from(chid.0)] += 1,
        }
    }
}

/// Offset of a channel's table entry.
pub(super) fn entry(chid: u16) -> u32 {
    regs::CHANNEL + 8 * u32::from(chid)
}

/// A GPU after the steps of a driver: USERD, binds, enables, runlists.
///
/// `lists` names the channels of each runlist by bit.
pub(super) fn gpu<'a>(
    timing: Timing,
    lists: [u32; ENGINES],
    table: &'a mut [Channel],
    bus: &mut TestBus,
) -> TestGpu<'a> {
    let mut gpu = Gpu::new(timing, table);
    gpu.mmio_write(
        regs::USERD_BASE,
        regs::USERD_BASE_VALID | (USERD >> 12) as u32,
        bus,
    );
    for chid in 0..CHANNELS as u16 {
        let Some(runlist) = lists.iter().position(|list| list & (1 << chid) != 0) else {
            continue;
        };
        let runlist = (runlist as u32) << regs::CHANNEL_RUNLIST_SHIFT;
        gpu.mmio_write(
            entry(chid),
            regs::CHANNEL_BIND | (0x100 + u32::from(chid)),
            bus,
        );
        gpu.mmio_write(entry(chid) + 4, runlist | regs::CHANNEL_ENABLE_SET, bus);
    }
    for (runlist, list) in lists.iter().enumerate() {
        let mut count = 0;
        for chid in (0..CHANNELS as u32).filter(|chid| list & (1 << chid) != 0) {
            bus.runlists[runlist][2 * count] = chid;
            count += 1;
        }
        submit_runlist(&mut gpu, runlist as u32, count as u32, bus);
    }
    gpu
}

/// Submits a runlist that lies in the bus's memory.
pub(super) fn submit_runlist(gpu: &mut TestGpu<'_>, runlist: u32, count: u32, bus: &mut TestBus) {
    gpu.mmio_write(regs::RUNLIST_BASE, runlist + 1, bus);
    gpu.mmio_write(regs::RUNLIST_SUBMIT, (runlist << 20) | count, bus);
}

/// Puts an entry into a runlist.
pub(super) fn set_entry(bus: &mut TestBus, runlist: usize, index: usize, word: u32) {
    bus.runlists[runlist][2 * index] = word;
}

/// Runs the GPU until `until`, as its timer would.
pub(super) fn run(gpu: &mut TestGpu<'_>, bus: &mut TestBus, from: u64, until: u64) {
    let mut now = from;
    for _ in 0..10_000 {
        match gpu.advance(now, bus) {
            Some(next) if next <= until => now = next.max(now),
            _ => break,
        }
    }
}
