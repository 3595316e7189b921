// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A name that somebody else has chosen.

use super::quoting::{is_plain, quote, unquote, Wrong};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The name of a process, user, cgroup, executable or file: any bytes, since whoever makes one
/// chooses them.
///
/// What is printed is safe on a terminal, in a log and in a label, and can be read again: see
/// [docs/names.md](../../../../docs/names.md). In JSON it is the text itself; bytes that are no UTF-8
/// are U+FFFD there, and the member beside it has [`Name::hex`].
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Vec<u8>);

impl Name {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name as one of a file.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// The name as text, with U+FFFD for what is no UTF-8.
    pub fn lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// All bytes in hexadecimal digits, if they are no UTF-8.
    pub fn hex(&self) -> Option<String> {
        let digits = || self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        std::str::from_utf8(&self.0).is_err().then(digits)
    }

    /// What is printed: the name as it is if that is safe and cannot be mistaken, else in quotes.
    pub fn printed(&self) -> Cow<'_, str> {
        match std::str::from_utf8(&self.0) {
            Ok(text) if is_bare(text) => Cow::Borrowed(text),
            _ => Cow::Owned(quote(&self.0)),
        }
    }

    /// The name that a value of a file stands for: the value itself, or in quotes.
    ///
    /// # Errors
    ///
    /// Where the quotes are wrong, and what would be right.
    pub fn read(text: &str) -> Result<Self, Wrong> {
        if !text.starts_with('"') {
            return Ok(text.into());
        }
        match Self::read_quoted(text)? {
            (name, end) if end == text.len() => Ok(name),
            (_, end) => Err(Wrong {
                at: end,
                why: "want nothing after the second \"".to_string(),
            }),
        }
    }

    /// The name in quotes at the begin of a text, and how much of the text that is.
    ///
    /// # Errors
    ///
    /// As [`Name::read`].
    pub fn read_quoted(text: &str) -> Result<(Self, usize), Wrong> {
        let (bytes, length) = unquote(text)?;
        Ok((Self(bytes), length))
    }

    /// The name that this one is in quotes, if it is.
    pub fn unquoted(&self) -> Option<Self> {
        let text = std::str::from_utf8(&self.0).ok()?;
        text.starts_with('"').then(|| Self::read(text).ok())?
    }
}

/// Whether a text is printed without quotes: a file can have it so, but for its separators.
fn is_bare(text: &str) -> bool {
    let begins = !text.is_empty() && !text.starts_with('"') && text.trim() == text;
    begins && text.chars().all(is_plain)
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.printed())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quote(&self.0))
    }
}

impl From<&[u8]> for Name {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl From<Vec<u8>> for Name {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl From<&OsStr> for Name {
    fn from(text: &OsStr) -> Self {
        text.as_bytes().into()
    }
}

impl From<OsString> for Name {
    fn from(text: OsString) -> Self {
        Self(text.into_vec())
    }
}

impl From<&Path> for Name {
    fn from(path: &Path) -> Self {
        path.as_os_str().into()
    }
}

impl From<&PathBuf> for Name {
    fn from(path: &PathBuf) -> Self {
        path.as_path().into()
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, text: &str) -> bool {
        self.0 == text.as_bytes()
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, text: &&str) -> bool {
        self == *text
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.lossy())
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}
