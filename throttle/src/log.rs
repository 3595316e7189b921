// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The kernels of a run, one line each, all times on the host's clock.
//!
//! The device has a clock of its own. A [`Mark`] is a moment that both clocks know; with one before
//! the first kernel and one after the last, times in between are converted along a straight line.

use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::fs::{remove_file, rename, File};
use std::io;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Kernels that are kept; later ones are only counted.
pub const KERNELS_MAX: usize = 1 << 20;

/// A moment by the host's clock and by the device's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mark {
    /// CLOCK_MONOTONIC in ns.
    pub host_ns: u64,
    /// The device's clock in ns.
    pub device_ns: u64,
}

/// When a kernel ran, by the device's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Span {
    /// When the device got to it, in ns.
    pub started_ns: u64,
    /// How long it took, in ns.
    pub length_ns: u64,
}

/// When a kernel was submitted, CLOCK_MONOTONIC in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Submission {
    /// Before the first of the library's calls that submit it.
    pub submitted_ns: u64,
    /// After the last one.
    pub returned_ns: u64,
}

/// One line: a kernel, its times by CLOCK_MONOTONIC in ns.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Kernel {
    /// Its number, from 1.
    pub kernel: u64,
    /// Before the first of the library's calls that submit it.
    pub submitted_ns: u64,
    /// After the last one.
    pub returned_ns: u64,
    /// When the device got to it, by the device's events.
    pub started_ns: u64,
    /// When it ended.
    pub ended_ns: u64,
}

/// The last line.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Last {
    /// Kernels after those of the lines above.
    pub dropped: u64,
}

/// The kernels of a run so far, in the order of their ends.
#[derive(Clone, Debug)]
pub struct Log {
    kernels: Vec<(Submission, Span)>,
    dropped: u64,
    first: Mark,
    last: Mark,
}

impl Log {
    /// Room for `expected` kernels, at most [`KERNELS_MAX`], after the mark `first`.
    pub fn new(first: Mark, expected: u64) -> Self {
        let expected = usize::try_from(expected).unwrap_or(KERNELS_MAX);
        Log {
            // Memory that no kernel needs is not touched.
            kernels: Vec::with_capacity(expected.min(KERNELS_MAX)),
            dropped: 0,
            first,
            last: first,
        }
    }

    /// Notes a kernel that has ended.
    pub fn add(&mut self, submission: Submission, span: Span) {
        if self.kernels.len() < KERNELS_MAX {
            self.kernels.push((submission, span));
        } else {
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    /// Takes the mark after the last kernel.
    pub fn end(&mut self, last: Mark) {
        self.last = last;
    }

    /// The lines of the kernels.
    pub fn kernels(&self) -> impl Iterator<Item = Kernel> + '_ {
        let lines = (1u64..).zip(&self.kernels);
        lines.map(|(kernel, (submission, span))| Kernel {
            kernel,
            submitted_ns: submission.submitted_ns,
            returned_ns: submission.returned_ns,
            started_ns: self.host_ns(span.started_ns),
            ended_ns: self.host_ns(span.started_ns.saturating_add(span.length_ns)),
        })
    }

    /// A moment of the device's clock by the host's, on the line through both marks. Rounds towards
    /// the first mark.
    fn host_ns(&self, device_ns: u64) -> u64 {
        let since_ns = |to: u64, from: u64| i128::from(to) - i128::from(from);
        let ns = since_ns(device_ns, self.first.device_ns);
        let host_ns = since_ns(self.last.host_ns, self.first.host_ns);
        let line_ns = since_ns(self.last.device_ns, self.first.device_ns);
        // A clock that did not advance between the marks gives no line.
        let ns = if line_ns > 0 {
            ns * host_ns / line_ns
        } else {
            ns
        };
        let host_ns = i128::from(self.first.host_ns) + ns;
        // CAST: clamped to what fits.
        host_ns.clamp(0, i128::from(u64::MAX)) as u64
    }

    /// Writes all lines, and the last one.
    fn write(&self, to: &mut impl Write) -> io::Result<()> {
        for kernel in self.kernels() {
            line(to, &kernel)?;
        }
        let dropped = self.dropped;
        line(to, &Last { dropped })
    }
}

fn line<T: Serialize>(to: &mut impl Write, value: &T) -> io::Result<()> {
    serde_json::to_writer(&mut *to, value)?;
    to.write_all(b"\n")
}

/// A file that appears as a whole or not at all: it is written beside its place and then renamed.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    part: PathBuf,
    /// Nothing once it has its name.
    file: Option<File>,
}

impl LogFile {
    /// Creates `path`.part, of an instance `path`.N.part.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if it cannot be written, or if its later name is a folder's.
    pub fn create(path: &str, instance: Option<u32>) -> Result<Self, Error> {
        let path = match instance {
            Some(number) => format!("{path}.{number}"),
            None => path.to_owned(),
        };
        let part = PathBuf::from(format!("{path}.part"));
        let path = PathBuf::from(path);
        if path.is_dir() {
            return Err(failed(&path, io::ErrorKind::IsADirectory.into()));
        }
        let file = File::create(&part).map_err(|source| failed(&path, source))?;
        Ok(LogFile {
            path,
            part,
            file: Some(file),
        })
    }

