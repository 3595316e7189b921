// SPDX-License-Identifier: GPL-2.0

//! [tool] `loga apply`: the settings of this machine, from files.

mod file;

use self::file::{At, Entry, Settings, Whom};
use super::subject::Subject;
use super::Failure;
use crate::cli;
use crate::control::{Calls, Control, Snapshot};
use crate::directory::Directory;
use crate::error::Error;
use crate::names::Name;
use loga::knobs::KNOBS;
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

/// How much has been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything.
    Whole,
    /// Everything but entries of cgroups that do not exist.
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
    let (subjects, skipped) = find(&settings.shares, directory)?;
    if arguments.check {
        let (knobs, shares) = (settings.knobs.len(), settings.shares.len());
        writeln!(out, "right: {knobs} knobs, {shares} shares")?;
        return Ok(Outcome::Whole);
    }
    apply(&settings, &subjects, &open()?, out)?;
    for why in &skipped {
        writeln!(out, "{why}; skipped")?;
    }
    Ok(match skipped.len() {
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
        Err(error) => return Err(Failure::Said(format!("{}: {error}", Name::from(folder)))),
    };
    files.retain(|file| file.extension().is_some_and(|end| end == "toml"));
    files.sort();
    if file.exists() {
        files.insert(0, file.to_path_buf());
    }
    Ok(files)
}

fn read(files: &[PathBuf]) -> Result<Settings, Failure> {
    let mut settings = Settings::default();
    for path in files {
        let said = |error| Failure::Said(format!("{}: {error}", Name::from(path.as_path())));
        let text = fs::read_to_string(path).map_err(said)?;
        settings.merge(file::parse(path, &text).map_err(Failure::Said)?);
    }
    Ok(settings)
}

/// An entry and its subject.
type Found<'a> = (&'a Entry, Subject);

/// The subjects that exist, and why those of other entries do not.
///
/// # Errors
///
/// [`Failure::Said`] for a user that does not exist.
fn find<'a>(
    entries: &'a [Entry],
    directory: &Directory,
) -> Result<(Vec<Found<'a>>, Vec<String>), Failure> {
    let (mut found, mut skipped) = (Vec::new(), Vec::new());
    for entry in entries {
        let (kind, id) = match &entry.whom {
            Whom::User(name) => {
                let id = directory.user_id(name).map(u64::from);
                let wrong = |why| Failure::Said(format!("{}: {why}", entry.at));
                (uapi::SUBJECT_USER, Ok(id.map_err(wrong)?))
            }
            Whom::Cgroup(path) => (uapi::SUBJECT_CGROUP, directory.cgroup_id(path)),
            Whom::Unit(name) => (uapi::SUBJECT_CGROUP, directory.unit_id(name)),
        };
        match id {
            Ok(id) => {
                let name = entry.whom.name().clone();
                found.push((entry, Subject { kind, id, name }));
            }
            Err(why) => skipped.push(format!("{}: {why}", entry.at)),
        }
    }
    Ok((found, skipped))
}

/// What a GPU had before.
struct Before {
    gpu: u32,
    info: uapi::Gpu,
    shares: Vec<uapi::Share>,
}

/// Applies everything, or nothing.
fn apply(
    settings: &Settings,
    subjects: &[Found<'_>],
    control: &Control<impl Calls>,
    out: &mut impl Write,
) -> Result<(), Failure> {
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
        return Err(Failure::Said(format!("{failure}; {applied}")));
    }
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
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
            return Err(Failure::Said(format!(
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
        let wrong = |why| Failure::Said(format!("{at}: {name} = {value}: {why}"));
        argument.set(name, value).map_err(wrong)?;
    }
    control.configure(&argument).map_err(|error| match error {
        Error::Refused(refusal) => Failure::Said(format!("{last}: GPU {gpu}: {refusal}")),
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
                Ok(()) => lines.push(format!("{}: set, from {}", entry.whom, entry.at)),
                Err(error) => {
                    let depends = matches!(&error, Error::Refused(refusal) if DEPENDENT.contains(&refusal.code));
                    let said = subject.explain(error, "loga set --list");
                    let said = Failure::Said(format!("{}: {said}", entry.at));
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

/// Sets what was set before. Returns what cannot be set again.
fn restore(
    before: &[Before],
    subjects: &[Found<'_>],
    control: &Control<impl Calls>,
) -> Vec<String> {
    let mut lost = Vec::new();
    for one in before {
        let mut argument = uapi::Configure {
            gpu: one.gpu,
            ..Default::default()
        };
        let config = one.info.config();
        for knob in KNOBS.iter().filter(|knob| knob.live) {
            let value = knob.written((knob.get)(&config)).to_string();
            // A value of this GPU is a value of the knob.
            let _ = argument.set(knob.name, &value);
        }
        if control.configure(&argument).is_err() {
            lost.push(format!("knobs of GPU {}", one.gpu));
        }
        lost.extend(restore_shares(one, subjects, control));
    }
    lost
}

/// The same of the shares of one GPU. One that is refused because of what else is set comes again
/// after the others.
fn restore_shares(
    before: &Before,
    subjects: &[Found<'_>],
    control: &Control<impl Calls>,
) -> Vec<String> {
    const SET: u32 = uapi::SHARE_WEIGHT
        | uapi::SHARE_LIMIT
        | uapi::SHARE_CLASS
        | uapi::SHARE_TARGET
        | uapi::SHARE_ACCESS;
    let clear = |subject: &Subject| uapi::SetShare {
        gpu: before.gpu,
        action: uapi::ACTION_CLEAR,
        subject: subject.kind,
        id: subject.id,
        ..Default::default()
    };
    for (_, subject) in subjects {
        // Nothing may be set for it yet.
        let _ = control.set_share(&clear(subject));
    }
    let old = |subject: &Subject| {
        let same = |share: &&uapi::Share| (share.subject, share.id) == (subject.kind, subject.id);
        let old = before.shares.iter().find(same)?;
        Some(uapi::SetShare {
            action: uapi::ACTION_SET,
            mask: old.mask & SET,
            weight: old.weight,
            limit_pct: old.limit_pct,
            class: old.class,
            target_pct: old.target_pct,
            access: old.access,
            ..clear(subject)
        })
    };
    let mut left: Vec<(&Entry, uapi::SetShare)> = subjects
        .iter()
        .filter_map(|(entry, subject)| Some((*entry, old(subject)?)))
        .collect();
    loop {
        let count = left.len();
        left.retain(|(_, set)| control.set_share(set).is_err());
        if left.is_empty() || left.len() == count {
            break;
        }
    }
    let lost = left.iter();
    lost.map(|(entry, _)| format!("{} on GPU {}", entry.whom, before.gpu))
        .collect()
}

#[cfg(test)]
mod tests;
