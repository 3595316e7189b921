// SPDX-License-Identifier: GPL-2.0

//! [glue] One GPU: its threads, its files, and what is told to its books.
//!
//! | file | contents |
//! |---|---|
//! | `bar` | the GPUs of this machine and their registers |
//! | `presence` | whether registers may be read, and whether the GPU answers |
//! | `books` | its clients, their pages and their time |
//! | `holdings` | pages that are mapped, unmapped and freed, and their gates |
//! | `gate` | takes a page away, and gives it back |
//! | `main_thread` | sleeps until the engine wants something, and carries it out |
//! | `poller`, `shared_poller` | the status word in polling phases: a thread for each GPU, or one for all |
//! | `sampler` | the status word at random instants: a timer |
//! | `watch` | what policies are told beside the time that clients used |
//! | `knobs` | changing what a GPU is set to |

pub(crate) mod bar;
pub(crate) mod books;
pub(crate) mod gate;
pub(crate) mod holdings;
mod knobs;
mod main_thread;
mod poller;
pub(crate) mod presence;
mod sampler;
pub(crate) mod shared_poller;
mod watch;

use self::bar::{Address, Bar0, Found};
use self::books::Books;
use self::main_thread::Scheduler;
use self::poller::{Phase, Poller};
use self::presence::Absence;
use self::sampler::Lent;
use self::shared_poller::SharedPoller;
use crate::engine::Engine;
use crate::glue::control::params::{describe_chip, refuse_chip, Settings};
use crate::glue::kernel::ffi;
use crate::glue::kernel::process::Process;
use crate::glue::kernel::thread::{Ringer, Thread};
use crate::regs;
use crate::track::pages::page_of;
use crate::track::submission;
use core::ops::Range;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, Mutex};
use kernel::time::hrtimer::HrTimer;

/// What stands for an unknown minor.
const NO_MINOR: u32 = u32::MAX;

/// One GPU.
#[pin_data]
pub(crate) struct Gpu {
    pub(crate) index: usize,
    pub(crate) bar0: Bar0,
    pub(crate) bar1: Range<u64>,
    pub(crate) address: Address,
    pub(crate) settings: Settings,
    #[pin]
    pub(crate) books: Mutex<Books>,
    /// Of callers that may not read everything, one at a time looks at the books. Before `books`.
    #[pin]
    pub(crate) readers: Mutex<()>,
    /// What the poller has while it polls. Who has the books may lock it only after
    /// `stop_polling`, which nobody else can set then.
    #[pin]
    pub(crate) phase: Mutex<Phase>,
    /// Sets off the looks of sparse accounting; the phase has its handle.
    #[pin]
    pub(crate) timer: HrTimer<Self>,
    /// What the timer's callback works with.
    pub(crate) lent: Lent,
    /// 1: the poller shall end its phase.
    pub(crate) stop_polling: Atomic<u32>,
    /// 1: the device answered with all ones.
    pub(crate) lost: Atomic<u32>,
    /// Whether registers may be read, see `presence`.
    pub(crate) absence: Absence,
    /// N of its `/dev/nvidiaN`, or `NO_MINOR`.
    minor: Atomic<u32>,
    /// Where submission slots begin in BAR1, plus one, when that was read last.
    userd: Atomic<u64>,
    /// 1: RM objects were freed, channels perhaps among them.
    pub(crate) freed: Atomic<u32>,
    /// Clients that are throttled.
    pub(crate) throttled: Atomic<u32>,
    /// Faults that waited past their bound and let the client pass.
    pub(crate) overruns: Atomic<u64>,
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
    pub(crate) fn number(&self) -> u32 {
        // CAST: at most 16 GPUs are looked after.
        self.index as u32
    }

