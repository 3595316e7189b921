// SPDX-License-Identifier: GPL-2.0

//! [glue] The books of one GPU as `/dev/loga` shows them.

use super::books::Books;
use super::events::{hold_number, zero_terminated};
use super::ffi;
use super::gpu::Gpu;
use super::order;
use super::process::shown_uid;
use crate::account::{sparse, Accounting};
use crate::engine::Scale;
use crate::regs;
use crate::share::{Account, Class, Limit, Member, Subject};
use crate::uapi;
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;

impl Books {
    /// The GPU as `/dev/loga` shows it.
    pub(super) fn describe(&self, gpu: &Gpu) -> uapi::Gpu {
        let stats = self.engine.stats();
        let config = self.engine.config();
        let mut flags = 0;
        for (set, flag) in [
            (self.engine.polling(), uapi::GPU_POLLING),
            (config.enforce, uapi::GPU_ENFORCING),
            (gpu.lost.load(Relaxed) != 0, uapi::GPU_LOST),
            (config.randomize, uapi::GPU_RANDOMIZING),
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
            policy: zero_terminated(config.policy.name()),
            source: match gpu.settings.source {
                regs::Source::EngineStatus => uapi::SOURCE_ENGINE_STATUS,
                regs::Source::ChannelTable => uapi::SOURCE_CHANNEL_TABLE,
            },
            open_files: self.open_files,
            now_ns: ffi::now().get(),
            polled_ns: stats.polled.get(),
            unpolled_ns: stats.unpolled.get(),
            idle_ns: self.sums.idle.get(),
            unknown_ns: self.sums.unknown.get(),
            t_sys_ns: self.engine.start_vtime().get(),
            last_poll_ns: stats.last_poll.get(),
            last_nonpoll_ns: stats.last_nonpoll.get(),
            polls: self.sums.polls,
            register_reads: self.sums.reads,
            switches: self.sums.switches,
            decisions: stats.decisions,
            revokes: self.sums.revokes,
            restores: self.sums.restores,
            fallbacks: stats
                .fallbacks
                .saturating_add(self.owners.iter().map(|owner| owner.gate.overruns()).sum()),
            overdue_drains: stats.overdue,
            unmanaged_files: self.unmanaged,
            group_by: uapi::group_by_number(self.shares.group_by()),
            accounting: match config.accounting {
                Accounting::Burst => uapi::ACCOUNTING_BURST,
                Accounting::Sparse => uapi::ACCOUNTING_SPARSE,
            },
            scale: match config.scale {
                Scale::Channels => uapi::SCALE_CHANNELS,
                Scale::Active => uapi::SCALE_ACTIVE,
            },
            poll_ms: config.poll_ms,
            ratio: config.ratio,
            // CAST: at most `MAX_SETTINGS`.
            settings: self.settings.all().len() as u32,
            look_ns: self.looks_every().map_or(0, Ns::get),
        }
    }

    /// A client as `/dev/loga` shows it to the calling process. It has so many channels.
    pub(super) fn describe_client(&self, at: usize, channels: u32) -> Option<uapi::Client> {
        let member = self.shares.members().get(at)?;
        let owner = self.owners.get(at)?;
        let group = self.shares.state_of(member.group())?;
        let account = member.account_at(ffi::now());
        Some(uapi::Client {
            id: member.id().get(),
            pid: owner.pid.number(),
            uid: shown_uid(member.who().user),
            comm: owner.comm,
            channels,
            state: match (owner.shut_since, member.used().busy.is_zero()) {
                (Some(_), _) => uapi::STATE_HELD,
                (None, false) => uapi::STATE_RUNNING,
                (None, true) => uapi::STATE_IDLE,
            },
            weight: member.resolved().weight.get(),
            limit_pct: member.resolved().limit.unwrap_or(Limit::NONE).get(),
            class: class_number(member.resolved().class),
            hold: hold_number(member.hold().filter(|_| owner.shut_since.is_some())),
            group: group.id.get(),
            cgroup: member.who().cgroup,
            measured_ns: account.measured.get(),
            gpu_time_ns: account.received.get(),
            error_ns: self.error_of(&account).get(),
            variance_us2: account.variance_us2,
            entitled_ns: account.entitled.get(),
            waited_ns: account.waited.get(),
            vtime_ns: group.vtime.get(),
            held_ns: account.held.get(),
            held_count: account.holds,
            runs: account.runs,
            since_ns: owner.since.get(),
        })
    }

