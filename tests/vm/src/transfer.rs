// SPDX-License-Identifier: GPL-2.0

//! Messages of the guest over its second serial port: files and its exit status.
//!
//! Two kinds of lines, each ended by a newline:
//! `loga-file NAME SIZE`, followed by exactly SIZE bytes, and
//! `loga-exit STATUS`, the last line.

use anyhow::{bail, Context, Result};

/// Largest file that is accepted.
const MAX_FILE: usize = 256 << 20;
/// Longest header line.
const MAX_LINE: usize = 512;

/// One complete message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A file with its name, which has no slash.
    File { name: String, data: Vec<u8> },
    /// Exit status of the line that was run.
    Exit(i32),
}

/// Assembles messages from bytes as they arrive.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    pending: Vec<u8>,
}

impl Receiver {
    /// Takes over more bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next message that is complete.
    ///
    /// # Errors
    /// Anything but the two known lines: the port carries nothing else.
    pub(crate) fn next(&mut self) -> Result<Option<Message>> {
        let Some(end) = self.pending.iter().position(|b| *b == b'\n') else {
            if self.pending.len() > MAX_LINE {
                bail!(
                    "the guest sent {} bytes without a newline",
                    self.pending.len()
                );
            }
            return Ok(None);
        };
        let line = String::from_utf8_lossy(&self.pending[..end]).into_owned();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["loga-exit", status] => {
                let status = status
                    .parse()
                    .with_context(|| format!("bad line {line:?}"))?;
                self.pending.drain(..=end);
                Ok(Some(Message::Exit(status)))
            }
            ["loga-file", name, size] if !name.contains('/') && *name != ".." => {
                let size: usize = size.parse().with_context(|| format!("bad line {line:?}"))?;
                if size > MAX_FILE {
                    bail!("the guest wants to send {size} bytes as {name}, limit {MAX_FILE}");
                }
                let total = end + 1 + size;
                if self.pending.len() < total {
                    return Ok(None);
                }
                let data = self.pending[end + 1..total].to_vec();
                self.pending.drain(..total);
                Ok(Some(Message::File {
                    name: (*name).to_owned(),
                    data,
                }))
            }
            _ => bail!("unknown line on the guest's second serial port: {line:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_whole_however_they_are_cut() {
        let stream = b"loga-file a.txt 5\nab\ncdloga-file empty 0\nloga-exit 3\n";
        for step in 1..stream.len() {
            let mut receiver = Receiver::default();
            let mut got = Vec::new();
            for part in stream.chunks(step) {
                receiver.push(part);
                while let Ok(Some(message)) = receiver.next() {
                    got.push(message);
                }
            }
            let name = "a.txt".to_owned();
            assert_eq!(
                got,
                [
                    Message::File {
                        name,
                        data: b"ab\ncd".to_vec()
                    },
                    Message::File {
                        name: "empty".to_owned(),
                        data: Vec::new()
                    },
                    Message::Exit(3),
                ],
                "in steps of {step}"
            );
        }
    }

    #[test]
    fn names_cannot_leave_the_folder() {
        for line in [
            "loga-file ../x 0\n",
            "loga-file .. 0\n",
            "loga-file a/b 0\n",
        ] {
            let mut receiver = Receiver::default();
            receiver.push(line.as_bytes());
            assert!(receiver.next().is_err(), "{line}");
        }
    }

    #[test]
    fn noise_is_an_error() {
        let mut receiver = Receiver::default();
        receiver.push(b"hello\n");
        assert!(receiver.next().is_err());
        let mut receiver = Receiver::default();
        receiver.push(&[b'x'; MAX_LINE + 1]);
        assert!(receiver.next().is_err());
    }
}
