// SPDX-License-Identifier: GPL-2.0

//! `[double]` What surrounds the GPU: memory that is made up when it is read, and the ground truth.
//!
//! A channel's commands are kept as lengths in a ring. The words that the GPU fetches for them
//! (GPFIFO entry, methods) are computed from the address, so that nothing is stored twice.

use super::trace::Trace;
use loga::rm::submit::{self, method};
use loga_model::gpu::{regs, Bus, Chid, Interval, Kind, Notice, CE0, ENGINES, ENGINE_INDEX, GR};

/// Bytes from one command's methods to the next, in the address space of a channel.
const COMMAND_BYTES: u64 = 32;
/// Address of the first command's methods; the GPFIFO lies at 0.
const COMMANDS: u64 = 1 << 20;
/// Words of one command: duration and launch, then the interrupt at its end.
const COMMAND_WORDS: u32 = 5;
/// Header of a method with its data word in the header. Source: `NVA06F_DMA_IMMD_DATA_METHOD`.
const IMMEDIATE: u32 = 4 << 29;
/// Page of USERD in BAR1.
const USERD_PAGE: u32 = 1;
/// Page of the first channel's instance block in video memory.
const INSTANCES: u64 = 0x100;
/// Page of the first runlist, and pages from one to the next.
const RUNLISTS: u64 = 0x2000;
const RUNLIST_PAGES: u64 = 0x100;
/// Offsets of the engines' status words.
const STATUS: [u32; ENGINES] = [
    regs::ENGINE_STATUS + 8 * ENGINE_INDEX[GR] as u32,
    regs::ENGINE_STATUS + 8 * ENGINE_INDEX[CE0] as u32,
];

/// Commands of one channel.
#[derive(Clone, Debug, Default)]
struct Ring {
    /// Lengths; a power of two of them, none for a channel that is never used.
    lengths: Vec<u64>,
    put: u32,
    /// The client that submits.
    owner: usize,
    /// Subchannel of its engine.
    subchannel: u32,
}

/// Time and commands of one client on one engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time executing commands, in ns.
    pub run: u64,
    /// Time switching to or from it, in ns.
    pub switch: u64,
    /// Commands ended.
    pub commands: u64,
}

/// Work of one client for the compute engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Commands submitted.
    pub submitted: u64,
    /// Commands completed.
    pub completed: u64,
}

impl Work {
    /// Whether there is work that is not done.
    pub fn pending(&self) -> bool {
        self.submitted > self.completed
    }
}

/// What is on an engine now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    word: u32,
    since: u64,
}

/// The surroundings.
pub struct Board {
    pub(super) now: u64,
    rings: Vec<Ring>,
    /// Channels of each runlist, as in video memory.
    runlists: [Vec<u16>; ENGINES],
    shown: [Shown; ENGINES],
    /// Time without BUSY on each engine, up to when its word last changed.
    idle: [u64; ENGINES],
    /// End of the last interval on each engine.
    last: [u64; ENGINES],
    /// Whether two intervals of one engine overlapped.
    overlap: bool,
    usage: Vec<[Usage; ENGINES]>,
    work: Vec<Work>,
    /// Channels of the commands that ended, in that order.
    pub(super) ended: Vec<u16>,
    /// Events: changes of a status word, and submissions.
    events: u64,
    /// Channels that the GPU stopped.
    faults: u64,
    /// Intervals of commands on the compute engine and their owners, if they are wanted.
    pub intervals: Option<Vec<(u64, u64, usize)>>,
    /// Where events are written, if anywhere.
    pub trace: Option<Trace>,
    /// Whether programs share one context: no engine is one's alone.
    pub packed: bool,
}

impl Board {
    pub(super) fn new(channels: usize, clients: usize) -> Self {
        Self {
            now: 0,
            rings: vec![Ring::default(); channels],
            runlists: [Vec::new(), Vec::new()],
            shown: [Shown { word: 0, since: 0 }; ENGINES],
            idle: [0; ENGINES],
            last: [0; ENGINES],
            overlap: false,
            usage: vec![[Usage::default(); ENGINES]; clients],
            work: vec![Work::default(); clients],
            ended: Vec::new(),
            events: 0,
            faults: 0,
            intervals: None,
            trace: None,
            packed: false,
        }
    }

    /// Value of the register that names USERD's page.
    pub(super) const fn userd_word() -> u32 {
        regs::USERD_BASE_VALID | USERD_PAGE
    }

