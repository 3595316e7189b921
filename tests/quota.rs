// SPDX-License-Identifier: GPL-2.0

//! Properties: whatever was taken from a bounded table and given back before, a tenant takes what is
//! free and leaves as much, and who has nothing gets an entry while there is one.

use loga::quota::{Held, Quota, Tenant};
use proptest::prelude::*;

/// A tenant takes an entry, or gives back one of those that are held.
#[derive(Clone, Debug)]
enum Step {
    Take(Tenant),
    GiveBack(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few that want much, and some that want little.
    let user = prop_oneof![3 => 0u32..2, 1 => 0u32..12];
    let cgroup = prop_oneof![2 => 0u64..2, 1 => 0u64..6];
    let tenant = (user, cgroup).prop_map(|(user, cgroup)| Tenant { user, cgroup });
    let step = prop_oneof![
        4 => tenant.prop_map(Step::Take),
        1 => any::<prop::sample::Index>().prop_map(Step::GiveBack),
    ];
    prop::collection::vec(step, 0..300)
}

/// A user that holds nothing, and a cgroup of a user that holds nothing.
const STRANGER: Tenant = Tenant {
    user: 99,
    cgroup: 99,
};
const FRESH: u64 = 99;

proptest! {
    #[test]
    fn tenant_takes_what_is_free_and_leaves_as_much(
        size in 1usize..80,
        of_user in 1usize..80,
        steps in steps(),
    ) {
        let quota = Quota::new(size, of_user);
        let mut entries: Vec<Tenant> = Vec::new();
        for step in steps {
            let tenant = match step {
                Step::Take(tenant) => tenant,
                Step::GiveBack(index) => {
                    if !entries.is_empty() {
                        entries.swap_remove(index.index(entries.len()));
                    }
                    continue;
                }
            };
            let held = |of: Tenant| Held::count(of, entries.iter().copied());
            let before = held(tenant);
            let checked = quota.check(&before);
            if let Err(most) = checked {
                prop_assert!(most == before.user || most == before.cgroup);
                // Nobody without an entry is refused while one is there, for want of what others have.
                prop_assert!(before.user > 0 || before.all >= size);
                continue;
            }
            entries.push(tenant);
            let held = |of: Tenant| Held::count(of, entries.iter().copied());
            let after = held(tenant);
            let left = size - after.all;
            prop_assert!(after.user <= of_user);
            // It has one more than was left at most: the one that it took.
            prop_assert!(after.user <= left + 1);
            prop_assert!(before.user == 0 || quota.check(&held(STRANGER)).is_ok());
            // A cgroup leaves as much to the others of its user, by what that may still take.
            let fresh = Tenant { cgroup: FRESH, ..tenant };
            prop_assert!(before.cgroup == 0 || quota.check(&held(fresh)).is_ok());
            let mut more = entries.clone();
            for at in 0..before.cgroup {
                // Each of a further cgroup.
                let next = Tenant { cgroup: FRESH + at as u64, ..tenant };
                let allowed = quota.check(&Held::count(next, more.iter().copied()));
                prop_assert!(allowed.is_ok(), "{} of {} cgroups", at, before.cgroup);
                more.push(next);
            }
        }
    }

    #[test]
    fn greedy_users_have_about_as_many_entries_as_they_leave(users in 1u32..40, cgroups in 1u64..4) {
        let quota = Quota::new(1000, 1000);
        let mut entries: Vec<Tenant> = Vec::new();
        loop {
            let before = entries.len();
            for tenant in (0..users).flat_map(|user| (0..cgroups).map(move |cgroup| Tenant { user, cgroup })) {
                if quota.check(&Held::count(tenant, entries.iter().copied())).is_ok() {
                    entries.push(tenant);
                }
            }
            if entries.len() == before {
                break;
            }
        }
        let left = 1000 - entries.len();
        prop_assert!(left >= 1000 / (users as usize + 1), "{} users leave {}", users, left);
    }
}
