// SPDX-License-Identifier: GPL-2.0

//! A discrete-event calculation of who gets how much: processes of users and cgroups
//! with weights, limits and classes on one ideal GPU.
//!
//! The GPU serves the processes round robin and runs a command to completion. What
//! accounts, decides, forms groups and keeps limits is the code of the kernel module.
//! With [`Machine::watch`] it also notes who held the GPU when.

use loga::account::drain::Drain;
use loga::account::sparse::Sparse;
use loga::account::{Accountant, Accounting, PhaseTotals, Slot};
use loga::engine::{Action, Config, Engine, Wake};
use loga::error::Error;
use loga::gpu::{Ended, GpuState};
use loga::ids::{Chid, ClientId, MAX_CHANNELS};
use loga::policies::ClientState;
use loga::regs::Occupant;
use loga::share::{
    Change, Entry, Group, GroupBy, Member, Row, Settings, Shares, Subject, Totals, Who,
    MAX_SETTINGS, MAX_TOTALS,
};
use loga::units::Ns;
use loga::Vectors;

/// Most processes in one calculation.
pub const MAX_PROCESSES: usize = 128;

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
    /// When it begins.
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
}

#[derive(Clone, Copy, Debug)]
enum Doing {
    Sleeps { until: Ns },
    Submits,
    Waits,
    Runs { until: Ns },
}

/// One GPU, its processes, and LoGA.
pub struct Machine {
    now: Ns,
    processes: Vec<Process>,
    doing: Vec<Doing>,
    ran: Vec<Ns>,
    /// Length of the command that each process runs.
    length: Vec<Ns>,
    random: u64,
    /// Time that commands waited in this polling phase.
    waited: Vec<Ns>,
    last: usize,
    accountant: Accountant,
    sparse: Sparse,
    /// Looks after holds, with burst accounting.
    drain: Drain,
    drains: bool,
    /// When to look next, with sparse accounting or after a hold.
    next_look: Option<Ns>,
    accounting: Accounting,
    slots: Vec<Slot>,
    /// The GPU as LoGA keeps it.
    pub state: GpuState<Vectors>,
    watched: Option<Vec<(Ns, Option<usize>)>>,
}

impl Machine {
    /// All processes, about to begin.
    ///
    /// # Errors
    ///
    /// A setting out of range, or too many processes.
    pub fn new(processes: &[Process], config: Config, group_by: GroupBy) -> Result<Self, Error> {
        let mut machine = Self {
            now: Ns::ZERO,
            processes: processes.to_vec(),
            doing: processes
                .iter()
                .map(|process| Doing::Sleeps {
                    until: process.from,
                })
                .collect(),
            ran: vec![Ns::ZERO; processes.len()],
            length: vec![Ns::ZERO; processes.len()],
            random: 0x9e37_79b9_7f4a_7c15,
            waited: vec![Ns::ZERO; processes.len()],
            last: processes.len().saturating_sub(1),
            accountant: Accountant::new(),
            sparse: Sparse::new(1),
            drain: Drain::new(1),
            drains: false,
            next_look: None,
            accounting: Accounting::Burst,
            slots: vec![Slot::default(); MAX_CHANNELS],
            state: GpuState::new(
                Engine::new(config, 1)?,
                Shares::new(
                    vec![Member::default(); MAX_PROCESSES],
                    vec![Group::default(); 2 * MAX_PROCESSES],
                    vec![ClientState::default(); 2 * MAX_PROCESSES],
                    group_by,
                ),
                Settings::new(vec![Entry::default(); MAX_SETTINGS]),
                Totals::new(vec![Row::default(); MAX_TOTALS]),
            ),
            watched: None,
        };
        for at in 0..processes.len() {
            let (id, who) = (ClientId::new(at as u64 + 1), machine.who(at));
            machine.state.join(id, who)?;
        }
        let allocated = processes.iter().map(|p| u32::from(p.channels)).sum();
        machine.state.engine.channels_changed(Ns::ZERO, allocated);
        Ok(machine)
    }

    /// Accounts sparsely: by looks at instants that follow from `seed`. Before the
    /// first [`Machine::run_until`]. The engine should have no non-polling phases.
    pub fn account_sparsely(&mut self, seed: u64) {
        self.accounting = Accounting::Sparse;
        self.sparse = Sparse::new(seed);
    }

    /// Looks made so far, with sparse accounting.
    pub fn looks(&self) -> u64 {
        self.sparse.looks()
    }

