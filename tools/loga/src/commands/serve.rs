// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga agent serve`: figures for Prometheus and what speaks its formats.

use super::Failure;
use crate::cli;
use crate::control::{Calls, Control};
use crate::directory::Directory;
use crate::error::Error;
use crate::export::board::Boards;
use crate::export::owner::Owners;
use crate::export::sampler::Sampler;
use crate::export::server::PATH;
use crate::export::text::Format;
use crate::history;
use crate::history::keeper::Keeper;
use crate::http::{Address, Server};
use crate::names::{harmless, Name};
use crate::replace::{replace, New};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time between two readings.
const PERIOD: Duration = Duration::from_secs(1);
/// Time between two looks at events: the kernel keeps 256 of them.
const LISTEN_PERIOD: Duration = Duration::from_millis(100);
/// Mode of the file for a collector, which is another user.
const FILE_MODE: u32 = 0o644;

/// Answers scrapes until interrupted, or writes a file once. `open` opens the device.
///
/// # Errors
///
/// Any [`Failure`]. A kernel module that does not answer is none, except for a file: scrapes say so.
pub fn run<C: Calls>(
    arguments: &cli::Serve,
    open: impl Fn() -> Result<Control<C>, Error>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let owners = Owners::new(Directory::of_system);
    let sampler = Sampler::new(Boards::default(), owners, arguments.processes);
    let mut sampler = sampler.only(arguments.gpus.clone());
    if let Some(path) = &arguments.textfile {
        return file(path, &mut sampler, &open);
    }
    let failed = |error| Failure::Text(format!("cannot listen on {}: {error}", arguments.listen));
    let server = Server::bind(&arguments.listen).map_err(failed)?;
    match &server.address {
        Address::Tcp(_) => writeln!(out, "{}{PATH}", server.address)?,
        Address::Unix(_) => writeln!(out, "{}", server.address)?,
    }
    if let Address::Tcp(address) = &server.address {
        if !address.ip().is_loopback() {
            writeln!(out, "other machines can read it, without encryption: docs/monitoring.md has a reverse proxy")?;
        }
    }
    let mut keeper = keeper(arguments, out)?;
    // The first scrape has figures.
    tell(tick(&mut sampler, &mut keeper, &open), out);
    server.start(&Arc::new(sampler.latest())).map_err(failed)?;
    loop {
        let next = Instant::now() + PERIOD;
        tell(tick(&mut sampler, &mut keeper, &open), out);
        if let Some(keeper) = &mut keeper {
            tell(keeper.save_now_and_then(), out);
        }
        loop {
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match &mut keeper {
                Some(keeper) => {
                    sleep(left.min(LISTEN_PERIOD));
                    keeper.hear();
                }
                None => sleep(left),
            }
        }
    }
}

/// The history, if it is wanted, once it answers.
fn keeper<C: Calls>(
    arguments: &cli::Serve,
    out: &mut impl Write,
) -> Result<Option<Keeper<C>>, Failure> {
    let Some(folder) = &arguments.history else {
        return Ok(None);
    };
    if !folder.is_dir() {
        let line = format!(
            "--history: {} is no folder: make it, closed to other users",
            Name::from(folder)
        );
        return Err(Failure::Text(line));
    }
    let (keeper, said) = Keeper::new(folder, Path::new("/proc"));
    tell(said, out);
    let socket = &arguments.history_socket;
    history::server::start(socket, keeper.answers()).map_err(|error| {
        Failure::Text(format!("cannot listen on {}: {error}", Name::from(socket)))
    })?;
    Ok(Some(keeper))
}

/// Reads once, for scrapes and for the history.
fn tick<C: Calls>(
    sampler: &mut Sampler,
    keeper: &mut Option<Keeper<C>>,
    open: &impl Fn() -> Result<Control<C>, Error>,
) -> Option<String> {
    let Some(keeper) = keeper else {
        return sampler.tick(open);
    };
    // What exited before the snapshot has its event.
    keeper.hear();
    let said = sampler.tick_seen(open, |readings| keeper.see(readings));
    keeper.listen(open);
    said
}

/// Says what is new. A log that cannot be written stops no scrape.
fn tell(new: Option<String>, out: &mut impl Write) {
    if let Some(line) = new {
        let _ = writeln!(out, "{}", harmless(&line)).and_then(|()| out.flush());
    }
}

/// Writes the text whole: a reader of the file sees the old one or the new one.
fn file<C: Calls>(
    path: &Path,
    sampler: &mut Sampler,
    open: &impl Fn() -> Result<Control<C>, Error>,
) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::Text(format!("cannot write {}: {error}", Name::from(path)))
    };
    let read = sampler.tick(open);
    let text = sampler
        .latest()
        .text(Format::Prometheus)
        .map_err(|error| failed(&error))?;
    let new = New {
        // Another run may be writing.
        ending: &format!(".{}.tmp", std::process::id()),
        mode: FILE_MODE,
        owner: None,
    };
    replace(path, &new, text.as_bytes()).map_err(|error| failed(&error))?;
    match sampler.answered() {
        true => Ok(()),
        false => Err(Failure::Text(read.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests;
