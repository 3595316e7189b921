// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Open files of `/dev/loga` that listen to events, and their queues.
//!
//! Queueing an event allocates nothing, copies nothing to user space and wakes no reader itself, so
//! that no listener can delay the main thread: a slow listener loses the oldest events, and a
//! worker wakes waiting readers, however many, with none of LoGA's locks held.
//!
//! # Lock order
//!
//! `Gpu::books` > `LISTENERS` > `Listener::queue`.

use super::permission::Reader;
use super::refused::Refused;
use crate::error;
use crate::glue::kernel::compat::delta_from_nanos;
use crate::glue::kernel::ffi;
use crate::glue::kernel::process::Process;
use crate::quota::{Held, Quota, Tenant};
use crate::uapi::{
    self, one_of_each_user, Event, EventQueue, Subscribe, VisibleHolders, QUEUE_ROOM,
};
use crate::units::Ns;
use kernel::alloc::flags::GFP_KERNEL_ACCOUNT;
use kernel::bindings;
use kernel::error::to_result;
use kernel::new_spinlock;
use kernel::pid_namespace::PidNamespace;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, SpinLock};
use kernel::time::delay::fsleep;
use kernel::types::Opaque;

/// Most files that may listen. Those who may read everything have as many again, so that no user can
/// keep them out.
const MAX_LISTENERS: usize = 64;
/// Files of one user that may listen, in all its cgroups: half of them in its first.
const MAX_OF_USER: usize = 16;
/// How the files of those who may not read everything are divided.
const LISTENING: Quota = Quota::new(MAX_LISTENERS, MAX_OF_USER);
/// Least time between two snapshots through one file by an unprivileged user: each locks the books,
/// which all callers need.
const SNAPSHOT_PAUSE: Ns = Ns::from_ms(1);
/// Users of a group that has the turn who are told of it.
const TURN_USERS: usize = 16;
/// Events copied to user space at a time.
const BATCH: usize = 8;

/// An open file of `/dev/loga`.
#[pin_data]
pub(super) struct Listener {
    /// Pid namespace in which the file was opened.
    pids: ARef<PidNamespace>,
    #[pin]
    queue: SpinLock<Queue>,
    /// 1 while nothing waits. Changed with `queue` locked.
    empty: Atomic<u32>,
    /// When the last paced snapshot was taken.
    last_snapshot: Atomic<u64>,
    #[pin]
    arrival: Opaque<bindings::wait_queue_head_t>,
    /// Wakes waiting readers; owns a reference while it is pending.
    #[pin]
    work: Opaque<bindings::work_struct>,
}

// SAFETY: The wait queue has a lock of its own; everything else is `Sync`.
unsafe impl Sync for Listener {}
// SAFETY: Nothing in a listener belongs to a thread.
unsafe impl Send for Listener {}

/// The queue of one listener.
struct Queue {
    /// Its subscription; `None` before it subscribes.
    wants: Option<Wants>,
}

struct Wants {
    what: Subscribe,
    /// The subscribing process.
    reader: Reader,
    turns: VisibleHolders,
    events: EventQueue<KVVec<Event>>,
}

kernel::sync::global_lock! {
    // SAFETY: Initialised in `prepare`, before anything else can reach it.
    unsafe(uninit) static LISTENERS: SpinLock<KVec<Subscriber>> = KVec::new();
}

/// A listener that has subscribed, and the process that did it.
struct Subscriber {
    listener: Arc<Listener>,
    reader: Reader,
    tenant: Tenant,
}

/// Length of `LISTENERS`: without listeners an event costs one load.
static COUNT: Atomic<usize> = Atomic::new(0);

/// Initialises the statics of this file, with room for all listeners, so that no thread waits for
/// memory with the lock held. Called once, first.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn prepare() -> Result {
    // SAFETY: Called once, before the module is reachable from anywhere.
    unsafe { LISTENERS.init() };
    *LISTENERS.lock() = KVec::with_capacity(2 * MAX_LISTENERS, GFP_KERNEL)?;
    // SAFETY: Called once; `finish` takes it back.
    let started = to_result(unsafe { ffi::loga_wake_wq_start() });
    if started.is_err() {
        *LISTENERS.lock() = KVec::new();
    }
    started
}

/// Undoes [`prepare`]. There must be no listener any more.
pub(super) fn finish() {
    *LISTENERS.lock() = KVec::new();
    // SAFETY: Started by `prepare`, and no event is queued any more.
    unsafe { ffi::loga_wake_wq_stop() };
}

