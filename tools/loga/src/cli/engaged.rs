// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The arguments of `loga reserve`, `loga spec`, `loga apply` and `loga agent`.

use super::numbers::{micros, span, whole};
use crate::http::Address;
use crate::names;
use crate::names::Name;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// A process, user or cgroup.
#[derive(Args, Clone, Debug, Default)]
pub struct Whom {
    /// For this process
    #[arg(long, value_name = "PID", value_parser = whole(1..=i32::MAX))]
    pub pid: Option<i32>,
    /// For all processes of this user, by name or number
    #[arg(long, value_name = "USER", value_parser = super::name())]
    pub user: Option<Name>,
    /// For all processes of this cgroup and those below it, by its path below the mount point of cgroup v2, or by the
    /// inode number of its directory
    #[arg(long, value_name = "CGROUP", value_parser = super::name())]
    pub cgroup: Option<Name>,
}

/// A time in microseconds.
fn us() -> impl clap::builder::TypedValueParser<Value = u64> {
    micros(1..=10_000_000)
}

/// Arguments of `loga reserve`.
#[derive(Args, Clone, Debug, Default)]
#[group(id = "subject", required = true, multiple = false, args = ["pid", "user", "cgroup", "list"])]
pub struct Reserve {
    /// The subject.
    #[command(flatten)]
    pub whom: Whom,
    /// Print what is set, and what was served
    #[arg(long, conflicts_with_all = ["clear", "prio", "mode", "kind"])]
    pub list: bool,
    /// GPU time in microseconds in each period
    #[arg(long, value_name = "N", value_parser = us(), requires = "period_us")]
    pub capacity_us: Option<u64>,
    /// The period in microseconds
    #[arg(long, value_name = "N", value_parser = us(), requires = "capacity_us")]
    pub period_us: Option<u64>,
    /// How it is kept: cbs (postpones its deadline before a long command; the default), pe (pays
    /// afterwards) or ae (starts only what fits)
    #[arg(long, value_name = "KIND", requires = "capacity_us", value_parser = PossibleValuesParser::new(&names::RESERVES[1..]))]
    pub kind: Option<String>,
    /// The reserve is no limit: more may be used while the GPU is not wanted by others
    #[arg(long, requires = "capacity_us")]
    pub soft: bool,
    /// Its longest submission in microseconds; longer ones are counted as breaches. With it, deadlines
    /// are promised by kind cbs under dispatch=edf; without, a part of the GPU only [default: as seen]
    #[arg(long, value_name = "N", value_parser = us(), requires = "capacity_us")]
    pub longest_us: Option<u64>,
    /// By when a submission is done, in microseconds after it came, where deadlines are promised: from
    /// the capacity to the period [default: the period]
    #[arg(long, value_name = "N", value_parser = us(), requires = "longest_us")]
    pub deadline_us: Option<u64>,
    /// Most submissions in a period that are charged what they use only; each further one costs 60 us
    /// more [default: 1]
    #[arg(long, value_name = "N", value_parser = whole(1..=10_000u32), requires = "capacity_us")]
    pub commands: Option<u32>,
    /// Priority, 0 to 39; the highest passes first under dispatch=prio [default: 19 minus nice]
    #[arg(long, value_name = "N", value_parser = whole(0..=39u32))]
    pub prio: Option<u32>,
    /// prt: a submission waits until the ones before it have completed; ht: up to four are in flight;
    /// protected: its submissions are not stopped and the others wait for them [default: prt]
    #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(names::MODES))]
    pub mode: Option<String>,
    /// It ends after this many seconds, 0.001 to 86400, unless it is set again [default: when it is cleared]
    #[arg(long = "for", value_name = "SECONDS", allow_hyphen_values = true, value_parser = span, conflicts_with_all = ["clear", "list"])]
    pub lease: Option<Duration>,
    /// Forget what is set
    #[arg(long, conflicts_with_all = ["capacity_us", "prio", "mode"])]
    pub clear: bool,
    /// Only on this GPU [default: all]
    #[arg(long, value_name = "N")]
    pub gpu: Option<u32>,
    /// Print JSON, one object per line
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `loga spec`.
#[derive(Args, Clone, Debug)]
pub struct Spec {
    /// The file: lines of name:sched:resv:prio:C:T
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Set it; without this, the file is checked and what it selects is printed
    #[arg(long)]
    pub apply: bool,
    /// Go on until interrupted: set it for processes that begin to use a GPU later, too
    #[arg(long, requires = "apply")]
    pub follow: bool,
    /// Only on this GPU [default: all]
    #[arg(long, value_name = "N")]
    pub gpu: Option<u32>,
}

/// Arguments of `loga apply`.
#[derive(Args, Clone, Debug, Default)]
pub struct Apply {
    /// The files, in this order [default: /etc/loga/loga.toml, then /etc/loga/loga.toml.d/*.toml by name]
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Only say whether the files are right; needs no privilege and no kernel module
    #[arg(long)]
    pub check: bool,
    /// Go on: apply files that change, and all of them to GPUs, cgroups and users that appear
    #[arg(long, conflicts_with = "check")]
    pub follow: bool,
}

/// Arguments of `loga config`.
#[derive(Args, Clone, Debug)]
pub struct Config {
    /// What to do.
    #[command(subcommand)]
    pub what: ConfigKind,
}

/// What to do with files of settings.
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigKind {
    /// Say whether files of settings are right, as `loga apply --check`
    Check(ConfigCheck),
    /// Print what is in force on each GPU, and which file and line it comes from
    ///
    /// What no file has was set by hand, or when the module was loaded.
    Show(ConfigShow),
}

/// Arguments of `loga config check`.
#[derive(Args, Clone, Debug)]
pub struct ConfigCheck {
    /// The files, in this order [default: /etc/loga/loga.toml, then /etc/loga/loga.toml.d/*.toml by name]
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// Arguments of `loga config show`.
#[derive(Args, Clone, Debug)]
pub struct ConfigShow {
    /// The files, in this order [default: /etc/loga/loga.toml, then /etc/loga/loga.toml.d/*.toml by name]
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Print objects for programs, one for each GPU
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `loga agent`.
#[derive(Args, Clone, Debug)]
pub struct Agent {
    /// What to follow.
    #[command(subcommand)]
    pub what: AgentKind,
}

/// What to follow.
#[derive(Clone, Debug, Subcommand)]
pub enum AgentKind {
    /// Raise the program whose window has the focus, under X11
    ///
    /// Its submissions, and those of the processes that it has started, come before those of other
    /// programs while its window has the focus: from 0.1 s after the focus has settled, and new GPU
    /// clients of it within 1 s. Programs for which something is set already (`loga reserve`) stay as they are.
    /// What the agent sets ends 5 s after the agent. It counts while submissions are decided on:
    /// `loga policy set --dispatch prio`. Windows that do not use X11 are not seen. For root, with
    /// DISPLAY and XAUTHORITY of the session: `sudo --preserve-env=DISPLAY,XAUTHORITY loga agent focus`.
    Focus(Focus),
    /// Put first on the processors who has the turn of a GPU
    ///
    /// Under the policies timeslice, timeslice-eng, credit, credit-slo, augc and cosched one client
    /// has the GPU alone for its turn. While it has, the agent raises cpu.weight of its cgroup, so
    /// that it does not lose its turn to what computes on the same processors, and puts the old
    /// weight back afterwards, or when it ends itself: by a signal, when LoGA is gone, and when it
    /// was killed, with its next start. A weight that somebody else sets meanwhile stays. Needs the
    /// controller cpu of cgroup v2. A weight counts among the cgroups with the same parent. For root,
    /// or for the user that owns the cgroups.
    Cpu(Cpu),
    /// Serve figures to monitoring systems, in the formats of OpenMetrics and Prometheus
    ///
    /// GET /metrics; docs/monitoring.md describes the metrics. Without the kernel module it answers
    /// too, and tries again every second. With CAP_PERFMON it exports all users and cgroups, else
    /// its own user only. Whoever can connect reads all that it exports.
    #[command(visible_alias = "run")]
    Serve(Serve),
    /// Give the pods of a node their weights, from their claims or their annotation loga/weight
    ///
    /// Asks the API server of Kubernetes for the pods of this node, and sets the weights of their
    /// cgroups: what their resource claims took of --capacity, else what the annotation says. Pods
    /// without either stay as they are, and so do all while the API server or LoGA does not answer.
    /// Whoever makes a pod chooses its annotation: --max-weight bounds it. For root.
    Pods(super::Pods),
}

/// Arguments of `loga agent cpu`.
#[derive(Args, Clone, Debug)]
pub struct Cpu {
    /// Weight during the turn, 1 to 10000; less than a cgroup has does nothing [default: ten times
    /// what it was, 10000 at most]
    #[arg(long, value_name = "N", value_parser = whole(1..=10_000u32))]
    pub weight: Option<u32>,
    /// Only the turns of this GPU [default: all]
    #[arg(long, value_name = "N")]
    pub gpu: Option<u32>,
    /// Folder of the file of what is raised [default: /run/loga-cpu for root, else loga-cpu in
    /// XDG_RUNTIME_DIR]
    #[arg(long, value_name = "FOLDER")]
    pub state: Option<PathBuf>,
}

/// Most processes with rows of their own.
const PROCESSES_MAX: usize = 256;

/// Arguments of `loga agent serve`.
#[derive(Args, Clone, Debug)]
pub struct Serve {
    /// An address and a port, or unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9466")]
    pub listen: Address,
    /// Export the busiest processes of each GPU too, this many of them, and the others together
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "32", value_parser = processes())]
    pub processes: Option<usize>,
    /// Export these GPUs only, separated by commas [default: all]
    #[arg(long = "gpu", value_name = "LIST", value_delimiter = ',')]
    pub gpus: Vec<u32>,
    /// Write the figures into this file, once, for the textfile collector of node_exporter
    #[arg(long, value_name = "PATH", conflicts_with = "listen")]
    pub textfile: Option<PathBuf>,
    /// Keep what programs did in their runs in this folder, for loga run and loga place; the
    /// folder has to be closed to other users, since it has what all of them ran
    #[arg(long, value_name = "FOLDER", conflicts_with = "textfile")]
    pub history: Option<PathBuf>,
    /// Answer every user about its own programs on this socket
    #[arg(long, value_name = "PATH", default_value = crate::history::SOCKET, requires = "history")]
    pub history_socket: PathBuf,
}

fn processes() -> impl clap::builder::TypedValueParser<Value = usize> {
    whole(1..=PROCESSES_MAX)
}

/// Arguments of `loga agent focus`.
#[derive(Args, Clone, Debug)]
pub struct Focus {
    /// Priority, 0 to 39; programs without nice have 19
    #[arg(long, value_name = "N", default_value = "20", value_parser = whole(0..=39u32))]
    pub prio: u32,
    /// prt, ht or protected: as of `loga reserve`
    #[arg(long, value_name = "MODE", default_value = "prt", value_parser = PossibleValuesParser::new(names::MODES))]
    pub mode: String,
    /// Only processes of this user, by name or number [default: the one that called, also by sudo]
    #[arg(long, value_name = "USER", value_parser = super::name())]
    pub user: Option<Name>,
    /// The X server [default: that of DISPLAY]
    #[arg(long, value_name = "NAME")]
    pub display: Option<String>,
    /// Only on this GPU [default: all]
    #[arg(long, value_name = "N")]
    pub gpu: Option<u32>,
}
