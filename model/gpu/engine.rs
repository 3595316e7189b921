// SPDX-License-Identifier: GPL-2.0

//! Engines: one command at a time, to its end, and the switch of contexts between commands.
//!
//! Kepler waits for the engine to drain before it switches (there is no
//! preemption inside a command), so a timeslice ends a run of commands, never a command.

use super::{regs, Chid, Context, Kind};

/// What an engine does, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// Nothing.
    Idle,
    /// Saves the resident context.
    Save(u64),
    /// Between saving the old context and loading the next.
    Switch(u64),
    /// Loads the next context.
    Load(u64),
    /// Executes a command.
    Run(u64),
}

/// One engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Engine {
    pub(super) phase: Activity,
    /// What the status word shows, for the record: the channel, and run or switch.
    pub(super) shown: Option<(Chid, Kind)>,
    /// When it began to show that.
    pub(super) since: u64,
    /// Context in the engine, and the channel that last executed in it.
    pub(super) resident: Option<(Context, Chid)>,
    /// Channel of the next context, during a switch.
    pub(super) next: Option<(Context, Chid)>,
    /// When the resident context must give way if others wait.
    pub(super) slice_end: u64,
    /// Context the driver wants off the engine.
    pub(super) preempt: Option<Context>,
    /// Next scan for channels that got work while it is busy.
    pub(super) snoop_at: u64,
    /// Whether a channel of the runlist may get work, as last seen.
    pub(super) listening: bool,
    /// Status word as last published.
    pub(super) published: u32,
}

impl Engine {
    /// An idle engine without a context.
    pub(super) const fn new() -> Self {
        Self {
            phase: Activity::Idle,
            shown: None,
            since: 0,
            resident: None,
            next: None,
            slice_end: 0,
            preempt: None,
            snoop_at: 0,
            listening: false,
            published: 0,
        }
    }

    /// When the current phase ends; `None` when idle.
    pub(super) fn deadline(&self) -> Option<u64> {
        match self.phase {
            Activity::Idle => None,
            Activity::Save(at) | Activity::Switch(at) | Activity::Load(at) | Activity::Run(at) => {
                Some(at)
            }
        }
    }

    /// Whether the channel is on the engine or about to be; of a TSG, one channel is.
    pub(super) fn involves(&self, chid: Chid) -> bool {
        let held = [self.resident, self.next];
        held.iter().flatten().any(|&(_, channel)| channel == chid)
    }

    /// ENGINE_STATUS of the current state.
    pub(super) fn status_word(&self) -> u32 {
        let id = |context: Option<(Context, Chid)>| match context {
            Some((Context::Channel(id), _)) => u32::from(id) & 0xfff,
            Some((Context::Tsg(id), _)) => (u32::from(id) & 0xfff) | regs::STATUS_ID_TSG,
            None => 0,
        };
        let next = id(self.next) << regs::STATUS_NEXT_SHIFT;
        match self.phase {
            Activity::Idle if self.resident.is_none() => 0,
            Activity::Idle => regs::STATUS_CTX_VALID | id(self.resident),
            Activity::Save(_) => regs::STATUS_BUSY | regs::STATUS_CTX_SAVE | id(self.resident),
            Activity::Switch(_) => {
                regs::STATUS_BUSY | regs::STATUS_CTX_SWITCH | id(self.resident) | next
            }
            Activity::Load(_) => {
                regs::STATUS_BUSY | regs::STATUS_CTX_LOAD | id(self.resident) | next
            }
            Activity::Run(_) => regs::STATUS_BUSY | regs::STATUS_CTX_VALID | id(self.resident),
        }
    }

    /// The channel that the status word charges, and for what.
    pub(super) fn shows(&self) -> Option<(Chid, Kind)> {
        let (context, kind) = match self.phase {
            Activity::Idle => return None,
            Activity::Save(_) => (self.resident, Kind::Switch),
            Activity::Switch(_) | Activity::Load(_) => (self.next, Kind::Switch),
            Activity::Run(_) => (self.resident, Kind::Run),
        };
        context.map(|(_, chid)| (chid, kind))
    }

    /// Whether the context switch microcontroller is loading the next context.
    pub(super) fn loading(&self) -> bool {
        matches!(self.phase, Activity::Switch(_) | Activity::Load(_))
    }

    /// The channel of the context that the microcontroller points at.
    pub(super) fn pointed_at(&self) -> Option<Chid> {
        let context = if self.loading() {
            self.next
        } else {
            self.resident
        };
        context.map(|(_, chid)| chid)
    }

    /// Whether an idle engine must scan for new work.
    pub(super) fn listening(&self) -> bool {
        self.listening
    }

    /// Whether a preempt request is not yet done.
    pub(super) fn preempting(&self) -> bool {
        self.preempt.is_some()
    }
}

impl Engine {
    /// The context has been saved; a preempt request for it is done.
    pub(super) fn resident_saved(&mut self) {
        let saved = self.resident.map(|(context, _)| context);
        if self.preempt == saved {
            self.preempt = None;
        }
        if self.next.is_none() {
            self.resident = None;
        }
    }
}
