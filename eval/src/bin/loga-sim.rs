// SPDX-License-Identifier: GPL-2.0

//! The simulator's command line.

use clap::{Args, Parser, Subcommand};
use loga_eval::compare;
use loga_eval::output::{self, table_or_json};
use loga_eval::paper::{self, Plan};
use loga_eval::replay;
use loga_eval::report;
use loga_eval::results::FIGURES;
use loga_eval::run;
use loga_eval::scenario::{self, Kind, Scenario};
use loga_eval::systems::timegraph::tasks;
use loga_eval::systems::{self, Length};
use loga_eval::whole;
use loga_eval::world::Trace;
use loga_eval::{accuracy, convergence, reference};
use std::fs::File;
use std::io::{self, BufRead, BufReader, LineWriter};
use std::path::PathBuf;
use std::process::ExitCode;

/// Simulates clients on GPUs that are shared by LoGA, or by what users would pick instead.
///
/// Exit codes: 0 done; 1 a run does not count, or output could not be written; 2 bad argument or
/// bad input.
#[derive(Parser)]
#[command(name = "loga-sim", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a scenario and print what each client and each GPU got
    Run(RunArgs),
    /// Run a scenario under several policies: fairness against overhead
    Compare(CompareArgs),
    /// Repeat an experiment of the LoGA paper, or of TimeGraph
    Paper(PaperArgs),
    /// All figures of TimeGraph and Pegasus, and random sets of reserves, on one HTML page
    Papers(PapersArgs),
    /// Random sets of reserves: which are admitted, and whether they keep their deadlines
    Admission(AdmissionArgs),
    /// Give recorded observations to a policy and print its decisions
    Replay(ReplayArgs),
    /// What LoGA's rules give each client on an ideal GPU
    Ref(RefArgs),
    /// CPU time against error of burst and sparse accounting, over windows of two seconds
    Accuracy(AccuracyArgs),
    /// Periods until a client that comes, or comes back, has its share of an ideal GPU
    Converge(ConvergeArgs),
}

/// What changes a scenario.
#[derive(Args)]
struct Input {
    /// Scenario file; docs/scenarios.md explains it
    file: PathBuf,
    /// Change a value of the file, such as policy.poll_ms=2 or client.hog.weight=300
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Run with the seeds 1 to N
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
}

impl Input {
    fn read(&self, policy: Option<&str>) -> Result<Scenario, Failure> {
        let mut changes = self.set.clone();
        changes.extend(policy.map(|name| format!("policy.name={name:?}")));
        changes.extend(self.seeds.iter().map(|seeds| format!("seeds={seeds}")));
        scenario::read(&self.file, &changes).map_err(|error| Failure::Input(error.to_string()))
    }
}

