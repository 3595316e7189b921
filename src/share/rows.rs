// SPDX-License-Identifier: GPL-2.0

//! [pure] How many rows of a GPU's table of clients one user may have.
//!
//! A row is a process. A user that has as many rows as it may have runs on: its further processes
//! are accounted with its first one. The bound falls as the table fills, so that no number of users
//! leaves the next one without a row before there are as many users as rows: `n` users that take
//! what they can get leave one part in `n + 1`.
//!
//! Source: Choudhury and Hahne, Dynamic queue length thresholds for shared-memory packet switches
//! (1998), with a factor of 1.

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
