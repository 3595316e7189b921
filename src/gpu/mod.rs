// SPDX-License-Identifier: GPL-2.0

//! `[pure]` One GPU and its period: what the engine, the shares and the settings do together.
//!
//! The caller owns the clock, the threads and the registers. It asks [`GpuState::engine`] what is
//! due, and calls
//!
//! 1. [`GpuState::begin_phase`] when a polling phase begins,
//! 2. [`GpuState::end_phase`] when it has ended: time is charged, the policy decides, the period is
//!    booked. [`Member::throttled_by`] is then set for the clients that are throttled,
//! 3. [`GpuState::begin_scan`] and [`GpuState::end_scan`] for policies that work in stages.
//!
//! The main thread of the kernel module, the simulator, the bench of decisions and the property
//! tests all call this, so they book alike.
//!
//! [`Member::throttled_by`]: crate::share::Member::throttled_by

#[cfg(test)]
mod coarse_tests;
#[cfg(test)]
mod costs_tests;
mod dispatching;
mod period;
#[cfg(test)]
mod period_tests;

pub use period::{Decision, Ended};

use self::dispatching::Dispatching;
use crate::account::sparse::{Pace, MIN_INTERVAL};
use crate::account::Accounting;
use crate::engine::{Config, Engine};
use crate::error::Error;
use crate::ids::ClientId;
use crate::share::{Change, Entry, Identity, Settings, Shares, Subject};
use crate::storage::Storage;
use crate::units::Ns;

/// Sums over all periods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Time in which no channel was on the engine.
    pub idle: Ns,
    /// Time of channels that no client owns.
    pub unknown: Ns,
    /// Changes of what is on the engine.
    pub switches: u64,
    /// What is known of the copy engine.
    pub copies: CopySums,
}

/// Sums over all periods in which the copy engine was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopySums {
    /// Lengths of their polling phases.
    pub polled: Ns,
    /// Part of it in which no channel was on the copy engine.
    pub idle: Ns,
    /// Part of it of channels that no client owns.
    pub unknown: Ns,
    /// The last period was one of them.
    pub measured: bool,
}

/// The clients of one GPU, what is set for them, and the engine that divides it.
pub struct GpuState<S: Storage> {
    /// Phases and decisions.
    pub engine: Engine,
    /// Clients and groups.
    pub shares: Shares<S>,
    /// What is set for processes, cgroups and users.
    pub settings: Settings<S>,
    sums: Sums,
    pace: Pace,
    /// Strata of the next phase, if accounting is sparse.
    interval: Ns,
    dispatching: Dispatching,
}

impl<S: Storage> GpuState<S> {
    /// A GPU whose shares have no members yet, divided as the engine is set to.
    pub const fn new(engine: Engine, mut shares: Shares<S>, mut settings: Settings<S>) -> Self {
        let config = engine.config();
        shares.begin_grouping(config.group_by, config.cgroup_depth);
        settings.divide_at(config.cgroup_depth);
        Self {
            engine,
            shares,
            settings,
            sums: Sums {
                idle: Ns::ZERO,
                unknown: Ns::ZERO,
                switches: 0,
                copies: CopySums {
                    polled: Ns::ZERO,
                    idle: Ns::ZERO,
                    unknown: Ns::ZERO,
                    measured: false,
                },
            },
            pace: Pace::new(),
            interval: MIN_INTERVAL,
            dispatching: Dispatching::NONE,
        }
    }

    /// Sums since the beginning.
    pub const fn sums(&self) -> &Sums {
        &self.sums
    }

    /// How the coming polling phase is accounted, and the length of its strata if that is
    /// [`Accounting::Sparse`].
    pub const fn plan(&self) -> (Accounting, Ns) {
        (self.engine.accounting(), self.interval)
    }

    /// Adds a process and returns its position, see [`Shares::join`].
    ///
    /// # Errors
    ///
    /// [`Error::Full`] without room.
    pub fn join(&mut self, id: ClientId, identity: Identity) -> Result<usize, Error> {
        let t_sys = self.engine.start_vtime();
        self.shares.join(id, identity, &self.settings, t_sys)
    }

    /// A process that has joined begins only now, see [`Shares::owe_anew`].
    pub fn owe_anew(&mut self, at: usize) {
        self.shares.owe_anew(at, self.engine.start_vtime());
    }

    /// Notes that a process has moved to another cgroup or user.
    ///
    /// # Errors
    ///
    /// [`Error::Full`]; then it stays where it was.
    pub fn rejoin(&mut self, at: usize, identity: Identity) -> Result<(), Error> {
        let t_sys = self.engine.start_vtime();
        self.shares.rejoin(at, identity, &self.settings, t_sys)
    }

    /// Removes the process at `at`; the later ones move up.
    pub fn leave(&mut self, at: usize) {
        self.shares.leave(at, self.engine.start_vtime());
    }

    /// Lowers what holds for a process for its user, see [`Settings::lower`]. `at` is its position,
    /// if it is a client: it alone is concerned.
    ///
    /// # Errors
    ///
    /// As [`Settings::lower`].
    pub fn lower(
        &mut self,
        at: Option<usize>,
        identity: &Identity,
        change: &Change,
    ) -> Result<(), Error> {
        self.settings.lower(identity, change)?;
        self.follow_lowered(at);
        Ok(())
    }

    /// Takes back what the user of a process lowered, see [`Settings::clear_lowered`]; `at` as in
    /// [`GpuState::lower`].
    ///
    /// # Errors
    ///
    /// As [`Settings::clear_lowered`].
    pub fn clear_lowered(&mut self, at: Option<usize>, identity: &Identity) -> Result<(), Error> {
        self.settings.clear_lowered(identity)?;
        self.follow_lowered(at);
        Ok(())
    }

    /// Puts back what was set for a subject, see [`Settings::restore`]; `at` is the position of the
    /// process, if it is one.
    pub fn restore(&mut self, at: Option<usize>, subject: Subject, before: Option<Entry>) {
        self.settings.restore(subject, before);
        self.follow_lowered(at);
    }

    fn follow_lowered(&mut self, at: Option<usize>) {
        if let Some(at) = at {
            self.shares.follow_lowered(at, &self.settings);
        }
    }

    /// Changes how the GPU is divided. True if all clients run from now on, until the next
    /// decision: under another policy, or without enforcement.
    ///
    /// # Errors
    ///
    /// As [`Config::check`]; then nothing changes.
    pub fn configure(&mut self, now: Ns, config: Config) -> Result<bool, Error> {
        let before = *self.engine.config();
        self.engine.set_config(config)?;
        // The engine clears what the policy keeps of clients at its next decision.
        if config.policy != before.policy || (config.enforce && !before.enforce) {
            self.shares.forget_attained();
        }
        let t_sys = self.engine.start_vtime();
        let (by, depth) = (config.group_by, config.cgroup_depth);
        self.shares.set_grouping(by, depth, &self.settings, t_sys);
        self.settings.divide_at(depth);
        let releases = config.policy != before.policy || !config.enforce;
        if releases {
            self.shares.release(now);
        }
        Ok(releases)
    }
}
