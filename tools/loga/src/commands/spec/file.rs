// SPDX-License-Identifier: GPL-2.0

//! [tool] The lines of a spec file: those of TimeGraph, with more selectors.

use super::Running;
use crate::names;
use loga::uapi::{self, SetSpec, Spec, FIELDS};
use std::fmt;
use std::path::{Path, PathBuf};

/// Columns of a line.
const COLUMNS: [&str; 6] = ["name", "sched", "resv", "prio", "C", "T"];
/// Most bytes of the name of a process.
const COMM_MAX: usize = 15;

/// What a line is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selector {
    /// Processes of this name.
    Name(String),
    /// Processes of this program.
    Exe(PathBuf),
    /// All processes of a user together.
    User(String),
    /// All processes of a cgroup together.
    Cgroup(String),
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::Name(name) => f.write_str(name),
            Selector::Exe(path) => path.display().fmt(f),
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
            Selector::Name(name) => process.comm == *name,
            Selector::Exe(path) => process.exe.as_ref() == Some(path),
            Selector::User(_) | Selector::Cgroup(_) => false,
        }
    }
}

/// What is wrong with a file: `LINE:COLUMN: why`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    line: usize,
    column: usize,
    why: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.why)
    }
}

/// All lines of a file.
pub(super) fn parse(text: &str) -> Result<Vec<Entry>, Wrong> {
    let mut entries: Vec<Entry> = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim().is_empty() || text.trim_start().starts_with('#') {
            continue;
        }
        let wrong = |(column, why)| Wrong { line, column, why };
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
    let mut column = 1;
    let mut words: Vec<(usize, &str)> = Vec::new();
    for word in text.split(':') {
        let begin = word.len() - word.trim_start().len();
        words.push((column + begin, word.trim()));
        column += word.len() + 1;
    }
    let Ok([name, sched, resv, prio, c, t]) = <[(usize, &str); 6]>::try_from(words.clone()) else {
        let (at, _) = words
            .get(COLUMNS.len())
            .copied()
            .unwrap_or((column - 1, ""));
        let (want, have) = (COLUMNS.join(":"), words.len());
        return Err((at, format!("want 6 columns, {want}, not {have}")));
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
        selector: selector(name)?,
        spec,
    })
}

fn selector((column, text): (usize, &str)) -> Result<Selector, Bad> {
    let given = |rest: &str| match rest {
        "" => Err((column, "want a name after =".to_string())),
        rest => Ok(rest.to_string()),
    };
    if let Some(path) = text.strip_prefix("exe=") {
        let path = given(path)?;
        if !Path::new(&path).is_absolute() {
            return Err((column, format!("want an absolute path, not '{path}'")));
        }
        return Ok(Selector::Exe(path.into()));
    }
    if let Some(user) = text.strip_prefix("@user=") {
        return given(user).map(Selector::User);
    }
    if let Some(cgroup) = text.strip_prefix("@cgroup=") {
        return given(cgroup).map(Selector::Cgroup);
    }
    match text {
        "" => Err((column, "want the name of a program".to_string())),
        text if text.starts_with('@') => {
            Err((column, format!("want @user= or @cgroup=, not '{text}'")))
        }
        // The kernel cuts names so.
        text => Ok(Selector::Name(
            String::from_utf8_lossy(&text.as_bytes()[..text.len().min(COMM_MAX)]).into_owned(),
        )),
    }
}

/// Position of a word in a list, in capitals as the paper has it or not.
fn word((column, text): (usize, &str), words: &[&str]) -> Result<u32, Bad> {
    names::number(words, &text.to_lowercase()).ok_or_else(|| {
        let words = words.join(", ").to_uppercase();
        (column, format!("want one of {words}, not '{text}'"))
    })
}