impl Listener {
    /// A listener that has not subscribed, for a file that the caller opens.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let pids = kernel::current!().active_pid_ns().ok_or(ESRCH)?.into();
        Arc::pin_init(
            pin_init!(Self {
                pids,
                queue <- new_spinlock!(Queue { wants: None }),
                empty: Atomic::new(1),
                last_snapshot: Atomic::new(0),
                arrival <- Opaque::ffi_init(|slot| {
                    // SAFETY: `slot` is memory for a wait queue head that is not in use yet.
                    unsafe { ffi::loga_init_waitqueue(slot) }
                }),
                work <- Opaque::ffi_init(|slot| {
                    // SAFETY: `slot` is memory for work that is not in use yet.
                    unsafe { ffi::loga_wake_init(slot) }
                }),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Waits until a user may read the books again through this file: a snapshot, totals or shares.
    pub(super) fn pace(&self) {
        let due = Ns::new(self.last_snapshot.load(Relaxed)).saturating_add(SNAPSHOT_PAUSE);
        let left = due.saturating_sub(ffi::now());
        if !left.is_zero() {
            // TIMEOUT: at most the pause. CAST: it is short.
            fsleep(delta_from_nanos(left.get() as i64));
        }
        self.last_snapshot.store(ffi::now().get(), Relaxed);
    }

    /// Replaces its subscription; queued events are dropped. `reader` decides which events it may
    /// see, and it is one of the files of `tenant`.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are too many listeners, or too many of this user; `ENOMEM`. Nothing has
    /// changed then.
    pub(super) fn subscribe(
        self: &Arc<Self>,
        what: &Subscribe,
        reader: Reader,
        tenant: Tenant,
    ) -> Result<(), Refused> {
        let mut store = KVVec::new();
        store
            .extend_with(QUEUE_ROOM, Event::default(), GFP_KERNEL_ACCOUNT)
            .map_err(Error::from)?;
        let wants = Wants {
            what: *what,
            reader,
            turns: VisibleHolders::NOTHING,
            events: EventQueue::new(store),
        };
        let mut listeners = LISTENERS.lock();
        let is_own = |subscriber: &Subscriber| Arc::ptr_eq(&subscriber.listener, self);
        let others = listeners.iter().filter(|subscriber| !is_own(subscriber));
        let others = others.filter(|subscriber| subscriber.reader.all == reader.all);
        let held = Held::count(tenant, others.map(|subscriber| subscriber.tenant));
        let name = "subscribers";
        let full = |max| error::Error::Full { name, max };
        if !reader.all {
            LISTENING.check(&held).map_err(full)?;
        } else if held.all >= MAX_LISTENERS {
            return Err(full(MAX_LISTENERS).into());
        }
        // The file may have been passed to another user.
        match listeners.iter_mut().find(|subscriber| is_own(subscriber)) {
            Some(subscriber) => (subscriber.reader, subscriber.tenant) = (reader, tenant),
            None => listeners
                .push_within_capacity(Subscriber {
                    listener: self.clone(),
                    reader,
                    tenant,
                })
                .map_err(|_| full(MAX_LISTENERS))?,
        }
        COUNT.store(listeners.len(), Relaxed);
        let old = {
            let mut queue = self.queue.lock();
            self.empty.store(1, Relaxed);
            queue.wants.replace(wants)
        };
        drop(listeners);
        drop(old);
        Ok(())
    }

    /// Ends the subscription. Readers that wait return without an event.
    pub(super) fn unsubscribe(self: &Arc<Self>) {
        let mut listeners = LISTENERS.lock();
        listeners.retain(|subscriber| !Arc::ptr_eq(&subscriber.listener, self));
        COUNT.store(listeners.len(), Relaxed);
        let old = {
            let mut queue = self.queue.lock();
            self.empty.store(0, Relaxed);
            queue.wants.take()
        };
        drop(listeners);
        drop(old);
        self.wake();
    }

    fn wake(&self) {
        // SAFETY: The queue was initialised in `new`.
        unsafe { ffi::loga_wake_all(self.arrival.get()) };
    }

    /// Lets a worker wake waiting readers. Any context.
    fn wake_later(self: &Arc<Self>) {
        let reference = self.clone();
        // SAFETY: The work was initialised in `new`, and owns the reference from above until it
        // has run.
        if unsafe { ffi::loga_wake_later(self.work.get()) } {
            core::mem::forget(reference);
        }
    }

    /// Takes the oldest events, at most as many as `out` has room for; waits for one if `wait`.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a subscription, `EAGAIN` without an event, `ERESTARTSYS` on a signal.
    pub(crate) fn take(&self, out: &mut [Event], wait: bool) -> Result<usize> {
        loop {
            let count = self.take_now(out)?;
            if count != 0 {
                return Ok(count);
            }
            if !wait {
                return Err(EAGAIN);
            }
            // SAFETY: Queue and flag live as long as `self`; `Atomic<u32>` has the layout of
            // `u32`. TIMEOUT: none, but a signal ends it.
            let result = unsafe {
                ffi::loga_wait(self.arrival.get(), core::ptr::from_ref(&self.empty).cast())
            };
            if result == ERESTARTSYS.to_errno() {
                return Err(ERESTARTSYS);
            }
        }
    }

    /// Takes the oldest queued events, and returns their number.
    fn take_now(&self, out: &mut [Event]) -> Result<usize> {
        let mut queue = self.queue.lock();
        let wants = queue.wants.as_mut().ok_or(EINVAL)?;
        let mut count = 0;
        for slot in out.iter_mut() {
            let Some(event) = wants.events.pop() else {
                break;
            };
            *slot = event;
            count += 1;
        }
        self.empty.store(wants.events.is_empty().into(), Relaxed);
        Ok(count)
    }

    /// Whether an event is queued; adds the caller to the wait queue.
    ///
    /// # Safety
    ///
    /// `file` must be an open file of this listener, and `table` that of its `poll` call.
    pub(crate) unsafe fn poll(
        &self,
        file: *mut bindings::file,
        table: *mut bindings::poll_table,
    ) -> bool {
        // SAFETY: The caller's promise. The queue lives until the file is released, and it is
        // empty then: a polling thread holds the file.
        unsafe { bindings::poll_wait(file, self.arrival.get(), table) };
        let queue = self.queue.lock();
        let wants = queue.wants.as_ref();
        wants.is_some_and(|wants| !wants.events.is_empty())
    }

    /// Queues an event, if the listener subscribed to it and may see it.
    fn enqueue(self: &Arc<Self>, event: &Event, about: Option<&About<'_>>) {
        let mut queue = self.queue.lock();
        let Some(wants) = queue.wants.as_mut() else {
            return;
        };
        let visible = about.is_none_or(|about| wants.reader.may_see(about.user));
        if !visible || !wants.what.wants(event) {
            return;
        }
        wants.events.push(&Event {
            pid: about.map_or(0, |about| about.process.number_in(&self.pids)),
            ..*event
        });
        self.empty.store(0, Relaxed);
        drop(queue);
        self.wake_later();
    }

    /// Queues that the turn on a GPU was passed on to the group of these clients, one of each user,
    /// as far as the listener may see them, if it subscribed to that.
    fn enqueue_turn<'a, 'b: 'a>(
        self: &Arc<Self>,
        event: &Event,
        of_users: impl FnOnce() -> &'a [Option<About<'b>>],
    ) {
        let mut queue = self.queue.lock();
        let Some(wants) = queue.wants.as_mut().filter(|wants| wants.what.wants(event)) else {
            return;
        };
        let reader = wants.reader;
        let mut clients = of_users().iter().flatten();
        let about = clients.find(|about| reader.may_see(about.user));
        if !wants.turns.tells(event.gpu, about.is_some()) {
            return;
        }
        wants.events.push(&match about {
            Some(about) => Event {
                client: about.client,
                pid: about.process.number_in(&self.pids),
                uid: about.user,
                name: *about.comm,
                ..*event
            },
            None => *event,
        });
        self.empty.store(0, Relaxed);
        drop(queue);
        self.wake_later();
    }
}

#[no_mangle]
unsafe extern "C" fn loga_listener_wake(work: *mut bindings::work_struct) {
    let work = work.cast::<Opaque<bindings::work_struct>>();
    // SAFETY: The work is that of a listener.
    let listener = unsafe { kernel::container_of!(work, Listener, work) };
    // SAFETY: The reference that `wake_later` left to the work.
    let listener: Arc<Listener> = unsafe { Arc::from_raw(listener.cast_const()) };
    listener.wake();
}

/// A buffer for [`Listener::take`].
pub(super) const fn batch() -> [Event; BATCH] {
    const NONE: Event = Event {
        time_ns: 0,
        sequence: 0,
        client: 0,
        kind: 0,
        gpu: 0,
        pid: 0,
        uid: 0,
        value: 0,
        name: [0; uapi::COMM_LEN],
    };
    [NONE; BATCH]
}

/// The client that an event is about.
pub(crate) struct About<'a> {
    pub(crate) client: u64,
    pub(crate) process: &'a Process,
    /// Its user, in the initial namespace.
    pub(crate) user: u32,
    pub(crate) comm: &'a [u8; uapi::COMM_LEN],
}

