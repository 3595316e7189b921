// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The records in a file: JSON of a version, replaced as a whole.

use super::record::{Conditions, Mean, Record, MODELS_MAX};
use super::table::{Exe, History, Key};
use super::NAME_MAX;
use crate::names::Name;
use crate::replace::{replace, New};
use loga::placement::PPM;
use serde::{Deserialize, Serialize};
use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The layout of the file.
const VERSION: u32 = 1;
/// Its name.
pub const NAME: &str = "history.json";
/// Longest file that is read: 4096 programs with eight models of half a KiB each, and some more.
const LENGTH_MAX: u64 = 24 << 20;
/// Longest name of a policy.
const POLICY_MAX: usize = 32;
/// Longest mean of a time, in nanoseconds: a century.
const TIME_MAX: u64 = 100 * 365 * 86_400 * 1_000_000_000;
/// Mode of the file: it has what all users do.
const MODE: u32 = 0o600;

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    version: u32,
    records: Vec<Line>,
}

/// A program.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    uid: u32,
    exe: Exe,
    name: String,
    record: Record,
}

/// The version alone, of any layout.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// The records in a file's text.
///
/// # Errors
///
/// What is wrong, in one line.
pub fn parse(bytes: &[u8]) -> Result<History, String> {
    let plain = |error: serde_json::Error| error.to_string().replace('\n', " ");
    let Version { version } = serde_json::from_slice(bytes).map_err(plain)?;
    if version != VERSION {
        return Err(format!("is of version {version}: want {VERSION}"));
    }
    let whole: Whole = serde_json::from_slice(bytes).map_err(plain)?;
    let mut history = History::default();
    for line in whole.records {
        let Line {
            uid,
            exe,
            name,
            record,
        } = line;
        check(&name, &record).map_err(|error| format!("record of user {uid}: {error}"))?;
        history.put(Key { uid, exe, name }, record)?;
    }
    Ok(history)
}

fn check(name: &str, record: &Record) -> Result<(), String> {
    if name.len() > NAME_MAX || name.chars().any(char::is_control) {
        return Err(format!(
            "name: want at most {NAME_MAX} bytes without control characters"
        ));
    }
    let models = &record.models;
    if models.is_empty() || models.len() > MODELS_MAX {
        return Err(format!("{} models: want 1 to {MODELS_MAX}", models.len()));
    }
    for (at, model) in (1..).zip(models) {
        if models.iter().skip(at).any(|one| one.chip == model.chip) {
            return Err(format!("model {:#x} is there twice", model.chip));
        }
        let times = [model.time, model.gpu, model.waited];
        times.iter().try_for_each(|mean| within(mean, TIME_MAX))?;
        within(&model.want, PPM)?;
        within(&model.copy, PPM)?;
        let parts = [model.want.runs, model.copy.runs, model.time.runs];
        if parts.iter().any(|runs| model.gpu.runs < *runs) {
            return Err("more runs in a part of the means than in all".to_string());
        }
        let Conditions {
            policy, limit_pct, ..
        } = &model.under;
        if policy.len() > POLICY_MAX || *limit_pct > 100 {
            return Err(format!("policy '{policy:.32}', limit {limit_pct}: want a name of at most {POLICY_MAX} bytes and at most 100"));
        }
    }
    Ok(())
}

fn within(mean: &Mean, most: u64) -> Result<(), String> {
    let empty = mean.runs == 0 && *mean != Mean::default();
    if empty || mean.mean > most || mean.deviation > most {
        return Err(format!("a mean of {mean:?}: want at most {most}"));
    }
    Ok(())
}

/// The text of the file.
pub fn text(history: &History) -> Vec<u8> {
    let line = |(key, record): (&Key, &Record)| Line {
        uid: key.uid,
        exe: key.exe,
        name: key.name.clone(),
        record: record.clone(),
    };
    let whole = Whole {
        version: VERSION,
        records: history.all().map(line).collect(),
    };
    // It has neither maps with keys that are no text nor numbers that JSON lacks.
    serde_json::to_vec(&whole).unwrap_or_default()
}

/// The records in a folder; a file that is damaged is set aside. Also returns what is to be said.
pub fn load(folder: &Path) -> (History, Option<String>) {
    let path = folder.join(NAME);
    let why = match read(&path) {
        Ok(None) => return (History::default(), None),
        Ok(Some(bytes)) => match parse(&bytes) {
            Ok(history) => return (history, None),
            Err(error) => error,
        },
        Err(error) => error.to_string(),
    };
    let aside = aside(&path);
    let done = match fs::rename(&path, &aside) {
        Ok(()) => format!("it is set aside as {}", Name::from(&aside)),
        Err(error) => format!("it cannot be set aside: {error}"),
    };
    let said = format!(
        "history {}: {why}; {done}, and begins anew",
        Name::from(&path)
    );
    (History::default(), Some(said))
}

/// Where a damaged file goes.
fn aside(path: &Path) -> PathBuf {
    path.with_extension("damaged")
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    // One byte more, to tell a file that is too long.
    file.take(LENGTH_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LENGTH_MAX {
        return Err(io::Error::other(format!(
            "is longer than {LENGTH_MAX} bytes"
        )));
    }
    Ok(Some(bytes))
}

/// Replaces the file as a whole: after a crash there is the old one or the new one.
///
/// # Errors
///
/// Those of the system.
pub fn save(folder: &Path, history: &History) -> io::Result<()> {
    let path = folder.join(NAME);
    let new = New {
        ending: ".new",
        mode: MODE,
        owner: None,
    };
    replace(&path, &new, &text(history))?;
    File::open(folder)?.sync_all()
}
