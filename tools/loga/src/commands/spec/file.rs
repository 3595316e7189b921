// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The lines of a spec file: those of TimeGraph, with more selectors.

use super::running::Running;
use crate::names;
use crate::names::{harmless, is_plain, Name, Wrong};
use loga::uapi::{self, SetSpec, Spec, FIELDS};
use std::fmt;

/// Columns of a line.
const COLUMNS: [&str; 6] = ["name", "sched", "resv", "prio", "C", "T"];
/// Most bytes of the name of a process.
const COMM_MAX: usize = 15;
/// What comes before a name that is not that of a process.
const EXE: &str = "exe=";
const USER: &str = "@user=";
const CGROUP: &str = "@cgroup=";
const KINDS: [&str; 3] = [EXE, USER, CGROUP];

/// What a line is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selector {
    /// Processes of this name.
    Comm(Name),
    /// Processes of this program.
    Exe(Name),
    /// All processes of a user together.
    User(Name),
    /// All processes of a cgroup together.
    Cgroup(Name),
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::Comm(name) | Selector::Exe(name) => name.fmt(f),
            Selector::User(user) => write!(f, "of user {user}"),
            Selector::Cgroup(cgroup) => write!(f, "of cgroup {cgroup}"),
        }
    }
}

/// A line.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Its number in the file, from 1 on.
    pub(super) line: usize,
    pub(super) selector: Selector,
    /// What it sets; the subject is still to be filled in.
    pub(super) spec: Spec,
}

impl Entry {
    /// Whether it names a process.
    pub(super) fn names(&self, process: &Running) -> bool {
        match &self.selector {
            Selector::Comm(name) => process.comm == *name,
            Selector::Exe(path) => process.exe.as_ref() == Some(path),
            Selector::User(_) | Selector::Cgroup(_) => false,
        }
    }
}

/// What is wrong with a file: `LINE:COLUMN: why`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    line: usize,
    column: usize,
    why: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.why)
    }
}

