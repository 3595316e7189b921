// SPDX-License-Identifier: GPL-2.0

//! `[pure]` A Kepler GPU as a state machine: channels, runlists, two engines, their registers.
//!
//! The machine has no clock. Its owner calls [`Gpu::advance`] with the time and gets the time of
//! the next call; everything that becomes due happens in that call, and is recorded at the time at
//! which the registers show it ([`Bus::clock`]), so that both say the same. Work is read through
//! [`Bus`], which also receives every register that changes.
//!
//! | file | contents |
//! |---|---|
//! | [`regs`] | offsets and fields, each with its source |
//! | [`chip`] | which chip the card says it is |
//! | [`channel`] | one channel: bind, enable, fetch state, status |
//! | `bus` | what it is connected to, and what its parts have in common |
//! | `fetch` | GPFIFO and pushbuffer: methods up to the next command |
//! | `runlist`, `runlists` | lists of channels, walked round robin |
//! | `engine`, `executing` | commands, context switches, timeslices, preemption |
//! | `doorbell` | submissions named by the owner of the GPU, instead of scans |
//! | `schedule` | which command comes next, and how it is found |
//! | `mmio` | register reads and writes |
//!
//! Abbreviations: *GPFIFO* ring of pointers to commands; *USERD* page through which a program
//! moves the ring's indices; *PBDMA* unit that fetches commands; *TSG* group of channels that
//! share a context; *FECS* microcontroller that switches contexts.

mod bus;
pub mod channel;
pub mod chip;
mod doorbell;
mod engine;
mod executing;
#[cfg(any(test, model_kunit))]
mod fault_tests;
mod fetch;
mod mmio;
pub mod regs;
mod runlist;
mod runlists;
mod schedule;
#[cfg(any(test, model_kunit))]
mod testbus;
#[cfg(any(test, model_kunit))]
mod tests;

pub use bus::{Bus, Chid, Context, Interval, Kind, Notice, Timing, CE0, ENGINES, ENGINE_INDEX, GR};

use channel::Channel;
use core::ops::DerefMut;
use engine::Engine;
use runlist::Runlist;

/// Transitions done in one call of [`Gpu::advance`]; the rest happens in the next.
const STEPS_MAX: u32 = 32;
/// Words fetched in one call of [`Gpu::advance`], over all channels.
const WORDS_MAX: u32 = 2048;
/// Channels that [`Gpu::has_recent_work`] scans.
const RECENT: usize = 32;
/// No scan this shortly before a command ends, in ns: the command would end late.
const SNOOP_MARGIN_NS: u64 = 5_000;
/// When to call again if a limit of a call was reached, in ns.
const CONTINUE_NS: u64 = 20_000;

/// The GPU. `S` is the channel table: a slice, a vector or a box of [`Channel`].
pub struct Gpu<S> {
    timing: Timing,
    channels: S,
    engines: [Engine; ENGINES],
    runlists: [Runlist; ENGINES],
    stored: mmio::Stored,
    /// Words that may still be fetched in this call.
    budget: u32,
    /// Channels that had commands lately; the oldest is replaced first.
    recent: [Option<u16>; RECENT],
    /// Position in `recent` to replace next.
    recent_at: usize,
    /// Scans of `recent` since the last scan of all channels.
    short_scans: u32,
}

impl<S: DerefMut<Target = [Channel]>> Gpu<S> {
    /// A GPU after reset with the channel table `channels`.
    pub fn new(timing: Timing, channels: S) -> Self {
        Self {
            timing,
            channels,
            engines: [Engine::new(), Engine::new()],
            runlists: [Runlist::new(), Runlist::new()],
            stored: mmio::Stored::new(),
            budget: 0,
            recent: [None; RECENT],
            recent_at: 0,
            short_scans: 0,
        }
    }

    /// Gives the card the identity of another chip.
    pub fn identify(&mut self, identity: chip::ChipIdentity) {
        self.stored.identity = identity;
    }

    /// The channel `chid`, if the table has it.
    pub fn channel(&self, chid: Chid) -> Option<&Channel> {
        self.channels.get(usize::from(chid.0))
    }

    /// Does everything that is due at `now` and returns when to call again.
    ///
    /// `None`: nothing will happen until a register is written (or, with `doorbell_ns` 0, until
    /// a program submits work).
    pub fn advance<B: Bus>(&mut self, now: u64, bus: &mut B) -> Option<u64> {
        self.publish_time(now, bus);
        self.budget = WORDS_MAX;
        let mut steps = 0;
        let mut unfinished = true;
        while unfinished && steps < STEPS_MAX && self.budget > 0 {
            unfinished = false;
            for engine in 0..ENGINES {
                unfinished |= self.step(engine, now, bus);
            }
            steps += 1;
        }
        let mut next = unfinished.then(|| now.saturating_add(CONTINUE_NS));
        for engine in 0..ENGINES {
            let due = match self.engines[engine].deadline() {
                Some(deadline) => Some(self.snoop(engine, deadline, now, bus)),
                None if self.timing.doorbell_ns != 0 && self.engines[engine].listening() => {
                    Some(now.saturating_add(self.timing.doorbell_ns))
                }
                None => None,
            };
            next = match (next, due) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        next
    }

    /// Whether no engine does anything.
    pub fn idle(&self) -> bool {
        self.engines
            .iter()
            .all(|engine| engine.deadline().is_none())
    }

    /// Whether a channel that executed commands lately has new work: a cheap scan between two
    /// calls of [`Gpu::advance`] while the GPU is idle.
    pub fn has_recent_work<B: Bus>(&mut self, now: u64, bus: &mut B) -> bool {
        self.publish_time(now, bus);
        for slot in 0..RECENT {
            let Some(chid) = self.recent[slot].map(Chid) else {
                break;
            };
            let ready = self.channel(chid).is_some_and(Channel::schedulable);
            if ready && self.has_work(chid, bus) {
                return true;
            }
        }
        false
    }

    /// Remembers that a channel has a command.
    fn remember(&mut self, chid: Chid) {
        if self.timing.doorbell_ns != 0 && !self.recent.contains(&Some(chid.0)) {
            self.recent[self.recent_at] = Some(chid.0);
            self.recent_at = (self.recent_at + 1) % RECENT;
        }
    }

    /// Whether the channel's context or command is on an engine, or about to be.
    pub fn on_engine(&self, chid: Chid) -> bool {
        self.engines.iter().any(|engine| engine.involves(chid))
    }

    /// The context in which a channel executes.
    fn context(&self, chid: Chid) -> Option<Context> {
        let channel = self.channel(chid)?;
        Some(match channel.tsg {
            Some(tsg) => Context::Tsg(tsg),
            None => Context::Channel(chid.0),
        })
    }
}
