// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Phases and decisions of one GPU: the main thread without a thread.
//!
//! The caller owns the clock and the threads. It wakes the engine at
//! [`Engine::next_deadline`] and when channels come and go, carries out the
//! [`Action`], and asks for the new deadline after every call. The phases:
//!
//! ```text
//! parked ──channels──> polling ──deadline──> stopping ──decide──> waiting ──deadline──> polling
//!    ^                                           │                   │
//!    └──────────────── no channels ──────────────┴───────────────────┘
//! ```
//!
//! A policy that works in stages decides separately from these phases, after scans of the channels:
//! see [`Engine::decide_scan`]. Polling phases then only account.
//!
//! The engine trusts no policy: see [`Engine::decide`]. It fails open: whenever something is wrong,
//! all clients run, and the reason is counted.
//!
//! Source: LoGA paper, sections 3.3, 3.4 and 4.2.

mod census;
mod check;
mod config;
#[cfg(any(test, loga_kunit))]
mod deserted_tests;
mod fallback;
#[cfg(any(test, loga_kunit))]
mod phase_tests;
mod random;
mod scans;
#[cfg(any(test, loga_kunit))]
mod stage_tests;
mod stages;
mod stats;
#[cfg(any(test, loga_kunit))]
mod switch_tests;
mod watchdog;

pub use crate::policies::{
    ClientState, Inputs, KeptOfClient, KeptOfGpu, Next, Phase, PolicyKind, Scan, ScanResult,
};
pub use census::{Census, MOST_CHANNELS};
pub use check::Violation;
pub use config::{Config, PhaseLengths, Scale, MAX_NONPOLL, MAX_POLL, MIN_ACTIVE, MIN_SPARSE};
pub use fallback::Fallback;
pub use scans::MAX_BARRIER;
pub use stats::Stats;
pub use watchdog::{MAX_IDLE_THROTTLE, MAX_LATE};

use crate::account::{Accounting, PhaseTotals};
use crate::error::Error;
use crate::random::XorShift;
use crate::units::{Ns, VTime};
use random::Factor;
use stages::Stages;

/// Why the engine is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The deadline may have passed.
    Timer,
    /// Channels were created or destroyed, see [`Engine::count`].
    ChannelsChanged,
}

/// What the caller has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing before the next deadline.
    None,
    /// Start the poller, do not wait for it.
    StartPolling,
    /// Stop the poller, wait until it has stopped, and call [`Engine::decide`].
    StopPolling,
    /// Scan the channels of every client and call [`Engine::decide_scan`].
    Scan,
}

/// Where in the cycle the engine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There are no channels.
    Parked,
    /// The poller runs.
    Polling { since: Ns, deadline: Ns },
    /// The poller is stopping; a decision is due.
    Stopping { since: Ns },
    /// The poller sleeps.
    NonPolling { since: Ns, deadline: Ns },
}

/// The phases and decisions of one GPU.
pub struct Engine {
    config: Config,
    random: XorShift,
    state: State,
    /// When the period began that is not booked yet; nothing while parked.
    began: Option<Ns>,
    /// Channels allocated, as phases count them.
    allocated: u32,
    /// Clients that have channels.
    clients: u32,
    /// When a polling phase was forced last, or is going to be.
    forced: Option<Ns>,
    /// Lengths of the current cycle.
    planned: PhaseLengths,
    /// How the current cycle is accounted.
    accounting: Accounting,
    /// Actual length of the last non-polling phase.
    nonpoll: Ns,
    t_sys: VTime,
    kept: KeptOfGpu,
    stages: Stages,
    /// Clients that wanted the GPU in the last polling phase.
    active: u32,
    /// Clients throttled by the last decision.
    throttled: usize,
    /// Since when every check found the GPU idle.
    idle_since: Option<Ns>,
    stats: Stats,
    last_fallback: Option<Fallback>,
}

impl Engine {
    /// An engine without channels. `seed` is that of the randomisation.
    ///
    /// # Errors
    ///
    /// As [`Config::check`].
    pub fn new(config: Config, seed: u64) -> Result<Self, Error> {
        config.check()?;
        Ok(Self {
            config,
            random: XorShift::new(seed),
            state: State::Parked,
            began: None,
            allocated: 0,
            clients: 0,
            forced: None,
            planned: PhaseLengths::default(),
            accounting: config.effective_accounting(),
            nonpoll: Ns::ZERO,
            t_sys: VTime::ZERO,
            kept: KeptOfGpu::default(),
            stages: Stages::default(),
            active: 1,
            throttled: 0,
            idle_since: None,
            stats: Stats::default(),
            last_fallback: None,
        })
    }