/// Queues an event for all listeners.
pub(super) fn publish(
    gpu: u32,
    kind: u32,
    about: Option<&About<'_>>,
    value: u64,
    name: [u8; uapi::COMM_LEN],
) {
    if COUNT.load(Relaxed) == 0 {
        return;
    }
    let event = Event {
        time_ns: ffi::now().get(),
        client: about.map_or(0, |about| about.client),
        kind,
        gpu,
        uid: about.map_or(0, |about| about.user),
        value,
        name,
        ..Event::default()
    };
    for subscriber in LISTENERS.lock().iter() {
        subscriber.listener.enqueue(&event, about);
    }
}

/// Queues for all listeners that subscribed to it that the turn was passed on to the group of these
/// clients. Goes over them once, however many listen, and only if one does.
pub(super) fn publish_turn<'a>(gpu: u32, group: impl Iterator<Item = About<'a>>) {
    if COUNT.load(Relaxed) == 0 {
        return;
    }
    let event = Event {
        time_ns: ffi::now().get(),
        kind: uapi::EVENT_TURN,
        gpu,
        ..Event::default()
    };
    let mut group = Some(group);
    let mut of_users = [const { None }; TURN_USERS];
    for subscriber in LISTENERS.lock().iter() {
        subscriber.listener.enqueue_turn(&event, || {
            if let Some(group) = group.take() {
                one_of_each_user(&mut of_users, group, |about| about.user);
            }
            &of_users
        });
    }
}
