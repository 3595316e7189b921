// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Who got how much in a recording.

use super::convert::{exact, Context};
use super::known::{Known, Who};
use super::layout::{Amounts, Event, Gap, Gpu, Line, Owner, Sample, Start};
use super::reader::Reader;
use crate::names::Name;
use std::collections::BTreeMap;
use std::io::BufRead;

/// Events that are listed one by one.
pub const LISTED: usize = 200;
/// Kinds of events that are only counted.
const COUNTED: [&str; 4] = ["appeared", "throttled", "released", "exited"];

/// What one client got.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// Process.
    pub pid: i32,
    /// User.
    pub uid: u32,
    /// Command, as it was last.
    pub comm: Name,
    /// Path of its cgroup.
    pub cgroup: Option<Name>,
    /// What it got.
    pub got: Amounts,
    /// Times it was throttled.
    pub throttles: u64,
    /// When it was seen first and last.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
}

/// What a user or a cgroup got.
#[derive(Clone, Debug, Default)]
pub struct Total {
    /// Its name.
    pub name: Option<Name>,
    /// What it got.
    pub got: Amounts,
}

/// One GPU.
#[derive(Clone, Debug, Default)]
pub struct Board {
    /// What the header says.
    pub about: Option<Gpu>,
    /// Policies in force, in the order of their first sample.
    pub policies: Vec<String>,
    /// What times are parts of.
    pub span_ns: u64,
    /// Time polled, and parts of it; 0 if they are withheld.
    pub polled_ns: u64,
    /// See `polled_ns`.
    pub busy_ns: u64,
    /// See `polled_ns`.
    pub unknown_ns: u64,
    /// Clients.
    pub clients: BTreeMap<Who, Client>,
    /// Users.
    pub users: BTreeMap<Option<u64>, Total>,
    /// Cgroups.
    pub cgroups: BTreeMap<Option<u64>, Total>,
    /// Events by kind.
    pub events: BTreeMap<String, u64>,
    /// Those that are listed: when, what, and about whom.
    pub listed: Vec<(u64, String, String)>,
}

impl Board {
    /// Clients, most GPU time first.
    pub fn ranked(&self) -> Vec<(Who, &Client)> {
        let mut ranked: Vec<_> = self.clients.iter().map(|(who, one)| (*who, one)).collect();
        ranked.sort_by_key(|(who, one)| (std::cmp::Reverse(one.got.gpu_time_ns), *who));
        ranked
    }
}

/// A recording.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The header.
    pub start: Start,
    /// Time of the last line.
    pub end_ns: u64,
    /// Samples of all GPUs.
    pub samples: u64,
    /// Events that were lost.
    pub lost: u64,
    /// Times without figures, and until when.
    pub gaps: Vec<(Gap, Option<u64>)>,
    /// The GPUs.
    pub boards: BTreeMap<u32, Board>,
    /// Names of users, and the clock.
    pub context: Context,
    /// What is to be said of the end of the file.
    pub note: Option<String>,
    /// The line that is wrong; only what is before it counts.
    pub damage: Option<String>,
    known: Known,
}

