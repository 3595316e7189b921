// SPDX-License-Identifier: GPL-2.0

//! `[glue]` What the fault handler asks of engaged scheduling. A store that waits once takes the lock of
//! the submissions four times: it is told to wait, wakes up, opens its window, and has its entry.

use super::scheduler::Engaged;
use super::state::{Entry, State};
use crate::engaged::{Outcome, HEARTBEAT};
use crate::glue::gpu::device::Device;
use crate::glue::gpu::gates::gate::Gate;
use crate::glue::gpu::gates::kinds;
use crate::glue::kernel::ffi;
use crate::glue::kernel::process;
use crate::glue::kernel::store_queue::apart;
use crate::glue::trace;
use crate::regs::Ring;
use crate::track::pages::SLOTS;
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// A completion thread that has not run for so long while a client waits is stuck.
const MOST_SILENT: Ns = Ns::from_ms(3_000);

impl Engaged {
    /// As [`ask`](Self::ask), for a store that faulted.
    fn ask_for_store<R>(&self, event: impl FnOnce(&mut State, Ns) -> (R, Outcome)) -> R {
        self.ask(|state, now| {
            state.taken_by_stores = state.taken_by_stores.saturating_add(1);
            event(state, now)
        })
    }

    /// Whether the threads of a client have to wait, whatever its page: the caller has to
    /// [`wait`](Self::wait) then. Called by the fault handler, without the gate's lock.
    pub(crate) fn queue(&self, at: usize) -> bool {
        let blocked = self.wait_queues.get(at).filter(|queue| queue.is_blocked());
        blocked.is_some_and(|queue| self.ask_for_store(|state, _| state.queue(queue, at)))
    }

    /// Whether a client may store to a page now; if not, the caller has to [`wait`](Self::wait).
    /// Called by the fault handler, with the gate's lock held. Registers are read for a store that
    /// passes only.
    pub(crate) fn enter(&self, device: &Device, gate: &Arc<Gate>, at: usize) -> bool {
        let prio = process::caller_prio();
        let wait_queue = self.wait_queues.get(at).map(|queue| &**queue);
        match self.ask_for_store(|state, now| state.enter(now, wait_queue, at, prio, gate)) {
            Entry::Admitted => return true,
            Entry::Waits => return false,
            Entry::Opens => {}
        }
        // CAST: few wait queues.
        trace::submission_begin(device.number(), gate.client(), at as u32);
        let puts = self.read_puts(device, gate);
        self.ask_for_store(|state, now| {
            let outcome = state.decider.entered(now, at, puts.is_some());
            if let Some(puts) = puts {
                state.opening.note(gate, puts);
            }
            ((), outcome)
        });
        true
    }

    /// Waits until a client may try again. Called by the fault handler without any lock, after
    /// [`enter`](Self::enter) has answered no. 0; `-ETIME` if the caller is the first to find that the
    /// completion thread does not run, and all clients pass until it does; else a signal is pending.
    pub(crate) fn wait(&self, at: usize) -> c_int {
        let Some(wait_queue) = self.wait_queues.get(at) else {
            return 0;
        };
        let heartbeat = HEARTBEAT.saturating_add(apart(wait_queue.sleepers()));
        let mut result = ffi::TIMED_OUT;
        let mut stuck = false;
        let since = ffi::now();
        // TIMEOUT: the completion thread, or its silence.
        while result == ffi::TIMED_OUT && !stuck {
            result = wait_queue.wait(heartbeat);
            let alive = Ns::new(self.alive.load(Relaxed)).max(since);
            let silent = ffi::now().saturating_sub(alive);
            stuck = result == ffi::TIMED_OUT && silent > MOST_SILENT;
        }
        let signalled = result != 0 && !stuck;
        self.ask_for_store(|state, now| ((), state.decider.wakes_up(now, at, signalled)));
        match stuck && !self.fall_silent() {
            true => 0,
            false => result,
        }
    }

    /// Lets all clients pass until the completion thread runs. False if they do already.
    fn fall_silent(&self) -> bool {
        let opening = self.ask_for_store(State::fall_silent);
        // Its pages are dropped without the lock.
        opening.is_some()
    }

    /// Reads which channels a page has.
    pub(crate) fn read_kinds(&self, device: &Device, gate: &Gate) {
        // Held while registers are read, see `suspend`.
        let _slots = self.slots.lock();
        if !device.is_blind() {
            kinds::read_kinds(&device.bar0, gate);
        }
    }

    /// Where the rings of a page are; `None` if that cannot be read.
    pub(super) fn read_puts(&self, device: &Device, gate: &Gate) -> Option<[u32; SLOTS]> {
        let slots = self.slots.lock();
        let slots = slots.as_ref().filter(|_| !device.is_blind())?;
        let mut puts = [0; SLOTS];
        for (slot, chid) in gate.channels() {
            *puts.get_mut(slot)? = Ring::read_put(slots, chid)?;
        }
        Some(puts)
    }
}
