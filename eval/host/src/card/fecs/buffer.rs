// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Reads what is new in an event buffer, and finds what was dropped.
//!
//! The buffer is a ring of records of one size with a header that says where the writer is. Both are
//! the driver's memory and are not trusted: an index outside the ring is noted and nothing is read.
//!
//! Source: open-gpu-kernel-modules 595, `cl90cd.h` (header, record header), `cl90cdfecs.h` (records).

use crate::card::window::Window;
use serde::{Deserialize, Serialize};

/// Size of the header.
pub(crate) const HEADER_BYTES: usize = 32;
/// Size of a record with its own header.
pub(crate) const RECORD_BYTES: usize = 32;
/// What a record's own header takes of it.
const RECORD_HEADER_BYTES: usize = 8;
/// The process of a record that another user's client caused. Source: `cl90cdfecs.h`.
const HIDDEN_PID: u32 = 0;
/// The process of a record that the kernel caused. Source: `cl90cdfecs.h`.
const KERNEL_PID: u32 = 0xffff_ffff;
/// Sequence numbers that are ahead by more than this are behind.
const AHEAD_MAX: u16 = 0x7fff;

/// Layout of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Version {
    /// The process has 64 bits.
    One,
    /// The process has 32 bits, and there are the instances of MIG.
    Two,
}

/// Whose context a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Who {
    /// A process.
    Pid(u32),
    /// Some process of another user; its times are noisy.
    Hidden,
    /// The kernel; its times are noisy.
    Kernel,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// What happened.
    pub(crate) tag: u8,
    /// Counts up by one, over records that were dropped too.
    pub(crate) seqno: u16,
    /// Handle of the channel or group.
    pub(crate) context: u32,
    /// Whose context.
    pub(crate) who: Who,
    /// GPU and compute instance of MIG; 0 and 0 in version 1.
    pub(crate) instance: (u8, u8),
    /// When, by the GPU's clock.
    pub(crate) at_ns: u64,
    /// Records that are missing just before this one, by its sequence number.
    pub(crate) missing: u64,
}

/// What was wrong with the buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Losses {
    /// Records that the sequence numbers show as missing.
    pub(crate) missing: u64,
    /// Records that the header says were dropped, because the buffer was full.
    pub(crate) dropped: u64,
    /// Times that an index or a record lay outside the buffer.
    pub(crate) torn: u64,
    /// Records whose sequence number went back.
    pub(crate) out_of_order: u64,
}

/// The reader's side of a buffer.
#[derive(Debug)]
pub(crate) struct Reader {
    version: Version,
    /// Records that the buffer holds.
    capacity: u32,
    get: u32,
    /// The sequence number that comes next; nothing before the first record.
    next: Option<u16>,
    losses: Losses,
}

/// A 64-bit value of two words.
fn long(window: &dyn Window, offset: usize) -> Option<u64> {
    let (low, high) = (window.read(offset)?, window.read(offset.checked_add(4)?)?);
    Some(u64::from(high) << 32 | u64::from(low))
}

impl Reader {
    /// A reader of a buffer of so many records, in which nothing has been read.
    pub(crate) fn new(version: Version, capacity: u32) -> Self {
        Reader {
            version,
            capacity,
            get: 0,
            next: None,
            losses: Losses::default(),
        }
    }

    /// The index up to which records were read, for the driver.
    pub(crate) fn get(&self) -> u32 {
        self.get
    }

    /// What was lost so far.
    pub(crate) fn losses(&self) -> Losses {
        self.losses
    }

    /// Layout of the records.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Hands on what the driver has written since the last call: at most the whole buffer once.
    ///
    /// The header's count of dropped records begins anew when the driver is told how far was read,
    /// so that this is to be done after each call.
    pub(crate) fn drain(
        &mut self,
        header: &dyn Window,
        records: &dyn Window,
        mut each: impl FnMut(&Record),
    ) {
        // The header: get at 0, put at 4, count at 8, dropped at 16.
        let (Some(put), Some(dropped)) = (header.read(4), long(header, 16)) else {
            self.losses.torn = self.losses.torn.saturating_add(1);
            return;
        };
        // The records were written before the index that ends them.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        self.losses.dropped = self.losses.dropped.saturating_add(dropped);
        if put >= self.capacity {
            self.losses.torn = self.losses.torn.saturating_add(1);
            return;
        }
        for _ in 0..self.capacity {
            if self.get == put {
                return;
            }
            match self.read(records, self.get) {
                Some(record) => each(&record),
                None => self.losses.torn = self.losses.torn.saturating_add(1),
            }
            self.get = (self.get + 1) % self.capacity;
        }
    }

    fn read(&mut self, records: &dyn Window, index: u32) -> Option<Record> {
        // CAST: an index below the capacity.
        let record = (index as usize).checked_mul(RECORD_BYTES)?;
        let at = record.checked_add(RECORD_HEADER_BYTES)?;
        let first = records.read(at)?;
        let pid = records.read(at + 8)?;
        let more = records.read(at + 12)?;
        let instance = match self.version {
            Version::One => (0, 0),
            // CAST: the two bytes, on purpose.
            Version::Two => ((more >> 16) as u8, (more >> 24) as u8),
        };
        // CAST: the upper half.
        let seqno = (first >> 16) as u16;
        Some(Record {
            // CAST: the lowest byte.
            tag: first as u8,
            seqno,
            context: records.read(at + 4)?,
            who: self.who(pid, more)?,
            instance,
            at_ns: long(records, at + 16)?,
            missing: self.follow(seqno),
        })
    }

    /// The process of a record; nothing where 64 bits hold no process.
    fn who(&self, low: u32, high: u32) -> Option<Who> {
        match (self.version, low, high) {
            (_, KERNEL_PID, _) => Some(Who::Kernel),
            (Version::One, _, 1..) => None,
            (_, HIDDEN_PID, _) => Some(Who::Hidden),
            (_, pid, _) => Some(Who::Pid(pid)),
        }
    }

    /// Follows the sequence numbers; returns how many are missing before this one.
    fn follow(&mut self, seqno: u16) -> u64 {
        let expected = self.next.replace(seqno.wrapping_add(1)).unwrap_or(seqno);
        let ahead = seqno.wrapping_sub(expected);
        if ahead > AHEAD_MAX {
            self.losses.out_of_order = self.losses.out_of_order.saturating_add(1);
            return 0;
        }
        self.losses.missing = self.losses.missing.saturating_add(ahead.into());
        ahead.into()
    }
}

#[cfg(test)]
#[path = "buffer_tests.rs"]
pub(in crate::card) mod tests;
