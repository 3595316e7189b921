// SPDX-License-Identifier: GPL-2.0

//! [tool] `loga slurm prolog`, `task-epilog` and `epilog`: a job's weight before it, its GPU time
//! after it. Slurm drains a node on which they fail, so they say what went wrong and succeed.
//!
//! The controller does not change the record of a job that has ended, and the Epilog runs after
//! that. So the TaskEpilog, which runs as the job's user before its end, writes the Comment; the
//! Epilog writes the AdminComment, which a user cannot change, where a database of jobs takes it.
//!
//! They ask `loga` and Slurm's commands, which they find on the PATH. The GPU time is that of the
//! job's user on this node from Prolog to Epilog: the module's totals of cgroups are those of
//! single cgroups, and those of a job's steps are gone when its Epilog runs. If other jobs of the
//! user with GPUs ran there meanwhile, the record says so.

use super::super::totals;
use super::super::Failure;
use super::controller::{known, Managed};
use super::program::ask;
use crate::cli;
use crate::names::{harmless, Name};
use crate::replace::{replace, New};
use serde::{Deserialize, Serialize};
use std::fs;
use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Weight of a shard: that of a program without a setting.
const PER_SHARD: u32 = 100;
/// Largest weight.
const MAX_WEIGHT: u32 = 10_000;
/// Ending of the name of a note for the Epilog.
const OF_JOB: &str = "job";
/// Ending of the name of the copy that the job's user may read.
const OF_USER: &str = "user";
/// Most notes that are looked through.
const MAX_NOTES: usize = 1024;
/// Longest comment that is added to, in bytes.
const MAX_COMMENT: usize = 900;
/// TIMEOUT: attempts to add to a comment that other nodes add to as well.
const ATTEMPTS: u32 = 3;

/// Before or after a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before it.
    Prolog,
    /// At the end of a task, as the job's user.
    TaskEpilog,
    /// After it.
    Epilog,
}

/// The job, by the environment that slurmd gives to its scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    id: u32,
    uid: u32,
    node: String,
}

impl Job {
    /// Nothing for a job without GPUs.
    ///
    /// # Errors
    ///
    /// The variable that is missing or senseless.
    pub(super) fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        if variable("SLURM_JOB_GPUS").is_none_or(|gpus| gpus.is_empty()) {
            return Ok(None);
        }
        let number = |name: &str| {
            let number = variable(name).and_then(|text| text.parse::<u32>().ok());
            number.ok_or_else(|| format!("{name} is missing or no number"))
        };
        let node = variable("SLURMD_NODENAME").unwrap_or_default();
        let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if node.is_empty() || node.starts_with('.') || !node.chars().all(legal) {
            return Err("SLURMD_NODENAME is missing or no name".to_string());
        }
        Ok(Some(Self {
            id: number("SLURM_JOB_ID")?,
            uid: number("SLURM_JOB_UID")?,
            node,
        }))
    }
}

/// What the Prolog leaves for the Epilog.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct Note {
    pub(super) uid: u32,
    /// What the user got before the job, if that is known.
    pub(super) before_ns: Option<u64>,
    /// The cgroup that has a weight.
    pub(super) cgroup: Option<u64>,
    /// Whether other jobs of the user were there before.
    pub(super) beside: bool,
    /// The node's GPUs of types of ours, in the order of their numbers.
    #[serde(default)]
    pub(super) gpus: Vec<u32>,
    /// Whether it asks for shards of no type.
    #[serde(default)]
    pub(super) loose: bool,
}

/// Something that answers what programs are asked.
trait Programs: Fn(&str, &[&str]) -> Result<String, String> {}
impl<F: Fn(&str, &[&str]) -> Result<String, String>> Programs for F {}

/// Does one or the other, and says what was done.
///
/// # Errors
///
/// Only if that cannot be printed.
pub fn run(arguments: &cli::SlurmJob, stage: Stage, out: &mut impl Write) -> Result<(), Failure> {
    let job = match Job::of(|name| std::env::var(name).ok()) {
        Ok(Some(job)) => job,
        Ok(None) => return Ok(()),
        Err(error) => return Ok(writeln!(out, "{error}")?),
    };
    let alone = std::env::var("SLURM_JOB_NUM_NODES").is_ok_and(|count| count == "1");
    let place = Place {
        arguments,
        job,
        alone,
    };
    let done = match stage {
        Stage::Prolog => place.prolog(&ask),
        // One of them is enough.
        Stage::TaskEpilog if std::env::var("SLURM_PROCID").is_ok_and(|rank| rank != "0") => {
            return Ok(());
        }
        Stage::TaskEpilog => place.task_epilog(&ask),
        Stage::Epilog => place.epilog(&ask),
    };
    let (Ok(line) | Err(line)) = done;
    Ok(writeln!(out, "job {}: {}", place.job.id, harmless(&line))?)
}

