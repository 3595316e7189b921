// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The arguments of `loga place`, and those by which `loga run` chooses a GPU.

use super::numbers::{micros, percent, whole};
use super::Change;
use crate::history::checked_name;
use crate::names::UUID;
use clap::builder::PossibleValuesParser;
use clap::Args;
use loga::placement;
use loga::units::Weight;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

/// Least part of the fastest GPU's speed that is told apart.
const SPEED_MIN: f64 = 1e-3;
const SPEED_MAX: f64 = 1e6;

/// Which GPUs there are to choose from, and what is known of the program.
#[derive(Args, Clone, Debug, Default)]
pub struct Asked {
    /// Only these GPUs, by index or UUID, separated by commas [default: all]
    #[arg(long = "among", value_name = "LIST", value_delimiter = ',', value_parser = GpuName::from_str)]
    pub named: Vec<GpuName>,
    /// The same by index, once it is known which GPUs there are.
    #[arg(skip)]
    pub among: Vec<u32>,
    /// Relative speeds of all GPUs, by index, separated by commas [default: all the same]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = speed)]
    pub speeds: Vec<f64>,
    /// Part of the time in percent for which the program would use the fastest GPU if it were alone
    /// [default: unknown, 50 is assumed]
    #[arg(long, value_name = "PERCENT", value_parser = percent(1..=100))]
    pub want: Option<u32>,
    /// Mean time of its work on the engine without a break, in microseconds [default: 500]
    #[arg(long, value_name = "N", value_parser = micros(1..=60_000_000))]
    pub command_us: Option<u64>,
    /// Memory in MiB that the program needs: GPUs with less of it free are left out, and where that is
    /// unknown each program there doubles the cost
    #[arg(long, value_name = "MIB", value_parser = whole(1..=1u64 << 30))]
    pub memory: Option<u64>,
}

impl Asked {
    /// Whether anything was given.
    pub fn is_set(&self) -> bool {
        let lists = !self.named.is_empty() || !self.speeds.is_empty();
        lists || self.want.is_some() || self.command_us.is_some() || self.memory.is_some()
    }
}

/// Arguments of `loga place`.
#[derive(Args, Clone, Debug)]
pub struct Place {
    /// The rule
    #[arg(long, value_name = "POLICY", default_value = placement::NAMES[0], value_parser = PossibleValuesParser::new(placement::NAMES))]
    pub policy: String,
    /// The program.
    #[command(flatten)]
    pub asked: Asked,
    /// Weight that the program will have, 1 to 10000 [default: 100]
    #[arg(long, value_name = "N", value_parser = whole(Weight::MIN..=Weight::MAX))]
    pub weight: Option<u32>,
    /// Choose this many GPUs
    #[arg(long, value_name = "N", default_value = "1", value_parser = whole(1..=u32::MAX))]
    pub count: u32,
    /// Say instead what the choice for this process cost, and what is expected elsewhere now
    #[arg(long, value_name = "PID", value_parser = whole(1..=i32::MAX), conflicts_with_all = ["want", "command_us", "memory", "weight", "count", "name", "command"])]
    pub explain: Option<i32>,
    /// Name of the program among those with the same executable, as loga run --as gave it
    #[arg(long = "as", value_name = "NAME", value_parser = checked_name)]
    pub name: Option<String>,
    /// Write all that the choice is made from to this file, which loga-sim place reads
    #[arg(long, value_name = "FILE", conflicts_with = "explain")]
    pub snapshot: Option<PathBuf>,
    /// Print JSON: one object, or with --explain one for each GPU that the process uses
    #[arg(long)]
    pub json: bool,
    /// The command that would be started, for what it did in earlier runs; it is not started
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// A GPU as users name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuName {
    /// By its index.
    Index(u32),
    /// By its UUID, or by as much of the beginning of it as names one GPU.
    Uuid(String),
}

impl FromStr for GpuName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > UUID.len() && text.starts_with(UUID) {
            return Ok(GpuName::Uuid(text.to_string()));
        }
        let index = text.parse().map(GpuName::Index);
        index.map_err(|_| format!("want the index of a GPU, or its UUID ({UUID}...)"))
    }
}

/// The GPU of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnGpu {
    /// This one.
    Named(GpuName),
    /// So many, as a placement policy chooses.
    Auto(u32),
}

impl FromStr for OnGpu {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let auto = match text.strip_prefix("auto") {
            Some("") => Some(1),
            Some(count) => count.strip_prefix(':').and_then(|count| count.parse().ok()),
            None => None,
        };
        let auto = auto.filter(|count| *count > 0).map(OnGpu::Auto);
        let named = || text.parse().ok().map(OnGpu::Named);
        auto.or_else(named).ok_or_else(|| {
            format!("want the index of a GPU, its UUID ({UUID}...), auto, or auto:K for K GPUs")
        })
    }
}

/// Arguments of `loga run`.
#[derive(Args, Clone, Debug)]
pub struct Run {
    /// What to set.
    #[command(flatten)]
    pub change: Change,
    /// On this GPU only: what is set counts there, and the command sees no other (by its
    /// environment). auto: on the GPU that `loga place` would choose; auto:K: on K GPUs
    /// [default: all]
    #[arg(long, value_name = "N|UUID|auto[:K]", value_parser = OnGpu::from_str)]
    pub gpu: Option<OnGpu>,
    /// With --gpu: the kernel module denies the other GPUs to it and its children, in a cgroup of
    /// its own, while it enforces; for root
    #[arg(long)]
    pub confine: bool,
    /// With --gpu auto: the rule [default: wait]
    #[arg(long, value_name = "POLICY", value_parser = PossibleValuesParser::new(placement::NAMES))]
    pub place: Option<String>,
    /// With --gpu auto: the program.
    #[command(flatten)]
    pub asked: Asked,
    /// Name of the program, where one executable runs several: what it did in earlier runs is kept
    /// by executable and name
    #[arg(long = "as", value_name = "NAME", value_parser = checked_name)]
    pub name: Option<String>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// A relative speed.
fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok();
    let speed = speed.filter(|speed| (SPEED_MIN..=SPEED_MAX).contains(speed));
    speed.ok_or_else(|| format!("want speeds from {SPEED_MIN} to {SPEED_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_of_a_command_is_a_number_or_chosen() {
        let of = OnGpu::from_str;
        assert_eq!(of("3"), Ok(OnGpu::Named(GpuName::Index(3))));
        let uuid = OnGpu::Named(GpuName::Uuid("GPU-6a1b".to_string()));
        assert_eq!(of("GPU-6a1b"), Ok(uuid));
        assert_eq!(of("auto"), Ok(OnGpu::Auto(1)));
        assert_eq!(of("auto:4"), Ok(OnGpu::Auto(4)));
        for text in [
            "auto:0",
            "auto:",
            "auto:x",
            "automatic",
            "-1",
            "GPU-",
            "gpu-1",
            "",
        ] {
            let said = of(text).expect_err(text);
            assert!(said.contains("auto:K"), "{said}");
        }
    }

    #[test]
    fn speed_that_is_none_is_refused() {
        assert_eq!(speed("0.5"), Ok(0.5));
        for text in ["0", "-1", "NaN", "inf", "fast"] {
            assert!(speed(text).is_err(), "{text}");
        }
    }
}
