// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Whether a mapping is a submission page, and of which channels.
//!
//! On Kepler to Pascal the slots of all channels form one area in BAR1. A page
//! holds several of them, all of one process (the driver separates processes by
//! page).

use crate::ids::{Chid, MAX_CHANNELS};
use core::ops::Range;

/// Consecutive channels.
///
/// # Invariants
///
/// `count` is at least 1 and all ids exist on the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChidRange {
    /// The first of them.
    pub first: Chid,
    /// How many.
    pub count: u16,
}

impl ChidRange {
    /// The last of them.
    pub fn last(&self) -> Chid {
        let rest = self.count.saturating_sub(1);
        Chid::new(self.first.get().saturating_add(rest)).unwrap_or(self.first)
    }

    /// Whether a channel is one of them.
    pub const fn contains(&self, chid: Chid) -> bool {
        chid.get() >= self.first.get() && chid.get() - self.first.get() < self.count
    }

    /// The channels, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Chid> {
        let first = self.first.get();
        (first..first.saturating_add(self.count)).filter_map(Chid::new)
    }
}

/// Channels with slots in the physical range of `len` bytes at `phys`.
///
/// `bar1` is the physical range of BAR1, `userd_base` the offset of the slots in it,
/// `slot` the bytes per channel. Nothing for a range that touches no slot.
pub fn classify(
    phys: u64,
    len: u64,
    bar1: Range<u64>,
    userd_base: u64,
    slot: u32,
    channels: u16,
) -> Option<ChidRange> {
    let area = area(&bar1, userd_base, slot, channels)?;
    let start = phys.max(area.start);
    let end = phys.checked_add(len)?.min(area.end);
    if start >= end || slot == 0 {
        return None;
    }
    let slot = u64::from(slot);
    let first = (start - area.start) / slot;
    let last = (end - 1 - area.start) / slot;
    Some(ChidRange {
        first: Chid::new(u16::try_from(first).ok()?)?,
        count: u16::try_from(last - first + 1).ok()?,
    })
}

/// Physical range of all slots, cut to BAR1.
fn area(bar1: &Range<u64>, userd_base: u64, slot: u32, channels: u16) -> Option<Range<u64>> {
    if usize::from(channels) > MAX_CHANNELS {
        return None;
    }
    let start = bar1.start.checked_add(userd_base)?;
    let size = u64::from(slot).checked_mul(channels.into())?;
    let end = start.checked_add(size)?.min(bar1.end);
    (start < end).then_some(start..end)
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_track_submission))]
mod tests {
    use super::*;

    const BAR1: Range<u64> = 0x2400_0000..0x2c00_0000;
    const BASE: u64 = 0x7d6_0000;
    const AREA: u64 = BAR1.start + BASE;

    fn page(phys: u64) -> Option<ChidRange> {
        classify(phys, 4096, BAR1, BASE, 0x200, 4096)
    }

    fn chids(first: u16, count: u16) -> Option<ChidRange> {
        let first = Chid::new(first)?;
        Some(ChidRange { first, count })
    }

    #[test]
    fn classify_of_a_page_is_eight_channels() {
        assert_eq!(page(AREA), chids(0, 8));
        assert_eq!(page(AREA + 5 * 4096), chids(40, 8));
    }

    #[test]
    fn classify_of_the_last_page_ends_with_the_chip() {
        assert_eq!(page(AREA + 511 * 4096), chids(4088, 8));
        assert_eq!(page(AREA + 512 * 4096), None);
    }

    #[test]
    fn classify_across_the_start_is_cut() {
        let range = classify(AREA - 4096, 8192, BAR1, BASE, 0x200, 4096);
        assert_eq!(range, chids(0, 8));
        assert_eq!(page(AREA - 4096), None);
    }

    #[test]
    fn classify_of_absurd_ranges_is_nothing() {
        assert_eq!(classify(AREA, 0, BAR1, BASE, 0x200, 4096), None);
        assert_eq!(classify(u64::MAX, 2, BAR1, BASE, 0x200, 4096), None);
        assert_eq!(classify(AREA, 4096, BAR1, BASE, 0, 4096), None);
        assert_eq!(classify(AREA, 4096, BAR1, u64::MAX, 0x200, 4096), None);
        assert_eq!(classify(AREA, 4096, BAR1, BASE, 0x200, 5000), None);
    }

    #[test]
    fn classify_past_the_end_of_bar1_is_cut() {
        let bar1 = BAR1.start..AREA + 4096;
        let range = classify(AREA, 8192, bar1.clone(), BASE, 0x200, 4096);
        assert_eq!(range, chids(0, 8));
    }

    // Regression: the prototype left out channel 0.
    #[test]
    fn classify_of_the_first_slot_begins_with_channel_zero() {
        let range = classify(AREA, 0x200, BAR1, BASE, 0x200, 4096);
        assert_eq!(range, chids(0, 1));
    }
}
