// SPDX-License-Identifier: GPL-2.0

//! The text of a file, and errors at places in it.

use super::plain::Error;
use serde::de::DeserializeOwned;
use std::ops::Range;
use toml::Spanned;

/// A file's name and text, to say where something is.
pub(crate) struct Text<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
}

impl Text<'_> {
    /// What the text says.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        toml::from_str(self.text).map_err(|error| {
            let reason = error.message().trim().replace('\n', "; ");
            self.error(error.span().unwrap_or(0..0), reason)
        })
    }

    /// An error at a place in the text.
    pub(crate) fn error(&self, span: Range<usize>, reason: impl Into<String>) -> Error {
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.len() - before.rfind('\n').map_or(0, |at| at + 1) + 1;
        Error {
            place: format!("{}:{line}:{column}", self.name),
            reason: reason.into(),
        }
    }

    /// A number, if it is in range.
    pub(crate) fn number(
        &self,
        name: &str,
        value: &Spanned<u64>,
        min: u64,
        max: u64,
    ) -> Result<u64, Error> {
        let number = *value.get_ref();
        if (min..=max).contains(&number) {
            return Ok(number);
        }
        let reason = format!("{name} = {number} is out of range, want {min} to {max}");
        Err(self.error(value.span(), reason))
    }
}
