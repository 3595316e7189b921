// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Sorting of small tables that are nearly in order.
//!
//! The sorts of `core` panic on an inconsistent order, and with an old compiler (1.85) objtool
//! takes that path for a function without an end.

/// Sorts by a key, in place: quadratic at worst, linear when in order already.
pub(crate) fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    for end in 1..items.len() {
        let mut at = end;
        while let Some(before) = at.checked_sub(1) {
            let (Some(left), Some(right)) = (items.get(before), items.get(at)) else {
                break;
            };
            if key(left) <= key(right) {
                break;
            }
            items.swap(before, at);
            at = before;
        }
    }
}
