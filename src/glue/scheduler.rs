// SPDX-License-Identifier: GPL-2.0

//! [glue] The main thread of one GPU: sleeps until the engine wants something, and
//! carries it out.

use super::books::{Books, Owner};
use super::ffi;
use super::gpu::Gpu;
use super::poller::Phase;
use super::thread::{self, Bell, Work};
use super::trace::{self, Reason};
use crate::account::{self, PhaseTotals};
use crate::engine::{Action, ClientState, Wake};
use crate::fair;
use crate::regs::Sampler;
use crate::units::Ns;
use kernel::sync::atomic::{Acquire, Relaxed};
use kernel::sync::Arc;

/// A hold lasts one period of the engine; beyond this many of them it is a fault.
const PERIODS_PER_HOLD: u64 = 4;
/// Engine 0 computes.
const COMPUTE: u8 = 0;

/// The thread's work.
pub(super) struct Scheduler(pub(super) Arc<Gpu>);

impl Work for Scheduler {
    fn run(self: Arc<Self>, bell: &Bell) {
        let gpu = &self.0;
        let mut waits_for_turn = false;
        while !thread::should_stop() {
            let deadline = match waits_for_turn {
                true => None,
                false => gpu.books.lock().engine.next_deadline(),
            };
            let rung = bell.wait_until(deadline.map_or(u64::MAX, Ns::get));
            let wake = if rung {
                Wake::ChannelsChanged
            } else {
                Wake::Timer
            };
            waits_for_turn = !step(gpu, wake);
        }
    }
}

/// Asks the engine once, and does what it says. False if it has to wait until other GPUs have
/// been polled; then the thread is rung.
fn step(gpu: &Gpu, wake: Wake) -> bool {
    let mut books = gpu.books.lock();
    if gpu.lost.load(Acquire) != 0 {
        books.release_all(ffi::now(), &Reason::Lost);
    }
    if may_begin(&books, wake) && !gpu.take_turn() {
        return false;
    }
    match books.engine.wake(ffi::now(), wake) {
        Action::None if books.engine.polling() => {}
        Action::None => gpu.end_turn(),
        Action::StartPolling => start_polling(gpu, &mut books),
        Action::StopPolling => {
            gpu.stop_polling.store(1, Relaxed);
            // Waits until the poller has ended its phase.
            let mut phase = gpu.phase.lock();
            phase.conclude();
            books.decide(&mut phase, gpu);
            gpu.end_turn();
        }
    }
    true
}

/// Whether the engine may want a polling phase to begin.
fn may_begin(books: &Books, wake: Wake) -> bool {
    let due = match books.engine.next_deadline() {
        Some(deadline) => ffi::now() >= deadline,
        None => wake == Wake::ChannelsChanged,
    };
    due && !books.engine.polling()
}

fn start_polling(gpu: &Gpu, books: &mut Books) {
    if gpu.lost.load(Acquire) != 0 {
        return;
    }
    let Some(chip) = books.chip else {
        return;
    };
    let mut phase = gpu.phase.lock();
    if phase.sampler.is_none() {
        phase.sampler = Some(Sampler::new(gpu.settings.source, &chip, COMPUTE));
    }
    phase.want();
    gpu.stop_polling.store(0, Relaxed);
    drop(phase);
    gpu.ring_poller();
}

impl Books {
    /// Books a phase, decides, and drives the gates.
    fn decide(&mut self, phase: &mut Phase, gpu: &Gpu) {
        let now = ffi::now();
        let mut totals = phase.totals;
        self.forget_gone_clients();
        for client in self.clients.iter_mut() {
            client.busy = Ns::ZERO;
            client.runs = 0;
        }
        self.totals.polls = phase.polls;
        self.totals.reads = phase.sampler.as_ref().map_or(0, Sampler::reads);
        self.book_channels(phase);
        self.settle(phase, &mut totals);
        trace::phase_end(self.gpu, &totals);
        let fallbacks = self.engine.stats().fallbacks;
        self.engine.decide(&totals, &mut self.clients);
        let stats = self.engine.stats();
        if let (true, Some(cause)) = (stats.fallbacks > fallbacks, self.engine.last_fallback()) {
            trace::gpu_fallback(self.gpu, &Reason::Engine(cause));
        }
        let span = stats.last_poll.saturating_add(stats.last_nonpoll);
        self.trace_decision(span);
        if trace::wants_work_periods() {
            let clients = (&self.clients[..], &self.owners[..]);
            self.periods.tell(self.gpu, clients, totals.length, span);
        }
        self.book_clients(&totals, span);
        self.drive_gates(now, gpu);
    }

