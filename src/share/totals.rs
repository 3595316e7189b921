// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Totals per user and per cgroup. They outlive the processes, and stay until
//! they are read and reset.
//!
//! There is room for [`MAX_ROWS`] users and as many cgroups. When it is full, a row becomes part of
//! a row for all others, so only the name is lost. A user that can make cgroups can make many of
//! them, but only below the cgroups that it was given: a further one removes a row below the
//! nearest cgroup around it that has many rows, and no other.

use super::member::Account;
use super::setting::{Identity, MAX_LEVELS};
use crate::storage::{Bounded, Storage};
use crate::units::Ns;

/// Users, or cgroups, with a row of their own.
pub const MAX_ROWS: usize = 256;
/// Rows of a table of all kinds. It takes less than 160 KiB.
pub const MAX_TOTALS: usize = 2 * MAX_ROWS;
/// This part of the rows of a kind counts as many below one cgroup.
const CROWD: usize = 8;

/// What a row is the total of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A user.
    #[default]
    User,
    /// A cgroup.
    Cgroup,
}

impl Kind {
    /// The user or cgroup of a process.
    pub fn key(self, identity: &Identity) -> u64 {
        match self {
            Kind::User => identity.user.into(),
            Kind::Cgroup => identity.cgroup,
        }
    }
}

/// The total of one user or cgroup on one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Of what.
    pub kind: Kind,
    /// User id or cgroup id; nothing in the row for all others.
    pub key: Option<u64>,
    /// For a cgroup, the cgroups around it: [`Identity::above`].
    pub above: [u64; MAX_LEVELS],
    /// What its processes got.
    pub account: Account,
    /// Processes that have begun to use the GPU.
    pub processes: u64,
    /// When the row began.
    pub since: Ns,
    /// When it was charged last.
    pub last: Ns,
}

impl Row {
    /// An empty row for the user or the cgroup of a process.
    fn of(identity: &Identity, kind: Kind, now: Ns) -> Self {
        Self {
            kind,
            key: Some(kind.key(identity)),
            above: match kind {
                Kind::User => [0; MAX_LEVELS],
                Kind::Cgroup => identity.above,
            },
            since: now,
            last: now,
            ..Self::default()
        }
    }

    const fn others(kind: Kind) -> Self {
        const NONE: Ns = Ns::ZERO;
        Self {
            kind,
            key: None,
            above: [0; MAX_LEVELS],
            account: Account {
                measured: NONE,
                received: NONE,
                entitled: NONE,
                waited: NONE,
                throttled: NONE,
                throttles: 0,
                runs: 0,
                variance_us2: 0,
                copied: NONE,
                copied_variance_us2: 0,
            },
            processes: 0,
            since: NONE,
            last: NONE,
        }
    }

    fn is_empty(&self) -> bool {
        self.account == Account::default() && self.processes == 0
    }

    fn add(&mut self, other: &Row) {
        if self.is_empty() || other.since < self.since {
            self.since = other.since;
        }
        self.account.add(&other.account);
        self.processes = self.processes.saturating_add(other.processes);
        self.last = self.last.max(other.last);
    }
}

/// Totals of one GPU, in storage that the caller owns, at most [`MAX_TOTALS`]: half of it for
/// each kind.
pub struct Totals<S: Storage> {
    rows: Bounded<S::Of<Row>>,
    /// Of users and of cgroups without a row.
    others: [Row; 2],
}

impl<S: Storage> Totals<S> {
    /// No totals.
    pub const fn new(store: S::Of<Row>) -> Self {
        Self {
            rows: Bounded::new(store),
            others: [Row::others(Kind::User), Row::others(Kind::Cgroup)],
        }
    }

