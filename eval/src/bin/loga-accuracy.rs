// SPDX-License-Identifier: GPL-2.0

//! Prints what accounting costs against how wrong it is.

use clap::Parser;
use loga_eval::accuracy::{loads, measure, ways, Accuracy, LOOK_US, READ_US};
use loga_eval::output::{print, table_or_json};
use std::process::ExitCode;

/// CPU time against error of burst and sparse accounting, over windows of two seconds.
#[derive(Parser)]
#[command(name = "loga-accuracy", version)]
struct Args {
    /// Windows per load and way
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(20..=100_000))]
    windows: u32,
    /// Seed of the windows and of the looks
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn table(all: &[Accuracy], args: &Args) -> String {
    let mut text = format!(
        "Windows of 2 s, {} each, seed {}. CPU in percent of a core: {LOOK_US} us per look \
         with its interrupt, in brackets {READ_US} us. Errors in points of share.\n",
        args.windows, args.seed
    );
    let mut load = "";
    for one in all {
        if one.load != load {
            load = one.load;
            text += &format!(
                "\n{load}\n  {:<24} {:>16} {:>8} {:>7} {:>7} {:>7} {:>8}\n",
                "", "CPU", "looks/s", "bias", "95 %", "bound", "covered"
            );
        }
        let cpu = format!("{:.2} ({:.2})", one.cpu_pct, one.cpu_cheap_pct);
        let or_none = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
        text += &format!(
            "  {:<24} {cpu:>16} {:>8.0} {:>7.2} {:>7.2} {:>7} {:>8}\n",
            one.way,
            one.looks_per_s,
            one.bias_pt,
            one.error95_pt,
            or_none(one.bound_pt),
            or_none(one.covered_pct)
        );
    }
    text
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut all = Vec::new();
    for load in loads() {
        for way in ways() {
            match measure(&load, way, args.windows, args.seed) {
                Ok(one) => all.push(one),
                Err(error) => {
                    eprintln!("loga-accuracy: {error}");
                    return ExitCode::from(2);
                }
            }
        }
    }
    let text = table_or_json(&all, args.json, |all| table(all, &args));
    match text.and_then(|text| print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loga-accuracy: {error}");
            ExitCode::FAILURE
        }
    }
}
