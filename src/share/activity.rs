// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Whether a process is awake, see `awake`.

/// A position that no table has: the end of the list.
pub(super) const END: usize = usize::MAX;

/// Whether a process is awake.
#[derive(Clone, Copy, Debug)]
pub(super) struct Activity {
    pub(super) awake: bool,
    /// The last phase in which it did anything.
    pub(super) last: u32,
    /// Position of the next process that is awake.
    pub(super) next: usize,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            awake: false,
            last: 0,
            next: END,
        }
    }
}