    /// Adds to the total of the user or the cgroup of a process. `hint` is what the last call for
    /// the same one returned, or any number; with a good one the call takes the same time for any
    /// number of rows.
    pub fn charge(
        &mut self,
        kind: Kind,
        identity: &Identity,
        hint: u16,
        account: &Account,
        now: Ns,
    ) -> u16 {
        let row = self.rows.all_mut().get_mut(usize::from(hint));
        if let Some(row) = row.filter(|row| row.kind == kind && row.key == Some(kind.key(identity)))
        {
            row.account.add(account);
            row.last = row.last.max(now);
            return hint;
        }
        self.merge(&Row {
            account: *account,
            ..Row::of(identity, kind, now)
        })
    }

    /// Counts a process that begins to use the GPU.
    pub fn begin_process(&mut self, kind: Kind, identity: &Identity, now: Ns) {
        self.merge(&Row {
            processes: 1,
            ..Row::of(identity, kind, now)
        });
    }

    /// Adds a row, also one that was read and could not be delivered. Returns a hint for
    /// [`Totals::charge`].
    pub fn merge(&mut self, row: &Row) -> u16 {
        let Some(key) = row.key else {
            self.others_mut(row.kind).add(row);
            return u16::MAX;
        };
        let is_it = |other: &Row| other.kind == row.kind && other.key == Some(key);
        let at = match self.rows.all().iter().position(is_it) {
            Some(at) => {
                if let Some(old) = self.rows.all_mut().get_mut(at) {
                    old.add(row);
                }
                at
            }
            None => {
                self.make_room(row);
                match self.rows.push(*row) {
                    Some(at) => at,
                    None => {
                        self.others_mut(row.kind).add(row);
                        return u16::MAX;
                    }
                }
            }
        };
        u16::try_from(at).unwrap_or(u16::MAX)
    }

    /// The total of one user or cgroup, if it has a row of its own.
    pub fn row(&self, kind: Kind, key: u64) -> Option<Row> {
        let mut rows = self.rows.all().iter();
        let row = rows.find(|row| row.kind == kind && row.key == Some(key));
        row.copied()
    }

    /// Copies totals of one kind to `out`, the one of all others first, and returns
    /// how many there are; with `reset`, what was copied is gone from the table.
    pub fn read(&mut self, kind: Kind, reset: bool, out: &mut [Row]) -> usize {
        let others = self.others_mut(kind);
        let there = usize::from(!others.is_empty());
        let mut count = 0;
        if there == 1 {
            if let Some(slot) = out.first_mut() {
                *slot = *others;
                if reset {
                    *others = Row::others(kind);
                }
            }
            count = 1;
        }
        let mut at = 0;
        while let Some(row) = self.rows.all().get(at).copied() {
            at = at.saturating_add(1);
            if row.kind != kind {
                continue;
            }
            if let Some(slot) = out.get_mut(count) {
                *slot = row;
                if reset {
                    at = at.saturating_sub(1);
                    self.rows.remove(at);
                }
            }
            count = count.saturating_add(1);
        }
        count
    }

    /// Merges a row into the row of all others, if there is no room for a further one of this kind.
    fn make_room(&mut self, new: &Row) {
        let same = |row: &&Row| row.kind == new.kind;
        let most = self.rows.room() / 2;
        let count = self.rows.all().iter().filter(same).count();
        if count < most {
            return;
        }
        if let Some(row) = self.victim(new, most).and_then(|at| self.rows.remove(at)) {
            self.others_mut(row.kind).add(&row);
        }
    }

    /// Position of the row of the same kind that makes room for a new one: one without time; else,
    /// of the rows below the nearest cgroup around the new one that has many, the one that was
    /// charged least recently.
    fn victim(&self, new: &Row, most: usize) -> Option<usize> {
        let rows = || {
            let rows = self.rows.all().iter().enumerate();
            rows.filter(|(_, row)| row.kind == new.kind)
        };
        let empty = rows().filter(|(_, row)| row.account == Account::default());
        if let Some((at, _)) = empty.min_by_key(|(_, row)| row.last) {
            return Some(at);
        }
        for cgroup in new.above.iter().rev().filter(|id| **id != 0) {
            let inside = || rows().filter(|(_, row)| row.above.contains(cgroup));
            if inside().count().saturating_mul(CROWD) >= most {
                return inside().min_by_key(|(_, row)| row.last).map(|(at, _)| at);
            }
        }
        rows().min_by_key(|(_, row)| row.last).map(|(at, _)| at)
    }

