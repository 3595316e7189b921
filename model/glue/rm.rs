// SPDX-License-Identifier: GPL-2.0

//! The resource manager of the stand-in: clients, their objects, and the channels behind them.
//!
//! Lock order: this table's mutex, then a file's mapping context, then the card's lock.

use super::machine::Machine;
use super::memory::Memory;
use super::space::{GpuMap, Listener, Space, MAPS, SPACES};
use crate::gpu::{regs, Chid};
use crate::rm;
use crate::rm::class::status;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Objects of one client.
const OBJECTS_MAX: usize = 512;
/// Bytes of one memory object.
const MEMORY_MAX: u64 = 16 << 20;
/// Bytes of all memory objects of one client.
const CLIENT_MEMORY_MAX: u64 = 64 << 20;
/// First GPU address handed out; what lies below is never mapped.
const VA_FIRST: u64 = 0x1_0000_0000;
/// End of the GPU address space (40 bits). Source: GK20A `hw_ram_gk20a.h`.
pub(super) const VA_END: u64 = 1 << 40;
/// An RM status other than OK.
pub type Status = u32;
/// Result of a call: an RM status on failure.
pub type Outcome<T = ()> = core::result::Result<T, Status>;

/// What an object is.
pub enum Kind {
    /// A GPU, or one of its subdevices, or an engine object: nothing behind it.
    Plain(u32),
    /// System memory.
    Memory(Arc<Memory>),
    /// A channel.
    Channel {
        /// Hardware id.
        chid: Chid,
        /// Its runlist.
        runlist: u32,
    },
    /// A group of channels, by the number of its TSG.
    Group(u16),
    /// Completions go to a file.
    Event(Arc<Listener>),
}

struct Object {
    handle: u32,
    parent: u32,
    kind: Kind,
}

pub(super) struct RmClient {
    handle: u32,
    file: u64,
    pub(super) pid: i32,
    pub(super) space: usize,
    next_va: u64,
    memory: u64,
    objects: KVec<Object>,
}

/// Use of a hardware channel id.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    Free,
    Used {
        pid: i32,
        runlist: u32,
        tsg: Option<u16>,
    },
    /// Freed by its owner, still on an engine.
    Draining {
        pid: i32,
    },
}

/// Says in the answer how a call ended.
pub fn set(to: &mut u32, outcome: Outcome) {
    *to = outcome.err().unwrap_or(status::OK);
}

/// Clients and channel ids.
pub struct Rm {
    clients: KVec<RmClient>,
    /// By channel id.
    pub(super) slots: KVVec<Slot>,
    /// TSGs that are in use, by number.
    pub(super) tsgs: KVVec<bool>,
    /// Room to write a runlist down.
    pub(super) list: KVVec<u32>,
}

/// The caller of an RM call.
#[derive(Clone, Copy)]
pub struct Caller {
    /// Number of the control file.
    pub file: u64,
    /// Thread group of the calling process.
    pub pid: i32,
}

impl Rm {
    /// No clients, all channels free.
    pub fn new() -> Result<Self> {
        let channels = regs::CHANNELS as usize;
        Ok(Self {
            clients: KVec::with_capacity(SPACES, GFP_KERNEL)?,
            slots: KVVec::from_elem(Slot::Free, channels, GFP_KERNEL)?,
            tsgs: KVVec::from_elem(false, channels, GFP_KERNEL)?,
            // Every channel in a TSG of its own.
            list: KVVec::with_capacity(2 * channels, GFP_KERNEL)?,
        })
    }

    /// Creates a client.
    pub fn alloc_root(&mut self, machine: &Machine, caller: Caller, handle: u32) -> Outcome {
        if self.clients.iter().any(|client| client.handle == handle) {
            return Err(status::INSERT_DUPLICATE_NAME);
        }
        let space = Space::new().map_err(|_| status::NO_MEMORY)?;
        let space = machine
            .add_space(space)
            .map_err(|_| status::INSUFFICIENT_RESOURCES)?;
        let client = RmClient {
            handle,
            file: caller.file,
            pid: caller.pid,
            space,
            next_va: VA_FIRST,
            memory: 0,
            objects: KVec::new(),
        };
        if self.clients.push(client, GFP_KERNEL).is_err() {
            drop(machine.take_space(space));
            return Err(status::NO_MEMORY);
        }
        Ok(())
    }

    /// Adds an object without anything behind it.
    pub fn alloc_plain(&mut self, caller: Caller, at: &rm::Alloc) -> Outcome {
        self.insert(caller, at.root, at.parent, at.handle, Kind::Plain(at.class))
    }