/// A job on this node.
struct Place<'a> {
    arguments: &'a cli::SlurmJob,
    job: Job,
    /// Whether it has no other node.
    alone: bool,
}

impl Place<'_> {
    fn prolog(&self, ask: &impl Programs) -> Result<String, String> {
        // Without a note the Epilog would not take the weight back.
        make_closed(&self.arguments.notes)?;
        let before = self.user_ns(ask);
        let mut note = Note {
            uid: self.job.uid,
            before_ns: before.as_ref().ok().copied(),
            ..Note::default()
        };
        note.beside = self.has_others();
        let id = self.job.id.to_string();
        let asked = ask("squeue", &["-h", "-j", &id, "-O", "tres-per-node:128"]);
        note.loose = asked.as_deref().is_ok_and(is_loose);
        note.gpus = self.gpus(ask);
        let weighed = self.weigh(asked, ask);
        note.cgroup = weighed.as_ref().ok().map(|(cgroup, _)| *cgroup);
        self.save(&note)?;
        before?;
        weighed.map(|(cgroup, weight)| format!("weight {weight} for cgroup {cgroup}"))
    }

    fn task_epilog(&self, ask: &impl Programs) -> Result<String, String> {
        let note = note_for_user(&self.arguments.notes, &self.job)?;
        let line = self.got(&note, ask)?;
        self.add("comment", "Comment", &line, ask)?;
        Ok(line)
    }

    fn epilog(&self, ask: &impl Programs) -> Result<String, String> {
        let path = self.note(OF_JOB);
        let text = fs::read(&path).map_err(|error| format!("{}: {error}", Name::from(&path)))?;
        // They are of no use to another job.
        let _ = fs::remove_file(&path);
        let _ = fs::remove_file(self.note(OF_USER));
        let note: Note = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        if let Some(cgroup) = note.cgroup {
            // The time is noted all the same.
            let _ = ask("loga", &["set", "--cgroup", &cgroup.to_string(), "--clear"]);
        }
        let line = self.got(&note, ask)?;
        let added = self.add("admin_comment", "AdminComment", &line, ask);
        added.map_err(|error| format!("{line}; not in its AdminComment: {error}"))?;
        Ok(line)
    }

    /// What the user got since the Prolog, in words.
    fn got(&self, note: &Note, ask: &impl Programs) -> Result<String, String> {
        let before = note.before_ns.ok_or("the Prolog could not read totals")?;
        let after = self.user_ns(ask)?;
        // They were reset meanwhile.
        let got = after.checked_sub(before).unwrap_or(after);
        let last = fs::read_to_string(self.last()).unwrap_or_default();
        // Others were here before this one, or came after it.
        let beside = if note.beside || last != self.job.id.to_string() {
            " (with other jobs of the user)"
        } else {
            ""
        };
        // CAST: for people; 53 bits of nanoseconds are 104 days.
        let seconds = got as f64 / 1e9;
        let node = &self.job.node;
        Ok(format!("loga: {seconds:.3} GPU s on {node}{beside}"))
    }

    /// GPU time of the job's user on all GPUs of this node.
    fn user_ns(&self, ask: &impl Programs) -> Result<u64, String> {
        let text = ask("loga", &["totals", "--by", "user", "--json"])?;
        totals::gpu_time_of(&text, self.job.uid.into())
    }

    /// Gives the job's cgroup the weight of its shards: its number, and the weight.
    fn weigh(
        &self,
        asked: Result<String, String>,
        ask: &impl Programs,
    ) -> Result<(u64, u32), String> {
        let cgroup = self.cgroup()?;
        let shards = shards(&asked?).ok_or("it has no shards, its weight stays")?;
        let weight = shards.saturating_mul(PER_SHARD).clamp(1, MAX_WEIGHT);
        let (number, text) = (cgroup.to_string(), weight.to_string());
        ask("loga", &["set", "--cgroup", &number, "--weight", &text])?;
        Ok((cgroup, weight))
    }

    /// The GPUs of this node that have a type of ours, if the controller says so.
    fn gpus(&self, ask: &impl Programs) -> Vec<u32> {
        let node = &self.job.node;
        let text = ask("scontrol", &["-o", "show", "node", node]);
        match text.ok().and_then(|text| known(&text).remove(node)) {
            Some(node) => match node.gpus {
                Managed::Numbered(gpus) => gpus,
                Managed::Counted(_) => Vec::new(),
            },
            None => Vec::new(),
        }
    }

    /// The job's cgroup, made if Slurm has not made it yet: a step's daemon uses what is there.
    fn cgroup(&self) -> Result<u64, String> {
        let slice = self.arguments.cgroups.join("system.slice");
        let scopes = [
            "slurmstepd.scope".to_string(),
            format!("{}_slurmstepd.scope", self.job.node),
        ];
        let scope = scopes
            .iter()
            .map(|name| slice.join(name))
            .find(|path| path.is_dir());
        let scope = scope.ok_or("Slurm makes no cgroups here, its weight stays")?;
        let path = scope.join(format!("job_{}", self.job.id));
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

    /// Adds a line to a text of the job's record. `column` is its name for `squeue`, `field` for
    /// the other commands.
    fn add(
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
            let new = match old {
                "" | "(null)" => line.to_string(),
                _ if old.len() > MAX_COMMENT => return Err("it is full".to_string()),
                _ => format!("{old}; {line}"),
            };
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

    /// Where a note is.
    fn note(&self, ending: &str) -> PathBuf {
        self.arguments.notes.join(self.job.note(ending))
    }

    /// Where the number of the user's last job here is.
    fn last(&self) -> PathBuf {
        let name = format!("{}-{}.last", self.job.node, self.job.uid);
        self.arguments.notes.join(name)
    }

    fn save(&self, note: &Note) -> Result<(), String> {
        let text = serde_json::to_string(note).map_err(|error| error.to_string())?;
        let write = |path: PathBuf, mode, owner, text: &str| {
            let new = New {
                ending: ".new",
                mode,
                owner,
            };
            replace(&path, &new, text.as_bytes())
                .map_err(|error| format!("{}: {error}", Name::from(&path)))
        };
        write(self.note(OF_JOB), 0o600, None, &text)?;
        write(self.last(), 0o644, None, &self.job.id.to_string())?;
        // Nothing that root believes is read from it.
        write(self.note(OF_USER), 0o600, Some(note.uid), &text)
    }

    /// Whether other jobs of the user are here.
    fn has_others(&self) -> bool {
        let entries = fs::read_dir(&self.arguments.notes).into_iter().flatten();
        let of_node = format!("{}-", self.job.node);
        let is_other = |path: &PathBuf| {
            let name = path.file_stem().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(&of_node))
                && path.extension().is_some_and(|ending| ending == OF_JOB)
                && *path != self.note(OF_JOB)
        };
        let paths = entries.flatten().map(|entry| entry.path()).filter(is_other);
        paths.take(MAX_NOTES).any(|path| {
            let text = fs::read(path).unwrap_or_default();
            let note = serde_json::from_slice::<Note>(&text);
            note.is_ok_and(|note| note.uid == self.job.uid)
        })
    }
}