impl Summary {
    /// Of all lines of a recording.
    pub fn of<R: BufRead>(reader: &mut Reader<R>) -> Self {
        let start = reader.start().clone();
        let mut summary = Self {
            end_ns: start.time_ns,
            ..Self::default()
        };
        summary.name(&start.gpus);
        summary.context.learn(&Line::Start(start.clone()));
        summary.start = start;
        loop {
            match reader.line() {
                Ok(Some(line)) => summary.add(&line),
                Ok(None) => break,
                Err(damage) => {
                    summary.damage = Some(damage);
                    break;
                }
            }
        }
        summary.note = reader.note().map(str::to_string);
        summary
    }

    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.end_ns.saturating_sub(self.start.time_ns) as f64 / 1e9
    }

    fn add(&mut self, line: &Line) {
        self.context.learn(line);
        self.end_ns = self.end_ns.max(time_ns(line));
        match line {
            Line::Start(Start { gpus, .. }) => {
                self.known.begin_anew();
                self.name(gpus);
            }
            Line::Resume(resume) => {
                self.known.begin_anew();
                self.name(&resume.gpus);
                if let Some((_, until)) = self.gaps.last_mut() {
                    until.get_or_insert(resume.time_ns);
                }
            }
            Line::Sample(sample) => self.sample(sample),
            Line::Event(event) => self.event(event),
            Line::Gap(gap) => self.gaps.push((gap.clone(), None)),
            Line::End(_) => {}
        }
    }

    fn name(&mut self, gpus: &[Gpu]) {
        for gpu in gpus {
            let board = self.boards.entry(gpu.gpu).or_default();
            board.about = Some(gpu.clone());
        }
    }

    fn sample(&mut self, sample: &Sample) {
        self.samples += 1;
        let board = self.boards.entry(sample.gpu).or_default();
        board.span_ns = board.span_ns.saturating_add(sample.span_ns());
        if let Some(whole) = &sample.whole {
            board.polled_ns = board.polled_ns.saturating_add(whole.polled_ns);
            board.busy_ns = board.busy_ns.saturating_add(whole.busy_ns);
            board.unknown_ns = board.unknown_ns.saturating_add(whole.unknown_ns);
        }
        if !board.policies.contains(&sample.policy) {
            board.policies.push(sample.policy.clone());
        }
        for client in &sample.clients {
            let who = (self.known).who(sample.gpu, client.id, client.pid, client.uid);
            let sum = board.clients.entry(who).or_default();
            sum.pid = client.pid;
            sum.uid = client.uid;
            sum.comm = client.exact_comm();
            sum.cgroup = client.exact_path();
            sum.got.add(client.got);
            sum.seen(sample.time_ns);
        }
        totals(&mut board.users, &sample.users);
        totals(&mut board.cgroups, &sample.cgroups);
    }

    fn event(&mut self, event: &Event) {
        let what = &event.what;
        self.lost = self.lost.saturating_add(what.lost);
        let board = self.boards.entry(what.gpu).or_default();
        *board.events.entry(what.event.clone()).or_default() += 1;
        let mut about = String::new();
        if let Some(client) = &what.client {
            let comm = exact(&client.comm, client.comm_hex.as_deref());
            about = format!("{} {comm}", client.pid);
            let who = (self.known).who(what.gpu, client.client, client.pid, client.uid);
            let sum = board.clients.entry(who).or_default();
            (sum.pid, sum.uid, sum.comm) = (client.pid, client.uid, comm);
            sum.throttles += u64::from(what.event == "throttled");
            let rest_ns = event.rest_ns.unwrap_or(0);
            sum.got.gpu_time_ns = sum.got.gpu_time_ns.saturating_add(rest_ns);
            sum.seen(what.time_ns);
        }
        if !COUNTED.contains(&what.event.as_str()) && board.listed.len() < LISTED {
            let more = what.fallback.clone();
            let more = more.or_else(|| what.policy.as_ref().map(Name::to_string));
            let about = format!("{about}{}", more.unwrap_or_default());
            board.listed.push((what.time_ns, what.event.clone(), about));
        }
    }
}

impl Client {
    fn seen(&mut self, time_ns: u64) {
        if self.last_ns == 0 {
            self.first_ns = time_ns;
        }
        self.last_ns = time_ns;
    }
}

fn totals(sums: &mut BTreeMap<Option<u64>, Total>, owners: &[Owner]) {
    for owner in owners {
        let sum = sums.entry(owner.id).or_default();
        sum.got.add(owner.got);
        if owner.name.is_some() {
            sum.name = owner.exact_name();
        }
    }
}

/// When a line was written.
fn time_ns(line: &Line) -> u64 {
    match line {
        Line::Start(start) => start.time_ns,
        Line::Sample(sample) => sample.time_ns,
        Line::Event(event) => event.what.time_ns,
        Line::Gap(gap) => gap.time_ns,
        Line::Resume(resume) => resume.time_ns,
        Line::End(end) => end.time_ns,
    }
}
