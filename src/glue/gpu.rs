// SPDX-License-Identifier: GPL-2.0

//! [glue] The books of one GPU: its clients, their channels and their time.

use super::bar::{Address, Bar0, Found};
use super::ffi;
use super::gate::{Gate, Pages};
use super::latency::Latencies;
use super::params::{refuse_chip, Settings};
use super::poller::{Phase, Poller};
use super::scheduler::Scheduler;
use super::thread::Thread;
use crate::engine::{ClientState, Engine};
use crate::ids::{Chid, ClientId};
use crate::regs::{self, Chip};
use crate::track::submission;
use crate::uapi;
use crate::units::{Ns, Weight};
use core::ops::Range;
use core::ptr::NonNull;
use kernel::bindings;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, Mutex};

/// RM handles by which a channel can be freed.
#[derive(Clone, Copy)]
pub(super) struct Handles {
    /// File of the RM client, to tell clients with the same handles apart. Only compared.
    pub(super) via: usize,
    pub(super) client: u32,
    pub(super) device: u32,
    pub(super) object: u32,
}

/// One GPU.
#[pin_data]
pub(super) struct Gpu {
    pub(super) index: usize,
    pub(super) bar0: Bar0,
    bar1: Range<u64>,
    pub(super) address: Address,
    pub(super) settings: Settings,
    #[pin]
    pub(super) books: Mutex<Books>,
    /// What the poller has while it polls.
    #[pin]
    pub(super) phase: Mutex<Phase>,
    /// 1: the poller shall end its phase.
    pub(super) stop_polling: Atomic<u32>,
    /// 1: the device answered with all ones.
    pub(super) lost: Atomic<u32>,
    #[pin]
    threads: Mutex<Option<Threads>>,
}

struct Threads {
    scheduler: Thread,
    poller: Thread,
}

/// Who uses the GPU, and how much.
pub(super) struct Books {
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
    next_id: u64,
    mappings: u32,
    open_files: u32,
    unmanaged: u64,
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
    pid: Process,
    uid: bindings::kuid_t,
    comm: [u8; uapi::COMM_LEN],
    pub(super) gate: Arc<Gate>,
    pub(super) measured: Ns,
    pub(super) estimated: Ns,
    pub(super) entitled: Ns,
    pub(super) runs: u64,
    pub(super) held: Ns,
    pub(super) held_since: Option<Ns>,
    pub(super) held_count: u64,
    since: Ns,
}

/// A reference on a thread group.
struct Process(NonNull<bindings::pid>);

// SAFETY: A `struct pid` may be used and put from any thread.
unsafe impl Send for Process {}

impl Process {
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
    mappings: u32,
    handles: Option<Handles>,
    pub(super) measured: Ns,
    pub(super) runs: u64,
}

impl Gpu {
    /// Starts to look after a GPU: both threads, asleep. May sleep.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for a chip that LoGA does not know; `ENOMEM`. A GPU that is asleep is
    /// looked at when it is opened first.
    pub(super) fn start(index: usize, found: Found, settings: &Settings) -> Result<Arc<Self>> {
        let chip = match regs::detect(&found.bar0) {
            Ok(chip) => Some(check_chip(index, chip)?),
            Err(regs::Error::DeviceGone) => None,
            Err(cause) => return Err(refuse_chip(index, &cause)),
        };
        let seed = ffi::now().get();
        let engine = Engine::new(settings.engine, seed).map_err(|_| EINVAL)?;
        let gpu = Arc::pin_init(
            try_pin_init!(Self {
                index,
                bar0: found.bar0,
                bar1: found.bar1,
                address: found.address,
                settings: *settings,
                books <- new_mutex!(Books::new(engine, chip)),
                phase <- new_mutex!(Phase::new()?),
                stop_polling: Atomic::new(0),
                lost: Atomic::new(0),
                threads <- new_mutex!(None),
            }? Error),
            GFP_KERNEL,
        )?;
        let threads = Threads {
            scheduler: Thread::spawn(
                c"loga-main",
                Arc::new(Scheduler(gpu.clone()), GFP_KERNEL)?,
                None,
            )?,
            poller: Thread::spawn(
                c"loga-poll",
                Arc::new(Poller(gpu.clone()), GFP_KERNEL)?,
                settings.poller_cpu,
            )?,
        };
        *gpu.threads.lock() = Some(threads);
        Ok(gpu)
    }

