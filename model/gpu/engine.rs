// SPDX-License-Identifier: GPL-2.0

//! Engines: one command at a time, to its end, and the switch of contexts between commands.
//!
//! Kepler waits for the engine to drain before it switches (there is no
//! preemption inside a command), so a timeslice ends a run of commands, never a command.

use super::channel::Status;
use super::fetch::Fetched;
use super::{regs, Bus, Channel, Chid, Context, Gpu, Interval, Kind, ENGINE_INDEX, GR};
use core::ops::DerefMut;

/// What an engine does, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
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
    pub(super) phase: Phase,
    /// What the status word shows, for the record: the channel, and run or switch.
    shown: Option<(Chid, Kind)>,
    /// When it began to show that.
    pub(super) since: u64,
    /// Context in the engine, and the channel that last executed in it.
    pub(super) resident: Option<(Context, Chid)>,
    /// Channel of the next context, during a switch.
    next: Option<(Context, Chid)>,
    /// When the resident context must give way if others wait.
    pub(super) slice_end: u64,
    /// Context the driver wants off the engine.
    preempt: Option<Context>,
    /// Next scan for channels that got work while it is busy.
    pub(super) snoop_at: u64,
    /// Whether a channel of the runlist may get work, as last seen.
    pub(super) listening: bool,
    /// Status word as last published.
    published: u32,
}

impl Engine {
    /// An idle engine without a context.
    pub(super) const fn new() -> Self {
        Self {
            phase: Phase::Idle,
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
            Phase::Idle => None,
            Phase::Save(at) | Phase::Switch(at) | Phase::Load(at) | Phase::Run(at) => Some(at),
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
            Phase::Idle if self.resident.is_none() => 0,
            Phase::Idle => regs::STATUS_CTX_VALID | id(self.resident),
            Phase::Save(_) => regs::STATUS_BUSY | regs::STATUS_CTX_SAVE | id(self.resident),
            Phase::Switch(_) => {
                regs::STATUS_BUSY | regs::STATUS_CTX_SWITCH | id(self.resident) | next
            }
            Phase::Load(_) => regs::STATUS_BUSY | regs::STATUS_CTX_LOAD | id(self.resident) | next,
            Phase::Run(_) => regs::STATUS_BUSY | regs::STATUS_CTX_VALID | id(self.resident),
        }
    }

    /// The channel that the status word charges, and for what.
    fn shows(&self) -> Option<(Chid, Kind)> {
        let (context, kind) = match self.phase {
            Phase::Idle => return None,
            Phase::Save(_) => (self.resident, Kind::Switch),
            Phase::Switch(_) | Phase::Load(_) => (self.next, Kind::Switch),
            Phase::Run(_) => (self.resident, Kind::Run),
        };
        context.map(|(_, chid)| (chid, kind))
    }