    /// Length of the strata, with sparse accounting.
    pub fn interval(&self) -> Option<Ns> {
        (self.accounting == Accounting::Sparse).then(|| self.sparse.interval())
    }

    /// Whose process the one at `at` is.
    pub fn who(&self, at: usize) -> Who {
        Who {
            process: at as u64 + 1,
            cgroup: self.processes[at].cgroup,
            user: self.processes[at].user,
            ..Who::default()
        }
    }

    /// Notes from now on who holds the GPU.
    pub fn watch(&mut self) {
        let running = self.running();
        self.watched = Some(vec![(self.now, running)]);
    }

    /// Who held the GPU from when on.
    pub fn watched(&self) -> &[(Ns, Option<usize>)] {
        self.watched.as_deref().unwrap_or_default()
    }

    /// Sets something for the process at `at`.
    ///
    /// # Errors
    ///
    /// As [`Settings::set`].
    pub fn set_process(&mut self, at: usize, change: &Change) -> Result<(), Error> {
        let who = self.who(at);
        let subject = Subject::Process(who.process);
        self.state.settings.set(subject, Some(who), change)
    }

    /// Divides the GPU between something else.
    pub fn set_group_by(&mut self, group_by: GroupBy) {
        let config = *self.state.engine.config();
        let depth = self.state.shares.depth();
        // The settings were in range when it was made.
        let configured = self.state.configure(self.now, config, group_by, depth);
        assert!(configured.is_ok(), "{configured:?}");
    }

    /// Decisions made so far.
    pub fn decisions(&self) -> u64 {
        self.state.engine.stats().decisions
    }

    /// The time.
    pub fn now(&self) -> Ns {
        self.now
    }

    /// GPU time that each process really had, with what runs now.
    pub fn ran(&self) -> Vec<Ns> {
        let mut ran = self.ran.clone();
        if let Some((at, until)) = self.running_until() {
            let left = until.saturating_sub(self.now);
            let done = self.length[at].saturating_sub(left);
            ran[at] = ran[at].saturating_add(done);
        }
        ran
    }

    /// Runs until `end`.
    pub fn run_until(&mut self, end: Ns) {
        if self.state.engine.next_deadline().is_none() {
            self.step(Wake::ChannelsChanged);
        }
        while let Some(next) = self.next_event().filter(|next| *next < end) {
            self.wait(next);
            self.now = self.now.max(next);
            self.step(Wake::Timer);
        }
        self.wait(end);
        self.now = end;
    }

    /// Notes the time until `next` of those whose commands wait while somebody polls.
    fn wait(&mut self, next: Ns) {
        if !self.state.engine.polling() {
            return;
        }
        let time = next.saturating_sub(self.now);
        for (doing, waited) in self.doing.iter().zip(&mut self.waited) {
            if matches!(doing, Doing::Waits) {
                *waited = waited.saturating_add(time);
            }
        }
    }

    fn next_event(&self) -> Option<Ns> {
        let doing = self.doing.iter().filter_map(|doing| match *doing {
            Doing::Sleeps { until } | Doing::Runs { until } => Some(until),
            Doing::Submits | Doing::Waits => None,
        });
        let doing = doing.filter(|until| *until != Ns::new(u64::MAX));
        doing
            .chain(self.state.engine.next_deadline())
            .chain(self.next_look)
            .min()
    }

    fn step(&mut self, wake: Wake) {
        self.complete();
        self.submit();
        self.dispatch();
        let occupant = self.occupant();
        if self.next_look.is_some_and(|look| look <= self.now) {
            self.next_look = match self.accounting {
                Accounting::Burst => self.drain.look(self.now, occupant),
                Accounting::Sparse => Some(self.sparse.look(&mut self.slots, self.now, occupant)),
            };
        }
        if self.accounting == Accounting::Burst && self.state.engine.polling() {
            self.accountant.observe(&mut self.slots, self.now, occupant);
        }
        match self.state.engine.wake(self.now, wake) {
            Action::None => {}
            Action::Look => {
                self.state.end_scan(self.now);
                self.state.shares.release(self.now);
            }
            Action::StartPolling => self.begin(occupant),
            Action::StopPolling => {
                let totals = match self.accounting {
                    Accounting::Burst => self.accountant.end(&mut self.slots, self.now),
                    Accounting::Sparse => self.sparse.end(),
                };
                self.next_look = None;
                self.decide(totals);
                self.submit();
                self.dispatch();
            }
        }
    }

