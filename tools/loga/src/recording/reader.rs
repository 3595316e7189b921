// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Reads recordings, line by line.
//!
//! A last line without an end was cut when the machine or the disk failed; it is left out. Any other
//! line that is wrong ends the reading with an error: what is after it cannot be added up.

use super::layout::{Line, Start, VERSION};
use crate::names::Name;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Longest line: more clients than the kernel module has.
const LENGTH_MAX: u64 = 64 << 20;

/// A recording that is read.
#[derive(Debug)]
pub struct Reader<R = BufReader<File>> {
    input: R,
    name: Name,
    start: Start,
    /// Lines that were read.
    number: u64,
    text: Vec<u8>,
    /// What is to be said of its end.
    note: Option<String>,
}

impl Reader {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    ///
    /// Why it is no recording, with its name.
    pub fn open(path: &Path) -> Result<Self, String> {
        let name = Name::from(path);
        let failed = |error| format!("cannot read {name}: {error}");
        let file = File::open(path).map_err(failed)?;
        let data = file.metadata().map_err(failed)?;
        if data.is_dir() {
            return Err(format!("{name} is a folder: want a file of `loga record`"));
        }
        Self::over(BufReader::new(file), name)
    }
}

impl<R: BufRead> Reader<R> {
    /// Reads the header of what has this name.
    ///
    /// # Errors
    ///
    /// Why it is no recording.
    pub fn over(input: R, name: Name) -> Result<Self, String> {
        let mut reader = Self {
            input,
            name,
            start: Start::default(),
            number: 0,
            text: Vec::new(),
            note: None,
        };
        let none = "want a file of `loga record`";
        match reader.line()? {
            Some(Line::Start(start)) => reader.start = start,
            Some(_) => return Err(format!("{}, line 1: no header: {none}", reader.name)),
            None if reader.note.is_some() => {
                return Err(format!("{} ends in its header: {none}", reader.name))
            }
            None => return Err(format!("{} is empty: {none}", reader.name)),
        }
        Ok(reader)
    }

    /// The header.
    pub fn start(&self) -> &Start {
        &self.start
    }

    /// The name of the file.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The text of the line that was read last.
    pub fn text(&self) -> &[u8] {
        self.text.strip_suffix(b"\n").unwrap_or(&self.text)
    }

    /// What is to be said of the end of the file, once it was reached.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// The next line; nothing at the end.
    ///
    /// # Errors
    ///
    /// The file and the line, and what is wrong with it.
    pub fn line(&mut self) -> Result<Option<Line>, String> {
        self.text.clear();
        let at = self.number + 1;
        let mut input = (&mut self.input).take(LENGTH_MAX);
        let read = input.read_until(b'\n', &mut self.text);
        read.map_err(|error| format!("cannot read {}, line {at}: {error}", self.name))?;
        if self.text.is_empty() {
            return Ok(None);
        }
        self.number = at;
        let whole = self.text.ends_with(b"\n");
        match serde_json::from_slice(self.text()) {
            Ok(Line::Start(start)) if start.version != VERSION => Err(format!(
                "{}, line {at}: a recording of version {}: this loga reads version {VERSION}",
                self.name, start.version
            )),
            Ok(line) => Ok(Some(line)),
            // CAST: a length in memory.
            Err(_) if !whole && (self.text.len() as u64) < LENGTH_MAX => {
                let name = &self.name;
                self.note = Some(format!(
                    "{name}, line {at}: the last line is cut, and left out"
                ));
                Ok(None)
            }
            Err(error) => Err(format!(
                "{}, line {at}: not a line of a recording: {error}",
                self.name
            )),
        }
    }
}
