// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga slurm`: what LoGA measures, for Slurm ([docs/slurm.md](../../../../../docs/slurm.md)).
//!
//! | file | contents |
//! |---|---|
//! | [`table`] | the agent beside the controller |
//! | [`weights`] | weights of nodes |
//! | [`waiting`] | jobs that wait for a node without need |
//! | [`controller`] | what `scontrol` says of nodes |
//! | [`job`] | Prolog, TaskEpilog and Epilog |
//! | [`task`] | TaskProlog |
//! | [`program`] | asking other programs |
//!
//! [`cluster`](crate::cluster) reads the nodes.

pub mod controller;
pub mod job;
pub mod program;
pub mod table;
pub mod task;
pub mod waiting;
pub mod weights;

use super::Failure;
use crate::cli::{Slurm, SlurmKind, SlurmTask};
use crate::control::Snapshot;
use crate::device::Device;
use crate::names::harmless;
use std::io::Write;

/// Does it.
///
/// # Errors
///
/// Any [`Failure`] of the table; the others have none but that of printing.
pub fn run(arguments: &Slurm, out: &mut impl Write) -> Result<(), Failure> {
    match &arguments.what {
        SlurmKind::Table(arguments) => table::run(arguments, out),
        SlurmKind::Prolog(options) => job::run(&options.job, job::Stage::Prolog(options), out),
        SlurmKind::TaskProlog(arguments) => task_prolog(arguments, out),
        SlurmKind::TaskEpilog(arguments) => job::run(arguments, job::Stage::TaskEpilog, out),
        SlurmKind::Epilog(arguments) => job::run(arguments, job::Stage::Epilog, out),
    }
}

/// Slurm reads the output; what is to be said goes to the error output.
fn task_prolog(arguments: &SlurmTask, out: &mut impl Write) -> Result<(), Failure> {
    let snapshots = || -> Result<Vec<Snapshot>, String> {
        let device = Device::open().map_err(|error| error.to_string())?;
        device.all().map_err(|error| error.to_string())
    };
    match task::run(arguments, snapshots) {
        Ok(lines) => Ok(out.write_all(lines.as_bytes())?),
        Err(why) => {
            eprintln!("{}", harmless(&why));
            Ok(())
        }
    }
}
