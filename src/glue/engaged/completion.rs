// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The completion thread of one GPU: takes the entries of windows away, reads rings and
//! channels, and tells the decider what it has read, which passes the turn on. It sleeps until
//! something is due, and for good while no submission is decided on.

use super::opening::Opening;
use super::scheduler::Engaged;
use super::state::State;
use crate::engaged::{Action, Doing, Leftovers, Reading, Running, LEFTOVERS};
use crate::glue::control::events;
use crate::glue::gpu::device::bar::MappedRange;
use crate::glue::gpu::device::Device;
use crate::glue::gpu::gates::gate::Gate;
use crate::glue::gpu::Gpu;
use crate::glue::kernel::ffi;
use crate::glue::kernel::thread::{self, WakeFlag, Work};
use crate::glue::trace;
use crate::ids::Chid;
use crate::regs::{self, ChannelState, Occupant, Ring, Work as ChannelWork};
use crate::units::Ns;
use kernel::sync::atomic::{Relaxed, Release};
use kernel::sync::Arc;

impl Engaged {
    /// Does what is due, and returns when something will be. Called by the completion thread.
    fn run_due(&self, gpu: &Gpu) -> Option<Ns> {
        // TIMEOUT: each pass ends a stage of the turn, or reads channels.
        loop {
            self.alive.store(ffi::now().get(), Relaxed);
            if gpu.device.is_blind() {
                self.suspend();
                return None;
            }
            let (action, opening) = self.ask(State::next_action);
            match action {
                Action::Stop => return None,
                Action::Again => {}
                Action::Sleep(until) => return until,
                Action::Resume(passed) => events::engaged(gpu.device.number(), passed),
                Action::RevokeAll => {
                    gpu.revoke_all();
                    self.note_undecided(gpu, |_| true);
                }
                Action::ReadProtected => self.read_protected(gpu),
                Action::ReadLeftovers => self.read_leftovers(gpu),
                Action::CheckRings => self.check_rings(gpu, &opening),
                Action::Close => self.close(gpu, opening),
                Action::Read => self.read(gpu),
            }
        }
    }

    /// Checks whether something was stored through a window.
    fn check_rings(&self, gpu: &Gpu, opening: &Opening) {
        let stored = opening.stored(|gate| self.read_puts(&gpu.device, gate), false);
        let stored = !stored.is_empty();
        self.tell(|state, now| state.decider.rings_checked(now, stored));
    }

    /// Takes the entries of a window away, and notes what was submitted through it.
    fn close(&self, gpu: &Gpu, opening: Opening) {
        let begin = ffi::now();
        let (work, leftovers) = {
            let state = self.state.lock();
            (state.decider.work(), *state.decider.leftovers())
        };
        let stuck = opening.gates().filter(|gate| !gate.revoke_in_time());
        let is_stuck = stuck.count() != 0;
        if is_stuck {
            gpu.wake();
        }
        // A thread that was making an entry has noted meanwhile where the rings were before.
        let noted = self.state.lock().take_closing();
        let opening = noted.unwrap_or(opening);
        let mut stored = opening.stored(|gate| self.read_puts(&gpu.device, gate), true);
        // GP_PUT may have come around the ring to where it was.
        let had_work =
            |chid| work.running.has(chid) || work.undecided.has(chid) || leftovers.has(chid);
        self.add_working(gpu, &opening, &mut stored, had_work);
        let took = self.ask(|state, now| {
            // Those of a client that has become protected meanwhile, see `protected_changed`.
            let passes = |gate: &&Arc<Gate>| gate.wait_queue().is_none();
            for gate in opening.gates().filter(passes) {
                stored.remove(|chid| gate.channels().any(|(_, of)| of == chid));
            }
            if is_stuck {
                // It stays open alone: what is stored through it is not decided on, and has no turn.
                stored = Running::NONE;
            }
            let outcome = state.decider.closed(now, &stored);
            (now.saturating_sub(begin), outcome)
        });
        if is_stuck || gpu.stuck.load(Relaxed) != 0 {
            self.note_undecided(gpu, Gate::stays_open);
        }
        gpu.took.lock().close.add(took);
    }

