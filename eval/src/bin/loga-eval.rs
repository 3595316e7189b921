// SPDX-License-Identifier: GPL-2.0

//! The paper's experiments: runs them, and puts results beside the paper's.

use clap::{Args, Parser, Subcommand};
use loga_eval::paper::Plan;
use loga_eval::results::{Experiment, FIGURES};
use loga_eval::session::{report, Script, Session, REPORT};
use std::path::PathBuf;
use std::process::ExitCode;

/// Repeats the experiments of the LoGA paper and reports which of its findings hold.
///
/// Exit codes: 0 done, whatever the findings; 1 something could not be run or written; 2 bad
/// argument or bad input.
#[derive(Parser)]
#[command(name = "loga-eval", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the experiments that have no result yet, and report on all
    Run(RunArgs),
    /// Report on results, wherever they were made
    Report(ReportArgs),
}

#[derive(Args)]
struct RunArgs {
    /// Folder of the results; what is there from the same inputs is kept
    #[arg(long, value_name = "FOLDER", default_value = "out/eval")]
    out: PathBuf,
    /// Run these only, separated by commas [default: all]
    #[arg(long, value_name = "FIGURE,FIGURE", value_delimiter = ',')]
    figures: Vec<String>,
    /// Few points and repetitions: shows that everything works, in seconds
    #[arg(long)]
    quick: bool,
    /// Run what is already there, too
    #[arg(long)]
    again: bool,
    /// Script that runs experiments in the virtual machine; none are run without
    #[arg(long, value_name = "SCRIPT")]
    machine: Option<PathBuf>,
}

#[derive(Args)]
struct ReportArgs {
    /// Results; docs/eval.md explains them
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Where the report goes
    #[arg(long, value_name = "FILE", default_value = REPORT)]
    html: PathBuf,
    /// Folder of the pictures
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pictures: PathBuf,
}

fn main() -> ExitCode {
    let (wrong, code) = match Cli::parse().command {
        Command::Run(args) => run(args),
        Command::Report(args) => draw(&args),
    };
    for line in &wrong {
        eprintln!("loga-eval: {line}");
    }
    ExitCode::from(code)
}

/// What went wrong, and the exit code.
type Outcome = (Vec<String>, u8);

fn run(args: RunArgs) -> Outcome {
    let known = |figure: &&String| !FIGURES.contains(&figure.as_str());
    if let Some(unknown) = args.figures.iter().find(known) {
        let known = FIGURES.join(", ");
        return (
            vec![format!("no figure {unknown:?}, want some of {known}")],
            2,
        );
    }
    let quick = args.quick;
    let session = Session {
        folder: args.out,
        figures: args.figures,
        plan: if quick { Plan::quick() } else { Plan::paper() },
        machine: args.machine.map(|path| Script { path, quick }),
        again: args.again,
    };
    let wrong = session.run();
    let report = session.folder.join(REPORT);
    if wrong.is_empty() {
        println!("{}", report.display());
    }
    let code = u8::from(!wrong.is_empty());
    (wrong, code)
}

fn draw(args: &ReportArgs) -> Outcome {
    let read = args.files.iter().map(|path| Experiment::read(path));
    let results: Result<Vec<_>, _> = read.collect();
    let results = match results {
        Ok(results) => results,
        Err(error) => return (vec![error.to_string()], 2),
    };
    match report(&results, &args.html, &args.pictures) {
        Ok(()) => (Vec::new(), 0),
        Err(error) => (vec![error], 1),
    }
}
