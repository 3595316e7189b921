// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Scenarios: clients, their work and their GPUs, the scheduler, the costs.
//!
//! [`read`] turns a file and changes to it (`--set`) into a [`Scenario`] that makes sense, or says
//! in which line it does not and what would. `docs/scenarios.md` explains every key.

mod check;
mod costs;
mod defaults;
mod engaged;
mod file;
mod kind;
mod phase;
mod plain;
mod profile;
mod promise;
mod set;
mod streams;
mod text;
mod time;

pub use costs::Costs;
pub use file::{Between, Policy, Wait};
pub use kind::Kind;
pub use plain::{Client, Error, Footprint, Gpu, Phase, Scenario};
pub use profile::{Profile, Value};
pub use promise::{Engagement, Promise, Shared};
pub use streams::{read_streams, Streams};
pub(crate) use text::Text;
pub use time::{Micros, Millis, Span};

use std::path::Path;

/// Reads a scenario from a file, with changes `key=value`.
///
/// # Errors
///
/// The file cannot be read or makes no sense, as it is or with the changes.
pub fn read(path: &Path, changes: &[String]) -> Result<Scenario, Error> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| Error {
        place: name.clone(),
        reason: error.to_string(),
    })?;
    parse(&name, &text, changes)
}

/// Reads a scenario from text; `name` is that of the file.
pub fn parse(name: &str, text: &str, changes: &[String]) -> Result<Scenario, Error> {
    let scenario = check::parse(name, text)?;
    if changes.is_empty() {
        return Ok(scenario);
    }
    let (name, text) = set::apply(name, text, changes)?;
    check::parse(&name, &text)
}