    /// Starts to look after a GPU: both threads, asleep. May sleep.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for a chip that LoGA does not follow, which is said in one line; `ENOMEM`. A
    /// GPU that is asleep is looked at when it is opened.
    pub(crate) fn start(
        index: usize,
        found: Found,
        settings: &Settings,
        shared: Option<Arc<SharedPoller>>,
    ) -> Result<Arc<Self>> {
        let chip = match found.chip {
            Ok(chip) => Some(chip),
            Err(regs::Error::DeviceGone) => {
                pr_info!("{}: gpu {index}, asleep\n", found.address);
                None
            }
            Err(cause) => {
                refuse_chip(&found.address, &cause);
                return Err(EOPNOTSUPP);
            }
        };
        let number = u32::try_from(index)?;
        let engine = Engine::new(settings.engine, ffi::random()).map_err(|_| EINVAL)?;
        let gpu = Arc::pin_init(
            try_pin_init!(Self {
                index,
                bar0: found.bar0,
                bar1: found.bar1,
                address: found.address,
                settings: *settings,
                books <- new_mutex!(Books::new(number, engine, chip)?),
                readers <- new_mutex!(()),
                phase <- new_mutex!(Phase::new()?),
                timer <- HrTimer::new(),
                lent: Lent::new(),
                stop_polling: Atomic::new(0),
                lost: Atomic::new(0),
                absence: Absence::of_new(),
                minor: Atomic::new(found.minor.unwrap_or(NO_MINOR)),
                userd: Atomic::new(0),
                freed: Atomic::new(0),
                throttled: Atomic::new(0),
                overruns: Atomic::new(0),
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
        if let Some(chip) = &chip {
            describe_chip(&gpu, chip);
        }
        Ok(gpu)
    }

    /// N of its `/dev/nvidiaN`, if that is known.
    pub(crate) fn minor(&self) -> Option<u32> {
        Some(self.minor.load(Relaxed)).filter(|minor| *minor != NO_MINOR)
    }

    /// Notes what the driver says of its minor.
    pub(crate) fn set_minor(&self, minor: Option<u32>) {
        self.minor.store(minor.unwrap_or(NO_MINOR), Relaxed);
    }

    /// A processor has come back: its poller belongs there.
    pub(crate) fn bind_again(&self, cpu: u32) {
        if let Some(Threads { poller, .. }) = self.threads.lock().as_ref() {
            poller.iter().for_each(|poller| poller.bind_again(cpu));
        }
    }

    /// Ends both threads and lets everybody run. May sleep.
    pub(crate) fn stop(&self) {
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
        self.books.lock().release_all(self, ffi::now());
        self.turn_gates();
    }

    /// Wakes the main thread.
    pub(crate) fn ring(&self) {
        if let Some(threads) = self.threads.lock().as_ref() {
            threads.scheduler.ring();
        }
    }

    /// A way to wake the main thread from any context.
    pub(crate) fn main_ringer(&self) -> Option<Ringer> {
        let threads = self.threads.lock();
        threads.as_ref().map(|threads| threads.scheduler.ringer())
    }

    /// Wakes the poller.
    pub(crate) fn ring_poller(&self) {
        if let Some(threads) = self.threads.lock().as_ref() {
            match (&threads.poller, &self.shared) {
                (Some(poller), _) => poller.ring(),
                (None, Some(shared)) => shared.ring(),
                (None, None) => {}
            }
        }
    }

    /// Whether a polling phase may begin now. If not, the main thread is rung when it may.
    pub(crate) fn take_turn(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_none_or(|shared| shared.take_turn(self.index))
    }

    /// Lets another GPU have its polling phase.
    pub(crate) fn end_turn(&self) {
        if let Some(shared) = &self.shared {
            shared.end_turn(self.index);
        }
    }

    /// The pages of submission slots that a physical range touches: the first one's number, and
    /// how many.
    pub(crate) fn submission_pages(&self, physical: u64, len: u64) -> Option<(u16, u16)> {
        let mut books = self.books.lock();
        books.detect(self);
        let chip = books.chip?;
        let base = self.userd_base()?;
        drop(books);
        let range = submission::classify(
            physical,
            len,
            self.bar1.clone(),
            base,
            chip.userd_slot?,
            chip.channels,
        )?;
        let (first, last) = (page_of(range.first), page_of(range.last()));
        Some((first, last.saturating_sub(first).saturating_add(1)))
    }

    /// Where submission slots begin in BAR1: as the GPU says, or said before it went away. To be
    /// called with the books locked.
    fn userd_base(&self) -> Option<u64> {
        if self.is_away() {
            return self.userd.load(Relaxed).checked_sub(1);
        }
        let base = regs::userd_base(&self.bar0)?;
        self.userd.store(base.saturating_add(1), Relaxed);
        Some(base)
    }

    pub(crate) fn has_mappings(&self) -> bool {
        self.books.lock().mappings != 0
    }

    pub(crate) fn file_opened(&self) {
        let mut books = self.books.lock();
        books.open_files = books.open_files.saturating_add(1);
        // A GPU that was asleep answers now.
        books.ask_whether_back(self, ffi::now());
    }

    /// Notes that a file is closed, and by which process it was opened.
    pub(crate) fn file_closed(&self, opener: Option<&Process>) {
        let mut books = self.books.lock();
        books.open_files = books.open_files.saturating_sub(1);
        if let Some(at) = opener.and_then(|opener| books.find_process(opener)) {
            books.look_after(at);
        }
    }

    pub(crate) fn file_unmanaged(&self) {
        let mut books = self.books.lock();
        books.unmanaged = books.unmanaged.saturating_add(1);
        books.open_files = books.open_files.saturating_add(1);
    }

    /// Notes a mapping of a submission page that LoGA does not follow, by a failure of its own.
    pub(crate) fn mapping_unmanaged(&self) {
        let mut books = self.books.lock();
        books.unmanaged_mappings = books.unmanaged_mappings.saturating_add(1);
    }

    /// Tells the main thread that something was set: a decision is due.
    pub(crate) fn settings_changed(&self) {
        self.books.lock().state.engine.decide_soon(ffi::now());
        self.ring();
    }
}
