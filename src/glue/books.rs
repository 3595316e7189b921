// SPDX-License-Identifier: GPL-2.0

//! [glue] The books of one GPU: its clients, their channels and their time.

use super::ffi;
use super::files::current_tgid;
use super::gate::{Gate, Pages};
use super::latency::Latencies;
use super::trace;
use super::work_period::WorkPeriods;
use crate::engine::{ClientState, Engine};
use crate::ids::{Chid, ClientId};
use crate::regs::Chip;
use crate::uapi;
use crate::units::{Ns, Weight};
use core::ptr::NonNull;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::Arc;

/// RM handles by which a channel can be freed.
#[derive(Clone, Copy)]
pub(super) struct Handles {
    /// File of the RM client, to tell clients with the same handles apart. Only compared.
    pub(super) via: usize,
    pub(super) client: u32,
    pub(super) device: u32,
    pub(super) object: u32,
}

/// Who uses the GPU, and how much.
pub(super) struct Books {
    /// Index of the GPU.
    pub(super) gpu: u32,
    pub(super) engine: Engine,
    /// In ascending order of id; element by element with `owners`.
    pub(super) clients: KVec<ClientState>,
    pub(super) owners: KVec<Owner>,
    /// In ascending order of hardware id.
    pub(super) channels: KVec<ChannelRecord>,
    pub(super) chip: Option<Chip>,
    pub(super) totals: Totals,
    pub(super) revoke_took: Latencies,
    pub(super) restore_took: Latencies,
    pub(super) periods: WorkPeriods,
    next_id: u64,
    pub(super) mappings: u32,
    pub(super) open_files: u32,
    pub(super) unmanaged: u64,
}

/// Sums since attaching.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) idle: Ns,
    pub(super) unknown: Ns,
    pub(super) switches: u64,
    pub(super) polls: u64,
    pub(super) reads: u64,
    pub(super) revokes: u64,
    pub(super) restores: u64,
}

/// What belongs to a client beside its state in the policy.
pub(super) struct Owner {
    pub(super) pid: Process,
    /// Its number in the initial pid namespace.
    pub(super) tgid: i32,
    pub(super) uid: bindings::kuid_t,
    pub(super) comm: [u8; uapi::COMM_LEN],
    pub(super) gate: Arc<Gate>,
    pub(super) measured: Ns,
    pub(super) estimated: Ns,
    pub(super) entitled: Ns,
    pub(super) runs: u64,
    pub(super) held: Ns,
    pub(super) held_since: Option<Ns>,
    pub(super) held_count: u64,
    pub(super) since: Ns,
}

/// A reference on a thread group.
pub(super) struct Process(NonNull<bindings::pid>);

// SAFETY: A `struct pid` may be used and put from any thread.
unsafe impl Send for Process {}

impl Process {
    /// The calling process.
    ///
    /// # Errors
    ///
    /// `ESRCH` if it has none: not in process context.
    pub(super) fn of_caller() -> Result<Self> {
        // SAFETY: Returns the caller's thread group with a reference.
        let pid = NonNull::new(unsafe { ffi::loga_current_tgid() }).ok_or(ESRCH)?;
        Ok(Self(pid))
    }

    /// Its number in the pid namespace of the caller; 0 where it has none.
    pub(super) fn number(&self) -> i32 {
        // SAFETY: The reference that this value stands for.
        unsafe { bindings::pid_vnr(self.0.as_ptr()) }
    }

    /// Whether it has not begun to exit.
    fn is_alive(&self) -> bool {
        // SAFETY: The reference that this value stands for.
        unsafe { ffi::loga_process_alive(self.0.as_ptr()) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SAFETY: The reference that this value stands for.
        unsafe { bindings::put_pid(self.0.as_ptr()) };
    }
}

/// One channel whose submission page is known.
#[derive(Clone, Copy)]
pub(super) struct ChannelRecord {
    pub(super) chid: Chid,
    pub(super) client: ClientId,
    /// Position of the client in the tables, as of the last decision.
    pub(super) owner: Option<usize>,
    pub(super) mappings: u32,
    pub(super) handles: Option<Handles>,
    pub(super) measured: Ns,
    pub(super) runs: u64,
}

impl Books {
    pub(super) fn new(gpu: u32, engine: Engine, chip: Option<Chip>) -> Self {
        Self {
            gpu,
            engine,
            clients: KVec::new(),
            owners: KVec::new(),
            channels: KVec::new(),
            chip,
            totals: Totals::default(),
            revoke_took: Latencies::new(),
            restore_took: Latencies::new(),
            periods: WorkPeriods::new(),
            next_id: 1,
            mappings: 0,
            open_files: 0,
            unmanaged: 0,
        }
    }

