// SPDX-License-Identifier: GPL-2.0

//! What a client's channels can reach, and the listeners for their completions.

use super::memory::Memory;
use crate::gpu::Chid;
use core::sync::atomic::{AtomicU32, Ordering};
use kernel::new_poll_condvar;
use kernel::prelude::*;
use kernel::sync::poll::PollCondVar;
use kernel::sync::{Arc, SetOnce};

/// GPU address spaces, one per client of the resource manager.
pub const SPACES: usize = 1024;
/// Mappings of one address space.
pub const MAPS: usize = 128;
/// Files that may wait for one client's completions.
const LISTENERS: usize = 8;

/// What waits for completions of a client's commands: an open file.
pub struct Listener {
    pending: AtomicU32,
    last_chid: AtomicU32,
    /// Made when the file is polled first: where it is, closing the file waits for a grace period
    /// of RCU, which the real driver's files do not.
    wait: SetOnce<Pin<KBox<PollCondVar>>>,
}

impl Listener {
    /// A listener that has not heard anything.
    pub fn new() -> Result<Arc<Self>> {
        let listener = Self {
            pending: AtomicU32::new(0),
            last_chid: AtomicU32::new(0),
            wait: SetOnce::new(),
        };
        Ok(Arc::new(listener, GFP_KERNEL)?)
    }

    /// What a caller of `poll` waits for. May sleep.
    pub(super) fn wait(&self) -> Result<&PollCondVar> {
        loop {
            if let Some(wait) = self.wait.as_ref() {
                return Ok(wait);
            }
            let made = new_poll_condvar!("loga_model_listener");
            // Another caller may have been faster.
            self.wait.populate(KBox::pin_init(made, GFP_KERNEL)?);
        }
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

    fn signal(&self, chid: Chid, commands: u32) {
        self.last_chid.store(u32::from(chid.0), Ordering::Relaxed);
        let add = |pending: u32| Some(pending.saturating_add(commands));
        // The closure always returns a value, so the update cannot fail.
        let _ = self
            .pending
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
        if let Some(wait) = self.wait.as_ref() {
            wait.notify_all();
        }
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

/// The files that get notices of one client's completions.
///
/// Not part of [`Space`]: waking takes locks that may sleep under PREEMPT_RT, which the card's own
/// lock forbids.
pub struct Listeners([Option<Arc<Listener>>; LISTENERS]);

impl Listeners {
    /// No listener.
    pub const NONE: Self = Self([const { None }; LISTENERS]);

    /// Adds a listener; gives it back if there is no room.
    pub(super) fn add(&mut self, listener: Arc<Listener>) -> Option<Arc<Listener>> {
        match self.0.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => slot.replace(listener),
            None => Some(listener),
        }
    }

    /// Takes a listener out; the caller drops it, which may sleep.
    pub(super) fn remove(&mut self, listener: &Arc<Listener>) -> Option<Arc<Listener>> {
        let is_it = |slot: &Option<Arc<Listener>>| {
            slot.as_ref()
                .is_some_and(|other| Arc::ptr_eq(other, listener))
        };
        self.0.iter_mut().find(|slot| is_it(slot))?.take()
    }

    /// Notifies all listeners of `commands` completions.
    pub(super) fn signal(&self, chid: Chid, commands: u32) {
        for listener in self.0.iter().flatten() {
            listener.signal(chid, commands);
        }
    }
}

/// What a client's channels can reach.
pub struct Space {
    /// Mappings.
    pub maps: [Option<GpuMap>; MAPS],
}

impl Space {
    /// An address space without mappings. May sleep.
    pub fn new() -> Result<KBox<Self>> {
        let space = Self {
            maps: [const { None }; MAPS],
        };
        Ok(KBox::new(space, GFP_KERNEL)?)
    }

    /// Takes the first mapping that fulfils a condition; the caller drops it.
    pub(super) fn take(&mut self, is_it: impl Fn(&GpuMap) -> bool) -> Option<GpuMap> {
        let mut maps = self.maps.iter_mut();
        maps.find(|map| map.as_ref().is_some_and(&is_it))?.take()
    }

    pub(super) fn find(&self, va: u64) -> Option<(&Memory, u64)> {
        let maps = self.maps.iter().flatten();
        let map = maps
            .into_iter()
            .find(|map| va >= map.va && va - map.va < map.length)?;
        Some((&map.memory, map.offset.checked_add(va - map.va)?))
    }
}
