// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Files and mappings of a GPU that LoGA does not control.
//!
//! Each of them is counted, and the first mapping for each reason is to be logged.

/// Why LoGA does not control a mapping of a submission page, or what may be one. None of these is a
/// want of memory or room: for that, calls are refused.
#[derive(Clone, Copy)]
pub(crate) enum Unmanaged {
    /// Its file was opened while LoGA was not attached.
    OldFile,
    /// The GPU has answered at no time since LoGA found it.
    Blind,
    /// The driver has made no entry: what the page is shows at the first touch.
    Empty,
    /// The module is being unloaded.
    Unloading,
}

impl Unmanaged {
    pub(super) const fn text(self) -> &'static str {
        match self {
            Unmanaged::OldFile => "it maps a file that was opened while LoGA was not attached",
            Unmanaged::Blind => "the GPU has not told where its submission pages are",
            Unmanaged::Empty => "the driver has not filled the page in",
            Unmanaged::Unloading => "the module is being unloaded",
        }
    }
}

/// How many files and mappings LoGA does not control.
#[derive(Default)]
pub(crate) struct UnmanagedUses {
    files: u64,
    mappings: u64,
    /// A bit for each reason for which a mapping was counted.
    reasons: u32,
}

impl UnmanagedUses {
    /// Counts a file that was open before LoGA was attached.
    pub(super) const fn count_file(&mut self) {
        self.files = self.files.saturating_add(1);
    }

    /// Counts a mapping of a submission page. True if it is the first one for this reason.
    #[must_use]
    pub(super) fn count_mapping(&mut self, why: Unmanaged) -> bool {
        self.mappings = self.mappings.saturating_add(1);
        // CAST: a small number.
        let bit = 1u32.checked_shl(why as u32).unwrap_or(0);
        let is_new = self.reasons & bit == 0;
        self.reasons |= bit;
        is_new
    }

    /// Files that were open before LoGA was attached.
    pub(crate) const fn files(&self) -> u64 {
        self.files
    }

    /// Mappings of submission pages.
    pub(crate) const fn mappings(&self) -> u64 {
        self.mappings
    }
}
