// SPDX-License-Identifier: GPL-2.0

//! `[tool]` JSON that is exact and harmless on a terminal: what is not plain in a string is escaped.

use super::quoting::is_plain;
use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::Serializer;
use std::io;
use std::io::Write;

/// The compact form, but for strings. Controls below U+0020 are escaped before.
struct Harmless;

impl Formatter for Harmless {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut written = 0;
        for (at, c) in fragment.char_indices().filter(|(_, c)| !is_plain(*c)) {
            out.write_all(fragment.get(written..at).unwrap_or_default().as_bytes())?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            written = at + c.len_utf8();
        }
        out.write_all(fragment.get(written..).unwrap_or_default().as_bytes())
    }
}

/// Writes an object.
///
/// # Errors
///
/// Those of the output.
pub fn write(out: &mut impl Write, object: &impl Serialize) -> io::Result<()> {
    object.serialize(&mut Serializer::with_formatter(out, Harmless))?;
    Ok(())
}
