// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What the kernel logs while a test runs.

use loga_ktap::signs;
use nix::fcntl::OFlag;
use std::fs::File;
use std::io;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// Longest record of `/dev/kmsg`.
const RECORD_MAX: usize = 8192;

/// Most records read for one test; more than the log has room for.
const RECORDS_MAX: usize = 100_000;

/// The kernel's log from some time on.
#[derive(Debug)]
pub(crate) struct KernelLog {
    file: File,
    lines: Vec<String>,
}

impl KernelLog {
    /// The log from now on.
    pub(crate) fn from_now() -> Result<Self, String> {
        let mut file = File::options()
            .read(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open("/dev/kmsg")
            .map_err(|error| format!("/dev/kmsg: {error}"))?;
        file.seek(SeekFrom::End(0))
            .map_err(|error| format!("/dev/kmsg: {error}"))?;
        Ok(KernelLog {
            file,
            lines: Vec::new(),
        })
    }

    /// All lines since it was opened.
    pub(crate) fn lines(&mut self) -> Result<&[String], String> {
        let mut record = vec![0; RECORD_MAX];
        for _ in 0..RECORDS_MAX {
            match self.file.read(&mut record) {
                Ok(0) => break,
                Ok(length) => self.lines.push(text_of(&record[..length])),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // Older records were overwritten; the next read goes on behind them.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                Err(error) => return Err(format!("/dev/kmsg: {error}")),
            }
        }
        Ok(&self.lines)
    }

    /// The first line since it was opened that speaks of trouble.
    pub(crate) fn trouble(&mut self) -> Result<Option<String>, String> {
        let lines = self.lines()?;
        Ok(lines.iter().find(|line| signs::complains(line)).cloned())
    }

    /// Lines since it was opened that contain all words.
    pub(crate) fn with(&mut self, words: &[&str]) -> Result<Vec<String>, String> {
        let lines = self.lines()?;
        Ok(lines
            .iter()
            .filter(|line| words.iter().all(|word| line.contains(word)))
            .cloned()
            .collect())
    }
}

/// The text of a record: what stands behind the first ';', without the details on further lines.
fn text_of(record: &[u8]) -> String {
    let text = String::from_utf8_lossy(record);
    let body = text.split_once(';').map_or(&*text, |(_, body)| body);
    body.lines().next().unwrap_or("").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_text_is_behind_the_semicolon() {
        let record = b"3,512,99,-;loga: poll_ms=0: out of range; must be 1 to 1000\n SUBSYSTEM=x\n";
        assert_eq!(
            text_of(record),
            "loga: poll_ms=0: out of range; must be 1 to 1000"
        );
    }
}
