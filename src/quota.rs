// SPDX-License-Identifier: GPL-2.0

//! `[pure]` How many entries of a bounded table one tenant may have.
//!
//! One rule for all tables that tenants fill: who has entries may have one more while it has *fewer
//! than are left*. So it holds between users, of the entries that are free; and between the cgroups
//! of one user, of the entries that this user may still take. A tenant takes what is free and leaves
//! as much. Who has none gets one, while there is one: nobody who has some takes the last.
//!
//! The cgroups are those at the *tenants' level*, see
//! [`Identity::tenant`](crate::share::Identity::tenant): containers whose programs all
//! run as user 0 are one user, and their cgroups keep them apart. What a tenant does below its cgroup
//! changes nothing. A user that can make cgroups at that level divides its own part.
//!
//! Source: Choudhury and Hahne, Dynamic queue length thresholds for shared-memory packet switches
//! (1998), with a factor of 1.

/// Who holds an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tenant {
    /// Its user.
    pub user: u32,
    /// Its cgroup at the tenants' level.
    pub cgroup: u64,
}

impl From<u32> for Tenant {
    /// A user whose cgroups are not told apart.
    fn from(user: u32) -> Self {
        Self { user, cgroup: 0 }
    }
}

/// The entries that are held of a table, as a tenant sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// By all.
    pub all: usize,
    /// By its user.
    pub user: usize,
    /// By its cgroup, of those of its user.
    pub cgroup: usize,
}

impl Held {
    /// Counts entries by who holds them.
    pub fn count(tenant: Tenant, entries: impl Iterator<Item = Tenant>) -> Self {
        entries.fold(Self::default(), |held, of| {
            let is_user = of.user == tenant.user;
            Self {
                all: held.all.saturating_add(1),
                user: held.user.saturating_add(is_user.into()),
                cgroup: held.cgroup.saturating_add((of == tenant).into()),
            }
        })
    }
}

/// How a table is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Entries of the table.
    size: usize,
    /// Most entries of one user, however empty the table is. One cgroup alone gets half of them.
    of_user: usize,
}

impl Quota {
    /// A table of this size, of which a user has at most so many entries.
    pub const fn new(size: usize, of_user: usize) -> Self {
        Self { size, of_user }
    }

    /// Whether everybody may have one more while so many entries are held, whoever holds them.
    pub const fn is_ample(&self, all: usize) -> bool {
        all.saturating_mul(2) < self.of_user && all.saturating_mul(4) < self.size
    }

    /// Entries that the user may still take until it has as many as it leaves.
    const fn left_to_user(&self, held: &Held) -> usize {
        let left = self.size.saturating_sub(held.all);
        let until_half = left.saturating_sub(held.user).div_ceil(2);
        let own = self.of_user.saturating_sub(held.user);
        if until_half < own {
            until_half
        } else {
            own
        }
    }

    /// Allows one more entry.
    ///
    /// # Errors
    ///
    /// How many entries the tenant has, as no more are allowed: those of its user if that may have no
    /// more, else those of its cgroup.
    pub const fn check(&self, held: &Held) -> Result<(), usize> {
        match self.left_to_user(held) {
            0 => Err(held.user),
            left if held.cgroup < left => Ok(()),
            _ => Err(held.cgroup),
        }
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_quota))]
mod tests {
    use super::*;

    const SMALL: Quota = Quota::new(16, 16);

    fn check(quota: Quota, all: usize, user: usize, cgroup: usize) -> Result<(), usize> {
        quota.check(&Held { all, user, cgroup })
    }

    #[test]
    fn user_takes_what_is_free_and_leaves_as_much() {
        // Each entry of another cgroup.
        assert_eq!(check(SMALL, 7, 7, 0), Ok(()));
        assert_eq!(check(SMALL, 8, 8, 0), Err(8));
        assert_eq!(check(SMALL, 8, 0, 0), Ok(()));
        // The last one is for who has none.
        assert_eq!(check(SMALL, 15, 1, 0), Err(1));
        assert_eq!(check(SMALL, 15, 0, 0), Ok(()));
        assert_eq!(check(SMALL, 16, 0, 0), Err(0));
    }

    #[test]
    fn cgroup_takes_what_its_user_may_have_and_leaves_as_much() {
        // The user may have eight, and of these a cgroup alone four.
        assert_eq!(check(SMALL, 3, 3, 3), Ok(()));
        assert_eq!(check(SMALL, 4, 4, 4), Err(4));
        assert_eq!(check(SMALL, 4, 4, 0), Ok(()));
        let bounded = Quota::new(1000, 8);
        assert_eq!(check(bounded, 3, 3, 3), Ok(()));
        assert_eq!(check(bounded, 4, 4, 4), Err(4));
        assert_eq!(check(bounded, 7, 7, 0), Ok(()));
        assert_eq!(check(bounded, 8, 8, 0), Err(8));
    }

    #[test]
    fn table_that_is_ample_refuses_nobody() {
        for all in 0..1000 {
            for quota in [SMALL, Quota::new(1000, 100), Quota::new(100, 1000)] {
                assert!(!quota.is_ample(all) || check(quota, all, all, all) == Ok(()));
            }
        }
    }
}
