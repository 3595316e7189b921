// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Throttles in the background: their patterns, and running ones.

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use throttle::report::{Instance, Report};

/// Path of the load generator.
const THROTTLE: &str = "/bin/throttle";

/// What one throttle does.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// Length of its kernels.
    pub kernel_us: u64,
    /// Pause after each.
    pub sleep_us: u64,
    /// Length of a cycle with one kernel in it, instead of a pause.
    pub cycle_us: Option<u64>,
    /// Whether it spins for completions instead of sleeping.
    pub spin: bool,
    /// Percent by which both vary.
    pub jitter: u32,
    /// Kernels that are queued at a time.
    pub depth: u32,
    /// Its settings by `loga run`, as on the command line.
    pub share: Option<&'static str>,
    /// Kernels after which it ends, whatever time it takes.
    pub count: Option<u64>,
    /// Which GPU it uses.
    pub gpu: u32,
    /// Whether they are copies, on the copy engine.
    pub copies: bool,
}

impl Pattern {
    /// Kernels of `kernel_us` with pauses of `sleep_us`.
    pub const fn new(kernel_us: u64, sleep_us: u64) -> Self {
        Self {
            kernel_us,
            sleep_us,
            cycle_us: None,
            spin: false,
            count: None,
            jitter: 0,
            depth: 1,
            share: None,
            gpu: 0,
            copies: false,
        }
    }

    /// Copies that take `copy_us`, back to back.
    pub const fn copies(copy_us: u64) -> Self {
        Self {
            copies: true,
            ..Self::new(copy_us, 0)
        }
    }

    /// The same with `depth` kernels queued at a time.
    pub const fn deep(self, depth: u32) -> Self {
        Self { depth, ..self }
    }

    /// The same, varying by `jitter` percent.
    pub const fn varying(self, jitter: u32) -> Self {
        Self { jitter, ..self }
    }

    /// The same with settings by `loga run`.
    pub const fn with(self, share: &'static str) -> Self {
        Self {
            share: Some(share),
            ..self
        }
    }

    /// The same until it has run `kernels` kernels.
    pub const fn counted(self, kernels: u64) -> Self {
        Self {
            count: Some(kernels),
            ..self
        }
    }

    /// The same on another GPU.
    pub const fn on(self, gpu: u32) -> Self {
        Self { gpu, ..self }
    }

    /// Starts a process that does this for `seconds`, or until it has run its number of kernels.
    pub fn start(&self, seconds: f64, seed: u64) -> Result<Load, String> {
        let mut command = match self.share {
            Some(share) => {
                let mut command = Command::new("loga");
                command.arg("run").args(share.split(' '));
                command.args(["--", THROTTLE]);
                command
            }
            None => Command::new(THROTTLE),
        };
        command
            .arg("--json")
            .args(["--kernel-us", &self.kernel_us.to_string()])
            .args(["--jitter", &self.jitter.to_string()])
            .args(["--depth", &self.depth.to_string()])
            .args(["--gpu", &self.gpu.to_string()])
            .args(["--seed", &seed.to_string()])
            .args(["--wait", if self.spin { "spin" } else { "block" }]);
        if self.copies {
            command.args(["--engine", "copy"]);
        }
        match self.count {
            Some(count) => command.args(["--count", &count.to_string()]),
            None => command.args(["--seconds", &seconds.to_string()]),
        };
        match self.cycle_us {
            Some(cycle_us) => command.args(["--cycle-us", &cycle_us.to_string()]),
            None => command.args(["--sleep-us", &self.sleep_us.to_string()]),
        };
        Load::spawn(command)
    }
}

/// A running throttle; killed when dropped.
#[derive(Debug)]
pub struct Load {
    child: Child,
}

impl Load {
    /// Starts a throttle with these arguments; without `--seconds` or `--count` it runs until
    /// stopped.
    pub fn start(arguments: &str) -> Result<Self, String> {
        let mut command = Command::new(THROTTLE);
        command.args(bound(arguments).split_whitespace());
        Load::spawn(command)
    }

    /// As [`Load::start`], on this processor of the machine only.
    pub fn start_on(processor: u32, arguments: &str) -> Result<Self, String> {
        let mut command = Command::new("taskset");
        command.args([&format!("{:x}", 1 << processor), THROTTLE]);
        command.args(bound(arguments).split_whitespace());
        Load::spawn(command)
    }

    /// As [`Load::start`], as this user, through the command `as` of the program that asks.
    pub fn start_as(uid: u32, arguments: &str) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.args(["as", &uid.to_string(), "--", THROTTLE]);
        command.args(bound(arguments).split_whitespace());
        Load::spawn(command)
    }

    /// As [`Load::start`], as the machine's ordinary user `user`.
    pub fn start_as_user(arguments: &str) -> Result<Self, String> {
        let mut command = Command::new("su");
        command.args([
            "user",
            "-c",
            &format!("exec {THROTTLE} {}", bound(arguments)),
        ]);
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
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // A process that has ended needs no signal.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// Ends it and returns its figures.
    pub fn stop(self) -> Result<Instance, String> {
        self.signal(Signal::SIGTERM);
        self.finish()
    }

    /// Ends these. All are signalled before the first wait: a throttled one ends when it is
    /// released, which may take until the others have ended.
    ///
    /// # Errors
    ///
    /// One of them failed.
    pub fn stop_all(all: Vec<Self>) -> Result<Vec<Instance>, String> {
        all.iter().for_each(|load| load.signal(Signal::SIGTERM));
        let ended: Vec<_> = all.into_iter().map(Self::finish).collect();
        ended.into_iter().collect()
    }

    /// Waits for its end and returns its figures.
    pub fn finish(mut self) -> Result<Instance, String> {
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

/// The arguments, plus those of every throttle: to report, and to run until it is stopped unless
/// they have a bound.
fn bound(arguments: &str) -> String {
    let bounded = ["--seconds", "--count"];
    let is_bounded = arguments
        .split_whitespace()
        .any(|word| bounded.contains(&word));
    let bound = if is_bounded { "" } else { " --seconds 3600" };
    format!("{arguments} --json{bound}")
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
