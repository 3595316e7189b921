// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Starts and ends following a GPU, and suspends it while the GPU is away.

use super::books::Books;
use super::claims::ClaimTable;
use super::device::absence::Away;
use super::device::bar::Found;
use super::device::{refuse_chip, Device};
use super::kept::Kept;
use super::polling::latencies::Took;
use super::polling::main_thread::Scheduler;
use super::polling::phase::PollingPhase;
use super::polling::poller::Poller;
use super::polling::shared_poller::SharedPoller;
use super::{Gpu, Threads};
use crate::engine::Engine;
use crate::glue::control::params::Settings;
use crate::glue::engaged::completion::CompletionThread;
use crate::glue::engaged::scheduler::{Engaged, EngagedRoom};
use crate::glue::kernel::ffi;
use crate::glue::kernel::pi_mutex::new_pi_mutex;
use crate::glue::kernel::thread::Thread;
use crate::glue::kernel::user_queues::UserQueues;
use crate::knobs::Config;
use crate::regs::{self, Chip};
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed, Release};
use kernel::sync::{Arc, SetOnce};

impl Gpu {
    /// Starts to follow a GPU, with what was `kept` of it: starts both threads, which sleep at first. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for a chip that LoGA does not follow, logged in one line; `ENOMEM`. The chip
    /// of a GPU that is asleep is detected when the GPU is opened.
    pub(crate) fn start(
        index: usize,
        found: Found,
        settings: &Settings,
        shared: Option<Arc<SharedPoller>>,
        claims: Arc<ClaimTable>,
        kept: Option<&Kept>,
    ) -> Result<Arc<Self>> {
        let config = kept.map_or(&settings.config, Kept::knobs);
        let chip = match found.chip {
            Ok(chip) => Some(chip),
            Err(regs::Error::DeviceGone) => {
                pr_info!("{}: gpu {index}, asleep\n", found.address);
                None
            }
            Err(cause) => {
                refuse_chip(&found.address, &cause);
                return Err(ffi::not_supported());
            }
        };
        let device = Arc::new(Device::new(index, found), GFP_KERNEL)?;
        let number = device.number();
        let engaged = Engaged::new()?;
        let gpu = Self::new(device, settings, config, engaged, shared, claims, chip)?;
        let scheduler = Arc::new(Scheduler(gpu.clone()), GFP_KERNEL)?;
        let scheduler = Thread::spawn(c"loga-main/%u", number, scheduler, None)?;
        let completion = Arc::new(CompletionThread(gpu.clone()), GFP_KERNEL)?;
        let completion = Thread::spawn(c"loga-watch/%u", number, completion, None)?;
        if let Some(kind) = config.dispatch {
            let room = EngagedRoom::new(kind)?;
            gpu.engaged.engage(room, Some(completion.waker()));
            gpu.engaged.set_linger(config);
        }
        gpu.caution(config);
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
        gpu.main.populate(scheduler.waker());
        *gpu.threads.lock() = Some(Threads {
            scheduler,
            completion,
            poller,
        });
        if let Some(chip) = &chip {
            gpu.device.describe_chip(chip);
        }
        if let Some(kept) = kept {
            gpu.put_back(kept);
        }
        Ok(gpu)
    }

    /// A GPU without threads. Its parts are large: each is made in a function of its own, whose stack
    /// is free again when the next one is made (`tests/vm/frames`).
    #[inline(never)]
    fn new(
        device: Arc<Device>,
        settings: &Settings,
        config: &Config,
        engaged: Arc<Engaged>,
        shared: Option<Arc<SharedPoller>>,
        claims: Arc<ClaimTable>,
        chip: Option<Chip>,
    ) -> Result<Arc<Self>> {
        let engine = Engine::new(*config, ffi::random()).map_err(|_| EINVAL)?;
        let books = Books::new(device.clone(), engine, chip, engaged.clone())?;
        let took = Took::new()?;
        let phase = PollingPhase::new(device.clone())?;
        let depth = books.state.shares.depth();
        Arc::pin_init(
            pin_init!(Self {
                device,
                settings: *settings,
                engaged,
                claims,
                took <- new_pi_mutex!(took),
                books <- new_pi_mutex!(books),
                readers <- UserQueues::new(),
                openers <- UserQueues::new(),
                phase <- new_mutex!(phase),
                stop_polling: Atomic::new(0),
                freed: Atomic::new(0),
                cgroup_depth: Atomic::new(depth),
                throttled: Atomic::new(0),
                stuck: Atomic::new(0),
                overruns: Atomic::new(0),
                shared,
                main: SetOnce::new(),
                threads <- new_mutex!(None),
            }),
            GFP_KERNEL,
        )
    }

    /// Ends both threads and lets all clients run. May sleep.
    pub(crate) fn stop(&self) {
        self.engaged.disengage();
        let threads = self.threads.lock().take();
        if let Some(Threads {
            scheduler,
            completion,
            poller,
        }) = threads
        {
            drop(completion);
            // The main thread first: it may be waiting for the poller.
            drop(scheduler);
            self.stop_polling.store(1, Relaxed);
            drop(poller);
            // Cancels the timer, which reads registers.
            self.phase.lock().conclude();
            self.release_permit();
        }
        self.release_all(&mut self.books.lock(), ffi::now());
        self.update_gates();
    }

    /// Stops all register reads and lets all clients run. Claims on a GPU that its driver loses
    /// end. True if the GPU was not away for this reason before. May sleep.
    pub(crate) fn go_away(&self, why: Away) -> bool {
        let before = self.device.absence.reason(why).xchg(1, Full);
        self.stop_polling.store(1, Relaxed);
        // Waits for the poller, and cancels the timer.
        self.phase.lock().conclude();
        // Waits for its readers.
        self.engaged.suspend();
        // Waits for the main thread and all other readers.
        self.release_all(&mut self.books.lock(), ffi::now());
        self.update_gates();
        if matches!(why, Away::Unbound) {
            self.claims.forget_gpu(self.device.number());
        }
        self.wake();
        before == 0
    }

    /// Removes this reason; follows the GPU again if no other one is left.
    pub(crate) fn come_back(&self, why: Away) {
        self.device.absence.reason(why).store(0, Release);
        self.wake();
    }
}
