// SPDX-License-Identifier: GPL-2.0

//! Tests of coarse reserves beside the policies. On the host only, as those of a period.

use super::period_tests::{config, gpu, period, CLIENTS};
use super::*;
use crate::policies::PolicyKind;
use crate::share::{CoarseReserve, CoarseTerms, Rate, Subject, ThrottledBy};
use crate::units::Ns;
use crate::Vectors;
use std::vec;
use std::vec::Vec;

type Gpu = GpuState<Vectors>;

/// Five periods and more.
const T: Ns = Ns::from_ms(400);
/// Wall time of a test, and what is left out of it at its begin.
const LENGTH: Ns = Ns::from_ms(60_000);
const BEGIN: Ns = Ns::from_ms(5_000);

/// So many percent of every [`T`].
fn terms(percent: u64, hard: bool) -> CoarseTerms {
    let capacity = Ns::new(T.get() * percent / 100);
    CoarseTerms {
        rate: Rate {
            capacity,
            period: T,
        },
        hard,
    }
}

/// A GPU with reserves of the first clients.
fn with_reserves(policy: PolicyKind, reserves: &[Option<CoarseTerms>]) -> Gpu {
    let mut gpu = gpu(config(policy));
    let store = vec![CoarseReserve::default(); 4];
    let settings = core::mem::replace(&mut gpu.settings, Settings::new(vec![]));
    gpu.settings = settings.with_reserves(store);
    set(&mut gpu, reserves);
    gpu
}

fn set(gpu: &mut Gpu, reserves: &[Option<CoarseTerms>]) {
    let rows = (1..).map(Subject::Process).zip(reserves.iter().copied());
    gpu.settings.set_reserves(rows);
}

/// One more period. Each client wants so many percent of its polling phase, and those that are not
/// throttled get equal parts of it, up to what they want.
fn go(gpu: &mut Gpu, now: &mut Ns, wanted: [u64; CLIENTS]) {
    let runs = |gpu: &Gpu, at: usize| gpu.shares.members()[at].throttled_by().is_none();
    let mut parts = [0; CLIENTS];
    let mut left = 100_u64;
    while left > 0 {
        let hungry = |at: &usize| runs(gpu, *at) && parts[*at] < wanted[*at];
        let hungry: Vec<_> = (0..CLIENTS).filter(hungry).collect();
        let Some(most) = left.checked_div(hungry.len() as u64) else {
            break;
        };
        for at in hungry {
            let more = most.max(1).min(wanted[at] - parts[at]).min(left);
            parts[at] += more;
            left -= more;
        }
    }
    let length = gpu.engine.planned();
    let waits = [0, 1, 2].map(|at| match runs(gpu, at) {
        true => Ns::new(length.get() * (wanted[at] - parts[at]) / 100),
        false => Ns::ZERO,
    });
    period(gpu, now, &parts, &waits);
}

/// A percent of [`LENGTH`], in the unit of parts.
const PERCENT: u64 = 1000;
const THIRD: u64 = 100 * PERCENT / 3;

/// What each client gets in [`LENGTH`], in thousandths of a percent, and the length of a period.
fn parts(gpu: &mut Gpu, wanted: [u64; CLIENTS]) -> ([u64; CLIENTS], Ns) {
    let mut now = Ns::ZERO;
    let received = |gpu: &Gpu| {
        let members = gpu.shares.members().iter();
        members
            .map(|one| one.account().received.get())
            .collect::<Vec<_>>()
    };
    while now < BEGIN {
        go(gpu, &mut now, wanted);
    }
    let (before, since) = (received(gpu), now);
    while now.saturating_sub(since) < LENGTH {
        go(gpu, &mut now, wanted);
    }
    let (after, whole) = (received(gpu), now.saturating_sub(since).get());
    let part = |at: usize| (after[at] - before[at]) * 100 * PERCENT / whole;
    ([0, 1, 2].map(part), gpu.engine.planned())
}

/// By how much a reserve may be off in [`LENGTH`]: its capacity and a period.
fn off(terms: CoarseTerms, period: Ns) -> u64 {
    let most = terms.rate.capacity.saturating_add(period);
    most.get() * 100 * PERCENT / LENGTH.get()
}

fn phased() -> impl Iterator<Item = PolicyKind> {
    let all = PolicyKind::ALL.iter().copied();
    all.filter(|policy| !policy.staged() && *policy != PolicyKind::None)
}

