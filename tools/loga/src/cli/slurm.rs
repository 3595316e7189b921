// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The arguments of `loga slurm`.

use super::numbers::{whole, whole_seconds};
use clap::{Args, Subcommand};
use loga::units::Weight;
use std::path::PathBuf;

/// Arguments of `loga slurm`.
#[derive(Args, Clone, Debug)]
pub struct Slurm {
    /// What to do.
    #[command(subcommand)]
    pub what: SlurmKind,
}

/// What to do for Slurm.
#[derive(Clone, Debug, Subcommand)]
pub enum SlurmKind {
    /// Follow the nodes' exporters: a table for job_submit.lua, and weights of the nodes
    ///
    /// Runs beside slurmctld, until interrupted. It reads the exporter of each node, gives each GPU
    /// a score from 0 (free) to 1 (full), and writes them to a file that packaging/slurm/loga.lua
    /// reads. A node's weight follows its best GPU, in steps of 10 and at most once in 30 s. A node
    /// whose exporter is silent, older than 30 s, lost its GPU or enforces nothing is not in the
    /// table. For root or the user of slurmctld.
    Table(SlurmTable),
    /// Before a job: give its cgroup the weight of its shards, for Slurm's Prolog
    ///
    /// Called by packaging/slurm/prolog.sh, with the environment that slurmd gives to it. With
    /// --max-weight a job may have another weight by words in its comment: sbatch
    /// --comment=loga:weight=300; with --limits, a hard limit in percent of a GPU: loga:limit=40. What
    /// is not allowed is said, and changes nothing. Never fails, since Slurm would drain the node.
    Prolog(SlurmProlog),
    /// Before a task: the environment that makes it see its GPUs, for Slurm's TaskProlog
    ///
    /// Runs as the job's user, and prints lines `export NAME=VALUE` that Slurm takes into the task's
    /// environment: the GPUs that Slurm gave to the task, by UUID or by their positions on the bus,
    /// the one on which it slows down itself and others least first, if the step has one task.
    /// Prints nothing if LoGA or the note of the Prolog is not there. Never fails.
    TaskProlog(SlurmTask),
    /// At the end of a job's tasks: note its GPU time in its Comment, for Slurm's TaskEpilog
    ///
    /// Runs as the job's user, and adds the GPU time that the job got on this node: that of its cgroup,
    /// or of its user since the job's Prolog where Slurm makes no cgroups. Never fails.
    TaskEpilog(SlurmJob),
    /// After a job: note its GPU time in its AdminComment, for Slurm's Epilog
    ///
    /// The controller takes no changes of a job that has ended; where there is a database of jobs
    /// (slurmdbd), it is written there. Never fails.
    Epilog(SlurmJob),
}

/// Arguments of `loga slurm table`.
#[derive(Args, Clone, Debug)]
pub struct SlurmTable {
    /// The nodes, separated by commas, or a file (a path that begins with / or .) with one per line
    ///
    /// A node is its name in slurm.conf, or NAME=URL or NAME=/PATH where its exporter's text is
    /// elsewhere than at http://NAME:9466/metrics.
    #[arg(long, value_name = "NODES")]
    pub nodes: String,
    /// The table; - is the standard output
    #[arg(long, value_name = "FILE", default_value = "/run/loga-slurm/table")]
    pub out: PathBuf,
    /// Seconds between two tables
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = whole_seconds(1..=20))]
    pub every: u64,
    /// Write one table, set weights, and stop
    #[arg(long)]
    pub once: bool,
    /// Leave the weights of nodes alone
    #[arg(long)]
    pub no_weights: bool,
}

/// Arguments of `loga slurm task-prolog`.
#[derive(Args, Clone, Debug)]
pub struct SlurmTask {
    /// Where the Prolog left its notes
    #[arg(long, value_name = "FOLDER", default_value = "/run/loga-jobs")]
    pub notes: PathBuf,
    /// Let a job that asks for shards of no type run on any GPU of the node
    ///
    /// For nodes whose GPUs are given out as shards only: Slurm goes on to count the shards on the
    /// GPU that it chose, and gives the other one to the next job that wants a whole GPU. Does
    /// nothing where Slurm constrains devices.
    #[arg(long)]
    pub any_gpu: bool,
}

/// Arguments of `loga slurm prolog`.
#[derive(Args, Clone, Debug)]
pub struct SlurmProlog {
    /// Those of all of them.
    #[command(flatten)]
    pub job: SlurmJob,
    /// Largest weight that a job may give itself by its comment, 1 to 10000 [default: none]
    #[arg(long, value_name = "WEIGHT", value_parser = whole(Weight::MIN..=Weight::MAX))]
    pub max_weight: Option<u32>,
    /// Let a job limit itself by its comment
    #[arg(long)]
    pub limits: bool,
}

/// Arguments of `loga slurm prolog`, `task-epilog` and `epilog`.
#[derive(Args, Clone, Debug)]
pub struct SlurmJob {
    /// Where the Prolog leaves notes for the others; it and what is above are root's alone
    // Not below /run/loga, which is the agent's and goes with it.
    #[arg(long, value_name = "FOLDER", default_value = "/run/loga-jobs")]
    pub notes: PathBuf,
    /// Where the cgroup v2 hierarchy is mounted
    #[arg(long, value_name = "FOLDER", default_value = "/sys/fs/cgroup")]
    pub cgroups: PathBuf,
}
