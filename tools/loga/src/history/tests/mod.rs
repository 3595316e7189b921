// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of the history.

mod abuse;
mod engines;
mod following;
mod storing;

use super::record::{Conditions, Mean, OnModel, Record, Run};
use super::table::{Exe, History, Key, KEYS_MAX, KEYS_OF_USER_MAX, STALE_S};
use loga::placement::PPM;
use proptest::prelude::*;

/// A run of so many milliseconds of GPU time, time there and time waited, under the default policy.
pub(super) fn run(chip: u32, gpu_ms: u64, there_ms: u64, waited_ms: u64) -> Run {
    const MS: u64 = 1_000_000;
    Run {
        chip,
        gpu_ns: gpu_ms * MS,
        copy_ns: None,
        command_ns: None,
        there: Some((there_ms * MS, waited_ms * MS)),
        under: Some(under("maxmin", 100)),
    }
}

fn under(policy: &str, limit_pct: u32) -> Conditions {
    Conditions {
        policy: policy.to_string(),
        limit_pct,
        idle: false,
    }
}

/// A program of a user, by the inode of its executable.
pub(super) fn key(uid: u32, inode: u64) -> Key {
    Key {
        uid,
        exe: Exe {
            device: 1,
            inode,
            mtime_ns: -5,
        },
        name: String::new(),
    }
}

#[test]
fn new_run_weighs_an_eighth() {
    let mut mean = Mean::default();
    mean.add(800);
    assert_eq!((mean.mean, mean.deviation), (800, 0));
    mean.add(1600);
    assert_eq!((mean.mean, mean.deviation), (900, 100));
    mean.add(100);
    // 800 below the mean.
    assert_eq!((mean.mean, mean.deviation), (800, 187));
    assert_eq!(mean.runs, 3);
}

#[test]
fn mean_is_known_after_three_runs_that_were_alike() {
    let of = |values: &[u64]| {
        let mut mean = Mean::default();
        values.iter().for_each(|value| mean.add(*value));
        mean.known()
    };
    assert_eq!(of(&[800, 800]), None);
    assert_eq!(of(&[800, 800, 800]), Some(800));
    assert_eq!(of(&[0, 0, 0]), Some(0));
    assert_eq!(of(&[8, 8000, 8000, 8000]), None);
}

#[test]
fn time_alone_and_use_are_without_what_a_run_waited() {
    let mut model = OnModel::default();
    model.add(&run(0xf1, 300, 1000, 400));
    assert_eq!(model.time.mean, 600_000_000);
    assert_eq!(model.gpu.mean, 300_000_000);
    assert_eq!(model.waited.mean, 400_000_000);
    assert_eq!(model.want.mean, PPM / 2);
    // Figures that contradict each other: it was on the GPU for all of its time alone.
    let mut model = OnModel::default();
    model.add(&run(0xf1, 300, 200, 900));
    assert_eq!((model.time.mean, model.want.mean), (300_000_000, PPM));
}

#[test]
fn copies_are_a_part_of_the_time_alone_and_only_of_runs_in_which_they_were_measured() {
    let copied = |copy_ms: u64, waited_ms: u64| Run {
        copy_ns: Some(copy_ms * 1_000_000),
        ..run(0xf1, 300, 1000, waited_ms)
    };
    let mut model = OnModel::default();
    model.add(&copied(150, 400));
    assert_eq!((model.copy.mean, model.want.mean), (PPM / 4, PPM / 2));
    model.add(&run(0xf1, 300, 1000, 400));
    assert_eq!((model.copy.runs, model.want.runs), (1, 2));
    // It waited for compute while it copied: it takes no less than its copies.
    let mut model = OnModel::default();
    model.add(&copied(800, 400));
    assert_eq!((model.time.mean, model.copy.mean), (800_000_000, PPM));
}

#[test]
fn run_under_another_policy_or_limit_counts_into_means_of_use_only() {
    let mut model = OnModel::default();
    for _ in 0..3 {
        model.add(&run(0xf1, 100, 1000, 0));
    }
    let time = model.time;
    for other in [Some(under("event", 100)), Some(under("maxmin", 30)), None] {
        model.add(&Run {
            under: other,
            ..run(0xf1, 900, 9000, 0)
        });
        assert_eq!(model.time, time);
    }
    assert_eq!((model.gpu.runs, model.want.runs), (6, 6));
    assert!(model.gpu.mean > 100_000_000);
    // A run as before ends the row.
    model.add(&run(0xf1, 100, 1000, 0));
    assert_eq!((model.time.runs, model.others), (4, 0));
}

#[test]
fn policy_that_stays_begins_a_new_mean_of_the_time() {
    let mut model = OnModel::default();
    model.add(&run(0xf1, 100, 1000, 0));
    let changed = Run {
        under: Some(under("event", 100)),
        ..run(0xf1, 100, 3000, 0)
    };
    for _ in 0..7 {
        model.add(&changed);
        assert_eq!(model.time.mean, 1_000_000_000);
    }
    model.add(&changed);
    assert_eq!((model.time.mean, model.time.runs), (3_000_000_000, 1));
    assert_eq!(model.under, under("event", 100));
}

