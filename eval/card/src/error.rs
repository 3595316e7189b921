// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Why an archive is refused.

use crate::{ARCHIVE_BYTES_MAX, FILES_MAX, FILE_BYTES_MAX, NAME_BYTES_MAX, VERSION};
use std::fmt::{self, Display, Formatter};
use std::io;

/// One cause. Names that a stranger chose are printed with their control characters escaped.
#[derive(Debug)]
pub enum Error {
    /// The file system refused.
    File(io::Error),
    /// The archive has this many bytes.
    TooLarge(u64),
    /// It is no tar, or it is cut.
    Tar(String),
    /// It has more files than an archive may have.
    TooManyFiles,
    /// A file's name leads elsewhere, or has letters that no name here has.
    Name(String),
    /// An entry that is no plain file: a link, a folder, a device, an extension of the format.
    Kind(String),
    /// Two files have this name.
    Twice(String),
    /// A file has this many bytes.
    FileTooLarge(String, u64),
    /// The first file is not the manifest.
    NoManifest,
    /// The manifest cannot be read.
    Manifest(String),
    /// The manifest is of another version.
    Version(u64),
    /// The manifest names a file that is not there, or not of that length.
    Missing(String),
    /// A file that the manifest does not name.
    Unnamed(String),
    /// A file is not what its name says.
    Contents(String, String),
    /// A file has what tells cards or hosts apart.
    Private(String, &'static str),
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Error::File(error) => write!(f, "{error}"),
            Error::TooLarge(bytes) => {
                write!(f, "{bytes} bytes: at most {ARCHIVE_BYTES_MAX} are read")
            }
            Error::Tar(reason) => write!(f, "no whole tar: {reason}"),
            Error::TooManyFiles => write!(f, "more than {FILES_MAX} files beside the manifest"),
            Error::Name(name) => write!(
                f,
                "{name:?}: a name is FILE or FOLDER/FILE, of a-z, 0-9, '.', '_' and '-', \
                 at most {NAME_BYTES_MAX} letters"
            ),
            Error::Kind(name) => write!(f, "{name:?}: not a plain file"),
            Error::Twice(name) => write!(f, "{name:?}: twice in the archive"),
            Error::FileTooLarge(name, bytes) => {
                write!(
                    f,
                    "{name:?}: {bytes} bytes, at most {FILE_BYTES_MAX} are read"
                )
            }
            Error::NoManifest => f.write_str("its first file is not manifest.json"),
            Error::Manifest(reason) => write!(f, "manifest.json: {reason}"),
            Error::Version(version) => write!(
                f,
                "manifest.json: version {version}, this program reads version {VERSION}"
            ),
            Error::Missing(name) => {
                write!(
                    f,
                    "{name:?}: not there as the manifest has it, is the archive cut?"
                )
            }
            Error::Unnamed(name) => write!(f, "{name:?}: the manifest does not name it"),
            Error::Contents(name, reason) => write!(f, "{name:?}: {reason}"),
            Error::Private(name, what) => write!(f, "{name:?}: has {what}"),
        }
    }
}

impl std::error::Error for Error {}
