// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Arguments of `/dev/loga`, and the queue of a listener.

use crate::input::Input;
use loga::knobs::{Config, KNOBS};
use loga::request::{ClaimRequest, Named};
use loga::uapi;
use loga::uapi::{Call, Event, EventQueue, Refusal};
use loga::units::Ns;
use std::collections::VecDeque;

/// A refusal as a caller may leave it in its argument: mostly none.
fn refusal(input: &mut Input<'_>) -> Refusal {
    if input.u8() % 8 != 7 {
        return Refusal::default();
    }
    Refusal {
        code: input.u32(),
        field: input.u32(),
        value: input.u64(),
        min: input.u64(),
        max: input.u64(),
    }
}

/// A refusal names a reason, in words, and a range that the value is really outside of.
fn sound(refusal: Refusal) {
    assert_ne!(refusal.code, uapi::REFUSED_NOT, "refused without a reason");
    let said = refusal.to_string();
    assert!(!said.is_empty(), "{said:?}");
    assert!(!said.contains('\n'), "{said:?}");
    if refusal.code == uapi::REFUSED_RANGE {
        let range = refusal.min..=refusal.max;
        assert!(!range.is_empty(), "{said}");
        assert!(!range.contains(&refusal.value), "{said}");
        assert!(!said.starts_with("value="), "{said}");
    }
}

/// Bytes are a command with its header, and an argument of any call.
///
/// # Panics
///
/// A bad argument is accepted, or one is refused without a true reason.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let kind = input.u8();
    let cmd = input.u32();
    let header = uapi::Header {
        version: input.u32(),
        size: input.u32(),
    };
    if let Some(call) = Call::of(cmd) {
        let right = call.header();
        let number = Call::ALL.iter().find(|(other, _)| *other == call);
        let number = number.map_or(0, |(_, number)| *number);
        let same = cmd == number && header == right;
        assert_eq!(
            call.check(cmd, header),
            if same { Ok(()) } else { Err(right) }
        );
        assert_eq!(right.size as usize, call.size());
    }
    let said = Refusal {
        code: input.u32(),
        field: input.u32(),
        value: 1,
        min: 2,
        max: 3,
    };
    assert!(!said.to_string().is_empty());
    // Inputs of the corpus stay those of the calls that they were kept for.
    if (250..254).contains(&kind) {
        return claim(&mut input);
    }
    match kind % 6 {
        0 => snapshot(&mut input),
        1 => set_share(&mut input),
        2 => totals(&mut input),
        3 => configure(&mut input),
        4 => set_spec(&mut input),
        _ => subscribe(&mut input),
    }
}

fn snapshot(input: &mut Input<'_>) {
    let snapshot = uapi::Snapshot {
        flags: u32::from(input.u8() / 128),
        reserved: u32::from(input.u8() / 128),
        gpu: input.u32(),
        client_count: input.u32(),
        ..Default::default()
    };
    match snapshot.check() {
        Ok(()) => assert_eq!((snapshot.flags, snapshot.reserved), (0, 0)),
        Err(refusal) => sound(refusal),
    }
}

fn set_share(input: &mut Input<'_>) {
    let set = uapi::SetShare {
        gpu: input.u32(),
        action: u32::from(input.u8() % 4),
        subject: u32::from(input.u8() % 5),
        mask: u32::from(input.u8()),
        id: input.u64(),
        weight: input.u32(),
        limit_pct: input.u32(),
        class: u32::from(input.u8() % 4),
        target_pct: input.u32(),
        access: u32::from(input.u8() % 3),
        reserved: u32::from(input.u8() / 255),
        refusal: refusal(input),
        ..Default::default()
    };
    match set.check() {
        Ok(request) => {
            assert!(set.refusal == Refusal::default());
            assert!(set.reserved == 0);
            assert!(set.mask < 32);
            assert_eq!(request.change.is_some(), set.action == uapi::ACTION_SET);
            assert_eq!(request.gpu, (set.gpu != uapi::ALL_GPUS).then_some(set.gpu));
            let named = match request.named {
                Named::Caller => (uapi::SUBJECT_PROCESS, 0),
                // CAST: negative process ids are refused.
                Named::Process(pid) => (uapi::SUBJECT_PROCESS, pid as u64),
                Named::User(uid) => (uapi::SUBJECT_USER, uid.into()),
                Named::Cgroup(id) => (uapi::SUBJECT_CGROUP, id),
            };
            assert_eq!(named, (set.subject, set.id));
            if let Some(change) = request.change {
                let [weight, limit, class, target, access] = [
                    uapi::SHARE_WEIGHT,
                    uapi::SHARE_LIMIT,
                    uapi::SHARE_CLASS,
                    uapi::SHARE_TARGET,
                    uapi::SHARE_ACCESS,
                ];
                // A number is taken if and only if its bit is set, and lies in its range.
                for (bit, taken, value, range) in [
                    (weight, change.weight.is_some(), set.weight, 1..=10_000),
                    (limit, change.limit.is_some(), set.limit_pct, 1..=100),
                    (class, change.class.is_some(), set.class, 0..=1),
                    (target, change.target.is_some(), set.target_pct, 0..=90),
                    (access, change.denied.is_some(), set.access, 0..=1),
                ] {
                    assert_eq!(
                        taken,
                        set.mask & bit != 0,
                        "bit {bit:#x} of {:#x}",
                        set.mask
                    );
                    assert!(!taken || range.contains(&value), "{value} for bit {bit:#x}");
                }
            }
        }
        Err(refusal) => sound(refusal),
    }
}