    /// What the time of a client may be wrong by. Burst accounting gives no bound.
    fn error_of(&self, account: &Account) -> Ns {
        let every = self.looks_every();
        if every.is_none() && account.variance_us2 == 0 {
            return Ns::ZERO;
        }
        sparse::bound(account.variance_us2, every.unwrap_or(Ns::ZERO))
    }

    /// Time between two looks, if accounting is sparse.
    fn looks_every(&self) -> Option<Ns> {
        match self.engine.config().accounting {
            Accounting::Burst => None,
            Accounting::Sparse => Some(self.interval),
        }
    }

    /// A group as `/dev/loga` shows it to the calling process.
    pub(super) fn describe_group(&self, at: usize) -> Option<uapi::Group> {
        let group = self.shares.groups().get(at)?;
        let state = self.shares.state_of(at)?;
        let (kind, key) = match group.subject() {
            Subject::Process(_) => (uapi::GROUP_BY_PROCESS, 0),
            Subject::User(user) => (uapi::GROUP_BY_USER, shown_uid(user).into()),
            Subject::Cgroup(id) => (uapi::GROUP_BY_CGROUP, id),
        };
        let account = group.account();
        Some(uapi::Group {
            id: state.id.get(),
            key,
            kind,
            members: group.members(),
            weight: state.weight.get(),
            held: state.held.into(),
            vtime_ns: state.vtime.get(),
            measured_ns: account.measured.get(),
            gpu_time_ns: account.received.get(),
            entitled_ns: account.entitled.get(),
            waited_ns: account.waited.get(),
            held_ns: account.held.get(),
            held_count: account.holds,
            runs: account.runs,
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

    /// The clients that a caller may see.
    pub(super) fn visible(
        &self,
        user: u32,
        is_admin: bool,
    ) -> impl Iterator<Item = (usize, &Member)> {
        let members = self.shares.members().iter().enumerate();
        members.filter(move |(_, member)| uapi::may_see(member.who().user, user, is_admin))
    }

    /// Positions of the groups that a caller may see: for root all, else those of its clients.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn visible_groups(&self, user: u32, is_admin: bool) -> Result<KVVec<usize>> {
        let mut groups = KVVec::new();
        if is_admin {
            for at in 0..self.shares.groups().len() {
                groups.push(at, GFP_KERNEL)?;
            }
            return Ok(groups);
        }
        for (_, member) in self.visible(user, is_admin) {
            groups.push(member.group(), GFP_KERNEL)?;
        }
        order::sort_by_key(&mut groups, |&at| at);
        let mut last = None;
        groups.retain(|at| last.replace(*at) != Some(*at));
        Ok(groups)
    }

    /// Channels of each client, by its position.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn count_channels(&self) -> Result<KVVec<u32>> {
        let mut counts = KVVec::new();
        counts.extend_with(self.owners.len(), 0u32, GFP_KERNEL)?;
        for channel in self.channels.iter() {
            let owner = self.shares.find(channel.client);
            if let Some(count) = owner.and_then(|at| counts.get_mut(at)) {
                *count = count.saturating_add(1);
            }
        }
        Ok(counts)
    }
}

/// How a structure of the interface names a class.
pub(super) const fn class_number(class: Class) -> u32 {
    match class {
        Class::Normal => uapi::CLASS_NORMAL,
        Class::Idle => uapi::CLASS_IDLE,
    }
}
