// SPDX-License-Identifier: GPL-2.0

//! [tool] The arguments of `loga record`.

use super::numbers::{millis, recording};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `loga record`.
#[derive(Args, Clone, Debug)]
pub struct Record {
    /// The file; one that exists has to be empty
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Milliseconds between two samples, 100 to 3600000
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = millis(100..=3_600_000))]
    pub interval: Duration,
    /// Stop after this many seconds, 0.1 to 31536000 [default: when it is interrupted]
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true, value_parser = recording)]
    pub duration: Option<Duration>,
    /// Only this GPU [default: all]
    #[arg(long, value_name = "N")]
    pub gpu: Option<u32>,
}
