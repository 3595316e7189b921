// SPDX-License-Identifier: GPL-2.0

//! [glue] The watcher of one GPU: ends the windows through which clients store, sees when their
//! commands have ended, and passes the turn on. It sleeps until something is due, and for good
//! while no submission is decided on.

use super::opening::{Opening, Running};
use super::scheduler::{Engaged, HEARTBEAT, MAX_PROTECTED};
use crate::engaged::{Doing, Due, Left, Leftovers, LEFTOVERS, MAX_GRANT};
use crate::glue::gpu::bar::Window;
use crate::glue::gpu::device::Device;
use crate::glue::gpu::gate::Gate;
use crate::glue::gpu::Gpu;
use crate::glue::kernel::ffi;
use crate::glue::kernel::store_queue::Whom;
use crate::glue::kernel::thread::{self, WakeFlag, Work};
use crate::glue::trace;
use crate::ids::Chid;
use crate::regs::{ChannelState, Ring, Work as ChannelWork};
use crate::track::pages::SLOTS;
use crate::units::Ns;
use kernel::sync::atomic::{Relaxed, Release};
use kernel::sync::Arc;

impl Engaged {
    /// Does what is due, and returns when something will be. Called by the watcher.
    fn tend(&self, gpu: &Gpu) -> Option<Ns> {
        // TIMEOUT: each pass ends a stage of the turn, or reads channels.
        loop {
            self.alive.store(ffi::now().get(), Relaxed);
            self.wake();
            if gpu.device.is_blind() {
                self.suspend();
                return None;
            }
            let leaked = {
                let mut state = self.state.lock();
                let open = state.turns.as_ref().is_none_or(|turns| turns.is_open());
                !open && core::mem::take(&mut state.leaked)
            };
            if leaked {
                gpu.revoke_all();
                self.note_undecided(gpu);
            }
            let mut locked = self.state.lock();
            let state = &mut *locked;
            let now = ffi::now();
            if state.turns.is_none() {
                state.asleep = None;
                return None;
            }
            if state.protected.next().is_some_and(|at| at <= now) {
                drop(locked);
                self.look_at_protected(gpu);
                continue;
            }
            if state.leftovers.next().is_some_and(|at| at <= now) {
                let leftovers = state.leftovers;
                drop(locked);
                self.read_leftovers(gpu, &leftovers);
                continue;
            }
            if state.timer.is_some_and(|at| at <= now) {
                let step = state.turns(now).map(|turns| turns.timer(now));
                let step = step.unwrap_or_default();
                if step.opened {
                    state.leaked = true;
                }
                state.carry_out(now, step);
                continue;
            }
            match state.watch.due(now) {
                None => {
                    state.arrive_for_sleepers(now);
                    if !state.wakes.is_empty() {
                        continue;
                    }
                    state.watch.expect(now);
                    let waits = state.sleepers.iter().any(|sleepers| *sleepers != 0);
                    let beat = waits.then(|| now.saturating_add(HEARTBEAT));
                    state.asleep = [state.next(), beat].into_iter().flatten().min();
                    return state.asleep;
                }
                Some(Due::Return) => {
                    let at = state.watch.take_back();
                    if let (Some(at), Some(turns)) = (at, state.turns(now)) {
                        let step = turns.returned(now, at);
                        state.carry_out(now, step);
                    }
                }
                Some(Due::Look) => {
                    // A copy: the fault path goes on meanwhile.
                    let opening = state.opening.clone();
                    drop(locked);
                    self.look(gpu, &opening);
                }
                Some(Due::Close) => {
                    state.watch.begin_close();
                    let opening = core::mem::take(&mut state.opening);
                    drop(locked);
                    self.close(gpu, &opening);
                }
                Some(Due::Read) => {
                    let (running, undecided) = (state.running, state.undecided);
                    drop(locked);
                    self.read(gpu, &running, &undecided);
                }
            }
        }
    }

    /// Wakes the threads of which decisions say so, without the lock.
    pub(super) fn wake(&self) {
        let wakes = core::mem::take(&mut self.state.lock().wakes);
        for (places, whom) in [(wakes.one, Whom::One), (wakes.all, Whom::All)] {
            for place in places.iter().filter_map(|at| self.places.get(at)) {
                place.unblock(whom);
            }
        }
    }

    /// Whether the threads of a client have to wait, whatever its page: the caller has to
    /// [`wait`](Self::wait) then. Called by the fault handler, without the gate's lock.
    pub(crate) fn queue(&self, at: usize) -> bool {
        self.state.lock().queue(&self.places, at)
    }

    /// Looks whether something was stored through a window.
    fn look(&self, gpu: &Gpu, opening: &Opening) {
        let stored = opening.stored(|gate| self.read_puts(&gpu.device, gate), false);
        let mut state = self.state.lock();
        state.watch.look(ffi::now(), !stored.is_empty());
    }

