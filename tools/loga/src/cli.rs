// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The arguments of `loga`. Its manual pages and completions are made from these definitions.

mod engaged;
mod kube;
mod numbers;
mod place;
mod record;
mod refusals;
mod slurm;

pub use engaged::{
    Agent, AgentKind, Apply, Config, ConfigCheck, ConfigKind, ConfigShow, Cpu, Focus, Reserve,
    Serve, Spec, Whom,
};
pub use kube::{Kube, Pods, Server};
pub use place::{Asked, GpuName, OnGpu, Place, Run};
pub use record::{Export, ExportFormat, Record, Report};
pub use refusals::{one_line, refusal};
pub use slurm::{Slurm, SlurmJob, SlurmKind, SlurmProlog, SlurmTable, SlurmTask};

use crate::names;
use crate::names::Name;
use clap::builder::{OsStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgGroup, ArgMatches, Args, FromArgMatches, Parser, Subcommand};
use loga::knobs::{Knob, KNOBS};
use loga::names::Kind;
use loga::policies;
use loga::share::{Limit, Target};
use loga::units::Weight;
use std::path::PathBuf;
use std::time::Duration;

/// Which processes use the GPUs, and how much.
#[derive(Debug, Parser)]
#[command(
    version,
    name = "loga",
    max_term_width = 100,
    mut_subcommands(numbers::with_negative)
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the GPU time of every client
    ///
    /// SHARE is the GPU time that the client was charged as a part of the time, ENTITLED its
    /// share in a division by weights among the active clients, WAITED the time in which it
    /// wanted the GPU and did not have it, VTIME the virtual time ahead of the system's.
    /// A terminal that is too narrow shows fewer columns, and a line below names the others. They go
    /// in this order: VTIME ms, TIMES, CHANNELS, THROTTLED ms, UID, LIMIT, THERE, COPY ms, WEIGHT,
    /// GPU ms, WAITED ms, ENTITLED, COPIES, LAST 1 s, STATE. A pipe or a file gets all of them.
    Stat(Stat),
    /// Show GPUs and clients, refreshed continuously
    ///
    /// The bottom line names the keys; h explains them, the columns and the states. Without UTF-8 in
    /// LC_ALL, LC_CTYPE or LANG, the first that is set, it draws in ASCII; with NO_COLOR, in one
    /// colour.
    Top(Top),
    /// Set the weight, limit or class of a process, user or cgroup
    ///
    /// A setting of a process ends with it; one of a user or cgroup stays until it is cleared
    /// or the module is unloaded. A process that has no weight or class of its own follows the
    /// nearest cgroup around it that has one, or else its user; limits of all cgroups around it
    /// apply. For root; every user may lower its own processes: set them idle, or give them a
    /// weight and a limit not above their present ones, and undo that with --clear.
    Set(Set),
    /// Show or change the policy and the knobs
    Policy(Policy),
    /// Promise GPU time to a process, user or cgroup, or set its priority and mode
    ///
    /// It counts while submissions are decided on: `loga policy set --dispatch prio` or `edf`.
    /// Without, and with `--enforce on`, only a reserve counts, as a part of the GPU in whole polling
    /// periods; its period has to be four of them at least. What is set replaces what was set before
    /// for the same subject; a process follows what is set for it, else for the nearest cgroup around
    /// it, else for its user, and all clients that follow one share its reserve. A promise that cannot
    /// be kept beside the others is refused. For root.
    Reserve(Reserve),
    /// Check a file of reserves and priorities, and set what it says
    ///
    /// A line is name:sched:resv:prio:C:T. name is that of a process, or exe=PATH, @user=NAME or
    /// @cgroup=PATH; a name with a colon is in double quotes, such as exe="/opt/a:b"; sched is PRT, HT or PROTECTED; resv is PE, AE, CBS or `-` for none; prio is 0 to 39, or
    /// `-` for nice; C of GPU time in every T, in microseconds, `-` without a reserve. Empty lines
    /// and those that begin with # are skipped. A line that is wrong refuses the whole file. A
    /// line that no process matches fails --apply without --follow, once the others are set.
    Spec(Spec),
    /// Set knobs and shares as files of this machine say
    ///
    /// All files are checked before anything is set; one that is wrong, or that the kernel module
    /// refuses, leaves everything as it was. What a file does not name stays as it is. A cgroup that
    /// does not exist is reported and skipped. Exits with 0 if everything is set, 1 if nothing is,
    /// 3 if cgroups were skipped. docs/settings.md describes the files. For root.
    Apply(Apply),
    /// Check files of settings, or print what is in force and where it comes from
    Config(Config),
    /// Follow something of the system, or serve figures, until interrupted
    Agent(Agent),
    /// Print what happens, one line per event, until interrupted
    Events(Events),
    /// Print on which GPU a program would run best now, and why
    ///
    /// It chooses as `loga run --gpu auto` does, by what all programs wanted over about the last
    /// half a minute and by claims of those that have just started. SLOWDOWN is how many times as
    /// long as alone on the fastest GPU the program is expected to take. CUDA_VISIBLE_DEVICES
    /// limits the choice.
    Place(Place),
    /// Run a command with a weight, limit or class of its own, on a GPU of its own
    ///
    /// The setting is in place before the command starts; the command replaces this process, so
    /// that the caller sees its exit status. The setting is for that one process: programs that
    /// it starts have none, unless a cgroup or user gives them one. Exits with 125 if the setting
    /// is refused or no GPU may be chosen, 126 if the command cannot be run, 127 if it does not
    /// exist. Every user may lower its own processes, such as with `--class idle`; only root gives
    /// more. With --gpu the command sees that GPU only: CUDA_VISIBLE_DEVICES and LOGA_GPU are set
    /// for it, within what CUDA_VISIBLE_DEVICES allows already.
    /// As root, to run the command as another user:
    /// `loga run --weight 300 -- setpriv --reuid=ann --regid=ann --init-groups COMMAND`.
    Run(Run),
    /// Print the GPU time of each user or cgroup, including processes that have exited
    ///
    /// Users see their own total; a caller with CAP_PERFMON sees all of them, and root may reset
    /// them.
    Totals(Totals),
    /// Write what every client, user and cgroup gets to a file, until interrupted
    ///
    /// The file has one JSON object per line: a header, then for each GPU and interval what happened
    /// since the last one, and events as they come. It is closed to other users. While the kernel
    /// module does not answer there is a gap. docs/recording.md describes the lines. Exits with 1 if
    /// the file cannot be written; what is in it stays readable.
    Record(Record),
    /// Convert a recording to CSV, a list in JSON, or a trace for Perfetto
    ///
    /// A last line that was cut is left out, with a note. Another line that is wrong ends it: what is
    /// before it is exported, and it exits with 1. Needs no kernel module.
    Export(Export),
    /// Make a page of a recording, with pictures, that a browser shows
    ///
    /// It needs no network. Times throttled, totals and events are on it, too. Needs no kernel module.
    Report(Report),
    /// Let Slurm place jobs by what LoGA measures
    Slurm(Slurm),
    /// Let Kubernetes place pods by what LoGA measures
    ///
    /// Runs once in a cluster, until interrupted, and reads the exporter of each node. docs/kube.md
    /// describes the set-up.
    Kube(Kube),
    /// Say what LoGA needs of this machine, what of it is there, and what to do about the rest
    ///
    /// Exits with 1 if something is wrong. What it prints names no user, process or serial number, so
    /// that it can be attached to a report.
    Doctor(Doctor),
    /// Write manual pages or completions
    #[command(hide = true)]
    Generate(Generate),
}

