// SPDX-License-Identifier: GPL-2.0

//! The scenario file as it is written. `docs/scenarios.md` explains every key.

use super::costs::Costs;
use super::kind::Kind;
use super::time::{Micros, Millis, Span};
use loga::account::Accounting;
use loga::knobs::{Knob, Scale};
use loga::names::Value;
use loga::policies::dispatch::DispatcherKind;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

/// A scenario file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// Length of the simulated time.
    pub(super) length_ms: Millis,
    /// Number of seeds, each a run.
    #[serde(default = "one")]
    pub(super) seeds: Spanned<u64>,
    /// Name of the client at the end of which the run ends.
    pub(super) until: Option<Spanned<String>>,
    /// The scheduler.
    #[serde(default)]
    pub(super) policy: Policy,
    /// What things cost.
    #[serde(default)]
    pub(super) costs: Costs,
    /// The GPUs.
    #[serde(default = "one_gpu", rename = "gpu")]
    pub(super) gpus: Spanned<Vec<Gpu>>,
    /// The processors that clients share.
    #[serde(default = "no_cpus", rename = "cpu")]
    pub(super) cpus: Spanned<Vec<Cpu>>,
    /// Reserves that clients share.
    #[serde(default, rename = "reserve")]
    pub(super) reserves: Vec<WrittenShared>,
    /// The clients.
    #[serde(rename = "client")]
    pub(super) clients: Spanned<Vec<Client>>,
}

/// The scheduler and its parameters.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Which one.
    #[serde(rename = "name", deserialize_with = "kind")]
    pub kind: Kind,
    /// Of a policy of LoGA: by what order each submission is decided on, beside it.
    #[serde(deserialize_with = "dispatch")]
    pub dispatch: Option<DispatcherKind>,
    /// Whether clients are throttled. Otherwise it only accounts.
    pub enforce: bool,
    /// What the GPU is divided between.
    pub by: Between,
    /// Polling phase per channel in ms.
    #[serde(deserialize_with = "poll_ms")]
    pub poll_ms: u32,
    /// Non-polling phase in polling phases.
    #[serde(deserialize_with = "ratio")]
    pub ratio: u32,
    /// Whether the lengths of phases vary.
    pub randomize: bool,
    /// What phases grow with.
    #[serde(deserialize_with = "scale")]
    pub scale: Option<Scale>,
    /// How GPU time is accounted.
    #[serde(deserialize_with = "accounting")]
    pub accounting: Option<Accounting>,
    /// Whether there are no non-polling phases.
    pub poll_always: bool,
    /// Whether submissions are trapped while `sampling` watches a client.
    pub trap: bool,
    /// Whether a client that is throttled keeps its processor.
    pub throttled_spins: bool,
    /// How many times the weight of a client counts on its processor while it alone may submit.
    #[serde(deserialize_with = "cpu_boost")]
    pub cpu_boost: u32,
    /// Of the baselines: time to hand a command to the host's scheduler.
    #[serde(rename = "submit_us")]
    pub submit: Micros,
    /// Of the same: from the end of a command until the host has dealt with it.
    #[serde(rename = "interrupt_us")]
    pub interrupt: Micros,
    /// Of engaged scheduling: from a store that faults until it is decided on.
    #[serde(rename = "decide_us")]
    pub decide: Micros,
    /// Of the same: from then until it reaches the GPU, if it passes.
    #[serde(rename = "enter_us")]
    pub enter: Micros,
    /// Of the same: from a grant until the client's thread runs.
    #[serde(rename = "grant_us")]
    pub grant: Micros,
    /// Of the same: taking the entries of a window away, and reading what was stored.
    #[serde(rename = "close_us")]
    pub close: Micros,
    /// Of the same: from when the watcher has to run until it does.
    #[serde(rename = "rouse_us")]
    pub rouse: Micros,
    /// Of the same: one pass of the watcher over rings or channels.
    #[serde(rename = "look_us")]
    pub look: Micros,
    /// Of engaged scheduling: how often the ends of commands are read; 0: when they are expected.
    #[serde(rename = "tick_us")]
    pub tick: Micros,
    /// Of engaged scheduling: how long the GPU is kept idle after protected work.
    #[serde(rename = "linger_us")]
    pub linger: Micros,
    /// Whether it is only kept so for as long as the pauses of that work last.
    pub linger_adapts: bool,
    /// Of the baselines: how long the GPU is one client's.
    #[serde(rename = "quantum_ms")]
    pub quantum: Millis,
    /// Of `gvim-rr` the period, of `gvim-xc` the tick.
    #[serde(rename = "turn_ms")]
    pub turn: Option<Millis>,
    /// Of `gvim-rr` and `gvim-xc`: what a call through the ring between guest and host takes, there
    /// and back.
    #[serde(rename = "call_us")]
    pub call: Micros,
    /// Of the baselines: after which idle time the GPU is given up.
    #[serde(rename = "idle_release_ms")]
    pub idle_release: Millis,
    /// Of the baselines: how often the utilisation is sampled.
    #[serde(rename = "sample_ms")]
    pub sample: Millis,
    /// Of the baselines: whether a client that is alone is not limited.
    pub off_when_alone: bool,
}

