// SPDX-License-Identifier: GPL-2.0

//! The modules inside the machine.

use std::fs;
use std::process::Command;

/// Modules inside the machine.
const MODULES: &str = "/lib/loga";

/// Parameter of the model where shares are compared: a poller that stands still while the emulator
/// runs the other processor is at most 20 us late.
pub(crate) const FINE: &str = "turn_us=20";

/// What all figures were measured with, unless a scenario says otherwise: the phases of the paper,
/// steady and polled in bursts. Of a parameter that is given twice, the second counts.
const PAPER: &str = "randomize=0 accounting=burst";

/// Loads the model, and LoGA with these parameters.
pub(crate) fn load(parameters: &str) -> Result<(), String> {
    load_on("", parameters)
}

/// Loads the model with parameters of its own, and LoGA with these.
pub(crate) fn load_on(model: &str, parameters: &str) -> Result<(), String> {
    clear();
    insert("loga_model", model)?;
    // CPU 0 serves the timers of the model: a poller there would see switches late.
    insert("loga", &format!("poller_cpu=1 {PAPER} {parameters}"))
}

/// Loads the model alone.
pub(crate) fn load_model_only() -> Result<(), String> {
    load_model_only_on("")
}

/// Loads the model alone, with parameters of its own.
pub(crate) fn load_model_only_on(model: &str) -> Result<(), String> {
    clear();
    insert("loga_model", model)
}

/// Removes whatever is loaded.
pub(crate) fn clear() {
    for module in ["loga", "loga_model"] {
        if fs::exists(format!("/sys/module/{module}")).unwrap_or(false) {
            // If it does not go, the next one cannot be loaded, and says so.
            let _ = Command::new("rmmod").arg(module).status();
        }
    }
}

/// Loads another module for a while, and returns what a file says then.
pub(crate) fn ask(module: &str, file: &str) -> Result<String, String> {
    insert(module, "")?;
    let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"));
    // If it does not go, the next one cannot be loaded, and says so.
    let _ = Command::new("rmmod").arg(module).status();
    text
}

fn insert(module: &str, parameters: &str) -> Result<(), String> {
    let status = Command::new("insmod")
        .arg(format!("{MODULES}/{module}.ko"))
        .args(parameters.split_whitespace())
        .status()
        .map_err(|error| format!("insmod: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("insmod {module} {parameters}: {status}"))
    }
}
