// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The lines of a recording; docs/recording.md describes them.

use crate::commands::events;
use crate::control::Snapshot;
use crate::names;
use crate::names::Name;
use loga::uapi;
use serde::{Deserialize, Serialize};

/// Version of the layout. Raised when a member changes its meaning or goes away.
pub const VERSION: u32 = 1;

/// One line.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// The first line.
    Start(Start),
    /// What everybody got on a GPU since the last sample.
    Sample(Sample),
    /// Something happened.
    Event(Event),
    /// The kernel module answers no more.
    Gap(Gap),
    /// It answers again: all differences begin anew.
    Resume(Resume),
    /// The last line, if the recording ended as it should.
    End(End),
}

/// What a recording is of.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Start {
    /// [`VERSION`].
    pub version: u32,
    /// Version of the program that wrote it.
    pub program: String,
    /// Version of the kernel module's interface.
    pub abi: u32,
    /// Time between two samples.
    pub interval_ms: u64,
    /// When it began, CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The same since 1970, CLOCK_REALTIME.
    pub unix_ns: u64,
    /// What is recorded.
    pub gpus: Vec<Gpu>,
}

/// A GPU, as it is when recording begins.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Gpu {
    /// Its index.
    pub gpu: u32,
    /// Chip as the hardware names it.
    pub chip: String,
    /// Where it sits.
    pub pci: String,
    /// Policy.
    pub policy: String,
    /// Whether decisions are carried out.
    pub enforcing: bool,
    /// Whether figures of the whole GPU and of other users are kept from the caller.
    pub withheld: bool,
}

impl Gpu {
    /// That of a snapshot.
    pub fn of(snapshot: &Snapshot) -> Self {
        let (info, config) = (&snapshot.info, snapshot.info.config());
        Self {
            gpu: snapshot.gpu,
            chip: format!("{:#x}", info.chipset),
            pci: names::pci(info.pci_domain, info.pci_bdf),
            policy: config.policy.name().to_string(),
            enforcing: config.enforce,
            withheld: info.flags & uapi::GPU_WITHHELD != 0,
        }
    }
}

/// What everybody got on a GPU between two readings.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Sample {
    /// Index of the GPU.
    pub gpu: u32,
    /// When it was read before, CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// When it was read, CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The same since 1970, CLOCK_REALTIME.
    pub unix_ns: u64,
    /// Policy.
    pub policy: String,
    /// Whether decisions are carried out.
    pub enforcing: bool,
    /// Whether the device stopped answering.
    pub lost: bool,
    /// Whether the device is not bound to its driver, or the machine sleeps.
    pub away: bool,
    /// Figures of the whole GPU, unless they are withheld.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole: Option<Whole>,
    /// The clients.
    pub clients: Vec<Client>,
    /// The users that got or wanted something.
    pub users: Vec<Owner>,
    /// The cgroups that got or wanted something.
    pub cgroups: Vec<Owner>,
}

impl Sample {
    /// What times of clients are parts of: the phases that were booked, or the time that went by
    /// for a caller that may not know them.
    pub fn span_ns(&self) -> u64 {
        let passed_ns = self.time_ns.saturating_sub(self.from_ns);
        self.whole.as_ref().map_or(passed_ns, |whole| whole.span_ns)
    }
}

/// Figures of a whole GPU between two readings.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Whole {
    /// Length of the phases that were booked: what GPU times are parts of.
    pub span_ns: u64,
    /// Time polled: what the three below are parts of.
    pub polled_ns: u64,
    /// Time in which work of a client ran.
    pub busy_ns: u64,
    /// Time in which nothing ran.
    pub idle_ns: u64,
    /// Time of channels without a known owner.
    pub unknown_ns: u64,
}

/// Times that somebody got.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Amounts {
    /// GPU time.
    pub gpu_time_ns: u64,
    /// Time in which it wanted the GPU and did not have it.
    pub waited_ns: u64,
    /// Time throttled.
    pub throttled_ns: u64,
}

impl Amounts {
    /// What was added since then. A sum that went backwards gives nothing.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            gpu_time_ns: self.gpu_time_ns.saturating_sub(before.gpu_time_ns),
            waited_ns: self.waited_ns.saturating_sub(before.waited_ns),
            throttled_ns: self.throttled_ns.saturating_sub(before.throttled_ns),
        }
    }

    /// Adds others.
    pub const fn add(&mut self, more: Self) {
        self.gpu_time_ns = self.gpu_time_ns.saturating_add(more.gpu_time_ns);
        self.waited_ns = self.waited_ns.saturating_add(more.waited_ns);
        self.throttled_ns = self.throttled_ns.saturating_add(more.throttled_ns);
    }
}

impl From<&uapi::Client> for Amounts {
    fn from(client: &uapi::Client) -> Self {
        Self {
            gpu_time_ns: client.gpu_time_ns,
            waited_ns: client.waited_ns,
            throttled_ns: client.throttled_ns,
        }
    }
}

impl From<&uapi::Total> for Amounts {
    fn from(total: &uapi::Total) -> Self {
        Self {
            gpu_time_ns: total.gpu_time_ns,
            waited_ns: total.waited_ns,
            throttled_ns: total.throttled_ns,
        }
    }
}

/// One client.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Client {
    /// Unique until a [`Resume`].
    pub id: u64,
    /// Process; 0 if the caller does not see it.
    pub pid: i32,
    /// User.
    pub uid: u32,
    /// Command: the present name of the process.
    pub comm: Name,
    /// Its bytes in hexadecimal digits, if they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm_hex: Option<String>,
    /// Number of its cgroup, if it has one.
    pub cgroup: Option<u64>,
    /// Path of its cgroup, if that is known.
    pub cgroup_path: Option<Name>,
    /// The path's bytes in hexadecimal digits, if they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_path_hex: Option<String>,
    /// `idle`, `running` or `throttled`, when it was read.
    pub state: String,
    /// What it got since it was read before.
    #[serde(flatten)]
    pub got: Amounts,
}

/// A user or a cgroup, with all processes that it has or had.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Owner {
    /// User id, or number of the cgroup; nothing for all that the kernel module has no row for.
    pub id: Option<u64>,
    /// Its name, if it is known.
    pub name: Option<Name>,
    /// The name's bytes in hexadecimal digits, if they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_hex: Option<String>,
    /// What its processes got since they were read before.
    #[serde(flatten)]
    pub got: Amounts,
}

/// Something happened: an object of `loga events --json`, and one more member.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Event {
    #[serde(flatten)]
    pub(crate) what: events::Line,
    /// Of `exited`: GPU time that is in no sample of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest_ns: Option<u64>,
}

/// The kernel module answers no more.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Gap {
    /// When that was seen, CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The same since 1970, CLOCK_REALTIME.
    pub unix_ns: u64,
    /// Why, as people are told.
    pub why: String,
}

/// The kernel module answers again.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Resume {
    /// When, CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The same since 1970, CLOCK_REALTIME.
    pub unix_ns: u64,
    /// What is recorded from now on.
    pub gpus: Vec<Gpu>,
}

/// The end.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct End {
    /// When, CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The same since 1970, CLOCK_REALTIME.
    pub unix_ns: u64,
    /// `interrupted` or `duration`.
    pub why: String,
}
