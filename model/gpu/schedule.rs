// SPDX-License-Identifier: GPL-2.0

//! Which command an engine executes next, and how it is found.

use super::channel::Status;
use super::engine::Activity;
use super::fetch::Fetched;
use super::{Bus, Channel, Chid, Context, Gpu, SNOOP_MARGIN_NS};
use core::ops::DerefMut;

/// A command at least this long, in ns, hides a scan of all channels of a full card.
pub(super) const HIDES_FULL_SCAN_NS: u64 = 100_000;
/// Scans of the recently active channels between two scans of all of them.
const SHORT_SCANS_MAX: u32 = 7;

impl<S: DerefMut<Target = [Channel]>> Gpu<S> {
    /// Chooses what an idle engine does next; true if there may be more to do at this time.
    ///
    /// A command that was found while the last one ran is started without a scan: a scan takes
    /// the host time, and the engine would be idle meanwhile. All channels are scanned only if
    /// `thorough`, for an engine that was idle before the call: a reader sees the registers
    /// change when the call ends, and the end of a command must not be delayed by a scan.
    pub(super) fn schedule<B: Bus>(
        &mut self,
        engine: usize,
        thorough: bool,
        now: u64,
        bus: &mut B,
    ) -> bool {
        self.engines[engine].listening = self.listens(engine);
        if self.leave(engine, now, bus) {
            return true;
        }
        if self.stored.sched_disabled(engine) {
            return false;
        }
        let mut more = false;
        if self.timing.doorbell_ns == 0 {
            let (chosen, more) = self.choose_rung(engine, now, bus);
            let Some(chid) = chosen else {
                return more;
            };
            let started = self.start(engine, chid, now, bus);
            self.publish_channel(chid, bus);
            return started || more;
        } else {
            if !self.knows_next(engine, now) {
                more = self.scan_recent(engine, bus);
            }
            if !self.found(engine) && thorough && self.scan(engine, bus) {
                more |= self.scan_all(engine, bus);
            }
            if !self.found(engine) {
                return more;
            }
        }
        let Some(chid) = self.choose(engine, now) else {
            return more;
        };
        let started = self.start(engine, chid, now, bus);
        self.publish_channel(chid, bus);
        self.scan_ahead(engine, bus);
        started || more
    }

    /// Scans for the next commands while one runs. During a short one mostly only the recently
    /// active channels are scanned, so that it does not end late.
    pub(super) fn scan_ahead<B: Bus>(&mut self, engine: usize, bus: &mut B) {
        let Activity::Run(end) = self.engines[engine].phase else {
            return;
        };
        if self.timing.doorbell_ns == 0 {
            return;
        }
        let length = end.saturating_sub(self.engines[engine].since);
        if length >= HIDES_FULL_SCAN_NS || self.short_scans >= SHORT_SCANS_MAX {
            self.short_scans = 0;
            self.scan_all(engine, bus);
        } else {
            self.short_scans += 1;
            self.scan_recent(engine, bus);
        }
    }

    /// Shows which of the recently active channels got work while the engine is busy until
    /// `deadline`; returns the time of the next scan, `deadline` at the latest. A channel with a
    /// rung doorbell has been shown already.
    pub(super) fn snoop<B: Bus>(
        &mut self,
        engine: usize,
        deadline: u64,
        now: u64,
        bus: &mut B,
    ) -> u64 {
        let interval = self.timing.snoop_ns;
        if interval == 0 || self.timing.doorbell_ns == 0 {
            return deadline;
        }
        if now >= self.engines[engine].snoop_at {
            for slot in 0..self.recent.len() {
                let Some(id) = self.recent[slot] else { break };
                self.show_if_pending(engine, Chid(id), bus);
            }
            self.engines[engine].snoop_at = now.saturating_add(interval);
        }
        let next = self.engines[engine].snoop_at;
        if next.saturating_add(SNOOP_MARGIN_NS) < deadline {
            next
        } else {
            deadline
        }
    }

    /// Shows a channel as pending if it was idle and has work now.
    fn show_if_pending<B: Bus>(&mut self, engine: usize, chid: Chid, bus: &mut B) {
        let is_idle = self
            .channel(chid)
            .is_some_and(|channel| channel.status == Status::Idle);
        if !is_idle || !self.serves(engine, chid) || !self.has_work(chid, bus) {
            return;
        }
        if let Some(channel) = self.channels.get_mut(usize::from(chid.0)) {
            channel.status = Status::Pending;
        }
        self.publish_channel(chid, bus);
    }

    /// Whether a recently active channel has a command waiting for the engine.
    fn found(&self, engine: usize) -> bool {
        self.waiting(engine).next().is_some()
    }

