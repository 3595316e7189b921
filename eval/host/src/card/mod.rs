// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga-host card`: what a card, its driver and its kernel answer, without a module of ours.
//!
//! Each step runs in a process of its own, with a limit: a driver that hangs in a call costs that
//! step and no other. What a step finds it writes into its folder; all folders become one archive.
//! Nothing here writes to a register of the card.
//!
//! | file | contents |
//! |---|---|
//! | [`steps`] | the steps, in the order of their worth |
//! | [`site`] | where a step looks and writes, and what it starts |
//! | [`runner`] | carries a step out in a process of its own, within its limit |
//! | [`load`] | the load generator as the steps start it |
//! | [`describe`] | kernel, driver, card, as files tell |
//! | [`hold`], [`held`] | doorbells held back in user space; what a held process shows |
//! | [`slices`] | how long a process is on the engine, and how long not |
//! | [`counters`] | what the driver counts: records of switches, its management library |
//! | [`words`] | registers, of RM and of BAR0 |
//! | [`compare`] | what each of these sources says of two loads beside each other |
//! | [`record`] | calls of CUDA's library |
//! | [`rm`], [`fecs`], [`nvml`], [`registers`] | how the driver, its buffer of records, its library and the card are asked |
//! | [`refusal`], [`window`] | who refused what; memory that is mapped and only read |

mod compare;
mod counters;
mod describe;
mod fecs;
mod held;
mod hold;
mod load;
mod nvml;
mod record;
mod refusal;
mod registers;
mod rm;
mod runner;
mod site;
mod slices;
mod steps;
mod window;
mod words;

use crate::Error;
use clap::Args;
use loga_card::{Archive, Outcome, StepRecord, FILE_BYTES_MAX};
use loga_results::whole;
use runner::Ended;
use signal_hook::consts::{SIGINT, SIGTERM};
use site::Site;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::{Duration, Instant};
use steps::Step;

/// Longest time for all steps together, in minutes: a day.
const MINUTES_MAX: f64 = 1440.0;

/// What is asked, and where the answers go.
#[derive(Args, Debug)]
pub(crate) struct CardArguments {
    /// Where the archive goes.
    #[arg(long, value_name = "FILE", required_unless_present_any = ["dry_run", "check"])]
    out: Option<PathBuf>,
    /// Time for all steps together; those that it does not suffice for are not tried.
    #[arg(long, default_value_t = 8.0, value_name = "N")]
    minutes: f64,
    /// Only these steps, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "STEP")]
    only: Vec<String>,
    /// List the steps with their limits and what they need, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Check an archive that somebody sent, print what is in it, and do nothing else.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["out", "only", "dry_run"])]
    check: Option<PathBuf>,
    /// Limit of each step, in seconds, if it is below the step's own.
    #[arg(long, value_name = "S", hide = true)]
    step_seconds: Option<f64>,
    #[command(flatten)]
    place: Place,
}

/// What is looked at, and with what.
#[derive(Args, Clone, Debug)]
pub(crate) struct Place {
    /// GPU to ask: N of /dev/nvidiaN.
    #[arg(long, default_value_t = 0, value_name = "N")]
    gpu: u32,
    /// The load generator [default: beside this program, else on the PATH].
    #[arg(long, value_name = "PROGRAM")]
    throttle: Option<PathBuf>,
    /// Where the host's file system begins.
    #[arg(long, default_value = "/", hide = true)]
    root: PathBuf,
    /// Lengths of the holds, in milliseconds: below any limit, above short ones, above most.
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 5000, 20_000], hide = true)]
    hold_ms: Vec<u64>,
}

/// One step, in the process that [`runner`] starts for it.
#[derive(Args, Debug)]
pub(crate) struct StepArguments {
    /// Its name.
    name: String,
    /// Where what it finds goes.
    #[arg(long)]
    folder: PathBuf,
    /// Where what nobody keeps goes.
    #[arg(long)]
    scratch: PathBuf,
    /// Seconds that it has.
    #[arg(long)]
    seconds: f64,
    #[command(flatten)]
    place: Place,
}

/// Does what was asked.
///
/// # Errors
///
/// A bad argument, an archive that is refused or cannot be written, an interruption.
pub(crate) fn card(arguments: &CardArguments) -> Result<(), Error> {
    if let Some(path) = &arguments.check {
        return check(path);
    }
    let minutes = arguments.minutes;
    if !(minutes > 0.0 && minutes <= MINUTES_MAX) {
        let reason = format!("--minutes {minutes}: must be above 0 and at most {MINUTES_MAX}");
        return Err(Error::Argument(reason));
    }
    let mut steps = steps::chosen(&arguments.only)?;
    if let Some(seconds) = arguments.step_seconds {
        let most = Duration::from_secs_f64(seconds.clamp(0.0, MINUTES_MAX * 60.0));
        steps
            .iter_mut()
            .for_each(|step| step.limit = step.limit.min(most));
    }
    match &arguments.out {
        Some(out) if !arguments.dry_run => take(arguments, &steps, out),
        _ => {
            steps.iter().for_each(|step| println!("{step}"));
            Ok(())
        }
    }
}

