// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The model's own accounts of GPU use, with which LoGA's figures are compared.

use loga_model::gpu::{Kind, CE0, GR};
use loga_model::truth::text::Line;
use loga_model::truth::{Entry, Usage};
use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// The model's folder in debugfs.
const DIRECTORY: &str = "/sys/kernel/debug/loga_model/gpu";

/// The text of a file of one of several GPUs, and its path.
fn file(gpu: u32, name: &str) -> Result<(String, String), String> {
    let path = format!("{DIRECTORY}{gpu}/{name}");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    Ok((text, path))
}

/// All intervals of the first GPU's compute engine since the last reset, as far as the model
/// keeps them: commands, and switches to or from a channel.
///
/// # Errors
///
/// The model is not loaded, or a line has another layout.
pub fn log() -> Result<Vec<Entry>, String> {
    let (text, path) = file(0, "log")?;
    let mut entries = text
        .lines()
        .map(|line| Entry::parse(line).ok_or_else(|| format!("{path}: unreadable line {line:?}")))
        .collect::<Result<Vec<_>, _>>()?;
    entries.retain(|entry| entry.interval.engine == GR);
    Ok(entries)
}

/// A command that has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The process that owned its channel; 0 if it is not known.
    pub pid: u32,
    /// When it ended, on the monotonic clock.
    pub end_ns: u64,
}

/// The commands in the model's log, see [`log`].
///
/// # Errors
///
/// Those of [`log`].
pub fn commands() -> Result<Vec<Command>, String> {
    let entries = log()?.into_iter();
    let runs = entries.filter(|entry| entry.interval.kind == Kind::Run);
    let commands = runs.map(|entry| Command {
        pid: u32::try_from(entry.pid).unwrap_or(0),
        end_ns: entry.interval.end,
    });
    Ok(commands.collect())
}

/// Use of one engine since the last reset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Truth {
    /// When it was read.
    pub now_ns: u64,
    /// Length of the window in ns.
    pub window_ns: u64,
    /// Time that no command ran and no switch happened.
    pub idle_ns: u64,
    /// Time spent switching.
    pub switch_ns: u64,
    /// By process.
    usage: BTreeMap<u32, Usage>,
}

impl Truth {
    /// Reads the summary of the compute engine.
    ///
    /// # Errors
    ///
    /// The model is not loaded, or the summary has another layout.
    pub fn read() -> Result<Self, String> {
        Truth::read_of(0)
    }

    /// As [`Truth::read`], of one of several GPUs.
    pub fn read_of(gpu: u32) -> Result<Self, String> {
        Ok(Truth::of_engines(gpu)?[0].clone())
    }

    /// As [`Truth::read_of`], of the compute engine and of the copy engine, in one window.
    pub fn of_engines(gpu: u32) -> Result<[Self; 2], String> {
        let (text, path) = file(gpu, "summary")?;
        let truths = [GR, CE0].map(|engine| Truth::parse(&text, engine));
        match truths {
            [Some(compute), Some(copy)] => Ok([compute, copy]),
            _ => Err(format!("{path}: unreadable:\n{text}")),
        }
    }

    /// Starts a new window.
    pub fn reset() -> Result<(), String> {
        Truth::reset_of(0)
    }

    /// As [`Truth::reset`], on one of several GPUs.
    pub fn reset_of(gpu: u32) -> Result<(), String> {
        let path = format!("{DIRECTORY}{gpu}/reset");
        fs::write(&path, "1\n").map_err(|error| format!("{path}: {error}"))
    }

    fn parse(text: &str, on: usize) -> Option<Self> {
        let mut truth = Truth::default();
        let mut windows = 0;
        for line in text.lines() {
            match Line::parse(line)? {
                Line::Window { start, now, .. } => {
                    truth.now_ns = now;
                    truth.window_ns = now.checked_sub(start)?;
                    windows += 1;
                }
                Line::Engine {
                    engine,
                    usage,
                    idle_ns,
                } if engine == on => {
                    truth.switch_ns = usage.switch_ns;
                    truth.idle_ns = idle_ns;
                }
                Line::Client {
                    engine, pid, usage, ..
                } if engine == on => {
                    truth.usage.insert(pid.try_into().ok()?, usage);
                }
                Line::Engine { .. } | Line::Client { .. } => {}
            }
        }
        (windows == 1).then_some(truth)
    }

    /// Processes that used the engine or have channels; 0 stands for all processes without a row.
    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.usage.keys().copied()
    }

    /// What a process used.
    pub fn usage(&self, pid: u32) -> Usage {
        self.usage.get(&pid).copied().unwrap_or_default()
    }

    /// Share of the window in which a process's commands ran.
    pub fn busy_share(&self, pid: u32) -> f64 {
        self.share(self.usage(pid).busy_ns)
    }

    /// Share of the window in which a process was on the engine.
    ///
    /// LoGA measures this: the status word names the old context while it is saved and the new one
    /// while it is loaded.
    pub fn ran_share(&self, pid: u32) -> f64 {
        self.share(self.usage(pid).ran_ns())
    }

    fn share(&self, time_ns: u64) -> f64 {
        // CAST: nanoseconds of minutes are exact in a double.
        time_ns as f64 / self.window_ns.max(1) as f64
    }
}

/// Percentages of wall time for which some processes were on the engine, after `settle_ms`, during
/// `ms`.
pub fn shares<const N: usize>(pids: [u32; N], settle_ms: u64, ms: u64) -> Result<[f64; N], String> {
    sleep(Duration::from_millis(settle_ms));
    Truth::reset()?;
    sleep(Duration::from_millis(ms));
    let truth = Truth::read()?;
    let shares = pids.map(|pid| truth.ran_share(pid) * 100.0);
    println!("# shares {shares:.1?}");
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_of_two_engines_is_that_of_each() {
        let text = "window 1000 11000 42\nengine 0 7000 1000 2000 9\nengine 4 1 0 9999 1\n\
             client 70 0 12 5000 600 6\nclient 70 4 12 1 0 1\nclient 71 0 12 2000 400 3\n";
        let truth = Truth::parse(text, GR).expect("readable");
        let copies = Truth::parse(text, CE0).expect("readable");
        assert_eq!((copies.idle_ns, copies.usage(70).busy_ns), (9999, 1));
        assert_eq!(copies.usage(71), Usage::default());
        assert_eq!(truth.now_ns, 11_000);
        assert_eq!(truth.window_ns, 10_000);
        assert_eq!(truth.idle_ns, 2000);
        assert_eq!(truth.switch_ns, 1000);
        let usage = Usage {
            busy_ns: 5000,
            switch_ns: 600,
            commands: 6,
        };
        assert_eq!(truth.usage(70), usage);
        assert_eq!(truth.busy_share(70), 0.5);
        assert_eq!(truth.ran_share(70), 0.56);
        assert_eq!(truth.busy_share(71), 0.2);
        assert_eq!(truth.ran_share(72), 0.0);
    }

    #[test]
    fn summary_of_another_layout_is_refused() {
        assert_eq!(Truth::parse("", GR), None);
        assert_eq!(Truth::parse("window 5 1 0\n", GR), None);
        assert_eq!(Truth::parse("window 1 5 0\nnonsense\n", GR), None);
        assert_eq!(Truth::parse("window 1 5 0\nclient 1 0 2 x 4 5\n", GR), None);
    }
}