/// Arguments of `loga doctor`.
#[derive(Args, Clone, Debug, Default)]
pub struct Doctor {
    /// Print one JSON object per finding and line
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `loga stat`.
#[derive(Args, Clone, Debug, Default)]
pub struct Stat {
    /// Only this GPU [default: all]
    #[arg(long, value_name = "N")]
    pub gpu: Option<u32>,
    /// Print one JSON object per GPU and line; its members are named in docs/loga-stat-json.md
    #[arg(long)]
    pub json: bool,
    /// Print the figures of every interval of this many seconds, 0.05 to 3600
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true, value_parser = numbers::interval)]
    pub watch: Option<Duration>,
    /// Print at once: the sums alone, without the figures of the last second
    #[arg(long, conflicts_with_all = ["watch", "json"])]
    pub sums: bool,
    /// With --watch: stop after this many intervals
    #[arg(long, value_name = "N", requires = "watch")]
    pub times: Option<u64>,
}

/// Arguments of `loga top`.
#[derive(Args, Clone, Debug)]
pub struct Top {
    /// Only this GPU [default: all]
    #[arg(long, value_name = "N")]
    pub gpu: Option<u32>,
    /// Seconds between two snapshots, 0.05 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "1", allow_hyphen_values = true, value_parser = numbers::interval)]
    pub interval: Duration,
    /// No screen: print JSON lines as `loga stat --watch --json` does
    #[arg(long)]
    pub json: bool,
    /// Stop after this many snapshots
    #[arg(long, value_name = "N")]
    pub times: Option<u64>,
}

