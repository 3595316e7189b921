// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Identities: channels, TSGs, clients, groups of clients, chips.

/// Channel ids that any supported chip can have: 12 bits in the status word.
pub const MAX_CHANNELS: usize = 4096;

/// Hardware id of a channel.
///
/// # Invariants
///
/// Less than [`MAX_CHANNELS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chid(u16);

impl Chid {
    /// The channel with the id in the low 12 bits of `raw`, as in a status word.
    pub const fn from_bits(raw: u32) -> Self {
        // CAST: 12 bits fit 16.
        Self((raw & 0xfff) as u16)
    }

    /// The channel with this id, or nothing when no chip can have it.
    pub const fn new(raw: u16) -> Option<Self> {
        if (raw as usize) < MAX_CHANNELS {
            Some(Self(raw))
        } else {
            None
        }
    }

    /// The id.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The id, to index a table with one element per channel.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Hardware id of a TSG (time-slice group): channels that the GPU schedules as one.
///
/// # Invariants
///
/// Less than [`MAX_CHANNELS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TsgId(u16);

impl TsgId {
    /// The TSG with the id in the low 12 bits of `raw`, as in a status word.
    pub const fn from_bits(raw: u32) -> Self {
        // CAST: 12 bits fit 16.
        Self((raw & 0xfff) as u16)
    }

    /// The id.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The id, to index a table with one element per TSG.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Identity of a client: of a process on one GPU. Never used twice while the module is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(u64);

impl ClientId {
    /// The client with this number.
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Identity of a group between which GPU time is divided. Never used twice while the module is
/// loaded; numbers of groups and of clients are not related.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(u64);

impl GroupId {
    /// The group with this number.
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// The group that a client forms alone, where callers keep no groups: it has the client's
    /// number.
    pub const fn of_one(client: ClientId) -> Self {
        Self(client.get())
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Chip id as in PMC_BOOT_0 bits 28:20, `0xf1` for a GK110B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chipset(u16);

impl Chipset {
    /// The chip with this id.
    pub const fn new(raw: u16) -> Self {
        Self(raw)
    }

    /// The id.
    pub const fn get(self) -> u16 {
        self.0
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_ids))]
mod tests {
    use super::*;

    #[test]
    fn chid_past_the_last_is_refused() {
        assert!(Chid::new(4095).is_some());
        assert!(Chid::new(4096).is_none());
    }

    #[test]
    fn chid_from_bits_keeps_twelve() {
        assert_eq!(Chid::from_bits(0xffff_f123).get(), 0x123);
        assert_eq!(TsgId::from_bits(0x1fff).get(), 0xfff);
    }
}
