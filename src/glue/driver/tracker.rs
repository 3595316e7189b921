// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Follows the driver's files and RM calls; `takeover` follows its mappings.

use super::files::{FileRecord, Files, Space};
use super::minors;
use super::operations::Driver;
use crate::glue::control::params::{self, Settings};
use crate::glue::gpu::books::UsedBy;
use crate::glue::gpu::claims::ClaimTable;
use crate::glue::gpu::device::absence::{self, Away};
use crate::glue::gpu::device::bar::{self, Found};
use crate::glue::gpu::kept::Kept;
use crate::glue::gpu::polling::shared_poller::SharedPoller;
use crate::glue::gpu::Gpu;
use crate::glue::kernel::ffi::{self, Card, MAX_GPUS};
use crate::glue::kernel::pi_mutex::{new_pi_mutex, PiMutex};
use crate::glue::kernel::process::Process;
use crate::glue::kernel::refusals::refuse;
use crate::glue::kernel::user_queues::UserQueues;
use crate::knobs::Poller;
use crate::track::call::Call;
use core::ptr::NonNull;
use kernel::alloc::flags::GFP_KERNEL_ACCOUNT;
use kernel::bindings;
use kernel::prelude::*;
use kernel::rbtree::RBTreeNodeReservation;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, SetOnce};

/// Minor number of the control node.
const CONTROL_MINOR: u32 = 255;

/// Follows the files of one attachment.
#[pin_data]
pub(crate) struct Tracker {
    gpus: Gpus,
    /// The claims on all GPUs.
    pub(crate) claims: Arc<ClaimTable>,
    #[pin]
    pub(super) files: PiMutex<Files>,
    /// Where callers wait that read the table of files. Taken before `files`.
    #[pin]
    readers: UserQueues,
    /// Where callers wait that open and close files. Taken before `files`.
    #[pin]
    openers: UserQueues,
}

/// GPUs that LoGA follows; dropping it ends their threads.
struct Gpus {
    /// Filled from the first on: readers need no lock, and no GPU is taken out.
    followed: [SetOnce<Arc<Gpu>>; MAX_GPUS],
    shared: Option<Arc<SharedPoller>>,
    /// GPUs of the driver that LoGA does not follow.
    refused: Atomic<u32>,
}

impl Gpus {
    fn iter(&self) -> impl Iterator<Item = &Arc<Gpu>> + Clone {
        self.followed.iter().map_while(SetOnce::as_ref)
    }

    /// Follows a GPU, with what is in `kept` of it. Called by one thread at a time. May sleep.
    ///
    /// # Errors
    ///
    /// As [`Gpu::start`]; `ENOSPC`: [`MAX_GPUS`] are followed already.
    fn add(
        &self,
        found: Found,
        settings: &Settings,
        claims: &Arc<ClaimTable>,
        kept: &[Kept],
    ) -> Result {
        let index = self.iter().count();
        let slot = self.followed.get(index).ok_or(ENOSPC)?;
        let (shared, claims) = (self.shared.clone(), claims.clone());
        let kept = kept.iter().find(|kept| kept.is_of(found.address));
        let gpu = Gpu::start(index, found, settings, shared, claims, kept)?;
        slot.populate(gpu);
        Ok(())
    }

    /// Ends all threads. May sleep.
    fn stop(&self) {
        self.iter().for_each(|gpu| gpu.stop());
        if let Some(shared) = &self.shared {
            shared.stop();
        }
    }
}

/// Memory for the record of a file that is being opened.
pub(super) struct Opening {
    node: RBTreeNodeReservation<usize, FileRecord>,
    /// For a driver that gives its files no address space of their own.
    space: Option<KBox<Space>>,
}

/// What `fdinfo` of a file shows.
pub(super) struct Usage {
    pub(crate) address: bar::Address,
    /// Number and times of the client, if the process is one.
    pub(crate) client: Option<UsedBy>,
}

