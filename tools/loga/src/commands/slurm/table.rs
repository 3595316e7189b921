// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga slurm table`: the table of GPUs, and weights of nodes, once in some seconds.
//!
//! The table has a line `# loga-slurm-table 2 TIME`, with the seconds since 1970, and a line
//! `NODE GPU SCORE AGE SHARDS CPUS MEMORY` for each GPU that may be chosen, the best first: the score
//! from 0 (free) to 1 (full), the age of the figures in seconds, the shards that the GPU has in all,
//! CPUs and memory in MiB that are not allocated on the node. The last three are `-` if the
//! controller does not say. It holds no names of users.

use super::super::Failure;
use super::controller::{known, Known};
use super::program::ask;
use super::waiting;
use super::weights::Weights;
use crate::cli;
use crate::cluster::heard::Heard;
use crate::cluster::nodes::nodes;
use crate::cluster::opinion::Scored;
use crate::cluster::reading::{Answer, Reader};
use crate::names::{harmless, Name};
use crate::replace::{replace, New};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, io, thread};

/// Most GPUs in a table. `packaging/slurm/loga_table.lua` reads no more than this, nor than 2 MiB.
const MAX_ROWS: usize = 16_384;

/// Writes tables, and sets weights, until interrupted.
///
/// # Errors
///
/// Wrong nodes, or a table that cannot be written.
pub fn run(arguments: &cli::SlurmTable, out: &mut impl Write) -> Result<(), Failure> {
    let nodes = nodes(&arguments.nodes).map_err(Failure::Text)?;
    let mut agent = Agent::new(Reader::new(nodes));
    let every = Duration::from_secs(arguments.every);
    loop {
        let start = Instant::now();
        let answers = agent.reader.round();
        agent.take(answers);
        let asked = ask("scontrol", &["-o", "show", "nodes"]);
        let text = asked.unwrap_or_else(|error| {
            eprintln!("loga: {}", harmless(&error));
            String::new()
        });
        let known = known(&text);
        let table = agent.table(&known, seconds_since_1970(), Instant::now());
        if let Some(line) = agent.complaint(&table) {
            eprintln!("loga: {line}");
        }
        if arguments.out == Path::new("-") {
            out.write_all(table.text.as_bytes())?;
            out.flush()?;
        } else {
            write(&arguments.out, &table.text).map_err(|error| {
                Failure::Text(format!("{}: {error}", Name::from(&arguments.out)))
            })?;
        }
        // On a terminal nothing is changed.
        if arguments.out != Path::new("-") {
            for line in waiting::free(&known, ask) {
                eprintln!("loga: {}", harmless(&line));
            }
        }
        if !arguments.no_weights {
            for (weight, nodes) in agent.changes(&known, Instant::now()) {
                let names = format!("NodeName={}", nodes.join(","));
                let weight = format!("Weight={weight}");
                if let Err(error) = ask("scontrol", &["update", &names, &weight]) {
                    let line = format!("{names} {weight}: {error}");
                    eprintln!("loga: {}", harmless(&line));
                }
            }
        }
        if arguments.once {
            return Ok(());
        }
        thread::sleep(every.saturating_sub(start.elapsed()));
    }
}

fn seconds_since_1970() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

/// Writes a file as a whole: a reader sees the old one or the new one.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        fs::create_dir_all(folder)?;
    }
    let new = New {
        ending: ".new",
        // slurmctld may be another user.
        mode: 0o644,
        owner: None,
    };
    replace(path, &new, text.as_bytes())
}

/// What is written for the script.
struct Table {
    text: String,
    /// GPUs that found no room in it.
    left_out: usize,
}

/// What the agent remembers.
struct Agent {
    reader: Reader,
    start: Instant,
    /// The last answer of each node, and what was said of it.
    heard: Vec<Heard>,
    weights: Weights,
    /// Whether it was said that the table has no room for all.
    said_full: bool,
}

