// SPDX-License-Identifier: GPL-2.0

//! [tool] Texts in a job's record: its Comment and its AdminComment.

use super::{Job, NodeJob, Programs};
use std::time::Duration;

/// Longest comment that is added to, in bytes.
pub(super) const MAX_COMMENT: usize = 900;
/// TIMEOUT: attempts to add to a comment that other nodes add to as well.
const ATTEMPTS: u32 = 5;

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
        let id = self.job.id.to_string();
        let column = format!("{column}:1024");
        for attempt in 0..ATTEMPTS {
            let old = ask("squeue", &["-h", "--states=all", "-j", &id, "-O", &column])?;
            let old = old.trim();
            // Not a part of another line: "on n1" of "on n10".
            if old.split("; ").any(|part| part == line) {
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
            self.write(field, &new, ask)?;
            if self.alone {
                return Ok(());
            }
            std::thread::sleep(self.job.pause(attempt));
        }
        Err("other nodes wrote over it".to_string())
    }

    /// Writes a text of the job's record: in the controller, else in the database of jobs.
    fn write(&self, field: &str, text: &str, ask: &impl Programs) -> Result<(), String> {
        let text = format!("{field}={text}");
        let (job, id) = (
            format!("JobId={}", self.job.id),
            format!("jobid={}", self.job.id),
        );
        let written = ask("scontrol", &["update", &job, &text]);
        if written.is_ok() || field != "AdminComment" {
            return written.map(drop);
        }
        let modify = ["-i", "modify", "job", "where", &id, "set", &text];
        ask("sacctmgr", &modify).map(drop)
    }
}

/// Whether a part of a text is GPU seconds on a node.
fn is_of(part: &str, node: &str) -> bool {
    let seconds = part.strip_prefix("loga: ");
    let of = seconds.and_then(|rest| rest.split_once(" GPU s on "));
    of.and_then(|(_, of)| of.split(' ').next()) == Some(node)
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
