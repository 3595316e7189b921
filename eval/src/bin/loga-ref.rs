// SPDX-License-Identifier: GPL-2.0

//! Prints the reference table.

use clap::Parser;
use loga_eval::reference::table;
use std::process::ExitCode;

/// What LoGA's rules give each client on an ideal GPU.
#[derive(Parser)]
#[command(name = "loga-ref", version)]
struct Args {
    /// Length of each calculation
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Polling phase per allocated channel, 1 to 1000
    #[arg(long, default_value_t = 1)]
    poll_ms: u32,
    /// Non-polling phase in polling phases, 1 to 1000
    #[arg(long, default_value_t = 5)]
    ratio: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let table = match table(args.seconds, args.poll_ms, args.ratio) {
        Ok(table) => table,
        Err(error) => {
            eprintln!("loga-ref: {error}");
            return ExitCode::from(2);
        }
    };
    if args.json {
        match serde_json::to_string_pretty(&table) {
            Ok(text) => println!("{text}"),
            Err(error) => {
                eprintln!("loga-ref: {error}");
                return ExitCode::FAILURE;
            }
        }
    } else {
        print!("{table}");
    }
    ExitCode::SUCCESS
}