/// All lines of a file.
pub(super) fn parse(text: &str) -> Result<Vec<Entry>, Fault> {
    let mut entries: Vec<Entry> = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim().is_empty() || text.trim_start().starts_with('#') {
            continue;
        }
        let wrong = |(column, why)| Fault { line, column, why };
        let entry = entry(line, text).map_err(wrong)?;
        if let Some(same) = entries.iter().find(|one| one.selector == entry.selector) {
            let why = format!("line {} is for the same already", same.line);
            return Err(wrong((1, why)));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// A column and what is wrong there.
type Bad = (usize, String);

fn entry(line: usize, text: &str) -> Result<Entry, Bad> {
    let (selector, end) = first(text)?;
    let mut column = 1;
    let mut words: Vec<(usize, &str)> = Vec::new();
    let (head, rest) = text.split_at(end);
    for word in std::iter::once(head).chain(rest.split(':').skip(1)) {
        let begin = word.len() - word.trim_start().len();
        words.push((column + begin, word.trim()));
        column += word.len() + 1;
    }
    let Ok([_, sched, resv, prio, c, t]) = <[(usize, &str); 6]>::try_from(words.clone()) else {
        let (at, _) = words
            .get(COLUMNS.len())
            .copied()
            .unwrap_or((column - 1, ""));
        let (want, have) = (COLUMNS.join(":"), words.len());
        let colon = match have > COLUMNS.len() {
            true => "; a name with a colon has to be in double quotes",
            false => "",
        };
        return Err((at, format!("want 6 columns, {want}, not {have}{colon}")));
    };
    let spec = Spec {
        mode: word(sched, &names::MODES)?,
        kind: if resv.1 == "-" {
            uapi::RESERVE_NONE
        } else {
            word(resv, &names::RESERVES[1..])? + 1
        },
        prio: optional(prio)?
            .map(|prio| u32::try_from(prio).unwrap_or(u32::MAX - 1))
            .unwrap_or(uapi::PRIO_BY_NICE),
        ..Default::default()
    };
    let (capacity, period) = (optional(c)?, optional(t)?);
    let spec = match (spec.kind, capacity, period) {
        (uapi::RESERVE_NONE, None, None) => spec,
        (uapi::RESERVE_NONE, Some(_), _) => return Err((c.0, "want - without a reserve".into())),
        (uapi::RESERVE_NONE, _, Some(_)) => return Err((t.0, "want - without a reserve".into())),
        (_, Some(capacity), Some(period)) => Spec {
            capacity_ns: capacity.saturating_mul(1000),
            period_ns: period.saturating_mul(1000),
            commands: 1,
            ..spec
        },
        (_, None, _) => return Err((c.0, "want microseconds for a reserve".into())),
        (_, _, None) => return Err((t.0, "want microseconds for a reserve".into())),
    };
    // The kernel's own check, on a subject that is always there.
    let set = SetSpec {
        action: uapi::ACTION_SET,
        spec,
        ..Default::default()
    };
    set.check().map_err(|refusal| {
        let field = FIELDS.get(refusal.field as usize).copied();
        let column = match field {
            Some("mode") => sched.0,
            Some("reserve") => resv.0,
            Some("prio") => prio.0,
            Some("capacity_us") => c.0,
            Some("period_us") => t.0,
            _ => 1,
        };
        (column, refusal.to_string())
    })?;
    Ok(Entry {
        line,
        selector: selector?,
        spec,
    })
}

/// The first column, which is about a name, and where it ends in the text. What is wrong with the
/// name is said once the other columns are right.
fn first(text: &str) -> Result<(Result<Selector, Bad>, usize), Bad> {
    let begin = text.len() - text.trim_start().len();
    let word = text.get(begin..).unwrap_or_default();
    let kind = KINDS.into_iter().find(|kind| word.starts_with(kind));
    let name_at = begin + kind.map_or(0, str::len);
    let rest = text.get(name_at..).unwrap_or_default();
    let (name, end) = if rest.starts_with('"') {
        let bad = |wrong: Wrong| (name_at + wrong.at + 1, wrong.why);
        let (name, length) = Name::read_quoted(rest).map_err(bad)?;
        let after = rest.get(length..).unwrap_or_default();
        let blank = after.len() - after.trim_start().len();
        let end = name_at + length + blank;
        if !after.trim_start().is_empty() && !after.trim_start().starts_with(':') {
            return Err((end + 1, "want a colon after the second \"".to_string()));
        }
        (Ok(name), end)
    } else {
        let length = rest.find(':').unwrap_or(rest.len());
        let bare = rest.get(..length).unwrap_or_default().trim();
        let unknown = || format!("want @user= or @cgroup=, not '{}'", harmless(bare));
        let unseen = || {
            format!(
                "want {} as the name: it cannot be seen as it is",
                Name::from(bare)
            )
        };
        let name = match kind {
            None if bare.starts_with('@') => Err((begin + 1, unknown())),
            _ if !bare.chars().all(is_plain) => Err((name_at + 1, unseen())),
            _ => Ok(Name::from(bare)),
        };
        (name, name_at + length)
    };
    let selector = name.and_then(|name| selector(begin + 1, kind, name));
    Ok((selector, end))
}

fn selector(column: usize, kind: Option<&str>, name: Name) -> Result<Selector, Bad> {
    let bytes = name.as_bytes();
    match kind {
        Some(_) if bytes.is_empty() => Err((column, "want a name after =".to_string())),
        Some(EXE) if bytes.starts_with(b"/") => Ok(Selector::Exe(name)),
        Some(EXE) => Err((column, format!("want an absolute path, not '{name}'"))),
        Some(USER) => Ok(Selector::User(name)),
        Some(_) => Ok(Selector::Cgroup(name)),
        None if bytes.is_empty() => Err((column, "want the name of a program".to_string())),
        // The kernel cuts names so.
        None => Ok(Selector::Comm(
            bytes.get(..COMM_MAX).unwrap_or(bytes).into(),
        )),
    }
}

/// Position of a word in a list, in capitals as the paper has it or not.
fn word((column, text): (usize, &str), words: &[&str]) -> Result<u32, Bad> {
    names::number(words, &text.to_lowercase()).ok_or_else(|| {
        let words = words.join(", ").to_uppercase();
        (
            column,
            format!("want one of {words}, not '{}'", harmless(text)),
        )
    })
}

/// A number; nothing for `-`.
fn optional((column, text): (usize, &str)) -> Result<Option<u64>, Bad> {
    match text {
        "-" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            let why = format!("want a whole number or -, not '{}'", harmless(text));
            (column, why)
        }),
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
