// SPDX-License-Identifier: GPL-2.0

//! The simulator's command line.

mod arguments;

use arguments::{
    AccuracyArgs, AdmissionArgs, Cli, Command, CompareArgs, ConvergeArgs, Failure, PaperArgs,
    PapersArgs, PlaceArgs, RefArgs, ReplayArgs, RunArgs, ScaleArgs,
};
use clap::Parser;
use loga::placement::{self, Placement};
use loga_eval::compare;
use loga_eval::output::{self, table_or_json};
use loga_eval::paper::{self, Plan};
use loga_eval::placing;
use loga_eval::recorded;
use loga_eval::replay;
use loga_eval::report;
use loga_eval::results::FIGURES;
use loga_eval::run;
use loga_eval::scale;
use loga_eval::scenario::{self, Kind};
use loga_eval::systems::timegraph::tasks;
use loga_eval::systems::{self, Length};
use loga_eval::whole;
use loga_eval::world::Trace;
use loga_eval::{accuracy, convergence, reference};
use std::fs::File;
use std::io::{self, BufRead, BufReader, LineWriter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.command {
        Command::Run(args) => run_scenario(args),
        Command::Compare(args) => compare_policies(args),
        Command::Paper(args) => paper_figure(args),
        Command::Papers(args) => papers(args),
        Command::Admission(args) => admission(args),
        Command::Scale(args) => scale_table(args),
        Command::Place(args) => place_streams(args),
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

fn place_streams(args: &PlaceArgs) -> Result<(), Failure> {
    if let Some(snapshot) = &args.snapshot {
        return place_recorded(snapshot, args);
    }
    // One of both is required.
    let file = args.file.clone().unwrap_or_default();
    let scenario = scenario::read_streams(&file);
    let scenario = scenario.map_err(|error| Failure::Input(error.to_string()))?;
    let report = placing::run(&file.display().to_string(), &scenario, args.against);
    let report = report.map_err(|error| Failure::Work(error.to_string()))?;
    print(table_or_json(&report, args.json, placing::text))
}

fn place_recorded(snapshot: &Path, args: &PlaceArgs) -> Result<(), Failure> {
    let input = |error: &dyn std::fmt::Display| Failure::Input(error.to_string());
    let recorded = recorded::read(snapshot).map_err(|error| input(&error))?;
    let policy = args.policy.as_deref().map(placement::by_name);
    let policy = policy.transpose().map_err(|error| input(&error))?;
    let choice = recorded.choose(policy);
    print(table_or_json(&choice, args.json, recorded::text))?;
    match choice.chosen.is_empty() {
        true => Err(Failure::Work(format!(
            "fewer than {} GPUs may be chosen",
            choice.count
        ))),
        false => Ok(()),
    }
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
    let length = if args.quick {
        Length::QUICK
    } else {
        Length::WHOLE
    };
    let length = args.seeds.map_or(length, |seeds| length.with_seeds(seeds));
    if let Some(figure) = systems::figure(&args.figure, length) {
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
        true => (Length::QUICK, 300),
        false => (Length::WHOLE, 10_000),
    };
    let figures = systems::figures(length, |name| eprintln!("{name}"));
    let figures: Vec<_> = figures
        .collect::<Result<_, _>>()
        .map_err(|error| work(&error))?;
    eprintln!("{sets} sets of reserves");
    let settings = tasks::Settings {
        early_pct: 0,
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
        early_pct: args.early,
    };
    let report = tasks::run(settings).map_err(|error| Failure::Work(error.to_string()))?;
    print(table_or_json(&report, args.json, tasks::text))
}

fn scale_table(args: &ScaleArgs) -> Result<(), Failure> {
    let named = args.policies.iter().map(|name| {
        let known = placement::by_name(name);
        known.map_err(|error| Failure::Input(format!("--policies {name:?}: {error}")))
    });
    let mut policies: Vec<_> = named.collect::<Result<_, _>>()?;
    if policies.is_empty() {
        policies = Placement::ALL.to_vec();
    }
    let settings = scale::Settings {
        // CAST: at most a million.
        gpus: args.gpus as usize,
        nodes: args.nodes,
        starts: args.starts,
        seed: args.seed,
    };
    let report = scale::run(settings, &policies).map_err(Failure::Input)?;
    print(table_or_json(&report, args.json, scale::text))
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