    /// Position of the calling process among the clients, made if there is none.
    pub(super) fn client_of_caller(&mut self) -> Result<usize> {
        let pid = Process::of_caller()?;
        if let Some(at) = self.owners.iter().position(|owner| owner.pid.0 == pid.0) {
            return Ok(at);
        }
        let mut comm = [0; uapi::COMM_LEN];
        // SAFETY: The buffer has the length that the function fills.
        unsafe { ffi::loga_leader_comm(comm.as_mut_ptr()) };
        let owner = Owner {
            pid,
            tgid: current_tgid(),
            uid: kernel::task::Kuid::current_euid().into_raw(),
            comm,
            gate: Gate::new()?,
            measured: Ns::ZERO,
            estimated: Ns::ZERO,
            entitled: Ns::ZERO,
            runs: 0,
            held: Ns::ZERO,
            held_since: None,
            held_count: 0,
            since: ffi::now(),
        };
        self.clients.reserve(1, GFP_KERNEL)?;
        self.periods.reserve(self.clients.len().saturating_add(1))?;
        let id = ClientId::new(self.next_id);
        let (tgid, uid) = (owner.tgid, owner.uid.val);
        self.owners.push(owner, GFP_KERNEL)?;
        trace::client_create(self.gpu, id.get(), tgid, uid, &comm);
        self.next_id = self.next_id.saturating_add(1);
        let vtime = self.engine.start_vtime();
        self.clients
            .push(ClientState::new(id, Weight::DEFAULT, vtime), GFP_KERNEL)?;
        Ok(self.clients.len().saturating_sub(1))
    }

    /// Number and GPU time of a process's client, if it is one.
    pub(super) fn used_by(&self, process: &Process) -> Option<(u64, Ns)> {
        let at = self
            .owners
            .iter()
            .position(|owner| owner.pid.0 == process.0)?;
        let time = self.owners.get(at)?.estimated;
        Some((self.clients.get(at)?.id.get(), time))
    }

    pub(super) fn add_channels(
        &mut self,
        pages: Pages,
        client: ClientId,
        handles: Option<Handles>,
    ) -> Result {
        self.channels.reserve(pages.slots.into(), GFP_KERNEL)?;
        let range = pages.first_chid..pages.first_chid.saturating_add(pages.slots);
        for chid in range.filter_map(Chid::new) {
            // A hardware id that is mapped again by another process has a new owner.
            self.keep_channels(|old| old.chid != chid || old.client == client);
            match self.channels.iter_mut().find(|old| old.chid == chid) {
                Some(old) => old.mappings = old.mappings.saturating_add(1),
                None => {
                    let channel = ChannelRecord {
                        chid,
                        client,
                        owner: None,
                        mappings: 1,
                        handles,
                        measured: Ns::ZERO,
                        runs: 0,
                    };
                    self.channels.push(channel, GFP_KERNEL)?;
                    trace::channel_create(self.gpu, chid.get().into(), client.get());
                }
            }
        }
        self.channels.sort_unstable_by_key(|channel| channel.chid);
        Ok(())
    }

    /// Takes one mapping off the channels of a client that it showed.
    pub(super) fn drop_mapping(&mut self, client: ClientId, pages: Pages) {
        self.mappings = self.mappings.saturating_sub(1);
        let range = pages.first_chid..pages.first_chid.saturating_add(pages.slots);
        for channel in self.channels.iter_mut() {
            if channel.client == client && range.contains(&channel.chid.get()) {
                channel.mappings = channel.mappings.saturating_sub(1);
            }
        }
        self.keep_channels(|channel| channel.mappings != 0);
    }

    /// Forgets all channels but these.
    pub(super) fn keep_channels(&mut self, keep: impl Fn(&ChannelRecord) -> bool) {
        let gpu = self.gpu;
        self.channels.retain(|channel| {
            let kept = keep(channel);
            if !kept {
                let measured = channel.measured.get();
                trace::channel_destroy(
                    gpu,
                    channel.chid.get().into(),
                    channel.client.get(),
                    measured,
                );
            }
            kept
        });
    }

    /// Forgets clients without channels whose process is gone. A process that lives keeps its
    /// virtual time: it cannot shake off what it used, or a hold, by mapping again.
    pub(super) fn forget_gone_clients(&mut self) {
        let mut at = self.clients.len();
        while let Some(last) = at.checked_sub(1) {
            at = last;
            let (Some(client), Some(owner)) = (self.clients.get(at), self.owners.get(at)) else {
                break;
            };
            let has_channel = |channel: &ChannelRecord| channel.client == client.id;
            if owner.pid.is_alive() || self.channels.iter().any(has_channel) {
                continue;
            }
            let id = client.id.get();
            let _ = self.clients.remove(at);
            if let Ok(owner) = self.owners.remove(at) {
                owner.gate.restore();
                let (measured, estimated) = (owner.measured.get(), owner.estimated.get());
                trace::client_destroy(self.gpu, id, owner.tgid, measured, estimated);
            }
        }
    }
}
