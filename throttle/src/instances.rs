// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Several processes: each opens its own client, then all start together.
//!
//! The parent starts this program again with `--instance N`. A child says [`READY`] on its standard
//! output when its channels exist, waits for a line on its standard input, runs, and prints its
//! [`Instance`] as JSON.

use crate::error::Error;
use crate::load::Stop;
use crate::plan::{BackendKind, Plan};
use crate::report::Instance;
use nix::sys::prctl;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::io;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a child says when it can start.
pub const READY: &str = "ready";

/// How often the parent checks its children and a stop request.
const CHECK: Duration = Duration::from_millis(50);

struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

/// Runs `plan.instances` processes and collects what they report.
///
/// # Errors
///
/// [`Error::Instance`] for the first child that did not report; the others are ended.
pub fn run(plan: &Plan, stop: &Stop) -> Result<Vec<Instance>, Error> {
    let mut children = Vec::new();
    let result = start_all(&mut children, plan).and_then(|()| collect(&mut children, stop));
    if result.is_err() {
        for running in &mut children {
            // Ending a child that has ended already is not an error worth telling.
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
    result
}

fn start_all(children: &mut Vec<Running>, plan: &Plan) -> Result<(), Error> {
    // What calibrates its kernels needs the GPU for itself: one child after the other.
    let one_by_one = plan.backend != BackendKind::Standin;
    for index in 0..plan.instances {
        let mut running = start(index).map_err(|error| failed(index, error.to_string(), 5))?;
        let ready = !one_by_one || is_ready(&mut running);
        children.push(running);
        if let (false, Some(last)) = (ready, children.last_mut()) {
            return Err(explain(index, last));
        }
    }
    if !one_by_one {
        for (index, running) in (0..).zip(children.iter_mut()) {
            if !is_ready(running) {
                return Err(explain(index, running));
            }
        }
    }
    for running in children.iter_mut() {
        // Dropping the pipe ends the child's wait whether the line arrives or not.
        if let Some(mut input) = running.child.stdin.take() {
            let _ = input.write_all(b"go\n");
        }
    }
    announce(plan);
    Ok(())
}

/// Prints that the kernels start, if the plan asks for it.
pub fn announce(plan: &Plan) {
    if plan.announce {
        eprintln!("started");
    }
}

/// Waits for the child's word that it can start.
fn is_ready(running: &mut Running) -> bool {
    let mut line = String::new();
    running.output.read_line(&mut line).is_ok() && line.trim_end() == READY
}

fn start(index: u32) -> io::Result<Running> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .arg("--instance")
        .arg(index.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let output = child
        .stdout
        .take()
        .ok_or_else(|| io::Error::other("no pipe to the child"))?;
    Ok(Running {
        child,
        output: BufReader::new(output),
    })
}

fn collect(children: &mut [Running], stop: &Stop) -> Result<Vec<Instance>, Error> {
    let mut forwarded = false;
    // TIMEOUT: none; a child bounds its own run by --seconds, --count and the hung limit.
    loop {
        if stop.load(Ordering::Relaxed) && !forwarded {
            forwarded = true;
            children.iter().for_each(terminate);
        }
        let mut all_ended = true;
        for (index, running) in (0..).zip(children.iter_mut()) {
            match running.child.try_wait() {
                Ok(Some(status)) if status.success() => {}
                Ok(Some(_)) => return Err(explain(index, running)),
                Ok(None) => all_ended = false,
                Err(error) => return Err(failed(index, error.to_string(), 5)),
            }
        }
        if all_ended {
            break;
        }
        std::thread::sleep(CHECK);
    }
    (0..).zip(children.iter_mut()).map(read_report).collect()
}

fn terminate(running: &Running) {
    if let Ok(pid) = i32::try_from(running.child.id()) {
        // A child that has ended already needs no signal.
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
    }
}

fn read_report((index, running): (u32, &mut Running)) -> Result<Instance, Error> {
    let mut text = String::new();
    running
        .output
        .read_to_string(&mut text)
        .map_err(|error| failed(index, error.to_string(), 5))?;
    serde_json::from_str(&text)
        .map_err(|error| failed(index, format!("unreadable report: {error}"), 5))
}

/// Why a child ended without doing what it should: its own line, or its status.
fn explain(index: u32, running: &mut Running) -> Error {
    let mut reason = String::new();
    if let Some(stderr) = &mut running.child.stderr {
        let _ = stderr.read_to_string(&mut reason);
    }
    let status = running.child.wait();
    let code = status
        .as_ref()
        .ok()
        .and_then(std::process::ExitStatus::code)
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(5);
    let reason = match (reason.trim(), status) {
        ("", Ok(status)) => status.to_string(),
        ("", Err(error)) => error.to_string(),
        (line, _) => line.trim_start_matches("throttle: ").to_string(),
    };
    failed(index, reason, code)
}

fn failed(index: u32, reason: String, code: u8) -> Error {
    Error::Instance {
        index,
        reason,
        code,
    }
}

/// In a child: tells the parent that it is ready and waits for the start.
///
/// # Errors
///
/// [`Error::Call`] if the parent is gone.
pub fn wait_for_start() -> Result<(), Error> {
    let lost = |source| Error::Call {
        call: "start of an instance",
        source,
    };
    // A child must not keep the GPU busy after its parent was killed.
    let _ = prctl::set_pdeathsig(Signal::SIGTERM);
    println!("{READY}");
    let mut line = String::new();
    match io::stdin().read_line(&mut line) {
        Ok(0) => Err(lost(io::ErrorKind::BrokenPipe.into())),
        Ok(_) => Ok(()),
        Err(error) => Err(lost(error)),
    }
}
