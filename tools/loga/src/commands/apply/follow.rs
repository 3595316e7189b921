// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga apply --follow`: what the files say stays in force: they are applied again when they
//! change, when the kernel module has GPUs anew, and for cgroups and users that appear.
//!
//! Files that are wrong or refused change nothing: those that were applied last count until they are
//! mended. What somebody sets by hand for a cgroup that exists stays.

use super::{
    apply, default_files, find, parse, set_each, texts, Settings, Subjects, Text, FILE, FOLDER,
};
use crate::commands::subject::Subject;
use crate::commands::Failure;
use crate::control::{Calls, Control};
use crate::directory::Directory;
use crate::error::Error;
use crate::names;
use crate::names::harmless;
use loga::uapi;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between two comparisons of the files and of the system with what is in force.
const PERIOD: Duration = Duration::from_secs(2);
/// Longest time between two attempts at what the kernel module refuses, and between two readings of
/// the list of users.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where the kernel module has a folder for each GPU that it manages.
const GPUS: &str = "/sys/class/misc/loga";

/// Applies files until interrupted. `ready` is called once, when they are in force, or wait for the
/// kernel module.
///
/// # Errors
///
/// Any [`Failure`] of the first reading of the files: later ones are said.
pub fn run<C: Calls>(
    files: &[PathBuf],
    open: impl Fn() -> Result<Control<C>, Error>,
    mut directory: Directory,
    ready: impl FnOnce(),
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut follower = Follower::new(files, Path::new(GPUS));
    follower.first()?;
    let mut ready = Some(ready);
    let mut asked = Instant::now();
    loop {
        if asked.elapsed() >= PATIENCE {
            (directory, asked) = (directory.again(), Instant::now());
        }
        for line in follower.tick(&directory, &open, Instant::now()) {
            // A log that cannot be written ends nothing.
            let _ = writeln!(out, "{}", harmless(&line)).and_then(|()| out.flush());
        }
        if let Some(ready) = ready.take() {
            ready();
        }
        std::thread::sleep(PERIOD);
    }
}

/// A subject of an entry: kind, number, and the GPU that it is for.
type Key = (u32, u64, u32);
/// Subjects for which something is set, and what: bits `SHARE_*`.
type Set = BTreeMap<Key, u32>;

/// What is in force, and what is to be.
pub(super) struct Follower<'a> {
    /// Files of the command line; none for those of the machine.
    files: &'a [PathBuf],
    /// Folder of the GPUs.
    sysfs: &'a Path,
    /// As they were read last.
    texts: Vec<Text>,
    /// Whether these have been taken over, or found wrong.
    settled: bool,
    /// What counts.
    settings: Settings,
    /// What comes in its place as soon as the module takes it.
    next: Option<Settings>,
    /// The GPUs on which the settings are in force, by their folders' numbers.
    gpus: Vec<u64>,
    set: Set,
    retry: Retry,
    /// What is wrong with the files, as it was said.
    wrong: Option<String>,
    /// Why the module has not taken them, as it was said.
    refused: Option<String>,
}

/// When something that failed is tried again: ever later.
#[derive(Default)]
struct Retry {
    wait: Duration,
    at: Option<Instant>,
}

impl Retry {
    fn is_due(&self, now: Instant) -> bool {
        self.at.is_none_or(|at| now >= at)
    }

    fn later(&self, now: Instant) -> Self {
        let wait = (self.wait * 2).clamp(PERIOD, PATIENCE);
        Self {
            wait,
            at: Some(now + wait),
        }
    }
}

impl<'a> Follower<'a> {
    pub(super) fn new(files: &'a [PathBuf], sysfs: &'a Path) -> Self {
        Self {
            files,
            sysfs,
            texts: Vec::new(),
            settled: false,
            settings: Settings::default(),
            next: None,
            gpus: Vec::new(),
            set: Set::new(),
            retry: Retry::default(),
            wrong: None,
            refused: None,
        }
    }