#[test]
fn models_are_kept_apart_and_the_one_with_the_fewest_runs_goes() {
    let mut record = Record::default();
    for chip in 0..9 {
        record.add(&run(chip, 10, 100, 0), 5);
        if chip != 3 {
            record.add(&run(chip, 10, 100, 0), 5);
        }
    }
    assert_eq!(record.models.len(), 8);
    assert!(record.on(3).is_none());
    assert!(record.on(8).is_some());
    assert_eq!(record.runs(), 16);
}

#[test]
fn full_table_leaves_out_a_new_user_until_records_are_stale() {
    let mut history = History::default();
    let users = (KEYS_MAX / KEYS_OF_USER_MAX) as u32;
    for uid in 0..users {
        for inode in 0..KEYS_OF_USER_MAX as u64 {
            history.add(key(uid, inode), &run(1, 10, 100, 0), 1000);
        }
    }
    assert_eq!(history.all().count(), KEYS_MAX);
    history.add(key(users, 1), &run(1, 10, 100, 0), 2000);
    assert!(history.record(users, Some(key(users, 1).exe), "").is_none());
    assert_eq!(history.all().count(), KEYS_MAX);
    // One record is used, the others are stale.
    history.add(key(3, 7), &run(1, 10, 100, 0), 2000);
    history.add(key(users, 1), &run(1, 10, 100, 0), 1000 + STALE_S);
    let left: Vec<&Key> = history.all().map(|(key, _)| key).collect();
    assert_eq!(left, [&key(3, 7), &key(users, 1)]);
}

#[test]
fn name_without_an_executable_is_that_of_the_latest_program() {
    let mut history = History::default();
    let named = |inode, name: &str| Key {
        name: name.to_string(),
        ..key(7, inode)
    };
    history.add(named(1, "a"), &run(1, 10, 100, 0), 10);
    history.add(named(2, "a"), &run(2, 10, 100, 0), 20);
    history.add(named(3, "b"), &run(3, 10, 100, 0), 30);
    let found = history.record(7, None, "a").expect("a record");
    assert_eq!(found.models[0].chip, 2);
    assert!(history.record(8, None, "a").is_none());
    assert!(history.record(7, None, "").is_none());
    assert!(history.record(7, Some(key(7, 1).exe), "").is_none());
}

proptest! {
    #[test]
    fn means_stay_between_the_runs(values in prop::collection::vec(any::<u64>(), 1..40)) {
        let mut mean = Mean::default();
        for value in &values {
            mean.add(*value);
        }
        let (least, most) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
        prop_assert!((least..=most).contains(&mean.mean));
        prop_assert!(mean.deviation <= most - least);
        prop_assert_eq!(mean.runs as usize, values.len());
    }

    #[test]
    fn one_run_moves_a_mean_by_an_eighth_at_most(
        values in prop::collection::vec(0..1u64 << 60, 1..20),
        last in 0..1u64 << 60,
    ) {
        let mut mean = Mean::default();
        values.iter().for_each(|value| mean.add(*value));
        let before = mean.mean;
        mean.add(last);
        prop_assert_eq!(mean.mean.abs_diff(before), last.abs_diff(before) / 8);
    }

    #[test]
    fn part_of_use_is_a_part_whatever_the_figures(
        gpu in any::<u64>(), copy in any::<u64>(), there in any::<u64>(), waited in any::<u64>(),
    ) {
        let mut model = OnModel::default();
        let there = Some((there, waited));
        model.add(&Run { chip: 1, gpu_ns: gpu, copy_ns: Some(copy), command_ns: None, there, under: None });
        prop_assert!(model.want.mean <= PPM && model.copy.mean <= PPM);
        prop_assert_eq!(model.time.runs, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    // The table beside a list of each user that forgets its least recent.
    #[test]
    fn user_loses_its_own_least_recent_record_and_others_lose_none(
        runs in prop::collection::vec((0..3u32, 0..400u64), 1..1200),
    ) {
        let mut history = History::default();
        let mut kept: [Vec<u64>; 3] = Default::default();
        for (at, (uid, inode)) in (0..).zip(&runs) {
            history.add(key(*uid, *inode), &run(1, 10, 100, 0), at);
            let own = &mut kept[*uid as usize];
            own.retain(|one| one != inode);
            own.push(*inode);
            if own.len() > KEYS_OF_USER_MAX {
                own.remove(0);
            }
        }
        for (uid, own) in (0..).zip(&kept) {
            let mut own = own.clone();
            own.sort_unstable();
            let there: Vec<u64> = history.of(uid).map(|(key, _)| key.exe.inode).collect();
            prop_assert_eq!(there, own);
        }
    }
}
