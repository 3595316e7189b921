// SPDX-License-Identifier: GPL-2.0

//! Prints how soon a client that comes has its share.

use clap::Parser;
use loga_eval::convergence::all;
use std::io::{self, Write};
use std::process::ExitCode;

/// Periods until a client that comes, or comes back, has its share of an ideal GPU.
#[derive(Parser)]
#[command(name = "loga-converge", version)]
struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let table = match all() {
        Ok(table) => table,
        Err(error) => {
            eprintln!("loga-converge: {error}");
            return ExitCode::from(2);
        }
    };
    let text = if args.json {
        serde_json::to_string_pretty(&table).map(|text| text + "\n")
    } else {
        let titles = "policy   scale     clients          period ms  periods       ms    final";
        let rows = table.iter().map(ToString::to_string);
        let lines: Vec<String> = std::iter::once(titles.to_owned()).chain(rows).collect();
        Ok(lines.join("\n") + "\n")
    };
    let written = text
        .map_err(io::Error::from)
        .and_then(|text| io::stdout().write_all(text.as_bytes()));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loga-converge: {error}");
            ExitCode::FAILURE
        }
    }
}
