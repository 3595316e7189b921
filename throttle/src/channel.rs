// SPDX-License-Identifier: GPL-2.0

//! `[tool]` One channel: GPFIFO, pushbuffers and semaphore in shared memory, GP_PUT in USERD.
//!
//! Each GPFIFO entry owns one pushbuffer slot. A ring of `entries` holds at most `entries - 1`
//! commands: GP_PUT equal to GP_GET means empty.

use crate::error::Error;
use crate::plan::Engine;
use crate::rm;
use crate::rm::{Client, Handle};
use crate::sys::Mapping;
use loga::rm::submit::Command;
use loga::rm::{class, submit, ChannelParams, PAGE_SIZE};
use std::rc::Rc;

/// Bytes of one pushbuffer slot.
const SLOT_BYTES: u64 = 64;

/// Least entries of a ring. LoGA counts completed commands by the position in the ring, in scans a
/// millisecond apart: it must not come around between two of them.
const LEAST_ENTRIES: u32 = 64;

const _: () = assert!(LEAST_ENTRIES >= submit::GP_ENTRIES_MIN);
/// Words of an acquire before a command.
const ACQUIRE_WORDS: usize = 5;
/// Where the semaphore lies that a held command waits for, behind that of completions.
const HOLD: u64 = 16;

const _: () = assert!((ACQUIRE_WORDS + submit::COMMAND_WORDS) as u64 * 4 <= SLOT_BYTES);
const _: () = assert!(HOLD + 4 <= SLOT_BYTES);

/// Where the parts of one channel lie in its share of the memory, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Layout {
    /// GPFIFO entries, a power of two.
    pub entries: u32,
    /// Start of the pushbuffer slots; the GPFIFO starts at 0.
    pub pushbuffer: u64,
    /// The semaphore word.
    pub semaphore: u64,
    /// Whole length, a multiple of the page size.
    pub length: u64,
}

impl Layout {
    /// A layout with room for `depth` commands under way.
    pub fn for_depth(depth: u32) -> Self {
        let entries = depth
            .saturating_add(1)
            .next_power_of_two()
            .max(LEAST_ENTRIES);
        let gpfifo = u64::from(entries) * submit::GP_ENTRY_SIZE;
        let pushbuffer = gpfifo.next_multiple_of(SLOT_BYTES);
        let semaphore = pushbuffer + u64::from(entries) * SLOT_BYTES;
        Layout {
            entries,
            pushbuffer,
            semaphore,
            length: (semaphore + SLOT_BYTES).next_multiple_of(PAGE_SIZE),
        }
    }
}

/// A channel's memory: a part of an object that all channels of a client share.
#[derive(Clone, Debug)]
pub struct Share {
    /// The object.
    pub memory: Rc<rm::Memory>,
    /// Where the part begins.
    pub start: u64,
}

impl Share {
    fn write(&self, at: u64, words: &[u32]) {
        for (i, word) in words.iter().enumerate() {
            // CAST: the mapping checks the range.
            self.memory
                .map
                .write((self.start + at) as usize + 4 * i, *word);
        }
    }
}

/// Where a command goes in the ring and what it says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Slot {
    index: u32,
    entry: [u32; 2],
    words: [u32; submit::COMMAND_WORDS],
}

/// Encodes command number `sequence` for a ring at GPU address `base`.
fn encode(
    layout: &Layout,
    base: u64,
    engine: Engine,
    sequence: u32,
    length_ns: u64,
    interrupt: bool,
) -> Slot {
    // Command 1 goes to entry 0: GP_PUT starts at 0.
    let index = sequence.wrapping_sub(1) % layout.entries;
    let at = base + layout.pushbuffer + u64::from(index) * SLOT_BYTES;
    let command = Command {
        subchannel: match engine {
            Engine::Compute => submit::SUBCHANNEL_COMPUTE,
            Engine::Copy => submit::SUBCHANNEL_COPY,
        },
        duration_ns: length_ns,
        semaphore_va: base + layout.semaphore,
        payload: sequence,
        interrupt,
    };
    Slot {
        index,
        // CAST: a handful of words.
        entry: submit::gp_entry(at, submit::COMMAND_WORDS as u32),
        words: command.encode(),
    }
}

/// A channel ready for commands.
#[derive(Debug)]
pub struct Channel {
    handle: Handle,
    layout: Layout,
    share: Share,
    userd: Option<Mapping>,
    userd_slot: usize,
    engine: Engine,
    sequence: u32,
}