    /// Whether the context switch microcontroller is loading the next context.
    pub(super) fn loading(&self) -> bool {
        matches!(self.phase, Phase::Switch(_) | Phase::Load(_))
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

impl<S: DerefMut<Target = [Channel]>> Gpu<S> {
    /// Does the next due transition of an engine; true if there may be more at this time.
    pub(super) fn step<B: Bus>(&mut self, engine: usize, now: u64, bus: &mut B) -> bool {
        let deadline = self.engines[engine].deadline();
        if deadline.is_some_and(|deadline| deadline > now) {
            return false;
        }
        // The parts of a switch follow one another as planned, however late each call is: the
        // lateness of three calls would double the cost of a switch.
        let planned = deadline.unwrap_or(now);
        let third = self.timing.switch_ns / 3;
        match self.engines[engine].phase {
            Phase::Idle => {}
            Phase::Save(_) => {
                self.engines[engine].resident_saved();
                if self.engines[engine].next.is_some() {
                    let end = planned.saturating_add(third);
                    let left = end.saturating_sub(bus.clock(now));
                    self.enter(engine, Phase::Switch, left, now, bus);
                    return true;
                }
                self.enter(engine, |_| Phase::Idle, 0, now, bus);
            }
            Phase::Switch(_) => {
                // The interval goes on: the status word names the same channel while loading.
                let load = self.timing.switch_ns - 2 * third;
                self.engines[engine].phase = Phase::Load(planned.saturating_add(load));
                self.publish_engine(engine, bus);
                return true;
            }
            Phase::Load(_) => {
                self.loaded(engine, now);
                if self.go_on(engine, now, bus) {
                    return true;
                }
                self.enter(engine, |_| Phase::Idle, 0, now, bus);
            }
            Phase::Run(_) => {
                // Shown before its effects, which take the host some time.
                self.enter(engine, |_| Phase::Idle, 0, now, bus);
                self.complete(engine, bus);
            }
        }
        self.schedule(engine, deadline.is_none(), now, bus)
    }

    /// Ends the timeslice of an engine, as a new runlist does.
    pub(super) fn end_slice(&mut self, engine: usize) {
        self.engines[engine].slice_end = 0;
    }

    /// Asks for a context to leave the engines; done at once where it is on none.
    pub(super) fn preempt(&mut self, context: Context) {
        for engine in &mut self.engines {
            let held = [engine.resident, engine.next];
            if held.iter().flatten().any(|&(on, _)| on == context) {
                engine.preempt = Some(context);
            }
        }
    }

    /// The context that was loaded becomes the resident one.
    fn loaded(&mut self, engine: usize, now: u64) {
        let slice_end = now.saturating_add(self.timing.timeslice_ns);
        let engine = &mut self.engines[engine];
        engine.resident = engine.next.take();
        engine.slice_end = slice_end;
    }

    /// Begins the command for which a context was loaded, if it is still wanted; true if so. The
    /// engine is busy all along.
    fn go_on<B: Bus>(&mut self, engine: usize, now: u64, bus: &mut B) -> bool {
        let Some((_, chid)) = self.engines[engine].resident else {
            return false;
        };
        let wanted = self
            .channel(chid)
            .is_some_and(|channel| channel.schedulable() && channel.fetch.launch.is_some());
        if !wanted || self.stored.sched_disabled(engine) || self.engines[engine].preempting() {
            return false;
        }
        let started = self.start(engine, chid, now, bus);
        self.publish_channel(chid, bus);
        self.scan_ahead(engine, bus);
        started
    }

    /// The command ends: what follows it in its channel is executed up to the next command.
    fn complete<B: Bus>(&mut self, engine: usize, bus: &mut B) {
        let Some((_, chid)) = self.engines[engine].resident else {
            return;
        };
        let Some(channel) = self.channels.get_mut(usize::from(chid.0)) else {
            return;
        };
        channel.fetch.launch = None;
        channel.status = Status::Idle;
        if channel.schedulable() {
            let fetched = self.fetch(chid, engine, bus);
            if self.timing.doorbell_ns == 0 && fetched != Fetched::Drained {
                self.ring_doorbell(chid, bus);
            }
        }
        self.publish_channel(chid, bus);
    }

    /// Serves a preempt request once the engine is idle; true if the context is being saved.
    pub(super) fn leave<B: Bus>(&mut self, engine: usize, now: u64, bus: &mut B) -> bool {
        let Some(context) = self.engines[engine].preempt.take() else {
            return false;
        };
        if self.engines[engine].resident.map(|(held, _)| held) != Some(context) {
            return false;
        }
        if self.timing.switch_ns == 0 {
            self.engines[engine].resident = None;
            self.publish_engine(engine, bus);
            return true;
        }
        // The request stays visible until the context is saved.
        self.engines[engine].preempt = Some(context);
        let save = self.timing.switch_ns / 3;
        self.enter(engine, Phase::Save, save, now, bus);
        true
    }

    /// Begins the command of a channel, or the switch to its context.
    pub(super) fn start<B: Bus>(
        &mut self,
        engine: usize,
        chid: Chid,
        now: u64,
        bus: &mut B,
    ) -> bool {
        let (Some(context), Some(channel)) = (self.context(chid), self.channel(chid)) else {
            return false;
        };
        let Some(duration) = channel.fetch.launch else {
            return false;
        };
        self.remember(chid);
        self.runlists[engine].cursor = Some(chid.0);
        let resident = self.engines[engine].resident.map(|(held, _)| held);
        if resident != Some(context) {
            self.engines[engine].next = Some((context, chid));
            if self.timing.switch_ns != 0 {
                let third = self.timing.switch_ns / 3;
                match resident {
                    Some(_) => self.enter(engine, Phase::Save, third, now, bus),
                    None => {
                        let load = self.timing.switch_ns - 2 * third;
                        self.enter(engine, Phase::Load, load, now, bus);
                    }
                }
                return true;
            }
            self.loaded(engine, now);
        }
        if now >= self.engines[engine].slice_end {
            self.engines[engine].slice_end = now.saturating_add(self.timing.timeslice_ns);
        }
        self.engines[engine].resident = Some((context, chid));
        if let Some(channel) = self.channels.get_mut(usize::from(chid.0)) {
            channel.status = Status::OnPbdmaAndEngine;
        }
        self.enter(engine, Phase::Run, duration, now, bus);
        true
    }

    /// Changes what an engine does for `length` from now on, shows it, and records what it
    /// showed before.
    ///
    /// The interval ends, and the next begins, when the registers have changed: that may be
    /// some time after the call began, and a reader of the registers must agree with the record.
    fn enter<B: Bus>(
        &mut self,
        engine: usize,
        phase: fn(u64) -> Phase,
        length: u64,
        now: u64,
        bus: &mut B,
    ) {
        self.engines[engine].phase = phase(now);
        self.publish_engine(engine, bus);
        let end = bus.clock(now);
        let state = &mut self.engines[engine];
        state.phase = phase(end.saturating_add(length));
        let start = core::mem::replace(&mut state.since, end);
        let shows = state.shows();
        if let Some((chid, kind)) = core::mem::replace(&mut state.shown, shows) {
            bus.record(Interval {
                start,
                end,
                engine,
                chid,
                kind,
            });
        }
    }

    /// Publishes the words that depend on an engine's state, if they changed.
    pub(super) fn publish_engine<B: Bus>(&mut self, engine: usize, bus: &mut B) {
        let word = self.engines[engine].status_word();
        if engine == GR {
            self.publish_fecs(bus);
        }
        if self.engines[engine].published == word {
            return;
        }
        self.engines[engine].published = word;
        let index = u32::from(ENGINE_INDEX[engine]);
        bus.publish(regs::ENGINE_STATUS + 8 * index, word);
        // CAST: an index below ENGINES.
        bus.publish(regs::PBDMA_STATUS + 4 * (engine as u32), word);
    }
}

impl Engine {
    /// The context has been saved; a preempt request for it is done.
    fn resident_saved(&mut self) {
        let saved = self.resident.map(|(context, _)| context);
        if self.preempt == saved {
            self.preempt = None;
        }
        if self.next.is_none() {
            self.resident = None;
        }
    }
}
