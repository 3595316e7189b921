// SPDX-License-Identifier: GPL-2.0

//! A scenario that makes sense, as the simulator runs it.

use super::costs::Costs;
use super::file::{Between, Policy, Wait};
use super::kind::Kind;
use super::promise::{Engagement, Shared};
use super::time::Span;
use loga::policies::PolicyKind;
use loga::share::Class;
use loga::units::{Ns, Weight};
use std::fmt::{self, Display, Formatter};

/// Timeslice of Kepler's default runlist word. Source: `regs::TIMESLICE_DEFAULT_NS` of the model.
pub(super) const TIMESLICE: Ns = Ns::new(loga_model::gpu::regs::TIMESLICE_DEFAULT_NS);

/// A scenario that makes sense.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Length of the simulated time.
    pub length: Ns,
    /// Seeds to run with: 1 and following.
    pub seeds: u64,
    /// Position of the client at the end of which the run ends.
    pub until: Option<usize>,
    /// The scheduler.
    pub policy: Policy,
    /// What things cost.
    pub costs: Costs,
    /// The GPUs.
    pub gpus: Vec<Gpu>,
    /// How long a thread may keep each of the processors while others wait for it.
    pub cpus: Vec<Ns>,
    /// Reserves that clients share.
    pub reserves: Vec<Shared>,
    /// The clients, of all GPUs.
    pub clients: Vec<Client>,
}

/// A GPU.
#[derive(Clone, Copy, Debug)]
pub struct Gpu {
    /// Cost of a switch of contexts.
    pub switch: Ns,
    /// How long a context may go on while others wait; zero: for one command.
    pub timeslice: Ns,
    /// Whether its programs share one context, so that their kernels run at the same time.
    pub packed: bool,
}

/// What the kernels of a client use of a GPU while they run alone; counts on a packed GPU only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Footprint {
    /// The part of its compute units; more than 0.
    pub fill: f64,
    /// The part of its memory bandwidth.
    pub bandwidth: f64,
}

impl Default for Footprint {
    fn default() -> Self {
        Self {
            fill: 1.0,
            bandwidth: 0.0,
        }
    }
}

/// A client.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its name; unique.
    pub name: String,
    /// Position of its GPU.
    pub gpu: usize,
    /// Position of its processor; one of its own if not given.
    pub cpu: Option<usize>,
    /// Its weight on the processor.
    pub cpu_weight: Weight,
    /// When it comes.
    pub arrive: Ns,
    /// When it goes, if it has not gone by itself: it begins nothing from then on.
    pub leave: Option<Ns>,
    /// From when until when it begins nothing, without going.
    pub away: Option<(Ns, Ns)>,
    /// Channels it allocates.
    pub channels: u16,
    /// Its weight.
    pub weight: Weight,
    /// Its user; one of its own if not given.
    pub user: Option<String>,
    /// Its cgroup; one of its own if not given.
    pub cgroup: Option<String>,
    /// The most of the GPU that it may use, in percent.
    pub limit_pct: Option<u32>,
    /// The part of the GPU that policy `credit-slo` gives its group if that wants it, in percent.
    pub target_pct: Option<u32>,
    /// Whether it runs only while no other client wants the GPU.
    pub class: Class,
    /// How often it does all of its phases; for ever if not given.
    pub repeat: Option<u64>,
    /// From one beginning of its phases to the next, at least.
    pub cycle: Option<Ns>,
    /// By when a round should have ended, from its beginning.
    pub deadline: Option<Ns>,
    /// What engaged scheduling knows of it.
    pub engaged: Engagement,
    /// How it waits for the end of a command.
    pub wait: Wait,
    /// What its kernels use of a GPU.
    pub footprint: Footprint,
    /// What it does.
    pub phases: Vec<Phase>,
}

/// Something a client does: computing, then a copy, then a kernel, a number of times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// Time on a CPU.
    pub cpu: Span,
    /// Time on the copy engine, waited for.
    pub copy: Option<Span>,
    /// Time on the compute engine.
    pub kernel: Option<Span>,
    /// Kernels under way at a time; 1 waits for each.
    pub depth: u32,
    /// How often.
    pub repeat: u64,
}

/// Why there is no scenario.
#[derive(Clone, Debug)]
pub struct Error {
    /// File and line, or the change to it.
    pub place: String,
    /// What is wrong, and what would not be.
    pub reason: String,
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

impl std::error::Error for Error {}

impl Scenario {
    /// A scenario with one GPU and without clients, under the rule and the phases of the paper.
    pub fn new(length: Ns, costs: Costs) -> Self {
        Self {
            length,
            seeds: 1,
            until: None,
            policy: Policy::paper(Kind::Loga(PolicyKind::Event)),
            costs,
            gpus: vec![Gpu {
                switch: costs.switch.0,
                timeslice: TIMESLICE,
                packed: false,
            }],
            cpus: Vec::new(),
            reserves: Vec::new(),
            clients: Vec::new(),
        }
    }
}

impl Phase {
    /// A pause and then a kernel that is waited for, once.
    pub fn new(cpu: Span, kernel: Span) -> Self {
        Self {
            cpu,
            copy: None,
            kernel: Some(kernel),
            depth: 1,
            repeat: 1,
        }
    }
}

impl Client {
    /// A client that is present all the time and repeats these phases.
    pub fn new(name: &str, phases: Vec<Phase>) -> Self {
        Self {
            name: name.to_owned(),
            gpu: 0,
            cpu: None,
            cpu_weight: Weight::DEFAULT,
            arrive: Ns::ZERO,
            leave: None,
            away: None,
            channels: 12,
            weight: Weight::DEFAULT,
            user: None,
            cgroup: None,
            limit_pct: None,
            target_pct: None,
            class: Class::Normal,
            repeat: None,
            cycle: None,
            deadline: None,
            engaged: Engagement::default(),
            wait: Wait::Spin,
            footprint: Footprint::default(),
            phases,
        }
    }

    /// Those with which it counts as one; nothing if it counts for itself.
    pub fn group(&self, by: Between) -> Option<&str> {
        match by {
            Between::Client => None,
            Between::User => self.user.as_deref(),
            Between::Cgroup => self.cgroup.as_deref(),
        }
    }

    /// Whether it uses the copy engine.
    pub fn copies(&self) -> bool {
        self.phases.iter().any(|phase| phase.copy.is_some())
    }

    /// Whether it wants the GPU all the time and may have it: it never computes, never pauses and
    /// is under no limit.
    pub fn always_wants(&self) -> bool {
        let wants = |phase: &Phase| phase.cpu.is_zero() && phase.copy.is_none();
        let free = self.limit_pct.is_none() && self.class == Class::Normal && self.away.is_none();
        free && self.cycle.is_none() && self.phases.iter().all(wants)
    }

    /// The longest queue of kernels it builds.
    pub fn deepest(&self) -> u32 {
        self.phases
            .iter()
            .map(|phase| phase.depth)
            .max()
            .unwrap_or(1)
    }
}