impl Channel {
    /// Allocates a channel under the device, or a group, `parent`; maps its USERD slot and enables it.
    ///
    /// # Errors
    ///
    /// A call refused or the mapping failed.
    pub fn open(
        client: &mut Client,
        parent: Handle,
        share: Share,
        layout: Layout,
        engine: Engine,
    ) -> Result<Self, Error> {
        let mut channel = Channel::alloc(client, parent, share, layout, engine)?;
        channel.map_userd(client)?;
        client.schedule(channel.handle, true)?;
        Ok(channel)
    }

    /// As [`Channel::open`]; its USERD slot is not mapped, and it is not enabled.
    ///
    /// # Errors
    ///
    /// The call was refused.
    pub fn alloc(
        client: &mut Client,
        parent: Handle,
        share: Share,
        layout: Layout,
        engine: Engine,
    ) -> Result<Self, Error> {
        let mut params = ChannelParams {
            gpfifo_offset: share.memory.gpu_va + share.start,
            gpfifo_entries: layout.entries,
            engine_type: match engine {
                Engine::Compute => class::ENGINE_TYPE_GRAPHICS,
                Engine::Copy => class::ENGINE_TYPE_COPY0,
            },
            ..Default::default()
        };
        let handle = client.alloc(parent, class::CHANNEL_GPFIFO_B, &mut params)?;
        Ok(Channel {
            handle,
            layout,
            share,
            userd: None,
            userd_slot: 0,
            engine,
            sequence: 0,
        })
    }

    /// The channel object.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// Maps the USERD slot through a fresh file of the GPU.
    ///
    /// # Errors
    ///
    /// A call refused or the mapping failed.
    pub fn map_userd(&mut self, client: &Client) -> Result<(), Error> {
        let path = rm::gpu_path(client.gpu());
        let (map, linear) = client.map(self.handle, PAGE_SIZE, &path)?;
        self.use_userd(map, linear);
        Ok(())
    }

    /// Submits through this mapping of the page that holds the slot at physical address `linear`.
    pub fn use_userd(&mut self, map: Mapping, linear: u64) {
        self.userd = Some(map);
        // CAST: less than a page.
        self.userd_slot = (linear % PAGE_SIZE) as usize;
    }

    /// Unmaps the USERD slot; commands can be prepared but not submitted.
    pub fn unmap_userd(&mut self) {
        self.userd = None;
    }

    /// Most commands under way at a time.
    pub fn depth_max(&self) -> u32 {
        self.layout.entries - 1
    }

    /// Writes the next command to memory; returns its number, from 1.
    pub fn prepare(&mut self, length_ns: u64, interrupt: bool) -> u32 {
        let slot = self.next(length_ns, interrupt);
        self.put(slot.index, slot.entry, &slot.words);
        self.sequence
    }

    /// As [`Channel::prepare`]; the command waits until [`Channel::release`] has stored its number.
    pub fn prepare_held(&mut self, length_ns: u64) -> u32 {
        let slot = self.next(length_ns, false);
        let hold = self.share.memory.gpu_va + self.share.start + self.hold();
        // CAST (both): halves of an address.
        let acquire: [u32; ACQUIRE_WORDS] = [
            submit::incrementing(submit::SUBCHANNEL_HOST, submit::method::SEMAPHORE_A, 4),
            (hold >> 32) as u32,
            hold as u32,
            self.sequence,
            submit::SEMAPHORE_ACQUIRE,
        ];
        let words: Vec<u32> = acquire.into_iter().chain(slot.words).collect();
        let va = submit::gp_entry_va(slot.entry);
        // CAST: a handful of words.
        self.put(slot.index, submit::gp_entry(va, words.len() as u32), &words);
        self.sequence
    }

    /// Lets the command with this number run, see [`Channel::prepare_held`].
    pub fn release(&self, sequence: u32) {
        // CAST: the mapping checks the range.
        let at = (self.share.start + self.hold()) as usize;
        self.share.memory.map.publish(at, sequence);
    }

    /// Where the semaphore lies that commands of [`Channel::prepare_held`] wait for.
    const fn hold(&self) -> u64 {
        self.layout.semaphore + HOLD
    }

    /// The next command.
    fn next(&mut self, length_ns: u64, interrupt: bool) -> Slot {
        self.sequence = self.sequence.wrapping_add(1);
        let base = self.share.memory.gpu_va + self.share.start;
        encode(
            &self.layout,
            base,
            self.engine,
            self.sequence,
            length_ns,
            interrupt,
        )
    }