    /// Adds the channels of a window that have work, but those that had some before.
    fn add_working(
        &self,
        gpu: &Gpu,
        opening: &Opening,
        stored: &mut Running,
        had_work: impl Fn(Chid) -> bool,
    ) {
        let slots = self.slots.lock();
        if gpu.device.is_blind() {
            return;
        }
        for (_, chid) in opening.gates().flat_map(|gate| gate.channels()) {
            let has_work = || {
                // Without: of a disabled channel the indices tell.
                let on_engine = |state: ChannelState| state.work() != ChannelWork::None;
                // As in `doing_of`.
                is_queued(slots.as_ref(), chid)
                    || ChannelState::read(&gpu.device.bar0, chid).is_ok_and(on_engine)
            };
            if !had_work(chid) && has_work() {
                stored.add(chid);
            }
        }
    }

    /// Notes which channels of these pages have work that passed without a decision: lengths that are
    /// measured beside it are not those of submissions.
    fn note_undecided(&self, gpu: &Gpu, is_meant: fn(&Gate) -> bool) {
        let mut found = Running::NONE;
        // TIMEOUT: up to the last page.
        for at in 0.. {
            // Looked up one by one, so that no register is read with the books locked.
            let gate = match gpu.books.lock().pages.table().all().get(at) {
                Some(page) => page.gate().cloned(),
                None => break,
            };
            let Some(gate) = gate.filter(|gate| gate.wait_queue().is_some() && is_meant(gate))
            else {
                continue;
            };
            // Held while registers are read, see `suspend`.
            let _slots = self.slots.lock();
            let channels = gate.channels().map(|(_, chid)| chid);
            channels
                .filter(|chid| works(&gpu.device, *chid))
                .for_each(|chid| found.add(chid));
            if found.is_full() {
                break;
            }
        }
        self.tell(|state, now| state.decider.undecided(now, &found));
    }

    /// Reads whether the channels of the turn have work, and what is left of that which passed without
    /// a decision.
    fn read(&self, gpu: &Gpu) {
        let work = self.state.lock().decider.work();
        let busy = self.is_surely_busy(gpu, |_| true, || work.running.all().iter().copied());
        let Some(busy) = busy else {
            gpu.device.lost.store(1, Release);
            gpu.wake();
            return;
        };
        let mut reading = Reading {
            of: work,
            busy,
            rest: Running::NONE,
            unseen: false,
            undecided: work.undecided,
        };
        if !busy {
            self.read_resting(&gpu.device, &mut reading);
        }
        if !reading.busy {
            let _slots = self.slots.lock();
            reading.undecided = work.undecided.only(|chid| works(&gpu.device, chid));
        }
        let ended = self.ask(|state, now| state.decider.read(now, &reading));
        if let Some(ended) = ended {
            let gpu = gpu.device.number();
            // CAST: few wait queues.
            trace::submission_end(gpu, ended.at as u32, ended.count, ended.used.get());
            if let Some(bears) = ended.exceeded {
                // CAST: few wait queues.
                trace::submission_exceed(gpu, ended.at as u32, ended.used.get(), bears.get());
            }
            let misses = ended.misses.iter().flatten();
            misses.for_each(|miss| trace::reserve_miss(gpu, miss));
        }
    }

    /// Reads what goes on after its turn, and charges its clients what of it was on the engine.
    fn read_leftovers(&self, gpu: &Gpu) {
        let leftovers = *self.state.lock().decider.leftovers();
        let mut doing = [Doing::Rests; LEFTOVERS];
        let stray = self.stray(gpu, &leftovers);
        {
            let slots = self.slots.lock();
            if gpu.device.is_blind() {
                drop(slots);
                self.tell(|state, _| state.decider.forget_leftovers());
                return;
            }
            for ((_, chid), doing) in leftovers.channels().zip(doing.iter_mut()) {
                *doing = doing_of(&gpu.device, slots.as_ref(), chid);
            }
        }
        let found = leftovers.channels().zip(doing);
        self.tell(|state, now| state.decider.leftovers_read(now, found, stray));
    }

    /// If clients have left more than is noted: the wait queue of a channel that is on the engine and
    /// not noted.
    fn stray(&self, gpu: &Gpu, leftovers: &Leftovers) -> Option<usize> {
        if !leftovers.is_crowded() {
            return None;
        }
        let occupant = self.read_occupant(&gpu.device)?;
        // No channel is looked up while registers are read.
        let books = gpu.books.lock();
        let chid = match occupant {
            Occupant::Channel(chid) => chid,
            Occupant::Tsg { id, context } => books.pages.table().channel_of_tsg(id, context)?,
            Occupant::Idle | Occupant::Unknown => return None,
        };
        let page = books.pages.table().page_of_channel(chid)?;
        let wait_queue = page.gate()?.wait_queue()?;
        (!leftovers.has(chid)).then_some(wait_queue)
    }

