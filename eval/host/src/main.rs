// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga-host`: the paper's experiments on a host with a Kepler card, and what any NVIDIA card
//! answers without the module.
//!
//! | file | contents |
//! |---|---|
//! | [`card`] | what a card, its driver and its kernel answer, as one archive |
//! | [`check`] | whether the host can do it |
//! | [`applications`] | Rodinia's benchmarks and where a tree has them |
//! | [`experiments`] | the matrix: application x policy x repetition |
//! | [`mod@run`] | builds, loads the module, runs, goes on where it stopped |
//! | [`results`] | one file per run, and all together |
//! | [`step`] | commands, printed before they run or only printed |
//! | `../iterate.c` | our wrapper: repeats a program's main() in the same process |

mod applications;
mod card;
mod check;
mod experiments;
mod figures;
mod results;
mod run;
mod step;

use card::{CardArguments, StepArguments};
use check::Verdict;
use clap::{Args, Parser, Subcommand};
use experiments::{Experiment, EXPERIMENTS};
use results::{Described, Results};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What a benchmark's build and a run call.
const PROGRAMS: [&str; 6] = ["nvcc", "make", "cc", "bash", "insmod", "rmmod"];

/// Most repetitions.
const REPETITIONS_MAX: u32 = 1000;

/// Longest run of a benchmark, in seconds: an hour.
const SECONDS_MAX: f64 = 3600.0;

/// What is done on a real host: the LoGA paper's experiments with Rodinia on a Kepler card, and
/// questions to a card of any family, which need no module.
///
/// The experiments have not run on a Kepler host yet.
#[derive(Debug, Parser)]
#[command(version, name = "loga-host")]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Check whether this host can run them; exit code 1 if not.
    Check(CheckArguments),
    /// Check, build and run what has no result yet; write host.json into the folder of the results.
    Run(RunArguments),
    /// Ask a card of any family, its driver and its kernel what LoGA has to know, without a module;
    /// write one archive that can be sent to the project.
    Card(CardArguments),
    /// One step of it.
    #[command(hide = true)]
    CardStep(StepArguments),
}

/// What is checked.
#[derive(Args, Debug)]
struct CheckArguments {
    /// The module to load.
    #[arg(long, default_value = "out/loga.ko", value_name = "FILE")]
    module: PathBuf,
    /// Where the host's file system begins.
    #[arg(long, default_value = "/", hide = true)]
    root: PathBuf,
}

/// What runs.
#[derive(Args, Debug)]
pub(crate) struct RunArguments {
    /// Rodinia 3.1 with its data: a folder with cuda/ and data/ in it.
    #[arg(long, value_name = "FOLDER")]
    rodinia: PathBuf,
    /// Folder of the results; an interrupted run goes on with what is there.
    #[arg(long, default_value = "out/host", value_name = "FOLDER")]
    work: PathBuf,
    /// Benchmarks, separated by commas.
    #[arg(long, value_delimiter = ',', default_values = applications::ALL, hide_default_value = true)]
    applications: Vec<String>,
    /// Policies, separated by commas; `off` is a run without the module.
    #[arg(long, value_delimiter = ',', default_values = ["off", "event"])]
    policies: Vec<String>,
    /// Experiments, separated by commas.
    #[arg(long, value_delimiter = ',', default_values = EXPERIMENTS.map(|one| one.name))]
    experiments: Vec<String>,
    /// Repetitions of each run.
    #[arg(long, default_value_t = 10, value_name = "N")]
    repetitions: u32,
    /// How long a benchmark should run: its iterations are as many as take so long alone.
    #[arg(long, default_value_t = 3.0, value_name = "S")]
    seconds: f64,
    /// The module to load.
    #[arg(long, default_value = "out/loga.ko", value_name = "FILE")]
    module: PathBuf,
    /// The load generator.
    #[arg(long, default_value = "throttle", value_name = "PROGRAM")]
    throttle: PathBuf,
    /// The command that reads the module's figures.
    #[arg(long, default_value = "loga", value_name = "PROGRAM")]
    loga: PathBuf,
    /// Run even if the check says that it cannot work.
    #[arg(long)]
    force: bool,
    /// Print every step, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Where the host's file system begins.
    #[arg(long, default_value = "/", hide = true)]
    root: PathBuf,
}

