// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tables that do not fit at first, and failures.

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

fn claim_of(gpu: u32, seen: u64) -> uapi::Claim {
    uapi::Claim {
        gpu,
        want_pct: 60,
        seconds: 10,
        seen,
        ..Default::default()
    }
}

fn code(claimed: Result<u64, Error>) -> Option<u32> {
    match claimed {
        Err(Error::Refused(refusal)) => Some(refusal.code),
        _ => None,
    }
}

#[test]
fn claim_is_refused_once_another_process_has_claimed() {
    let fake = FakeKernel::new(2);
    fake.drop_privileges();
    let control = Control::over(&fake);
    let before = control.snapshot(1).expect("a snapshot").info.claims_seen;
    let seen = control.claim(&claim_of(0, before)).expect("a claim");
    let info = control.snapshot(0).expect("a snapshot").info;
    assert_eq!(
        (info.claims, info.claimed_pct, info.claims_seen),
        (1, 60, seen)
    );
    fake.processes.borrow_mut().push(101);
    fake.caller.set((101, 1000));
    let next = control.claim(&claim_of(1, seen)).expect("nothing changed");
    assert_ne!(next, seen);
    assert_eq!(
        code(control.claim(&claim_of(1, seen))),
        Some(uapi::REFUSED_CHANGED)
    );
    let clear = uapi::Claim {
        gpu: uapi::ALL_GPUS,
        action: uapi::ACTION_CLEAR,
        ..Default::default()
    };
    assert_eq!(control.claim(&clear).expect("cleared"), next);
    assert_eq!(code(control.claim(&clear)), Some(uapi::REFUSED_NOT_SET));
    let error = control.claim(&claim_of(2, next)).expect_err("no such GPU");
    assert_eq!(error.to_string(), "there is no GPU 2: want 0 to 1");
}

#[test]
fn claims_of_a_user_are_bounded_until_they_end() {
    let fake = FakeKernel::new(1);
    let control = Control::over(&fake);
    let claim = |process| {
        fake.processes.borrow_mut().push(process);
        fake.caller.set((process, 1000));
        control.claim(&claim_of(0, uapi::CLAIM_ANYWAY))
    };
    for process in 200..264 {
        claim(process).expect("room");
    }
    assert_eq!(code(claim(264)), Some(uapi::REFUSED_FULL));
    fake.now.set(loga::units::Ns::from_ms(10_000));
    claim(264).expect("the others have ended");
}

#[test]
fn kernel_of_another_version_is_named() {
    let fake = FakeKernel::new(1);
    fake.speak(uapi::VERSION + 1);
    let error = Control::over(&fake).all().expect_err("another version");
    let named = format!("module version {}", uapi::VERSION + 1);
    assert!(error.to_string().contains(&named), "{error}");
}
