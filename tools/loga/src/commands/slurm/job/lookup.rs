// SPDX-License-Identifier: GPL-2.0

//! `[tool]` One job's record, among all that Slurm's commands print when they are asked for a number.
//!
//! The number of a job names other jobs too: the last element of an array has the array's number, the
//! first part of a heterogeneous job that of the whole. Users choose the order of the answers and
//! some of their texts, with newlines. So `squeue` is first asked for numbers alone, in which nobody
//! can write, and from them follows the job's exact name: `N`, `ARRAY_ELEMENT` or `WHOLE+PART`. `scontrol`,
//! `sacct` and `sacctmgr` take that for one record. `squeue` 22.05 prints all parts for it, so texts
//! are taken at fixed positions of fixed rows, each between two numbers of its job.

use super::node::{Job, NodeJob, Programs};

/// Width of a number.
const NUMBER: usize = 24;
/// What names a job, in this order. Each has [`NUMBER`] bytes.
const NUMBERS: [&str; 5] = [
    "ArrayJobID",
    "ArrayTaskID",
    "HetJobID",
    "HetJobOffset",
    "UserID",
];
/// What stands in place of a number that a job does not have.
const NONE: &str = "N/A";

/// The one record of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The job's name for Slurm's commands, which no other job has.
    pub(super) name: String,
    /// The texts that were asked for, each without the spaces at its end.
    pub(super) texts: Vec<String>,
}

impl Job {
    /// What `squeue` has of this job and of no other one, in some columns with their widths in bytes.
    /// `name` is the job's exact name if that is known.
    ///
    /// # Errors
    ///
    /// There is no such record, or more than one; or what it says is of another user's job.
    pub(super) fn record(
        &self,
        name: Option<&str>,
        columns: &[(&str, usize)],
        ask: &impl Programs,
    ) -> Result<Record, String> {
        let name = match name {
            Some(name) => name.to_string(),
            None => self.name(ask)?,
        };
        let texts = self.row(&name, columns, ask)?;
        Ok(Record { name, texts })
    }

    /// The job's exact name.
    fn name(&self, ask: &impl Programs) -> Result<String, String> {
        let id = self.id.to_string();
        let numbers = self.row(&id, &NUMBERS.map(|name| (name, NUMBER)), ask)?;
        let [array, element, whole, part, user] = numbers.as_slice() else {
            return Err("squeue has not all columns".to_string());
        };
        if *user != self.uid.to_string() {
            return Err(format!(
                "job {id} is of user {user} for squeue, of user {} for slurmd",
                self.uid
            ));
        }
        let number = |what: &str, text: &str| {
            let number = digits(text).ok_or_else(|| format!("its {what} is no number: '{text}'"));
            number.map(|number| number.to_string())
        };
        if element != NONE {
            let element = number("ArrayTaskID", element)?;
            return Ok(format!("{}_{element}", number("ArrayJobID", array)?));
        }
        if whole != NONE {
            let part = number("HetJobOffset", part)?;
            return Ok(format!("{}+{part}", number("HetJobID", whole)?));
        }
        Ok(id)
    }

    /// This job's row of what `squeue` prints for a name.
    fn row(
        &self,
        name: &str,
        columns: &[(&str, usize)],
        ask: &impl Programs,
    ) -> Result<Vec<String>, String> {
        let id = [("JobID", NUMBER)];
        let all: Vec<(&str, usize)> = [&id, columns, &id].concat();
        let words = all
            .iter()
            .map(|(column, width)| format!("{column}:{width}"));
        let format = words.collect::<Vec<_>>().join(",");
        // Those of other clusters of a federation have numbers of their own.
        let said = ask(
            "squeue",
            &["-h", "--local", "--states=all", "-j", name, "-O", &format],
        )?;
        let widths: Vec<usize> = all.iter().map(|(_, width)| *width).collect();
        let rows = rows(&said, &widths)?;
        let id = self.id.to_string();
        let mut own = rows.iter().filter(|row| row.first() == Some(&id.as_str()));
        let (row, more) = (own.next(), own.count());
        if more > 0 {
            return Err(format!(
                "squeue has {} rows of job {id}: want one",
                more + 1
            ));
        }
        let row = row.ok_or_else(|| format!("squeue has no row of job {id}"))?;
        let texts = row.get(1..=columns.len()).unwrap_or_default();
        Ok(texts.iter().map(|text| text.to_string()).collect())
    }
}

