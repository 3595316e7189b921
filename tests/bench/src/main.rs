// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Measures LoGA inside the virtual machine: real processes, the real module, and
//! the model's exact log as the truth. Meant for instruction-count mode, where time depends on
//! nothing outside the machine.
//!
//! Inside the machine `loga-bench SCENARIO` leaves `/out/bench-SCENARIO.json`; on the host
//! `loga-bench --report FOLDER` puts those together into one table and one file. A scenario
//! that could not be carried out is an error; a target that was missed is a result.
//!
//! | file | contents |
//! |---|---|
//! | `scenarios` | the scenarios, and the target of each figure |
//! | `accounting` | scenarios: cost and error of accounting |
//! | `shares` | scenario: weights and limits |
//! | `dispatch`, `submission` | scenario: deciding on each submission; what one is made of |
//! | `scale` | scenarios: cost of a decision with many clients |
//! | `window` | the time between two instants, by LoGA and by the model |
//! | `paper` | experiments of the LoGA paper, by names that begin with `paper-` |
//! | `threads` | a thread that counts, and one as busy as the poller |
//! | `costs` | LoGA's own account of its latencies and memory |
//! | `figure`, `report` | numbers and verdicts; the table and the file |

mod accounting;
mod costs;
mod dispatch;
mod figure;
mod paper;
mod pegasus;
mod report;
mod scale;
mod scenarios;
mod shares;
mod submission;
mod threads;
mod window;

use clap::Parser;
use figure::Findings;
use loga_support::{busy, load, modules, stage, tracefs, truth};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where results go, inside the machine.
const OUT: &str = "/out";

#[derive(Parser)]
#[command(name = "loga-bench", version, about)]
struct Arguments {
    /// Scenarios to carry out, all if none is named
    scenarios: Vec<String>,
    /// Name the scenarios, one a line, and end
    #[arg(long)]
    list: bool,
    /// Name the experiments of the LoGA paper, one a line, and end
    #[arg(long)]
    list_paper: bool,
    /// Less of the experiments of the paper: shows that they work
    #[arg(long)]
    quick: bool,
    /// Put together what runs, each SCENARIO-SEED, left in FOLDER/SCENARIO-SEED, instead of measuring
    #[arg(long, value_name = "FOLDER")]
    report: Option<PathBuf>,
    /// Where the report goes
    #[arg(long, value_name = "FILE", default_value = "bench.json")]
    json: PathBuf,
    #[command(flatten)]
    source: report::Source,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let known = scenarios::ALL.iter().map(|(name, _)| *name);
    if arguments.list {
        known.for_each(|name| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    let paper = paper::ALL.iter().map(|(name, _)| *name);
    if arguments.list_paper {
        paper.for_each(|name| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    if let Some(folder) = &arguments.report {
        return finish(report::run(
            folder,
            &arguments.scenarios,
            &arguments.json,
            &arguments.source,
        ));
    }
    let names: Vec<&str> = known.chain(paper).collect();
    if let Some(unknown) = arguments
        .scenarios
        .iter()
        .find(|name| !names.contains(&name.as_str()))
    {
        eprintln!(
            "loga-bench: no scenario {unknown}; there are: {}",
            names.join(" ")
        );
        return ExitCode::from(2);
    }
    finish(measure(&arguments.scenarios, arguments.quick))
}

/// Carries out the scenarios, and the experiments that are named; false if one failed.
fn measure(wanted: &[String], quick: bool) -> Result<bool, String> {
    let mut good = true;
    for (name, run) in paper::ALL {
        if wanted.iter().any(|one| one == name) {
            paper::measure(name, *run, quick)?;
        }
    }
    for (name, scenario) in scenarios::ALL {
        if !wanted.is_empty() && !wanted.iter().any(|one| one == name) {
            continue;
        }
        let mut findings = Findings::new(name);
        if let Err(error) = scenario(&mut findings) {
            println!("{name}: {error}");
            findings.fail(error);
            good = false;
        }
        let path = Path::new(OUT).join(format!("bench-{name}.json"));
        let json = serde_json::to_string_pretty(&findings).map_err(|error| error.to_string())?;
        std::fs::write(&path, json).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(good)
}

fn finish(result: Result<bool, String>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("loga-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