    /// Writes the log and gives the file its name.
    ///
    /// # Errors
    ///
    /// [`Error::File`]; then there is no file.
    pub fn finish(mut self, log: &Log) -> Result<(), Error> {
        if let Some(file) = &self.file {
            let mut to = BufWriter::new(file);
            let written = log.write(&mut to).and_then(|()| to.flush());
            let renamed = written.and_then(|()| rename(&self.part, &self.path));
            renamed.map_err(|source| failed(&self.path, source))?;
        }
        self.file = None;
        Ok(())
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            // The run failed, and says why; that a part of its log is left is not worth more.
            let _ = remove_file(&self.part);
        }
    }
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::File {
        path: path.display().to_string(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir, read_dir, read_to_string};

    fn mark(host_ns: u64, device_ns: u64) -> Mark {
        Mark { host_ns, device_ns }
    }

    fn span(started_ns: u64, length_ns: u64) -> Span {
        Span {
            started_ns,
            length_ns,
        }
    }

    /// A log with one kernel, whose device's clock counts 1 % too much from 500.
    fn log() -> Log {
        let mut log = Log::new(mark(1_000_000, 500), 1);
        let submission = Submission {
            submitted_ns: 1_100_000,
            returned_ns: 1_150_000,
        };
        log.add(submission, span(500 + 202_000, 101_000));
        log.end(mark(11_000_000, 500 + 10_100_000));
        log
    }

    #[test]
    fn times_lie_on_the_line_through_both_marks() {
        let wanted = Kernel {
            kernel: 1,
            submitted_ns: 1_100_000,
            returned_ns: 1_150_000,
            started_ns: 1_200_000,
            ended_ns: 1_300_000,
        };
        assert_eq!(log().kernels().collect::<Vec<_>>(), [wanted]);
        assert_eq!(log().host_ns(500), 1_000_000);
        assert_eq!(log().host_ns(500 + 10_100_000), 11_000_000);
        // Before the first mark, and beyond what fits.
        assert_eq!(log().host_ns(399), 1_000_000 - 100);
        let early = Log::new(mark(10, 1000), 0);
        assert_eq!((early.host_ns(1005), early.host_ns(0)), (15, 0));
        // A day in ns, with the product of two such.
        let mut long = Log::new(mark(1 << 62, 1 << 62), 0);
        long.end(mark(
            (1 << 62) + 86_400_000_000_000,
            (1 << 62) + 86_400_000_000_000,
        ));
        assert_eq!(long.host_ns((1 << 62) + 77), (1 << 62) + 77);
    }

    #[test]
    fn kernels_beyond_the_maximum_are_counted() {
        let mut log = Log::new(Mark::default(), u64::MAX);
        for at in 0..KERNELS_MAX as u64 + 3 {
            log.add(Submission::default(), span(at, 1));
        }
        assert_eq!(log.kernels().count(), KERNELS_MAX);
        assert_eq!(log.dropped, 3);
        let last = log.kernels().last().expect("a kernel");
        assert_eq!(
            (last.kernel, last.started_ns),
            (KERNELS_MAX as u64, KERNELS_MAX as u64 - 1)
        );
    }

    #[test]
    fn file_has_a_line_for_each_kernel_and_a_last_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let name = path.to_str().expect("a plain path");
        std::fs::write(&path, "an older one").expect("a file");
        let file = LogFile::create(name, None).expect("a log");
        assert_eq!(read_to_string(&path).expect("still there"), "an older one");
        file.finish(&log()).expect("written");
        let wanted = "{\"kernel\":1,\"submitted_ns\":1100000,\"returned_ns\":1150000,\
                      \"started_ns\":1200000,\"ended_ns\":1300000}\n{\"dropped\":0}\n";
        assert_eq!(read_to_string(&path).expect("a log"), wanted);
        LogFile::create(name, Some(7))
            .expect("a log")
            .finish(&log())
            .expect("written");
        assert_eq!(
            read_to_string(folder.path().join("log.7")).expect("a log"),
            wanted
        );
        assert_eq!(read_dir(folder.path()).expect("a folder").count(), 2);
    }

    #[test]
    fn run_that_fails_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let file = LogFile::create(path.to_str().expect("a plain path"), None).expect("a log");
        assert!(folder.path().join("log.part").exists());
        drop(file);
        assert_eq!(read_dir(folder.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn file_that_cannot_be_written_is_refused_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let name = path.to_str().expect("a plain path");
        create_dir(&path).expect("a folder");
        for wrong in [name.to_owned(), format!("{name}/none/log")] {
            let error = LogFile::create(&wrong, None).expect_err("a refusal");
            assert_eq!(error.exit_code(), 5);
            let said = error.to_string();
            assert!(
                said.starts_with(&format!("cannot write {wrong}: ")),
                "{said}"
            );
        }
        assert_eq!(read_dir(folder.path()).expect("a folder").count(), 1);
    }
}
