// SPDX-License-Identifier: GPL-2.0

//! Runs the load generator and reads what it says.

use std::process::Command;
use throttle::lengths::DeviceReport;
use throttle::report::Report;

/// How a run ended.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The report of a run that must have gone well.
    pub(crate) fn report(&self) -> Report {
        assert_eq!(self.code, 0, "{}", self.stderr);
        serde_json::from_str(&self.stdout).expect("a report in JSON")
    }

    /// As `report`, and what the first instance's device said.
    pub(crate) fn device(&self) -> DeviceReport {
        let report = self.report();
        let first = report.instances.first().expect("an instance");
        first.device.clone().expect("a device's report")
    }
}

/// Runs it with these arguments, and with these variables set.
pub(crate) fn run(arguments: &str, environment: &[(&str, &str)]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_throttle"))
        .args(arguments.split_whitespace())
        .envs(environment.iter().copied())
        .output()
        .expect("throttle starts");
    Ended {
        code: output.status.code().expect("an exit code"),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