    /// Reads the files, which have to be right.
    ///
    /// # Errors
    ///
    /// Any [`Failure`] of reading.
    pub(super) fn first(&mut self) -> Result<(), Failure> {
        self.texts = self.read()?;
        self.settings = parse(&self.texts)?;
        self.settled = true;
        Ok(())
    }

    fn read(&self) -> Result<Vec<Text>, Failure> {
        match self.files {
            [] => texts(&default_files(Path::new(FILE), Path::new(FOLDER))?),
            files => texts(files),
        }
    }

    /// Compares files and system with what is in force, and sets what is not. Returns what there is
    /// to say; the same failure is said once.
    pub(super) fn tick<C: Calls>(
        &mut self,
        directory: &Directory,
        open: impl Fn() -> Result<Control<C>, Error>,
        now: Instant,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        let read = self.read_again();
        note(&mut self.wrong, read, &mut lines);
        let gpus = instances(self.sysfs);
        let are_new = gpus != self.gpus;
        if gpus.is_empty() {
            self.gpus.clear();
            self.set.clear();
            self.retry = Retry::default();
            let wait = "the kernel module manages no GPU: the settings wait for it";
            note(
                &mut self.refused,
                Err(Failure::Text(wait.to_string())),
                &mut lines,
            );
        } else if (are_new || self.next.is_some()) && self.retry.is_due(now) {
            let applied = self.apply_all(gpus, directory, &open, &mut lines);
            self.retry = match applied {
                Ok(()) => Retry::default(),
                Err(_) => self.retry.later(now),
            };
            note(&mut self.refused, applied, &mut lines);
        } else if !are_new {
            self.apply_to_new_subjects(directory, &open, &mut lines);
        }
        lines
    }

    /// Takes files over that have changed, once two readings agree: one that is being written is
    /// not whole yet.
    fn read_again(&mut self) -> Result<(), Failure> {
        let texts = self.read()?;
        if texts != self.texts {
            self.texts = texts;
            self.settled = false;
            return Ok(());
        }
        if !self.settled {
            let still =
                |why| Failure::Text(format!("{why}; what was applied before stays in force"));
            self.next = Some(parse(&self.texts).map_err(still)?);
            self.settled = true;
            self.retry = Retry::default();
        }
        Ok(())
    }

