// SPDX-License-Identifier: GPL-2.0

//! [tool] The model's own account of who used the GPU: what LoGA's figures are compared with.

use std::collections::BTreeMap;
use std::fs;

/// Where the model shows it.
const DIRECTORY: &str = "/sys/kernel/debug/loga_model/gpu";

/// Hardware index of the compute engine.
const GR: &str = "0";

/// A time in which the compute engine was one channel's: a command, or a switch to or from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Run {
    /// Its channel.
    pub(crate) chid: u32,
    /// When it began, by the monotonic clock.
    pub(crate) start: u64,
    /// When it ended.
    pub(crate) end: u64,
}

impl Run {
    /// All runs since the last reset, as far as the model keeps them.
    pub(crate) fn log() -> Result<Vec<Self>, String> {
        let path = format!("{DIRECTORY}0/log");
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let lines = text.lines().map(|line| {
            Run::parse(line).ok_or_else(|| format!("{path}: unreadable line {line:?}"))
        });
        // Runs of other engines are nothing to us.
        lines.filter_map(Result::transpose).collect()
    }

    /// The run in a line; `Some(None)` on another engine.
    fn parse(line: &str) -> Option<Option<Self>> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [start, end, engine, chid, _, _] = words[..] else {
            return None;
        };
        let run = Run {
            chid: chid.parse().ok()?,
            start: start.parse().ok()?,
            end: end.parse().ok()?,
        };
        Some((engine == GR).then_some(run))
    }
}

/// Use of the compute engine since the last reset.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Truth {
    /// Length of the window in ns.
    pub(crate) window_ns: u64,
    /// Time that no command ran and no switch happened.
    pub(crate) idle_ns: u64,
    /// Time spent switching.
    pub(crate) switch_ns: u64,
    /// Per process: time its commands ran.
    pub(crate) busy_ns: BTreeMap<u32, u64>,
    /// Per process: time the engine was its, switching to and from it included.
    pub(crate) held_ns: BTreeMap<u32, u64>,
}

impl Truth {
    /// Reads the summary.
    pub(crate) fn read() -> Result<Self, String> {
        Truth::read_of(0)
    }

    /// As [`Truth::read`], of one of several GPUs.
    pub(crate) fn read_of(gpu: u32) -> Result<Self, String> {
        let path = format!("{DIRECTORY}{gpu}/summary");
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        Truth::parse(&text).ok_or_else(|| format!("{path}: unreadable:\n{text}"))
    }

    /// Starts a new window.
    pub(crate) fn reset() -> Result<(), String> {
        Truth::reset_of(0)
    }

    /// As [`Truth::reset`], on one of several GPUs.
    pub(crate) fn reset_of(gpu: u32) -> Result<(), String> {
        let path = format!("{DIRECTORY}{gpu}/reset");
        fs::write(&path, "1\n").map_err(|error| format!("{path}: {error}"))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut truth = Truth::default();
        let mut windows = 0;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["window", start, end, _] => {
                    let (start, end): (u64, u64) = (start.parse().ok()?, end.parse().ok()?);
                    truth.window_ns = end.checked_sub(start)?;
                    windows += 1;
                }
                ["engine", GR, _, switch, idle, _] => {
                    truth.switch_ns = switch.parse().ok()?;
                    truth.idle_ns = idle.parse().ok()?;
                }
                ["client", pid, GR, _, busy, switch, _] => {
                    let pid = pid.parse().ok()?;
                    let (busy, switch): (u64, u64) = (busy.parse().ok()?, switch.parse().ok()?);
                    *truth.busy_ns.entry(pid).or_default() += busy;
                    *truth.held_ns.entry(pid).or_default() += busy.checked_add(switch)?;
                }
                ["engine" | "client", ..] => {}
                _ => return None,
            }
        }
        (windows == 1).then_some(truth)
    }

    /// Share of the window in which a process's commands ran.
    pub(crate) fn busy_share(&self, pid: u32) -> f64 {
        self.share(&self.busy_ns, pid)
    }

    /// Share of the window in which the engine was a process's.
    ///
    /// This is what LoGA measures: the status word names the context that leaves while it is saved
    /// and the one that comes while it is loaded.
    pub(crate) fn held_share(&self, pid: u32) -> f64 {
        self.share(&self.held_ns, pid)
    }

    fn share(&self, times: &BTreeMap<u32, u64>, pid: u32) -> f64 {
        times.get(&pid).copied().unwrap_or(0) as f64 / self.window_ns.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_of_two_engines_keeps_compute() {
        let truth = Truth::parse(
            "window 1000 11000 42\nengine 0 7000 1000 2000 9\nengine 4 1 0 9999 1\n\
             client 70 0 12 5000 600 6\nclient 70 4 12 1 0 1\nclient 71 0 12 2000 400 3\n",
        )
        .expect("readable");
        assert_eq!(truth.window_ns, 10_000);
        assert_eq!(truth.idle_ns, 2000);
        assert_eq!(truth.switch_ns, 1000);
        assert_eq!(truth.busy_share(70), 0.5);
        assert_eq!(truth.held_share(70), 0.56);
        assert_eq!(truth.busy_share(71), 0.2);
        assert_eq!(truth.held_share(72), 0.0);
    }

    #[test]
    fn log_line_of_another_engine_is_passed_over() {
        let run = Run {
            chid: 3,
            start: 10,
            end: 25,
        };
        assert_eq!(Run::parse("10 25 0 3 70 run"), Some(Some(run)));
        assert_eq!(Run::parse("10 25 4 3 70 run"), Some(None));
        assert_eq!(Run::parse("10 25 0 3"), None);
    }

    #[test]
    fn summary_of_another_layout_is_refused() {
        assert_eq!(Truth::parse(""), None);
        assert_eq!(Truth::parse("window 5 1 0\n"), None);
        assert_eq!(Truth::parse("window 1 5 0\nnonsense\n"), None);
    }
}
