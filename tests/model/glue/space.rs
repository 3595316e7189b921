// SPDX-License-Identifier: GPL-2.0

//! What a client's channels can reach, and who hears of their completions.

use super::memory::Memory;
use crate::gpu::Chid;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering;
use kernel::new_poll_condvar;
use kernel::prelude::*;
use kernel::sync::poll::PollCondVar;
use kernel::sync::Arc;

/// GPU address spaces, one per client of the resource manager.
pub const SPACES: usize = 1024;
/// Mappings of one address space.
pub const MAPS: usize = 128;
/// Files that may wait for one client's completions.
const LISTENERS: usize = 8;

/// What waits for completions of a client's commands: an open file.
#[pin_data]
pub struct Listener {
    pending: AtomicU32,
    last_chid: AtomicU32,
    #[pin]
    pub(super) wait: PollCondVar,
}

impl Listener {
    /// A listener that has not heard anything.
    pub fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                pending: AtomicU32::new(0),
                last_chid: AtomicU32::new(0),
                wait <- new_poll_condvar!("loga_model_listener"),
            }),
            GFP_KERNEL,
        )
    }

    /// Completions not yet consumed.
    pub fn pending(&self) -> u32 {
        self.pending.load(Ordering::Acquire)
    }

    /// Consumes one completion: the channel of the latest, and whether there are more.
    pub fn consume(&self) -> Option<(u32, bool)> {
        let take = |pending: u32| pending.checked_sub(1);
        let before = self
            .pending
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .ok()?;
        Some((self.last_chid.load(Ordering::Relaxed), before > 1))
    }

    fn signal(&self, chid: Chid) {
        self.last_chid.store(u32::from(chid.0), Ordering::Relaxed);
        let add = |pending: u32| Some(pending.saturating_add(1));
        // The closure always returns a value, so the update cannot fail.
        let _ = self
            .pending
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
        self.wait.notify_all();
    }
}

/// One mapping of a GPU address space.
pub struct GpuMap {
    /// First GPU address.
    pub va: u64,
    /// Bytes.
    pub length: u64,
    /// What lies there.
    pub memory: Arc<Memory>,
    /// From where on in the memory.
    pub offset: u64,
}

/// What a client's channels can reach, and who hears of their completions.
pub struct Space {
    /// Mappings.
    pub maps: [Option<GpuMap>; MAPS],
    /// Listeners.
    pub listeners: [Option<Arc<Listener>>; LISTENERS],
}

impl Space {
    /// An address space without mappings. May sleep.
    pub fn new() -> Result<KBox<Self>> {
        let space = Self {
            maps: [const { None }; MAPS],
            listeners: [const { None }; LISTENERS],
        };
        Ok(KBox::new(space, GFP_KERNEL)?)
    }

    /// Tells all listeners of a completion.
    pub(super) fn signal(&self, chid: Chid) {
        for listener in self.listeners.iter().flatten() {
            listener.signal(chid);
        }
    }

    pub(super) fn find(&self, va: u64) -> Option<(&Memory, u64)> {
        let maps = self.maps.iter().flatten();
        let map = maps
            .into_iter()
            .find(|map| va >= map.va && va - map.va < map.length)?;
        Some((&map.memory, map.offset.checked_add(va - map.va)?))
    }
}
