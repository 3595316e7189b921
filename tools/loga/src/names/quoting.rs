// SPDX-License-Identifier: GPL-2.0

//! `[pure]` How names are written in double quotes, and read again; see
//! [docs/names.md](../../../../docs/names.md).

use std::fmt;
use std::fmt::Write as _;

/// Characters that are no controls and cannot be seen, or change how what follows is shown: first
/// and last of each range. A few of them are not assigned.
/// Source: Unicode 16, property `Default_Ignorable_Code_Point`, the two separators of lines and
/// paragraphs, and the annotations of Specials.
const UNSEEN: [(char, char); 17] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Whether a character can be seen and leaves those around it as they are.
pub fn is_plain(c: char) -> bool {
    !c.is_control()
        && !UNSEEN
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&c))
}

/// What is wrong with a name in quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Where, in bytes from the begin of the text.
    pub at: usize,
    /// Why, and what would be right.
    pub why: String,
}

/// A line for people in which names may stand that were not written by [`quote`]: what is not plain
/// is escaped. It cannot be read again.
pub fn harmless(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for c in line.chars() {
        push(&mut text, c);
    }
    text
}

/// Any bytes in double quotes.
pub(super) fn quote(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => text.extend(['\\', c]),
                c => push(&mut text, c),
            }
        }
        for byte in chunk.invalid() {
            push_byte(&mut text, *byte);
        }
    }
    text.push('"');
    text
}

/// A character, or its escape.
fn push(text: &mut String, c: char) {
    match c {
        '\n' => text.push_str("\\n"),
        '\t' => text.push_str("\\t"),
        '\r' => text.push_str("\\r"),
        c if is_plain(c) => text.push(c),
        // CAST: a byte, since it is ASCII.
        c if c.is_ascii() => push_byte(text, c as u8),
        c => put(text, format_args!("\\u{{{:x}}}", u32::from(c))),
    }
}

fn push_byte(text: &mut String, byte: u8) {
    put(text, format_args!("\\x{byte:02x}"));
}

fn put(text: &mut String, written: fmt::Arguments<'_>) {
    // A string takes everything.
    let _ = text.write_fmt(written);
}

/// Reads what [`quote`] writes from the begin of a text, which is a double quote. Returns the bytes,
/// and how much of the text that was.
///
/// # Errors
///
/// Where it is wrong, and what would be right.
pub(super) fn unquote(text: &str) -> Result<(Vec<u8>, usize), Wrong> {
    let wrong = |at, why: &str| Wrong {
        at,
        why: why.to_string(),
    };
    let mut bytes = Vec::new();
    let mut at = 1;
    while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
        match c {
            '"' => return Ok((bytes, at + 1)),
            '\\' => {
                let rest = text.get(at + 1..).unwrap_or_default();
                let length = escape(rest, &mut bytes)
                    .ok_or_else(|| wrong(at, r#"want \\, \", \n, \t, \r, \xNN or \u{N}"#))?;
                at += 1 + length;
            }
            c => {
                let mut room = [0; 4];
                bytes.extend_from_slice(c.encode_utf8(&mut room).as_bytes());
                at += c.len_utf8();
            }
        }
    }
    Err(wrong(0, "want a second \" at the end of the name"))
}

/// Reads what follows a backslash. Returns its length.
fn escape(rest: &str, bytes: &mut Vec<u8>) -> Option<usize> {
    let byte = match rest.chars().next()? {
        c @ ('"' | '\\') => c,
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'x' => {
            bytes.push(u8::try_from(hexadecimal(rest.get(1..3)?)?).ok()?);
            return Some(3);
        }
        'u' => {
            let (digits, _) = rest.get(1..)?.strip_prefix('{')?.split_once('}')?;
            let c = char::from_u32(hexadecimal(digits)?)?;
            let mut room = [0; 4];
            bytes.extend_from_slice(c.encode_utf8(&mut room).as_bytes());
            return Some(digits.len() + 3);
        }
        _ => return None,
    };
    // CAST: all five are ASCII.
    bytes.push(byte as u8);
    Some(1)
}

/// A number of one to six digits.
fn hexadecimal(digits: &str) -> Option<u32> {
    let fits = (1..=6).contains(&digits.len()) && digits.bytes().all(|c| c.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| fits)
}