fn kind<'de, D: Deserializer<'de>>(from: D) -> Result<Kind, D::Error> {
    Kind::by_name(&String::deserialize(from)?).map_err(D::Error::custom)
}

fn dispatch<'de, D: Deserializer<'de>>(from: D) -> Result<Option<DispatcherKind>, D::Error> {
    word(from, "dispatch")
}

fn scale<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Scale>, D::Error> {
    word(from, "scale")
}

fn accounting<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Accounting>, D::Error> {
    word(from, "accounting")
}

fn poll_ms<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    number(from, "poll_ms")
}

fn ratio<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    number(from, "ratio")
}

fn cpu_boost<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let times = u32::deserialize(from)?;
    if (1..=1000).contains(&times) {
        return Ok(times);
    }
    let reason = format!("cpu_boost = {times}, want 1 to 1000");
    Err(D::Error::custom(reason))
}

/// What a word stands for as the value of a knob.
fn word<'de, D: Deserializer<'de>, T: Value>(from: D, knob: &str) -> Result<T, D::Error> {
    let word = String::deserialize(from)?;
    let number = Knob::find(knob).map(|(_, knob)| knob.parse(&word));
    let explain = |error| D::Error::custom(format!("{word:?}: {error}"));
    let number = number.unwrap_or(Ok(0)).map_err(explain)?;
    let unknown = || D::Error::custom(format!("unknown {knob} {word:?}"));
    T::of(number).ok_or_else(unknown)
}

/// The number of a knob.
fn number<'de, D: Deserializer<'de>>(from: D, knob: &str) -> Result<u32, D::Error> {
    let number = u32::deserialize(from)?;
    let checked = Knob::find(knob).map_or(Ok(()), |(_, knob)| knob.check(number));
    checked.map_err(D::Error::custom)?;
    Ok(number)
}

/// What the GPU is divided between.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Between {
    /// Every client counts for itself.
    #[default]
    Client,
    /// Clients of the same user count as one.
    #[serde(alias = "group")]
    User,
    /// Clients of the same cgroup count as one.
    Cgroup,
}

/// A GPU.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gpu {
    /// Overrides the cost of a switch.
    pub(super) switch_us: Option<Micros>,
    /// How long a context may go on while others wait; 0: for one command.
    pub(super) timeslice_us: Option<Micros>,
    /// Whether its programs share one context.
    #[serde(default)]
    pub(super) packed: bool,
}

/// A processor.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cpu {
    /// How long a thread may keep it while others wait for it.
    pub(super) slice_us: Micros,
}