/// A number; nothing for `-`.
fn optional((column, text): (usize, &str)) -> Result<Option<u64>, Bad> {
    match text {
        "-" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            let why = format!("want a whole number or -, not '{text}'");
            (column, why)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        parse(text).expect_err(text).to_string()
    }

    #[test]
    fn lines_of_the_paper_are_read() {
        let text = "# a comment\n\nglxgears:HT:PE:20:2500:25000\n \
                    exe=/usr/bin/player : prt : - : - : - : -\n@user=ann:PRT:CBS:0:10:1000\n";
        let entries = parse(text).expect("a good file");
        let [gears, player, ann] = entries.as_slice() else {
            panic!("{entries:?}");
        };
        assert_eq!(
            (gears.line, gears.selector.to_string()),
            (3, "glxgears".into())
        );
        assert_eq!(
            (gears.spec.mode, gears.spec.kind),
            (uapi::MODE_HT, uapi::RESERVE_PE)
        );
        assert_eq!((gears.spec.prio, gears.spec.commands), (20, 1));
        assert_eq!(gears.spec.capacity_ns, 2_500_000);
        assert_eq!(player.selector, Selector::Exe("/usr/bin/player".into()));
        assert_eq!(
            (player.spec.prio, player.spec.kind),
            (uapi::PRIO_BY_NICE, 0)
        );
        assert_eq!((ann.line, ann.spec.kind), (5, uapi::RESERVE_CBS));
    }

    #[test]
    fn wrong_lines_are_refused_with_line_and_column() {
        for (text, said) in [
            (
                "a:HT:PE:20:2500",
                "1:16: want 6 columns, name:sched:resv:prio:C:T, not 5",
            ),
            (
                "a:HT:PE:20:2500:25000:1",
                "1:23: want 6 columns, name:sched:resv:prio:C:T, not 7",
            ),
            (
                "\na:FIFO:PE:20:2500:25000",
                "2:3: want one of PRT, HT, FREE, not 'FIFO'",
            ),
            (
                "a:HT:BE:20:2500:25000",
                "1:6: want one of PE, AE, CBS, not 'BE'",
            ),
            (
                "a:HT:PE:40:2500:25000",
                "1:9: prio=40 is out of range, want 0 to 39",
            ),
            (
                "a:HT:PE:-1:2500:25000",
                "1:9: want a whole number or -, not '-1'",
            ),
            (
                "a:HT:PE:20:26000:25000",
                "1:12: capacity_us=26000 is out of range, want 10 to 25000",
            ),
            (
                "a:HT:PE:20:100:999",
                "1:16: period_us=999 is out of range, want 1000 to 10000000",
            ),
            (
                "a:HT:PE:20:-:25000",
                "1:12: want microseconds for a reserve",
            ),
            ("a:HT:-:20:-:25000", "1:13: want - without a reserve"),
            (":HT:-:20:-:-", "1:1: want the name of a program"),
            (
                "@uid=7:HT:-:20:-:-",
                "1:1: want @user= or @cgroup=, not '@uid=7'",
            ),
            (
                "exe=gears:HT:-:20:-:-",
                "1:1: want an absolute path, not 'gears'",
            ),
            (
                "a:HT:-:1:-:-\na:HT:-:2:-:-",
                "2:1: line 1 is for the same already",
            ),
            (
                "a:HT:PE:99999999999:2500:25000",
                "1:9: prio=4294967294 is out of range",
            ),
        ] {
            assert!(wrong(text).starts_with(said), "{text}: {}", wrong(text));
        }
    }

    #[test]
    fn process_is_named_by_its_cut_name_or_its_program() {
        let process = Running {
            pid: 7,
            comm: "a-rather-long-n".into(),
            exe: Some("/usr/bin/x".into()),
        };
        let names = |line: &str| parse(line).expect(line)[0].names(&process);
        assert!(names("a-rather-long-name:HT:-:1:-:-"));
        assert!(!names("a-rather:HT:-:1:-:-"));
        assert!(names("exe=/usr/bin/x:HT:-:1:-:-"));
        assert!(!names("exe=/usr/bin/y:HT:-:1:-:-"));
        assert!(!names("@user=x:HT:-:1:-:-"));
    }
}
