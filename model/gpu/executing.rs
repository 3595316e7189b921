// SPDX-License-Identifier: GPL-2.0

//! What the engines do: the transitions of the commands and switches of `engine`.

use super::channel::Status;
use super::engine::Activity;
use super::fetch::Fetched;
use super::{regs, Bus, Channel, Chid, Context, Gpu, Interval, ENGINE_INDEX, GR};
use core::ops::DerefMut;

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
            Activity::Idle => {}
            Activity::Save(_) => {
                self.engines[engine].resident_saved();
                if self.engines[engine].next.is_some() {
                    let end = planned.saturating_add(third);
                    let left = end.saturating_sub(bus.clock(now));
                    self.enter(engine, Activity::Switch, left, now, bus);
                    return true;
                }
                self.enter(engine, |_| Activity::Idle, 0, now, bus);
            }
            Activity::Switch(_) => {
                // The interval goes on: the status word names the same channel while loading.
                let load = self.timing.switch_ns - 2 * third;
                self.engines[engine].phase = Activity::Load(planned.saturating_add(load));
                self.publish_engine(engine, bus);
                return true;
            }
            Activity::Load(_) => {
                self.loaded(engine, now);
                if self.go_on(engine, now, bus) {
                    return true;
                }
                self.enter(engine, |_| Activity::Idle, 0, now, bus);
            }
            Activity::Run(_) => {
                // Shown before its effects, which take the host some time.
                self.enter(engine, |_| Activity::Idle, 0, now, bus);
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
        let fetched = if channel.schedulable() {
            self.fetch(chid, engine, bus)
        } else {
            Fetched::Drained
        };
        self.show_fetched(chid, fetched, bus);
        if self.timing.doorbell_ns == 0 && fetched != Fetched::Drained {
            self.ring_doorbell(chid, bus);
        }
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
        self.enter(engine, Activity::Save, save, now, bus);
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
                    Some(_) => self.enter(engine, Activity::Save, third, now, bus),
                    None => {
                        let load = self.timing.switch_ns - 2 * third;
                        self.enter(engine, Activity::Load, load, now, bus);
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
        self.enter(engine, Activity::Run, duration, now, bus);
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
        phase: fn(u64) -> Activity,
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
