// SPDX-License-Identifier: GPL-2.0

//! [tool] Throttles in the background.

use nix::sys::signal::kill;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::io::Read;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use throttle::report::Instance;
use throttle::report::Report;

/// Where the load generator is.
const THROTTLE: &str = "/bin/throttle";

/// A running throttle; killed when dropped.
#[derive(Debug)]
pub(crate) struct Load {
    child: Child,
}

impl Load {
    /// Starts a throttle with these arguments; without `--seconds` or `--count` it runs until
    /// stopped.
    pub(crate) fn start(arguments: &str) -> Result<Self, String> {
        let mut words = arguments.to_owned();
        bound(&mut words);
        let mut command = Command::new(THROTTLE);
        command.args(words.split_whitespace());
        Load::spawn(command)
    }

    /// As [`Load::start`], on this processor of the machine only.
    pub(crate) fn start_on(processor: u32, arguments: &str) -> Result<Self, String> {
        let mut words = arguments.to_owned();
        bound(&mut words);
        let mut command = Command::new("taskset");
        command.args([&format!("{:x}", 1 << processor), THROTTLE]);
        command.args(words.split_whitespace());
        Load::spawn(command)
    }

    /// As [`Load::start`], as this user.
    pub(crate) fn start_as(uid: u32, arguments: &str) -> Result<Self, String> {
        let mut words = arguments.to_owned();
        bound(&mut words);
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.args(["as", &uid.to_string(), "--", THROTTLE]);
        command.args(words.split_whitespace());
        Load::spawn(command)
    }

    /// As [`Load::start`], for the user who is not root.
    pub(crate) fn start_as_user(arguments: &str) -> Result<Self, String> {
        let mut words = arguments.to_owned();
        bound(&mut words);
        let mut command = Command::new("su");
        command.args(["user", "-c", &format!("exec {THROTTLE} {words}")]);
        Load::spawn(command)
    }

    fn spawn(mut command: Command) -> Result<Self, String> {
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{THROTTLE}: {error}"))?;
        Ok(Load { child })
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // One that has ended needs none.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// Ends it and returns its figures.
    pub(crate) fn stop(self) -> Result<Instance, String> {
        self.signal(Signal::SIGTERM);
        self.finish()
    }

    /// Waits for its end and returns its figures.
    pub(crate) fn finish(mut self) -> Result<Instance, String> {
        let mut output = String::new();
        let mut complaint = String::new();
        if let Some(stdout) = &mut self.child.stdout {
            let _ = stdout.read_to_string(&mut output);
        }
        if let Some(stderr) = &mut self.child.stderr {
            let _ = stderr.read_to_string(&mut complaint);
        }
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("{} ({status})", complaint.trim()));
        }
        let report: Report = serde_json::from_str(&output)
            .map_err(|error| format!("throttle printed {output:?}: {error}"))?;
        report
            .instances
            .into_iter()
            .next()
            .ok_or_else(|| "throttle reported nothing".to_string())
    }
}

/// Adds what every throttle is told: to report, and to run until it is stopped unless it says how
/// long.
fn bound(arguments: &mut String) {
    let bounded = ["--seconds", "--count"];
    let is_bounded = arguments
        .split_whitespace()
        .any(|word| bounded.contains(&word));
    arguments.push_str(" --json");
    if !is_bounded {
        arguments.push_str(" --seconds 3600");
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
