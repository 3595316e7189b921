// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga agent focus`: the program whose window has the focus comes before others.
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
use crate::names::Name;
use loga::uapi;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

/// How long what was set holds.
const LEASE_MS: u32 = 5_000;
/// Time until it is set again.
const RENEWAL: Duration = Duration::from_secs(1);
/// Most clients that are raised on a GPU: specs are few, and a window may have many processes.
const MOST_RAISED: usize = 8;
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
        Some(user) => directory.named_user(user).map_err(Failure::Text)?.0,
        None => caller(),
    };
    let display = Display::open(arguments.display.as_deref()).map_err(Failure::Text)?;
    let mut focus = Focus::new(arguments, user);
    tell_idle(control, arguments.gpu, out)?;
    loop {
        let lost = |error| Failure::Text(format!("the connection to the X server: {error}"));
        let focused = display.focused_process().map_err(lost)?;
        focus.follow(control, focused, parent_of, out)?;
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

/// A GPU, and a process on it.
type OnGpu = (u32, i32);

/// Which processes the agent has raised.
struct Focus<'a> {
    arguments: &'a cli::Focus,
    /// The user whose processes may be raised.
    user: u32,
    /// With their names.
    raised: BTreeMap<OnGpu, Name>,
    /// Those of which it has said why they are not.
    told: BTreeSet<OnGpu>,
}

impl<'a> Focus<'a> {
    fn new(arguments: &'a cli::Focus, user: u32) -> Self {
        Self {
            arguments,
            user,
            raised: BTreeMap::new(),
            told: BTreeSet::new(),
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

    /// Raises the clients of the process `focused` and its descendants, and no others. `parent` is
    /// the parent of a process.
    fn follow(
        &mut self,
        control: &Control<impl Calls>,
        focused: Option<i32>,
        parent: impl Fn(i32) -> Option<i32>,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        for snapshot in control.chosen(self.arguments.gpu)? {
            let spec = self.spec();
            let (mut wanted, mut own) = (BTreeMap::new(), BTreeSet::new());
            for client in &snapshot.clients {
                let one = (snapshot.gpu, client.pid);
                let is_own = self.raised.contains_key(&one)
                    && (client.spec, client.reserve) == (uapi::SUBJECT_PROCESS, uapi::RESERVE_NONE)
                    && (client.prio, client.mode) == (spec.prio, spec.mode);
                if is_own {
                    own.insert(one);
                }
                let may_be = client.uid == self.user
                    && (client.spec == uapi::NO_SPEC || is_own)
                    && wanted.len() < MOST_RAISED;
                let descends = |from| descends(client.pid, from, &parent);
                if may_be && focused.is_some_and(descends) {
                    wanted.insert(one, names::text(&client.comm));
                }
            }
            self.lower(snapshot.gpu, control, &wanted, &own, out)?;
            self.raise(control, wanted, out)?;
        }
        Ok(())
    }

    /// Takes back what was set for processes on a GPU that are not wanted any more. What is not its
    /// own (any more) stays: an administrator has set it, or it ends with its lease.
    fn lower(
        &mut self,
        gpu: u32,
        control: &Control<impl Calls>,
        wanted: &BTreeMap<OnGpu, Name>,
        own: &BTreeSet<OnGpu>,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        let is_left = |one: &OnGpu| one.0 == gpu && !wanted.contains_key(one);
        let left: Vec<OnGpu> = self.raised.keys().copied().filter(is_left).collect();
        for one in left {
            if own.contains(&one) {
                // It may have ended.
                let _ = control.set_spec(&Subject::process(one.1).cleared(gpu));
            }
            let comm = self.raised.remove(&one).unwrap_or_default();
            writeln!(out, "GPU {gpu}: {} {comm}: no longer raised", one.1)?;
        }
        self.told.retain(|one| !is_left(one));
        Ok(())
    }

    /// Sets the spec for processes, also for those that have it: it has a lease.
    fn raise(
        &mut self,
        control: &Control<impl Calls>,
        wanted: BTreeMap<OnGpu, Name>,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        let spec = self.spec();
        for (one, comm) in wanted {
            let (gpu, pid) = one;
            let subject = Subject::process(pid);
            match control.set_spec(&subject.with(spec, gpu)) {
                Ok(()) => {
                    if self.raised.insert(one, comm.clone()).is_none() {
                        writeln!(out, "GPU {gpu}: {pid} {comm}: priority {}", spec.prio)?;
                    }
                }
                // It has ended, or all specs are taken.
                Err(error @ Error::Refused(_)) => {
                    self.raised.remove(&one);
                    if self.told.insert(one) {
                        let why = subject.explain(error, "loga reserve --list");
                        writeln!(out, "GPU {gpu}: {pid} {comm}: {why}")?;
                    }
                }
                Err(error) => return Err(error.into()),
            }
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
