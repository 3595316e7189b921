// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A controller that answers as `squeue`, `scontrol` and `sacct` of Slurm 22.05 do: for the number of
//! an array or of a heterogeneous job with all of it, in an order that users choose.

use std::fmt::Write as _;

/// A job, as the controller knows it.
#[derive(Clone, Debug)]
pub(super) struct FakeJob {
    pub(super) id: u32,
    pub(super) uid: u32,
    /// The array's number and the element's, as `squeue` prints it.
    pub(super) array: Option<(u32, String)>,
    /// The whole's number and the part's.
    pub(super) het: Option<(u32, u32)>,
    pub(super) name: String,
    pub(super) asked: String,
    pub(super) comment: String,
    pub(super) admin_comment: String,
    /// What was given, by nodes.
    pub(super) given: Vec<(&'static str, &'static str)>,
}

impl FakeJob {
    /// A job that has what it asks for on n1.
    pub(super) fn new(id: u32, asked: &str, given: &'static str) -> Self {
        Self {
            id,
            uid: super::uid(),
            array: None,
            het: None,
            name: "wrap".to_string(),
            asked: asked.to_string(),
            comment: "(null)".to_string(),
            admin_comment: "(null)".to_string(),
            given: vec![("n1", given)],
        }
    }

    /// The name that no other job has.
    pub(super) fn exact(&self) -> String {
        match (&self.array, self.het) {
            (Some((array, element)), _) => format!("{array}_{element}"),
            (None, Some((whole, part))) => format!("{whole}+{part}"),
            (None, None) => self.id.to_string(),
        }
    }

    /// Whether a name means all of it.
    fn is_within(&self, name: &str) -> bool {
        let whole = self.array.as_ref().map(|array| array.0);
        let whole = whole.or(self.het.map(|het| het.0));
        let numbers = [Some(self.id), whole];
        numbers.iter().flatten().any(|id| id.to_string() == name)
    }

    /// Whether `scontrol`, `sacct` and `sacctmgr` take a name for it.
    pub(super) fn is(&self, name: &str) -> bool {
        self.exact() == name || self.is_within(name)
    }

    /// And `squeue`, which does not care for the part.
    fn is_in_queue(&self, name: &str) -> bool {
        let whole = name.split_once('+').map_or(name, |(whole, _)| whole);
        self.is(name) || self.is_within(whole)
    }

    fn column(&self, name: &str) -> String {
        let none = || "N/A".to_string();
        let array = self.array.as_ref();
        match name {
            "JobID" => self.id.to_string(),
            "ArrayJobID" => array.map_or(self.id, |array| array.0).to_string(),
            "ArrayTaskID" => array.map_or_else(none, |array| array.1.clone()),
            "HetJobID" => self.het.map_or_else(none, |het| het.0.to_string()),
            "HetJobOffset" => self.het.map_or_else(none, |het| het.1.to_string()),
            "UserID" => self.uid.to_string(),
            "tres-per-node" => self.asked.clone(),
            "comment" => self.comment.clone(),
            "admin_comment" => self.admin_comment.clone(),
            _ => panic!("{name} is no column"),
        }
    }
}

/// What follows an option.
pub(super) fn option<'a>(arguments: &[&'a str], name: &str) -> &'a str {
    let at = arguments.iter().position(|word| *word == name);
    arguments[at.unwrap_or_else(|| panic!("no {name}")) + 1]
}

/// `squeue -j NAME -O COLUMN:WIDTH,..`. It cuts letters, for which its reader has `?`.
pub(super) fn squeue(jobs: &[FakeJob], arguments: &[&str]) -> Result<String, String> {
    let name = option(arguments, "-j");
    let mut text = String::new();
    let rows = jobs.iter().filter(|job| job.is_in_queue(name));
    for job in rows {
        for column in option(arguments, "-O").split(',') {
            let (column, width) = column.split_once(':').expect("a width");
            let width: usize = width.parse().expect("a width");
            let value = job.column(column);
            let cut = (0..=width.min(value.len()))
                .rev()
                .find(|end| value.is_char_boundary(*end))
                .unwrap_or(0);
            text += &value[..cut];
            let lost = width.min(value.len()) - cut;
            text += &"?".repeat(lost);
            text += &" ".repeat(width - cut - lost);
        }
        text += "\n";
    }
    match text.is_empty() {
        true => Err("squeue: exit status: 1".to_string()),
        false => Ok(text),
    }
}

/// `scontrol -d -o show job NAME`.
pub(super) fn show(jobs: &[FakeJob], name: &str) -> Result<String, String> {
    let mut text = String::new();
    for job in jobs.iter().filter(|job| job.is(name)) {
        let _ = write!(text, "JobId={} JobName={} UserId=", job.id, job.name);
        let _ = write!(text, "root({}) JobState=RUNNING NodeList=n[1-2] ", job.uid);
        let _ = write!(text, "TRES=cpu=1,node=1,billing=1 JOB_GRES=shard:g0:99 ");
        for (nodes, given) in &job.given {
            let _ = write!(text, "  Nodes={nodes} CPU_IDs=0 Mem=0 GRES={given} ");
        }
        let _ = write!(text, "MinCPUsNode=1 WorkDir=/tmp Comment={} ", job.comment);
        let _ = writeln!(text, "TresPerNode={} ", job.asked);
    }
    match text.is_empty() {
        true => Err("scontrol: exit status: 1".to_string()),
        false => Ok(text),
    }
}

/// `sacct -X -n -P -j NAME -o jobidraw,admincomment`, by the texts in the database.
pub(super) fn sacct(jobs: &[FakeJob], stored: &[(u32, String)], name: &str) -> String {
    let rows = jobs.iter().filter(|job| job.is(name));
    let text = |job: &FakeJob| {
        let found = stored.iter().find(|(id, _)| *id == job.id);
        let text = found.map(|(_, text)| text.as_str()).unwrap_or_default();
        format!("{}|{text}\n", job.id)
    };
    rows.map(text).collect()
}