    /// The settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Changes the settings; wake the engine afterwards. Lengths apply from the next polling phase
    /// on. With `enforce` off the caller lets all clients run at once. With another policy, or
    /// `enforce` on, a scan is due at once, which lets all clients run: what clients owe under one
    /// rule means nothing to another.
    ///
    /// # Errors
    ///
    /// As [`Config::check`]; then nothing changes.
    pub fn set_config(&mut self, config: Config) -> Result<(), Error> {
        config.check()?;
        let old = core::mem::replace(&mut self.config, config);
        if old.policy != config.policy || (config.enforce && !old.enforce) {
            self.stages.reset();
        }
        if !config.enforce {
            self.throttled = 0;
        }
        Ok(())
    }

    /// Virtual time at which a new client starts: that of the system.
    pub const fn start_vtime(&self) -> VTime {
        self.t_sys
    }

    /// How the current cycle is accounted. Another way begins with the next one.
    pub const fn accounting(&self) -> Accounting {
        self.accounting
    }

    /// Planned length of the current period.
    pub const fn planned(&self) -> Ns {
        self.planned.period()
    }

    /// Length of the period that ends with a polling phase, before [`Engine::decide`].
    pub const fn span(&self, totals: &PhaseTotals) -> Ns {
        totals.length.saturating_add(self.nonpoll)
    }

    /// Up to when all time is booked: until the present period began, or `now` without channels.
    pub fn booked_until(&self, now: Ns) -> Ns {
        self.began.unwrap_or(now)
    }

    /// What the engine has done so far.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The reason of the last fallback.
    pub const fn last_fallback(&self) -> Option<Fallback> {
        self.last_fallback
    }

    /// Whether a client is throttled by a decision of the policy.
    pub const fn has_throttled(&self) -> bool {
        self.throttled != 0
    }

    /// Whether the next decision must include clients that are asleep: under a policy that works in
    /// stages, and after a change of policy.
    pub fn concerns_all(&self) -> bool {
        self.stages.changed() || (self.config.enforce && self.config.policy.staged())
    }

    /// Whether the poller should be running.
    pub const fn polling(&self) -> bool {
        matches!(self.state, State::Polling { .. })
    }

    /// Whether nothing is measured, so that no phase is to be booked.
    pub const fn is_parked(&self) -> bool {
        matches!(self.state, State::Parked)
    }

    /// When to wake the engine, or nothing: then only channels can wake it.
    pub fn next_deadline(&self) -> Option<Ns> {
        let phase = match self.state {
            State::Parked => None,
            State::Polling { deadline, .. } | State::NonPolling { deadline, .. } => Some(deadline),
            State::Stopping { since } => Some(since),
        };
        phase.into_iter().chain(self.next_scan()).min()
    }

    /// When a scan is due, or nothing.
    pub fn next_scan(&self) -> Option<Ns> {
        let due = self.stages.due(&self.config);
        due.filter(|_| self.state != State::Parked || self.stages.changed())
    }

    /// Whether [`Engine::wake`] would begin a polling phase now.
    pub fn wants_to_poll(&self, now: Ns, wake: Wake) -> bool {
        match self.state {
            State::Parked => {
                let woken = self.allocated > 0 && wake == Wake::ChannelsChanged;
                woken && now >= self.earliest()
            }
            State::NonPolling { deadline, .. } => self.allocated > 0 && now >= deadline,
            State::Polling { .. } | State::Stopping { .. } => false,
        }
    }

    /// Moves on, if it is time.
    pub fn wake(&mut self, now: Ns, wake: Wake) -> Action {
        let action = self.wake_phase(now, wake);
        let due = self.next_deadline().filter(|_| action == Action::None);
        match due.filter(|due| *due <= now) {
            Some(_) => Action::Scan,
            None => action,
        }
    }

    fn wake_phase(&mut self, now: Ns, wake: Wake) -> Action {
        match self.state {
            State::Parked if self.allocated > 0 && wake == Wake::ChannelsChanged => {
                self.unpark(now)
            }
            State::Polling { deadline, .. } if now >= deadline => {
                self.state = State::Stopping { since: now };
                Action::StopPolling
            }
            State::NonPolling { since, .. } if self.allocated == 0 && !self.samples_pauses() => {
                self.note_nonpoll(now.saturating_sub(since));
                self.park();
                Action::None
            }
            State::NonPolling { since, deadline } if now >= deadline => {
                self.note_nonpoll(now.saturating_sub(since));
                self.start(now)
            }
            // The decision is still due: ask again rather than hang.
            State::Stopping { .. } => Action::StopPolling,
            _ => Action::None,
        }
    }

