// SPDX-License-Identifier: GPL-2.0

//! Tests of a period. On the host only: the tables do not fit on the stack of a kernel thread.

use super::*;
use crate::account::waits::Waited;
use crate::account::{Copies, PhaseTotals, Slot};
use crate::engine::{Action, ClientState, Wake};
use crate::policies::PolicyKind;
use crate::regs::Mmio;
use crate::share::{
    Change, Class, Entry, Group, GroupBy, Member, Row, Subject, ThrottledBy, Totals, QUIET,
};
use crate::units::Ns;
use crate::Vectors;
use std::vec;
use std::vec::Vec;

pub(super) const CLIENTS: usize = 3;
const CHANNELS: u32 = 12;

/// Some clients, each of one process of a user of its own.
pub(super) fn gpu(config: Config) -> GpuState<Vectors> {
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

pub(super) fn config(policy: PolicyKind) -> Config {
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
pub(super) fn period(
    gpu: &mut GpuState<Vectors>,
    now: &mut Ns,
    parts: &[u64],
    waits: &[Ns],
) -> Decision {
    period_of_both(gpu, now, parts, waits, &[])
}

/// As [`period`]; the slots are on the copy engine for `copied` parts of a hundred, in turn. It is
/// not measured if there are none.
fn period_of_both(
    gpu: &mut GpuState<Vectors>,
    now: &mut Ns,
    parts: &[u64],
    waits: &[Ns],
    copied: &[u64],
) -> Decision {
    pass_until(gpu, now, Action::StartPolling);
    let begin = *now;
    pass_until(gpu, now, Action::StopPolling);
    let length = now.saturating_sub(begin);
    let slots: Vec<_> = parts
        .iter()
        .map(|part| Slot {
            ran: Ns::new(length.get() * part / 100),
            runs: 1,
            ..Slot::default()
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
    let mut copies = Copies::<Vectors>::new(vec![Slot::default(); 8]);
    if !copied.is_empty() {
        copies.follow(Some(4));
        copies.begin(&Word(0), begin);
        let mut at = begin;
        for (chid, part) in (0..).zip(copied) {
            copies.poll(&Word(0x8000_2000 | chid), || at);
            at = at.saturating_add(Ns::new(length.get() * part / 100));
        }
        copies.poll(&Word(0), || at);
        copies.end(*now);
    }
    let ended = Ended {
        totals,
        slots: &slots,
        used: 0..slots.len(),
        strata: None,
        alone: false,
        copies: copies.found(),
    };
    let mut owner = |slot: usize| (slot < CLIENTS).then_some(slot);
    let waits = waits.iter().copied().map(Waited::to_compute);
    let waits = (1..).map(ClientId::new).zip(waits);
    gpu.end_phase(*now, ended, &mut owner, waits)
}

/// The status word of a copy engine.
struct Word(u32);

impl Mmio for Word {
    fn read32(&self, _offset: u32) -> u32 {
        self.0
    }
}

#[test]
fn copies_of_a_period_are_scaled_and_change_nothing_of_compute() {
    let (mut gpu, mut now) = (gpu(config(PolicyKind::None)), Ns::ZERO);
    period_of_both(&mut gpu, &mut now, &[50, 0, 0], &[], &[0, 20, 40, 10]);
    let first = gpu.sums().copies;
    assert!(first.measured);
    let decision = period_of_both(&mut gpu, &mut now, &[50, 0, 0], &[], &[0, 20, 40, 10]);
    let (poll, span) = (decision.period.poll.get(), decision.period.span.get());
    let copies = gpu.sums().copies;
    let since = |now: Ns, before: Ns| now.saturating_sub(before).get();
    assert_eq!(since(copies.polled, first.polled), poll);
    assert_eq!(since(copies.idle, first.idle), poll * 30 / 100);
    // The fourth channel has no owner.
    assert_eq!(since(copies.unknown, first.unknown), poll / 10);
    let accounts: Vec<_> = gpu.shares.members().iter().map(Member::account).collect();
    assert_eq!(accounts[0].copied, Ns::ZERO);
    assert_eq!(accounts[1].copied.get(), (first.polled.get() + span) / 5);
    assert_eq!(
        accounts[2].copied.get(),
        (first.polled.get() + span) * 2 / 5
    );
    assert_eq!(accounts[1].received, Ns::ZERO);
    assert_eq!(accounts[0].received.get(), (first.polled.get() + span) / 2);
    // A phase without a readable word adds nothing.
    period(&mut gpu, &mut now, &[50, 0, 0], &[]);
    assert!(!gpu.sums().copies.measured);
    assert_eq!(gpu.sums().copies.polled, copies.polled);
    let after = gpu.shares.members()[1].account();
    assert_eq!(after.copied.get(), (first.polled.get() + span) / 5);
}

#[test]
fn throttled_client_is_charged_what_it_still_copies_one_to_one() {
    let (mut gpu, mut now) = (gpu(config(PolicyKind::Event)), Ns::ZERO);
    throttle_first(&mut gpu, &mut now);
    let copied = |gpu: &GpuState<Vectors>, at: usize| gpu.shares.members()[at].account().copied;
    let before = [copied(&gpu, 0), copied(&gpu, 1)];
    let found = [
        (ClientId::new(1), Ns::from_us(700)),
        (ClientId::new(2), Ns::from_us(90)),
    ];
    gpu.begin_phase(core::iter::empty(), found.into_iter());
    let decision = period_of_both(&mut gpu, &mut now, &[0, 10, 0], &[], &[5, 10, 0]);
    let (poll, span) = (decision.period.poll.get(), decision.period.span.get());
    let got = [0, 1].map(|at| copied(&gpu, at).saturating_sub(before[at]).get());
    assert_eq!(got[0], 700_000 + poll / 20);
    // The other runs in the rest of the period as in the rest of the phase.
    let (rest, of) = (span - got[0], poll - poll / 20);
    let wanted = poll / 10 * rest / of;
    assert!(got[1].abs_diff(wanted) <= 2, "{got:?}, not {wanted}");
}

#[test]
fn client_that_only_copies_stays_awake_and_keeps_the_idle_class_out() {
    let (mut gpu, mut now) = (gpu(config(PolicyKind::None)), Ns::ZERO);
    let idle = Change {
        class: Some(Class::Idle),
        ..Change::default()
    };
    assert_eq!(gpu.settings.set(Subject::Process(3), None, &idle), Ok(()));
    for _ in 0..2 * QUIET {
        period_of_both(&mut gpu, &mut now, &[0, 0, 0], &[], &[0, 30]);
    }
    assert!(gpu.shares.awake().any(|at| at == 1));
    assert!(!gpu.shares.awake().any(|at| at == 0));
    let by = |gpu: &GpuState<Vectors>| gpu.shares.members()[2].throttled_by();
    assert_eq!(by(&gpu), Some(ThrottledBy::Class));
    period(&mut gpu, &mut now, &[0, 0, 0], &[]);
    assert_eq!(by(&gpu), None);
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
fn wait_for_a_turn_is_booked_for_the_period_that_it_is_of() {
    let (mut gpu, mut now) = (gpu(config(PolicyKind::None)), Ns::ZERO);
    period(&mut gpu, &mut now, &[50, 0, 0], &[]);
    let wait = Ns::from_ms(20);
    gpu.shares.note_turn_wait(1, wait);
    gpu.shares.note_turn_wait(0, Ns::from_ms(10_000));
    gpu.shares.note_turn_wait(CLIENTS, wait);
    let decision = period(&mut gpu, &mut now, &[50, 0, 0], &[]);
    let members = gpu.shares.members();
    // No longer than it did not run.
    let rest = decision.totals.length.get() - decision.totals.length.get() / 2;
    assert_eq!(members[0].used().waited.get(), rest);
    assert!(members[1].account().waited.get().abs_diff(wait.get()) < 1_000);
    assert_eq!(members[2].account().waited, Ns::ZERO);
    // It is of one period.
    let before = gpu.shares.members()[1].account().waited;
    period(&mut gpu, &mut now, &[50, 0, 0], &[]);
    assert_eq!(gpu.shares.members()[1].account().waited, before);
}

/// How far the second of two clients is behind the first, after a period in which it does not run, in
/// ns; it had run for less in the one before. It waited so long for its turn.
fn behind_after_a_wait(waited: Ns) -> u64 {
    let (mut gpu, mut now) = (gpu(config(PolicyKind::Event)), Ns::ZERO);
    period(&mut gpu, &mut now, &[40, 10, 0], &[]);
    gpu.shares.note_turn_wait(1, waited);
    period(&mut gpu, &mut now, &[40, 0, 0], &[]);
    let states = gpu.shares.states();
    states[0].vtime.saturating_sub(states[1].vtime).get()
}

#[test]
fn client_that_waits_for_its_turn_keeps_what_it_is_owed() {
    let idle = behind_after_a_wait(Ns::ZERO);
    let waiting = behind_after_a_wait(Ns::from_ms(5));
    assert_eq!(idle, 0);
    // Six tenths of the first period, and the second one.
    assert!(waiting > Ns::from_ms(10).get(), "{waiting}");
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
    gpu.begin_phase(found.into_iter(), core::iter::empty());
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
        ..Slot::default()
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
        copies: None,
    };
    gpu.end_phase(now, ended, &mut Some, core::iter::empty());
    // One client alone need not be told apart from others.
    assert!(gpu.plan().1 > first);
}
