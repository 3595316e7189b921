// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Lines of the recorder of `tests/card`: a kind, then values.

use std::collections::BTreeMap;

/// Kinds of lines, with the values that each must have.
const KINDS: &[(&str, &[&str])] = &[
    ("call", &["node", "nr", "size", "result", "in"]),
    ("uvm", &["nr", "in"]),
    (
        "mmap",
        &[
            "node", "fd", "length", "rights", "flags", "offset", "failed",
        ],
    ),
    ("close", &["node", "fd"]),
    ("left", &["node", "length", "rights"]),
    ("full", &[]),
];

/// Values that are bytes in hexadecimal digits.
const BYTES: [&str; 4] = ["in", "out", "params", "answer"];

/// Most bytes of a value.
const BYTES_MAX: usize = 1024;

/// One thing that happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Line<'a> {
    /// What happened.
    pub kind: &'a str,
    values: BTreeMap<&'a str, &'a str>,
}

impl<'a> Line<'a> {
    /// Reads a line.
    ///
    /// # Errors
    ///
    /// Which word of it is wrong.
    pub fn parse(line: &'a str) -> Result<Self, String> {
        let mut words = line.split(' ');
        let kind = words.next().unwrap_or_default();
        let known = KINDS.iter().find(|(name, _)| *name == kind);
        let (_, needed) = known.ok_or_else(|| format!("{kind:?} is no kind of line"))?;
        let mut values = BTreeMap::new();
        for word in words {
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| format!("{word:?} is not NAME=VALUE"))?;
            if BYTES.contains(&name) {
                bytes(value).ok_or_else(|| format!("{name} is not at most {BYTES_MAX} bytes"))?;
            }
            values.insert(name, value);
        }
        match needed.iter().find(|name| !values.contains_key(**name)) {
            Some(name) => Err(format!("{kind} has no {name}")),
            None => Ok(Line { kind, values }),
        }
    }

    /// A value as it stands there; empty if there is none.
    pub fn text(&self, name: &str) -> &'a str {
        self.values.get(name).copied().unwrap_or_default()
    }

    /// A value as bytes; none if there is none.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        bytes(self.text(name)).unwrap_or_default()
    }

    /// The little-endian 32-bit word at this offset of a value.
    pub fn word(&self, name: &str, at: usize) -> Option<u32> {
        let bytes = self.bytes(name);
        let four = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(four.try_into().ok()?))
    }

    /// The little-endian 64-bit word at this offset of a value.
    pub fn wide(&self, name: &str, at: usize) -> Option<u64> {
        let (low, high) = (self.word(name, at)?, self.word(name, at.checked_add(4)?)?);
        Some(u64::from(low) | (u64::from(high) << 32))
    }
}

/// Reads hexadecimal digits, two a byte.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let pairs = text.as_bytes().chunks(2);
    if pairs.len() > BYTES_MAX {
        return None;
    }
    pairs
        .map(|pair| match pair {
            // CAST: two digits of 16 are below 256.
            [high, low] => Some((digit(*high)? * 16 + digit(*low)?) as u8),
            _ => None,
        })
        .collect()
}

/// Reads a recording.
///
/// # Errors
///
/// The number of the first line that is wrong, and what is wrong with it.
pub fn lines(text: &str) -> Result<Vec<Line<'_>>, String> {
    (1..)
        .zip(text.lines())
        .map(|(number, line)| Line::parse(line).map_err(|wrong| format!("line {number}: {wrong}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_gives_text_bytes_and_words() {
        let line = Line::parse("uvm nr=27 in=0100000002000000ff").expect("a line");
        assert_eq!(
            (line.kind, line.text("nr"), line.text("out")),
            ("uvm", "27", "")
        );
        assert_eq!(line.bytes("in").len(), 9);
        assert_eq!(line.word("in", 4), Some(2));
        assert_eq!(line.wide("in", 0), Some(0x2_0000_0001));
        assert_eq!(line.word("in", 6), None);
        assert_eq!(line.word("in", usize::MAX), None);
    }

    #[test]
    fn line_that_is_none_says_what_is_wrong() {
        let wrong = |text: &str| Line::parse(text).expect_err(text);
        assert_eq!(wrong("uvm nr=27"), "uvm has no in");
        assert_eq!(wrong("uvm nr=27 in=012"), "in is not at most 1024 bytes");
        assert_eq!(wrong("uvm nr=27 in=0g"), "in is not at most 1024 bytes");
        assert_eq!(wrong("uvm nr=27 in=é"), "in is not at most 1024 bytes");
        assert_eq!(
            wrong(&format!("uvm in={}", "00".repeat(1025))),
            "in is not at most 1024 bytes"
        );
        assert_eq!(wrong("uvm 27"), "\"27\" is not NAME=VALUE");
        assert_eq!(wrong(""), "\"\" is no kind of line");
        let text = "close node=nvidiactl fd=8\nclose node=nvidiactl\n";
        assert_eq!(lines(text), Err("line 2: close has no fd".to_owned()));
    }
}