    /// Ends both threads and lets everybody run. May sleep.
    pub(super) fn stop(&self) {
        let threads = self.threads.lock().take();
        if let Some(Threads { scheduler, poller }) = threads {
            // The main thread first: it may be waiting for the poller.
            drop(scheduler);
            self.stop_polling.store(1, Relaxed);
            drop(poller);
        }
        for owner in self.books.lock().owners.iter() {
            owner.gate.restore();
        }
    }

    /// Wakes the main thread.
    pub(super) fn ring(&self) {
        if let Some(threads) = self.threads.lock().as_ref() {
            threads.scheduler.ring();
        }
    }

    /// Wakes the poller.
    pub(super) fn ring_poller(&self) {
        if let Some(threads) = self.threads.lock().as_ref() {
            threads.poller.ring();
        }
    }

    /// Channel slots in a physical range, if it is one of submission pages.
    pub(super) fn submission_pages(&self, physical: u64, len: u64) -> Option<Pages> {
        let chip = self.books.lock().chip?;
        let base = regs::userd_base(&self.bar0)?;
        let range = submission::classify(
            physical,
            len,
            self.bar1.clone(),
            base,
            chip.userd_slot?,
            chip.channels,
        )?;
        Some(Pages {
            // CAST: physical page numbers fit a word of the machine.
            first_pfn: (physical >> kernel::page::PAGE_SHIFT) as usize,
            first_chid: range.first.get(),
            slots: range.count,
        })
    }

    pub(super) fn has_mappings(&self) -> bool {
        self.books.lock().mappings != 0
    }

    pub(super) fn file_opened(&self) {
        let mut books = self.books.lock();
        books.open_files = books.open_files.saturating_add(1);
        if books.chip.is_none() {
            // A GPU that was asleep at attach answers now.
            books.chip = regs::detect(&self.bar0)
                .map_err(|cause| refuse_chip(self.index, &cause))
                .and_then(|chip| check_chip(self.index, chip))
                .ok();
        }
        if books.open_files == 1 {
            self.lost.store(0, Relaxed);
        }
    }

    pub(super) fn file_closed(&self) {
        let mut books = self.books.lock();
        books.open_files = books.open_files.saturating_sub(1);
    }

    pub(super) fn file_unmanaged(&self) {
        let mut books = self.books.lock();
        books.unmanaged = books.unmanaged.saturating_add(1);
        books.open_files = books.open_files.saturating_add(1);
    }

    /// Notes a new mapping of submission pages by the calling process.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing has changed then.
    pub(super) fn adopt(
        &self,
        pages: Pages,
        handles: Option<Handles>,
    ) -> Result<(ClientId, Arc<Gate>)> {
        let mut books = self.books.lock();
        books.forget_gone_clients();
        let at = books.client_of_caller()?;
        let (client, gate) = (
            books.clients.get(at).ok_or(EINVAL)?.id,
            books.owners.get(at).ok_or(EINVAL)?.gate.clone(),
        );
        books.add_channels(pages, client, handles)?;
        books.mappings = books.mappings.saturating_add(1);
        drop(books);
        self.channels_changed();
        Ok((client, gate))
    }

    /// Notes that a mapping has gone, with all its parts.
    pub(super) fn unmapped(&self, client: ClientId, pages: Pages) {
        let mut books = self.books.lock();
        books.mappings = books.mappings.saturating_sub(1);
        let range = pages.first_chid..pages.first_chid.saturating_add(pages.slots);
        for channel in books.channels.iter_mut() {
            if channel.client == client && range.contains(&channel.chid.get()) {
                channel.mappings = channel.mappings.saturating_sub(1);
            }
        }
        books.channels.retain(|channel| channel.mappings != 0);
        books.forget_gone_clients();
        drop(books);
        self.channels_changed();
    }

    /// Notes that an RM object has been freed: a channel, its device or its RM client.
    pub(super) fn freed(&self, via: usize, root: u32, object: u32) {
        self.drop_channels(|handles| {
            handles.via == via
                && handles.client == root
                && (object == root || object == handles.device || object == handles.object)
        });
    }

