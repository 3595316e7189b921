// SPDX-License-Identifier: GPL-2.0

//! What the GPU is connected to, and what all its parts have in common.

/// Hardware id of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chid(pub u16);

/// A context that an engine can load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// A single channel's context.
    Channel(u16),
    /// A context shared by the channels of a TSG.
    Tsg(u16),
}

/// Number of engines modelled.
pub const ENGINES: usize = 2;

/// Position of graphics and compute in the tables of this module.
pub const GR: usize = 0;

/// Position of the first copy engine in the tables of this module.
pub const CE0: usize = 1;

/// Hardware index of each engine. Source: envytools `gf100_pfifo`: GR 0, CE0 4.
pub const ENGINE_INDEX: [u8; ENGINES] = [0, 4];

/// Times that describe the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Cost of one context switch, in ns.
    pub switch_ns: u64,
    /// How long a context may continue while others wait, in ns; 0: for one command.
    pub timeslice_ns: u64,
    /// How often an idle engine scans for new work, in ns; 0: never. Then the owner calls
    /// [`Gpu::ring_doorbell`](super::Gpu::ring_doorbell) after every submission, and [`Gpu::advance`](super::Gpu::advance) if the engine may be idle.
    pub doorbell_ns: u64,
    /// How often a busy engine scans for channels that got work, to show it in the channel table,
    /// in ns; 0: never. Hardware sees the store itself.
    pub snoop_ns: u64,
}

/// What occupied an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A command.
    Run,
    /// A context switch, as far as the status word names this channel.
    Switch,
}

/// One interval of the ground truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// When the registers began to show it, in ns.
    pub start: u64,
    /// When they ceased to, in ns.
    pub end: u64,
    /// Position of the engine ([`GR`] or [`CE0`]).
    pub engine: usize,
    /// The channel named by the engine's status word.
    pub chid: Chid,
    /// What it was.
    pub kind: Kind,
}

/// An event that the host gets as an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The channel executed NON_STALL_INTERRUPT.
    NonStall(Chid),
    /// The channel's commands made no sense; it is stopped.
    Fault(Chid),
}

/// The machine around the GPU: memory, BAR1 and the host.
///
/// Every method is called with the GPU's lock held and must not call back.
pub trait Bus {
    /// Reads a word of video memory (instance blocks, runlists).
    fn vidmem_read(&mut self, address: u64) -> Option<u32>;
    /// Reads a word through the address space of a channel.
    fn memory_read(&mut self, chid: Chid, va: u64) -> Option<u32>;
    /// Writes a word through the address space of a channel; false if it is not mapped.
    fn memory_write(&mut self, chid: Chid, va: u64, value: u32) -> bool;
    /// Reads a word of USERD at an offset in BAR1.
    fn userd_read(&mut self, offset: u64) -> u32;
    /// Writes a word of USERD at an offset in BAR1.
    fn userd_write(&mut self, offset: u64, value: u32);
    /// A register has a new value.
    fn publish(&mut self, offset: u32, value: u32);
    /// An interval of the ground truth is complete.
    fn record(&mut self, interval: Interval);
    /// The GPU interrupts the host.
    fn notify(&mut self, notice: Notice);
    /// What time it is in a call of [`Gpu::advance`](super::Gpu::advance) that began at `call`. Time stands still in a
    /// call unless this says otherwise.
    fn clock(&mut self, call: u64) -> u64 {
        call
    }
}
