// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What is exported of reserves.

use super::{kernel, read, sampler};
use loga::uapi;

/// A reserve of a subject, and how it was kept.
fn reserve(subject: u32, id: u64, promise: u64) -> uapi::ListedSpec {
    uapi::ListedSpec {
        spec: uapi::Spec {
            subject,
            id,
            kind: uapi::RESERVE_CBS,
            ..Default::default()
        },
        served: 100 + id,
        promise,
        misses: uapi::Misses {
            promised: 1,
            own: 2,
            foreign: 3,
            fallback: 4,
            order: 5,
        },
        ..Default::default()
    }
}

/// One of each kind of subject, and a priority alone.
pub(super) fn specs() -> Vec<uapi::ListedSpec> {
    vec![
        reserve(uapi::SUBJECT_CGROUP, 4711, uapi::PROMISE_SHARE),
        // Has used nothing yet.
        reserve(uapi::SUBJECT_USER, 1002, uapi::PROMISE_DEADLINE),
        reserve(uapi::SUBJECT_PROCESS, 100, uapi::PROMISE_DEADLINE),
        uapi::ListedSpec {
            spec: uapi::Spec {
                subject: uapi::SUBJECT_USER,
                id: 1000,
                prio: 30,
                ..Default::default()
            },
            ..Default::default()
        },
    ]
}

#[test]
fn reserves_of_users_and_cgroups_say_how_they_were_kept() {
    let page = read(&mut sampler(Some(8)), &kernel());
    let served = "loga_reserve_submissions_total";
    let late = "loga_reserve_late_submissions_total";
    let user = ("uid", "1002");
    let cgroup = ("cgroup_id", "4711");
    assert_eq!(page.value(served, &[user, ("promise", "deadline")]), 1102.0);
    assert_eq!(page.value(served, &[cgroup, ("promise", "share")]), 4811.0);
    for (why, count) in [
        ("promised", 1.0),
        ("own-overrun", 2.0),
        ("foreign-command", 3.0),
        ("fallback", 4.0),
        ("order", 5.0),
    ] {
        assert_eq!(page.value(late, &[user, ("why", why)]), count);
        assert_eq!(page.value(late, &[cgroup, ("why", why)]), count);
    }
    // Neither that of one process, nor a priority without a reserve.
    let rows = |name| page.values.keys().filter(|row| row.0 == name).count();
    assert_eq!((rows(served), rows(late)), (2, 10));
}

#[test]
fn caller_that_may_not_list_reserves_exports_the_rest() {
    let fake = kernel();
    fake.gpus.borrow_mut()[0].info.flags |= uapi::GPU_WITHHELD;
    fake.drop_privileges();
    let page = read(&mut sampler(None), &fake);
    assert_eq!(page.value("loga_up", &[]), 1.0);
    assert!(page.has("loga_weight"));
    assert!(!page.has("loga_reserve_submissions_total"));
}
