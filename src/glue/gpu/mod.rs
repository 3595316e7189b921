// SPDX-License-Identifier: GPL-2.0

//! [glue] One GPU: its threads, its files, and what is told to its books.
//!
//! | file | contents |
//! |---|---|
//! | `bar` | the GPUs of this machine and their registers |
//! | `device`, `absence` | one of them, and whether its registers may be read |
//! | `presence` | a GPU that goes away and comes back, or stops answering |
//! | `books` | its clients, their pages and their time |
//! | `holdings` | pages that are mapped, unmapped and freed, and their gates |
//! | `gate` | takes a page away, and gives it back |
//! | `start` | its threads begin and end |
//! | `main_thread` | sleeps until the engine wants something, and carries it out |
//! | `phase` | what the poller works with, and what a polling phase leaves behind |
//! | `poller`, `shared_poller` | the status word in polling phases: a thread for each GPU, or one for all |
//! | `sampler` | the status word at random instants: a timer |
//! | `watch` | what policies are told beside the time that clients used |
//! | `latencies` | how long operations took |
//! | `knobs` | changing what a GPU is set to |

pub(crate) mod absence;
pub(crate) mod bar;
pub(crate) mod books;
mod device;
pub(crate) mod gate;
pub(crate) mod holdings;
mod knobs;
pub(super) mod latencies;
mod main_thread;
mod phase;
mod poller;
mod presence;
mod sampler;
pub(crate) mod shared_poller;
mod start;
mod watch;

use self::books::Books;
use self::device::Device;
use self::latencies::Took;
use self::phase::Phase;
use self::shared_poller::SharedPoller;
use crate::glue::control::params::Settings;
use crate::glue::kernel::ffi;
use crate::glue::kernel::process::Process;
use crate::glue::kernel::thread::{Ringer, Thread};
use crate::track::pages::page_of;
use crate::track::submission;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::{Arc, Mutex};

/// One GPU.
#[pin_data]
pub(crate) struct Gpu {
    /// Its registers, and whether they may be read.
    pub(crate) device: Arc<Device>,
    pub(crate) settings: Settings,
    #[pin]
    pub(crate) books: Mutex<Books>,
    /// What LoGA itself took. Nothing is locked inside it.
    #[pin]
    pub(crate) took: Mutex<Took>,
    /// Of callers that may not read everything, one at a time looks at the books. Before `books`.
    #[pin]
    pub(crate) readers: Mutex<()>,
    /// What the poller has while it polls. Who has the books may lock it only after
    /// `stop_polling`, which nobody else can set then.
    #[pin]
    pub(crate) phase: Mutex<Phase>,
    /// 1: the poller shall end its phase.
    pub(super) stop_polling: Atomic<u32>,
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
    /// A processor has come back: its poller belongs there.
    pub(crate) fn bind_again(&self, cpu: u32) {
        if let Some(Threads { poller, .. }) = self.threads.lock().as_ref() {
            poller.iter().for_each(|poller| poller.bind_again(cpu));
        }
    }

    /// Wakes the main thread.
    pub(crate) fn ring(&self) {
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
        shared.is_none_or(|shared| shared.take_turn(self.device.index))
    }

    /// Lets another GPU have its polling phase.
    pub(super) fn end_turn(&self) {
        if let Some(shared) = &self.shared {
            shared.end_turn(self.device.index);
        }
    }

    /// The pages of submission slots that a physical range touches: the first one's number, and
    /// how many.
    pub(crate) fn submission_pages(&self, physical: u64, len: u64) -> Option<(u16, u16)> {
        let mut books = self.books.lock();
        books.presence.detect(&self.device);
        let chip = books.presence.chip?;
        let base = self.device.userd_base()?;
        drop(books);
        let range = submission::classify(
            physical,
            len,
            self.device.bar1.clone(),
            base,
            chip.userd_slot?,
            chip.channels,
        )?;
        let (first, last) = (page_of(range.first), page_of(range.last()));
        Some((first, last.saturating_sub(first).saturating_add(1)))
    }

    pub(crate) fn has_mappings(&self) -> bool {
        self.books.lock().mappings != 0
    }

    pub(crate) fn file_opened(&self) {
        let mut books = self.books.lock();
        books.presence.open_files = books.presence.open_files.saturating_add(1);
        // A GPU that was asleep answers now.
        books.presence.ask_whether_back(&self.device, ffi::now());
    }

    /// Notes that a file is closed, and by which process it was opened.
    pub(crate) fn file_closed(&self, opener: Option<&Process>) {
        let mut books = self.books.lock();
        books.presence.open_files = books.presence.open_files.saturating_sub(1);
        if let Some(at) = opener.and_then(|opener| books.find_process(opener)) {
            books.look_after(at);
        }
    }

    pub(crate) fn file_unmanaged(&self) {
        let mut books = self.books.lock();
        books.unmanaged = books.unmanaged.saturating_add(1);
        books.presence.open_files = books.presence.open_files.saturating_add(1);
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
