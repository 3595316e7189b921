// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Which row of a GPU's table of clients a process gets.
//!
//! A row is a process, and rows are divided by [`ROWS`]. The processes of a tenant that has as many as
//! it may have run on: a further one is accounted with a client of the same user *and the same
//! cgroup*, so that all that is set for its cgroup, and for those around it, holds for it, and its
//! group pays. If its cgroup has no client, it gets the row of a client of its tenant that owns no
//! page (of its user, if the tenant has none), which is as if that one had exited: its group keeps
//! what it owes. If each of them owns a page, the mapping is refused.

use super::setting::Identity;
use crate::quota::{Held, Quota};

/// Most clients of one GPU, including live processes without channels.
pub const MAX_CLIENTS: usize = 16_384;
/// Most clients of one user, however empty the table is: half of them for its first cgroup.
pub const MAX_CLIENTS_OF_USER: usize = 4_096;
/// How the rows are divided.
pub const ROWS: Quota = Quota::new(MAX_CLIENTS, MAX_CLIENTS_OF_USER);

/// The row of a process that has none yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFor {
    /// One of its own.
    New,
    /// That of the client at this position, of the same user and cgroup.
    SharedWith(usize),
    /// One of its own, in place of that of the client at this position.
    InPlaceOf(usize),
    /// None.
    Refused,
}

/// The row of a process that is not among these `count` clients. `depth` is the knob `cgroup_depth`,
/// `owns_page` says so of the client at a position.
pub fn row_for<'a>(
    process: &Identity,
    depth: u32,
    clients: impl DoubleEndedIterator<Item = &'a Identity> + Clone,
    count: usize,
    mut owns_page: impl FnMut(usize) -> bool,
) -> RowFor {
    if ROWS.is_ample(count) {
        return RowFor::New;
    }
    let tenant = process.tenant(depth);
    let held = Held::count(tenant, clients.clone().map(|of| of.tenant(depth)));
    if ROWS.check(&held).is_ok() {
        return RowFor::New;
    }
    let beside = |of: &Identity| of.user == process.user && of.cgroup == process.cgroup;
    if let Some(at) = clients.clone().position(beside) {
        return RowFor::SharedWith(at);
    }
    let yields = |of: &Identity| match held.cgroup {
        0 => of.user == process.user,
        _ => of.tenant(depth) == tenant,
    };
    // The newest: a service that was there before a crowd of others keeps its row.
    let mut newest = (0..count).rev().zip(clients.rev());
    let asleep = newest.find(|(at, of)| yields(of) && !owns_page(*at));
    asleep.map_or(RowFor::Refused, |(at, _)| RowFor::InPlaceOf(at))
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_share_rows))]
mod tests {
    use super::*;

    const FREE: u64 = 7;
    const TIGHT: u64 = 8;
    /// A cgroup in `TIGHT`.
    const INNER: u64 = 9;

    fn process(user: u32, cgroup: u64) -> Identity {
        let mut process = Identity {
            cgroup,
            user,
            ..Identity::default()
        };
        let above = [1, if cgroup == INNER { TIGHT } else { 0 }];
        for (level, id) in process.above.iter_mut().zip(above) {
            *level = id;
        }
        process
    }

    /// The row of a process of this user and cgroup beside one client of a user in `FREE`, and so many
    /// in `TIGHT`.
    fn row(of: (u32, u64), tight: usize, owns_page: impl FnMut(usize) -> bool) -> RowFor {
        let (free, crowd) = (process(1000, FREE), process(1000, TIGHT));
        let clients = core::iter::repeat_n(&free, 1).chain(core::iter::repeat_n(&crowd, tight));
        let count = tight.saturating_add(1);
        row_for(&process(of.0, of.1), 0, clients, count, owns_page)
    }

    /// All that the cgroup may have beside the other one.
    const FULL: usize = MAX_CLIENTS_OF_USER / 2;

    #[test]
    fn process_beyond_the_last_row_is_accounted_in_its_own_cgroup() {
        let tight = (1000, TIGHT);
        assert_eq!(row(tight, FULL - 1, |_| false), RowFor::New);
        // Not with the first of its user: that is in another cgroup, with another limit.
        assert_eq!(row(tight, FULL, |_| false), RowFor::SharedWith(1));
        let all = MAX_CLIENTS_OF_USER;
        assert_eq!(row((1000, FREE), all, |_| true), RowFor::SharedWith(0));
    }

    #[test]
    fn cgroup_with_all_its_rows_leaves_as_many_to_the_next_of_its_user() {
        assert_eq!(row((1000, FREE), FULL, |_| false), RowFor::New);
        assert_eq!(row((1000, 10), FULL, |_| false), RowFor::New);
    }

    #[test]
    fn process_of_a_cgroup_without_a_client_takes_the_row_of_one_without_pages() {
        // In a full cgroup of its tenant, which gives it: not the one in `FREE`.
        let inner = (1000, INNER);
        assert_eq!(row(inner, FULL, |_| false), RowFor::InPlaceOf(FULL));
        let newest = |at: usize| at == FULL;
        assert_eq!(row(inner, FULL, newest), RowFor::InPlaceOf(FULL - 1));
        assert_eq!(row(inner, FULL, |at| at != 0), RowFor::Refused);
        // In a cgroup of a user that may have no more.
        let all = MAX_CLIENTS_OF_USER;
        assert_eq!(row((1000, 10), all, |at| at != 0), RowFor::InPlaceOf(0));
        assert_eq!(row((1000, 10), all, |_| true), RowFor::Refused);
    }

    #[test]
    fn process_of_another_user_takes_nobodys_row() {
        assert_eq!(row((1001, TIGHT), FULL, |_| false), RowFor::New);
        let (full, other) = (process(1000, FREE), process(1001, FREE));
        let clients = core::iter::repeat_n(&full, MAX_CLIENTS);
        let row = row_for(&other, 0, clients, MAX_CLIENTS, |_| false);
        assert_eq!(row, RowFor::Refused);
    }
}
