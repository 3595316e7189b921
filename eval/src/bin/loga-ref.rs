// SPDX-License-Identifier: GPL-2.0

//! Prints the reference table.

use clap::Parser;
use loga::account::Accounting;
use loga::engine::Scale;
use loga_eval::output::{print, table_or_json};
use loga_eval::reference::{table, Settings};
use std::process::ExitCode;

/// What LoGA's rules give each client on an ideal GPU.
#[derive(Parser)]
#[command(name = "loga-ref", version)]
struct Args {
    /// Length of each calculation
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Polling phase per channel or client, 1 to 1000
    #[arg(long, default_value_t = 1)]
    poll_ms: u32,
    /// What phases grow with
    #[arg(long, default_value = "channels", value_parser = scale)]
    scale: Scale,
    /// Vary the lengths of phases
    #[arg(long)]
    randomize: bool,
    /// How GPU time is accounted
    #[arg(long, default_value = "burst", value_parser = accounting)]
    accounting: Accounting,
    /// Non-polling phase in polling phases, 1 to 1000
    #[arg(long, default_value_t = 5)]
    ratio: u32,
    /// Cost of a switch from one client to another
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    switch_us: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn scale(name: &str) -> Result<Scale, String> {
    Scale::by_name(name).map_err(|error| error.to_string())
}

fn accounting(name: &str) -> Result<Accounting, String> {
    Accounting::by_name(name).map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    let args = Args::parse();
    let table = match table(Settings {
        seconds: args.seconds,
        poll_ms: args.poll_ms,
        scale: args.scale,
        randomize: args.randomize,
        accounting: args.accounting,
        ratio: args.ratio,
        switch_us: args.switch_us,
    }) {
        Ok(table) => table,
        Err(error) => {
            eprintln!("loga-ref: {error}");
            return ExitCode::from(2);
        }
    };
    let text = table_or_json(&table, args.json, ToString::to_string);
    match text.and_then(|text| print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loga-ref: {error}");
            ExitCode::FAILURE
        }
    }
}
