// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The ground truth: which channel of which process ran which engine, from when to when.
//!
//! Intervals go into a ring that keeps the newest; totals per process go into a table that is
//! exact however long the window is.

pub mod text;

use crate::gpu::{Interval, Kind, ENGINES};
use core::ops::DerefMut;

/// An interval with its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What the GPU recorded.
    pub interval: Interval,
    /// Process that owned the channel.
    pub pid: i32,
}

/// Time and commands on one engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time executing commands, in ns.
    pub busy_ns: u64,
    /// Time switching contexts, in ns.
    pub switch_ns: u64,
    /// Commands completed.
    pub commands: u64,
}

impl Usage {
    /// Time in which the engine's status word named the process, in ns.
    pub const fn ran_ns(&self) -> u64 {
        self.busy_ns.saturating_add(self.switch_ns)
    }

    /// What was added since `before`.
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            busy_ns: self.busy_ns.saturating_sub(before.busy_ns),
            switch_ns: self.switch_ns.saturating_sub(before.switch_ns),
            commands: self.commands.saturating_sub(before.commands),
        }
    }
}

/// What one process used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The process; 0: the row is free, or (row 0) collects processes without a row.
    pub pid: i32,
    /// Channels it has now.
    pub channels: u32,
    /// Use of each engine.
    pub usage: [Usage; ENGINES],
}

/// The ground truth. `E` and `A` are slices, vectors or boxes of fixed length.
pub struct Truth<E, A> {
    ring: E,
    written: u64,
    first: u64,
    accounts: A,
    totals: [Usage; ENGINES],
    start: u64,
}

impl<E: DerefMut<Target = [Option<Entry>]>, A: DerefMut<Target = [Account]>> Truth<E, A> {
    /// An empty record that begins at `now`.
    pub fn new(ring: E, accounts: A, now: u64) -> Self {
        Self {
            ring,
            written: 0,
            first: 0,
            accounts,
            totals: [Usage::default(); ENGINES],
            start: now,
        }
    }

    /// Forgets intervals and totals; the window begins again at `now`.
    pub fn reset(&mut self, now: u64) {
        self.first = self.written;
        self.start = now;
        self.totals = [Usage::default(); ENGINES];
        for account in self.accounts.iter_mut() {
            account.usage = [Usage::default(); ENGINES];
            if account.channels == 0 {
                account.pid = 0;
            }
        }
    }

    /// Notes an interval.
    pub fn record(&mut self, interval: Interval, pid: i32) {
        let entry = Entry { interval, pid };
        if let Some(slot) = self.slot(self.written) {
            self.ring[slot] = Some(entry);
            self.written = self.written.wrapping_add(1);
        }
        // An interval that began before a reset counts from the reset on.
        let length = interval.end.saturating_sub(interval.start.max(self.start));
        let engine = interval.engine % ENGINES;
        let row = self.row(pid);
        let account = self
            .accounts
            .get_mut(row)
            .map(|account| &mut account.usage[engine]);
        for usage in [Some(&mut self.totals[engine]), account]
            .into_iter()
            .flatten()
        {
            match interval.kind {
                Kind::Run => {
                    usage.busy_ns = usage.busy_ns.saturating_add(length);
                    usage.commands = usage.commands.saturating_add(1);
                }
                Kind::Switch => usage.switch_ns = usage.switch_ns.saturating_add(length),
            }
        }
    }

    /// Notes that a process has one channel more.
    pub fn channel_created(&mut self, pid: i32) {
        let row = match self.row(pid) {
            0 => self.free_row(pid),
            row => row,
        };
        if let Some(account) = self.accounts.get_mut(row) {
            account.channels = account.channels.saturating_add(1);
        }
    }

    /// Notes that a process has one channel less.
    pub fn channel_destroyed(&mut self, pid: i32) {
        let row = self.row(pid);
        if let Some(account) = self.accounts.get_mut(row) {
            account.channels = account.channels.saturating_sub(1);
        }
    }

    /// Positions of the intervals kept, oldest first.
    pub fn positions(&self) -> core::ops::Range<u64> {
        let kept = self.written.saturating_sub(self.ring.len() as u64);
        self.first.max(kept)..self.written
    }