    /// Notes that a file is closed, and with it the RM clients that it had.
    pub(super) fn rm_closed(&self, via: usize) {
        self.drop_channels(|handles| handles.via == via);
    }

    fn drop_channels(&self, is_gone: impl Fn(&Handles) -> bool) {
        let mut books = self.books.lock();
        let before = books.channels.len();
        books
            .channels
            .retain(|channel| !channel.handles.as_ref().is_some_and(&is_gone));
        if books.channels.len() == before {
            return;
        }
        books.forget_gone_clients();
        drop(books);
        self.channels_changed();
    }

    /// Tells the main thread that channels came or went.
    fn channels_changed(&self) {
        let mut books = self.books.lock();
        // CAST: at most 4096 channels exist.
        let allocated = books.channels.len() as u32;
        books.engine.channels_changed(ffi::now(), allocated);
        drop(books);
        self.ring();
    }
}

/// Refuses chips whose submission registers cannot be revoked yet.
fn check_chip(index: usize, chip: Chip) -> Result<Chip> {
    if chip.userd_slot.is_none() {
        pr_err!(
            "gpu {index}: chip {:#x} submits through a doorbell, which LoGA does not follow yet; want Kepler to Pascal\n",
            chip.chipset.get()
        );
        return Err(EOPNOTSUPP);
    }
    Ok(chip)
}

impl Books {
    fn new(engine: Engine, chip: Option<Chip>) -> Self {
        Self {
            engine,
            clients: KVec::new(),
            owners: KVec::new(),
            channels: KVec::new(),
            chip,
            totals: Totals::default(),
            revoke_took: Latencies::new(),
            restore_took: Latencies::new(),
            next_id: 1,
            mappings: 0,
            open_files: 0,
            unmanaged: 0,
        }
    }

    /// Position of the calling process among the clients, made if there is none.
    fn client_of_caller(&mut self) -> Result<usize> {
        // SAFETY: Process context; returns the caller's thread group with a reference.
        let pid = NonNull::new(unsafe { ffi::loga_current_tgid() }).ok_or(ESRCH)?;
        let pid = Process(pid);
        if let Some(at) = self.owners.iter().position(|owner| owner.pid.0 == pid.0) {
            return Ok(at);
        }
        let mut comm = [0; uapi::COMM_LEN];
        // SAFETY: The buffer has the length that the function fills.
        unsafe { ffi::loga_leader_comm(comm.as_mut_ptr()) };
        let owner = Owner {
            pid,
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
        self.owners.push(owner, GFP_KERNEL)?;
        let id = ClientId::new(self.next_id);
        self.next_id = self.next_id.saturating_add(1);
        let vtime = self.engine.start_vtime();
        self.clients
            .push(ClientState::new(id, Weight::DEFAULT, vtime), GFP_KERNEL)?;
        Ok(self.clients.len().saturating_sub(1))
    }

    fn add_channels(&mut self, pages: Pages, client: ClientId, handles: Option<Handles>) -> Result {
        self.channels.reserve(pages.slots.into(), GFP_KERNEL)?;
        let range = pages.first_chid..pages.first_chid.saturating_add(pages.slots);
        for chid in range.filter_map(Chid::new) {
            // A hardware id that is mapped again by another process has a new owner.
            self.channels
                .retain(|old| old.chid != chid || old.client == client);
            match self.channels.iter_mut().find(|old| old.chid == chid) {
                Some(old) => old.mappings = old.mappings.saturating_add(1),
                None => self.channels.push(
                    ChannelRecord {
                        chid,
                        client,
                        owner: None,
                        mappings: 1,
                        handles,
                        measured: Ns::ZERO,
                        runs: 0,
                    },
                    GFP_KERNEL,
                )?,
            }
        }
        self.channels.sort_unstable_by_key(|channel| channel.chid);
        Ok(())
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
            let _ = self.clients.remove(at);
            if let Ok(owner) = self.owners.remove(at) {
                owner.gate.restore();
            }
        }
    }

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
            // SAFETY: The owner holds a reference on the process.
            pid: unsafe { bindings::pid_vnr(owner.pid.0.as_ptr()) },
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
            reserved: 0,
            measured_ns: owner.measured.get(),
            gpu_time_ns: owner.estimated.get(),
            entitled_ns: owner.entitled.get(),
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
