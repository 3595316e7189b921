// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga slurm prolog`, `task-epilog` and `epilog`: a job's weight before it, its GPU time
//! after it. Slurm drains a node on which they fail, so they say what went wrong and succeed.
//!
//! The controller does not change the record of a job that has ended, and the Epilog runs after
//! that. So the TaskEpilog, which runs as the job's user before its end, writes the Comment; the
//! Epilog writes the AdminComment, which a user cannot change, where a database of jobs takes it.
//!
//! They ask `loga` and Slurm's commands, which they find on the PATH. The GPU time is that of the
//! job's cgroup with all that were below it. Where Slurm makes no cgroups, or the module had to forget
//! some since the Prolog, it is that of the job's user on this node from Prolog to Epilog; if other
//! jobs of the user with GPUs ran there meanwhile, the record says so.
//!
//! | file | contents |
//! |---|---|
//! | [`grant`] | shards that the job was given |
//! | [`lookup`] | one job among Slurm's answers |
//! | [`notes`] | what the Prolog leaves for the others |
//! | [`record`] | texts in the job's record |
//! | [`wish`] | what the job asks for |

mod grant;
mod lookup;
mod node;
mod notes;
mod record;
mod wish;

pub(super) use notes::{note_for_user, Note};

use super::super::totals;
use super::super::Failure;
use super::controller::{known, Known, Managed};
use super::program::ask;
use crate::cli;
use crate::names::{harmless, Name};
use grant::granted;
use lookup::Record;
pub(super) use node::Job;
use node::{NodeJob, Programs};
use notes::{make_closed, OF_JOB, OF_USER};
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use wish::{is_loose, Wish, MAX_READ};

/// Weight of a shard: that of a program without a setting.
const PER_SHARD: u32 = 100;
/// Largest weight.
const MAX_WEIGHT: u32 = 10_000;
/// Width of what `squeue` says a job asks for.
const ASKED: usize = 128;

/// Before or after a job.
#[derive(Clone, Copy, Debug)]
pub enum Stage<'a> {
    /// Before it, and what the operator allows.
    Prolog(&'a cli::SlurmProlog),
    /// At the end of a task, as the job's user.
    TaskEpilog,
    /// After it.
    Epilog,
}

/// Does one or the other, and says what was done.
///
/// # Errors
///
/// Only if that cannot be printed.
pub fn run(
    arguments: &cli::SlurmJob,
    stage: Stage<'_>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let job = match Job::of(|name| std::env::var(name).ok()) {
        Ok(Some(job)) => job,
        Ok(None) => return Ok(()),
        Err(error) => return Ok(writeln!(out, "{error}")?),
    };
    let alone = std::env::var("SLURM_JOB_NUM_NODES").is_ok_and(|count| count == "1");
    let place = NodeJob {
        arguments,
        job,
        alone,
    };
    let done = match stage {
        Stage::Prolog(options) => place.prolog(options, &ask),
        // One of the node's is enough.
        Stage::TaskEpilog if !is_first(std::env::var("SLURM_LOCALID").ok()) => {
            return Ok(());
        }
        Stage::TaskEpilog => place.task_epilog(&ask),
        Stage::Epilog => place.epilog(&ask),
    };
    let (Ok(line) | Err(line)) = done;
    Ok(writeln!(out, "job {}: {}", place.job.id, harmless(&line))?)
}

/// Whether a task is the first of its step on this node, by its number there.
fn is_first(local: Option<String>) -> bool {
    local.is_none_or(|number| number == "0")
}