    /// Writes a pushbuffer and its entry of the ring to memory.
    fn put(&self, index: u32, entry: [u32; 2], words: &[u32]) {
        let at = self.layout.pushbuffer + u64::from(index) * SLOT_BYTES;
        self.share.write(at, words);
        self.share
            .write(u64::from(index) * submit::GP_ENTRY_SIZE, &entry);
    }

    /// Stores GP_PUT behind the last command prepared. Waits here while throttled.
    pub fn submit(&self) {
        self.store_put(self.sequence % self.layout.entries);
    }

    /// Stores any value in GP_PUT.
    pub fn store_put(&self, value: u32) {
        if let Some(userd) = &self.userd {
            // CAST: offsets within a page.
            userd.publish(self.userd_slot + submit::USERD_GP_PUT as usize, value);
        }
    }

    /// Stores any value in GP_GET, which only the GPU should do.
    pub fn store_get(&self, value: u32) {
        if let Some(userd) = &self.userd {
            // CAST: offsets within a page.
            userd.publish(self.userd_slot + submit::USERD_GP_GET as usize, value);
        }
    }

    /// Reads GP_GET, or nothing if USERD is not mapped. Waits here while throttled.
    pub fn get(&self) -> Option<u32> {
        let userd = self.userd.as_ref()?;
        // CAST: offsets within a page.
        Some(userd.observe(self.userd_slot + submit::USERD_GP_GET as usize))
    }

    /// Number of the last command completed, 0 for none.
    pub fn completed(&self) -> u32 {
        // CAST: the mapping checks the range.
        let at = (self.share.start + self.layout.semaphore) as usize;
        self.share.memory.map.observe(at)
    }

    /// Number of the last command prepared.
    pub fn sequence(&self) -> u32 {
        self.sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_parts_do_not_overlap() {
        for depth in [1, 2, 7, 64, 1000, crate::plan::DEPTH_MAX] {
            let layout = Layout::for_depth(depth);
            let entries = u64::from(layout.entries);
            assert!(layout.entries.is_power_of_two());
            assert!(layout.entries > depth);
            assert!(layout.pushbuffer >= entries * 8);
            assert_eq!(layout.pushbuffer % SLOT_BYTES, 0);
            assert_eq!(layout.semaphore, layout.pushbuffer + entries * SLOT_BYTES);
            assert!(layout.semaphore + 4 <= layout.length);
            assert_eq!(layout.length % PAGE_SIZE, 0);
            assert!(layout.entries <= submit::GP_ENTRIES_MAX);
        }
    }

    #[test]
    fn command_entry_points_at_its_own_slot() {
        let layout = Layout::for_depth(3);
        let base = 0x12_3450_0000;
        let first = encode(&layout, base, Engine::Compute, 1, 5_000_000_000, true);
        assert_eq!(first.index, 0);
        assert_eq!(submit::gp_entry_va(first.entry), base + layout.pushbuffer);
        assert_eq!(submit::gp_entry_words(first.entry), 11);
        let next_turn = encode(&layout, base, Engine::Compute, layout.entries + 1, 1, false);
        assert_eq!(next_turn.index, 0, "one command more than entries");
        let third = encode(&layout, base, Engine::Copy, 3, 1, false);
        assert_eq!(
            submit::gp_entry_va(third.entry),
            base + layout.pushbuffer + 2 * SLOT_BYTES
        );
    }

    #[test]
    fn command_words_carry_length_semaphore_and_interrupt() {
        let layout = Layout::for_depth(1);
        let base = 0x1_0000_0000;
        let slot = encode(&layout, base, Engine::Compute, 9, 0x1_0000_0007, true);
        // Incrementing, three words, subchannel 1, method 0x600.
        assert_eq!(slot.words[0], 0x2003_2180);
        assert_eq!(slot.words[1], 7);
        assert_eq!(slot.words[2], 1);
        // Incrementing, four words, subchannel 0, method 0x10.
        assert_eq!(slot.words[4], 0x2004_0004);
        assert_eq!(slot.words[5], 1);
        // CAST: the lower half.
        assert_eq!(slot.words[6], layout.semaphore as u32);
        assert_eq!(slot.words[7], 9);
        assert_eq!(slot.words[8], 2, "release");
        assert_eq!(slot.words[9], 0x2001_0008, "NON_STALL_INTERRUPT");
        let copy = encode(&layout, base, Engine::Copy, 9, 1, false);
        assert_eq!((copy.words[0] >> 13) & 7, 4);
        assert_eq!(copy.words[9], 0x2001_0002, "NOP");
    }
}