impl Drop for Gpus {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Tracker {
    /// Finds the GPUs and starts their threads; `kept`: what stayed of them when LoGA was detached. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the driver has no GPU, `EOPNOTSUPP` if LoGA follows none of them, `ENOMEM`.
    pub(super) fn start(settings: &Settings, driver: &Driver, kept: &[Kept]) -> Result<Arc<Self>> {
        let shared = match settings.config.poller {
            Poller::PerGpu => None,
            Poller::Shared => {
                let cpu = settings.poller_cpus.first().copied().flatten();
                Some(SharedPoller::start(cpu)?)
            }
        };
        let gpus = Gpus {
            followed: [const { SetOnce::new() }; MAX_GPUS],
            shared,
            refused: Atomic::new(0),
        };
        let found = minors::numbered(bar::find_gpus(driver.owner(), |_| false)?, &driver.cards());
        let claims = ClaimTable::new(found.len())?;
        let mut refused = 0u32;
        for found in found {
            match gpus.add(found, settings, &claims, kept) {
                Ok(()) => {}
                Err(error) if error == ffi::not_supported() => refused = refused.saturating_add(1),
                Err(error) => return Err(error),
            }
        }
        if gpus.iter().next().is_none() {
            refuse(fmt!(
                "module {} drives no GPU that LoGA follows",
                driver.name()
            ));
            return Err(if refused == 0 {
                ENODEV
            } else {
                ffi::not_supported()
            });
        }
        gpus.refused.store(refused, Relaxed);
        Arc::pin_init(
            pin_init!(Self {
                gpus,
                claims,
                files <- new_pi_mutex!(Files::new()),
                readers <- UserQueues::new(),
                openers <- UserQueues::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// All GPUs, by index.
    pub(crate) fn gpus(&self) -> impl Iterator<Item = &Arc<Gpu>> + Clone {
        self.gpus.iter()
    }

    /// The GPU with this index.
    pub(crate) fn gpu(&self, index: usize) -> Option<&Arc<Gpu>> {
        self.gpus.followed.get(index)?.as_ref()
    }

    /// How many GPUs of the driver LoGA does not follow; the log says why.
    pub(crate) fn refused(&self) -> u32 {
        self.gpus.refused.load(Relaxed)
    }

    /// GPUs that the driver has and that LoGA does not follow: those that were not there when it
    /// attached, and those that it refused. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn find_new(&self, driver: &Driver) -> Result<KVec<Found>> {
        let is_known = |device| self.gpus().any(|gpu| gpu.device.bar0.is_of(device));
        bar::find_gpus(driver.owner(), is_known)
    }

    /// Follows GPUs that were found later, with the parameters as they are now, and does `then` with
    /// each. Called by one thread at a time. May sleep. Failures are logged and counted.
    pub(super) fn follow(
        &self,
        found: KVec<Found>,
        cards: &[Card],
        mut then: impl FnMut(&Arc<Gpu>),
    ) {
        let mut refused = 0u32;
        for found in found {
            let address = found.address;
            let index = self.gpus().count();
            if let Err(error) = self.follow_one(found, cards) {
                // `refuse_chip` has said it.
                if error != ffi::not_supported() {
                    refuse(fmt!("{address}: not followed: {error:?}"));
                }
                refused = refused.saturating_add(1);
            }
            if let Some(gpu) = self.gpu(index) {
                // Notifiers did not find it before.
                if absence::machine_sleeps() {
                    gpu.go_away(Away::Asleep);
                }
                then(gpu);
            }
        }
        self.gpus.refused.store(refused, Relaxed);
    }

    /// # Errors
    ///
    /// As [`Gpus::add`]; `ENXIO`: the driver does not say which node is this GPU's.
    fn follow_one(&self, mut found: Found, cards: &[Card]) -> Result {
        found.minor = Some(minors::of(&found.address, cards).ok_or(ENXIO)?);
        self.claims
            .make_room(self.gpus().count().saturating_add(1))?;
        self.gpus.add(found, &params::read()?, &self.claims, &[])
    }

    /// Marks GPUs as away that are not bound to the driver's module.
    pub(super) fn drop_unbound(&self, owner: *const bindings::module) {
        for gpu in self.gpus() {
            if !gpu.device.bar0.is_bound_to(owner) {
                gpu.go_away(Away::Unbound);
            }
        }
    }

    /// Follows GPUs again that the driver has again, and stores the minors that it gave them.
    pub(super) fn retake_bound(&self, owner: *const bindings::module, cards: &[Card]) {
        for gpu in self.gpus() {
            let is_bound = gpu.device.bar0.is_bound_to(owner);
            if !cards.is_empty() {
                // A card that was removed and found anew is another GPU at the same address.
                let minor = minors::of(&gpu.device.address, cards).filter(|_| is_bound);
                gpu.device.set_minor(minor);
            }
            if gpu.device.is_away_for(Away::Unbound) && is_bound {
                gpu.come_back(Away::Unbound);
                pr_info!("{}: followed again\n", gpu.device.address);
            }
        }
    }

    /// A processor is online again: moves the pollers that are bound to it back.
    pub(super) fn cpu_came(&self, cpu: u32) {
        for gpu in self.gpus() {
            gpu.bind_again(cpu);
        }
        if let Some(shared) = &self.gpus.shared {
            shared.bind_again(cpu);
        }
    }

    /// The GPU whose node has this minor.
    pub(super) fn gpu_of_minor(&self, minor: u32) -> Option<usize> {
        let is_bound = |gpu: &Arc<Gpu>| !gpu.device.is_away_for(Away::Unbound);
        let has = |gpu: &Arc<Gpu>| gpu.device.minor() == Some(minor) && is_bound(gpu);
        self.gpus().position(has)
    }

    /// Notes that it is not.
    pub(super) fn reopen(&self) {
        self.files.lock().closed = false;
    }

    /// Checks that no mapping and no address space has come since [`close`](Self::close).
    ///
    /// # Errors
    ///
    /// `EBUSY`.
    pub(super) fn is_closed(&self) -> Result {
        if self.files.lock().closed {
            Ok(())
        } else {
            Err(EBUSY)
        }
    }

    /// Notes that LoGA is about to leave the driver.
    ///
    /// # Errors
    ///
    /// `EBUSY` while an address space or a mapping of LoGA is in use; nothing has changed then.
    pub(super) fn close(&self) -> Result {
        let mut files = self.files.lock();
        if files.adopted != 0 || self.gpus().any(|gpu| gpu.has_mappings()) {
            return Err(EBUSY);
        }
        files.closed = true;
        Ok(())
    }

    /// What is to stay of the GPUs, whose threads have ended. May sleep.
    pub(super) fn keep(&self) -> KVec<Kept> {
        let mut all = KVec::new();
        for gpu in self.gpus() {
            let kept = Kept::of(gpu).and_then(|kept| Ok(all.push(kept, GFP_KERNEL)?));
            if let Err(error) = kept {
                let address = gpu.device.address;
                pr_warn!("{address}: what was set and counted is forgotten: {error:?}\n");
            }
        }
        all
    }

    /// Ends the threads. After this no register is read. May sleep.
    pub(crate) fn stop(&self) {
        self.gpus.stop();
    }

    /// Whether the caller may not open this file, which is being opened: a GPU that is denied to
    /// one of its cgroups or its user.
    pub(super) fn denies(&self, file: *mut bindings::file) -> bool {
        // SAFETY: The VFS has set the inode of the file.
        let minor = unsafe { ffi::loga_file_minor(file) };
        let gpu = self.gpu_of_minor(minor).and_then(|at| self.gpu(at));
        // LoGA fails open: a caller without an identity is let through.
        let caller = || Process::of_caller().ok()?.identity();
        gpu.is_some_and(|gpu| caller().is_some_and(|identity| gpu.denies(&identity)))
    }

    /// Memory for the record of a file, allocated before the driver opens it: without memory there
    /// is nothing to undo then.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn room_for(&self, file: *mut bindings::file) -> Result<Opening> {
        // SAFETY: The VFS has set the inode of the file.
        let minor = unsafe { ffi::loga_file_minor(file) };
        let is_control = minor == CONTROL_MINOR;
        Ok(Opening {
            node: RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?,
            space: (!is_control).then(Space::new).transpose()?,
        })
    }

    /// Records that the driver has opened a file.
    pub(super) fn opened(&self, file: *mut bindings::file, room: Opening) {
        // SAFETY: The driver's `open` has just succeeded on this file.
        let minor = unsafe { ffi::loga_file_minor(file) };
        let index = self.gpu_of_minor(minor);
        if index.is_none() && minor != CONTROL_MINOR {
            return;
        }
        // SAFETY: As above.
        let wants_space = index.is_some() && unsafe { ffi::loga_shares_inode_mapping(file) };
        let space = room.space.filter(|_| wants_space);
        let record = FileRecord {
            gpu: index,
            managed: !wants_space || space.is_some(),
            opener: Process::of_caller().ok(),
            allocator: None,
            space: None,
        };
        let node = room.node.into_node(file as usize, record);
        // `closed` undoes this count when it gets the record.
        if let Some(gpu) = index.and_then(|index| self.gpu(index)) {
            gpu.file_opened();
        }
        let _first = self.openers.enter();
        let mut files = self.files.lock();
        files.open.insert(node);
        if let Some(space) = space {
            // A detach that has begun gives up.
            files.closed = false;
            files.adopt(file, space);
        }
    }

    pub(super) fn closing(&self, file: *mut bindings::file) -> Option<FileRecord> {
        let _first = self.openers.enter();
        self.files.lock().forget(file)
    }

    /// Records that a file is closed, after the driver's `release`.
    pub(super) fn closed(&self, file: *mut bindings::file, record: Option<FileRecord>) {
        let Some(record) = record else {
            return;
        };
        if let Some(space) = record.space {
            // SAFETY: The file is being released: no area uses it, and no other thread can.
            unsafe { ffi::loga_return_mapping(file) };
            drop(space);
            let mut files = self.files.lock();
            files.adopted = files.adopted.saturating_sub(1);
            drop(files);
            // SAFETY: The reference from `adopt`; `detach` waits for this call to return.
            unsafe { bindings::module_put(crate::this_module()) };
        }
        match record.gpu.and_then(|index| self.gpu(index)) {
            Some(gpu) => gpu.file_closed(record.opener.as_ref()),
            // The driver has freed the RM clients of the control file.
            None => self.gpus().for_each(|gpu| gpu.control_closed()),
        }
    }

    /// What the process that opened a file used of a GPU, on that GPU.
    /// Callers without privileges wait for each other first, not in the queues for the table of files
    /// and for the books, where opens wait. `None` too if a signal comes meanwhile. May sleep.
    pub(super) fn usage(&self, file: *mut bindings::file, all: bool) -> Option<Usage> {
        let (index, process) = {
            let enter = || self.readers.enter_interruptibly();
            let _first = (!all).then(enter).transpose().ok()?;
            let files = self.files.lock();
            let record = files.open.get(&(file as usize))?;
            (record.gpu?, record.opener.clone()?)
        };
        let gpu = self.gpu(index)?;
        let _first = (!all).then(|| gpu.enter_as_reader()).transpose().ok()?;
        Some(Usage {
            address: gpu.device.address,
            client: gpu.brief_books().used_by(&process),
        })
    }

    /// The caller may have allocated a channel through a file, whatever its argument says. May sleep.
    pub(super) fn may_have_allocated(&self, file: *mut bindings::file) {
        let allocator = {
            let files = self.files.lock();
            let record = files.open.get(&(file as usize));
            record.and_then(|record| {
                record
                    .allocator
                    .as_ref()
                    .or(record.opener.as_ref())
                    .cloned()
            })
        };
        for gpu in self.gpus() {
            gpu.doubt_copies(allocator.as_ref());
        }
    }

    /// Records an RM call that the driver has answered, by the argument read before the call.
    pub(super) fn called(&self, file: *mut bindings::file, call: &Call) {
        match *call {
            Call::Alloc => {
                if let Ok(caller) = Process::of_caller() {
                    self.files.lock().note_allocator(file, caller);
                }
            }
            Call::MapMemory { fd: Some(fd) } => {
                // SAFETY: Process context. CAST: file descriptors are not negative; -1 becomes
                // one that is not open.
                let Some(prepared) = NonNull::new(unsafe { bindings::fget(fd as c_uint) }) else {
                    return;
                };
                self.files.lock().note_prepared(file, prepared.as_ptr());
                // SAFETY: The reference from `fget`.
                unsafe { bindings::fput(prepared.as_ptr()) };
            }
            Call::MapMemory { fd: None } => {}
            // Channels may have been freed: the next decision reads their pages again.
            Call::Free => self.gpus().for_each(|gpu| gpu.freed.store(1, Relaxed)),
        }
    }
}
