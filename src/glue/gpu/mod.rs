// SPDX-License-Identifier: GPL-2.0

//! `[glue]` One GPU: its threads, its files and its books.
//!
//! | room or file | contents |
//! |---|---|
//! | `device` | the card: its registers, and whether it is there |
//! | `gates` | who may store to a page, and how that is taken away |
//! | `polling` | its threads: the status word is read, and decided by |
//! | `books` | its clients, their pages and their time: what its lock protects |
//! | `clients`, `client` | of these: the processes, and which are throttled |
//! | `submission_pages` | of these: who owns a page, its channels, and its gate |
//! | `unmanaged` | of these: what is not controlled |
//! | `mappings` | calls that map and unmap pages, and updates of gates |
//! | `claims` | what programs that are about to start will bring |
//! | `start` | starts and stops its threads |
//! | `knobs` | changing the knobs, shares and specs of a GPU |
//! | `kept` | what stays of it while LoGA is detached |

pub(crate) mod books;
pub(crate) mod claims;
pub(crate) mod client;
pub(crate) mod clients;
pub(crate) mod device;
pub(crate) mod gates;
pub(crate) mod kept;
mod knobs;
pub(crate) mod mappings;
pub(crate) mod polling;
mod start;
pub(crate) mod submission_pages;
pub(crate) mod unmanaged;

use self::books::Books;
use self::claims::ClaimTable;
use self::device::Device;
use self::gates::gate::Gate;
use self::polling::latencies::Took;
use self::polling::phase::PollingPhase;
use self::polling::shared_poller::SharedPoller;
use self::unmanaged::Unmanaged;
use crate::glue::control::params::Settings;
use crate::glue::engaged::scheduler::Engaged;
use crate::glue::kernel::ffi;
use crate::glue::kernel::pi_mutex::{PiGuard, PiMutex};
use crate::glue::kernel::preempt::PreemptGuard;
use crate::glue::kernel::process::Process;
use crate::glue::kernel::thread::{Thread, Waker};
use crate::glue::kernel::user_queues::UserQueues;
use crate::track::pages::page_of;
use crate::track::submission;
use crate::units::Ns;
use core::ops::{Deref, DerefMut};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, Mutex, SetOnce};

/// Each throttle is decided again in every period of the engine. After this many periods without a
/// decision, i.e. one after it was due, faults do not wait any longer.
const PERIODS_PER_THROTTLE: u64 = 2;

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
    pub(crate) books: PiMutex<KBox<Books>>,
    /// Durations of LoGA's own operations. Innermost lock.
    #[pin]
    pub(crate) took: PiMutex<Took>,
    /// Where unprivileged callers wait that read the books. Taken before `books`.
    #[pin]
    readers: UserQueues,
    /// Where callers wait that open and close its node. Taken before `books`.
    #[pin]
    openers: UserQueues,
    /// The poller has it locked while it polls. Lock order: `books` before `phase`, and only after
    /// setting `stop_polling`.
    #[pin]
    pub(crate) phase: Mutex<KBox<PollingPhase>>,
    /// 1: the poller has to end its phase.
    pub(super) stop_polling: Atomic<u32>,
    /// 1: RM objects were freed, possibly channels.
    pub(crate) freed: Atomic<u32>,
    /// The knob: the tenants' level of tables that are not in the books.
    pub(crate) cgroup_depth: Atomic<u32>,
    /// Clients that are throttled.
    pub(crate) throttled: Atomic<u32>,
    /// Pages that are open although they were to be closed, as the main thread saw last.
    pub(crate) stuck: Atomic<u32>,
    /// Faults that waited past their bound and let the client pass.
    pub(crate) overruns: Atomic<u64>,
    /// The one poller of all GPUs, if they share one.
    shared: Option<Arc<SharedPoller>>,
    /// The main thread, once it is there: to wake it takes no lock.
    main: SetOnce<Waker>,
    #[pin]
    threads: Mutex<Option<Threads>>,
}

