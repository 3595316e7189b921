// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga apply`: the settings of this machine, from files.

mod file;
pub mod follow;
mod found;
mod restore;
pub mod show;

use self::file::{At, Entry, Settings, Whom};
use self::found::{called, Found};
use self::restore::{restore, Before};
use super::subject::Subject;
use super::Failure;
use crate::cli;
use crate::control::{Calls, Control, Snapshot};
use crate::directory::Directory;
use crate::error::Error;
use crate::names::Name;
use loga::uapi;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The file that is read without arguments, before those in [`FOLDER`].
const FILE: &str = "/etc/loga/loga.toml";
/// The folder whose files come after it, by name.
const FOLDER: &str = "/etc/loga/loga.toml.d";
/// Refusals that depend on what else is set, and so on the order of entries.
const DEPENDENT: [u32; 3] = [
    uapi::REFUSED_ABOVE_GROUP,
    uapi::REFUSED_BELOW_MEMBER,
    uapi::REFUSED_TARGETS,
];

/// Most cgroups that are set by patterns: half of what the module has room for. Whoever makes more of
/// them takes no room from what files name.
const MAX_MATCHED: usize = 256;

/// How much has been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything.
    Whole,
    /// Everything but cgroups that do not exist, and those of patterns that were refused.
    Skipped(usize),
}

/// Checks all files, then applies them, or nothing of them. `open` opens the device.
///
/// # Errors
///
/// Any [`Failure`]; then everything is as it was before.
pub fn run<C: Calls>(
    arguments: &cli::Apply,
    open: impl FnOnce() -> Result<Control<C>, Error>,
    directory: &Directory,
    out: &mut impl Write,
) -> Result<Outcome, Failure> {
    let files = match arguments.files.as_slice() {
        [] => default_files(Path::new(FILE), Path::new(FOLDER))?,
        files => files.to_vec(),
    };
    if files.is_empty() {
        writeln!(out, "nothing to apply: there is no {FILE}")?;
        return Ok(Outcome::Whole);
    }
    let settings = read(&files)?;
    let subjects = find(&settings.shares, directory);
    // Unlike a cgroup, a user does not come and go.
    if let Some(user) = subjects.missing.iter().find(|one| one.is_user) {
        return Err(Failure::Text(user.why.clone()));
    }
    if arguments.check {
        let (knobs, shares) = (settings.knobs.len(), settings.shares.len());
        writeln!(out, "right: {knobs} knobs, {shares} shares")?;
        return Ok(Outcome::Whole);
    }
    let control = open()?;
    let mut lines = apply(&settings, &subjects.named, &control)?;
    let refused = set_each(&subjects.matched, &control, &mut lines);
    for line in lines {
        writeln!(out, "{line}")?;
    }
    for one in &subjects.missing {
        writeln!(out, "{}; skipped", one.why)?;
    }
    Ok(match subjects.missing.len() + refused {
        0 => Outcome::Whole,
        count => Outcome::Skipped(count),
    })
}

/// The files that exist.
fn default_files(file: &Path, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files: Vec<PathBuf> = match fs::read_dir(folder) {
        Ok(entries) => entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Failure::Text(format!("{}: {error}", Name::from(folder)))),
    };
    files.retain(|file| file.extension().is_some_and(|end| end == "toml"));
    files.sort();
    // One that may not be read is no reason to go on without it.
    let there = file.try_exists();
    if there.map_err(|error| Failure::Text(format!("{}: {error}", Name::from(file))))? {
        files.insert(0, file.to_path_buf());
    }
    Ok(files)
}

/// A file, and what it said.
type Text = (PathBuf, String);

fn texts(files: &[PathBuf]) -> Result<Vec<Text>, Failure> {
    let read = |path: &PathBuf| {
        let said = |error| Failure::Text(format!("{}: {error}", Name::from(path.as_path())));
        Ok((path.clone(), fs::read_to_string(path).map_err(said)?))
    };
    files.iter().map(read).collect()
}

