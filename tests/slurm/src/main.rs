// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of `loga slurm` with Slurm's own daemons: a controller and three nodes on one
//! machine, in a temporary folder.
//!
//! `loga-slurm LOGA`, with the path of the program `loga`, from the root of the checkout: exporters
//! are files, and a program answers for the kernel module. Prints ok and FAIL lines; the last line
//! is `N passed, N failed`. Nothing of it stays: programs are ended and the folder is removed, also
//! when it is interrupted.
//!
//! `loga-slurm --module LOGA`, in the virtual machine, as root: with the kernel module, and the
//! model's six GPUs divided between the nodes. Prints KTAP. `machine.sh` prepares the machine.

#![forbid(unsafe_code)]

mod backup;
mod binding_checks;
mod checks;
mod cleaning;
mod clock_checks;
mod cluster;
mod conf;
mod database;
mod machine;
mod module_checks;
mod own_checks;
mod record_checks;
mod stream_checks;
mod table;

use cluster::Cluster;
use conf::Behind;
use loga_ktap::Test;
use machine::Machine;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Counts outcomes.
#[derive(Debug)]
pub(crate) struct Outcome {
    ktap: bool,
    passed: u32,
    failed: u32,
}

impl Outcome {
    /// Counts and prints one.
    pub(crate) fn check(&mut self, name: &str, held: Result<(), String>) {
        match &held {
            Ok(()) => self.passed += 1,
            Err(_) => self.failed += 1,
        }
        if self.ktap {
            let (outcome, why) = match held {
                Ok(()) => (loga_ktap::Outcome::Pass, String::new()),
                Err(why) => (loga_ktap::Outcome::Fail, why),
            };
            print!("{}", loga_ktap::diagnostics(&why));
            let test = Test {
                name: format!("slurm: {name}"),
                outcome,
                note: why.lines().next().unwrap_or_default().to_owned(),
            };
            // CAST: some dozens.
            let number = (self.passed + self.failed) as usize;
            print!("{}", loga_ktap::result(number, &test));
            return;
        }
        match held {
            Ok(()) => println!("ok   slurm: {name}"),
            Err(why) => println!("FAIL slurm: {name}: {why}"),
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let (loga, behind) = match &arguments[..] {
        [loga] => (loga, Behind::StandIns),
        [option, loga] if option == Path::new("--module") => (loga, Behind::Module),
        _ => {
            eprintln!("usage: loga-slurm [--module] LOGA");
            return ExitCode::from(2);
        }
    };
    let ktap = behind == Behind::Module;
    let mut outcome = Outcome {
        ktap,
        passed: 0,
        failed: 0,
    };
    if ktap {
        print!("{}", loga_ktap::begin(module_checks::CHECKS.len()));
    }
    if let Err(error) = run(loga, behind, &mut outcome) {
        outcome.check("the cluster", Err(error));
    }
    if !ktap {
        println!("{} passed, {} failed", outcome.passed, outcome.failed);
    }
    ExitCode::from(u8::from(outcome.failed != 0))
}

fn run(loga: &Path, behind: Behind, outcome: &mut Outcome) -> Result<(), String> {
    let loga = loga.canonicalize();
    let loga = loga.map_err(|error| format!("the program loga: {error}"))?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let folder = folder.path();
    cleaning::prepare(folder)?;
    let done = match behind {
        Behind::StandIns => {
            script(folder, outcome)?;
            Cluster::start(folder, &loga, behind, false)
                .map(|cluster| checks::run(checks::CHECKS, &cluster, Cluster::settle, outcome))
                .and_then(|()| pair(folder, &loga, outcome))
        }
        Behind::Module => Machine::start(folder, &loga)
            .map(|machine| checks::run(module_checks::CHECKS, &machine, |_| Ok(()), outcome)),
    };
    if outcome.failed != 0 || done.is_err() {
        let words = conf::last_words(folder);
        match behind {
            Behind::StandIns => print!("{words}"),
            Behind::Module => print!("{}", loga_ktap::diagnostics(&words)),
        }
    }
    cleaning::end_all();
    done
}

/// A cluster of its own with two controllers.
fn pair(folder: &Path, loga: &Path, outcome: &mut Outcome) -> Result<(), String> {
    let folder = folder.join("pair");
    std::fs::create_dir(&folder).map_err(|error| error.to_string())?;
    let cluster = Cluster::start(&folder, loga, Behind::StandIns, true)?;
    let before = outcome.failed;
    checks::run(backup::CHECKS, &cluster, Cluster::settle, outcome);
    if outcome.failed != before {
        print!("{}", conf::last_words(&folder));
    }
    Ok(())
}

/// The script of job_submit outside Slurm.
fn script(folder: &Path, outcome: &mut Outcome) -> Result<(), String> {
    let mut lua = Command::new("lua5.1");
    lua.args(["tests/slurm/placing.lua", "packaging/slurm/loga.lua"]);
    let folder = folder.join("script");
    std::fs::create_dir(&folder).map_err(|error| error.to_string())?;
    let output = lua.arg(folder).output();
    let output = output.map_err(|error| format!("lua5.1: {error}: run tests/vm/setup --tests"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let begin = |with: &str| text.lines().filter(|line| line.starts_with(with)).count();
    // CAST: some dozens.
    outcome.passed += begin("ok ") as u32;
    outcome.failed += begin("FAIL ") as u32;
    if !output.status.success() || text.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        outcome.check("the script outside Slurm runs to its end", Err(said));
    }
    Ok(())
}