#[test]
fn reserve_gets_its_part_beside_hogs_under_each_policy() {
    for policy in phased().chain([PolicyKind::None]) {
        for percent in [10, 50, 60, 85] {
            for hard in [true, false] {
                let terms = terms(percent, hard);
                let mut gpu = with_reserves(policy, &[Some(terms)]);
                let (parts, period) = parts(&mut gpu, [100; 3]);
                let (percent, off) = (percent * PERCENT, off(terms, period));
                let name = policy.name();
                assert!(parts[0] >= percent - off, "{name}: {parts:?}");
                if hard {
                    assert!(parts[0] <= percent + off, "{name}: {parts:?}");
                }
                // The others share the rest.
                let differ = parts[1].abs_diff(parts[2]);
                assert!(differ <= PERCENT + off, "{name}: {parts:?}");
                let sum: u64 = parts.iter().sum();
                assert!(sum > 98 * PERCENT, "{name}: {parts:?}");
            }
        }
    }
}

#[test]
fn soft_reserve_has_its_part_of_the_rest_too() {
    let terms = terms(30, false);
    for policy in phased().chain([PolicyKind::None]) {
        let mut gpu = with_reserves(policy, &[Some(terms)]);
        let (parts, period) = parts(&mut gpu, [100; 3]);
        let wanted = 30 * PERCENT + 70 * PERCENT / 3;
        // The rest is divided once a period.
        let off = 2 * off(terms, period) + PERCENT;
        let name = policy.name();
        let differ = parts[0].abs_diff(wanted);
        assert!(differ <= off, "{name}: {parts:?}, not {wanted}");
    }
}

#[test]
fn hard_reserve_alone_is_a_limit() {
    let terms = terms(40, true);
    let mut gpu = with_reserves(PolicyKind::MaxMin, &[Some(terms)]);
    let (parts, period) = parts(&mut gpu, [100, 0, 0]);
    assert!(
        parts[0].abs_diff(40 * PERCENT) <= off(terms, period),
        "{parts:?}, not 40"
    );
}

#[test]
fn two_reserves_get_their_parts_beside_a_hog() {
    for policy in phased() {
        let terms = terms(40, true);
        let mut gpu = with_reserves(policy, &[Some(terms), Some(terms)]);
        let (parts, period) = parts(&mut gpu, [100; 3]);
        let off = off(terms, period);
        for part in &parts[..2] {
            assert!(
                part.abs_diff(40 * PERCENT) <= off,
                "{}: {parts:?}",
                policy.name()
            );
        }
    }
}

#[test]
fn reserve_that_wants_less_leaves_the_rest_to_others() {
    let terms = terms(60, true);
    for (policy, wanted) in [1, 20]
        .iter()
        .flat_map(|part| phased().map(move |kind| (kind, *part)))
    {
        let mut gpu = with_reserves(policy, &[Some(terms)]);
        let (parts, period) = parts(&mut gpu, [wanted, 100, 100]);
        // It gets what it wants, and holds others back for what it is promised, no more.
        let (off, name) = (off(terms, period), policy.name());
        assert!(
            parts[0] + PERCENT + off >= wanted * PERCENT,
            "{name}: {parts:?}"
        );
        let others = parts[1] + parts[2];
        assert!(
            others + off >= 40 * (100 - wanted) * PERCENT / 100,
            "{name}: {parts:?}"
        );
    }
    let mut idle = with_reserves(PolicyKind::MaxMin, &[Some(terms)]);
    let mut now = Ns::ZERO;
    for _ in 0..100 {
        go(&mut idle, &mut now, [0, 100, 0]);
        let by = idle.shares.members()[1].throttled_by();
        assert_eq!(by, None);
    }
}

#[test]
fn others_wait_while_a_reserve_is_used_and_say_why() {
    let mut gpu = with_reserves(PolicyKind::None, &[Some(terms(60, true))]);
    let (mut now, mut held) = (Ns::ZERO, 0);
    for _ in 0..100 {
        go(&mut gpu, &mut now, [100; 3]);
        let by = [0, 1, 2].map(|at| gpu.shares.members()[at].throttled_by());
        match by[0] {
            None => assert_eq!(by[1..], [Some(ThrottledBy::Reserve); 2]),
            by_own => {
                assert_eq!(by_own, Some(ThrottledBy::Limit));
                assert_eq!(by[1..], [None; 2]);
            }
        }
        held += u32::from(by[1].is_some());
    }
    assert!((40..80).contains(&held), "{held} of 100");
}

// Regression: who drains a queue paid for all the time in which others were held back, and the reserve
// that came first held them back for ever.
#[test]
fn queue_that_is_drained_pays_for_no_other_reserve() {
    let mut gpu = with_reserves(PolicyKind::None, &[Some(terms(30, true)); 2]);
    let (mut now, mut held) = (Ns::ZERO, Ns::ZERO);
    while now < LENGTH {
        let before = now;
        let is_held = gpu.shares.members()[2].throttled_by() == Some(ThrottledBy::Reserve);
        // The queue of the second one goes on, whatever is decided.
        period(&mut gpu, &mut now, &[5, 90, 0], &[]);
        if is_held {
            held = held.saturating_add(now.saturating_sub(before));
        }
    }
    let part = held.get() * 100 / now.get();
    // What both are promised, and a capacity of debt.
    assert!((25..=62).contains(&part), "held back for {part} %");
}