fn parse(texts: &[Text]) -> Result<Settings, Failure> {
    let mut settings = Settings::default();
    for (path, text) in texts {
        settings.merge(file::parse(path, text).map_err(Failure::Text)?);
    }
    Ok(settings)
}

fn read(files: &[PathBuf]) -> Result<Settings, Failure> {
    parse(&texts(files)?)
}

/// Why an entry has no subject.
struct Missing {
    why: String,
    is_user: bool,
}

/// The subjects of entries.
#[derive(Default)]
struct Subjects<'a> {
    /// Those that entries name.
    named: Vec<Found<'a>>,
    /// Cgroups that fit patterns, and that no entry names.
    matched: Vec<Found<'a>>,
    missing: Vec<Missing>,
}

/// The subjects that exist, and why those of other entries do not.
fn find<'a>(entries: &'a [Entry], directory: &Directory) -> Subjects<'a> {
    let mut subjects = Subjects::default();
    let mut patterns = Vec::new();
    for entry in entries {
        let (kind, id) = match &entry.whom {
            Whom::User(name) => {
                let id = directory.user_id(name).map(u64::from);
                (uapi::SUBJECT_USER, id)
            }
            Whom::Cgroup(path) if path.as_bytes().contains(&b'*') => {
                patterns.push((entry, path));
                continue;
            }
            Whom::Cgroup(path) => (uapi::SUBJECT_CGROUP, directory.cgroup_id(path)),
            Whom::Unit(name) => (uapi::SUBJECT_CGROUP, directory.unit_id(name)),
        };
        match id {
            Ok(id) => {
                let name = entry.whom.name().clone();
                subjects.named.push((entry, Subject { kind, id, name }));
            }
            Err(why) => subjects.missing.push(Missing {
                why: format!("{}: {why}", entry.at),
                is_user: kind == uapi::SUBJECT_USER,
            }),
        }
    }
    for (entry, pattern) in patterns {
        subjects.add_matching(entry, &directory.cgroups_like(pattern, MAX_MATCHED + 1));
    }
    subjects
}

impl<'a> Subjects<'a> {
    /// Adds the cgroups that fit the pattern of an entry, but for those that an entry names, and those
    /// of an earlier pattern for the same GPU.
    fn add_matching(&mut self, entry: &'a Entry, fit: &[(u64, Name)]) {
        let kind = uapi::SUBJECT_CGROUP;
        for (id, name) in fit {
            let is_it = |subject: &Subject| (subject.kind, subject.id) == (kind, *id);
            let earlier =
                |(other, subject): &Found<'_>| is_it(subject) && other.set.gpu == entry.set.gpu;
            if self.named.iter().any(|(_, subject)| is_it(subject))
                || self.matched.iter().any(earlier)
            {
                continue;
            }
            if self.matched.len() == MAX_MATCHED {
                let why = format!("{}: more than {MAX_MATCHED} cgroups fit patterns", entry.at);
                self.missing.push(Missing {
                    why,
                    is_user: false,
                });
                return;
            }
            let (id, name) = (*id, name.clone());
            self.matched.push((entry, Subject { kind, id, name }));
        }
    }

    fn all(&self) -> impl Iterator<Item = &Found<'a>> {
        self.named.iter().chain(&self.matched)
    }
}

