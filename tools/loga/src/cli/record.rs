// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The arguments of `loga record`, `loga export` and `loga report`.

use super::numbers::{millis, recording};
use clap::{Args, ValueEnum};
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

/// What a recording is converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// A table: a row for each sample, GPU and client
    Csv,
    /// A list of the lines
    Json,
    /// A trace for ui.perfetto.dev: shares, throttled times and events
    Perfetto,
}

/// Arguments of `loga export`.
#[derive(Args, Clone, Debug)]
pub struct Export {
    /// A file of `loga record`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What to write
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: ExportFormat,
    /// Where to; one that exists is replaced [default: standard output]
    #[arg(long, value_name = "OUT")]
    pub out: Option<PathBuf>,
}

/// Arguments of `loga report`.
#[derive(Args, Clone, Debug)]
pub struct Report {
    /// A file of `loga record`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The page; one that exists is replaced
    #[arg(long, value_name = "OUT")]
    pub out: PathBuf,
}
