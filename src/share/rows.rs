// SPDX-License-Identifier: GPL-2.0

//! [pure] How many rows of a GPU's table of clients one user may have, and where its further
//! processes go.
//!
//! A row is a process. The processes of a user that has as many rows as it may have run on: a further
//! one is accounted with a client of the same user *and the same cgroup*, so that all that is set for
//! its cgroup, and for those around it, holds for it, and its group pays. If its cgroup has no
//! client, it gets the row of a client of its user that owns no page, which is as if that one had
//! exited: its group keeps what it owes. If each of them owns a page, the mapping is refused.
//!
//! The bound falls as the table fills, so that no number of users leaves the next one without a row
//! before there are as many users as rows: `n` users that take what they can get leave one part in
//! `n + 1`.
//!
//! Source: Choudhury and Hahne, Dynamic queue length thresholds for shared-memory packet switches
//! (1998), with a factor of 1.

use super::setting::Identity;

/// Most clients of one GPU, including live processes without channels.
pub const MAX_CLIENTS: usize = 16_384;
/// Most clients of one user, however empty the table is.
pub const MAX_CLIENTS_OF_USER: usize = 2_048;

/// Rows that one user may have while the table has this many.
pub const fn rows_of_user(clients: usize) -> usize {
    let free = MAX_CLIENTS.saturating_sub(clients);
    if free < MAX_CLIENTS_OF_USER {
        free
    } else {
        MAX_CLIENTS_OF_USER
    }
}

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

/// The row of a process that is not among these `count` clients. `owns_page` says so of the client at
/// a position.
pub fn row_for<'a>(
    process: &Identity,
    clients: impl DoubleEndedIterator<Item = &'a Identity> + Clone,
    count: usize,
    mut owns_page: impl FnMut(usize) -> bool,
) -> RowFor {
    // Nobody can have so many.
    if count < MAX_CLIENTS_OF_USER {
        return RowFor::New;
    }
    let own = |of: &&Identity| of.user == process.user;
    if clients.clone().filter(own).count() < rows_of_user(count) {
        return RowFor::New;
    }
    let beside = |of: &Identity| own(&of) && of.cgroup == process.cgroup;
    if let Some(at) = clients.clone().position(beside) {
        return RowFor::SharedWith(at);
    }
    // The newest: a service that was there before a crowd of others keeps its row.
    let mut newest = (0..count).rev().zip(clients.rev());
    let asleep = newest.find(|(at, of)| own(of) && !owns_page(*at));
    asleep.map_or(RowFor::Refused, |(at, _)| RowFor::InPlaceOf(at))
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_share_rows))]
mod tests {
    use super::*;

    /// Users that take what they can get, one row each in turn; the rows that are left.
    fn left_by<const USERS: usize>() -> usize {
        let mut rows = [0usize; USERS];
        let mut taken = 0usize;
        loop {
            let before = taken;
            for own in &mut rows {
                if *own < rows_of_user(taken) {
                    *own = own.saturating_add(1);
                    taken = taken.saturating_add(1);
                }
            }
            if taken == before {
                return MAX_CLIENTS.saturating_sub(taken);
            }
        }
    }

    const FREE: u64 = 7;
    const TIGHT: u64 = 8;

    fn process(user: u32, cgroup: u64) -> Identity {
        Identity {
            cgroup,
            user,
            ..Identity::default()
        }
    }

    /// The row of a process beside a client of its user in `FREE`, and so many in `TIGHT`.
    fn row_beside(
        process: &Identity,
        tight: usize,
        owns_page: impl FnMut(usize) -> bool,
    ) -> RowFor {
        let (free, crowd) = (self::process(1000, FREE), self::process(1000, TIGHT));
        let clients = core::iter::repeat_n(&free, 1).chain(core::iter::repeat_n(&crowd, tight));
        row_for(process, clients, tight.saturating_add(1), owns_page)
    }

    const FULL: usize = MAX_CLIENTS_OF_USER - 1;

    #[test]
    fn process_beyond_the_last_row_is_accounted_in_its_own_cgroup() {
        let tight = process(1000, TIGHT);
        assert_eq!(row_beside(&tight, FULL - 1, |_| false), RowFor::New);
        // Not with the first of its user: that is in another cgroup, with another limit.
        assert_eq!(row_beside(&tight, FULL, |_| false), RowFor::SharedWith(1));
        let free = process(1000, FREE);
        assert_eq!(row_beside(&free, FULL, |_| true), RowFor::SharedWith(0));
    }

    #[test]
    fn process_of_a_cgroup_without_a_client_takes_the_row_of_one_without_pages() {
        let third = process(1000, 9);
        let newest = |at: usize| at == FULL;
        assert_eq!(row_beside(&third, FULL, |_| false), RowFor::InPlaceOf(FULL));
        assert_eq!(
            row_beside(&third, FULL, newest),
            RowFor::InPlaceOf(FULL - 1)
        );
        assert_eq!(row_beside(&third, FULL, |at| at != 0), RowFor::InPlaceOf(0));
        assert_eq!(row_beside(&third, FULL, |_| true), RowFor::Refused);
    }

    #[test]
    fn process_of_another_user_takes_nobodys_row() {
        assert_eq!(
            row_beside(&process(1001, TIGHT), FULL, |_| false),
            RowFor::New
        );
        let (full, other) = (process(1000, FREE), process(1001, FREE));
        let clients = core::iter::repeat_n(&full, MAX_CLIENTS);
        let row = row_for(&other, clients, MAX_CLIENTS, |_| false);
        assert_eq!(row, RowFor::Refused);
    }

    #[test]
    fn rows_of_eight_greedy_users_leave_as_many_for_a_ninth() {
        assert!(left_by::<8>() >= MAX_CLIENTS / 9);
        assert!(left_by::<1>() >= MAX_CLIENTS - MAX_CLIENTS_OF_USER);
    }

    #[test]
    fn rows_of_a_hundred_greedy_users_leave_one_for_the_next() {
        assert!(left_by::<100>() >= MAX_CLIENTS / 101);
    }

    #[test]
    fn rows_of_a_full_table_are_none() {
        assert_eq!(rows_of_user(MAX_CLIENTS), 0);
        assert_eq!(rows_of_user(MAX_CLIENTS - 1), 1);
        assert_eq!(rows_of_user(usize::MAX), 0);
    }
}