/// Applies everything, or nothing. Returns what was set, in words.
fn apply(
    settings: &Settings,
    subjects: &[Found<'_>],
    control: &Control<impl Calls>,
) -> Result<Vec<String>, Failure> {
    let snapshots = control.all()?;
    check_gpus(settings, snapshots.len())?;
    let mut before = Vec::new();
    for Snapshot { gpu, info, .. } in &snapshots {
        before.push(Before {
            gpu: *gpu,
            info: *info,
            shares: control.shares(*gpu)?,
        });
    }
    let mut lines = Vec::new();
    let set = before
        .iter()
        .try_for_each(|one| set_knobs(settings, one.gpu, control, &mut lines));
    let set = set.and_then(|()| set_shares(subjects, control, &mut lines));
    if let Err(failure) = set {
        let lost = restore(&before, subjects, control);
        let applied = match lost.is_empty() {
            true => "nothing has been applied".to_string(),
            false => format!("not as before: {}", lost.join(", ")),
        };
        return Err(Failure::Text(format!("{failure}; {applied}")));
    }
    Ok(lines)
}

/// Whether all GPUs that are named exist.
fn check_gpus(settings: &Settings, count: usize) -> Result<(), Failure> {
    let knobs = settings
        .knobs
        .iter()
        .filter_map(|((gpu, _), (_, at))| Some(((*gpu)?, at)));
    let shares = settings
        .shares
        .iter()
        .map(|entry| (entry.set.gpu, &entry.at));
    let named = |(gpu, _): &(u32, &At)| *gpu != uapi::ALL_GPUS;
    for (gpu, at) in knobs.chain(shares.filter(named)) {
        if gpu as usize >= count {
            let known = u32::try_from(count).ok();
            return Err(Failure::Text(format!(
                "{at}: {}",
                Error::NoGpu { gpu, known }
            )));
        }
    }
    Ok(())
}

/// Sets the knobs of one GPU in one call: those for all GPUs, and its own in their place.
fn set_knobs(
    settings: &Settings,
    gpu: u32,
    control: &Control<impl Calls>,
    lines: &mut Vec<String>,
) -> Result<(), Failure> {
    let mut values: BTreeMap<&str, &(String, At)> = BTreeMap::new();
    for scope in [None, Some(gpu)] {
        let of_scope = settings.knobs.iter().filter(|((of, _), _)| *of == scope);
        values.extend(of_scope.map(|((_, name), value)| (*name, value)));
    }
    let Some((_, last)) = values.values().next_back() else {
        return Ok(());
    };
    let mut argument = uapi::Configure {
        gpu,
        ..Default::default()
    };
    for (name, (value, at)) in &values {
        let wrong = |why| Failure::Text(format!("{at}: {name} = {value}: {why}"));
        argument.set(name, value).map_err(wrong)?;
    }
    control.configure(&argument).map_err(|error| match error {
        Error::Refused(refusal) => Failure::Text(format!("{last}: GPU {gpu}: {refusal}")),
        other => other.into(),
    })?;
    let words: Vec<String> = values
        .iter()
        .map(|(name, (value, _))| format!("{name}={value}"))
        .collect();
    lines.push(format!("GPU {gpu}: {}", words.join(" ")));
    Ok(())
}

/// Sets shares. One that is refused because of what else is set comes again after the others.
fn set_shares(
    subjects: &[Found<'_>],
    control: &Control<impl Calls>,
    lines: &mut Vec<String>,
) -> Result<(), Failure> {
    let mut left: Vec<&Found<'_>> = subjects.iter().collect();
    while !left.is_empty() {
        let (mut later, mut why) = (Vec::new(), None);
        let count = left.len();
        for one in left {
            let (entry, subject) = one;
            let set = uapi::SetShare {
                subject: subject.kind,
                id: subject.id,
                ..entry.set
            };
            match control.set_share(&set) {
                Ok(()) => lines.push(format!(
                    "{}: set, from {}",
                    called(entry, subject),
                    entry.at
                )),
                Err(error) => {
                    let depends = matches!(&error, Error::Refused(refusal) if DEPENDENT.contains(&refusal.code));
                    let said = subject.explain(error, "loga set --list");
                    let said = Failure::Text(format!("{}: {said}", entry.at));
                    if !depends {
                        return Err(said);
                    }
                    why.get_or_insert(said);
                    later.push(one);
                }
            }
        }
        match why {
            Some(why) if later.len() == count => return Err(why),
            _ => left = later,
        }
    }
    Ok(())
}

/// Sets each share that can be set, and says why others cannot. Returns how many cannot.
fn set_each(
    subjects: &[Found<'_>],
    control: &Control<impl Calls>,
    lines: &mut Vec<String>,
) -> usize {
    let mut refused = 0;
    for one in subjects {
        if let Err(failure) = set_shares(std::slice::from_ref(one), control, lines) {
            lines.push(failure.to_string());
            refused += 1;
        }
    }
    refused
}

#[cfg(test)]
mod tests;
