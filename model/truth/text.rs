// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The ground truth as text: what the stand-in shows in debugfs, and what reads it.
//!
//! - `log`: one line per interval, oldest first: `start_ns end_ns engine chid pid kind`, where
//!   engine is the hardware's index (0 GR, 4 CE0) and kind is `run` or `switch`. A switch is two
//!   lines: saving names the channel that leaves, loading the one that comes, as the status word.
//! - `summary`: a [`Line`] for the window, one per engine, and one per process and engine that was
//!   used or has channels.

use super::{Entry, Usage};
use crate::gpu::{Chid, Interval, Kind, ENGINES, ENGINE_INDEX};
use core::fmt;
use core::str::{FromStr, SplitAsciiWhitespace};

/// A line of the summary. Engines are positions ([`crate::gpu::GR`] or [`crate::gpu::CE0`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// `window start_ns now_ns kept`.
    Window {
        /// When the window began.
        start: u64,
        /// When it was printed.
        now: u64,
        /// Intervals that the log has.
        kept: u64,
    },
    /// `engine index busy_ns switch_ns idle_ns commands`.
    Engine {
        /// Which.
        engine: usize,
        /// Its use by all processes.
        usage: Usage,
        /// Time that no command ran and no switch happened.
        idle_ns: u64,
    },
    /// `client pid engine channels busy_ns switch_ns commands`.
    Client {
        /// The process; 0: all processes without a row.
        pid: i32,
        /// Which engine.
        engine: usize,
        /// Channels that the process has.
        channels: u32,
        /// Its use of the engine.
        usage: Usage,
    },
}

/// Hardware's index of an engine.
fn index(engine: usize) -> u8 {
    ENGINE_INDEX[engine % ENGINES]
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Window { start, now, kept } => write!(f, "window {start} {now} {kept}"),
            Line::Engine {
                engine,
                usage,
                idle_ns,
            } => {
                let (busy, switch) = (usage.busy_ns, usage.switch_ns);
                let (engine, commands) = (index(*engine), usage.commands);
                write!(f, "engine {engine} {busy} {switch} {idle_ns} {commands}")
            }
            Line::Client {
                pid,
                engine,
                channels,
                usage,
            } => {
                let (busy, switch) = (usage.busy_ns, usage.switch_ns);
                let (engine, commands) = (index(*engine), usage.commands);
                write!(
                    f,
                    "client {pid} {engine} {channels} {busy} {switch} {commands}"
                )
            }
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Interval {
            start,
            end,
            engine,
            chid,
            kind,
        } = self.interval;
        let kind = match kind {
            Kind::Run => "run",
            Kind::Switch => "switch",
        };
        let (engine, chid, pid) = (index(engine), chid.0, self.pid);
        write!(f, "{start} {end} {engine} {chid} {pid} {kind}")
    }
}

/// The words of a line that are left.
struct Words<'a>(SplitAsciiWhitespace<'a>);

impl<'a> Words<'a> {
    fn word(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    fn number<T: FromStr>(&mut self) -> Option<T> {
        self.word()?.parse().ok()
    }

    fn engine(&mut self) -> Option<usize> {
        let index: u8 = self.number()?;
        ENGINE_INDEX.iter().position(|known| *known == index)
    }

    /// What was read, if there is no word more.
    fn end<T>(mut self, read: T) -> Option<T> {
        self.word().is_none().then_some(read)
    }
}

impl Line {
    /// Reads one; nothing for any other line.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = Words(line.split_ascii_whitespace());
        let read = match words.word()? {
            "window" => Line::Window {
                start: words.number()?,
                now: words.number()?,
                kept: words.number()?,
            },
            "engine" => {
                let engine = words.engine()?;
                let (busy_ns, switch_ns) = (words.number()?, words.number()?);
                let (idle_ns, commands) = (words.number()?, words.number()?);
                Line::Engine {
                    engine,
                    usage: Usage {
                        busy_ns,
                        switch_ns,
                        commands,
                    },
                    idle_ns,
                }
            }
            "client" => Line::Client {
                pid: words.number()?,
                engine: words.engine()?,
                channels: words.number()?,
                usage: Usage {
                    busy_ns: words.number()?,
                    switch_ns: words.number()?,
                    commands: words.number()?,
                },
            },
            _ => return None,
        };
        words.end(read)
    }
}

impl Entry {
    /// Reads a line of the log; nothing for any other.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = Words(line.split_ascii_whitespace());
        let (start, end) = (words.number()?, words.number()?);
        let (engine, chid) = (words.engine()?, Chid(words.number()?));
        let pid = words.number()?;
        let kind = match words.word()? {
            "run" => Kind::Run,
            "switch" => Kind::Switch,
            _ => return None,
        };
        let interval = Interval {
            start,
            end,
            engine,
            chid,
            kind,
        };
        words.end(Self { interval, pid })
    }
}

// What is printed needs a buffer: on the host only.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::{CE0, GR};
    use std::string::ToString;

    const USAGE: Usage = Usage {
        busy_ns: 5000,
        switch_ns: 600,
        commands: 6,
    };

    #[test]
    fn line_is_read_as_it_was_printed() {
        let lines = [
            Line::Window {
                start: 1000,
                now: 11_000,
                kept: 42,
            },
            Line::Engine {
                engine: GR,
                usage: USAGE,
                idle_ns: 2000,
            },
            Line::Client {
                pid: 70,
                engine: CE0,
                channels: 12,
                usage: USAGE,
            },
        ];
        let texts = [
            "window 1000 11000 42",
            "engine 0 5000 600 2000 6",
            "client 70 4 12 5000 600 6",
        ];
        for (line, text) in lines.into_iter().zip(texts) {
            assert_eq!(line.to_string(), text);
            assert_eq!(Line::parse(text), Some(line));
        }
    }

    #[test]
    fn log_line_is_read_as_it_was_printed() {
        let interval = Interval {
            start: 10,
            end: 25,
            engine: CE0,
            chid: Chid(3),
            kind: Kind::Switch,
        };
        let entry = Entry { interval, pid: 70 };
        assert_eq!(entry.to_string(), "10 25 4 3 70 switch");
        assert_eq!(Entry::parse("10 25 4 3 70 switch"), Some(entry));
    }

    #[test]
    fn line_of_another_layout_is_refused() {
        for line in [
            "",
            "nonsense",
            "window 1 5",
            "window 1 5 0 0",
            "window x 5 0",
            "engine 3 0 0 0 0",
            "client 1 0 2 x 4 5",
        ] {
            assert_eq!(Line::parse(line), None, "{line}");
        }
        for line in ["10 25 0 3", "10 25 0 3 70 walk", "10 25 0 3 70 run 1"] {
            assert_eq!(Entry::parse(line), None, "{line}");
        }
    }
}