    /// First word of a channel's table entry.
    pub(super) fn instance_word(chid: u16) -> u32 {
        // CAST: a small constant.
        regs::CHANNEL_BIND | (INSTANCES as u32 + u32::from(chid))
    }

    /// Value of the register that names the page of a runlist.
    pub(super) const fn runlist_word(engine: usize) -> u32 {
        // CAST: small constants.
        (RUNLISTS + RUNLIST_PAGES * engine as u64) as u32
    }

    /// Lets a channel be used by `owner` with up to `depth` commands under way.
    pub(super) fn open(&mut self, chid: u16, owner: usize, engine: usize, depth: u32) {
        let ring = &mut self.rings[usize::from(chid)];
        // One entry stays empty, so that a full ring is not an empty one.
        ring.lengths = vec![0; (depth as usize + 1).next_power_of_two().max(2)];
        ring.owner = owner;
        ring.subchannel = if engine == GR {
            submit::SUBCHANNEL_COMPUTE
        } else {
            submit::SUBCHANNEL_COPY
        };
        self.runlists[engine].push(chid);
    }

    /// Takes a channel from its runlist.
    pub(super) fn close(&mut self, chid: u16) {
        for list in &mut self.runlists {
            list.retain(|other| *other != chid);
        }
    }

    /// Number of channels in a runlist.
    pub(super) fn listed(&self, engine: usize) -> usize {
        self.runlists[engine].len()
    }

    /// The client of a channel.
    pub(super) fn owner(&self, chid: u16) -> usize {
        self.rings[usize::from(chid)].owner
    }

    /// Submits a command.
    pub(super) fn submit(&mut self, chid: u16, length: u64) {
        let ring = &mut self.rings[usize::from(chid)];
        // CAST: a ring has at most a thousand entries.
        let mask = ring.lengths.len() as u32 - 1;
        ring.lengths[ring.put as usize] = length.min(submit::COMMAND_NS_MAX);
        ring.put = (ring.put + 1) & mask;
        if ring.subchannel == submit::SUBCHANNEL_COMPUTE {
            self.work[ring.owner].submitted += 1;
        }
        self.events += 1;
    }

    /// Whether an engine shows BUSY.
    pub fn busy(&self, engine: usize) -> bool {
        self.shown[engine].word & regs::STATUS_BUSY != 0
    }

    /// What a client has used of an engine up to now, with what is on it now.
    pub fn usage(&self, client: usize, engine: usize) -> Usage {
        let mut usage = self.usage[client][engine];
        if let Some((owner, kind)) = self.occupant(engine).filter(|on| on.0 == client) {
            let time = self.now - self.shown[engine].since;
            debug_assert_eq!(owner, client);
            match kind {
                Kind::Run => usage.run += time,
                Kind::Switch => usage.switch += time,
            }
        }
        usage
    }

    /// Work of a client for the compute engine.
    pub fn work(&self, client: usize) -> Work {
        self.work[client]
    }

    /// Time without BUSY on an engine up to now.
    pub fn idle(&self, engine: usize) -> u64 {
        let since = if self.busy(engine) {
            0
        } else {
            self.now - self.shown[engine].since
        };
        self.idle[engine] + since
    }

    /// The client that is charged for an engine's time now, by the rule of the ground truth.
    fn occupant(&self, engine: usize) -> Option<(usize, Kind)> {
        let word = self.shown[engine].word;
        if word & regs::STATUS_BUSY == 0 || self.packed {
            return None;
        }
        // CAST: masked to 12 bits.
        let (on, next) = ((word & 0xfff) as u16, ((word >> 16) & 0xfff) as u16);
        Some(match word & regs::STATUS_CTX_SWITCH {
            regs::STATUS_CTX_VALID => (self.owner(on), Kind::Run),
            regs::STATUS_CTX_SAVE => (self.owner(on), Kind::Switch),
            _ => (self.owner(next), Kind::Switch),
        })
    }

    /// Of a packed GPU: whether kernels run from now on.
    pub(super) fn compute(&mut self, computes: bool) {
        if computes != self.busy(GR) {
            self.show(GR, if computes { regs::STATUS_BUSY } else { 0 });
        }
    }

    /// Of a packed GPU: a command has ended that takes so long alone.
    pub(super) fn end(&mut self, chid: u16, engine: usize, length: u64) {
        let owner = self.owner(chid);
        let usage = &mut self.usage[owner][engine];
        usage.run += length;
        usage.commands += 1;
        self.work[owner].completed += u64::from(engine == GR);
        self.ended.push(chid);
        self.events += 1;
    }

