// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Texts in a job's record: its Comment and its AdminComment.

use super::lookup::Stored;
use super::{Job, NodeJob, Note, Programs};
use std::time::Duration;

/// Longest comment that is added to, in bytes.
pub(super) const MAX_COMMENT: usize = 900;
/// Width of a comment that `squeue` prints.
const COMMENT: usize = 1024;
/// TIMEOUT: attempts to add to a comment that other nodes add to as well.
const ATTEMPTS: u32 = 5;

/// TIMEOUT: looks at a database that does not have an element of an array yet, together 8 s.
const LOOKS: u32 = 16;
/// Between two of them.
const LOOK: Duration = Duration::from_millis(500);

/// Who keeps a job's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeper {
    /// slurmctld, while the job runs.
    Controller,
    /// slurmdbd, also when it has ended.
    Database,
}

/// A text of a job's record.
#[derive(Clone, Copy, Debug)]
struct Text<'a> {
    /// The job's exact name.
    name: &'a str,
    /// The text's name for `squeue`.
    column: &'a str,
    /// Its name for the other commands.
    field: &'a str,
}

impl NodeJob<'_> {
    /// Adds a line to a text of the job's record, in place of one that this node has there. `column`
    /// is its name for `squeue`, `field` for the other commands.
    pub(super) fn add(
        &self,
        note: &Note,
        column: &str,
        field: &str,
        line: &str,
        ask: &impl Programs,
    ) -> Result<(), String> {
        let name = match &note.name {
            Some(name) => name.clone(),
            None => self.job.record(None, &[], ask)?.name,
        };
        let text = Text {
            name: &name,
            column,
            field,
        };
        let added = self.add_to(Keeper::Controller, text, line, ask);
        if added.is_ok() || field != "AdminComment" {
            return added;
        }
        self.add_to(Keeper::Database, text, line, ask)
    }

    fn add_to(
        &self,
        keeper: Keeper,
        text: Text<'_>,
        line: &str,
        ask: &impl Programs,
    ) -> Result<(), String> {
        for attempt in 0..ATTEMPTS {
            let old = self.old(keeper, text, ask)?;
            let old = old.trim();
            // Not a part of another line: "on n1" of "on n10".
            if old.split("; ").any(|part| part.eq_ignore_ascii_case(line)) {
                return Ok(());
            }
            if old.len() > MAX_COMMENT {
                return Err("it is full".to_string());
            }
            let parts = old
                .split("; ")
                .filter(|part| !matches!(*part, "" | "(null)"));
            // A step that ended earlier wrote less.
            let others = parts.filter(|part| !is_of(part, &self.job.node));
            let new: Vec<&str> = others.chain([line]).collect();
            write(keeper, text, &new.join("; "), ask)?;
            if self.alone {
                return Ok(());
            }
            std::thread::sleep(self.job.pause(attempt));
        }
        Err("other nodes wrote over it".to_string())
    }

    /// What the text is now. The database has what other nodes wrote after the job's end; without an
    /// answer of it, that is what the controller has.
    fn old(&self, keeper: Keeper, text: Text<'_>, ask: &impl Programs) -> Result<String, String> {
        if keeper == Keeper::Database {
            let stored = self.stored_soon(text.name, ask)?;
            if let Stored::Text(stored) = stored {
                if !stored.is_empty() {
                    return Ok(stored);
                }
            }
        }
        let column = [(text.column, COMMENT)];
        let record = self.job.record(Some(text.name), &column, ask)?;
        Ok(record.texts.concat())
    }

    /// What the database has. slurmctld tells it every five seconds that the last element of an array
    /// is one, or which part a job is; `sacctmgr` changes no record of such a name before.
    fn stored_soon(&self, name: &str, ask: &impl Programs) -> Result<Stored, String> {
        let is_plain = name == self.job.id.to_string();
        for _ in 0..LOOKS {
            let stored = self.stored(name, ask)?;
            if is_plain || stored != Stored::Nothing {
                return Ok(stored);
            }
            std::thread::sleep(LOOK);
        }
        self.stored(name, ask)
    }
}

fn write(keeper: Keeper, of: Text<'_>, text: &str, ask: &impl Programs) -> Result<(), String> {
    let (text, name) = (format!("{}={text}", of.field), of.name);
    let written = match keeper {
        Keeper::Controller => ask("scontrol", &["update", &format!("JobId={name}"), &text]),
        Keeper::Database => {
            let which = format!("jobid={name}");
            let modify = ["-i", "modify", "job", "where", &which, "set", &text];
            ask("sacctmgr", &modify)
        }
    };
    written.map(drop)
}

/// Whether a part of a text is GPU seconds on a node. sacctmgr 22.05 writes in small letters.
fn is_of(part: &str, node: &str) -> bool {
    let part = part.to_ascii_lowercase();
    let seconds = part.strip_prefix("loga: ");
    let of = seconds.and_then(|rest| rest.split_once(" gpu s on "));
    let of = of.and_then(|(_, of)| of.split(' ').next());
    of.is_some_and(|of| of.eq_ignore_ascii_case(node))
}

impl Job {
    /// Different from node to node.
    fn pause(&self, attempt: u32) -> Duration {
        let sum = self.node.bytes().fold(7u64, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(byte.into()) % 400
        });
        Duration::from_millis(
            sum.saturating_mul(u64::from(attempt) + 1)
                .saturating_add(50),
        )
    }
}