#[derive(Args)]
struct RunArgs {
    #[command(flatten)]
    input: Input,
    /// The scheduler, instead of the file's policy
    #[arg(long, value_name = "P")]
    policy: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a trace of the first seed's run, for Perfetto
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

#[derive(Args)]
struct CompareArgs {
    #[command(flatten)]
    input: Input,
    /// Policies to compare, separated by commas [default: all]
    #[arg(long, value_name = "P,P", value_delimiter = ',')]
    policies: Vec<String>,
    /// Where the picture goes [default: the name of the scenario, with .svg, here]
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct PaperArgs {
    /// Figure or section: 7a, 7b, 8, 9, 10, 11, 5.6; of other papers: timegraph-7 to -16, pegasus-3, -4, -5, -6, -8, -9
    figure: String,
    /// Print JSON; the figures of the LoGA paper always are
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct PapersArgs {
    /// Where the page goes
    #[arg(default_value = "papers.html")]
    file: PathBuf,
    /// A run of 3 s for each, and 300 sets: shows that it works
    #[arg(long)]
    quick: bool,
}

#[derive(Args)]
struct AdmissionArgs {
    /// Number of sets
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    sets: u64,
    /// Simulated time of each
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Seed of the sets
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct ReplayArgs {
    /// Recording, one JSON object per line, or - for standard input; docs/replay.md explains it
    file: PathBuf,
    /// Policy of LoGA that decides
    #[arg(long, value_name = "P")]
    policy: String,
}

#[derive(Args)]
struct RefArgs {
    #[command(flatten)]
    settings: reference::Settings,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct AccuracyArgs {
    /// Windows per load and method
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(20..=100_000))]
    windows: u32,
    /// Seed of the windows and of the samples
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct ConvergeArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Why there is no result.
enum Failure {
    /// What was given makes no sense.
    Input(String),
    /// Something went wrong on the way.
    Work(String),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.command {
        Command::Run(args) => run_scenario(args),
        Command::Compare(args) => compare_policies(args),
        Command::Paper(args) => paper_figure(args),
        Command::Papers(args) => papers(args),
        Command::Admission(args) => admission(args),
        Command::Replay(args) => replay_file(args),
        Command::Ref(args) => reference_table(args),
        Command::Accuracy(args) => accuracy_table(args),
        Command::Converge(args) => convergence_table(args),
    };
    let (reason, code) = match done {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Input(reason)) => (reason, 2),
        Err(Failure::Work(reason)) => (reason, 1),
    };
    eprintln!("loga-sim: {reason}");
    ExitCode::from(code)
}

fn run_scenario(args: &RunArgs) -> Result<(), Failure> {
    let scenario = args.input.read(args.policy.as_deref())?;
    let work = |reason: String| Failure::Work(reason);
    let mut trace = None;
    if let Some(path) = &args.trace {
        let failed = |error: io::Error| work(format!("{}: {error}", path.display()));
        trace = Some(Trace::create(path).map_err(failed)?);
    }
    let mut outcomes = Vec::new();
    for seed in 1..=scenario.seeds {
        let outcome = run::run(&scenario, seed, &mut trace);
        outcomes.push(outcome.map_err(|error| work(error.to_string()))?);
        if let Some(trace) = trace.take() {
            let failed = |error: io::Error| work(format!("trace: {error}"));
            trace.finish().map_err(failed)?;
        }
    }
    let name = args.input.file.display().to_string();
    let report = report::report(&name, &scenario, &outcomes);
    print(table_or_json(&report, args.json, report::text::text))
}

fn compare_policies(args: &CompareArgs) -> Result<(), Failure> {
    let (scenario, file) = (args.input.read(None)?, &args.input.file);
    let named = args.policies.iter().map(|name| Kind::by_name(name));
    let mut kinds: Vec<_> = named.collect::<Result<_, _>>().map_err(Failure::Input)?;
    if kinds.is_empty() {
        kinds = Kind::all().collect();
    }
    let work = |reason: String| Failure::Work(reason);
    let name = file.display().to_string();
    let compared = compare::compare(&name, &scenario, &kinds);
    let compared = compared.map_err(|error| work(error.to_string()))?;
    print(table_or_json(&compared, args.json, compare::text))?;
    let beside = || PathBuf::from(file.with_extension("svg").file_name().unwrap_or_default());
    let path = args.svg.clone().unwrap_or_else(beside);
    let picture = compare::picture::picture(&compared).map_err(|error| work(error.to_string()))?;
    let written = whole::replace(&path, picture.as_bytes());
    written.map_err(|error| work(format!("{}: {error}", path.display())))?;
    match compared.rows.iter().find_map(|row| row.failed.clone()) {
        Some(reason) => Err(work(reason)),
        None => Ok(()),
    }
}

fn paper_figure(args: &PaperArgs) -> Result<(), Failure> {
    if let Some(figure) = systems::figure(&args.figure, Length::WHOLE) {
        let figure = figure.map_err(|error| Failure::Work(error.to_string()))?;
        return print(table_or_json(&figure, args.json, systems::text));
    }
    let Some(figure) = paper::figure(&args.figure, &Plan::paper(), &mut ()) else {
        let known: Vec<_> = FIGURES.iter().copied().chain(systems::names()).collect();
        let known = known.join(", ");
        let given = &args.figure;
        let reason = format!("no experiment {given:?}, want one of {known}");
        return Err(Failure::Input(reason));
    };
    let figure = figure.map_err(|error| Failure::Work(error.to_string()))?;
    print(table_or_json(&figure, true, |_| String::new()))
}

fn papers(args: &PapersArgs) -> Result<(), Failure> {
    let work = |error: &dyn std::fmt::Display| Failure::Work(error.to_string());
    let (length, sets) = match args.quick {
        true => (
            Length {
                seconds: 3,
                seeds: 1,
            },
            300,
        ),
        false => (Length::WHOLE, 10_000),
    };
    let figures = systems::figures(length, |name| eprintln!("{name}"));
    let figures: Vec<_> = figures
        .collect::<Result<_, _>>()
        .map_err(|error| work(&error))?;
    eprintln!("{sets} sets of reserves");
    let settings = tasks::Settings {
        sets,
        seconds: length.seconds,
        seed: 1,
    };
    let sets = tasks::run(settings).map_err(|error| work(&error))?;
    let page = systems::page(&figures, &sets).map_err(|error| work(&error))?;
    let written = whole::replace(&args.file, page.as_bytes());
    written.map_err(|error| work(&format!("{}: {error}", args.file.display())))?;
    let failed: usize = figures.iter().map(systems::Figure::failed).sum();
    let judged: usize = figures.iter().map(systems::Figure::judged).sum();
    let file = args.file.display();
    print(Ok(format!(
        "{file}: {failed} of {judged} criteria not met\n"
    )))
}

fn admission(args: &AdmissionArgs) -> Result<(), Failure> {
    let settings = tasks::Settings {
        sets: args.sets,
        seconds: args.seconds,
        seed: args.seed,
    };
    let report = tasks::run(settings).map_err(|error| Failure::Work(error.to_string()))?;
    print(table_or_json(&report, args.json, tasks::text))
}

fn reference_table(args: &RefArgs) -> Result<(), Failure> {
    let table = reference::table(args.settings).map_err(setting)?;
    print(table_or_json(&table, args.json, ToString::to_string))
}

fn accuracy_table(args: &AccuracyArgs) -> Result<(), Failure> {
    let all = accuracy::all(args.windows, args.seed).map_err(setting)?;
    print(table_or_json(&all, args.json, |all| {
        accuracy::text(all, args.windows, args.seed)
    }))
}

fn convergence_table(args: &ConvergeArgs) -> Result<(), Failure> {
    let all = convergence::all().map_err(setting)?;
    print(table_or_json(&all, args.json, |all| convergence::text(all)))
}

/// A setting is out of range.
fn setting(error: loga::error::Error) -> Failure {
    Failure::Input(error.to_string())
}

fn replay_file(args: &ReplayArgs) -> Result<(), Failure> {
    let name = args.file.display().to_string();
    let mut input: Box<dyn BufRead> = if name == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(&args.file);
        let file = file.map_err(|error| Failure::Input(format!("{name}: {error}")))?;
        Box::new(BufReader::new(file))
    };
    let mut output = LineWriter::new(io::stdout().lock());
    match replay::replay(&args.policy, &name, &mut *input, &mut output) {
        Ok(()) => Ok(()),
        // The reader closed the pipe.
        Err(replay::Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error @ replay::Error::Output(_)) => Err(Failure::Work(error.to_string())),
        Err(error @ replay::Error::Input(_)) => Err(Failure::Input(error.to_string())),
    }
}

/// Prints what was put into words.
fn print(text: io::Result<String>) -> Result<(), Failure> {
    let printed = text.and_then(|text| output::print(&text));
    printed.map_err(|error| Failure::Work(error.to_string()))
}
