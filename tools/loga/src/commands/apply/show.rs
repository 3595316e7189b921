// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga config show`: what is in force on each GPU, and where it comes from.

use super::file::{Entry, Settings};
use super::found::called;
use super::{default_files, find, read, Subjects, FILE, FOLDER};
use crate::cli;
use crate::commands::subject::Listed;
use crate::commands::{print_json, Failure, JSON_VERSION};
use crate::control::{Calls, Control, Snapshot};
use crate::directory::Directory;
use crate::names;
use crate::table::fit::grid_within;
use crate::terminal::Sheet;
use loga::knobs::{Config, Knob, KNOBS};
use loga::uapi;
use serde::Serialize;
use std::path::Path;

/// Where a value comes from that nobody set.
const DEFAULT: &str = "default";
/// Where one comes from that no file has.
const BY_HAND: &str = "set by hand, or when the module was loaded";

/// One value; an element of `settings` in `loga config show --json`.
#[derive(Serialize)]
struct Row {
    /// A knob, or the user or cgroup that a share is set for.
    setting: String,
    /// Nothing, if it is in a file and not in force.
    value: Option<String>,
    /// File and line that say so; nothing if no file does.
    from: Option<String>,
    /// What the file says, if it is something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    file_value: Option<String>,
    /// Whether it is the value that the module begins with.
    default: bool,
}

/// One GPU; an object of `loga config show --json`.
#[derive(Serialize)]
struct Line {
    version: u32,
    gpu: u32,
    settings: Vec<Row>,
}

/// Prints what is in force.
///
/// # Errors
///
/// Any [`Failure`].
pub fn run(
    arguments: &cli::ConfigShow,
    control: &Control<impl Calls>,
    directory: &Directory,
    out: &mut impl Sheet,
) -> Result<(), Failure> {
    let files = match arguments.files.as_slice() {
        [] => default_files(Path::new(FILE), Path::new(FOLDER))?,
        files => files.to_vec(),
    };
    let settings = read(&files)?;
    let subjects = find(&settings.shares, directory);
    let mut lines = Vec::new();
    for snapshot in control.all()? {
        let mut rows = knobs(&settings, &snapshot);
        rows.extend(shares(
            &subjects,
            snapshot.gpu,
            &control.shares(snapshot.gpu)?,
            directory,
        ));
        lines.push(Line {
            version: JSON_VERSION,
            gpu: snapshot.gpu,
            settings: rows,
        });
    }
    if arguments.json {
        for line in &lines {
            print_json(out, line)?;
        }
        return Ok(());
    }
    let titles = ["GPU", "SETTING", "VALUE", "FROM"];
    let rows = lines.iter().flat_map(|line| {
        let cells = |row: &Row| {
            let value = row.value.clone().unwrap_or_else(|| "-".to_string());
            vec![
                line.gpu.to_string(),
                row.setting.clone(),
                value,
                row.origin(),
            ]
        };
        line.settings.iter().map(cells)
    });
    let table = grid_within(&titles, &titles[1..], &[], rows.collect(), out.columns());
    writeln!(out, "{}", table.unwrap_or_default())?;
    for one in &subjects.missing {
        writeln!(out, "{}", one.why)?;
    }
    Ok(())
}

impl Row {
    /// Where it comes from, for people.
    fn origin(&self) -> String {
        match (&self.from, &self.file_value, &self.value) {
            (Some(from), _, None) => format!("{from}, not in force: `loga apply`"),
            (Some(from), Some(other), _) => format!("{BY_HAND}; {from} has {other}"),
            (Some(from), None, _) => from.clone(),
            (None, _, _) if self.default => DEFAULT.to_string(),
            (None, _, _) => BY_HAND.to_string(),
        }
    }
}

/// The knobs of a GPU.
fn knobs(settings: &Settings, snapshot: &Snapshot) -> Vec<Row> {
    let config = snapshot.info.config();
    let live = KNOBS.iter().filter(|knob| knob.live);
    live.map(|knob| {
        let number = (knob.get)(&config);
        let wanted = [Some(snapshot.gpu), None]
            .iter()
            .find_map(|gpu| settings.knobs.get(&(*gpu, knob.name)));
        let differs = wanted.filter(|(value, _)| knob.parse(value).ok() != Some(number));
        Row {
            setting: knob.name.to_string(),
            value: Some(word(knob, number)),
            from: wanted.map(|(_, at)| at.to_string()),
            file_value: differs.map(|(value, _)| value.clone()),
            default: number == (knob.get)(&Config::default()),
        }
    })
    .collect()
}

fn word(knob: &Knob, number: u32) -> String {
    knob.written(number).to_string()
}

/// The shares that are set on a GPU, and those that a file has and the GPU has not.
fn shares(
    subjects: &Subjects<'_>,
    gpu: u32,
    set: &[uapi::Share],
    directory: &Directory,
) -> Vec<Row> {
    // One for this GPU goes before one for all.
    let of_gpu = |entry: &Entry| entry.set.gpu == gpu || entry.set.gpu == uapi::ALL_GPUS;
    let entry_of = |kind: u32, id: u64| {
        let of = subjects
            .all()
            .filter(|(entry, subject)| of_gpu(entry) && (subject.kind, subject.id) == (kind, id));
        of.min_by_key(|(entry, _)| entry.set.gpu)
    };
    let listed = Listed::of(directory, set.iter().map(|share| (share.subject, share.id)));
    let mut rows = Vec::new();
    for share in set {
        let value = uapi::SetShare {
            mask: share.mask,
            weight: share.weight,
            limit_pct: share.limit_pct,
            class: share.class,
            target_pct: share.target_pct,
            access: share.access,
            ..Default::default()
        };
        let entry = entry_of(share.subject, share.id).map(|(entry, _)| entry);
        let (is, wanted) = (words(&value), entry.map(|entry| words(&entry.set)));
        rows.push(Row {
            setting: format!(
                "{} {}",
                names::subject(share.subject),
                listed.shown(share.subject, share.id)
            ),
            value: Some(is.clone()),
            from: entry.map(|entry| entry.at.to_string()),
            file_value: wanted.filter(|wanted| *wanted != is),
            default: false,
        });
    }
    let is_set = |subject: (u32, u64)| set.iter().any(|one| (one.subject, one.id) == subject);
    for (entry, subject) in subjects.all() {
        if of_gpu(entry) && !is_set((subject.kind, subject.id)) {
            rows.push(Row {
                setting: called(entry, subject),
                value: None,
                from: Some(entry.at.to_string()),
                file_value: Some(words(&entry.set)),
                default: false,
            });
        }
    }
    rows
}

/// What is set, as `loga set` takes it.
fn words(set: &uapi::SetShare) -> String {
    let has = |bit: u32| set.mask & bit != 0;
    let mut words = Vec::new();
    if has(uapi::SHARE_WEIGHT) {
        words.push(format!("weight={}", set.weight));
    }
    if has(uapi::SHARE_LIMIT) {
        words.push(format!("limit={}", set.limit_pct));
    }
    if has(uapi::SHARE_CLASS) {
        words.push(format!("class={}", names::class(set.class)));
    }
    if has(uapi::SHARE_TARGET) {
        words.push(format!("target={}", set.target_pct));
    }
    if has(uapi::SHARE_ACCESS) {
        words.push(format!("access={}", names::access(set.access)));
    }
    words.join(" ")
}