/// The AdminComment of a job in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// `sacct` has no answer: there is no database, or it is away.
    Away,
    /// No record has this name.
    Nothing,
    /// What is there, without spaces around it.
    Text(String),
}

impl NodeJob<'_> {
    /// What the database has of this job.
    ///
    /// # Errors
    ///
    /// The answer is not of this job alone.
    pub(super) fn stored(&self, name: &str, ask: &impl Programs) -> Result<Stored, String> {
        let columns = "jobidraw,admincomment";
        let asked = ["--local", "-X", "-n", "-P", "-j", name, "-o", columns];
        let Ok(said) = ask("sacct", &asked) else {
            return Ok(Stored::Away);
        };
        if said.trim().is_empty() {
            return Ok(Stored::Nothing);
        }
        let id = self.job.id;
        let begins = |line: &&str| {
            let number = line.split_once('|').map(|(number, _)| number);
            number.is_some_and(|number| digits(number).is_some())
        };
        let records = said.lines().filter(begins).count();
        let own = said
            .strip_prefix(&format!("{id}|"))
            .filter(|_| records == 1);
        let text =
            own.ok_or_else(|| format!("sacct has {records} records: want that of job {id}"))?;
        Ok(Stored::Text(text.trim().to_string()))
    }
}

/// A number as Slurm writes it.
fn digits(text: &str) -> Option<u64> {
    let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok()).flatten()
}

/// Rows of columns of these widths, each without the spaces at its end. The first and the last are the
/// number of the row's job; a text between them may have newlines.
///
/// # Errors
///
/// It does not consist of such rows.
fn rows<'a>(text: &'a str, widths: &[usize]) -> Result<Vec<Vec<&'a str>>, String> {
    let senseless = || "squeue prints no rows of the columns it was asked for".to_string();
    let mut rest = text;
    let mut rows = Vec::new();
    while !rest.is_empty() {
        let mut row = Vec::new();
        for width in widths {
            let (column, after) = rest.split_at_checked(*width).ok_or_else(senseless)?;
            row.push(column.trim_end());
            rest = after;
        }
        rest = rest.strip_prefix('\n').ok_or_else(senseless)?;
        let (first, last) = (row.first(), row.last());
        if first != last || first.is_none_or(|id| digits(id).is_none()) {
            return Err(senseless());
        }
        rows.push(row);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_told_apart_by_their_widths_alone() {
        let widths = [4, 6, 4];
        let two = "17  ab\n7 \x20 17  \n8   \n\n\n\n\n\n8   \n";
        assert!(rows(two, &widths).is_err(), "one column is too long");
        let two = "17  ab\n7 c17  \n8   \n\n\n\n\n\n8   \n";
        let wanted = vec![vec!["17", "ab\n7 c", "17"], vec!["8", "", "8"]];
        assert_eq!(rows(two, &widths), Ok(wanted));
        assert_eq!(rows("", &widths), Ok(Vec::new()));
        for wrong in [
            "17  abcdef17  ",
            "17  abcdef18  \n",
            "x   abcdefx   \n",
            "    abcdef    \n",
            "17  abcdef17  \n17  ",
            "17  abcdéf17  \n",
            "slurm_load_jobs error: Invalid job id specified\n",
        ] {
            assert!(rows(wrong, &widths).is_err(), "{wrong:?}");
        }
    }
}