impl Agent {
    fn new(reader: Reader) -> Self {
        let heard = reader.nodes().iter().map(|_| Heard::default()).collect();
        Self {
            reader,
            start: Instant::now(),
            heard,
            weights: Weights::default(),
            said_full: false,
        }
    }

    /// Takes the answers of a round. A node that did not answer keeps its last one, which ages.
    fn take(&mut self, answers: Vec<Option<Answer>>) {
        let nodes = self.reader.nodes().iter().zip(&mut self.heard);
        for ((node, heard), answer) in nodes.zip(answers) {
            if let Some(line) = answer.and_then(|answer| heard.take(answer)) {
                let line = format!("{}: {line}", node.name);
                eprintln!("loga: {}", harmless(&line));
            }
        }
    }

    /// Names of nodes, and what is heard of them.
    fn heard(&self) -> impl Iterator<Item = (&str, &Heard)> {
        let names = self.reader.nodes().iter().map(|node| node.name.as_str());
        names.zip(&self.heard)
    }

    /// `time` is that of the table, in seconds since 1970; `now` the same by the clock that answers
    /// have.
    fn table(&self, known: &HashMap<String, Known>, time: u64, now: Instant) -> Table {
        let may_be = |name: &str| known.get(name).is_none_or(|node| node.usable);
        let heard = self.heard().filter(|(name, _)| may_be(name));
        let rows = heard.flat_map(|(name, heard)| {
            let gpus = heard.gpus(now);
            gpus.map(move |(gpu, age)| (name, gpu, age))
        });
        let mut rows: Vec<(&str, Scored, u64)> = rows.collect();
        // The script reads no further than it has to.
        rows.sort_by_key(|(_, gpu, _)| gpu.ppm);
        let left_out = rows.len().saturating_sub(MAX_ROWS);
        let mut text = format!("# loga-slurm-table 2 {time}\n");
        for (name, gpu, age) in rows.into_iter().take(MAX_ROWS) {
            // CAST: at most a million.
            let score = gpu.ppm as f64 / 1e6;
            let node = known.get(name);
            let room = match node.and_then(|node| Some((node, node.shards_of(gpu.gpu)?))) {
                Some((node, shards)) => format!("{shards} {} {}", node.cpus, node.memory_mib),
                None => "- - -".to_string(),
            };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name} {} {score:.3} {age} {room}", gpu.gpu);
        }
        Table { text, left_out }
    }

    /// What to say of GPUs that found no room in the table, if that is new.
    fn complaint(&mut self, table: &Table) -> Option<String> {
        let was = std::mem::replace(&mut self.said_full, table.left_out != 0);
        (table.left_out != 0 && !was).then(|| {
            format!(
                "the table has room for {MAX_ROWS} GPUs: the busiest {} are left out, and no job is \
                 placed there",
                table.left_out
            )
        })
    }

    /// Weights to set now, each with its nodes.
    fn changes(
        &mut self,
        known: &HashMap<String, Known>,
        now: Instant,
    ) -> BTreeMap<u32, Vec<String>> {
        let since = now.saturating_duration_since(self.start);
        // A GPU that Slurm does not hand out draws no job, however free it is.
        let best = |heard: &Heard, node: &Known| {
            let exported = heard.exported();
            let gpus = heard.gpus(now).map(|(gpu, _)| gpu);
            let managed = gpus.filter(|gpu| node.gpus.has(gpu.gpu, exported));
            managed.map(|gpu| gpu.ppm).min()
        };
        let heard: Vec<(String, &Known, Option<u64>)> = self
            .heard()
            .filter_map(|(name, heard)| {
                let node = known.get(name)?;
                Some((name.to_string(), node, best(heard, node)))
            })
            .collect();
        let mut changes: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for (name, node, best) in heard {
            if let Some(weight) = self.weights.decide(&name, node.weight, best, since) {
                changes.entry(weight).or_default().push(name);
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests;