/// The books, locked by a thread that is not preempted meanwhile: the threads that wait for them, of
/// whatever priority, wait for no other thread. It must not sleep.
pub(crate) struct BriefBooks<'a> {
    // Unlocked first.
    books: PiGuard<'a, KBox<Books>>,
    _stays: PreemptGuard,
}

impl Deref for BriefBooks<'_> {
    type Target = Books;

    fn deref(&self) -> &Books {
        &self.books
    }
}

impl DerefMut for BriefBooks<'_> {
    fn deref_mut(&mut self) -> &mut Books {
        &mut self.books
    }
}

/// What a physical range is that the driver maps.
pub(crate) enum Mapped {
    /// Pages of submission slots: number of the first, and count.
    Slots { first: u16, count: u16 },
    /// It may be such pages: in BAR1 of a GPU that has never told where its slots are.
    Unknown,
    /// Something else.
    Other,
}

struct Threads {
    scheduler: Thread,
    completion: Thread,
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

    /// Wakes the main thread. Any context.
    pub(crate) fn wake(&self) {
        if let Some(main) = self.main.as_ref() {
            main.wake();
        }
    }

    /// A waker of the main thread, for any context.
    pub(super) fn main_waker(&self) -> Option<Waker> {
        let threads = self.threads.lock();
        threads.as_ref().map(|threads| threads.scheduler.waker())
    }

