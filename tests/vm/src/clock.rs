// SPDX-License-Identifier: GPL-2.0

//! The guest's clock: its source, and the frequency of its cycle counter.

use std::fs;

/// The source of the guest's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Time {
    /// Virtual time counts instructions: one seed, one result, slower
    Exact,
    /// Virtual time follows the host: faster, never the same twice
    Fast,
}

impl Time {
    /// Frequency of the guest's cycle counter, passed on because a busy host
    /// makes the guest's own measurement fail, and with it exact timers.
    pub(crate) fn tsc_khz(self) -> u32 {
        match self {
            // One instruction is one nanosecond.
            Time::Exact => 1_000_000,
            Time::Fast => fs::read_to_string("/proc/cpuinfo")
                .ok()
                .and_then(|text| host_khz(&text))
                .unwrap_or(0),
        }
    }
}

/// The host's base frequency in kHz: from the model name, which states the
/// nominal value, else from the current clock.
fn host_khz(cpuinfo: &str) -> Option<u32> {
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        line.split_once(':')
            .map(|(_, value)| value.trim().to_owned())
    };
    let scaled = |text: &str, khz: f64| {
        let value: f64 = text.trim().parse().ok()?;
        // CAST: a frequency in kHz is far below 2^32.
        (value > 0.0).then_some((value * khz) as u32)
    };
    field("model name")
        .and_then(|name| scaled(name.rsplit_once('@')?.1.trim().strip_suffix("GHz")?, 1e6))
        .or_else(|| scaled(&field("cpu MHz")?, 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequency_comes_from_the_name_before_the_clock() {
        let named = "model name\t: Some CPU @ 2.50GHz\ncpu MHz\t\t: 3100.0\n";
        assert_eq!(host_khz(named), Some(2_500_000));
        let unnamed = "model name\t: Some CPU\ncpu MHz\t\t: 3100.5\n";
        assert_eq!(host_khz(unnamed), Some(3_100_500));
        assert_eq!(host_khz("nothing"), None);
    }
}