/// Why it ended.
#[derive(Debug)]
pub(crate) enum Error {
    /// A file cannot be read or written.
    File(PathBuf, io::Error),
    /// A step went wrong.
    Step(String),
    /// An argument names nothing.
    Argument(String),
    /// The check found something missing.
    Host,
}

impl Error {
    fn file(path: &Path, error: io::Error) -> Self {
        Error::File(path.to_owned(), error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File(path, error) => write!(f, "{}: {error}", path.display()),
            Error::Step(text) | Error::Argument(text) => f.write_str(text),
            Error::Host => f.write_str("this host cannot do it (--force runs all the same)"),
        }
    }
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Task::Check(arguments) => inspect(&arguments.root, &arguments.module, &PROGRAMS).map(drop),
        Task::Run(arguments) => run(&arguments),
        Task::Card(arguments) => card::card(&arguments),
        Task::CardStep(arguments) => card::step(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loga-host: {error}");
            let is_argument = matches!(error, Error::Argument(_));
            ExitCode::from(if is_argument { 2 } else { 1 })
        }
    }
}

/// Prints what the host has, line by line.
fn inspect(root: &Path, module: &Path, programs: &[&str]) -> Result<Vec<String>, Error> {
    let mut findings = check::host(root, module, programs);
    if root == Path::new("/") && !nix::unistd::geteuid().is_root() {
        let found = "not root: cannot load the module";
        findings.push(check::Finding::missing("user", found));
    }
    println!("check");
    for finding in &findings {
        println!("  {finding}");
    }
    if findings.iter().any(|one| one.verdict == Verdict::Missing) {
        return Err(Error::Host);
    }
    Ok(findings.iter().map(ToString::to_string).collect())
}

/// The experiments by name.
fn chosen(names: &[String]) -> Result<Vec<Experiment>, Error> {
    let known = EXPERIMENTS.map(|one| one.name).join(", ");
    let find = |name: &String| {
        let found = EXPERIMENTS.iter().find(|one| one.name == name);
        found
            .copied()
            .ok_or_else(|| Error::Argument(format!("--experiments {name}: there are {known}")))
    };
    names.iter().map(find).collect()
}

fn run(arguments: &RunArguments) -> Result<(), Error> {
    let experiments = chosen(&arguments.experiments)?;
    let unknown = |name: &&String| !applications::ALL.contains(&name.as_str());
    if let Some(name) = arguments.applications.iter().find(unknown) {
        let known = applications::ALL.join(", ");
        let reason = format!("--applications {name}: there are {known}");
        return Err(Error::Argument(reason));
    }
    let (repetitions, seconds) = (arguments.repetitions, arguments.seconds);
    if !(1..=REPETITIONS_MAX).contains(&repetitions) {
        let reason = format!("--repetitions {repetitions}: must be 1 to {REPETITIONS_MAX}");
        return Err(Error::Argument(reason));
    }
    if !(seconds > 0.0 && seconds <= SECONDS_MAX) {
        let reason = format!("--seconds {seconds}: must be above 0 and at most {SECONDS_MAX}");
        return Err(Error::Argument(reason));
    }
    let found = inspect(&arguments.root, &arguments.module, &PROGRAMS);
    let found = match found {
        Err(Error::Host) if arguments.force || arguments.dry_run => Vec::new(),
        found => found?,
    };
    let mut host = run::Host::new(arguments)?;
    host.build()?;
    let runs = host.run(&experiments);
    if runs.is_err() {
        // The step that failed says more than an unload that fails too.
        let _ = host.unload();
    }
    let runs = runs?;
    if arguments.dry_run {
        return Ok(());
    }
    let results = Results {
        version: results::VERSION,
        origin: "host",
        host: found.clone(),
        experiments: experiments.iter().map(Described::from).collect(),
        summary: results::summary(&runs),
        runs: &runs,
    };
    let path = arguments.work.join("host.json");
    results::store(&path, &results)?;
    println!("{} runs in {}", runs.len(), path.display());
    for figure in figures::figures(&runs, &found) {
        let failed = |error: loga_results::Error| Error::Step(error.to_string());
        figure.write(&arguments.work).map_err(failed)?;
        println!("Figure {}: {}", figure.figure, figure.file());
    }
    Ok(())
}
