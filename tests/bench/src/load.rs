// SPDX-License-Identifier: GPL-2.0

//! Loads: `throttle` processes that run for a while.

use std::process::{Child, Command, Stdio};

/// What one throttle process does.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// Length of its kernels.
    pub(crate) kernel_us: u64,
    /// Pause after each.
    pub(crate) sleep_us: u64,
    /// Length of a cycle with one kernel in it, instead of a pause.
    pub(crate) cycle_us: Option<u64>,
    /// Whether it spins for completions instead of sleeping.
    pub(crate) spin: bool,
}

impl Load {
    /// Kernels of `kernel_us` with pauses of `sleep_us`.
    pub(crate) const fn new(kernel_us: u64, sleep_us: u64) -> Self {
        Self {
            kernel_us,
            sleep_us,
            cycle_us: None,
            spin: false,
        }
    }

    /// Starts a process that does this for `seconds`.
    pub(crate) fn start(&self, seconds: f64, seed: u64) -> Result<Running, String> {
        let mut command = Command::new("throttle");
        command
            .arg("--json")
            .args(["--kernel-us", &self.kernel_us.to_string()])
            .args(["--seconds", &seconds.to_string()])
            .args(["--seed", &seed.to_string()])
            .args(["--wait", if self.spin { "spin" } else { "block" }])
            .stdout(Stdio::piped());
        match self.cycle_us {
            Some(cycle_us) => command.args(["--cycle-us", &cycle_us.to_string()]),
            None => command.args(["--sleep-us", &self.sleep_us.to_string()]),
        };
        let child = command
            .spawn()
            .map_err(|error| format!("throttle: {error}"))?;
        Ok(Running { child })
    }
}

/// A throttle process.
pub(crate) struct Running {
    child: Child,
}

impl Running {
    /// Waits for its end and returns its report.
    pub(crate) fn finish(self) -> Result<serde_json::Value, String> {
        let output = self
            .child
            .wait_with_output()
            .map_err(|error| format!("throttle: {error}"))?;
        if !output.status.success() {
            return Err(format!("throttle: {}", output.status));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| format!("throttle --json: {error}"))
    }
}