    /// The interval at a position, if it is still kept.
    pub fn entry(&self, position: u64) -> Option<Entry> {
        if !self.positions().contains(&position) {
            return None;
        }
        self.ring[self.slot(position)?]
    }

    /// The accounts in use, and the row of processes that found no room.
    pub fn account(&self, row: usize) -> Option<Account> {
        self.accounts.get(row).copied()
    }

    /// Number of rows of [`Truth::account`].
    pub fn rows(&self) -> usize {
        self.accounts.len()
    }

    /// Use of each engine by all processes.
    pub fn totals(&self) -> [Usage; ENGINES] {
        self.totals
    }

    /// When the window began, in ns.
    pub fn start(&self) -> u64 {
        self.start
    }

    fn slot(&self, position: u64) -> Option<usize> {
        // CAST: the remainder is below a slice's length.
        position
            .checked_rem(self.ring.len() as u64)
            .map(|slot| slot as usize)
    }

    /// Row of a process; 0 if it has none.
    fn row(&self, pid: i32) -> usize {
        let rows = self.accounts.iter().enumerate().skip(1);
        rows.into_iter()
            .find(|(_, account)| account.pid == pid)
            .map_or(0, |(row, _)| row)
    }

    /// Gives a process a free row; 0 if there is none.
    fn free_row(&mut self, pid: i32) -> usize {
        let Some(row) = (1..self.accounts.len()).find(|&row| self.accounts[row].pid == 0) else {
            return 0;
        };
        self.accounts[row].pid = pid;
        row
    }
}

#[cfg(any(test, model_kunit))]
#[cfg_attr(model_kunit, kernel::macros::kunit_tests(loga_model_truth))]
mod tests {
    use super::*;
    use crate::gpu::Chid;

    fn interval(start: u64, end: u64, kind: Kind) -> Interval {
        Interval {
            start,
            end,
            engine: 0,
            chid: Chid(1),
            kind,
        }
    }

    #[test]
    fn ring_keeps_the_newest_when_full() {
        let (mut ring, mut accounts) = ([None; 2], [Account::default(); 2]);
        let mut truth = Truth::new(&mut ring[..], &mut accounts[..], 0);
        for start in 0..3 {
            truth.record(interval(start, start + 1, Kind::Run), 7);
        }
        assert_eq!(truth.positions(), 1..3);
        assert_eq!(truth.entry(0), None);
        assert_eq!(truth.entry(2).map(|entry| entry.interval.start), Some(2));
    }

    #[test]
    fn totals_are_kept_per_process_and_kind() {
        let (mut ring, mut accounts) = ([None; 4], [Account::default(); 3]);
        let mut truth = Truth::new(&mut ring[..], &mut accounts[..], 0);
        truth.channel_created(7);
        truth.record(interval(0, 10, Kind::Run), 7);
        truth.record(interval(10, 13, Kind::Switch), 7);
        truth.record(interval(13, 20, Kind::Run), 8);
        let account = truth.account(1).unwrap_or_default();
        assert_eq!((account.pid, account.channels), (7, 1));
        assert_eq!(
            account.usage[0],
            Usage {
                busy_ns: 10,
                switch_ns: 3,
                commands: 1
            }
        );
        assert_eq!(truth.account(0).unwrap_or_default().usage[0].busy_ns, 7);
        assert_eq!(
            truth.totals()[0],
            Usage {
                busy_ns: 17,
                switch_ns: 3,
                commands: 2
            }
        );
    }

    #[test]
    fn reset_forgets_and_cuts_the_interval_in_progress() {
        let (mut ring, mut accounts) = ([None; 4], [Account::default(); 2]);
        let mut truth = Truth::new(&mut ring[..], &mut accounts[..], 0);
        truth.record(interval(0, 10, Kind::Run), 7);
        truth.reset(15);
        assert!(truth.positions().is_empty());
        truth.record(interval(10, 20, Kind::Run), 7);
        assert_eq!(truth.totals()[0].busy_ns, 5);
    }
}