    /// A waker of the completion thread, for any context.
    fn completion_waker(&self) -> Option<Waker> {
        let threads = self.threads.lock();
        threads.as_ref().map(|threads| threads.completion.waker())
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
    pub(super) fn take_permit(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_none_or(|shared| shared.take_permit(self.device.index))
    }

    /// Passes the permit to poll to another GPU.
    pub(super) fn release_permit(&self) {
        if let Some(shared) = &self.shared {
            shared.release_permit(self.device.index);
        }
    }

    /// What a physical range is.
    pub(crate) fn range(&self, physical: u64, len: u64) -> Mapped {
        let mut books = self.brief_books();
        books.presence.detect(&self.device);
        let chip = books.presence.chip;
        let is_followed = chip.is_some() || !books.presence.is_refused();
        let base = chip.and_then(|_| self.device.userd_base());
        drop(books);
        let bar1 = self.device.bar1.clone();
        let (Some(chip), Some(base)) = (chip, base) else {
            // It has answered at no time since LoGA found it.
            return if is_followed && bar1.contains(&physical) {
                Mapped::Unknown
            } else {
                Mapped::Other
            };
        };
        let slots = chip
            .userd_slot
            .and_then(|slot| submission::classify(physical, len, bar1, base, slot, chip.channels));
        slots.map_or(Mapped::Other, |slots| {
            let (first, last) = (page_of(slots.first), page_of(slots.last()));
            Mapped::Slots {
                first,
                count: last.saturating_sub(first).saturating_add(1),
            }
        })
    }

    /// See [`Engaged::enter`].
    pub(crate) fn enter(&self, gate: &Arc<Gate>, wait_queue: usize) -> bool {
        let begin = ffi::now();
        let passes = self.engaged.enter(&self.device, gate, wait_queue);
        if passes {
            self.took.lock().enter.add(ffi::now().saturating_sub(begin));
        }
        passes
    }

    /// The wait queue at which a store to a page waits, if it is decided on. Called by the fault
    /// handler, with the gate's lock held.
    pub(crate) fn decides(&self, gate: &Gate, stores: bool) -> Option<usize> {
        if stores && gate.is_doubtful() && gate.wait_queue().is_some() {
            self.engaged.read_kinds(&self.device, gate);
        }
        gate.wait_queue()
    }

    /// Whether a client may not store to its pages just now.
    pub(crate) fn stops_stores(&self) -> bool {
        self.throttled.load(Relaxed) != 0 || self.engaged.is_on()
    }

    /// Opens and shuts gates as was decided `now`; the next decision is due in a `period`.
    /// [`update_gates`](Self::update_gates) does the rest.
    pub(super) fn drive_gates(&self, books: &mut Books, now: Ns, period: Ns) {
        let until = now.saturating_add(period.saturating_mul(PERIODS_PER_THROTTLE));
        let throttled = books.throttle(now, until);
        self.throttled.store(throttled.count, Relaxed);
        if throttled.any {
            books.set_gates(now, until);
        }
    }

    /// Lets all clients run until the next decision, whatever was decided.
    pub(super) fn release_all(&self, books: &mut Books, now: Ns) {
        books.state.shares.release(now);
        self.drive_gates(books, now, Ns::ZERO);
    }

    /// As [`Books::sweep`], for all clients, with the books unlocked in between. May sleep.
    pub(crate) fn forget_gone_clients(&self) {
        let mut end = usize::MAX;
        // TIMEOUT: bounded by the clients there are.
        while end != 0 {
            let mut books = self.books.lock();
            let is_booked = books.state.engine.is_parked();
            end = books.sweep_before(end, is_booked);
        }
        self.update_gates();
    }

    pub(crate) fn has_mappings(&self) -> bool {
        self.books.lock().pages.is_any_mapped()
    }

    pub(crate) fn file_opened(&self) {
        let _first = self.openers.enter();
        let mut books = self.brief_books();
        books.presence.open_files = books.presence.open_files.saturating_add(1);
        // A GPU that was asleep answers now.
        books.presence.ask_whether_back(&self.device, ffi::now());
    }

    /// Records that a file is closed; `opener` is the process that opened it.
    pub(crate) fn file_closed(&self, opener: Option<&Process>) {
        let _first = self.openers.enter();
        let mut books = self.brief_books();
        books.presence.open_files = books.presence.open_files.saturating_sub(1);
        if let Some(at) = opener.and_then(|opener| books.clients.find(opener)) {
            let is_parked = books.state.engine.is_parked();
            books.refresh_client(at, is_parked);
        }
    }

    pub(crate) fn file_unmanaged(&self) {
        let mut books = self.brief_books();
        books.unmanaged.count_file();
        books.presence.open_files = books.presence.open_files.saturating_add(1);
    }

    /// Counts a mapping of a submission page, of the calling process, that LoGA neither takes over
    /// nor refuses. Logs the first one for each reason.
    pub(crate) fn mapping_unmanaged(&self, why: Unmanaged) {
        let is_new = self.brief_books().unmanaged.count_mapping(why);
        let caller = Process::of_caller().ok().filter(|_| is_new);
        if let Some(number) = caller.map(|caller| caller.initial_number()) {
            pr_warn!(
                "{}: process {number} may use the GPU without being charged or throttled: {}\n",
                self.device.address,
                why.text()
            );
        }
    }

    /// Locks the books for a call of an application.
    pub(crate) fn brief_books(&self) -> BriefBooks<'_> {
        let stays = PreemptGuard::new();
        if let Some(books) = self.books.try_lock() {
            return BriefBooks {
                books,
                _stays: stays,
            };
        }
        drop(stays);
        let books = self.books.lock();
        BriefBooks {
            books,
            _stays: PreemptGuard::new(),
        }
    }

    /// Waits until an unprivileged caller may read the books, see [`UserQueues::enter`]: a crowd waits
    /// here, and not in the queue for the books, in which the main thread and calls of applications
    /// wait.
    ///
    /// # Errors
    ///
    /// `ERESTARTSYS`: a signal has come.
    pub(crate) fn enter_as_reader(&self) -> Result<PiGuard<'_, ()>> {
        self.readers.enter_interruptibly()
    }

    /// Wakes the main thread for a decision, since settings have changed.
    pub(crate) fn settings_changed(&self) {
        self.books.lock().state.engine.decide_soon(ffi::now());
        self.wake();
    }
}
