// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga spec`: priorities, modes and reserves from a file.

mod file;
mod running;

use self::file::{Entry, Selector};
use self::running::Running;
use super::subject::Subject;
use super::Failure;
use crate::cli;
use crate::control::{Calls, Control};
use crate::directory::Directory;
use crate::names::Name;
use crate::processes::Processes;
use loga::uapi;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Events read at once.
const BATCH: usize = 64;

/// TIMEOUT: longest wait for an event; waiting costs nothing.
const WAIT: Duration = Duration::from_secs(60);

/// Checks a file, and sets what it says.
///
/// # Errors
///
/// Any [`Failure`]; then nothing has changed, but for lines that no process matches: they are said
/// once the others are set.
pub fn run(
    arguments: &cli::Spec,
    control: &Control<impl Calls>,
    directory: &Directory,
    processes: &Processes,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let entries = read(&arguments.file)?;
    if arguments.follow {
        // Before the processes are listed: none is missed.
        let gpu = arguments.gpu.unwrap_or(uapi::ALL_GPUS);
        control.subscribe(gpu, 1 << uapi::EVENT_APPEARED)?;
    }
    let selected = select(&entries, &Running::all(processes), directory)?;
    apply(arguments, control, &entries, &selected, out)?;
    if !arguments.follow {
        return unmatched(arguments, &entries, &selected);
    }
    let mut events = [uapi::Event::default(); BATCH];
    loop {
        let count = control.events(&mut events, WAIT)?;
        for event in &events[..count] {
            follow(
                arguments,
                control,
                &entries,
                Running::find(event.pid, processes),
                out,
            )?;
        }
        out.flush()?;
    }
}

/// How many lines of a file's text say something.
///
/// # Errors
///
/// What is wrong, in one line.
pub fn checked(text: &str) -> Result<usize, String> {
    let entries = file::parse(text).map_err(|error| error.to_string())?;
    Ok(entries.len())
}

fn read(path: &Path) -> Result<Vec<Entry>, Failure> {
    let said =
        |error: &dyn std::fmt::Display| Failure::Text(format!("{}: {error}", Name::from(path)));
    let text = std::fs::read_to_string(path).map_err(|error| said(&error))?;
    file::parse(&text).map_err(|error| Failure::Text(format!("{}:{error}", Name::from(path))))
}

/// An entry, by its position, and a subject that it selects.
type Selected = (usize, Subject);

/// What the entries select. A process follows the first entry that names it.
fn select(
    entries: &[Entry],
    running: &[Running],
    directory: &Directory,
) -> Result<Vec<Selected>, Failure> {
    let mut selected: Vec<Selected> = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let wrong = |why| Failure::Text(format!("line {}: {why}", entry.line));
        let (kind, id, name) = match &entry.selector {
            Selector::User(user) => {
                let id = directory.user_id(user).map(u64::from);
                (uapi::SUBJECT_USER, id, user)
            }
            Selector::Cgroup(cgroup) => (uapi::SUBJECT_CGROUP, directory.cgroup_id(cgroup), cgroup),
            Selector::Comm(_) | Selector::Exe(_) => continue,
        };
        let (id, name) = (id.map_err(wrong)?, name.clone());
        selected.push((at, Subject { kind, id, name }));
    }
    let processes = running.iter().filter_map(|process| {
        let at = entries.iter().position(|entry| entry.names(process))?;
        Some((at, Subject::process(process.pid)))
    });
    selected.extend(processes);
    selected.sort_by_key(|(at, _)| *at);
    Ok(selected)
}

/// Sets all selected, or none of them.
fn apply(
    arguments: &cli::Spec,
    control: &Control<impl Calls>,
    entries: &[Entry],
    selected: &[Selected],
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut before: Before = Vec::new();
    if arguments.apply {
        for snapshot in control.chosen(arguments.gpu)? {
            before.push((snapshot.gpu, control.specs(snapshot.gpu)?));
        }
    }
    let gpu = arguments.gpu.unwrap_or(uapi::ALL_GPUS);
    for (done, (at, subject)) in selected.iter().enumerate() {
        let set = subject.with(entries[*at].spec, gpu);
        let result = match arguments.apply {
            true => control.set_spec(&set),
            false => Ok(()),
        };
        if let Err(error) = result {
            restore(control, &before, &selected[..done]);
            let line = entries[*at].line;
            let why = subject.explain(error, "loga reserve --list");
            return Err(Failure::Text(format!(
                "{}:{line}: {why}; nothing has been set",
                Name::from(arguments.file.as_path())
            )));
        }
    }
    let verb = if arguments.apply { "set" } else { "would set" };
    for (at, entry) in entries.iter().enumerate() {
        let own = selected.iter().filter(|(of, _)| *of == at);
        let names: Vec<String> = own.map(|(_, subject)| subject.to_string()).collect();
        match names.as_slice() {
            [] => writeln!(
                out,
                "line {}: no process {} runs",
                entry.line, entry.selector
            )?,
            names => writeln!(out, "line {}: {verb} {}", entry.line, names.join(", "))?,
        }
    }
    Ok(out.flush()?)
}

/// Refuses what was to be set if a line is for a process and none matches it.
fn unmatched(
    arguments: &cli::Spec,
    entries: &[Entry],
    selected: &[Selected],
) -> Result<(), Failure> {
    let is_matched = |at: usize| selected.iter().any(|(of, _)| *of == at);
    let lines = (0..).zip(entries).filter(|(at, _)| !is_matched(*at));
    let lines: Vec<String> = lines
        .map(|(_, entry)| format!("line {}: no process {} runs", entry.line, entry.selector))
        .collect();
    if lines.is_empty() || !arguments.apply {
        return Ok(());
    }
    let rest = match selected.is_empty() {
        true => "nothing has been set",
        false => "the other lines are set",
    };
    Err(Failure::Text(format!(
        "{}: {}; {rest}",
        Name::from(arguments.file.as_path()),
        lines.join(", ")
    )))
}

/// What was set on each GPU before.
type Before = Vec<(u32, Vec<uapi::ListedSpec>)>;

/// Sets for these selected what was set on each GPU before, as far as that is still possible.
fn restore(control: &Control<impl Calls>, before: &Before, selected: &[Selected]) {
    for (gpu, specs) in before {
        for (_, subject) in selected {
            let same = |spec: &uapi::Spec| (spec.subject, spec.id) == (subject.kind, subject.id);
            let mut old = specs.iter().map(|listed| listed.spec);
            let set = match old.find(same) {
                Some(old) => subject.with(old, *gpu),
                None => subject.cleared(*gpu),
            };
            // A process may have ended: then there is nothing to restore.
            let _ = control.set_spec(&set);
        }
    }
}

/// Sets for a process that has begun to use a GPU what the first entry that names it says.
fn follow(
    arguments: &cli::Spec,
    control: &Control<impl Calls>,
    entries: &[Entry],
    process: Option<Running>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let Some(process) = process else {
        return Ok(());
    };
    let Some(entry) = entries.iter().find(|entry| entry.names(&process)) else {
        return Ok(());
    };
    let subject = Subject::process(process.pid);
    let gpu = arguments.gpu.unwrap_or(uapi::ALL_GPUS);
    match control.set_spec(&subject.with(entry.spec, gpu)) {
        Ok(()) => writeln!(out, "line {}: set {subject}", entry.line)?,
        // It goes on without a promise.
        Err(error) => {
            let why = subject.explain(error, "loga reserve --list");
            writeln!(out, "line {}: {why}", entry.line)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