    /// Decides which clients are throttled until the next decision.
    ///
    /// Call it after [`Action::StopPolling`], with what the poller has counted: in
    /// `clients`, `busy` and `runs` of the phase, the virtual time and whether the
    /// client was throttled. Afterwards `vtime` and `throttled` are new; the caller carries out
    /// the difference in `throttled`.
    ///
    /// The policy's answer is checked. If it breaks the contract (see [`crate::policies`]), no
    /// client is throttled, virtual times stay as they were, and [`Engine::last_fallback`] says
    /// why. Without `enforce`, virtual times advance and no client is throttled.
    pub fn decide(&mut self, totals: &PhaseTotals, clients: &mut [ClientState]) {
        self.apply_change(clients);
        let policy = self.config.policy;
        if policy.staged() {
            // Scans decide which clients are throttled.
            self.note_active(clients);
            self.end_phase(totals);
            return;
        }
        let mut kept = self.kept;
        self.decide_by(totals, clients, &mut |phase, clients| {
            policy.decide(phase, &mut kept, clients)
        });
        self.kept = kept;
    }

    /// As [`Engine::decide`], for a period that was recorded: its non-polling phase lasted
    /// `nonpoll`, and its planned length is not known.
    pub fn decide_recorded(
        &mut self,
        nonpoll: Ns,
        totals: &PhaseTotals,
        clients: &mut [ClientState],
    ) {
        self.nonpoll = nonpoll;
        self.planned = PhaseLengths::default();
        self.decide(totals, clients);
    }

    /// As [`Engine::decide`], with a rule that need not be in the table.
    pub fn decide_by(
        &mut self,
        totals: &PhaseTotals,
        clients: &mut [ClientState],
        rule: &mut dyn FnMut(&Phase, &mut [ClientState]) -> VTime,
    ) {
        let span = totals.length.saturating_add(self.nonpoll);
        let between = totals.direct.saturating_sub(totals.direct_polled);
        let phase = Phase {
            poll: totals.length,
            nonpoll: self.nonpoll.saturating_sub(between),
            direct: totals.direct_polled,
            lead: span.max(self.planned.period()),
            idle: totals.idle,
            t_sys: self.t_sys,
        };
        self.note_active(clients);
        match check::run(&phase, clients, rule) {
            Ok((t_sys, throttled)) => {
                self.t_sys = t_sys;
                self.throttled = throttled;
            }
            Err(violation) => self.fall_back(Fallback::Contract(violation)),
        }
        if !self.config.enforce {
            self.settle_throttles(clients);
        }
        self.end_phase(totals);
    }

    /// Counts the throttled clients; without `enforce` it releases all of them.
    fn settle_throttles(&mut self, clients: &mut [ClientState]) {
        if !self.config.enforce {
            clients
                .iter_mut()
                .for_each(|client| client.throttled = false);
        }
        self.throttled = clients.iter().filter(|client| client.throttled).count();
    }

    /// Notes how many clients want the GPU: those that used it, waited for it or were
    /// throttled. To be called before the decision.
    fn note_active(&mut self, clients: &[ClientState]) {
        let count = clients.iter().fold(0usize, |count, client| {
            let wants = client.busy.get() | client.waited.get() | u64::from(client.throttled);
            count.wrapping_add((wants != 0).into())
        });
        self.active = u32::try_from(count).unwrap_or(u32::MAX);
    }

    /// Begins a cycle: its lengths are drawn once, for both phases.
    fn start(&mut self, now: Ns) -> Action {
        let factor = self
            .config
            .randomize
            .then(|| Factor::draw(&mut self.random));
        self.planned = self.config.lengths(self.allocated, self.active, factor);
        if self.allocated == 0 {
            // What samples found since the last polling phase is to be booked, and nothing polled.
            self.planned.poll = Ns::ZERO;
        } else {
            self.accounting = self.config.effective_accounting();
        }
        self.state = State::Polling {
            since: now,
            deadline: now.saturating_add(self.planned.poll),
        };
        Action::StartPolling
    }

    /// Goes on after a decision.
    fn end_phase(&mut self, totals: &PhaseTotals) {
        self.stats.decisions = self.stats.decisions.saturating_add(1);
        self.stats.polled = self.stats.polled.saturating_add(totals.length);
        self.stats.last_poll = totals.length;
        self.stats.last_nonpoll = self.nonpoll;
        let State::Stopping { since } = self.state else {
            return;
        };
        self.began = Some(since);
        self.note_idle(since, totals.idle == totals.length);
        if self.allocated == 0 {
            self.park();
            return;
        }
        self.state = State::NonPolling {
            since,
            deadline: since.saturating_add(self.planned.nonpoll),
        };
    }

    /// Stops the cycle until there are channels again.
    fn park(&mut self) {
        self.state = State::Parked;
        self.began = None;
        self.throttled = 0;
        self.active = 1;
        self.idle_since = None;
    }

    /// Remembers how long a non-polling phase really was. Sparse accounting knows none:
    /// its strata go on over the ends of phases.
    fn note_nonpoll(&mut self, length: Ns) {
        let length = match self.accounting {
            Accounting::Burst => length,
            Accounting::Sparse => Ns::ZERO,
        };
        self.nonpoll = length;
        self.stats.unpolled = self.stats.unpolled.saturating_add(length);
    }
}
