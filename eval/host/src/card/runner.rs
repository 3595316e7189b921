// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Carries a step out in a process of its own, within its limit.
//!
//! The process leads a group, and so is ended with all that it started. One that sleeps in the
//! driver and cannot be ended is named and left behind: the next step does not wait for it.

use super::steps::Step;
use super::Place;
use crate::Error;
use loga_card::Outcome;
use nix::sys::signal::{killpg, Signal};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// File in which a step leaves its outcome.
pub(super) const OUTCOME: &str = "outcome.json";

/// Time between two looks at a step that runs.
const INTERVAL: Duration = Duration::from_millis(10);
/// TIMEOUT: how long a killed process is waited for: it ends at once unless it sleeps in the kernel.
const END: Duration = Duration::from_secs(2);

/// How a step ended.
pub(super) enum Ended {
    /// With this outcome, be it the limit's.
    Said(Outcome),
    /// The person ended all.
    Interrupted,
}

/// Runs a step until it ends, its limit is over or `stop` is set. Its files are in `kept` of `folder`.
///
/// # Errors
///
/// The folders cannot be made, or the process not be started.
pub(super) fn carry_out(
    step: &Step,
    folder: &Path,
    place: &Place,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<Ended, Error> {
    let (kept, scratch) = (folder.join("kept"), folder.join("scratch"));
    for path in [&kept, &scratch] {
        fs::create_dir_all(path).map_err(|error| Error::file(path, error))?;
    }
    let log = scratch.join("log");
    let mut child = start(step, &kept, &scratch, place, limit, &log)?;
    let since = Instant::now();
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            // What it started and did not wait for.
            end_group(&child);
            return Ok(Ended::Said(said(&scratch, &log, status)));
        }
        let is_stopped = stop.load(Ordering::Relaxed);
        if is_stopped || since.elapsed() >= limit {
            let stuck = end(&mut child);
            return Ok(match is_stopped {
                true => Ended::Interrupted,
                false => Ended::Said(over(limit, stuck)),
            });
        }
        std::thread::sleep(INTERVAL);
    }
}

fn start(
    step: &Step,
    kept: &Path,
    scratch: &Path,
    place: &Place,
    limit: Duration,
    log: &Path,
) -> Result<Child, Error> {
    let program = std::env::current_exe();
    let program = program.map_err(|error| Error::Step(format!("this program: {error}")))?;
    let file = File::create(log).map_err(|error| Error::file(log, error))?;
    let mut command = Command::new(program);
    command.args(["card-step", step.name]);
    command
        .arg("--folder")
        .arg(kept)
        .arg("--scratch")
        .arg(scratch);
    command.args(["--seconds", &limit.as_secs_f64().to_string()]);
    command.args(["--gpu", &place.gpu.to_string()]);
    command.arg("--root").arg(&place.root);
    let holds: Vec<String> = place.hold_ms.iter().map(u64::to_string).collect();
    command.args(["--hold-ms", &holds.join(",")]);
    if let Some(throttle) = &place.throttle {
        command.arg("--throttle").arg(throttle);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file);
    let child = command.process_group(0).spawn();
    child.map_err(|error| Error::Step(format!("{}: {error}", step.name)))
}

/// Ends the process and all that it started; its id if it does not end.
fn end(child: &mut Child) -> Option<u32> {
    end_group(child);
    let since = Instant::now();
    while since.elapsed() < END {
        if let Ok(Some(_)) = child.try_wait() {
            return None;
        }
        std::thread::sleep(INTERVAL);
    }
    Some(child.id())
}

fn end_group(child: &Child) {
    // PANIC: ids of processes are positive and fit.
    let group = Pid::from_raw(child.id().try_into().expect("an id"));
    // The group may have ended by itself.
    let _ = killpg(group, Signal::SIGKILL);
}

fn over(limit: Duration, stuck: Option<u32>) -> Outcome {
    let by = format!("the limit of {:.0} s", limit.as_secs_f64());
    match stuck {
        None => Outcome::refused(by, "ended with all that it started"),
        Some(pid) => {
            let left = format!("process {pid} sleeps in the driver and ends when that lets it");
            Outcome::refused(by, left)
        }
    }
}

/// What the process left, or why it left nothing.
fn said(scratch: &Path, log: &Path, status: ExitStatus) -> Outcome {
    let text = fs::read_to_string(scratch.join(OUTCOME));
    let outcome = text.map_err(|error| error.to_string());
    let outcome = outcome
        .and_then(|text| serde_json::from_str::<Outcome>(&text).map_err(|error| error.to_string()));
    outcome.unwrap_or_else(|error| {
        let log = fs::read_to_string(log).unwrap_or_default();
        let last = log.lines().last().unwrap_or(&error).to_owned();
        Outcome::refused(format!("the step's process ({status})"), last)
    })
}
