// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Archives of what `loga-host card` found out on a host: one tar, with a manifest that says
//! what was asked, what answered, and which files it has.
//!
//! Archives come from strangers. [`Archive::read`] believes nothing: it bounds every size, takes no
//! name that leads out of the archive, and reads every file as what its name says that it is.
//!
//! | file | contents |
//! |---|---|
//! | [`archive`] | writes and reads the tar |
//! | [`manifest`] | what the first file of an archive says |
//! | [`recording`] | lines of the recorder of `tests/card` |
//! | [`error`] | why an archive is refused, one cause each |

pub mod archive;
pub mod error;
pub mod manifest;
pub mod recording;

pub use archive::Archive;
pub use error::Error;
pub use manifest::{Manifest, Outcome, StepRecord};

/// Version of the layout. Raised when a member or a file changes its meaning or goes away.
pub const VERSION: u32 = 1;

/// Largest archive, in bytes.
pub const ARCHIVE_BYTES_MAX: u64 = 4 << 20;
/// Largest file in it, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most files in it, the manifest not counted.
pub const FILES_MAX: usize = 64;
/// Longest name of a file, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