#[test]
fn reserve_of_an_idle_process_lets_it_run() {
    use crate::share::{Change, Class};
    let terms = terms(30, true);
    let mut gpu = with_reserves(PolicyKind::MaxMin, &[Some(terms)]);
    let own = Subject::Process(1);
    let idle = Change::class(Class::Idle);
    assert_eq!(gpu.settings.set(own, None, &idle), Ok(()));
    let (parts, period) = parts(&mut gpu, [100; 3]);
    assert!(
        parts[0].abs_diff(30 * PERCENT) <= off(terms, period),
        "{parts:?}, not 30"
    );
}

#[test]
fn limit_holds_within_a_reserve() {
    use crate::share::Change;
    let mut gpu = with_reserves(PolicyKind::MaxMin, &[Some(terms(60, false))]);
    let own = Subject::Process(1);
    assert_eq!(gpu.settings.set(own, None, &Change::limit(20)), Ok(()));
    let (parts, _) = parts(&mut gpu, [100; 3]);
    assert!(
        parts[0].abs_diff(20 * PERCENT) <= PERCENT,
        "{parts:?}, not 20"
    );
}

#[test]
fn most_specific_subject_counts_and_the_rest_is_hidden() {
    let mut gpu = with_reserves(PolicyKind::MaxMin, &[]);
    let terms = Some(terms(60, true));
    let rows = [(Subject::Process(1), None), (Subject::User(101), terms)];
    gpu.settings.set_reserves(rows.into_iter());
    let (of_hidden, _) = parts(&mut gpu, [100; 3]);
    assert!(of_hidden[0].abs_diff(THIRD) <= 2 * PERCENT, "{of_hidden:?}");
    assert!(gpu.settings.coarse(Subject::Process(1)).is_none());
    let user = [(Subject::User(101), terms)];
    gpu.settings.set_reserves(user.into_iter());
    let used = |gpu: &Gpu| gpu.settings.coarse(Subject::User(101)).unwrap().used();
    let before = used(&gpu);
    let (of_user, _) = parts(&mut gpu, [100; 3]);
    assert!(of_user[0].abs_diff(60 * PERCENT) <= PERCENT, "{of_user:?}");
    assert!(used(&gpu).saturating_sub(before) > Ns::from_ms(30_000));
}

#[test]
fn reserve_that_ends_leaves_no_trace() {
    let mut gpu = with_reserves(PolicyKind::MaxMin, &[Some(terms(85, true))]);
    let (parts_with, _) = parts(&mut gpu, [100; 3]);
    assert!(parts_with[0] > 80 * PERCENT, "{parts_with:?}");
    set(&mut gpu, &[]);
    // It pays nothing for what it was promised.
    let (parts, _) = parts(&mut gpu, [100; 3]);
    for part in parts {
        assert!(part.abs_diff(THIRD) <= PERCENT, "{parts:?}");
    }
}

#[test]
fn debt_stays_when_a_reserve_is_changed() {
    let mut gpu = with_reserves(PolicyKind::None, &[Some(terms(50, true))]);
    let mut now = Ns::ZERO;
    let left = |gpu: &Gpu| gpu.settings.coarse(Subject::Process(1)).unwrap().left_ns();
    for _ in 0..10 {
        // It runs although it should not.
        period(&mut gpu, &mut now, &[100, 0, 0], &[]);
    }
    let owed = left(&gpu);
    assert!(owed < 0, "{owed}");
    set(&mut gpu, &[Some(terms(60, true))]);
    assert_eq!(left(&gpu), owed);
}

#[test]
fn nothing_is_reserved_without_enforcement() {
    let mut gpu = with_reserves(PolicyKind::MaxMin, &[Some(terms(60, false))]);
    let without = Config {
        enforce: false,
        ..*gpu.engine.config()
    };
    assert!(gpu.configure(Ns::ZERO, without).is_ok());
    let (parts, _) = parts(&mut gpu, [100; 3]);
    for part in parts {
        assert!(part.abs_diff(THIRD) <= PERCENT, "{parts:?}");
    }
    let reserve = gpu.settings.coarse(Subject::Process(1)).unwrap();
    assert_eq!((reserve.used(), reserve.left_ns()), (Ns::ZERO, 0));
}

#[test]
fn full_table_promises_nothing_to_the_rest() {
    let mut gpu = with_reserves(PolicyKind::MaxMin, &[Some(terms(10, true)); 6]);
    assert!(gpu.settings.coarse(Subject::Process(4)).is_some());
    assert!(gpu.settings.coarse(Subject::Process(5)).is_none());
    set(&mut gpu, &[None, Some(terms(10, true))]);
    assert!(gpu.settings.coarse(Subject::Process(1)).is_none());
    assert!(gpu.settings.coarse(Subject::Process(4)).is_none());
}
