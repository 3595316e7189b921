// SPDX-License-Identifier: GPL-2.0

//! `[double]` An ideal GPU: nothing costs any time but commands, and switches if asked for.
//!
//! It is the simulator of [`crate::world`] with LoGA and all costs at zero. Commands run to
//! completion, contexts are served in turn. Settings can be changed while it runs, and it can note
//! which process had the GPU when.

use crate::control::loga::Loga;
use crate::scenario::{Client, Gpu, Phase, Span};
use crate::world::{Host, World};
use loga::engine::Config;
use loga::error::Error;
use loga::gpu::GpuState;
use loga::share::{Account, Change, GroupBy, Identity, Subject};
use loga::units::Ns;
use loga::Vectors;
use loga_model::gpu::GR;

/// What a process does: a command, wait for it, sleep, again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    /// Length of a command.
    pub kernel: Ns,
    /// Time between the end of a command and the next.
    pub sleep: Ns,
    /// Its user.
    pub user: u32,
    /// Its cgroup.
    pub cgroup: u64,
    /// Channels that it allocates; it uses the first.
    pub channels: u16,
    /// When it comes.
    pub from: Ns,
    /// When it stops submitting.
    pub until: Option<Ns>,
    /// When it goes on, if it does.
    pub again: Option<Ns>,
    /// How far its commands and pauses differ from their mean, in percent at most.
    pub varies_pct: u8,
}

impl Process {
    /// A process that runs commands of `kernel_us`, `sleep_us` apart, for ever.
    pub fn new(kernel_us: u64, sleep_us: u64) -> Self {
        Self {
            kernel: Ns::from_us(kernel_us),
            sleep: Ns::from_us(sleep_us),
            channels: 12,
            ..Self::default()
        }
    }

    /// It as a client of the simulator.
    fn client(&self, number: usize) -> Client {
        let never = Ns::new(u64::MAX);
        let command = Phase::new(Span::us(0), self.span(self.kernel));
        let pause = Phase {
            kernel: None,
            ..Phase::new(self.span(self.sleep), Span::us(0))
        };
        Client {
            arrive: self.from,
            away: self.until.map(|from| (from, self.again.unwrap_or(never))),
            channels: self.channels,
            ..Client::new(&format!("process {number}"), vec![command, pause])
        }
    }

    /// Lengths near `mean`.
    fn span(&self, mean: Ns) -> Span {
        if self.varies_pct == 0 {
            return Span::Constant(mean);
        }
        // CAST: times of seconds are exact in a double.
        let (mean, by) = (mean.get() as f64, f64::from(self.varies_pct) / 100.0);
        Span::Uniform(mean * (1.0 - by), mean * (1.0 + by))
    }
}

/// One ideal GPU, its processes, and LoGA.
pub struct IdealGpu {
    world: World<Loga>,
    identities: Vec<Identity>,
}

impl IdealGpu {
    /// All processes, about to come.
    ///
    /// # Errors
    ///
    /// A setting out of range.
    pub fn new(processes: &[Process], config: Config, group_by: GroupBy) -> Result<Self, Error> {
        Self::seeded(processes, config, group_by, Ns::ZERO, 1)
    }

    /// As [`IdealGpu::new`], with the cost of a switch of contexts and a seed.
    ///
    /// # Errors
    ///
    /// A setting out of range.
    pub fn seeded(
        processes: &[Process],
        config: Config,
        group_by: GroupBy,
        switch: Ns,
        seed: u64,
    ) -> Result<Self, Error> {
        let identity = |(at, process): (usize, &Process)| Identity {
            // CAST: at most 4096 processes.
            process: at as u64 + 1,
            cgroup: process.cgroup,
            user: process.user,
            ..Identity::default()
        };
        let identities: Vec<_> = processes.iter().enumerate().map(identity).collect();
        let clients: Vec<_> = (0..)
            .zip(processes)
            .map(|(at, one)| one.client(at))
            .collect();
        let clients: Vec<_> = clients.iter().collect();
        let loga = Loga::ideal(config, group_by, &identities, &clients, seed)?;
        let card = Gpu {
            switch,
            // For one command.
            timeslice: Ns::ZERO,
            packed: false,
        };
        Ok(Self {
            world: World::new(&Host::of(&card), &clients, None, 0, seed, loga),
            identities,
        })
    }