/// What can be set.
#[derive(Args, Clone, Debug, Default)]
pub struct Change {
    /// Weight, 1 to 10000; twice the weight entitles to twice the time [default: 100]
    #[arg(long, value_name = "N", value_parser = numbers::whole(Weight::MIN..=Weight::MAX))]
    pub weight: Option<u32>,
    /// Hard limit in percent of a GPU, 1 to 100; 100 is none
    #[arg(long, value_name = "PERCENT", value_parser = numbers::percent(Limit::MIN..=Limit::MAX))]
    pub limit: Option<u32>,
    /// Class; idle runs only while no normal client wants the GPU
    #[arg(long, value_name = "CLASS")]
    pub class: Option<names::Class>,
    /// Part of a GPU in percent, 1 to 90, that policy credit-slo gives it if it wants that; 0 is none;
    /// of the groups that the GPU is divided between (group_by)
    #[arg(long, value_name = "PERCENT", value_parser = numbers::percent(0..=Target::MAX))]
    pub target: Option<u32>,
}

/// Arguments of `loga set`.
#[derive(Args, Clone, Debug, Default)]
#[group(id = "what", required = true, multiple = false, args = ["pid", "user", "cgroup", "list"])]
pub struct Set {
    /// The subject.
    #[command(flatten)]
    pub whom: Whom,
    /// Print what is set
    #[arg(long, conflicts_with_all = ["weight", "limit", "class", "target", "access", "clear"])]
    pub list: bool,
    /// What to set.
    #[command(flatten)]
    pub change: Change,
    /// Whether its processes may open the GPU, while LoGA enforces; of a cgroup or user
    #[arg(long, value_name = "ACCESS", conflicts_with = "pid")]
    pub access: Option<names::Access>,
    /// Forget what is set
    #[arg(long, conflicts_with_all = ["weight", "limit", "class", "target", "access"])]
    pub clear: bool,
    /// Only on this GPU [default: all]
    #[arg(long, value_name = "N")]
    pub gpu: Option<u32>,
    /// Print JSON, one object per line
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `loga policy`.
#[derive(Args, Clone, Debug)]
pub struct Policy {
    /// What to do; shows the policy and the knobs if absent.
    #[command(subcommand)]
    pub action: Option<PolicyAction>,
    /// Only this GPU [default: all]
    #[arg(long, value_name = "N", global = true)]
    pub gpu: Option<u32>,
    /// Print JSON, one object per line
    #[arg(long, global = true)]
    pub json: bool,
}

/// What to do about policies.
#[derive(Clone, Debug, Subcommand)]
pub enum PolicyAction {
    /// Show the policy and the knobs of each GPU
    Show,
    /// List the policies, and the GPUs that use each of them
    List,
    /// Change the policy
    Switch {
        /// Its name
        #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(policies::NAMES))]
        name: String,
    },
    /// Set knobs
    Set(Knobs),
}

/// Knobs that are given, by name, in the words of the user: an option for each that can be set.
#[derive(Clone, Debug, Default)]
pub struct Knobs {
    /// Names and values.
    pub given: Vec<(&'static str, String)>,
}

impl Knobs {
    /// Only the policy.
    pub fn policy(name: &str) -> Self {
        Self {
            given: vec![("policy", name.to_owned())],
        }
    }

