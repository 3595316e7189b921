// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Mappings of submission slots, against a search through all slots.

use crate::input::Input;
use loga::ids::MAX_CHANNELS;
use loga::track::submission::classify;

/// A number near `around` or any other, by the input.
fn near(input: &mut Input<'_>, around: u64) -> u64 {
    // CAST: a signed distance.
    let distance = i64::from(input.u16() as i16);
    match input.u8() % 4 {
        0 => around,
        1 => around.wrapping_add_signed(distance),
        2 => around.wrapping_add_signed(distance * 512),
        _ => input.u64(),
    }
}

/// Bytes are BAR1, the slots in it and the range of a mapping.
///
/// # Panics
///
/// An answer differs from that of the search.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let start = near(&mut input, 0x2400_0000);
    let end = near(&mut input, start.wrapping_add(0x800_0000));
    let base = near(&mut input, 0x7d6_0000);
    let slot = match input.u8() % 4 {
        0 => u32::from(input.u16()),
        1 => input.u32(),
        _ => 0x200,
    };
    let channels = match input.u8() % 4 {
        0 => input.u16(),
        1 => 1024,
        _ => 4096,
    };
    let phys = near(&mut input, start.wrapping_add(base));
    let len = near(&mut input, 4096);
    let bar1 = start..end;

    let area = u128::from(start) + u128::from(base);
    let area_end = (area + u128::from(slot) * u128::from(channels)).min(end.into());
    // Nothing beyond 64 bits is an address.
    let sane = usize::from(channels) <= MAX_CHANNELS
        && area + u128::from(slot) * u128::from(channels) <= u64::MAX.into()
        && slot > 0
        && u128::from(phys) + u128::from(len) <= u64::MAX.into();
    let begin = |chid: u16| area + u128::from(chid) * u128::from(slot);
    let (from, to) = (
        u128::from(phys).max(area),
        (u128::from(phys) + u128::from(len)).min(area_end),
    );
    let touched =
        |chid: &u16| from < to && begin(*chid) < to && from < begin(*chid) + u128::from(slot);
    let wanted: Vec<u16> = if sane {
        (0..channels).filter(touched).collect()
    } else {
        Vec::new()
    };
    let found = classify(phys, len, bar1, base, slot, channels);
    let chids: Vec<u16> = found
        .iter()
        .flat_map(|range| range.iter())
        .map(|chid| chid.get())
        .collect();
    assert_eq!(chids, wanted);
    if let Some(range) = &found {
        let inside =
            |chid: u16| loga::ids::Chid::new(chid).is_some_and(|chid| range.contains(chid));
        assert!((0..channels).all(|chid| inside(chid) == wanted.contains(&chid)));
    }
}
