// SPDX-License-Identifier: GPL-2.0

//! Prints how soon a client that comes has its share.

use clap::Parser;
use loga_eval::convergence::all;
use loga_eval::output::{print, table_or_json};
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
    let text = table_or_json(&table, args.json, |table| {
        let titles = "policy   scale     clients          period ms  periods       ms    final";
        let rows = table.iter().map(ToString::to_string);
        let lines: Vec<String> = std::iter::once(titles.to_owned()).chain(rows).collect();
        lines.join("\n") + "\n"
    });
    match text.and_then(|text| print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loga-converge: {error}");
            ExitCode::FAILURE
        }
    }
}
