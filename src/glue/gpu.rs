// SPDX-License-Identifier: GPL-2.0

//! [glue] One GPU: its threads, its files, and what is told to its books.

use super::bar::{Address, Bar0, Found};
use super::books::{Books, Handles};
use super::ffi;
use super::gate::{Gate, Pages};
use super::looks::Lent;
use super::params::{refuse_chip, Settings};
use super::poller::{Phase, Poller};
use super::scheduler::Scheduler;
use super::shared_poller::SharedPoller;
use super::thread::{Ringer, Thread};
use crate::engine::Engine;
use crate::ids::ClientId;
use crate::regs::{self, Chip};
use crate::track::submission;
use core::ops::Range;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, Mutex};
use kernel::time::hrtimer::HrTimer;

/// One GPU.
#[pin_data]
pub(super) struct Gpu {
    pub(super) index: usize,
    pub(super) bar0: Bar0,
    pub(super) bar1: Range<u64>,
    pub(super) address: Address,
    pub(super) settings: Settings,
    #[pin]
    pub(super) books: Mutex<Books>,
    /// What the poller has while it polls. Who has the books may lock it only after
    /// `stop_polling`, which nobody else can set then.
    #[pin]
    pub(super) phase: Mutex<Phase>,
    /// Sets off the looks of sparse accounting; the phase has its handle.
    #[pin]
    pub(super) timer: HrTimer<Self>,
    /// What the timer's callback works with.
    pub(super) lent: Lent,
    /// 1: the poller shall end its phase.
    pub(super) stop_polling: Atomic<u32>,
    /// 1: the device answered with all ones.
    pub(super) lost: Atomic<u32>,
    /// The one poller of all GPUs, if they share one.
    shared: Option<Arc<SharedPoller>>,
    #[pin]
    threads: Mutex<Option<Threads>>,
}

struct Threads {
    scheduler: Thread,
    /// Nothing where the GPUs share one.
    poller: Option<Thread>,
}

impl Gpu {
    /// Its index, as events show it.
    pub(super) fn number(&self) -> u32 {
        // CAST: at most 16 GPUs are looked after.
        self.index as u32
    }

    /// Starts to look after a GPU: both threads, asleep. May sleep.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for a chip that LoGA does not know; `ENOMEM`. A GPU that is asleep is
    /// looked at when it is opened first.
    pub(super) fn start(
        index: usize,
        found: Found,
        settings: &Settings,
        shared: Option<Arc<SharedPoller>>,
    ) -> Result<Arc<Self>> {
        let chip = match regs::detect(&found.bar0) {
            Ok(chip) => Some(check_chip(index, chip)?),
            Err(regs::Error::DeviceGone) => None,
            Err(cause) => return Err(refuse_chip(index, &cause)),
        };
        let seed = ffi::now().get();
        let number = u32::try_from(index)?;
        let engine = Engine::new(settings.engine, seed).map_err(|_| EINVAL)?;
        let gpu = Arc::pin_init(
            try_pin_init!(Self {
                index,
                bar0: found.bar0,
                bar1: found.bar1,
                address: found.address,
                settings: *settings,
                books <- new_mutex!(Books::new(number, engine, chip)?),
                phase <- new_mutex!(Phase::new(seed)?),
                timer <- HrTimer::new(),
                lent: Lent::new(),
                stop_polling: Atomic::new(0),
                lost: Atomic::new(0),
                shared,
                threads <- new_mutex!(None),
            }? Error),
            GFP_KERNEL,
        )?;
        let scheduler = Arc::new(Scheduler(gpu.clone()), GFP_KERNEL)?;
        let scheduler = Thread::spawn(c"loga-main/%u", number, scheduler, None)?;
        let poller = match &gpu.shared {
            Some(shared) => {
                shared.add(gpu.clone())?;
                None
            }
            None => {
                let cpu = settings.poller_cpus.get(index).copied().flatten();
                let poller = Arc::new(Poller(gpu.clone()), GFP_KERNEL)?;
                Some(Thread::spawn(c"loga-poll/%u", number, poller, cpu)?)
            }
        };
        *gpu.threads.lock() = Some(Threads { scheduler, poller });
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
            // The timer holds a reference on this GPU.
            self.phase.lock().conclude(self);
            self.end_turn();
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

    /// A way to wake the main thread from any context.
    pub(super) fn main_ringer(&self) -> Option<Ringer> {
        let threads = self.threads.lock();
        threads.as_ref().map(|threads| threads.scheduler.ringer())
    }

    /// Wakes the poller.
    pub(super) fn ring_poller(&self) {
        if let Some(threads) = self.threads.lock().as_ref() {
            match (&threads.poller, &self.shared) {
                (Some(poller), _) => poller.ring(),
                (None, Some(shared)) => shared.ring(),
                (None, None) => {}
            }
        }
    }

    /// Whether a polling phase may begin now. If not, the main thread is rung when it may.
    pub(super) fn take_turn(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_none_or(|shared| shared.take_turn(self.index))
    }

    /// Lets another GPU have its polling phase.
    pub(super) fn end_turn(&self) {
        if let Some(shared) = &self.shared {
            shared.end_turn(self.index);
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
            books.loss_told = false;
        }
    }

    pub(super) fn file_closed(&self) {
        let mut books = self.books.lock();
        books.open_files = books.open_files.saturating_sub(1);
        books.forget_gone_clients();
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
            books.shares.members().get(at).ok_or(EINVAL)?.id(),
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
        books.drop_mapping(client, pages);
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
        books.keep_channels(|channel| !channel.handles.as_ref().is_some_and(&is_gone));
        if books.channels.len() == before {
            return;
        }
        books.forget_gone_clients();
        drop(books);
        self.channels_changed();
    }

    /// Tells the main thread that channels came or went, or that something was set: a decision
    /// is due.
    pub(super) fn channels_changed(&self) {
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