/// Carries out one step and leaves its outcome in its scratch folder.
///
/// # Errors
///
/// Its outcome cannot be written.
pub(crate) fn step(arguments: &StepArguments) -> Result<(), Error> {
    let name = [arguments.name.clone()];
    let step = steps::chosen(&name)?[0];
    let site = Site::new(arguments)?;
    let outcome = (step.act)(&site);
    crate::results::store(&arguments.scratch.join(runner::OUTCOME), &outcome)
}

/// Carries out the steps and writes the archive.
fn take(arguments: &CardArguments, steps: &[Step], out: &Path) -> Result<(), Error> {
    // A place that cannot be written to is found before the minutes are spent.
    whole::writable(out).map_err(|error| Error::file(out, error))?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, stop.clone())
            .map_err(|error| Error::Step(format!("signals cannot be taken: {error}")))?;
    }
    let scratch = tempfile::Builder::new()
        .prefix("loga-card-")
        .tempdir()
        .map_err(|error| Error::file(&std::env::temp_dir(), error))?;
    let mut archive = Archive::new(
        format!("loga-host {}", env!("CARGO_PKG_VERSION")),
        env!("LOGA_COMMIT").to_owned(),
        arguments.minutes,
    );
    let end = Instant::now() + Duration::from_secs_f64(arguments.minutes * 60.0);
    for step in steps {
        let folder = scratch.path().join(step.name);
        let record = one(step, &folder, &arguments.place, end, &stop)?;
        println!(
            "{:<10} {} ({:.1} s)",
            record.name, record.outcome, record.seconds
        );
        let files = files(&folder.join("kept"));
        print_texts(&files);
        archive.add(record, files);
    }
    let bytes = archive
        .bytes()
        .map_err(|error| Error::Step(error.to_string()))?;
    whole::replace(out, &bytes).map_err(|error| Error::file(out, error))?;
    for reason in &archive.manifest.left_out {
        println!("left out   {reason}");
    }
    let count = archive.files().count();
    println!("{}: {count} files, {} bytes", out.display(), bytes.len());
    Ok(())
}

/// Carries out one step, if there is time for it.
fn one(
    step: &Step,
    folder: &Path,
    place: &Place,
    end: Instant,
    stop: &AtomicBool,
) -> Result<StepRecord, Error> {
    let since = Instant::now();
    let limit = step.limit.min(end.saturating_duration_since(since));
    let outcome = if limit.is_zero() {
        Outcome::untried("more minutes (--minutes)")
    } else {
        match runner::carry_out(step, folder, place, limit, stop)? {
            Ended::Said(outcome) => outcome,
            Ended::Interrupted => {
                return Err(Error::Step("interrupted: no archive is written".to_owned()))
            }
        }
    };
    Ok(StepRecord {
        name: step.name.to_owned(),
        outcome,
        seconds: since.elapsed().as_secs_f64(),
        limit_seconds: limit.as_secs_f64(),
    })
}

/// The files of a folder, by name; of one that is too large, so much that the archive refuses it.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let read = |entry: fs::DirEntry| {
        let mut contents = Vec::new();
        let most = FILE_BYTES_MAX.saturating_add(1);
        let file = File::open(entry.path()).ok()?;
        file.take(most).read_to_end(&mut contents).ok()?;
        Some((entry.file_name().into_string().ok()?, contents))
    };
    let mut files: Vec<_> = entries.filter_map(read).collect();
    files.sort_unstable();
    files
}

/// Prints the files that are made to be read.
fn print_texts(files: &[(String, Vec<u8>)]) {
    for (_, text) in files.iter().filter(|(name, _)| name.ends_with(".txt")) {
        print!("{}", String::from_utf8_lossy(text));
    }
}

/// Prints what is in an archive.
fn check(path: &Path) -> Result<(), Error> {
    let refuse = |error: loga_card::Error| Error::Step(format!("{}: {error}", path.display()));
    let archive = Archive::read(path).map_err(refuse)?;
    let manifest = &archive.manifest;
    println!("{} at {}", manifest.program, manifest.commit);
    for record in &manifest.steps {
        println!(
            "{:<10} {} ({:.1} s)",
            record.name, record.outcome, record.seconds
        );
    }
    for (name, contents) in archive.files() {
        println!("{name}: {} bytes", contents.len());
    }
    for reason in &manifest.left_out {
        println!("left out   {reason}");
    }
    Ok(())
}