    /// Allocates system memory of `limit + 1` bytes.
    pub fn alloc_memory(&mut self, caller: Caller, at: &rm::Alloc, limit: u64) -> Outcome {
        let size = limit.checked_add(1).filter(|&size| size <= MEMORY_MAX);
        let size = size.ok_or(status::INVALID_LIMIT)?;
        let client = self.client(caller, at.root)?;
        if client.memory.saturating_add(size) > CLIENT_MEMORY_MAX {
            return Err(status::INSUFFICIENT_RESOURCES);
        }
        let memory = Memory::new(size).map_err(|_| status::NO_MEMORY)?;
        let size = memory.size();
        let memory = Arc::new(memory, GFP_KERNEL).map_err(|_| status::NO_MEMORY)?;
        self.insert(caller, at.root, at.parent, at.handle, Kind::Memory(memory))?;
        self.client(caller, at.root)?.memory += size;
        Ok(())
    }

    /// Makes a file a listener for the client's completions.
    pub fn alloc_event(
        &mut self,
        machine: &Machine,
        caller: Caller,
        at: &rm::Alloc,
        listener: Arc<Listener>,
    ) -> Outcome {
        let space = self.client(caller, at.root)?.space;
        self.insert(
            caller,
            at.root,
            at.parent,
            at.handle,
            Kind::Event(listener.clone()),
        )?;
        if !machine.add_listener(space, listener) {
            self.remove_object(machine, caller, at.root, at.handle)?;
            return Err(status::INSUFFICIENT_RESOURCES);
        }
        Ok(())
    }

    /// Maps memory into the client's GPU address space; returns the address.
    pub fn map_dma(
        &mut self,
        machine: &Machine,
        caller: Caller,
        at: &rm::MapMemoryDma,
    ) -> Outcome<u64> {
        let memory = self.memory(caller, at.client, at.memory)?;
        let client = self.client(caller, at.client)?;
        let length = at
            .length
            .checked_next_multiple_of(super::PAGE)
            .ok_or(status::INVALID_LIMIT)?;
        let end = at.offset.checked_add(length);
        if length == 0
            || at.offset % super::PAGE != 0
            || !end.is_some_and(|end| end <= memory.size())
        {
            return Err(status::INVALID_LIMIT);
        }
        let va = client.next_va;
        // One page between mappings stays empty, so that running over the end is noticed.
        let next = va.saturating_add(length).saturating_add(super::PAGE);
        if next > VA_END {
            return Err(status::INSUFFICIENT_RESOURCES);
        }
        let mut map = Some(GpuMap {
            va,
            length,
            memory,
            offset: at.offset,
        });
        let stored = machine.with_space(client.space, |space| {
            let free = space.maps.iter_mut().find(|slot| slot.is_none());
            free.map(|slot| *slot = map.take()).is_some()
        });
        if stored != Some(true) {
            return Err(status::INSUFFICIENT_RESOURCES);
        }
        client.next_va = next;
        Ok(va)
    }

    /// Removes a mapping from the client's GPU address space.
    pub fn unmap_dma(
        &mut self,
        machine: &Machine,
        caller: Caller,
        at: &rm::UnmapMemoryDma,
    ) -> Outcome {
        let space = self.client(caller, at.client)?.space;
        let taken = machine.with_space(space, |space| space.take(|map| map.va == at.dma_offset));
        // Dropped here, outside the card's lock.
        taken.flatten().map(drop).ok_or(status::INVALID_ARGUMENT)
    }

    /// The memory object behind a handle.
    pub fn memory(&mut self, caller: Caller, root: u32, handle: u32) -> Outcome<Arc<Memory>> {
        match self.object(caller, root, handle)? {
            Kind::Memory(memory) => Ok(memory.clone()),
            _ => Err(status::INVALID_OBJECT_HANDLE),
        }
    }

    /// The channel behind a handle, with its runlist.
    pub fn channel(&mut self, caller: Caller, root: u32, handle: u32) -> Outcome<(Chid, u32)> {
        match self.object(caller, root, handle)? {
            Kind::Channel { chid, runlist } => Ok((*chid, *runlist)),
            _ => Err(status::INVALID_CHANNEL),
        }
    }

    /// The object behind a handle.
    pub fn object(&mut self, caller: Caller, root: u32, handle: u32) -> Outcome<&Kind> {
        let client = self.client(caller, root)?;
        let object = client.objects.iter().find(|object| object.handle == handle);
        object
            .map(|object| &object.kind)
            .ok_or(status::INVALID_OBJECT)
    }

