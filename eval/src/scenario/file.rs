// SPDX-License-Identifier: GPL-2.0

//! The scenario file as it is written. `docs/scenarios.md` explains every key.

use super::kind::Kind;
use super::time::{Micros, Millis, Span};
use loga::policies::PolicyKind;
use loga::units::Ns;
use serde::Deserialize;
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
    /// Name of the client with whose end the run ends.
    pub(super) until: Option<Spanned<String>>,
    /// Who schedules.
    #[serde(default)]
    pub(super) policy: Policy,
    /// What things cost.
    #[serde(default)]
    pub(super) costs: Costs,
    /// The GPUs.
    #[serde(default = "one_gpu", rename = "gpu")]
    pub(super) gpus: Spanned<Vec<Gpu>>,
    /// The clients.
    #[serde(rename = "client")]
    pub(super) clients: Spanned<Vec<Client>>,
}

/// Who schedules, and with which parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Policy {
    pub(super) name: Spanned<String>,
    pub(super) enforce: bool,
    pub(super) by: Between,
    pub(super) poll_ms: Spanned<u32>,
    pub(super) ratio: Spanned<u32>,
    pub(super) randomize: bool,
    pub(super) scale: Spanned<String>,
    pub(super) accounting: Spanned<String>,
    pub(super) poll_always: bool,
    pub(super) trap: bool,
    pub(super) submit_us: Micros,
    pub(super) interrupt_us: Micros,
    pub(super) quantum_ms: Millis,
    pub(super) idle_release_ms: Millis,
    pub(super) sample_ms: Millis,
    pub(super) off_when_alone: bool,
}

/// What fairness is between.
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

/// What things cost, apart from the work itself.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// One read of a GPU register: the poller looks this often.
    #[serde(rename = "read_us")]
    pub read: Micros,
    /// A look at one channel, for policies that work in stages.
    #[serde(rename = "look_us")]
    pub look: Micros,
    /// Taking the submission mappings of one client away, or giving them back.
    #[serde(rename = "revoke_us")]
    pub revoke: Micros,
    /// The page fault by which a client's mapping comes back.
    #[serde(rename = "fault_us")]
    pub fault: Micros,
    /// From the moment a thread is woken until it runs.
    #[serde(rename = "wakeup_us")]
    pub wakeup: Micros,
    /// A switch of contexts on the GPU.
    #[serde(rename = "switch_us")]
    pub switch: Micros,
}

/// A GPU.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gpu {
    /// Overrides the cost of a switch.
    pub(super) switch_us: Option<Micros>,
    /// How long a context may go on while others wait; 0: for one command.
    pub(super) timeslice_us: Option<Micros>,
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
    #[serde(default)]
    pub(super) class: Class,
    pub(super) repeat: Option<Spanned<u64>>,
    pub(super) cycle_us: Option<Micros>,
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

impl Default for Policy {
    fn default() -> Self {
        let one = super::Policy::of(Kind::Loga(PolicyKind::Event));
        Self {
            name: unplaced(one.kind.name().to_owned()),
            enforce: one.enforce,
            by: one.by,
            poll_ms: unplaced(one.poll_ms),
            ratio: unplaced(one.ratio),
            randomize: one.randomize,
            scale: unplaced(one.scale.name().to_owned()),
            accounting: unplaced(one.accounting.name().to_owned()),
            poll_always: one.poll_always,
            trap: one.trap,
            submit_us: Micros(one.submit),
            interrupt_us: Micros(one.interrupt),
            quantum_ms: Millis(one.quantum),
            idle_release_ms: Millis(one.idle_release),
            sample_ms: Millis(one.sample),
            off_when_alone: one.off_when_alone,
        }
    }
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            read: Micros(Ns::from_us(1)),
            look: Micros(Ns::from_us(3)),
            revoke: Micros(Ns::from_us(5)),
            fault: Micros(Ns::from_us(2)),
            wakeup: Micros(Ns::from_us(5)),
            switch: Micros(Ns::ZERO),
        }
    }
}

impl Costs {
    /// The cost of this name in a file, such as `switch_us`.
    pub fn by_name(&mut self, name: &str) -> Option<&mut Micros> {
        match name {
            "read_us" => Some(&mut self.read),
            "look_us" => Some(&mut self.look),
            "revoke_us" => Some(&mut self.revoke),
            "fault_us" => Some(&mut self.fault),
            "wakeup_us" => Some(&mut self.wakeup),
            "switch_us" => Some(&mut self.switch),
            _ => None,
        }
    }
}

/// A value that no line of the file holds.
fn unplaced<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

fn one() -> Spanned<u64> {
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

fn no_phases() -> Spanned<Vec<Spanned<Phase>>> {
    unplaced(Vec::new())
}