    /// Takes the entries of a window away, and notes what was submitted through it.
    fn close(&self, gpu: &Gpu, opening: &Opening) {
        let begin = ffi::now();
        let (running, undecided, leftovers) = {
            let state = self.state.lock();
            (state.running, state.undecided, state.leftovers)
        };
        opening.gates().for_each(|gate| gate.revoke());
        let mut stored = opening.stored(|gate| self.read_puts(&gpu.device, gate), true);
        // GP_PUT may have come around the ring to where it was.
        let had_work = |chid| {
            let known = running.all().iter().chain(undecided.all()).copied();
            let mut all = known.chain(leftovers.channels().map(|(_, chid)| chid));
            all.any(|known| known == chid)
        };
        self.add_working(gpu, opening, &mut stored, had_work);
        let mut locked = self.state.lock();
        let state = &mut *locked;
        let now = ffi::now();
        // Those of a client that has become protected meanwhile, see `protected_changed`.
        let passes = |gate: &&Arc<Gate>| gate.place().is_none();
        let protected = opening.gates().filter(passes);
        protected.for_each(|gate| stored.remove(gate));
        stored
            .all()
            .iter()
            .for_each(|chid| state.running.add(*chid));
        let goes_on = |chid, _| stored.all().contains(&chid);
        state.leftovers.remove(goes_on);
        if let Some(at) = state.watch.close(now, !stored.is_empty()) {
            if let (true, Some(turns)) = (stored.is_empty(), state.turns(now)) {
                let step = turns.returned(now, at);
                state.carry_out(now, step);
            }
        }
        drop(locked);
        gpu.took.lock().close.add(now.saturating_sub(begin));
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
            if !had_work(chid) && doing_of(&gpu.device, slots.as_ref(), chid) != Doing::Nothing {
                stored.add(chid);
            }
        }
    }

    /// Notes which channels have work that passed without a decision: lengths that are measured
    /// beside it are not those of submissions.
    fn note_undecided(&self, gpu: &Gpu) {
        let mut found = Running::NONE;
        // TIMEOUT: up to the last page.
        for at in 0.. {
            // Looked up one by one, so that no register is read with the books locked.
            let gate = match gpu.books.lock().pages.all().get(at) {
                Some(page) => page.gate().cloned(),
                None => break,
            };
            let Some(gate) = gate.filter(|gate| gate.place().is_some()) else {
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
        let mut state = self.state.lock();
        state.undecided = found.only(|chid| !state.running.all().contains(&chid));
        // TIMEOUT: a command without end.
        state.undecided_until = ffi::now().saturating_add(MAX_GRANT);
    }

    /// Reads whether the channels have work, and passes the turn on if they have not. `undecided`:
    /// channels that had work that passed without a decision when the turn began.
    fn read(&self, gpu: &Gpu, running: &Running, undecided: &Running) {
        let busy = self.is_surely_busy(gpu, |_| true, || running.all().iter().copied());
        let rest = match busy {
            Some(false) => self.resting(&gpu.device, running),
            _ => Running::NONE,
        };
        let left = match busy {
            Some(false) => {
                let _slots = self.slots.lock();
                undecided.only(|chid| works(&gpu.device, chid))
            }
            _ => *undecided,
        };
        let mut locked = self.state.lock();
        let state = &mut *locked;
        let now = ffi::now();
        let Some(busy) = busy else {
            drop(locked);
            gpu.device.lost.store(1, Release);
            gpu.wake();
            return;
        };
        let late = now >= state.undecided_until;
        state.undecided = if late { Running::NONE } else { left };
        let of_turn = match (busy, rest.is_empty()) {
            (true, _) => Left::Work,
            (false, false) => Left::Rest,
            (false, true) => Left::Nothing,
        };
        let Some(ended) = state.watch.read(now, of_turn) else {
            return;
        };
        state.running = Running::NONE;
        let Some(at) = state.turns.as_ref().and_then(|turns| turns.holder()) else {
            return;
        };
        state.leave_over(now, at, &rest);
        let used = ended.each.saturating_mul(ended.count.into());
        // CAST: few places.
        trace::turn_end(gpu.device.number(), at as u32, ended.count, used.get());
        for _ in 0..ended.count {
            if let Some(turns) = state.turns(now) {
                let step = match undecided.is_empty() && !ended.beside {
                    true => turns.completed(now, at, ended.each),
                    false => turns.completed_beside_others(now, at, ended.each),
                };
                state.carry_out(now, step);
                if let Some(miss) = step.miss {
                    trace::reserve_miss(gpu.device.number(), &miss);
                }
            }
        }
    }

    /// Reads what goes on after its turn, and charges its clients what of it was on the engine.
    fn read_leftovers(&self, gpu: &Gpu, leftovers: &Leftovers) {
        let mut doing = [Doing::Rests; LEFTOVERS];
        {
            let slots = self.slots.lock();
            if gpu.device.is_blind() {
                drop(slots);
                self.state.lock().leftovers = Leftovers::default();
                return;
            }
            for ((_, chid), doing) in leftovers.channels().zip(doing.iter_mut()) {
                *doing = doing_of(&gpu.device, slots.as_ref(), chid);
            }
        }
        let mut found = leftovers.channels().zip(doing).peekable();
        let mut locked = self.state.lock();
        let state = &mut *locked;
        let now = ffi::now();
        let ran = state.leftovers.note(now, |position, chid| {
            // Others have only removed some since.
            while found.next_if(|((at, _), _)| *at < position).is_some() {}
            match found.peek() {
                Some((at, doing)) if *at == (position, chid) => *doing,
                _ => Doing::Rests,
            }
        });
        if let (Some((at, ran)), Some(turns)) = (ran, state.turns.as_mut()) {
            if turns.ran_beside(now, at, ran) {
                state.watch.beside(now, ran);
            }
        }
    }

    /// Those of the channels that have work that rests.
    fn resting(&self, device: &Device, running: &Running) -> Running {
        let slots = self.slots.lock();
        running.only(|chid| doing_of(device, slots.as_ref(), chid) == Doing::Rests)
    }

    /// Looks whether protected clients have work.
    fn look_at_protected(&self, gpu: &Gpu) {
        let mut channels = [None; MAX_PROTECTED * SLOTS];
        {
            let pages = self.protected_pages.lock();
            let all = pages.iter().flat_map(|gate| gate.channels());
            for (place, (_, chid)) in channels.iter_mut().zip(all) {
                *place = Some(chid);
            }
        }
        let busy = self.is_surely_busy(gpu, ChannelState::is_compute, || {
            channels.iter().flatten().copied()
        });
        let mut locked = self.state.lock();
        let state = &mut *locked;
        let Some(busy) = busy else {
            drop(locked);
            gpu.device.lost.store(1, Release);
            gpu.wake();
            return;
        };
        let now = ffi::now();
        let Some(turns) = state.turns.as_mut() else {
            return;
        };
        let step = turns.protected(now, busy);
        let watched = turns.watches_protected(now, busy);
        state.protected.note(now, busy, watched);
        state.carry_out(now, step);
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

    /// Whether one of the channels that count has commands to fetch or to end; `None` if the device
    /// does not answer. A channel that waits for a semaphore has none: what it waits for may wait for
    /// its turn.
    fn is_busy(
        &self,
        device: &Device,
        counts: fn(ChannelState) -> bool,
        channels: impl Iterator<Item = Chid>,
    ) -> Option<bool> {
        let slots = self.slots.lock();
        if device.is_away() {
            return Some(false);
        }
        for chid in channels {
            let state = ChannelState::read(&device.bar0, chid).ok()?;
            if !counts(state) {
                continue;
            }
            let queued = || {
                let ring = slots.as_ref().and_then(|slots| Ring::read(slots, chid));
                ring.is_some_and(|ring| ring.put != ring.get) && state.is_schedulable()
            };
            let busy = match state.work() {
                ChannelWork::Waits | ChannelWork::Runs => true,
                ChannelWork::Acquires => false,
                ChannelWork::None => queued(),
            };
            if busy {
                return Some(true);
            }
        }
        Some(false)
    }
}

/// What a channel does that has no turn. The slots are locked.
fn doing_of(device: &Device, slots: Option<&Window>, chid: Chid) -> Doing {
    let is_bound = || matches!(ChannelState::bound(&device.bar0, chid), Ok(Some(_)));
    if device.is_away() || !is_bound() {
        return Doing::Nothing;
    }
    let Ok(state) = ChannelState::read(&device.bar0, chid) else {
        return Doing::Nothing;
    };
    match state.work() {
        ChannelWork::Runs => Doing::Runs,
        ChannelWork::Waits => Doing::Waits,
        ChannelWork::Acquires => Doing::Rests,
        ChannelWork::None => {
            let ring = slots.and_then(|slots| Ring::read(slots, chid));
            let queued = ring.is_some_and(|ring| ring.put != ring.get);
            match (queued, state.is_schedulable()) {
                (false, _) => Doing::Nothing,
                (true, true) => Doing::Waits,
                // Until it is enabled.
                (true, false) => Doing::Rests,
            }
        }
    }
}

/// Whether a channel is on the compute engine or waits for it. The slots are locked.
fn works(device: &Device, chid: Chid) -> bool {
    if device.is_away() {
        return false;
    }
    let Ok(state) = ChannelState::read(&device.bar0, chid) else {
        return false;
    };
    let works = matches!(state.work(), ChannelWork::Waits | ChannelWork::Runs);
    works && state.is_compute()
}

/// The watcher's work.
pub(crate) struct Watcher(pub(crate) Arc<Gpu>);

impl Work for Watcher {
    fn run(self: Arc<Self>, flag: &WakeFlag) {
        while !thread::should_stop() {
            let next = self.0.engaged.tend(&self.0);
            flag.wait_until(next.map_or(u64::MAX, Ns::get));
        }
    }
}
