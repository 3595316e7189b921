// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Inputs of policies other than GPU time.
//!
//! *Channel scans*, for policies that work in stages: the main thread reads the state and the ring
//! of every channel, and checks each gate for sleeping threads. For policies that want it, it also
//! reads how long clients were on a processor. It checks that no client is throttled on an idle
//! GPU.
//!
//! *Waits*: before a polling phase the main thread lists the clients that the poller has to check,
//! and books the results after it. The list is empty if the policy does not use waits.
//!
//! *Residue and evasions*: samples at random instants of the non-polling phase show the occupant
//! of the engine.

use super::main_thread::{MainState, COMPUTE, PERIODS_PER_THROTTLE};
use super::phase::PollingPhase;
use crate::account::waits::{SampledClient, Waited};
use crate::engaged::Counters;
use crate::engine::Fallback;
use crate::glue::control::events;
use crate::glue::gpu::books::Books;
use crate::glue::gpu::device::bar::MappedRange;
use crate::glue::gpu::Gpu;
use crate::glue::kernel::ffi;
use crate::glue::trace::{self, Reason};
use crate::ids::{Chid, ClientId};
use crate::policies::{Inputs, ScanResult};
use crate::regs::{self, ChannelState, Chip, EngineStatus, Mmio, Occupant, Ring};
use crate::share::Member;
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::atomic::Release;

/// Least time that a throttle decided after a scan applies, before a missing scan counts as late.
const LEAST_PATIENCE: Ns = Ns::from_ms(10);

impl Books {
    /// Lists the clients that the poller checks in the coming phase: those that are not throttled,
    /// if the policy uses waits. Without room for all it checks none, see
    /// [`Gpu::make_sampling_room`].
    pub(in crate::glue::gpu) fn sample_waits(&self, phase: &mut PollingPhase, own: &mut MainState) {
        phase.waits.stop();
        if self.state.engine.config().wants() != Inputs::Waits {
            return;
        }
        if let Some((watched, list)) = own.sampling_room.take() {
            phase.waits.refit(watched, list);
        }
        let runs = |member: &&Member| member.throttled_by().is_none();
        let clients = self
            .state
            .shares
            .members()
            .iter()
            .filter(runs)
            .map(Member::id);
        let channels = self.pages.channels();
        phase.waits.sample(
            clients,
            channels.map(|(chid, page, _)| (page.owner(), chid)),
        );
        own.sampling_room_of = phase.waits.room();
    }

    /// The room to make for clients and channels, if there is too little.
    fn sampling_room_wanted(&self, own: &MainState) -> Option<(usize, usize)> {
        let (clients, channels) = own.sampling_room_of;
        let members = self.state.shares.members().len();
        // CAST: at most 4096 channels.
        let needed = self.pages.allocated() as usize;
        let wanted = self.state.engine.config().wants() == Inputs::Waits
            && own.sampling_room.is_none()
            && (members > clients || needed > channels);
        // Half as much more, so that this happens rarely.
        let grown = |count: usize| count.saturating_add(count / 2).saturating_add(16);
        wanted.then(|| (grown(members), grown(needed)))
    }

    /// Begins sampling in a non-polling phase, unless it has begun: the residue of throttled clients,
    /// and whether the others run as in polling phases.
    pub(in crate::glue::gpu) fn sample_residue(&self, phase: &mut PollingPhase, gpu: &Gpu) {
        if !self.state.engine.samples_pauses() || phase.is_sampling() {
            return;
        }
        // By the policy, by a limit or by its class. Clients that are asleep are not throttled.
        let members = self.state.shares.members();
        let is_throttled = |at: usize| {
            members
                .get(at)
                .is_some_and(|member| member.throttled_by().is_some())
        };
        let throttled = self.state.shares.awake().any(is_throttled);
        let until = self.state.engine.next_deadline();
        let length = until.map_or(Ns::ZERO, |until| until.saturating_sub(ffi::now()));
        phase.begin_residue(gpu.main_waker(), length, throttled);
    }