/// A client, or several equal ones.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Client {
    pub(super) name: Spanned<String>,
    #[serde(default = "one")]
    pub(super) count: Spanned<u64>,
    #[serde(default = "none")]
    pub(super) gpu: Spanned<u64>,
    pub(super) cpu: Option<Spanned<u64>>,
    pub(super) cpu_weight: Option<Spanned<u64>>,
    #[serde(default)]
    pub(super) arrive_ms: Millis,
    pub(super) leave_ms: Option<Spanned<Millis>>,
    pub(super) away_ms: Option<Spanned<(Millis, Millis)>>,
    #[serde(default = "twelve")]
    pub(super) channels: Spanned<u64>,
    pub(super) weight: Option<Spanned<u64>>,
    #[serde(alias = "group")]
    pub(super) user: Option<String>,
    pub(super) cgroup: Option<String>,
    pub(super) limit_pct: Option<Spanned<u64>>,
    pub(super) fill_pct: Option<Spanned<u64>>,
    pub(super) bandwidth_pct: Option<Spanned<u64>>,
    pub(super) target_pct: Option<Spanned<u64>>,
    #[serde(default)]
    pub(super) class: Class,
    pub(super) repeat: Option<Spanned<u64>>,
    pub(super) cycle_us: Option<Micros>,
    pub(super) deadline_us: Option<Micros>,
    pub(super) prio: Option<Spanned<u64>>,
    #[serde(default)]
    pub(super) sched: Sched,
    pub(super) reserve: Option<Spanned<WrittenTerms>>,
    pub(super) shares: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) wait: Wait,
    pub(super) profile: Option<Spanned<String>>,
    #[serde(default = "no_phases", rename = "phase")]
    pub(super) phases: Spanned<Vec<Spanned<Phase>>>,
}

/// Whether a client runs beside others, or only while no other wants the GPU.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Class {
    #[default]
    Normal,
    Idle,
}

/// How a client waits for the end of a command.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// It reads a word in a loop, as CUDA does by default.
    #[default]
    Spin,
    /// It sleeps until an interrupt wakes it.
    Block,
}

/// Something a client does, a number of times.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Phase {
    pub(super) cpu_us: Option<Span>,
    pub(super) copy_us: Option<Span>,
    pub(super) kernel_us: Option<Span>,
    #[serde(default)]
    pub(super) launch: Launch,
    pub(super) depth: Option<Spanned<u64>>,
    #[serde(default = "one")]
    pub(super) repeat: Spanned<u64>,
}

/// Whether a kernel is waited for.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Launch {
    /// Each one, before anything else is done.
    #[default]
    Synchronous,
    /// Only as many as `depth` are under way.
    Queued,
}

/// A value that no line of the file holds.
fn unplaced<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

pub(super) fn one() -> Spanned<u64> {
    unplaced(1)
}

fn none() -> Spanned<u64> {
    unplaced(0)
}

fn twelve() -> Spanned<u64> {
    unplaced(12)
}

fn one_gpu() -> Spanned<Vec<Gpu>> {
    unplaced(vec![Gpu::default()])
}

fn no_cpus() -> Spanned<Vec<Cpu>> {
    unplaced(Vec::new())
}

pub(super) fn no_phases() -> Spanned<Vec<Spanned<Phase>>> {
    unplaced(Vec::new())
}

/// A reserve as it is written.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenTerms {
    pub(super) kind: ReserveKind,
    pub(super) capacity_us: Micros,
    pub(super) period_us: Micros,
    pub(super) longest_us: Option<Micros>,
    pub(super) deadline_us: Option<Micros>,
    #[serde(default)]
    pub(super) soft: bool,
}

/// A shared reserve as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenShared {
    pub(super) name: Spanned<String>,
    pub(super) terms: Spanned<WrittenTerms>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ReserveKind {
    Pe,
    Ae,
    Cbs,
}

/// When a client may submit, as it is written.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Sched {
    #[default]
    Prt,
    Ht,
    Protected,
}
