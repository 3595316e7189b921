// SPDX-License-Identifier: GPL-2.0

//! [tool] `loga agent focus`: the program whose window has the focus comes before others.
//!
//! What the agent sets has a lease that it renews: without the agent, or with one that hangs, it
//! ends by itself. Clients that follow a spec of an administrator keep that one.

mod display;

use self::display::Display;
use super::reserve::tell_idle;
use super::subject::Subject;
use super::Failure;
use crate::cli;
use crate::control::{Calls, Control};
use crate::directory::Directory;
use crate::error::Error;
use crate::names;
use loga::uapi;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

/// How long what was set holds.
const LEASE_MS: u32 = 5_000;
/// Time until it is set again.
const RENEWAL: Duration = Duration::from_secs(1);
/// TIMEOUT: most ancestors of a process that are looked at.
const MOST_ANCESTORS: u32 = 64;

/// Follows the focus until the X server ends, or the caller is interrupted.
///
/// # Errors
///
/// Any [`Failure`].
pub fn run(
    arguments: &cli::Focus,
    control: &Control<impl Calls>,
    directory: &Directory,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let user = match &arguments.user {
        Some(user) => directory.user_id(user).map_err(Failure::Said)?,
        None => caller(),
    };
    let display = Display::open(arguments.display.as_deref()).map_err(Failure::Said)?;
    let mut focus = Focus::new(arguments, user);
    tell_idle(control, arguments.gpu, out)?;
    loop {
        let lost = |error| Failure::Said(format!("the connection to the X server: {error}"));
        let window = display.focused_process().map_err(lost)?;
        focus.follow(control, window, parent_of, out)?;
        out.flush()?;
        display.wait(RENEWAL).map_err(lost)?;
    }
}

/// The user who called, also through sudo.
fn caller() -> u32 {
    let through_sudo = std::env::var("SUDO_UID").ok();
    let through_sudo = through_sudo.and_then(|uid| uid.parse().ok());
    through_sudo.unwrap_or_else(|| nix::unistd::getuid().as_raw())
}

/// The parent of a process, if that is there.
fn parent_of(pid: i32) -> Option<i32> {
    let process = procfs::process::Process::new(pid).ok()?;
    Some(process.stat().ok()?.ppid)
}

/// Which processes the agent has raised.
struct Focus<'a> {
    arguments: &'a cli::Focus,
    /// The user whose processes may be raised.
    user: u32,
    /// With their names.
    raised: BTreeMap<i32, String>,
}

impl<'a> Focus<'a> {
    fn new(arguments: &'a cli::Focus, user: u32) -> Self {
        Self {
            arguments,
            user,
            raised: BTreeMap::new(),
        }
    }

    /// What is set for a process.
    fn spec(&self) -> uapi::Spec {
        let mode = names::number(&names::MODES, &self.arguments.mode);
        uapi::Spec {
            prio: self.arguments.prio,
            mode: mode.unwrap_or(uapi::MODE_PRT),
            lease_ms: LEASE_MS,
            ..Default::default()
        }
    }

    /// Raises the clients of the process `window` and its descendants, and no others. `parent` is
    /// the parent of a process.
    fn follow(
        &mut self,
        control: &Control<impl Calls>,
        window: Option<i32>,
        parent: impl Fn(i32) -> Option<i32>,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        let (spec, gpu) = (self.spec(), self.arguments.gpu);
        let (mut wanted, mut own) = (BTreeMap::new(), BTreeSet::new());
        for snapshot in control.chosen(gpu)? {
            for client in snapshot.clients {
                let is_own = self.raised.contains_key(&client.pid)
                    && (client.spec, client.prio) == (uapi::SUBJECT_PROCESS, spec.prio);
                let may_be = client.spec == uapi::NO_SPEC || is_own;
                let descends = window.is_some_and(|window| descends(client.pid, window, &parent));
                if is_own {
                    own.insert(client.pid);
                }
                if may_be && descends && client.uid == self.user {
                    wanted.insert(client.pid, names::text(&client.comm));
                }
            }
        }
        let gpu = gpu.unwrap_or(uapi::ALL_GPUS);
        let before = std::mem::take(&mut self.raised);
        for (pid, comm) in before.iter().filter(|(pid, _)| !wanted.contains_key(pid)) {
            // An administrator may have set something else. It may have ended.
            if own.contains(pid) {
                let _ = control.set_spec(&Subject::process(*pid).cleared(gpu));
            }
            writeln!(out, "{pid} {comm}: no longer raised")?;
        }
        for (pid, comm) in wanted {
            let subject = Subject::process(pid);
            match control.set_spec(&subject.with(spec, gpu)) {
                Ok(()) if before.contains_key(&pid) => {}
                Ok(()) => writeln!(out, "{pid} {comm}: priority {}", spec.prio)?,
                // It has ended, or all specs are taken.
                Err(error @ Error::Refused(_)) => {
                    let why = subject.explain(error, "loga reserve --list");
                    writeln!(out, "{pid} {comm}: {why}")?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            self.raised.insert(pid, comm);
        }
        Ok(())
    }
}

/// Whether a process is another one or descends from it.
fn descends(pid: i32, from: i32, parent: impl Fn(i32) -> Option<i32>) -> bool {
    let mut at = pid;
    for _ in 0..MOST_ANCESTORS {
        if at == from {
            return at > 0;
        }
        match parent(at) {
            Some(next) if next > 1 => at = next,
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests;