    /// Ends the samples, and books the residue, before the next polling phase.
    pub(in crate::glue::gpu) fn note_residue(&mut self, phase: &mut PollingPhase) {
        let Some(residue) = phase.end_sampling() else {
            return;
        };
        let pages = &self.pages;
        let client = |&(occupant, time): &(Occupant, Ns)| {
            let chid = match occupant {
                Occupant::Channel(chid) => chid,
                Occupant::Tsg { id, context } => pages.channel_of_tsg(id, context)?,
                Occupant::Idle | Occupant::Unknown => return None,
            };
            Some((pages.page_of_channel(chid)?.owner(), time))
        };
        let found = residue.found().iter().filter_map(client);
        let copied = residue.found_copying().iter().filter_map(client);
        self.state.begin_phase(found, copied);
    }

    /// Scans the channels, asks the policy, and drives the gates.
    pub(in crate::glue::gpu) fn scan(&mut self, gpu: &Gpu, own: &mut MainState) {
        if self.state.engine.config().policy.staged() && !gpu.device.is_away() {
            self.scan_channels(gpu, own);
        }
        let now = ffi::now();
        let before = self.state.engine.stats().overdue;
        let fallback = self.state.end_scan(now);
        self.report_fallback(fallback);
        let overdue = self.state.engine.stats().overdue;
        if overdue > before && overdue.is_power_of_two() {
            pr_warn!(
                "gpu {}: a channel did not run empty in time, {overdue} times so far\n",
                self.gpu
            );
        }
        if gpu.device.is_blind() {
            self.state.shares.release(now);
        }
        let deadline = self.state.engine.next_deadline().unwrap_or(now);
        let patience = deadline.saturating_sub(now).max(LEAST_PATIENCE);
        self.drive_gates(gpu, now, patience.saturating_mul(PERIODS_PER_THROTTLE));
    }

    /// Scans all channels, and the gates for sleeping threads.
    fn scan_channels(&mut self, gpu: &Gpu, own: &mut MainState) {
        own.map_slots(gpu, self.presence.chip);
        self.state.begin_scan();
        if self.state.engine.config().wants() == Inputs::Cpu {
            self.read_cpu_times();
        }
        for page in self.pages.all_mut() {
            let seen = ScanResult {
                blocked: page.gate().is_some_and(|gate| gate.has_sleepers()),
                ..ScanResult::default()
            };
            let at = page.at();
            self.state.shares.add_scan(at, &seen, 0);
            for (chid, channel) in page.channels_mut() {
                let Ok(state) = ChannelState::read(&gpu.device.bar0, chid) else {
                    gpu.device.lost.store(1, Release);
                    return;
                };
                let slots = own.slots.as_ref();
                let ring = slots.and_then(|slots| Ring::read(slots, chid));
                let seen = channel.commands.note_scan(state, ring);
                self.state.shares.add_scan(at, &seen, 1);
            }
        }
    }

    /// Notes for the policy how many submissions were let pass, and how long clients waited for their
    /// turns, of those that compete for the GPU.
    pub(in crate::glue::gpu) fn note_turns(&mut self, gpu: &Gpu, now: Ns) {
        if !gpu.engaged.is_on() {
            self.grants = 0;
            return;
        }
        // Whoever stores and submits nothing shall not hide what throttling costs.
        let used = |sums: Counters| sums.grants.saturating_sub(sums.unused);
        let grants = gpu.engaged.counters().map_or(0, used);
        let before = core::mem::replace(&mut self.grants, grants);
        self.state.note_dispatched(grants.saturating_sub(before));
        for page in self.pages.all() {
            let Some(gate) = page.gate() else {
                continue;
            };
            let waited = gate.turn_waits().take(now);
            let competes = |at| gpu.engaged.competes(at);
            if !waited.is_zero() && gate.wait_queue().is_some_and(competes) {
                self.state.shares.note_turn_wait(page.at(), waited);
            }
        }
    }

    /// Reads how long each client with channels was on a processor since the last scan. There are
    /// fewer of them than pages of slots, whatever else a user starts.
    fn read_cpu_times(&mut self) {
        let clients = self.clients.iter_mut().enumerate();
        for (at, client) in clients.filter(|(_, client)| client.channels != 0) {
            let total = client.pid.cpu_time();
            let before = client.cpu_time.replace(total).unwrap_or(total);
            let seen = ScanResult {
                cpu: total.saturating_sub(before),
                ..ScanResult::default()
            };
            self.state.shares.add_scan(at, &seen, 0);
        }
    }