    /// The memory object of a process with its first page at a physical address.
    pub fn memory_at(&self, pid: i32, physical: u64) -> Option<Arc<Memory>> {
        let objects = self
            .clients
            .iter()
            .filter(|client| client.pid == pid)
            .flat_map(|c| &c.objects);
        objects.into_iter().find_map(|object| match &object.kind {
            Kind::Memory(memory) if memory.physical() == physical => Some(memory.clone()),
            _ => None,
        })
    }

    /// Frees an object with its children, or a client.
    pub fn free(&mut self, machine: &Machine, caller: Caller, at: &rm::Free) -> Outcome {
        if at.object == at.root {
            let position = self.position(caller, at.root)?;
            self.remove_client(machine, position);
            return Ok(());
        }
        self.remove_object(machine, caller, at.root, at.object)
    }

    /// Frees the clients of a control file.
    pub fn close_file(&mut self, machine: &Machine, file: u64) {
        while let Some(position) = self.clients.iter().position(|client| client.file == file) {
            self.remove_client(machine, position);
        }
    }

    fn position(&self, caller: Caller, root: u32) -> Outcome<usize> {
        let mine = |client: &RmClient| {
            client.handle == root && (client.file == caller.file || client.pid == caller.pid)
        };
        self.clients
            .iter()
            .position(mine)
            .ok_or(status::INVALID_CLIENT)
    }

    pub(super) fn client(&mut self, caller: Caller, root: u32) -> Outcome<&mut RmClient> {
        let position = self.position(caller, root)?;
        // PANIC: `position` is an index of the vector.
        Ok(&mut self.clients[position])
    }

    pub(super) fn insert(
        &mut self,
        caller: Caller,
        root: u32,
        parent: u32,
        handle: u32,
        kind: Kind,
    ) -> Outcome {
        let client = self.client(caller, root)?;
        let taken = handle == client.handle || client.objects.iter().any(|o| o.handle == handle);
        if taken {
            return Err(status::INSERT_DUPLICATE_NAME);
        }
        if parent != client.handle && !client.objects.iter().any(|o| o.handle == parent) {
            return Err(status::INVALID_OBJECT_PARENT);
        }
        if client.objects.len() >= OBJECTS_MAX {
            return Err(status::INSUFFICIENT_RESOURCES);
        }
        let object = Object {
            handle,
            parent,
            kind,
        };
        client
            .objects
            .push(object, GFP_KERNEL)
            .map_err(|_| status::NO_MEMORY)
    }

    fn remove_object(
        &mut self,
        machine: &Machine,
        caller: Caller,
        root: u32,
        handle: u32,
    ) -> Outcome {
        let position = self.position(caller, root)?;
        let objects = &self.clients[position].objects;
        if !objects.iter().any(|object| object.handle == handle) {
            return Err(status::INVALID_OBJECT);
        }
        // Children first; each turn removes one object that has none left.
        for _ in 0..OBJECTS_MAX {
            let objects = &self.clients[position].objects;
            let mut leaf = handle;
            for _ in 0..OBJECTS_MAX {
                match objects.iter().find(|object| object.parent == leaf) {
                    Some(child) => leaf = child.handle,
                    None => break,
                }
            }
            self.remove_leaf(machine, position, leaf);
            if leaf == handle {
                break;
            }
        }
        Ok(())
    }

    fn remove_leaf(&mut self, machine: &Machine, position: usize, handle: u32) {
        let client = &mut self.clients[position];
        let Some(index) = client
            .objects
            .iter()
            .position(|object| object.handle == handle)
        else {
            return;
        };
        let Ok(object) = client.objects.remove(index) else {
            return;
        };
        let space = client.space;
        match object.kind {
            Kind::Channel { chid, runlist } => self.stop_channel(machine, chid, runlist),
            Kind::Memory(memory) => {
                client.memory = client.memory.saturating_sub(memory.size());
                Self::forget_memory(machine, space, &memory);
            }
            Kind::Event(listener) => machine.remove_listener(space, &listener),
            Kind::Group(tsg) => self.tsgs[usize::from(tsg)] = false,
            Kind::Plain(_) => {}
        }
    }

    /// Unmaps a memory object that goes away; the GPU faults on it from now on.
    fn forget_memory(machine: &Machine, space: usize, memory: &Arc<Memory>) {
        for _ in 0..MAPS {
            let taken = machine.with_space(space, |space| {
                space.take(|map| Arc::ptr_eq(&map.memory, memory))
            });
            if taken.flatten().is_none() {
                break;
            }
        }
    }

    fn remove_client(&mut self, machine: &Machine, position: usize) {
        while let Some(object) = self.clients[position].objects.last() {
            let handle = object.handle;
            self.remove_leaf(machine, position, handle);
        }
        if let Ok(client) = self.clients.remove(position) {
            drop(machine.take_space(client.space));
        }
    }
}