    /// Whether no unscanned command could be the next: within a timeslice a command of the
    /// resident context was found, after it one of another. A context with a known next command
    /// must not pass over a command submitted while it ran.
    fn knows_next(&self, engine: usize, now: u64) -> bool {
        let state = &self.engines[engine];
        let in_slice = now < state.slice_end;
        let resident = state.resident.map(|(context, _)| context);
        self.waiting(engine)
            .any(|chid| (self.context(chid) == resident) == in_slice)
    }

    /// Recently active channels that have a command for the engine.
    fn waiting(&self, engine: usize) -> impl Iterator<Item = Chid> + '_ {
        let recent = self.recent.iter().map_while(|slot| slot.map(Chid));
        recent.filter(move |chid| {
            self.serves(engine, *chid)
                && self
                    .channel(*chid)
                    .is_some_and(|channel| channel.fetch.launch.is_some())
        })
    }

    /// Scans the recently active channels; true if one has more than one scan can fetch.
    fn scan_recent<B: Bus>(&mut self, engine: usize, bus: &mut B) -> bool {
        let mut unfinished = false;
        for slot in 0..self.recent.len() {
            let Some(chid) = self.recent[slot].map(Chid) else {
                break;
            };
            if self.serves(engine, chid) {
                unfinished |= self.scan_channel(chid, engine, bus);
            }
        }
        unfinished
    }

    /// Whether an engine may execute the commands of a channel.
    fn serves(&self, engine: usize, chid: Chid) -> bool {
        self.channel(chid)
            .is_some_and(|channel| channel.schedulable() && usize::from(channel.runlist) == engine)
    }

    /// Scans every channel of the runlist; true if one has more than one scan can fetch.
    fn scan_all<B: Bus>(&mut self, engine: usize, bus: &mut B) -> bool {
        let mut unfinished = false;
        let mut at = self.runlists[engine].head;
        for _ in 0..self.runlists[engine].length {
            let Some(id) = at else { break };
            unfinished |= self.scan_channel(Chid(id), engine, bus);
            at = self.behind(id);
        }
        unfinished
    }

    /// Fetches the next command of a channel, unless it is the one that runs, and shows what was
    /// found; true if there is more to fetch before it.
    pub(super) fn scan_channel<B: Bus>(&mut self, chid: Chid, engine: usize, bus: &mut B) -> bool {
        let state = &self.engines[engine];
        let runs = matches!(state.phase, Activity::Run(_))
            && state.resident.is_some_and(|(_, running)| running == chid);
        if runs {
            return false;
        }
        let ready = self.channel(chid).is_some_and(Channel::schedulable);
        let fetched = if ready && self.has_work(chid, bus) {
            self.fetch(chid, engine, bus)
        } else {
            Fetched::Drained
        };
        self.show_fetched(chid, fetched, bus);
        if fetched == Fetched::Launch {
            self.remember(chid);
        }
        fetched == Fetched::More
    }

    /// Shows what a fetch found in a channel whose command does not run.
    pub(super) fn show_fetched<B: Bus>(&mut self, chid: Chid, fetched: Fetched, bus: &mut B) {
        if let Some(channel) = self.channels.get_mut(usize::from(chid.0)) {
            channel.status = match fetched {
                Fetched::Launch | Fetched::More => Status::Pending,
                Fetched::Blocked => Status::PendingAcquire,
                Fetched::Drained | Fetched::Fault => Status::Idle,
            };
        }
        self.publish_channel(chid, bus);
    }

    /// The channel of the next command: the resident context's while its timeslice lasts, else
    /// the next one round the ring.
    fn choose(&self, engine: usize, now: u64) -> Option<Chid> {
        let ready = |channel: &Channel| channel.schedulable() && channel.fetch.launch.is_some();
        let resident = self.engines[engine].resident.map(|(context, _)| context);
        let in_slice = now < self.engines[engine].slice_end;
        if let Some(Context::Channel(id)) = resident.filter(|_| in_slice) {
            // The context of one channel: it need not be searched for.
            if self.serves(engine, Chid(id)) && self.channel(Chid(id)).is_some_and(ready) {
                return Some(Chid(id));
            }
        }
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
            let Some((id, channel)) = at.and_then(|id| Some((id, self.channel(Chid(id))?))) else {
                break;
            };
            at = channel.listed.then_some(channel.link);
            if !ready(channel) {
                continue;
            }
            let same = self.context(Chid(id)) == resident;
            let place = if same { &mut own } else { &mut first_other };
            if place.is_none() {
                *place = Some(Chid(id));
                if same == in_slice {
                    return *place;
                }
            }
        }
        first_other.or(own)
    }
}