impl NodeJob<'_> {
    fn prolog(&self, options: &cli::SlurmProlog, ask: &impl Programs) -> Result<String, String> {
        // Without a note the Epilog would not take the weight back.
        make_closed(&self.arguments.notes)?;
        let before = self.user_ns(ask);
        let mut note = Note {
            uid: self.job.uid,
            before_ns: before.as_ref().ok().copied(),
            others_ns: self.others_ns(ask).ok(),
            ..Note::default()
        };
        note.beside = self.has_others();
        let columns = [("tres-per-node", ASKED), ("comment", MAX_READ)];
        let record = self.job.record(None, &columns, ask);
        let node = match &record {
            Ok(record) => {
                note.name = Some(record.name.clone());
                note.loose = record.texts.first().is_some_and(|asked| is_loose(asked));
                self.of_controller(ask)
            }
            // A controller that did not answer once would keep the job waiting again.
            Err(_) => None,
        };
        note.gpus = node.as_ref().map(gpus).unwrap_or_default();
        let cgroup = self.cgroup();
        note.cgroup = cgroup.as_ref().ok().copied();
        let set = match (cgroup, record) {
            (Ok(cgroup), Ok(record)) => {
                let shards = self.shards(&record.name, node.as_ref(), ask);
                shards.and_then(|shards| self.set(cgroup, shards, &record, options, ask))
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        note.is_set = set.is_ok();
        self.save(&note)?;
        before?;
        set
    }

    fn task_epilog(&self, ask: &impl Programs) -> Result<String, String> {
        let note = note_for_user(&self.arguments.notes, &self.job)?;
        let line = self.got(&note, ask)?;
        self.add(&note, "comment", "Comment", &line, ask)?;
        Ok(line)
    }

    fn epilog(&self, ask: &impl Programs) -> Result<String, String> {
        let path = self.note(OF_JOB);
        let text = fs::read(&path).map_err(|error| format!("{}: {error}", Name::from(&path)))?;
        // They are of no use to another job.
        let _ = fs::remove_file(&path);
        let _ = fs::remove_file(self.note(OF_USER));
        let note: Note = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        if let Some(cgroup) = note.cgroup.filter(|_| note.is_set) {
            // The time is noted all the same.
            let _ = ask("loga", &["set", "--cgroup", &cgroup.to_string(), "--clear"]);
        }
        let line = self.got(&note, ask);
        self.remove_cgroup(&note);
        let line = line?;
        let added = self.add(&note, "admin_comment", "AdminComment", &line, ask);
        added.map_err(|error| format!("{line}; not in its AdminComment: {error}"))?;
        Ok(line)
    }

    /// What the job got since the Prolog, in words.
    fn got(&self, note: &Note, ask: &impl Programs) -> Result<String, String> {
        let (ns, beside) = match self.own_ns(note, ask) {
            Some(own) => (own, ""),
            None => self.user_got(note, ask)?,
        };
        // CAST: for people; 53 bits of nanoseconds are 104 days.
        let seconds = ns as f64 / 1e9;
        let node = &self.job.node;
        Ok(format!("loga: {seconds:.3} GPU s on {node}{beside}"))
    }

    /// What the job's cgroup got, with all that were below it; nothing if that is not known.
    fn own_ns(&self, note: &Note, ask: &impl Programs) -> Option<u64> {
        let (cgroup, others) = (note.cgroup?, note.others_ns?);
        // Those of cgroups for which the module had no room are no longer told apart.
        if !self.is_used() || self.others_ns(ask).ok()? != others {
            return None;
        }
        let number = cgroup.to_string();
        let text = ask("loga", &["totals", "--within", &number, "--json"]);
        totals::gpu_time_of(&text.ok()?, cgroup).ok()
    }

    /// Whether Slurm puts the job's processes into its cgroup: their steps are below it, or Slurm has
    /// removed it after them.
    fn is_used(&self) -> bool {
        let Ok(path) = self.cgroup_path() else {
            return false;
        };
        match fs::read_dir(path) {
            Ok(entries) => entries
                .flatten()
                .any(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())),
            Err(error) => error.kind() == ErrorKind::NotFound,
        }
    }

    /// What the user got since the Prolog, and what is to be said of other jobs.
    fn user_got(&self, note: &Note, ask: &impl Programs) -> Result<(u64, &'static str), String> {
        let before = note.before_ns.ok_or("the Prolog could not read totals")?;
        let after = self.user_ns(ask)?;
        // They were reset meanwhile.
        let got = after.checked_sub(before).unwrap_or(after);
        let last = fs::read_to_string(self.last()).unwrap_or_default();
        // Others were here before this one, or came after it.
        let beside = note.beside || last != self.job.id.to_string();
        Ok((
            got,
            if beside {
                " (with other jobs of the user)"
            } else {
                ""
            },
        ))
    }

    /// GPU time of the cgroups that the module no longer tells apart, on all GPUs of this node.
    fn others_ns(&self, ask: &impl Programs) -> Result<u64, String> {
        let text = ask("loga", &["totals", "--by", "cgroup", "--json"])?;
        totals::gpu_time_of_others(&text)
    }

    /// GPU time of the job's user on all GPUs of this node.
    fn user_ns(&self, ask: &impl Programs) -> Result<u64, String> {
        let text = ask("loga", &["totals", "--by", "user", "--json"])?;
        totals::gpu_time_of(&text, self.job.uid.into())
    }

    /// Shards that the job was given here, not more than the node has.
    fn shards(&self, name: &str, node: Option<&Known>, ask: &impl Programs) -> Result<u64, String> {
        let (id, here) = (self.job.id, &self.job.node);
        let show = ["--local", "-d", "-o", "show", "job", name];
        let shards = granted(&ask("scontrol", &show)?, id, here)?;
        if shards == 0 {
            return Ok(0);
        }
        let most = node.and_then(|node| node.all_shards);
        let most =
            most.ok_or_else(|| format!("scontrol does not say how many shards {here} has"))?;
        Ok(shards.min(most))
    }

    /// Gives the job's cgroup the weight of its shards, and what its comment wants and the operator
    /// allows. What was done, in words.
    fn set(
        &self,
        cgroup: u64,
        shards: u64,
        record: &Record,
        options: &cli::SlurmProlog,
        ask: &impl Programs,
    ) -> Result<String, String> {
        let comment = record.texts.get(1).map(String::as_str).unwrap_or_default();
        let wish = Wish::of_comment(comment.trim()).and_then(|wish| wish.allowed(options));
        let (wish, refused) = match wish {
            Ok(wish) => (wish, String::new()),
            Err(why) => (Wish::default(), format!("; refused of its comment: {why}")),
        };
        let of_shards = (shards > 0).then(|| weight_of(shards));
        let values = [("weight", wish.weight.or(of_shards)), ("limit", wish.limit)];
        let number = cgroup.to_string();
        let mut words = vec!["set".to_string(), "--cgroup".to_string(), number.clone()];
        let mut done = Vec::new();
        for (name, value) in values {
            if let Some(value) = value {
                words.extend([format!("--{name}"), value.to_string()]);
                done.push(format!("{name} {value}"));
            }
        }
        if done.is_empty() {
            return Err(format!("it has no shards, its weight stays{refused}"));
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        ask("loga", &words)?;
        Ok(format!("{} for cgroup {number}{refused}", done.join(", ")))
    }

    /// This node, as far as the controller describes it.
    fn of_controller(&self, ask: &impl Programs) -> Option<Known> {
        let node = &self.job.node;
        let text = ask("scontrol", &["-o", "show", "node", node]).ok()?;
        known(&text).remove(node)
    }

    /// Where the job's cgroup is, or will be.
    fn cgroup_path(&self) -> Result<PathBuf, String> {
        let slice = self.arguments.cgroups.join("system.slice");
        let scopes = [
            "slurmstepd.scope".to_string(),
            format!("{}_slurmstepd.scope", self.job.node),
        ];
        let mut paths = scopes.iter().map(|name| slice.join(name));
        let scope = paths.find(|path| path.is_dir());
        let scope = scope.ok_or("Slurm makes no cgroups here, its weight stays")?;
        Ok(scope.join(format!("job_{}", self.job.id)))
    }

    /// The job's cgroup, made if Slurm has not made it yet: a step's daemon uses what is there.
    fn cgroup(&self) -> Result<u64, String> {
        let path = self.cgroup_path()?;
        let made = fs::create_dir(&path);
        let data = fs::symlink_metadata(&path)
            .ok()
            .filter(|data| data.is_dir());
        match (data, made) {
            (Some(data), _) => Ok(data.ino()),
            (None, Err(error)) => Err(format!("{}: {error}", Name::from(&path))),
            (None, Ok(())) => Err(format!("{} is gone", Name::from(&path))),
        }
    }

    /// Removes the cgroup that the Prolog made, if it is still there: no step has run in it. One that
    /// holds anything stays, as the kernel sees to.
    fn remove_cgroup(&self, note: &Note) {
        let Ok(path) = self.cgroup_path() else {
            return;
        };
        let data = fs::symlink_metadata(&path).ok();
        if data.is_some_and(|data| data.is_dir() && Some(data.ino()) == note.cgroup) {
            let _ = fs::remove_dir(path);
        }
    }
}

/// The GPUs of a node that have a type of ours.
fn gpus(node: &Known) -> Vec<u32> {
    match &node.gpus {
        Managed::Numbered(gpus) => gpus.clone(),
        Managed::Counted(_) => Vec::new(),
    }
}

/// The weight of so many shards.
fn weight_of(shards: u64) -> u32 {
    let shards = u32::try_from(shards).unwrap_or(u32::MAX);
    shards.saturating_mul(PER_SHARD).clamp(1, MAX_WEIGHT)
}

#[cfg(test)]
mod tests;
