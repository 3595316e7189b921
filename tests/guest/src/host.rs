// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Files for the host.

use std::fs;
use std::fs::File;
use std::process::{Command, Stdio};

/// Sends a file to the host, through the machine's program `sendfile`.
pub(crate) fn hand_over(name: &str, text: &str) -> Result<(), String> {
    let path = format!("/tmp/{name}");
    fs::write(&path, text).map_err(|error| format!("{path}: {error}"))?;
    let input = File::open(&path).map_err(|error| format!("{path}: {error}"))?;
    let status = Command::new("sendfile")
        .arg(name)
        .stdin(Stdio::from(input))
        .status()
        .map_err(|error| format!("sendfile: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("sendfile {name}: {status}"))
    }
}
