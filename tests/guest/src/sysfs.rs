// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The knobs of the first GPU in sysfs.

use std::fs;

/// Where they are.
pub(crate) const DIRECTORY: &str = "/sys/class/misc/loga/gpu0";

/// Value of a knob.
pub(crate) fn read(name: &str) -> Result<String, String> {
    let path = format!("{DIRECTORY}/{name}");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let value = text.strip_suffix('\n');
    value
        .map(str::to_owned)
        .ok_or_else(|| format!("{path}: {text:?} does not end a line"))
}

/// Sets a knob.
pub(crate) fn write(name: &str, value: &str) -> Result<(), String> {
    let path = format!("{DIRECTORY}/{name}");
    fs::write(&path, format!("{value}\n")).map_err(|error| format!("{path}={value}: {error}"))
}
