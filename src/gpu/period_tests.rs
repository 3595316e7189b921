// SPDX-License-Identifier: GPL-2.0

//! Tests of a period. On the host only: the tables do not fit on the stack of a kernel thread.

use super::*;
use crate::account::{PhaseTotals, Slot};
use crate::engine::{Action, ClientState, Wake};
use crate::policies::PolicyKind;
use crate::share::{Entry, Group, GroupBy, Member, Row, ThrottledBy, Totals};
use crate::units::Ns;
use crate::Vectors;
use std::vec;
use std::vec::Vec;

const CLIENTS: usize = 3;
const CHANNELS: u32 = 12;

/// Some clients, each of one process of a user of its own.
fn gpu(config: Config) -> GpuState<Vectors> {
    let engine = Engine::new(config, 1).expect("in range");
    let shares = Shares::new(
        vec![Member::default(); CLIENTS],
        vec![Group::default(); 2 * CLIENTS],
        vec![ClientState::default(); 2 * CLIENTS],
        Totals::new(vec![Row::default(); 16]),
        GroupBy::Process,
    );
    let settings = Settings::new(vec![Entry::default(); 4]);
    let mut gpu = GpuState::new(engine, shares, settings);
    for id in 1..=CLIENTS as u64 {
        let identity = Identity {
            process: id,
            user: 100 + id as u32,
            ..Identity::default()
        };
        assert_eq!(gpu.join(ClientId::new(id), identity), Ok(id as usize - 1));
    }
    gpu.engine.channels_changed(Ns::ZERO, CHANNELS);
    gpu
}

fn config(policy: PolicyKind) -> Config {
    Config {
        policy,
        enforce: true,
        accounting: Some(Accounting::Burst),
        ..Config::paper()
    }
}

/// Lets time pass until the engine wants this action.
fn pass_until(gpu: &mut GpuState<Vectors>, now: &mut Ns, wanted: Action) {
    while gpu.engine.wake(*now, Wake::ChannelsChanged) != wanted {
        let next = gpu.engine.next_deadline().expect("channels");
        *now = (*now).max(next);
    }
}

/// A period, in which the slots are on the engine for these parts of a hundred of the polling
/// phase. Slot `n` is that of client `n`; those beyond the last client have no owner.
fn period(gpu: &mut GpuState<Vectors>, now: &mut Ns, parts: &[u64], waits: &[Ns]) -> Decision {
    pass_until(gpu, now, Action::StartPolling);
    let begin = *now;
    pass_until(gpu, now, Action::StopPolling);
    let length = now.saturating_sub(begin);
    let slots: Vec<_> = parts
        .iter()
        .map(|part| Slot {
            ran: Ns::new(length.get() * part / 100),
            runs: 1,
        })
        .collect();
    let ran = slots
        .iter()
        .fold(Ns::ZERO, |sum, slot| sum.saturating_add(slot.ran));
    let totals = PhaseTotals {
        length,
        idle: length.saturating_sub(ran),
        ran,
        switches: 5,
        ..PhaseTotals::default()
    };
    let ended = Ended {
        totals,
        slots: &slots,
        used: 0..slots.len(),
        strata: None,
        alone: false,
    };
    let mut owner = |slot: usize| (slot < CLIENTS).then_some(slot);
    let waits = (1..).map(ClientId::new).zip(waits.iter().copied());
    gpu.end_phase(*now, ended, &mut owner, waits)
}

#[test]
fn time_of_a_phase_is_that_of_its_owners_and_the_rest_is_unknown() {
    let (mut gpu, mut now) = (gpu(config(PolicyKind::None)), Ns::ZERO);
    let decision = period(&mut gpu, &mut now, &[20, 0, 30, 10], &[]);
    let length = decision.totals.length;
    let part = |percent: u64| Ns::new(length.get() * percent / 100);
    assert_eq!(decision.totals.unknown, part(10));
    assert_eq!(decision.totals.ran, part(50));
    assert_eq!(decision.totals.idle, part(40));
    assert_eq!(gpu.sums().unknown, part(10));
    assert_eq!(gpu.sums().idle, part(40));
    assert_eq!(gpu.sums().switches, 5);
    let used: Vec<_> = gpu
        .shares
        .members()
        .iter()
        .map(|m| m.account().measured)
        .collect();
    assert_eq!(used, [part(20), Ns::ZERO, part(30)]);
    // The period is booked with the lengths that the engine states.
    assert_eq!(decision.period.poll, length);
    assert_eq!(decision.period.now, now);
    assert!(decision.period.enforce);
    assert_eq!(decision.fallback, None);
}

#[test]
fn second_period_stands_for_its_non_polling_phase_too() {
    let (mut gpu, mut now) = (gpu(config(PolicyKind::None)), Ns::ZERO);
    period(&mut gpu, &mut now, &[50, 0, 0], &[]);
    let before = now;
    let decision = period(&mut gpu, &mut now, &[50, 0, 0], &[]);
    assert_eq!(decision.period.span, now.saturating_sub(before));
    assert!(decision.period.span > decision.period.poll);
    let received = gpu.shares.members()[0].account().received;
    let first = decision.period.poll.get() / 2;
    assert_eq!(received.get(), first + decision.period.span.get() / 2);
}

