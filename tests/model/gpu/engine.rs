// SPDX-License-Identifier: GPL-2.0

//! Engines: one command at a time, to its end, and the switch of contexts between commands.
//!
//! Kepler waits for the engine to drain before it switches (there is no
//! preemption inside a command), so a timeslice ends a run of commands, never a command.

use super::channel::Status;
use super::fetch::Fetched;
use super::regs;
use super::Bus;
use super::Channel;
use super::Chid;
use super::Context;
use super::Gpu;
use super::Interval;
use super::Kind;
use super::ENGINE_INDEX;
use super::GR;
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
    phase: Phase,
    /// When the interval now shown in the status word began.
    since: u64,
    /// Context in the engine, and the channel that last executed in it.
    resident: Option<(Context, Chid)>,
    /// Channel whose context comes next, during a switch.
    next: Option<(Context, Chid)>,
    /// When the resident context must give way if others wait.
    slice_end: u64,
    /// Context the driver wants off the engine.
    preempt: Option<Context>,
    /// Whether a channel of the runlist may get work, as last seen.
    listening: bool,
    /// Status word as last published.
    published: u32,
}

impl Engine {
    /// An idle engine without a context.
    pub(super) const fn new() -> Self {
        Self {
            phase: Phase::Idle,
            since: 0,
            resident: None,
            next: None,
            slice_end: 0,
            preempt: None,
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

    /// Whether the channel or its context is on the engine or about to be.
    pub(super) fn involves(&self, chid: Chid, context: Context) -> bool {
        [self.resident, self.next]
            .iter()
            .flatten()
            .any(|&(held, channel)| held == context || channel == chid)
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

    /// Whether the context switch microcontroller is loading the next context.
    pub(super) fn loading(&self) -> bool {
        matches!(self.phase, Phase::Switch(_) | Phase::Load(_))
    }

    /// The channel whose context the microcontroller points at.
    pub(super) fn pointed_at(&self) -> Option<Chid> {
        let context = if self.loading() {
            self.next
        } else {
            self.resident
        };
        context.map(|(_, chid)| chid)
    }

    /// Whether an idle engine must look for new work.
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
        match self.engines[engine].deadline() {
            Some(deadline) if deadline > now => return false,
            _ => {}
        }
        let third = self.timing.switch_ns / 3;
        match self.engines[engine].phase {
            Phase::Idle => {}
            Phase::Save(_) => {
                self.record(
                    engine,
                    self.engines[engine].resident,
                    Kind::Switch,
                    now,
                    bus,
                );
                self.engines[engine].resident_saved();
                if self.engines[engine].next.is_some() {
                    self.enter(engine, Phase::Switch(now.saturating_add(third)), now, bus);
                    return true;
                }
                self.enter(engine, Phase::Idle, now, bus);
            }
            Phase::Switch(_) => {
                // The interval goes on: the status word names the same channel while loading.
                let load = self.timing.switch_ns - 2 * third;
                self.engines[engine].phase = Phase::Load(now.saturating_add(load));
                self.publish_engine(engine, bus);
                return true;
            }
            Phase::Load(_) => {
                self.record(engine, self.engines[engine].next, Kind::Switch, now, bus);
                self.loaded(engine, now);
                self.enter(engine, Phase::Idle, now, bus);
            }
            Phase::Run(_) => {
                self.record(engine, self.engines[engine].resident, Kind::Run, now, bus);
                self.complete(engine, bus);
                self.enter(engine, Phase::Idle, now, bus);
            }
        }
        self.schedule(engine, now, bus)
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
            self.fetch(chid, engine, bus);
        }
        self.publish_channel(chid, bus);
    }

    /// Chooses what an idle engine does next; true if it started something.
    fn schedule<B: Bus>(&mut self, engine: usize, now: u64, bus: &mut B) -> bool {
        let (work, listening) = self.scan(engine, bus);
        self.engines[engine].listening = listening;
        let blocked = self.stored.sched_disabled(engine) || !work;
        if blocked && !self.engines[engine].preempting() {
            return false;
        }
        let (waiting, more) = if blocked {
            (false, false)
        } else {
            self.survey(engine, bus)
        };
        if self.leave(engine, now, bus) {
            return true;
        }
        if !waiting {
            self.publish_channels(engine, bus);
            return more;
        }
        let chosen = self.choose(engine, now);
        let started = match chosen {
            Some(chid) => self.start(engine, chid, now, bus),
            None => false,
        };
        self.publish_channels(engine, bus);
        started || more
    }

    /// Serves a preempt request once the engine is idle; true if the context is being saved.
    fn leave<B: Bus>(&mut self, engine: usize, now: u64, bus: &mut B) -> bool {
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
        self.enter(engine, Phase::Save(now.saturating_add(save)), now, bus);
        true
    }

    /// Looks at every channel of the runlist: (one has a command or may have, one is unfinished).
    fn survey<B: Bus>(&mut self, engine: usize, bus: &mut B) -> (bool, bool) {
        let (mut waiting, mut unfinished) = (false, false);
        let mut at = self.runlists[engine].head;
        for _ in 0..self.runlists[engine].length {
            let Some(id) = at else { break };
            let chid = Chid(id);
            let ready = self.channel(chid).is_some_and(Channel::schedulable);
            let mut status = Status::Idle;
            if ready && self.has_work(chid, bus) {
                status = match self.fetch(chid, engine, bus) {
                    Fetched::Launch => Status::Pending,
                    Fetched::Blocked => Status::PendingAcquire,
                    Fetched::More => {
                        unfinished = true;
                        Status::Pending
                    }
                    Fetched::Drained | Fetched::Fault => Status::Idle,
                };
                waiting |= status == Status::Pending;
            }
            if let Some(channel) = self.channels.get_mut(usize::from(id)) {
                channel.status = status;
            }
            at = self.behind(id);
        }
        (waiting, unfinished)
    }

    /// The channel whose command comes next: the resident context's while its timeslice lasts,
    /// else the next one round the ring.
    fn choose(&self, engine: usize, now: u64) -> Option<Chid> {
        let resident = self.engines[engine].resident;
        let in_slice = now < self.engines[engine].slice_end;
        let mut first_other = None;
        let mut own = None;
        let start = self.runlists[engine]
            .cursor
            .or(self.runlists[engine].head)?;
        let has_cursor = self.runlists[engine].cursor.is_some();
        let mut at = if has_cursor {
            self.behind(start)
        } else {
            Some(start)
        };
        for _ in 0..self.runlists[engine].length {
            let Some(id) = at else { break };
            let chid = Chid(id);
            let ready = self
                .channel(chid)
                .is_some_and(|channel| channel.schedulable() && channel.fetch.launch.is_some());
            if ready {
                let same = self.context(chid) == resident.map(|(context, _)| context);
                let place = if same { &mut own } else { &mut first_other };
                if place.is_none() {
                    *place = Some(chid);
                }
            }
            at = self.behind(id);
        }
        if in_slice {
            own.or(first_other)
        } else {
            first_other.or(own)
        }
    }

    /// Begins the command of a channel, or the switch to its context.
    fn start<B: Bus>(&mut self, engine: usize, chid: Chid, now: u64, bus: &mut B) -> bool {
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
                let phase = match resident {
                    Some(_) => Phase::Save(now.saturating_add(third)),
                    None => Phase::Load(now.saturating_add(self.timing.switch_ns - 2 * third)),
                };
                self.enter(engine, phase, now, bus);
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
        self.enter(engine, Phase::Run(now.saturating_add(duration)), now, bus);
        true
    }

    /// Changes the phase and shows it.
    fn enter<B: Bus>(&mut self, engine: usize, phase: Phase, now: u64, bus: &mut B) {
        self.engines[engine].phase = phase;
        self.engines[engine].since = now;
        self.publish_engine(engine, bus);
    }

    /// Closes the interval shown so far.
    fn record<B: Bus>(
        &mut self,
        engine: usize,
        context: Option<(Context, Chid)>,
        kind: Kind,
        now: u64,
        bus: &mut B,
    ) {
        if let Some((_, chid)) = context {
            let start = self.engines[engine].since;
            bus.record(Interval {
                start,
                end: now,
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

    /// Publishes the table entries of a runlist's channels that changed.
    pub(super) fn publish_channels<B: Bus>(&mut self, engine: usize, bus: &mut B) {
        let mut at = self.runlists[engine].head;
        for _ in 0..self.runlists[engine].length {
            let Some(id) = at else { break };
            self.publish_channel(Chid(id), bus);
            at = self.behind(id);
        }
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
