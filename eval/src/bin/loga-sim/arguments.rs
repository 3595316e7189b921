// SPDX-License-Identifier: GPL-2.0

//! The arguments of the simulator.

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use loga::placement;
use loga_eval::arrivals::Chooser;
use loga_eval::reference;
use loga_eval::scenario::{self, Scenario};
use std::path::PathBuf;

/// Why there is no result.
pub(crate) enum Failure {
    /// What was given makes no sense.
    Input(String),
    /// Something went wrong on the way.
    Work(String),
}

/// Simulates clients on GPUs that are shared by LoGA, or by what users would pick instead.
///
/// Exit codes: 0 done; 1 a run does not count, or output could not be written; 2 bad argument or
/// bad input.
#[derive(Parser)]
#[command(name = "loga-sim", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a scenario and print what each client and each GPU got
    Run(RunArgs),
    /// Run a scenario under several policies: fairness against overhead
    Compare(CompareArgs),
    /// Repeat an experiment of the LoGA paper, or of others
    Paper(PaperArgs),
    /// All figures of TimeGraph, Pegasus, Strings and GViM, and random sets of reserves, on one HTML page
    Papers(PapersArgs),
    /// Random sets of reserves: which are admitted, and whether they keep their deadlines
    Admission(AdmissionArgs),
    /// Time of a choice among many GPUs, and memory, for each placement policy
    Scale(ScaleArgs),
    /// Place programs that arrive in streams: how long they take, and where they run; or make a choice
    /// of loga place again
    Place(PlaceArgs),
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
pub(crate) struct Input {
    /// Scenario file; docs/scenarios.md explains it
    pub(crate) file: PathBuf,
    /// Change a value of the file, such as policy.poll_ms=2 or client.hog.weight=300
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Run with the seeds 1 to N
    #[arg(long, value_name = "N")]
    pub(crate) seeds: Option<u64>,
}

impl Input {
    pub(crate) fn read(&self, policy: Option<&str>) -> Result<Scenario, Failure> {
        let mut changes = self.set.clone();
        changes.extend(policy.map(|name| format!("policy.name={name:?}")));
        changes.extend(self.seeds.iter().map(|seeds| format!("seeds={seeds}")));
        scenario::read(&self.file, &changes).map_err(|error| Failure::Input(error.to_string()))
    }
}

#[derive(Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) input: Input,
    /// The scheduler, instead of the file's policy
    #[arg(long, value_name = "P")]
    pub(crate) policy: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a trace of the first seed's run, for Perfetto
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Policies to compare, separated by commas [default: all]
    #[arg(long, value_name = "P,P", value_delimiter = ',')]
    pub(crate) policies: Vec<String>,
    /// Where the picture goes [default: the name of the scenario, with .svg, here]
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct PaperArgs {
    /// Figure or section: 7a, 7b, 8, 9, 10, 11, 5.6; of other papers: timegraph-1 and -7 to -16, pegasus-3 to -9, strings-1, strings-9 to -15, gvim-1, placing-herd, placing-long
    pub(crate) figure: String,
    /// Print JSON; the figures of the LoGA paper always are
    #[arg(long)]
    pub(crate) json: bool,
    /// Runs of 3 s with one seed, of other papers only: shows that it works
    #[arg(long)]
    pub(crate) quick: bool,
    /// Seeds, each a run, of other papers only [default: 10 on placing, 3 for the others]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) seeds: Option<u64>,
}

#[derive(Args)]
pub(crate) struct PapersArgs {
    /// Where the page goes
    #[arg(default_value = "papers.html")]
    pub(crate) file: PathBuf,
    /// Runs of 3 s with one seed, and 300 sets: shows that it works
    #[arg(long)]
    pub(crate) quick: bool,
}

#[derive(Args)]
pub(crate) struct AdmissionArgs {
    /// Number of sets
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) sets: u64,
    /// Simulated time of each
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: u64,
    /// Seed of the sets
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Percent of the reserves that are due before the end of their period
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) early: u32,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ScaleArgs {
    /// GPUs
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) gpus: u64,
    /// Nodes
    #[arg(long, default_value_t = 1_250)]
    pub(crate) nodes: usize,
    /// Programs that start
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) starts: u64,
    /// Seed of what they want
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Placement policies, separated by commas [default: all]
    #[arg(long, value_name = "P,P", value_delimiter = ',')]
    pub(crate) policies: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct PlaceArgs {
    /// Scenario file of streams; docs/scenarios.md explains it
    #[arg(required_unless_present = "snapshot")]
    pub(crate) file: Option<PathBuf>,
    /// Another placement policy, to compare
    #[arg(long, value_name = "P", value_parser = Chooser::by_name)]
    pub(crate) against: Option<Chooser>,
    /// Make the choice again that loga place --snapshot wrote to this file; docs/placement.md explains it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "against"])]
    pub(crate) snapshot: Option<PathBuf>,
    /// With --snapshot: by this placement policy, not by the file's
    #[arg(long, value_name = "P", requires = "snapshot", value_parser = PossibleValuesParser::new(placement::NAMES))]
    pub(crate) policy: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// Recording, one JSON object per line, or - for standard input; docs/replay.md explains it
    pub(crate) file: PathBuf,
    /// Policy of LoGA that decides
    #[arg(long, value_name = "P")]
    pub(crate) policy: String,
}

#[derive(Args)]
pub(crate) struct RefArgs {
    #[command(flatten)]
    pub(crate) settings: reference::Settings,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct AccuracyArgs {
    /// Windows per load and method
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(20..=100_000))]
    pub(crate) windows: u32,
    /// Seed of the windows and of the samples
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ConvergeArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