#[test]
fn client_waits_no_longer_than_it_did_not_run() {
    let (mut gpu, mut now) = (gpu(config(PolicyKind::MaxMin)), Ns::ZERO);
    let long = Ns::from_ms(1_000);
    let decision = period(&mut gpu, &mut now, &[25, 0, 0], &[long, Ns::from_us(3)]);
    let length = decision.totals.length;
    let members = gpu.shares.members();
    let rest = length.saturating_sub(Ns::new(length.get() / 4));
    assert_eq!(members[0].used().waited, rest);
    assert_eq!(members[1].used().waited, Ns::from_us(3));
    assert_eq!(members[2].used().waited, Ns::ZERO);
}

#[test]
fn waits_are_not_booked_for_a_policy_that_does_not_ask() {
    let (mut gpu, mut now) = (gpu(config(PolicyKind::Event)), Ns::ZERO);
    period(&mut gpu, &mut now, &[25, 0, 0], &[Ns::from_us(3); 2]);
    assert!(gpu
        .shares
        .members()
        .iter()
        .all(|m| m.used().waited.is_zero()));
}

/// Periods in which one client uses nearly everything beside another, until it is throttled.
fn throttle_first(gpu: &mut GpuState<Vectors>, now: &mut Ns) {
    for _ in 0..50 {
        period(gpu, now, &[80, 10, 0], &[]);
        if gpu.shares.members()[0].throttled_by().is_some() {
            return;
        }
    }
    panic!("it was never throttled");
}

#[test]
fn client_that_used_too_much_is_throttled_and_pays_for_what_still_runs() {
    let (mut gpu, mut now) = (gpu(config(PolicyKind::Event)), Ns::ZERO);
    throttle_first(&mut gpu, &mut now);
    assert_eq!(
        gpu.shares.members()[0].throttled_by(),
        Some(ThrottledBy::Policy)
    );
    assert_eq!(gpu.shares.members()[1].throttled_by(), None);
    let before = gpu.shares.members()[0].account().received;
    let found = [(ClientId::new(1), Ns::from_us(700))];
    gpu.begin_phase(found.into_iter());
    period(&mut gpu, &mut now, &[0, 10, 0], &[]);
    let after = gpu.shares.members()[0].account().received;
    assert_eq!(after.saturating_sub(before), Ns::from_us(700));
}

#[test]
fn another_policy_and_no_enforcement_let_all_clients_run() {
    for change in [
        |config: &mut Config| config.policy = PolicyKind::MaxMin,
        |config: &mut Config| config.enforce = false,
    ] {
        let (mut gpu, mut now) = (gpu(config(PolicyKind::Event)), Ns::ZERO);
        throttle_first(&mut gpu, &mut now);
        let mut new = *gpu.engine.config();
        change(&mut new);
        assert_eq!(gpu.configure(now, new), Ok(true));
        assert!(gpu
            .shares
            .members()
            .iter()
            .all(|m| m.throttled_by().is_none()));
    }
}

#[test]
fn other_lengths_keep_what_was_decided_and_wrong_ones_change_nothing() {
    let (mut gpu, mut now) = (gpu(config(PolicyKind::Event)), Ns::ZERO);
    throttle_first(&mut gpu, &mut now);
    let old = *gpu.engine.config();
    let longer = Config { ratio: 9, ..old };
    assert_eq!(gpu.configure(now, longer), Ok(false));
    assert_eq!(
        gpu.shares.members()[0].throttled_by(),
        Some(ThrottledBy::Policy)
    );
    let wrong = Config {
        poll_ms: 0,
        group_by: GroupBy::User,
        ..old
    };
    assert!(gpu.configure(now, wrong).is_err());
    assert_eq!(gpu.engine.config(), &longer);
}

#[test]
fn strata_follow_what_sparse_phases_show_and_not_what_others_do() {
    let (mut gpu, mut now) = (gpu(config(PolicyKind::None)), Ns::ZERO);
    let (_, first) = gpu.plan();
    period(&mut gpu, &mut now, &[50, 50, 0], &[]);
    assert_eq!(gpu.plan(), (Accounting::Burst, first));
    let sparse = Config {
        accounting: Some(Accounting::Sparse),
        ..*gpu.engine.config()
    };
    assert_eq!(gpu.configure(now, sparse), Ok(false));
    pass_until(&mut gpu, &mut now, Action::StartPolling);
    assert_eq!(gpu.plan(), (Accounting::Sparse, first));
    pass_until(&mut gpu, &mut now, Action::StopPolling);
    let slots = [Slot {
        ran: Ns::from_ms(1_500),
        runs: 1,
    }];
    let ended = Ended {
        totals: PhaseTotals {
            length: Ns::from_ms(1_500),
            ran: Ns::from_ms(1_500),
            ..PhaseTotals::default()
        },
        slots: &slots,
        used: 0..1,
        strata: Some(first),
        alone: true,
    };
    gpu.end_phase(now, ended, &mut Some, core::iter::empty());
    // One client alone need not be told apart from others.
    assert!(gpu.plan().1 > first);
}