    /// Changes of an engine's status word, and submissions.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// What should not be.
    pub fn violations(&self) -> Vec<String> {
        let mut violations = Vec::new();
        if self.overlap {
            violations.push("conservation: two commands ran on one engine".to_owned());
        }
        if self.faults > 0 {
            violations.push(format!("GPU: {} channels faulted", self.faults));
        }
        violations
    }

    /// A status word changed.
    fn show(&mut self, engine: usize, word: u32) {
        if !self.busy(engine) {
            self.idle[engine] += self.now - self.shown[engine].since;
        }
        // Between switching and loading the word changes, but the interval goes on.
        let status = |word| word & regs::STATUS_CTX_SWITCH;
        let goes_on = status(self.shown[engine].word) == regs::STATUS_CTX_SWITCH
            && status(word) == regs::STATUS_CTX_LOAD;
        if !goes_on {
            self.shown[engine].since = self.now;
        }
        self.shown[engine].word = word;
        self.events += 1;
    }
}

impl Bus for Board {
    fn vidmem_read(&mut self, address: u64) -> Option<u32> {
        let (page, offset) = (address >> 12, address & 0xfff);
        if page >= RUNLISTS {
            // CAST: a runlist has at most 4096 entries of 8 bytes.
            let list = ((page - RUNLISTS) / RUNLIST_PAGES) as usize;
            let entry = ((page - RUNLISTS) % RUNLIST_PAGES * 0x1000 + offset) / 8;
            return Some((*self.runlists.get(list)?.get(entry as usize)?).into());
        }
        if offset != regs::RAMFC_GP_BASE_HI {
            return Some(0);
        }
        // CAST: an instance block belongs to one of at most 4096 channels.
        let ring = self.rings.get((page - INSTANCES) as usize)?;
        Some(ring.lengths.len().trailing_zeros() << 16)
    }

    #[inline]
    fn memory_read(&mut self, chid: Chid, va: u64) -> Option<u32> {
        let ring = self.rings.get(usize::from(chid.0))?;
        if va < COMMANDS {
            let entry = va / submit::GP_ENTRY_SIZE;
            let words = submit::gp_entry(COMMANDS + entry * COMMAND_BYTES, COMMAND_WORDS);
            // CAST: the lower or the upper word.
            return Some(words[(va / 4 % 2) as usize]);
        }
        let (slot, word) = ((va - COMMANDS) / COMMAND_BYTES, va % COMMAND_BYTES / 4);
        // CAST: a ring has at most a thousand entries.
        let length = *ring.lengths.get(slot as usize)?;
        Some(match word {
            0 => submit::incrementing(ring.subchannel, method::DURATION_LO, 3),
            // CAST: the halves of the length.
            1 => length as u32,
            2 => (length >> 32) as u32,
            3 => 1,
            _ => IMMEDIATE | (method::NON_STALL_INTERRUPT >> 2),
        })
    }

    fn memory_write(&mut self, _: Chid, _: u64, _: u32) -> bool {
        false
    }

    #[inline]
    fn userd_read(&mut self, offset: u64) -> u32 {
        // CAST: one slot per channel.
        let chid = ((offset - (u64::from(USERD_PAGE) << 12)) / submit::USERD_SLOT) as usize;
        self.rings.get(chid).map_or(0, |ring| ring.put)
    }

    fn userd_write(&mut self, _: u64, _: u32) {}

    #[inline]
    fn publish(&mut self, offset: u32, value: u32) {
        if offset == STATUS[GR] {
            self.show(GR, value);
        } else if offset == STATUS[CE0] {
            self.show(CE0, value);
        }
    }

    fn record(&mut self, interval: Interval) {
        let Interval {
            start,
            end,
            engine,
            chid,
            kind,
        } = interval;
        self.overlap |= start < self.last[engine];
        self.last[engine] = end;
        let owner = self.owner(chid.0);
        let usage = &mut self.usage[owner][engine];
        match kind {
            Kind::Run => {
                usage.run += end - start;
                usage.commands += 1;
                self.work[owner].completed += u64::from(engine == GR);
            }
            Kind::Switch => usage.switch += end - start,
        }
        if let Some(intervals) = self.intervals.as_mut().filter(|_| engine == GR) {
            if matches!(kind, Kind::Run) {
                intervals.push((start, end, owner));
            }
        }
        if let Some(trace) = &mut self.trace {
            trace.engine(engine, owner, kind, start, end);
        }
    }

    fn notify(&mut self, notice: Notice) {
        match notice {
            Notice::NonStall(chid) => self.ended.push(chid.0),
            Notice::Fault(_) => self.faults += 1,
        }
    }
}