    fn others_mut(&mut self, kind: Kind) -> &mut Row {
        let [users, cgroups] = &mut self.others;
        match kind {
            Kind::User => users,
            Kind::Cgroup => cgroups,
        }
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_share_totals))]
mod tests {
    use super::*;
    use crate::storage::Borrowed;

    fn got(ms: u64) -> Account {
        Account {
            received: Ns::from_ms(ms),
            ..Account::default()
        }
    }

    fn user(user: u32) -> Identity {
        Identity {
            user,
            ..Identity::default()
        }
    }

    /// A cgroup in another one, which is in the root.
    fn below(parent: u64, cgroup: u64) -> Identity {
        let mut identity = Identity {
            cgroup,
            ..Identity::default()
        };
        (identity.above[0], identity.above[1]) = (1, parent);
        identity
    }

    /// GPU time of all rows of a kind together, and how many there are.
    fn sum(totals: &mut Totals<Borrowed<'_>>, kind: Kind) -> (u64, usize) {
        let mut out = [Row::default(); 40];
        let count = totals.read(kind, false, &mut out);
        let ns = out
            .iter()
            .map(|row| row.account.received.get())
            .sum::<u64>();
        (ns / 1_000_000, count)
    }

    #[test]
    fn charges_of_a_user_add_up_under_any_hint() {
        let mut store = [Row::default(); 4];
        let mut totals = Totals::<Borrowed<'_>>::new(&mut store[..]);
        totals.charge(Kind::User, &user(1), 0, &got(1), Ns::new(1));
        let hint = totals.charge(Kind::User, &user(2), 0, &got(2), Ns::new(2));
        assert_eq!(
            totals.charge(Kind::User, &user(2), hint, &got(4), Ns::new(3)),
            hint
        );
        totals.charge(Kind::User, &user(2), 77, &got(8), Ns::new(4));
        // The same number, but of a cgroup.
        totals.charge(Kind::Cgroup, &below(7, 2), hint, &got(16), Ns::new(5));
        assert_eq!(sum(&mut totals, Kind::User), (15, 2));
        assert_eq!(sum(&mut totals, Kind::Cgroup), (16, 1));
    }

    #[test]
    fn full_table_gives_the_least_recent_to_the_others() {
        let mut store = [Row::default(); 4];
        let mut totals = Totals::<Borrowed<'_>>::new(&mut store[..]);
        for id in 1..=2 {
            totals.charge(
                Kind::User,
                &user(id),
                0,
                &got(id.into()),
                Ns::new(id.into()),
            );
        }
        totals.charge(Kind::User, &user(1), 0, &got(0), Ns::new(3));
        totals.charge(Kind::User, &user(3), 0, &got(4), Ns::new(4));
        let mut out = [Row::default(); 4];
        assert_eq!(totals.read(Kind::User, false, &mut out), 3);
        assert_eq!(out[0].key, None);
        assert_eq!(out[0].account, got(2));
        assert_eq!(out[0].since, Ns::new(2));
        assert_eq!(sum(&mut totals, Kind::User), (7, 3));
    }