    /// Tells who listens what the policy made of the phase.
    fn trace_decision(&self, span: Ns) {
        if !trace::wants_decisions() {
            return;
        }
        let (mut active, mut held) = (0u32, 0u32);
        for (client, owner) in self.clients.iter().zip(self.owners.iter()) {
            active = active.saturating_add(client.active().into());
            held = held.saturating_add(client.held.into());
            trace::client_decide(
                self.gpu,
                client.id.get(),
                owner.tgid,
                client.busy.get(),
                client.vtime.get(),
                client.held.into(),
            );
        }
        // CAST: at most one client per channel.
        let clients = self.clients.len() as u32;
        let t_sys = self.engine.start_vtime().get();
        trace::decision_make(self.gpu, span.get(), t_sys, clients, active, held);
    }

    /// Adds the phase to the channels.
    fn book_channels(&mut self, phase: &Phase) {
        for channel in self.channels.iter_mut() {
            if let Some(slot) = phase.slots.get(channel.chid.index()) {
                channel.measured = channel.measured.saturating_add(slot.held);
                channel.runs = channel.runs.saturating_add(slot.runs.into());
            }
            channel.owner = self
                .clients
                .binary_search_by_key(&channel.client, |client| client.id)
                .ok();
        }
    }

    /// Distributes the slots among the clients.
    fn settle(&mut self, phase: &Phase, totals: &mut PhaseTotals) {
        let channels = &self.channels;
        let owner = |index| {
            let at = channels
                .binary_search_by_key(&index, |channel| channel.chid.index())
                .ok()?;
            channels.get(at)?.owner
        };
        let used = phase.accountant.used();
        account::settle(totals, &phase.slots, used, &owner, &mut self.clients);
    }

    /// Adds the phase to the clients, and to the sums of the GPU. It stands for `span`. Clients
    /// that the gates held back during it wanted the GPU too. Before the gates are driven.
    fn book_clients(&mut self, totals: &PhaseTotals, span: Ns) {
        self.totals.idle = self.totals.idle.saturating_add(totals.idle);
        self.totals.unknown = self.totals.unknown.saturating_add(totals.unknown);
        self.totals.switches = self.totals.switches.saturating_add(totals.switches);
        let wanted =
            |client: &ClientState, owner: &Owner| client.active() || owner.held_since.is_some();
        let weights = self
            .clients
            .iter()
            .zip(self.owners.iter())
            .filter(|(client, owner)| wanted(client, owner))
            .map(|(client, _)| u64::from(client.weight.get()))
            .sum();
        for (client, owner) in self.clients.iter().zip(self.owners.iter_mut()) {
            owner.measured = owner.measured.saturating_add(client.busy);
            owner.runs = owner.runs.saturating_add(client.runs.into());
            owner.estimated =
                owner
                    .estimated
                    .saturating_add(fair::estimate(client.busy, totals.length, span));
            if wanted(client, owner) {
                owner.entitled =
                    owner
                        .entitled
                        .saturating_add(fair::entitlement(span, client.weight, weights));
            }
        }
    }

    /// Opens and closes gates so that they agree with the decision.
    fn drive_gates(&mut self, now: Ns, gpu: &Gpu) {
        let stats = self.engine.stats();
        let period = stats.last_poll.saturating_add(stats.last_nonpoll).get() / 1_000_000;
        let bound = u32::try_from(period.saturating_mul(PERIODS_PER_HOLD)).unwrap_or(u32::MAX);
        let lost = gpu.lost.load(Acquire) != 0;
        for (client, owner) in self.clients.iter_mut().zip(self.owners.iter_mut()) {
            client.held &= !lost;
            match (owner.held_since, client.held) {
                (None, true) => {
                    owner.held_since = Some(now);
                    owner.held_count = owner.held_count.saturating_add(1);
                    let begin = ffi::now();
                    owner.gate.revoke(bound);
                    let took = ffi::now().saturating_sub(begin);
                    self.revoke_took.add(took);
                    trace::gate_revoke(self.gpu, client.id.get(), owner.tgid, took.get());
                    self.totals.revokes = self.totals.revokes.saturating_add(1);
                }
                (Some(since), false) => {
                    owner.held_since = None;
                    let held = now.saturating_sub(since);
                    owner.held = owner.held.saturating_add(held);
                    let begin = ffi::now();
                    owner.gate.restore();
                    self.restore_took.add(ffi::now().saturating_sub(begin));
                    trace::gate_restore(self.gpu, client.id.get(), owner.tgid, held.get());
                    self.totals.restores = self.totals.restores.saturating_add(1);
                }
                _ => {}
            }
        }
    }

    /// Lets everybody run, whatever was decided.
    fn release_all(&mut self, now: Ns, reason: &Reason) {
        if self.owners.iter().any(|owner| owner.held_since.is_some()) {
            trace::gpu_fallback(self.gpu, reason);
        }
        for (client, owner) in self.clients.iter_mut().zip(self.owners.iter_mut()) {
            client.held = false;
            if let Some(since) = owner.held_since.take() {
                let held = now.saturating_sub(since);
                owner.held = owner.held.saturating_add(held);
                owner.gate.restore();
                trace::gate_restore(self.gpu, client.id.get(), owner.tgid, held.get());
                self.totals.restores = self.totals.restores.saturating_add(1);
            }
        }
    }
}