    fn begin(&mut self, occupant: Occupant) {
        if self.accounting == Accounting::Burst {
            // CAST: at most MAX_PROCESSES.
            let client =
                |(chid, time): &(Chid, Ns)| (ClientId::new(chid.index() as u64 + 1), *time);
            let found = self.drains.then(|| self.drain.found().iter().map(client));
            self.state.begin_phase(found);
            self.next_look = None;
            self.accountant.begin(&mut self.slots, self.now, occupant);
            return;
        }
        let (_, interval) = self.state.plan();
        let next = self.sparse.begin(&mut self.slots, self.now, interval);
        self.next_look = Some(next);
    }

    fn complete(&mut self) {
        if let Some((at, until)) = self.running_until().filter(|(_, until)| *until <= self.now) {
            let process = self.processes[at];
            self.ran[at] = self.ran[at].saturating_add(self.length[at]);
            let ends = process.until.is_some_and(|end| until >= end);
            let wakes = if ends {
                self.processes[at].until = None;
                process.again.unwrap_or(Ns::new(u64::MAX))
            } else {
                self.now
                    .saturating_add(self.vary(process.sleep, process.varies_pct))
            };
            self.doing[at] = Doing::Sleeps { until: wakes };
        }
    }

    fn submit(&mut self) {
        for (doing, member) in self.doing.iter_mut().zip(self.state.shares.members()) {
            if matches!(*doing, Doing::Sleeps { until } if until <= self.now) {
                *doing = Doing::Submits;
            }
            if matches!(doing, Doing::Submits) && member.hold().is_none() {
                *doing = Doing::Waits;
            }
        }
    }

    fn dispatch(&mut self) {
        let before = self.running();
        if before.is_none() {
            let count = self.processes.len();
            let next = (1..=count)
                .map(|step| (self.last + step) % count)
                .find(|at| matches!(self.doing[*at], Doing::Waits));
            if let Some(at) = next {
                let process = self.processes[at];
                self.length[at] = self.vary(process.kernel, process.varies_pct);
                let until = self.now.saturating_add(self.length[at]);
                self.doing[at] = Doing::Runs { until };
                self.last = at;
            }
        }
        let (now, running) = (self.now, self.running());
        if let Some(watched) = &mut self.watched {
            if watched.last().is_none_or(|last| last.1 != running) {
                watched.push((now, running));
            }
        }
    }

    /// A length near `mean`.
    fn vary(&mut self, mean: Ns, by_pct: u8) -> Ns {
        if by_pct == 0 {
            return mean;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let most = mean.get() * u64::from(by_pct) / 100;
        let more = self.random % (2 * most + 1);
        mean.saturating_sub(Ns::new(most))
            .saturating_add(Ns::new(more))
    }

    fn running_until(&self) -> Option<(usize, Ns)> {
        let mut doing = self.doing.iter().enumerate();
        doing.find_map(|(at, doing)| match *doing {
            Doing::Runs { until } => Some((at, until)),
            _ => None,
        })
    }

    fn running(&self) -> Option<usize> {
        self.running_until().map(|(at, _)| at)
    }

    fn occupant(&self) -> Occupant {
        self.running().map_or(Occupant::Idle, |at| {
            // CAST: at most MAX_PROCESSES.
            Occupant::Channel(Chid::from_bits(at as u32))
        })
    }

    /// Decides after a polling phase, as the main thread of the kernel module does.
    fn decide(&mut self, totals: PhaseTotals) {
        let strata = self.interval();
        let used: Vec<_> = match self.accounting {
            Accounting::Burst => self.accountant.used().collect(),
            Accounting::Sparse => self.sparse.used().collect(),
        };
        let ended = Ended {
            totals,
            slots: &self.slots,
            used: used.into_iter(),
            strata,
            alone: self.processes.len() <= 1,
        };
        let waited = self.waited.iter_mut().enumerate();
        let waits =
            waited.map(|(at, waited)| (ClientId::new(at as u64 + 1), std::mem::take(waited)));
        let decision = self.state.end_phase(self.now, ended, &mut Some, waits);
        assert_eq!(decision.fallback, None, "a policy broke its contract");
        let is_held = |member: &Member| member.hold().is_some();
        self.drains = self.accounting == Accounting::Burst
            && !self.state.engine.config().policy.staged()
            && self.state.shares.members().iter().any(is_held);
        if self.drains {
            let next = self.state.engine.next_deadline().unwrap_or(self.now);
            let length = next.saturating_sub(self.now);
            self.next_look = self.drain.begin(self.now, length);
        }
    }
}
