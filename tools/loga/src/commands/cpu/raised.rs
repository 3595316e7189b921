// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Which cgroups are raised, and why others are not.

use super::cgroups::{Cgroup, Cgroups, Obstacle};
use super::noted::{Entry, Noted};
use crate::commands::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

/// Largest weight of a cgroup.
const MOST: u32 = 10_000;
/// Without a weight that was asked for, so many times what it was.
const TIMES: u32 = 10;
/// Most lines that are remembered as said: who makes cgroups without end is told again.
const MOST_TOLD: usize = 1024;

/// The cgroups that are raised.
///
/// # Invariants
///
/// Each cgroup whose weight this agent has set, and not put back, is in `entries`; each in `entries`
/// stands in the file.
pub(super) struct Raised<'a> {
    cgroups: &'a Cgroups,
    noted: Noted,
    /// The weight that was asked for.
    weight: Option<u32>,
    /// Of each GPU, the cgroups that have its turn. One that has the turns of two GPUs is raised as
    /// long as it has either.
    wanted: BTreeMap<u32, BTreeSet<Cgroup>>,
    entries: BTreeMap<Cgroup, Entry>,
    /// What was said.
    told: BTreeSet<String>,
}

impl<'a> Raised<'a> {
    pub(super) fn new(cgroups: &'a Cgroups, noted: Noted, weight: Option<u32>) -> Self {
        Self {
            cgroups,
            noted,
            weight,
            wanted: BTreeMap::new(),
            entries: BTreeMap::new(),
            told: BTreeSet::new(),
        }
    }

    /// Puts back what an agent has left that was killed.
    ///
    /// # Errors
    ///
    /// The file cannot be read or removed.
    pub(super) fn put_back_of_killed(&mut self, out: &mut impl Write) -> Result<(), Failure> {
        for entry in self.noted.read().map_err(Failure::Text)? {
            if self.put_back(&entry, out)? {
                let (name, before) = (entry.cgroup.name(), entry.before);
                writeln!(
                    out,
                    "cgroup {name}: cpu.weight {before} again, as before the last agent"
                )?;
            }
        }
        self.note()
    }

    /// These processes have the turn of a GPU, and no others.
    ///
    /// # Errors
    ///
    /// What is raised cannot be noted; then nothing more is.
    pub(super) fn follow(
        &mut self,
        gpu: u32,
        processes: impl Iterator<Item = i32>,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        let mut wanted = BTreeSet::new();
        for pid in processes {
            match self.cgroups.of_process(pid) {
                Ok(cgroup) => {
                    wanted.insert(cgroup);
                }
                Err(obstacle) => self.tell(obstacle, out)?,
            }
        }
        self.wanted.insert(gpu, wanted);
        let wanted: BTreeSet<Cgroup> = self.wanted.values().flatten().cloned().collect();
        let left = self
            .entries
            .keys()
            .filter(|cgroup| !wanted.contains(cgroup));
        let left: Vec<Cgroup> = left.cloned().collect();
        let mut new = Vec::new();
        for cgroup in &wanted {
            if !self.entries.contains_key(cgroup) {
                match self.entry_for(cgroup) {
                    Ok(entry) => new.extend(entry),
                    Err(obstacle) => self.tell(obstacle, out)?,
                }
            }
        }
        if left.is_empty() && new.is_empty() {
            return Ok(());
        }
        // Before anything is raised, with what is still to be put back.
        let entries = new
            .iter()
            .map(|entry| (entry.cgroup.clone(), entry.clone()));
        self.entries.extend(entries);
        self.note()?;
        for cgroup in left {
            if let Some(entry) = self.entries.remove(&cgroup) {
                self.put_back(&entry, out)?;
            }
        }
        for entry in new {
            if let Err(obstacle) = self.cgroups.set_weight(&entry.cgroup, entry.since) {
                self.entries.remove(&entry.cgroup);
                self.tell(obstacle, out)?;
            }
        }
        Ok(())
    }

    /// Puts everything back.
    ///
    /// # Errors
    ///
    /// The file cannot be removed.
    pub(super) fn end(mut self, out: &mut impl Write) -> Result<(), Failure> {
        for entry in std::mem::take(&mut self.entries).into_values() {
            self.put_back(&entry, out)?;
        }
        self.note()
    }

    fn note(&self) -> Result<(), Failure> {
        self.noted
            .write(self.entries.values())
            .map_err(Failure::Text)
    }

    /// What to set for a cgroup; nothing if it has as much or more.
    fn entry_for(&self, cgroup: &Cgroup) -> Result<Option<Entry>, Obstacle> {
        let before = self.cgroups.weight(cgroup)?;
        let since = self
            .weight
            .unwrap_or(before.saturating_mul(TIMES).min(MOST));
        Ok((since > before).then(|| Entry {
            cgroup: cgroup.clone(),
            before,
            since,
        }))
    }

    /// Sets a weight to what it was, if it is still what the agent has set. False if not.
    fn put_back(&mut self, entry: &Entry, out: &mut impl Write) -> Result<bool, Failure> {
        let put = match self.cgroups.weight(&entry.cgroup) {
            Ok(weight) if weight == entry.since => {
                self.cgroups.set_weight(&entry.cgroup, entry.before)
            }
            // A killed agent has noted that, and not raised it yet, or put it back already.
            Ok(weight) if weight == entry.before => return Ok(false),
            Ok(weight) => Err(Obstacle::Line(format!(
                "the cgroup {} has cpu.weight {weight}, which somebody else has set: it stays so",
                entry.cgroup.name()
            ))),
            Err(obstacle) => Err(obstacle),
        };
        match put {
            Ok(()) => Ok(true),
            Err(obstacle) => self.tell(obstacle, out).map(|()| false),
        }
    }

    /// Says what is in the way, once.
    fn tell(&mut self, obstacle: Obstacle, out: &mut impl Write) -> Result<(), Failure> {
        if let Obstacle::Line(line) = obstacle {
            if self.told.len() >= MOST_TOLD {
                self.told.clear();
            }
            if !self.told.contains(&line) {
                writeln!(out, "{line}")?;
                self.told.insert(line);
            }
        }
        Ok(())
    }
}
