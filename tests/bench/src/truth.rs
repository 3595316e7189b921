// SPDX-License-Identifier: GPL-2.0

//! The model's summary of its own log: who held the compute engine.

use std::collections::BTreeMap;
use std::fs;

/// Where the model says what it did.
const SUMMARY: &str = "/sys/kernel/debug/loga_model/gpu0/summary";

/// What a process used of the compute engine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// Time its commands ran.
    pub(crate) busy_ns: u64,
    /// Time of context switches in which the status word names it.
    pub(crate) switch_ns: u64,
    /// Commands completed.
    pub(crate) commands: u64,
}

impl Usage {
    /// What was added since `before`.
    pub(crate) fn since(&self, before: &Usage) -> Usage {
        Usage {
            busy_ns: self.busy_ns.saturating_sub(before.busy_ns),
            switch_ns: self.switch_ns.saturating_sub(before.switch_ns),
            commands: self.commands.saturating_sub(before.commands),
        }
    }
}

/// The summary at one point in time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Truth {
    /// When.
    pub(crate) now_ns: u64,
    /// By process.
    pub(crate) usage: BTreeMap<u32, Usage>,
}

impl Truth {
    /// Reads it.
    pub(crate) fn now() -> Result<Self, String> {
        let text = fs::read_to_string(SUMMARY).map_err(|error| format!("{SUMMARY}: {error}"))?;
        Self::parse(&text).ok_or_else(|| format!("{SUMMARY}: unreadable:\n{text}"))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut truth = Truth::default();
        let mut windows = 0;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["window", _, now, _] => {
                    truth.now_ns = now.parse().ok()?;
                    windows += 1;
                }
                // Process, engine, channels, busy, switching, commands; engine 0 computes.
                ["client", pid, "0", _, busy, switch, commands] => {
                    let usage = Usage {
                        busy_ns: busy.parse().ok()?,
                        switch_ns: switch.parse().ok()?,
                        commands: commands.parse().ok()?,
                    };
                    truth.usage.insert(pid.parse().ok()?, usage);
                }
                ["engine" | "client", ..] => {}
                _ => return None,
            }
        }
        (windows == 1).then_some(truth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_of_two_engines_keeps_compute() {
        let truth = Truth::parse(
            "window 1000 11000 42\nengine 0 7000 1000 2000 9\nengine 4 1 0 9999 1\n\
             client 70 0 12 5000 600 6\nclient 70 4 12 1 0 1\n",
        )
        .expect("readable");
        assert_eq!(truth.now_ns, 11_000);
        let usage = Usage {
            busy_ns: 5000,
            switch_ns: 600,
            commands: 6,
        };
        assert_eq!(truth.usage, BTreeMap::from([(70, usage)]));
    }

    #[test]
    fn summary_of_another_layout_is_refused() {
        assert_eq!(Truth::parse(""), None);
        assert_eq!(Truth::parse("window 1 5 0\nnonsense\n"), None);
        assert_eq!(Truth::parse("window 1 5 0\nclient 1 0 2 x 4 5\n"), None);
    }
}