fn set_spec(input: &mut Input<'_>) {
    let time = |input: &mut Input<'_>| u64::from(input.u32()) * u64::from(input.u16() % 2_000);
    let mut set = uapi::SetSpec {
        gpu: input.u32(),
        action: u32::from(input.u8() % 4),
        spec: uapi::Spec {
            subject: u32::from(input.u8() % 5),
            mode: u32::from(input.u8() % 4),
            id: input.u64(),
            prio: match input.u8() {
                255 => uapi::PRIO_BY_NICE,
                prio => prio.into(),
            },
            kind: u32::from(input.u8() % 6),
            capacity_ns: time(input),
            period_ns: time(input),
            longest_ns: time(input) * u64::from(input.u8() / 128),
            commands: u32::from(input.u16()),
            flags: u32::from(input.u8() / 100),
            lease_ms: input.u32() >> (input.u8() % 32),
            reserved: u32::from(input.u8() / 128),
            ..Default::default()
        },
        refusal: refusal(input),
        ..Default::default()
    };
    set.spec.deadline_ns = time(input) * u64::from(input.u8() / 128);
    match set.check() {
        Ok(request) => {
            assert!(set.spec.flags <= uapi::SPEC_SOFT);
            assert!(set.refusal == Refusal::default());
            let lease = Ns::from_ms(set.spec.lease_ms.into());
            assert!(set.spec.reserved == 0);
            assert!(set.spec.lease_ms <= uapi::MAX_LEASE_MS);
            assert_eq!(request.lease.unwrap_or(Ns::ZERO), lease);
            assert_eq!(request.spec.is_some(), set.action == uapi::ACTION_SET);
            if let Some(spec) = request.spec {
                let prio = spec
                    .prio
                    .map_or(uapi::PRIO_BY_NICE, |prio| prio.get().into());
                assert_eq!(prio, set.spec.prio);
                assert_eq!(spec.reserve.is_none(), set.spec.kind == uapi::RESERVE_NONE);
                if let Some(terms) = spec.reserve {
                    assert!(terms.capacity <= terms.period.saturating_add(Ns::from_us(1)));
                    assert_eq!(terms.capacity.get(), set.spec.capacity_ns);
                    assert!(terms.deadline <= terms.period);
                    assert!(terms.is_firm() || set.spec.deadline_ns == 0);
                    assert_eq!(terms.commands, u64::from(set.spec.commands));
                    assert!(set.spec.mode != uapi::MODE_PROTECTED);
                }
            }
        }
        Err(refusal) => sound(refusal),
    }
}