    /// Lets all clients run if one was throttled while the GPU was idle for too long, or if this
    /// thread came too late. The main thread calls it whenever it wakes.
    ///
    /// If the main thread hangs, no client is throttled for ever: each fault that waits in a gate
    /// has a bound of its own, and needs no lock for it.
    pub(in crate::glue::gpu) fn check_throttles(&mut self, gpu: &Gpu) {
        if !self.state.engine.has_throttled() || gpu.device.is_away() {
            return;
        }
        let now = ffi::now();
        let word = gpu.device.bar0.read32(EngineStatus::offset(COMPUTE));
        // During a switch the occupant does not matter: the engine is not idle.
        let is_idle = EngineStatus::decode(word, false) == Ok(Occupant::Idle);
        self.state.engine.note_idle(now, is_idle);
        if let Some(cause) = self.state.engine.watchdog(now) {
            self.report_fallback(Some(cause));
            self.release_all(gpu, now);
        }
    }

    /// Tells subscribers when another group has the turn, or none any more. Costs a comparison as
    /// long as nothing changes.
    pub(in crate::glue::gpu) fn note_turn(&mut self, gpu: &Gpu) {
        let runs_all = gpu.device.is_blind() || gpu.device.is_away();
        let holder = self.state.engine.holder().filter(|_| !runs_all);
        if holder == self.turn {
            return;
        }
        self.turn = holder;
        let shares = &self.state.shares;
        let clients = shares.members().iter().zip(self.clients.iter());
        let of_holder = |(member, _): &(&Member, _)| {
            let group = shares.state_of(member.group()).map(|state| state.id);
            group.is_some() && group == holder
        };
        let group = clients.filter(of_holder);
        events::turn(self.gpu, group.map(|(member, client)| client.about(member)));
    }

    /// Reports a fallback, if there was one.
    pub(in crate::glue::gpu) fn report_fallback(&self, fallback: Option<Fallback>) {
        if let Some(cause) = fallback {
            trace::gpu_fallback(self.gpu, &Reason::Engine(cause));
            events::fallback(self.gpu, &Reason::Engine(cause));
        }
    }
}

impl MainState {
    /// Maps the slots of the channels, if the driver has moved them since. Without them, scans
    /// show no commands.
    fn map_slots(&mut self, gpu: &Gpu, chip: Option<Chip>) {
        let (Some(base), Some(chip)) = (regs::userd_base(&gpu.device.bar0), chip) else {
            return;
        };
        let is_mapped = |slots: &MappedRange| slots.begins_at(&gpu.device.bar1, base);
        if !self.slots.as_ref().is_some_and(is_mapped) {
            self.slots = MappedRange::map_slots(&gpu.device.bar1, base, chip.channels).ok();
        }
    }
}

impl PollingPhase {
    /// How long clients waited in the phase that has ended.
    pub(in crate::glue::gpu) fn waits_found(
        &self,
    ) -> impl Iterator<Item = (ClientId, Waited)> + '_ {
        let length = self.totals.length;
        let found = self.waits.found().iter();
        found
            .filter(|watched| !watched.waits_for_none())
            .map(move |watched| (watched.id(), watched.waited(length)))
    }
}

impl Gpu {
    /// Makes room to check all clients and channels for waits in the next polling phase. Without
    /// memory none are checked. Called by the main thread, with no lock held.
    pub(in crate::glue::gpu) fn make_sampling_room(&self, own: &mut MainState) {
        let wanted = self.books.lock().sampling_room_wanted(own);
        let Some((clients, channels)) = wanted else {
            return;
        };
        let (mut watched, mut list) = (KVVec::new(), KVVec::new());
        let made = watched
            .extend_with(clients, SampledClient::default(), GFP_KERNEL)
            .and_then(|()| list.extend_with(channels, Chid::from_bits(0), GFP_KERNEL));
        if made.is_ok() {
            own.sampling_room = Some((watched, list));
        }
    }
}
