// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Recordings in the layouts of other programs, line by line.

use super::layout::{Client, Line, Owner, Sample, Start};
use super::reader::Reader;
use crate::names::Name;
use std::collections::BTreeMap;
use std::io;
use std::io::{BufRead, Write};

/// What lines are written as.
pub trait Format {
    /// Takes a line, and its text.
    ///
    /// # Errors
    ///
    /// Those of the output.
    fn line(&mut self, line: &Line, text: &[u8]) -> io::Result<()>;

    /// Takes the end.
    ///
    /// # Errors
    ///
    /// Those of the output.
    fn end(&mut self) -> io::Result<()>;
}

/// How a conversion ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// What is to be said of it.
    pub note: Option<String>,
    /// The line that is wrong: only what is before it was converted.
    pub damage: Option<String>,
}

/// Converts a recording.
///
/// # Errors
///
/// Those of the output.
pub fn convert<R: BufRead>(
    reader: &mut Reader<R>,
    format: &mut impl Format,
    header: &[u8],
) -> io::Result<Done> {
    let mut done = Done::default();
    format.line(&Line::Start(reader.start().clone()), header)?;
    loop {
        match reader.line() {
            Ok(Some(line)) => format.line(&line, reader.text())?,
            Ok(None) => break,
            Err(damage) => {
                done.damage = Some(damage);
                break;
            }
        }
    }
    format.end()?;
    done.note = reader.note().map(str::to_string);
    Ok(done)
}

/// The lines as a list.
#[derive(Debug)]
pub struct List<W> {
    out: W,
    first: bool,
}

impl<W: Write> List<W> {
    /// An empty one.
    pub const fn new(out: W) -> Self {
        Self { out, first: true }
    }
}

impl<W: Write> Format for List<W> {
    fn line(&mut self, _: &Line, text: &[u8]) -> io::Result<()> {
        let before: &[u8] = if self.first { b"[\n" } else { b",\n" };
        self.first = false;
        self.out.write_all(before)?;
        self.out.write_all(text)
    }

    fn end(&mut self) -> io::Result<()> {
        let end: &[u8] = if self.first { b"[\n]\n" } else { b"\n]\n" };
        self.out.write_all(end)?;
        self.out.flush()
    }
}

/// What lines before say of later ones: the clock of the day, and names of users.
#[derive(Clone, Debug, Default)]
pub struct Context {
    ahead_ns: u64,
    users: BTreeMap<u64, Name>,
}

impl Context {
    /// Learns from a line.
    pub fn learn(&mut self, line: &Line) {
        match line {
            Line::Start(Start {
                time_ns, unix_ns, ..
            }) => self.ahead_ns = unix_ns.saturating_sub(*time_ns),
            Line::Resume(resume) => {
                self.ahead_ns = resume.unix_ns.saturating_sub(resume.time_ns);
            }
            Line::Sample(sample) => {
                self.ahead_ns = sample.unix_ns.saturating_sub(sample.time_ns);
                for user in &sample.users {
                    if let Some((id, name)) = user.id.zip(user.exact_name()) {
                        self.users.insert(id, name);
                    }
                }
            }
            Line::Event(_) | Line::Gap(_) | Line::End(_) => {}
        }
    }

    /// A time since 1970.
    pub const fn unix_ns(&self, time_ns: u64) -> u64 {
        time_ns.saturating_add(self.ahead_ns)
    }

    /// The name of a user, if it is known.
    pub fn user(&self, uid: u32) -> Option<&Name> {
        self.users.get(&uid.into())
    }
}

impl Client {
    /// Its command, byte for byte.
    pub fn exact_comm(&self) -> Name {
        exact(&self.comm, self.comm_hex.as_deref())
    }

    /// The path of its cgroup, byte for byte.
    pub fn exact_path(&self) -> Option<Name> {
        let path = self.cgroup_path.as_ref()?;
        Some(exact(path, self.cgroup_path_hex.as_deref()))
    }
}

impl Owner {
    /// Its name, byte for byte.
    pub fn exact_name(&self) -> Option<Name> {
        let name = self.name.as_ref()?;
        Some(exact(name, self.name_hex.as_deref()))
    }
}

/// A name whose bytes stand beside it if it is no text.
pub(super) fn exact(name: &Name, hex: Option<&str>) -> Name {
    let bytes = hex.and_then(|digits| {
        let digit = |at: usize| digits.get(at..at + 2);
        let byte = |at| u8::from_str_radix(digit(at)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
        bytes
    });
    bytes.map_or_else(|| name.clone(), Name::from)
}

/// The part of a GPU that this time is in a sample, 0 to 1 or a little more, since phases are booked
/// when they end.
pub fn share(sample: &Sample, gpu_time_ns: u64) -> Option<f64> {
    let span_ns = sample.span_ns();
    (span_ns > 0).then(|| gpu_time_ns as f64 / span_ns as f64)
}