fn claim(input: &mut Input<'_>) {
    let claim = uapi::Claim {
        gpu: input.u32(),
        action: u32::from(input.u8() % 4),
        want_pct: u32::from(input.u8()),
        seconds: u32::from(input.u8() % 64),
        seen: match input.u8() {
            255 => uapi::CLAIM_ANYWAY,
            _ => input.u64(),
        },
        refusal: refusal(input),
        ..Default::default()
    };
    let is_set = claim.action == uapi::ACTION_SET;
    match claim.check() {
        Ok(ClaimRequest::Make {
            gpu,
            want,
            lasts,
            seen,
        }) => {
            assert!(is_set);
            assert!(claim.refusal == Refusal::default());
            assert!((1..=100).contains(&want));
            assert!((1..=30).contains(&claim.seconds));
            assert_eq!((gpu, want), (claim.gpu, claim.want_pct));
            assert_eq!(lasts, Ns::from_ms(u64::from(claim.seconds) * 1_000));
            assert_eq!(seen.unwrap_or(uapi::CLAIM_ANYWAY), claim.seen);
        }
        Ok(ClaimRequest::Clear { gpu }) => {
            assert!(claim.action == uapi::ACTION_CLEAR);
            assert!(claim.refusal == Refusal::default());
            assert_eq!(gpu, (claim.gpu != uapi::ALL_GPUS).then_some(claim.gpu));
        }
        Err(refusal) => sound(refusal),
    }
}

fn totals(input: &mut Input<'_>) {
    let read = uapi::ReadTotals {
        gpu: input.u32(),
        flags: u32::from(input.u8() % 4),
        kind: u32::from(input.u8() % 4),
        count: input.u32(),
        refusal: refusal(input),
        ..Default::default()
    };
    match read.check() {
        Ok((_, reset)) => {
            assert!((uapi::SUBJECT_USER..=uapi::SUBJECT_CGROUP).contains(&read.kind));
            assert_eq!(reset, read.flags == uapi::TOTALS_RESET);
            assert!(read.flags <= uapi::TOTALS_RESET);
            assert!(read.refusal == Refusal::default());
        }
        Err(refusal) => sound(refusal),
    }
}

fn configure(input: &mut Input<'_>) {
    let configure = uapi::Configure {
        gpu: input.u32(),
        mask: u32::from(input.u16() % 1024),
        values: std::array::from_fn(|_| match input.u8() % 8 {
            7 => input.u32(),
            small => small.into(),
        }),
        refusal: refusal(input),
        ..Default::default()
    };
    match configure.check() {
        Ok(knobs) => {
            assert!(configure.refusal == Refusal::default());
            assert!(configure.mask != 0);
            let (before, mut config) = (Config::default(), Config::default());
            knobs.apply(&mut config);
            for (at, knob) in KNOBS.iter().enumerate() {
                let given = configure.mask & (1 << at) != 0;
                let wanted = match given {
                    true => configure.values[at],
                    false => (knob.get)(&before),
                };
                assert_eq!((knob.get)(&config), wanted, "{}", knob.name);
                assert!(knob.check(wanted).is_ok());
                assert!((knob.live || !given));
            }
        }
        Err(refusal) => sound(refusal),
    }
}

fn subscribe(input: &mut Input<'_>) {
    let subscribe = uapi::Subscribe {
        gpu: input.u32() % 4,
        flags: u32::from(input.u8() / 128),
        mask: input.u64(),
        refusal: refusal(input),
        ..Default::default()
    };
    match subscribe.check() {
        Ok(()) => {
            assert!(subscribe.flags == 0);
            assert!(subscribe.mask >> uapi::EVENT_KINDS == 0);
        }
        Err(refusal) => sound(refusal),
    }
    let event = Event {
        kind: input.u32(),
        gpu: input.u32() % 4,
        ..Event::default()
    };
    let wants = subscribe.gpu == event.gpu
        && event.kind < uapi::EVENT_KINDS
        && subscribe.mask & 1 << event.kind != 0;
    assert_eq!(subscribe.wants(&event), wants);
}

/// Bytes are the room of a queue, then one event or one read each.
///
/// # Panics
///
/// The queue differs from one that keeps the newest events.
pub fn run_events(data: &[u8]) {
    let mut input = Input::new(data);
    let room = usize::from(input.u8() % 9);
    let mut store = vec![Event::default(); room];
    let mut queue = EventQueue::new(&mut store[..]);
    let mut model: VecDeque<Event> = VecDeque::new();
    let mut sequence = 0;
    while !input.is_empty() {
        let byte = input.u8();
        if byte % 3 == 0 {
            assert_eq!(queue.pop(), model.pop_front());
        } else {
            let event = Event {
                value: byte.into(),
                ..Event::default()
            };
            queue.push(&event);
            model.push_back(Event { sequence, ..event });
            if model.len() > room {
                model.pop_front();
            }
            sequence += 1;
        }
        assert_eq!(
            (queue.len(), queue.is_empty()),
            (model.len(), model.is_empty())
        );
    }
}
