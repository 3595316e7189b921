// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What users may set for their own processes.
//!
//! A user may lower what holds for a process, and take that back; nothing else. What the user
//! lowered is kept apart from what an administrator set. The lower one of both holds, so that no
//! user raises anything, whatever an administrator sets before or later.

use super::entries::MAX_SETTINGS;
use super::resolved::Resolved;
use super::setting::{Change, Limit};
use crate::error::Error;
use crate::quota::{Held, Quota, Tenant};

/// Settings that users made: the rest of the table is an administrator's.
pub const MAX_LOWERED: usize = MAX_SETTINGS / 2;
/// Settings that one user made, in all its cgroups: half of them in its first.
pub const MAX_LOWERED_OF_USER: usize = 64;
/// How they are divided.
const LOWERED: Quota = Quota::new(MAX_LOWERED, MAX_LOWERED_OF_USER);

/// Refuses to lower one more process for a tenant that has lowered as many as it may: these are the
/// tenants of those that are lowered.
pub(super) fn check_room(
    tenant: Tenant,
    lowered: impl Iterator<Item = Tenant>,
) -> Result<(), Error> {
    let name = "settings";
    let checked = LOWERED.check(&Held::count(tenant, lowered));
    checked.map_err(|max| Error::Full { name, max })
}

/// Refuses what is more than an administrator lets a process have.
pub(super) fn check(change: &Change, most: &Resolved) -> Result<(), Error> {
    let refuse = |name, value: u32, max: u32| {
        let (value, max) = (value.into(), max.into());
        Err(Error::NotLower { name, value, max })
    };
    let weight = most.weight.get();
    if let Some(value) = change.weight.filter(|value| *value > weight) {
        return refuse("weight", value, weight);
    }
    let limit = most.limit.unwrap_or(Limit::NONE).get();
    if let Some(value) = change.limit.filter(|value| *value > limit) {
        return refuse("limit", value, limit);
    }
    if change.class.is_some_and(|class| class < most.class) {
        return Err(Error::NotIdle);
    }
    Ok(())
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_share_lowering))]
mod tests {
    use super::super::{Class, Entry, Identity, Settings, Subject};
    use super::*;
    use crate::storage::Borrowed;

    fn process(process: u64) -> Identity {
        Identity {
            process,
            user: 30,
            ..Identity::default()
        }
    }

    #[test]
    fn user_takes_back_what_it_lowered_and_no_more() {
        let mut store = [Entry::default(); 4];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store[..]);
        let identity = process(10);
        let user = Subject::User(30);
        assert_eq!(settings.set(user, None, &Change::weight(50)), Ok(()));
        assert_eq!(settings.lower(&identity, &Change::weight(7)), Ok(()));
        assert_eq!(settings.resolve(&identity).weight.get(), 7);
        assert_eq!(settings.lower(&identity, &Change::weight(50)), Ok(()));
        let refused = Error::NotLower {
            name: "weight",
            value: 51,
            max: 50,
        };
        assert_eq!(settings.lower(&identity, &Change::weight(51)), Err(refused));
        // A lower setting of the administrator holds over what the user set before.
        assert_eq!(settings.set(user, None, &Change::weight(3)), Ok(()));
        assert_eq!(settings.resolve(&identity).weight.get(), 3);
        assert_eq!(settings.clear_lowered(&identity), Ok(()));
        assert_eq!(settings.clear_lowered(&identity), Err(Error::NotSet));
        assert_eq!(settings.resolve(&identity).weight.get(), 3);
        assert_eq!(settings.all().len(), 1);
    }

    #[test]
    fn user_leaves_the_idle_class_only_if_it_chose_it() {
        let mut store = [Entry::default(); 4];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store[..]);
        let identity = process(10);
        assert_eq!(
            settings.lower(&identity, &Change::class(Class::Idle)),
            Ok(())
        );
        assert_eq!(settings.resolve(&identity).class, Class::Idle);
        assert_eq!(
            settings.lower(&identity, &Change::class(Class::Normal)),
            Ok(())
        );
        assert_eq!(settings.resolve(&identity).class, Class::Normal);
        let own = Subject::Process(10);
        assert_eq!(
            settings.set(own, Some(identity), &Change::class(Class::Idle)),
            Ok(())
        );
        let refused = settings.lower(&identity, &Change::class(Class::Normal));
        assert_eq!(refused, Err(Error::NotIdle));
        assert_eq!(settings.clear_lowered(&identity), Ok(()));
        assert_eq!(settings.resolve(&identity).class, Class::Idle);
    }

    // A user could start the budget of its process anew again and again.
    #[test]
    fn debt_under_a_limit_stays_when_a_user_lowers_it() {
        let mut store = [Entry::default(); 4];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store[..]);
        let (identity, own) = (process(10), Subject::Process(10));
        assert_eq!(
            settings.set(own, Some(identity), &Change::limit(40)),
            Ok(())
        );
        let spent = super::super::Spent {
            used: crate::units::Ns::from_ms(500),
            allowed: true,
        };
        let period = crate::units::Ns::from_ms(6);
        settings.spend(&settings.resolve(&identity), &spent);
        settings.settle(period, period, period);
        let resolved = settings.resolve(&identity);
        assert!(settings.exhausted(&resolved));
        for percent in [39, 40] {
            assert_eq!(settings.lower(&identity, &Change::limit(percent)), Ok(()));
            assert!(settings.exhausted(&resolved));
        }
        assert_eq!(settings.clear_lowered(&identity), Ok(()));
        assert!(settings.exhausted(&resolved));
    }

    // Its tables do not fit on the stack of a kernel thread.
    #[cfg(not(loga_kunit))]
    #[test]
    fn user_fills_its_part_of_the_table_only() {
        let mut store = [Entry::default(); 64];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store[..]);
        for id in 1..=32 {
            assert_eq!(settings.lower(&process(id), &Change::weight(1)), Ok(()));
        }
        let full = Error::Full {
            name: "settings",
            max: MAX_LOWERED_OF_USER / 2,
        };
        assert_eq!(settings.lower(&process(33), &Change::weight(1)), Err(full));
        assert_eq!(settings.lower(&process(1), &Change::limit(5)), Ok(()));
        let other = Identity {
            user: 31,
            ..process(34)
        };
        assert_eq!(settings.lower(&other, &Change::weight(1)), Ok(()));
        // Settings that users lowered do not limit an administrator.
        let user = Subject::User(30);
        assert_eq!(settings.set(user, None, &Change::limit(1)), Ok(()));
    }
}