/// What the Prolog left for the job's user.
///
/// # Errors
///
/// There is nothing, in one line.
pub(super) fn note_for_user(notes: &Path, job: &Job) -> Result<Note, String> {
    let path = notes.join(job.note(OF_USER));
    let text = fs::read(&path).map_err(|error| format!("{}: {error}", Name::from(&path)))?;
    serde_json::from_slice(&text).map_err(|error| error.to_string())
}

impl Job {
    /// The name of a note.
    fn note(&self, ending: &str) -> String {
        format!("{}-{}.{ending}", self.node, self.id)
    }

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

/// Makes the folder of the notes. One in which other users can write would let them choose what root
/// reads, and whose file root writes.
fn make_closed(folder: &Path) -> Result<(), String> {
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o711).create(folder);
    let data = made.and_then(|()| fs::symlink_metadata(folder));
    let data = data.map_err(|error| format!("{}: {error}", Name::from(folder)))?;
    let own = data.uid() == nix::unistd::geteuid().as_raw();
    if data.is_dir() && own && data.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(format!(
        "{}: want a folder that only the user of the Prolog can write",
        Name::from(folder)
    ))
}

/// `gres:shard:g1:2`, as Slurm 22.05 says it, or `gres/shard:g1:2`: `:g1:2`.
fn of_shards(text: &str) -> Option<&str> {
    text.trim().split(',').find_map(|part| {
        let part = part.strip_prefix("gres").unwrap_or(part);
        part.trim_start_matches([':', '/']).strip_prefix("shard")
    })
}

/// Whether it asks for shards of no type, as `shard` and `shard:2` do, and for nothing else.
fn is_loose(text: &str) -> bool {
    let digits = |count: &str| count.bytes().all(|byte| byte.is_ascii_digit());
    let of_no_type = |part: &str| part.strip_prefix(':').is_none_or(digits);
    !text.contains(',') && of_shards(text).is_some_and(of_no_type)
}

/// How many shards it asks for.
fn shards(text: &str) -> Option<u32> {
    let part = of_shards(text)?;
    let last = part.rsplit(':').next().filter(|last| !last.is_empty());
    last.map_or(Some(1), |last| last.parse().ok())
}

#[cfg(test)]
mod tests;