    /// Runs until `end`.
    ///
    /// # Panics
    ///
    /// If an oracle says that the run does not count.
    pub fn run_until(&mut self, end: Ns) {
        let stuck = self.world.run(end.get(), &mut None);
        let mut violations = self.world.control.violations().to_vec();
        violations.extend(self.world.machine.board.violations());
        assert!(!stuck, "{violations:?}");
        assert!(violations.is_empty(), "{violations:?}");
    }

    /// The GPU as LoGA keeps it.
    pub fn state(&self) -> &GpuState<Vectors> {
        self.world.control.state()
    }

    /// As [`IdealGpu::state`], to change settings.
    pub fn state_mut(&mut self) -> &mut GpuState<Vectors> {
        self.world.control.state_mut()
    }

    /// Sets something for the process at `at`.
    ///
    /// # Errors
    ///
    /// What is wrong; then nothing has changed.
    pub fn set_process(&mut self, at: usize, change: &Change) -> Result<(), Error> {
        let identity = self.identities[at];
        let subject = Subject::Process(identity.process);
        self.state_mut()
            .settings
            .set(subject, Some(identity), change)
    }

    /// Divides the GPU between something else.
    ///
    /// # Panics
    ///
    /// Never: the settings were in range when it was made.
    pub fn set_group_by(&mut self, group_by: GroupBy) {
        let now = self.now();
        let state = self.state_mut();
        let config = Config {
            group_by,
            ..*state.engine.config()
        };
        let configured = state.configure(now, config);
        assert!(configured.is_ok(), "{configured:?}");
    }

    /// Decisions made so far.
    pub fn decisions(&self) -> u64 {
        self.state().engine.stats().decisions
    }

    /// Reads of sparse accounting so far.
    pub fn reads(&self) -> u64 {
        self.world.control.sparse().samples()
    }

    /// Length of the strata of sparse accounting.
    pub fn interval(&self) -> Ns {
        self.world.control.sparse().interval()
    }

    /// The time.
    pub fn now(&self) -> Ns {
        Ns::new(self.world.machine.now())
    }

    /// GPU time that each process really had, with what runs now.
    pub fn ran(&self) -> Vec<Ns> {
        let board = &self.world.machine.board;
        let ran = |at| Ns::new(board.usage(at, GR).run);
        (0..self.identities.len()).map(ran).collect()
    }

    /// Commands that each process has completed.
    pub fn commands(&self) -> Vec<u64> {
        let board = &self.world.machine.board;
        let commands = |at| board.usage(at, GR).commands;
        (0..self.identities.len()).map(commands).collect()
    }

    /// What LoGA has booked for each process.
    pub fn accounts(&self) -> Vec<Account> {
        let account = |at| self.world.control.account(at);
        (0..self.identities.len()).map(account).collect()
    }

    /// Notes from now on which process has the GPU.
    pub fn record(&mut self) {
        self.world.machine.board.intervals = Some(Vec::new());
    }

    /// From when on which process had the GPU, or none.
    pub fn recorded(&self) -> Vec<(Ns, Option<usize>)> {
        let mut spans: Vec<(Ns, Option<usize>)> = Vec::new();
        let mut note = |at: u64, client| {
            match spans.last_mut() {
                Some(last) if last.0 == Ns::new(at) => last.1 = client,
                _ => spans.push((Ns::new(at), client)),
            }
            let count = spans.len();
            if count > 1 && spans[count - 2].1 == client {
                spans.pop();
            }
        };
        note(0, None);
        for (start, end, owner) in self.world.machine.board.intervals.iter().flatten() {
            note(*start, Some(*owner));
            note(*end, None);
        }
        spans
    }
}
