// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What the commands do: each one takes its arguments, something that answers calls, and
//! where to print.
//!
//! | file | contents |
//! |---|---|
//! | [`stat`] | what every client got |
//! | [`set`] | weights, limits and classes |
//! | [`reserve`] | priorities, modes and reserves |
//! | [`spec`] | the same from a file |
//! | `subject` | what these set something for |
//! | [`cpu`] | who has the turn of a GPU comes first on the processors |
//! | [`focus`] | the program whose window has the focus |
//! | [`serve`] | figures for monitoring systems |
//! | [`policy`] | the policy, and the knobs |
//! | [`apply`] | knobs and shares from files, and where what is in force comes from |
//! | [`doctor`] | what LoGA needs of this machine |
//! | [`events`] | what happens |
//! | [`place`] | on which GPU a program would run |
//! | [`run`] | a command with a setting and a GPU of its own |
//! | [`record`] | a file of what everybody gets |
//! | [`export`], [`report`] | such a file in other layouts, and as a page |
//! | [`top`] | the terminal user interface |
//! | [`slurm`] | what Slurm needs to place jobs |
//! | [`kube`] | what Kubernetes needs to place pods |
//! | [`totals`] | what users and cgroups got |
//! | [`generate`] | manual pages and completions |

pub mod apply;
pub mod cpu;
pub mod doctor;
pub mod events;
pub mod export;
pub mod focus;
pub mod generate;
pub mod kube;
pub mod place;
pub mod policy;
pub mod record;
pub mod report;
pub mod reserve;
pub mod run;
pub mod serve;
pub mod set;
pub mod slurm;
pub mod spec;
pub mod stat;
mod subject;
pub mod top;
pub mod totals;

use crate::error::Error;
use serde::Serialize;
use std::io::Write;
use std::{fmt, io};

/// Version of the JSON layouts but that of `loga stat`, which has its own. Raised when a member
/// changes its meaning or goes away.
pub const JSON_VERSION: u32 = 3;

/// Why a command ended early.
#[derive(Debug)]
pub enum Failure {
    /// The kernel module gave no answer.
    Device(Error),
    /// Another cause, in one line.
    Text(String),
    /// What was to be printed could not be.
    Print(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Device(error) => error.fmt(f),
            Failure::Text(line) => f.write_str(line),
            Failure::Print(error) => write!(f, "cannot print: {error}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Device(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Print(error)
    }
}

/// Prints one object on one line; harmless on a terminal.
fn print_json(out: &mut impl Write, object: &impl Serialize) -> io::Result<()> {
    crate::names::json::write(out, object)?;
    writeln!(out)
}

#[cfg(test)]
mod names_tests;
