// SPDX-License-Identifier: GPL-2.0

//! `[tool]` An entry of a file of settings, and the subject that it found.

use super::file::Entry;
use crate::commands::subject::Subject;

/// An entry and its subject.
pub(super) type Found<'a> = (&'a Entry, Subject);

/// What a subject is called: of a pattern, the one that it found.
pub(super) fn called(entry: &Entry, subject: &Subject) -> String {
    format!("{} {}", entry.whom.kind(), subject.name)
}