    // Its tables do not fit on the stack of a kernel thread.
    #[cfg(not(loga_kunit))]
    #[test]
    fn cgroups_of_one_tenant_push_out_no_other_row() {
        let mut store = [Row::default(); 64];
        let mut totals = Totals::<Borrowed<'_>>::new(&mut store[..]);
        totals.charge(Kind::User, &user(5), 0, &got(5), Ns::new(1));
        let mut now = 1;
        for id in 100..110 {
            now += 1;
            totals.charge(Kind::Cgroup, &below(2, id), 0, &got(1), Ns::new(now));
        }
        for id in 1000..1300 {
            now += 1;
            totals.charge(Kind::Cgroup, &below(3, id), 0, &got(1), Ns::new(now));
        }
        let mut out = [Row::default(); 40];
        assert_eq!(totals.read(Kind::Cgroup, false, &mut out), 33);
        let of_other = out.iter().filter(|row| row.above[1] == 2).count();
        assert_eq!(of_other, 10);
        assert_eq!(sum(&mut totals, Kind::Cgroup), (310, 33));
        assert_eq!(sum(&mut totals, Kind::User), (5, 1));
    }

    #[test]
    fn row_without_time_goes_first() {
        let mut store = [Row::default(); 4];
        let mut totals = Totals::<Borrowed<'_>>::new(&mut store[..]);
        totals.charge(Kind::Cgroup, &below(2, 10), 0, &got(1), Ns::new(1));
        totals.begin_process(Kind::Cgroup, &below(3, 11), Ns::new(2));
        totals.begin_process(Kind::Cgroup, &below(3, 12), Ns::new(3));
        let mut out = [Row::default(); 4];
        totals.read(Kind::Cgroup, false, &mut out);
        assert!(out.iter().any(|row| row.key == Some(10)));
        assert!(!out.iter().any(|row| row.key == Some(11)));
    }

    #[test]
    fn row_of_a_user_is_found_alone() {
        let mut store = [Row::default(); 4];
        let mut totals = Totals::<Borrowed<'_>>::new(&mut store[..]);
        totals.charge(Kind::User, &user(1), 0, &got(1), Ns::new(1));
        totals.charge(Kind::User, &user(2), 0, &got(2), Ns::new(2));
        totals.charge(Kind::Cgroup, &below(7, 3), 0, &got(4), Ns::new(3));
        let of = |kind, key| totals.row(kind, key).map(|row| row.account);
        assert_eq!(of(Kind::User, 2), Some(got(2)));
        assert_eq!(of(Kind::User, 3), None);
        assert_eq!(of(Kind::Cgroup, 3), Some(got(4)));
    }

    #[test]
    fn reset_takes_only_what_was_read() {
        let mut store = [Row::default(); 6];
        let mut totals = Totals::<Borrowed<'_>>::new(&mut store[..]);
        for id in 1..=3 {
            totals.charge(
                Kind::User,
                &user(id),
                0,
                &got(id.into()),
                Ns::new(id.into()),
            );
        }
        totals.charge(Kind::Cgroup, &below(7, 9), 0, &got(9), Ns::new(9));
        let mut out = [Row::default(); 2];
        assert_eq!(totals.read(Kind::User, true, &mut out), 3);
        assert_eq!(sum(&mut totals, Kind::User), (3, 1));
        assert_eq!(sum(&mut totals, Kind::Cgroup), (9, 1));
    }

    #[test]
    fn row_that_could_not_be_delivered_is_put_back() {
        let mut store = [Row::default(); 4];
        let mut totals = Totals::<Borrowed<'_>>::new(&mut store[..]);
        totals.charge(Kind::User, &user(1), 0, &got(1), Ns::new(5));
        totals.begin_process(Kind::User, &user(1), Ns::new(6));
        let mut out = [Row::default(); 1];
        totals.read(Kind::User, true, &mut out);
        let taken = out[0];
        totals.charge(Kind::User, &user(1), 0, &got(2), Ns::new(8));
        totals.merge(&taken);
        assert_eq!(totals.read(Kind::User, true, &mut out), 1);
        assert_eq!(out[0].account, got(3));
        assert_eq!(out[0].processes, 1);
        assert_eq!(out[0].since, Ns::new(5));
    }
}