    fn live() -> impl Iterator<Item = &'static Knob> {
        KNOBS.iter().filter(|knob| knob.live)
    }
}

impl Args for Knobs {
    fn augment_args(command: clap::Command) -> clap::Command {
        let group = ArgGroup::new("knobs").multiple(true);
        let args = Self::live().map(|knob| {
            let arg = Arg::new(knob.name).long(knob.name.replace('_', "-"));
            match knob.kind {
                Kind::Switch => arg
                    .help(knob.about)
                    .value_name("SWITCH")
                    .value_parser(PossibleValuesParser::new(SWITCH.map(switch))),
                Kind::Number { min, max } => arg
                    .help(format!("{}, {min} to {max}", knob.about))
                    .value_name("N")
                    .value_parser(|text: &str| knob.parse(text).map(|_| text.to_owned())),
                Kind::Word(words) => arg
                    .help(knob.about)
                    .value_name("WORD")
                    .value_parser(PossibleValuesParser::new(words)),
            }
        });
        let args: Vec<Arg> = args.collect();
        let group = group.args(Self::live().map(|knob| knob.name));
        command.args(args).group(group)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Knobs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut knobs = Self::default();
        knobs.update_from_arg_matches(matches)?;
        if knobs.given.is_empty() {
            let line =
                "nothing to set: want a knob and its value, such as --poll-ms 3 or --dispatch none";
            return Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, line));
        }
        Ok(knobs)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let given = |knob: &'static Knob| {
            let value = matches.get_one::<String>(knob.name)?;
            Some((knob.name, value.clone()))
        };
        self.given = Self::live().filter_map(given).collect();
        Ok(())
    }
}

/// Off and on, in the order of their numbers.
pub const SWITCH: [&str; 2] = ["off", "on"];

/// One of [`SWITCH`], or its number.
fn switch(word: &'static str) -> PossibleValue {
    let number = if word == SWITCH[0] { "0" } else { "1" };
    PossibleValue::new(word).alias(number)
}

/// Arguments of `loga events`.
#[derive(Args, Clone, Debug, Default)]
pub struct Events {
    /// Only of this GPU [default: all]
    #[arg(long, value_name = "N")]
    pub gpu: Option<u32>,
    /// Only these kinds, separated by commas [default: all]
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = PossibleValuesParser::new(names::EVENTS))]
    pub kinds: Vec<String>,
    /// Stop after this many events
    #[arg(long, value_name = "N")]
    pub times: Option<u64>,
    /// Stop after this many seconds
    #[arg(long = "for", value_name = "SECONDS", allow_hyphen_values = true, value_parser = numbers::span)]
    pub duration: Option<Duration>,
    /// Print one JSON object per event and line
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `loga totals`.
#[derive(Args, Clone, Debug)]
pub struct Totals {
    /// Totals of users or of cgroups
    #[arg(long, value_name = "KIND", default_value = "user", value_parser = PossibleValuesParser::new(["user", "cgroup"]))]
    pub by: String,
    /// One row for this cgroup, with all below it, also those that were removed; may be given several
    /// times: what is in two of them counts for the nearest
    #[arg(long, value_name = "PATH", value_parser = name(), conflicts_with = "reset")]
    pub within: Vec<Name>,
    /// Only of this GPU [default: all]
    #[arg(long, value_name = "N")]
    pub gpu: Option<u32>,
    /// Totals begin anew, as soon as they are read
    #[arg(long)]
    pub reset: bool,
    /// Print one JSON object per GPU and line
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `loga generate`.
#[derive(Args, Clone, Debug)]
pub struct Generate {
    /// What to write
    #[arg(value_name = "WHAT", value_parser = PossibleValuesParser::new(["man", "completions"]))]
    pub what: String,
    /// Where to; made if it does not exist
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

/// A name of any bytes.
fn name() -> impl TypedValueParser<Value = Name> {
    OsStringValueParser::new().map(Name::from)
}

#[cfg(test)]
mod tests;
