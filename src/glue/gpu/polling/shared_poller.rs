// SPDX-License-Identifier: GPL-2.0

//! `[glue]` One thread that polls all GPUs, one at a time: `poller=shared`.
//!
//! A GPU whose polling phase is due waits for its permit, and gives it up when the phase
//! has ended. At most one GPU is in a polling phase at any time, so that the phases of
//! GPUs that began together are staggered, and accounting is as good as with one thread per
//! GPU. With a ratio of 5 there is time for six GPUs with as many channels; with more,
//! non-polling phases grow by the wait for the permit. Source: LoGA paper, section 5.6.
//!
//! Lock order: `SharedPoller::permit` and `SharedPoller::gpus` are taken inside
//! `Gpu::books`, and nothing but `Gpu::threads` is taken inside them.

use crate::glue::kernel::thread::{self, Thread, WakeFlag, Work};
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};

/// A GPU that the thread polls.
pub(in crate::glue::gpu) trait Polled: Send + Sync {
    /// Polls for a whole phase, or starts sampling, if the main thread requested it. Called by the
    /// poller only.
    fn poll_if_wanted(&self);

    /// Wakes its main thread.
    fn wake(&self);
}

/// The thread, the GPUs that it polls, and the permit to poll.
#[pin_data]
pub(crate) struct SharedPoller {
    #[pin]
    permit: Mutex<PollPermit>,
    /// By index. `stop` empties it, which breaks the circle of references.
    #[pin]
    gpus: Mutex<KVec<Arc<dyn Polled>>>,
    #[pin]
    thread: Mutex<Option<Thread>>,
}

/// The GPU that may be in a polling phase, and those that wait for it.
struct PollPermit {
    holder: Option<usize>,
    /// One bit for each GPU.
    waiting: u32,
}

/// What the thread runs.
struct PollAll(Arc<SharedPoller>);

impl SharedPoller {
    /// Starts the thread, bound to `cpu` if given. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn start(cpu: Option<u32>) -> Result<Arc<Self>> {
        let this = Arc::pin_init(
            pin_init!(Self {
                permit <- new_mutex!(PollPermit {
                    holder: None,
                    waiting: 0,
                }),
                gpus <- new_mutex!(KVec::new()),
                thread <- new_mutex!(None),
            }),
            GFP_KERNEL,
        )?;
        let work = Arc::new(PollAll(this.clone()), GFP_KERNEL)?;
        let thread = Thread::spawn(c"loga-poll", 0, work, cpu)?;
        *this.thread.lock() = Some(thread);
        Ok(this)
    }

    /// Adds a GPU.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(in crate::glue::gpu) fn add(&self, gpu: Arc<dyn Polled>) -> Result {
        self.gpus.lock().push(gpu, GFP_KERNEL)?;
        Ok(())
    }

    /// Ends the thread; the GPUs have been stopped. May sleep.
    pub(crate) fn stop(&self) {
        let thread = self.thread.lock().take();
        drop(thread);
        // Dropped outside the lock.
        let gpus = core::mem::take(&mut *self.gpus.lock());
        drop(gpus);
    }

    /// Wakes the thread.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.lock().as_ref() {
            thread.wake();
        }
    }

    /// A processor is online again: binds the thread to it if it belongs there.
    pub(crate) fn bind_again(&self, cpu: u32) {
        if let Some(thread) = self.thread.lock().as_ref() {
            thread.bind_again(cpu);
        }
    }

    /// Whether this GPU may begin a polling phase now. If not, its main thread is woken as soon
    /// as it may.
    pub(in crate::glue::gpu) fn take_permit(&self, gpu: usize) -> bool {
        let mut permit = self.permit.lock();
        match permit.holder {
            Some(holder) if holder != gpu => {
                permit.waiting |= bit(gpu);
                false
            }
            _ => {
                permit.holder = Some(gpu);
                permit.waiting &= !bit(gpu);
                true
            }
        }
    }

    /// Gives up the permit, or the request for it. The next GPU that waits gets it.
    pub(in crate::glue::gpu) fn release_permit(&self, gpu: usize) {
        let mut permit = self.permit.lock();
        permit.waiting &= !bit(gpu);
        if permit.holder != Some(gpu) {
            return;
        }
        permit.holder = next(permit.waiting, gpu);
        let next = permit.holder;
        drop(permit);
        if let Some(next) = next {
            if let Some(gpu) = self.gpus.lock().get(next) {
                gpu.wake();
            }
        }
    }
}

fn bit(gpu: usize) -> u32 {
    // CAST: at most 16 GPUs are followed.
    1u32.checked_shl(gpu as u32).unwrap_or(0)
}

/// The first GPU that waits after this one, in a circle.
fn next(waiting: u32, gpu: usize) -> Option<usize> {
    // CAST: as above.
    let after = (gpu as u32).saturating_add(1) % u32::BITS;
    let ahead = waiting.rotate_right(after);
    (waiting != 0).then(|| (ahead.trailing_zeros().wrapping_add(after) % u32::BITS) as usize)
}

impl Work for PollAll {
    fn run(self: Arc<Self>, flag: &WakeFlag) {
        let mut at: usize = 0;
        while !thread::should_stop() {
            flag.wait_until(u64::MAX);
            // TIMEOUT: one pass per GPU.
            loop {
                let gpu = self.0.gpus.lock().get(at).cloned();
                let Some(gpu) = gpu else {
                    at = 0;
                    break;
                };
                gpu.poll_if_wanted();
                at = at.saturating_add(1);
            }
        }
    }
}
