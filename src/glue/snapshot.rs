// SPDX-License-Identifier: GPL-2.0

//! [glue] The books of one GPU as `/dev/loga` shows them.

use super::books::Books;
use super::ffi;
use super::gpu::Gpu;
use crate::regs;
use crate::uapi;
use crate::units::Ns;
use kernel::sync::atomic::Relaxed;

impl Books {
    /// The GPU as `/dev/loga` shows it.
    pub(super) fn describe(&self, gpu: &Gpu) -> uapi::Gpu {
        let stats = self.engine.stats();
        let config = self.engine.config();
        let mut policy = [0; uapi::POLICY_NAME_LEN];
        let room = uapi::POLICY_NAME_LEN - 1;
        for (to, from) in policy
            .iter_mut()
            .take(room)
            .zip(config.policy.name().bytes())
        {
            *to = from;
        }
        let mut flags = 0;
        for (set, flag) in [
            (self.engine.polling(), uapi::GPU_POLLING),
            (config.enforce, uapi::GPU_ENFORCING),
            (gpu.lost.load(Relaxed) != 0, uapi::GPU_LOST),
        ] {
            if set {
                flags |= flag;
            }
        }
        uapi::Gpu {
            chipset: self.chip.map_or(0, |chip| chip.chipset.get().into()),
            pci_domain: gpu.address.domain,
            pci_bdf: u32::from(gpu.address.bus) << 8 | u32::from(gpu.address.devfn),
            flags,
            policy,
            source: match gpu.settings.source {
                regs::Source::EngineStatus => uapi::SOURCE_ENGINE_STATUS,
                regs::Source::ChannelTable => uapi::SOURCE_CHANNEL_TABLE,
            },
            open_files: self.open_files,
            now_ns: ffi::now().get(),
            polled_ns: stats.polled.get(),
            unpolled_ns: stats.unpolled.get(),
            idle_ns: self.totals.idle.get(),
            unknown_ns: self.totals.unknown.get(),
            t_sys_ns: self.engine.start_vtime().get(),
            last_poll_ns: stats.last_poll.get(),
            last_nonpoll_ns: stats.last_nonpoll.get(),
            polls: self.totals.polls,
            register_reads: self.totals.reads,
            switches: self.totals.switches,
            decisions: stats.decisions,
            revokes: self.totals.revokes,
            restores: self.totals.restores,
            fallbacks: stats
                .fallbacks
                .saturating_add(self.owners.iter().map(|owner| owner.gate.overruns()).sum()),
            unmanaged_files: self.unmanaged,
            group_by: uapi::GROUP_BY_PROCESS,
            accounting: uapi::ACCOUNTING_BURST,
            scale: uapi::SCALE_CHANNELS,
            poll_ms: config.poll_ms,
            ratio: config.ratio,
            settings: 0,
        }
    }

    /// A client as `/dev/loga` shows it to the calling process.
    pub(super) fn describe_client(&self, at: usize) -> Option<uapi::Client> {
        let state = self.clients.get(at)?;
        let owner = self.owners.get(at)?;
        let now = ffi::now();
        let held_now = owner
            .held_since
            .map_or(Ns::ZERO, |since| now.saturating_sub(since));
        let channels = self
            .channels
            .iter()
            .filter(|channel| channel.client == state.id);
        Some(uapi::Client {
            id: state.id.get(),
            pid: owner.pid.number(),
            uid: kernel::task::Kuid::from_raw(owner.uid).into_uid_in_current_ns(),
            comm: owner.comm,
            // CAST: at most 4096 channels exist.
            channels: channels.count() as u32,
            state: match (state.held, state.active()) {
                (true, _) => uapi::STATE_HELD,
                (false, true) => uapi::STATE_RUNNING,
                (false, false) => uapi::STATE_IDLE,
            },
            weight: state.weight.get(),
            limit_pct: 100,
            class: uapi::CLASS_NORMAL,
            hold: if state.held {
                uapi::HOLD_POLICY
            } else {
                uapi::HOLD_NONE
            },
            group: state.id.get(),
            cgroup: 0,
            measured_ns: owner.measured.get(),
            gpu_time_ns: owner.estimated.get(),
            error_ns: 0,
            entitled_ns: owner.entitled.get(),
            waited_ns: 0,
            vtime_ns: state.vtime.get(),
            held_ns: owner.held.saturating_add(held_now).get(),
            held_count: owner.held_count,
            runs: owner.runs,
            since_ns: owner.since.get(),
        })
    }

    /// A channel as `/dev/loga` shows it.
    pub(super) fn describe_channel(&self, at: usize) -> Option<uapi::Channel> {
        self.channels.get(at).map(|channel| uapi::Channel {
            chid: channel.chid.get().into(),
            mappings: channel.mappings,
            client: channel.client.get(),
            measured_ns: channel.measured.get(),
            runs: channel.runs,
        })
    }
}
