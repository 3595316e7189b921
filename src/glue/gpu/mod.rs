// SPDX-License-Identifier: GPL-2.0

//! [glue] One GPU: its threads, its files and its books.
//!
//! | file | contents |
//! |---|---|
//! | `bar` | the GPUs of this machine and their registers |
//! | `device`, `absence` | one GPU, and whether its registers may be read |
//! | `presence` | a GPU that goes away and comes back, or stops answering |
//! | `books` | its clients, their pages and their time |
//! | `claims` | what programs that are about to start will bring |
//! | `holdings` | pages that are mapped and unmapped, and their gates |
//! | `channels` | which channels of the pages exist |
//! | `gate` | takes a page away, and gives it back |
//! | `engaged` | decides on each store to a page |
//! | `deciding` | what is decided under its lock |
//! | `place`, `opening` | where its threads sleep; the pages through which it may store now |
//! | `specs` | priorities, modes and reserves of its clients |
//! | `start` | starts and stops its threads |
//! | `main_thread` | sleeps until the engine's next deadline, and carries out its actions |
//! | `phase` | state of the poller, and results of a polling phase |
//! | `poller`, `shared_poller` | the poll loop: a thread for each GPU, or one for all |
//! | `sampler` | the status word at random instants: a timer |
//! | `watcher` | ends windows, sees the end of commands |
//! | `watch` | inputs of policies other than GPU time |
//! | `latencies` | durations of operations |
//! | `knobs` | changing the knobs and shares of a GPU |

pub(crate) mod absence;
pub(crate) mod bar;
pub(crate) mod books;
mod channels;
pub(crate) mod claims;
mod deciding;
mod device;
pub(crate) mod engaged;
pub(crate) mod gate;
pub(crate) mod holdings;
mod knobs;
pub(super) mod latencies;
mod main_thread;
mod opening;
mod phase;
mod place;
mod poller;
mod presence;
mod sampler;
pub(crate) mod shared_poller;
mod specs;
mod start;
mod watch;
mod watcher;

use self::books::Books;
use self::claims::ClaimTable;
use self::device::Device;
use self::engaged::Engaged;
use self::gate::Gate;
use self::latencies::Took;
use self::phase::Phase;
use self::shared_poller::SharedPoller;
use crate::glue::control::params::Settings;
use crate::glue::kernel::ffi;
use crate::glue::kernel::process::Process;
use crate::glue::kernel::thread::{Thread, Waker};
use crate::track::pages::page_of;
use crate::track::submission;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, Mutex};

/// One GPU.
#[pin_data]
pub(crate) struct Gpu {
    /// Its registers, and whether they may be read.
    pub(crate) device: Arc<Device>,
    pub(crate) settings: Settings,
    /// Decides on each submission, if that is set.
    pub(crate) engaged: Arc<Engaged>,
    /// The claims on it, and on all other GPUs.
    pub(crate) claims: Arc<ClaimTable>,
    #[pin]
    pub(crate) books: Mutex<Books>,
    /// Durations of LoGA's own operations. Innermost lock.
    #[pin]
    pub(crate) took: Mutex<Took>,
    /// Lets one unprivileged caller at a time read the books. Taken before `books`.
    #[pin]
    pub(crate) readers: Mutex<()>,
    /// The poller has it locked while it polls. Lock order: `books` before `phase`, and only after
    /// setting `stop_polling`.
    #[pin]
    pub(crate) phase: Mutex<Phase>,
    /// 1: the poller has to end its phase.
    pub(super) stop_polling: Atomic<u32>,
    /// 1: RM objects were freed, possibly channels.
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
    watcher: Thread,
    /// `None` if the GPUs share one.
    poller: Option<Thread>,
}

impl Gpu {
    /// A processor is online again: binds the poller to it if it belongs there.
    pub(crate) fn bind_again(&self, cpu: u32) {
        if let Some(Threads { poller, .. }) = self.threads.lock().as_ref() {
            poller.iter().for_each(|poller| poller.bind_again(cpu));
        }
    }

    /// Wakes the main thread.
    pub(crate) fn wake(&self) {
        if let Some(threads) = self.threads.lock().as_ref() {
            threads.scheduler.wake();
        }
    }

    /// A waker of the main thread, for any context.
    pub(super) fn main_waker(&self) -> Option<Waker> {
        let threads = self.threads.lock();
        threads.as_ref().map(|threads| threads.scheduler.waker())
    }

    /// A waker of the watcher, for any context.
    fn watcher_waker(&self) -> Option<Waker> {
        let threads = self.threads.lock();
        threads.as_ref().map(|threads| threads.watcher.waker())
    }

    /// Wakes the poller.
    pub(super) fn wake_poller(&self) {
        if let Some(threads) = self.threads.lock().as_ref() {
            match (&threads.poller, &self.shared) {
                (Some(poller), _) => poller.wake(),
                (None, Some(shared)) => shared.wake(),
                (None, None) => {}
            }
        }
    }

    /// Whether a polling phase may begin now. If not, the main thread is woken as soon as it may.
    pub(super) fn take_turn(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_none_or(|shared| shared.take_turn(self.device.index))
    }

    /// Passes the turn to poll to another GPU.
    pub(super) fn end_turn(&self) {
        if let Some(shared) = &self.shared {
            shared.end_turn(self.device.index);
        }
    }

    /// The pages of submission slots that a physical range touches: number of the first, and
    /// count.
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

    /// See [`Engaged::enter`].
    pub(crate) fn enter(&self, gate: &Arc<Gate>, place: usize) -> bool {
        let begin = ffi::now();
        let passes = self.engaged.enter(&self.device, gate, place);
        if passes {
            self.took.lock().enter.add(ffi::now().saturating_sub(begin));
        }
        passes
    }

    /// The place at which a store to a page waits, if it is decided on. Called by the fault handler,
    /// with the gate's lock held.
    pub(crate) fn decides(&self, gate: &Gate, stores: bool) -> Option<usize> {
        if stores && gate.is_doubtful() && gate.place().is_some() {
            self.engaged.read_kinds(&self.device, gate);
        }
        gate.place()
    }

    /// Whether a client may not store to its pages just now.
    pub(crate) fn stops_stores(&self) -> bool {
        self.throttled.load(Relaxed) != 0 || self.engaged.is_on()
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

    /// Records that a file is closed; `opener` is the process that opened it.
    pub(crate) fn file_closed(&self, opener: Option<&Process>) {
        let mut books = self.books.lock();
        books.presence.open_files = books.presence.open_files.saturating_sub(1);
        if let Some(at) = opener.and_then(|opener| books.find_process(opener)) {
            books.refresh_client(at);
        }
    }

    pub(crate) fn file_unmanaged(&self) {
        let mut books = self.books.lock();
        books.unmanaged = books.unmanaged.saturating_add(1);
        books.presence.open_files = books.presence.open_files.saturating_add(1);
    }

    /// Counts a mapping of a submission page that LoGA failed to take over.
    pub(crate) fn mapping_unmanaged(&self) {
        let mut books = self.books.lock();
        books.unmanaged_mappings = books.unmanaged_mappings.saturating_add(1);
    }

    /// Wakes the main thread for a decision, since settings have changed.
    pub(crate) fn settings_changed(&self) {
        self.books.lock().state.engine.decide_soon(ffi::now());
        self.wake();
    }
}