    /// Who is on the compute engine.
    fn read_occupant(&self, device: &Device) -> Option<Occupant> {
        // Held while registers are read, see `suspend`.
        let _slots = self.slots.lock();
        if device.is_away() {
            return None;
        }
        regs::occupant(&device.bar0).ok()
    }

    /// Reads which channels of the turn have work that rests, and whether only its indices say so of one.
    /// One that is found to have work for the engine has taken it up since: the turn is busy.
    fn read_resting(&self, device: &Device, reading: &mut Reading) {
        let slots = self.slots.lock();
        let (mut busy, mut unseen) = (false, false);
        let rest = reading.of.running.only(|chid| {
            let doing = doing_of(device, slots.as_ref(), chid);
            busy |= matches!(doing, Doing::Waits | Doing::Runs);
            unseen |= doing == Doing::Queued;
            matches!(doing, Doing::Rests | Doing::Queued)
        });
        (reading.busy, reading.rest, reading.unseen) = (busy, rest, unseen);
    }

    /// Reads whether protected clients have work.
    fn read_protected(&self, gpu: &Gpu) {
        let (_, channels) = self.protected_channels();
        let busy = self.is_surely_busy(gpu, ChannelState::is_compute, || {
            channels.iter().flatten().copied()
        });
        let Some(busy) = busy else {
            gpu.device.lost.store(1, Release);
            gpu.wake();
            return;
        };
        self.tell(|state, now| state.decider.protected_read(now, busy));
    }

    /// As [`is_busy`](Self::is_busy). A channel that takes up its next command may show none for a
    /// moment: two reads have to agree on that.
    fn is_surely_busy<I: Iterator<Item = Chid>>(
        &self,
        gpu: &Gpu,
        counts: fn(ChannelState) -> bool,
        channels: impl Fn() -> I,
    ) -> Option<bool> {
        match self.is_busy(&gpu.device, counts, channels())? {
            true => Some(true),
            false => self.is_busy(&gpu.device, counts, channels()),
        }
    }

    /// Whether one of the channels that count has work for the engine, as the hardware tells; `None`
    /// if the device does not answer.
    fn is_busy(
        &self,
        device: &Device,
        counts: fn(ChannelState) -> bool,
        channels: impl Iterator<Item = Chid>,
    ) -> Option<bool> {
        let _slots = self.slots.lock();
        if device.is_away() {
            return Some(false);
        }
        for chid in channels {
            let state = ChannelState::read(&device.bar0, chid).ok()?;
            if counts(state) && is_for_engine(state) {
                return Some(true);
            }
        }
        Some(false)
    }
}

/// What a channel does that has no turn. The slots are locked.
fn doing_of(device: &Device, slots: Option<&MappedRange>, chid: Chid) -> Doing {
    let is_bound = || matches!(ChannelState::bound(&device.bar0, chid), Ok(Some(_)));
    if device.is_away() || !is_bound() {
        return Doing::Nothing;
    }
    // Before the state: what is fetched in between is seen there.
    let queued = is_queued(slots, chid);
    match ChannelState::read(&device.bar0, chid) {
        Ok(state) => Doing::of(state, queued),
        Err(_) => Doing::Nothing,
    }
}

/// Whether the indices in the slot of a channel differ: its client may write both. The slots are
/// locked.
fn is_queued(slots: Option<&MappedRange>, chid: Chid) -> bool {
    let ring = slots.and_then(|slots| Ring::read(slots, chid));
    ring.is_some_and(|ring| ring.put != ring.get)
}

/// Whether a channel in this state has work for its engine.
fn is_for_engine(state: ChannelState) -> bool {
    matches!(state.work(), ChannelWork::Waits | ChannelWork::Runs)
}

/// Whether a channel is on the compute engine or waits for it. The slots are locked.
fn works(device: &Device, chid: Chid) -> bool {
    if device.is_away() {
        return false;
    }
    let Ok(state) = ChannelState::read(&device.bar0, chid) else {
        return false;
    };
    is_for_engine(state) && state.is_compute()
}

/// The completion thread's work.
pub(crate) struct CompletionThread(pub(crate) Arc<Gpu>);

impl Work for CompletionThread {
    fn run(self: Arc<Self>, flag: &WakeFlag) {
        while !thread::should_stop() {
            let next = self.0.engaged.run_due(&self.0);
            flag.wait_until(next.map_or(u64::MAX, Ns::get));
        }
    }
}
