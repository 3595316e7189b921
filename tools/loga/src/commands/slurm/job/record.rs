// SPDX-License-Identifier: GPL-2.0

//! [tool] Texts in a job's record: its Comment and its AdminComment.

use super::{Job, NodeJob, Programs};
use std::time::Duration;

/// Longest comment that is added to, in bytes.
pub(super) const MAX_COMMENT: usize = 900;
/// TIMEOUT: attempts to add to a comment that other nodes add to as well.
const ATTEMPTS: u32 = 5;

/// Who keeps a job's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeper {
    /// slurmctld, while the job runs.
    Controller,
    /// slurmdbd, also when it has ended.
    Database,
}

impl NodeJob<'_> {
    /// Adds a line to a text of the job's record, in place of one that this node has there. `column`
    /// is its name for `squeue`, `field` for the other commands.
    pub(super) fn add(
        &self,
        column: &str,
        field: &str,
        line: &str,
        ask: &impl Programs,
    ) -> Result<(), String> {
        let column = format!("{column}:1024");
        let added = self.add_to(Keeper::Controller, &column, field, line, ask);
        if added.is_ok() || field != "AdminComment" {
            return added;
        }
        self.add_to(Keeper::Database, &column, field, line, ask)
    }

    fn add_to(
        &self,
        keeper: Keeper,
        column: &str,
        field: &str,
        line: &str,
        ask: &impl Programs,
    ) -> Result<(), String> {
        for attempt in 0..ATTEMPTS {
            let old = self.old(keeper, column, ask)?;
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
            let new = new.join("; ");
            self.write(keeper, field, &new, ask)?;
            if self.alone {
                return Ok(());
            }
            std::thread::sleep(self.job.pause(attempt));
        }
        Err("other nodes wrote over it".to_string())
    }

    /// What the text is now. The database has what other nodes wrote after the job's end; without an
    /// answer of it, that is what the controller has.
    fn old(&self, keeper: Keeper, column: &str, ask: &impl Programs) -> Result<String, String> {
        let id = self.job.id.to_string();
        if keeper == Keeper::Database {
            let stored = ask(
                "sacct",
                &["-X", "-n", "-P", "-j", &id, "-o", "admincomment"],
            );
            if let Some(stored) = stored.ok().filter(|stored| !stored.trim().is_empty()) {
                return Ok(stored);
            }
        }
        ask("squeue", &["-h", "--states=all", "-j", &id, "-O", column])
    }

    fn write(
        &self,
        keeper: Keeper,
        field: &str,
        text: &str,
        ask: &impl Programs,
    ) -> Result<(), String> {
        let (text, id) = (format!("{field}={text}"), self.job.id);
        let written = match keeper {
            Keeper::Controller => ask("scontrol", &["update", &format!("JobId={id}"), &text]),
            Keeper::Database => {
                let which = format!("jobid={id}");
                let modify = ["-i", "modify", "job", "where", &which, "set", &text];
                ask("sacctmgr", &modify)
            }
        };
        written.map(drop)
    }
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
