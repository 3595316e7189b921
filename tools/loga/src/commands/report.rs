// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga report`: a page of a recording.

use super::export::refuse_itself;
use super::Failure;
use crate::cli;
use crate::names::Name;
use crate::recording::columns::Columns;
use crate::recording::page::page;
use crate::recording::reader::Reader;
use crate::recording::summary::Summary;
use std::fs;

/// Makes the page; returns what is to be said of the recording. It is read twice, so that memory
/// does not grow with its length.
///
/// # Errors
///
/// [`Failure::Text`]: no recording, a damaged one, of which the page shows what is before the
/// damage, or the page cannot be written.
pub fn run(arguments: &cli::Report) -> Result<Option<String>, Failure> {
    let open = || Reader::open(&arguments.file).map_err(Failure::Text);
    refuse_itself(&arguments.file, &arguments.out)?;
    let mut reader = open()?;
    let summary = Summary::of(&mut reader);
    let columns = Columns::of(&mut open()?, &summary);
    let name = Name::from(&arguments.file);
    let failed = |error: &dyn std::fmt::Display| {
        let out = Name::from(&arguments.out);
        Failure::Text(format!("cannot write {out}: {error}"))
    };
    let page = page(&name, &summary, &columns).map_err(|error| failed(&error))?;
    fs::write(&arguments.out, page).map_err(|error| failed(&error))?;
    match summary.damage {
        None => Ok(summary.note),
        Some(damage) => Err(Failure::Text(format!(
            "{damage}; the page shows only what is before it"
        ))),
    }
}

#[cfg(test)]
mod tests;
