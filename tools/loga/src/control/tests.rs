// SPDX-License-Identifier: GPL-2.0

//! [tool] Tables that do not fit at first, and failures.

use super::*;
use crate::fake::FakeKernel;

#[test]
fn grow_refuses_an_absurd_count() {
    let mut table = vec![0u32; 4];
    assert!(grow(&mut table, 4).expect("fits"));
    assert!(!grow(&mut table, 5).expect("grows"));
    assert!(table.len() >= 5);
    assert!(grow(&mut table, u32::MAX).is_err());
}

#[test]
fn snapshot_with_more_clients_than_room_gets_them_all() {
    let fake = FakeKernel::new(1);
    for id in 0..1000 {
        fake.add_client(0, id, 1000);
    }
    let snapshot = Control::over(&fake).snapshot(0).expect("a snapshot");
    assert_eq!(snapshot.clients.len(), 1000);
    assert_eq!(snapshot.clients[999].id, 999);
}

#[test]
fn all_gpus_are_those_up_to_the_first_missing_one() {
    let fake = FakeKernel::new(3);
    let all = Control::over(&fake).all().expect("snapshots");
    assert_eq!(all.len(), 3);
    let error = Control::over(&fake).snapshot(7).expect_err("no such GPU");
    assert_eq!(error.to_string(), "there is no GPU 7: want 0 to 2");
}

#[test]
fn totals_beyond_the_room_are_read_and_reset_once_each() {
    let fake = FakeKernel::new(1);
    for id in 0..700 {
        fake.add_total(0, uapi::SUBJECT_USER, id, 1 + id);
    }
    let control = Control::over(&fake);
    let read = control.totals(0, uapi::SUBJECT_USER, false).expect("read");
    assert_eq!(read.len(), 700);
    let mut reset = control.totals(0, uapi::SUBJECT_USER, true).expect("reset");
    reset.sort_by_key(|total| total.id);
    assert_eq!(reset.len(), 700);
    assert!((0..700).all(|id| reset[id as usize].gpu_time_ns == 1 + id));
    let left = control.totals(0, uapi::SUBJECT_USER, false).expect("read");
    assert!(left.is_empty(), "{}", left.len());
}

#[test]
fn kernel_of_another_version_is_named() {
    let fake = FakeKernel::new(1);
    fake.speak(9);
    let error = Control::over(&fake).all().expect_err("another version");
    assert!(error.to_string().contains("module version 9"), "{error}");
}
