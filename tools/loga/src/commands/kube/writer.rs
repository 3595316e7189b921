// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Makes the rules in the API server those of the GPUs that should have one.
//!
//! Nothing is remembered of what was written: each synchronisation lists the rules that are ours,
//! and makes or removes what differs. So rules of an earlier run go at the start, and so do those
//! that were changed by hand within [`AGAIN`]. An error ends the round; the next one tries again.

use super::api::Api;
use super::rule::{changes, Naming, Rule, Wanted};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Time between two synchronisations while nothing changes, and between two lines of complaint.
pub const AGAIN: Duration = Duration::from_secs(60);
/// Most rules made and removed in one round.
const MAX_CHANGES: usize = 64;

/// Writes rules.
#[derive(Debug)]
pub struct Writer {
    api: Api,
    naming: Naming,
    /// What the rules were last made to be, and when.
    done: Option<(BTreeSet<Wanted>, Instant)>,
    /// When an error was told last, and how many were not since.
    told: Option<(Instant, u64)>,
}

impl Writer {
    /// To this server.
    pub fn new(api: Api, naming: Naming) -> Self {
        Self {
            api,
            naming,
            done: None,
            told: None,
        }
    }

    /// Makes the rules those of the closed GPUs, if that is due. Returns lines to tell.
    pub fn round(&mut self, closed: &BTreeSet<Wanted>, now: Instant) -> Vec<String> {
        let is_done = self
            .done
            .as_ref()
            .is_some_and(|(done, at)| done == closed && now.saturating_duration_since(*at) < AGAIN);
        if is_done {
            return Vec::new();
        }
        let mut told = Vec::new();
        match self.synchronise(closed, &mut told) {
            Ok(true) => self.done = Some((closed.clone(), now)),
            Ok(false) => self.done = None,
            Err(error) => {
                self.done = None;
                told.extend(self.complaint(&error, now));
            }
        }
        told
    }

    /// Whether all was done.
    fn synchronise(
        &self,
        closed: &BTreeSet<Wanted>,
        told: &mut Vec<String>,
    ) -> Result<bool, String> {
        let session = self.api.session()?;
        let changes = changes(closed, &session.list()?);
        let count = changes.make.len().saturating_add(changes.remove.len());
        let mut left = MAX_CHANGES;
        // Removing comes first: it never takes a GPU from a pod.
        for name in changes.remove.iter().take(left) {
            session.remove(name)?;
            told.push(format!("removed rule {name}"));
        }
        left = left.saturating_sub(changes.remove.len());
        for wanted in changes.make.iter().take(left) {
            let rule = Rule::new(&self.naming, wanted);
            session.make(&rule)?;
            told.push(format!("made rule {}", rule.metadata.name));
        }
        Ok(count <= MAX_CHANGES)
    }

    /// An error, once in a while.
    fn complaint(&mut self, error: &str, now: Instant) -> Option<String> {
        let more = match &mut self.told {
            Some((at, more)) if now.saturating_duration_since(*at) < AGAIN => {
                *more = more.saturating_add(1);
                return None;
            }
            Some((_, more)) => *more,
            None => 0,
        };
        self.told = Some((now, 0));
        let line = format!("API server: {error}; its rules stay as they are");
        Some(match more {
            0 => line,
            _ => format!("{line} ({more} errors before were not told)"),
        })
    }
}

#[cfg(test)]
mod tests;