    /// Applies the files of now; if they are refused, those of before, where they are not in force.
    fn apply_all<C: Calls>(
        &mut self,
        gpus: Vec<u64>,
        directory: &Directory,
        open: impl Fn() -> Result<Control<C>, Error>,
        lines: &mut Vec<String>,
    ) -> Result<(), Failure> {
        let mut refused = None;
        if let Some(next) = self.next.take() {
            match whole(&next, &self.set, directory, &open) {
                Ok(done) => {
                    self.settings = next;
                    self.took(gpus, done, lines);
                    return Ok(());
                }
                Err(failure) => refused = Some(failure),
            }
            self.next = Some(next);
        }
        if gpus != self.gpus {
            let done = whole(&self.settings, &Set::new(), directory, &open);
            match done {
                Ok(done) => self.took(gpus, done, lines),
                Err(failure) => return Err(refused.unwrap_or(failure)),
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Notes that everything is in force.
    fn took(&mut self, gpus: Vec<u64>, (set, said): Done, lines: &mut Vec<String>) {
        self.gpus = gpus;
        self.set = set;
        lines.extend(said);
    }

    /// Sets shares of subjects that were not there before: together, else each that can be.
    fn apply_to_new_subjects<C: Calls>(
        &mut self,
        directory: &Directory,
        open: impl Fn() -> Result<Control<C>, Error>,
        lines: &mut Vec<String>,
    ) {
        let mut subjects = find(&self.settings.shares, directory);
        let there = set_of(&subjects);
        for found in [&mut subjects.named, &mut subjects.matched] {
            found.retain(|(entry, subject)| !self.set.contains_key(&key(subject, entry.set.gpu)));
        }
        // What is gone may come back, as another one with the same number.
        self.set = there;
        if subjects.all().next().is_none() {
            return;
        }
        let control = match open() {
            Ok(control) => control,
            // They are new again when it answers.
            Err(_) => return self.set.clear(),
        };
        // Refusals are said once: again when everything is applied.
        match apply(&Settings::default(), &subjects.named, &control) {
            Ok(said) => lines.extend(said),
            Err(_) => drop(set_each(&subjects.named, &control, lines)),
        }
        set_each(&subjects.matched, &control, lines);
    }
}

/// Keeps what is wrong, and says it if it is new.
fn note(kept: &mut Option<String>, outcome: Result<(), Failure>, lines: &mut Vec<String>) {
    let wrong = outcome.err().map(|failure| failure.to_string());
    if wrong != *kept {
        lines.extend(wrong.clone());
        *kept = wrong;
    }
}

/// Subjects for which something was set, and the lines that say so.
type Done = (Set, Vec<String>);

/// Applies everything, or nothing, and takes back what was set before and is not wanted any more.
fn whole<C: Calls>(
    settings: &Settings,
    before: &Set,
    directory: &Directory,
    open: impl Fn() -> Result<Control<C>, Error>,
) -> Result<Done, Failure> {
    let subjects = find(&settings.shares, directory);
    let control = open()?;
    let mut lines = apply(settings, &subjects.named, &control)?;
    take_back(before, &subjects, &control, &mut lines)?;
    set_each(&subjects.matched, &control, &mut lines);
    let waiting = subjects.missing.iter();
    lines.extend(waiting.map(|one| format!("{}; waits for it", one.why)));
    Ok((set_of(&subjects), lines))
}

fn set_of(subjects: &Subjects<'_>) -> Set {
    let set = subjects.all();
    set.map(|(entry, subject)| (key(subject, entry.set.gpu), entry.set.mask))
        .collect()
}

/// Clears what was set for a subject that no entry has any more. What was set by hand beside it goes too.
fn take_back(
    before: &Set,
    subjects: &Subjects<'_>,
    control: &Control<impl Calls>,
    lines: &mut Vec<String>,
) -> Result<(), Failure> {
    for gpu in 0..u32::try_from(control.all()?.len()).unwrap_or(u32::MAX) {
        let of_gpu = |of: u32| of == gpu || of == uapi::ALL_GPUS;
        for ((kind, id, _), old) in before.iter().filter(|((_, _, of), _)| of_gpu(*of)) {
            let wanted = || {
                subjects.all().filter(|(entry, subject)| {
                    of_gpu(entry.set.gpu) && (subject.kind, subject.id) == (*kind, *id)
                })
            };
            let new = wanted().fold(0, |mask, (entry, _)| mask | entry.set.mask);
            if old & !new == 0 {
                continue;
            }
            let clear = uapi::SetShare {
                gpu,
                action: uapi::ACTION_CLEAR,
                subject: *kind,
                id: *id,
                ..Default::default()
            };
            // Somebody may have cleared it, and a cgroup may be gone.
            let _ = control.set_share(&clear);
            for (entry, subject) in wanted() {
                let again = uapi::SetShare {
                    gpu,
                    subject: subject.kind,
                    id: subject.id,
                    ..entry.set
                };
                control.set_share(&again)?;
            }
            lines.push(format!(
                "GPU {gpu}: {} {id}: no longer in a file, cleared",
                names::subject(*kind)
            ));
        }
    }
    Ok(())
}

fn key(subject: &Subject, gpu: u32) -> Key {
    (subject.kind, subject.id, gpu)
}

/// The GPUs that the kernel module manages: a folder that is made anew has another number.
fn instances(sysfs: &Path) -> Vec<u64> {
    let entries = fs::read_dir(sysfs).into_iter().flatten().flatten();
    let mut found: Vec<(u32, u64)> = entries
        .filter_map(|entry| {
            let gpu = entry
                .file_name()
                .to_str()?
                .strip_prefix("gpu")?
                .parse()
                .ok()?;
            Some((gpu, entry.metadata().ok()?.ino()))
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, ino)| ino).collect()
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
