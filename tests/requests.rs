// SPDX-License-Identifier: GPL-2.0

//! Properties of the calls of `/dev/loga`: whatever bytes come in, checks return a result; accepted
//! values are in range; a refusal names what would be right.

#[path = "requests/promises.rs"]
mod promises;

use loga::engaged::{Mode, Terms};
use loga::error::Error;
use loga::knobs::{Config, Knob, KNOBS};
use loga::policies::PolicyKind;
use loga::request::{ClaimRequest, Named};
use loga::share::Limit;
use loga::uapi::{
    arg_size, Call, Claim, Configure, Header, ReadTotals, Refusal, SetShare, SetSpec, Snapshot,
    Spec, Subscribe, ACTION_CLEAR, ALL_GPUS, CLAIM_ANYWAY, MAX_KNOBS, REFUSED_CHANGED,
    REFUSED_FULL, REFUSED_RANGE, REFUSED_RESERVED, REFUSED_UNKNOWN_SUBJECT, SHARE_ACCESS,
    SHARE_LIMIT, SHARE_TARGET, SHARE_WEIGHT, SUBJECT_USER, VERSION,
};
use loga::units::{Ns, Weight};
use proptest::prelude::*;

/// Words in the largest argument checked here.
const WORDS: usize = 24;

/// Small numbers and any numbers: most fields have few values that are right.
fn words() -> impl Strategy<Value = Vec<u32>> {
    let word = prop_oneof![3 => 0u32..4, 1 => 0u32..20_000, 1 => any::<u32>()];
    prop::collection::vec(word, WORDS)
}

fn wide(words: &[u32]) -> u64 {
    u64::from(words[0]) | (u64::from(words[1]) << 32)
}

fn refusal(words: &[u32]) -> Refusal {
    Refusal {
        code: words[0] / 2,
        ..Refusal::default()
    }
}

fn set_share(words: &[u32]) -> SetShare {
    SetShare {
        version: words[0],
        size: words[1],
        gpu: words[2],
        action: words[3],
        subject: words[4],
        mask: words[5],
        id: wide(&words[6..]),
        weight: words[8],
        limit_pct: words[9],
        class: words[10],
        target_pct: words[11],
        access: words[13] / 2,
        reserved: words[14] / 3,
        refusal: refusal(&words[12..]),
    }
}

fn set_spec(words: &[u32]) -> SetSpec {
    SetSpec {
        version: words[0],
        size: words[1],
        gpu: words[2],
        action: words[3],
        spec: Spec {
            subject: words[4],
            mode: words[5],
            id: wide(&words[6..]),
            prio: words[8],
            kind: words[9],
            capacity_ns: u64::from(words[10]) * 1_000,
            period_ns: u64::from(words[11]) * 1_000,
            longest_ns: u64::from(words[14] / 2) * 1_000,
            deadline_ns: u64::from(words[19] / 2) * 1_000,
            commands: words[15],
            flags: words[16] / 2,
            lease_ms: words[17],
            reserved: words[18] / 2,
        },
        refusal: refusal(&words[12..]),
    }
}

fn claim(words: &[u32]) -> Claim {
    Claim {
        gpu: words[2],
        action: words[3],
        want_pct: words[4],
        seconds: words[5],
        seen: wide(&words[6..]),
        refusal: refusal(&words[12..]),
        ..Claim::default()
    }
}

fn configure(words: &[u32]) -> Configure {
    let mut values = [0; MAX_KNOBS];
    values.copy_from_slice(&words[4..4 + MAX_KNOBS]);
    Configure {
        gpu: words[2],
        mask: words[3],
        values,
        refusal: refusal(&words[20..]),
        ..Configure::default()
    }
}

/// A refusal can be put in words, and one of a range names the range.
fn is_telling(refusal: Refusal) -> bool {
    let text = refusal.to_string();
    let in_range = refusal.min <= refusal.value && refusal.value <= refusal.max;
    !text.is_empty()
        && refusal.code != 0
        && (refusal.code != REFUSED_RANGE
            || !in_range && refusal.field != 0 && !text.starts_with("value="))
}

proptest! {
    #[test]
    fn share_of_any_words_is_in_range_or_refused(words in words()) {
        match set_share(&words).check() {
            Ok(request) => {
                let change = request.change.unwrap_or_default();
                prop_assert!(change.weight.is_none_or(|raw| Weight::new(raw).is_ok()));
                prop_assert!(change.limit.is_none_or(|raw| Limit::new(raw).is_ok()));
                prop_assert_eq!(request.change.is_none(), words[3] == ACTION_CLEAR);
                prop_assert!(request.named != Named::Cgroup(0));
            }
            Err(refusal) => prop_assert!(is_telling(refusal), "{:?}", refusal),
        }
    }

    #[test]
    fn spec_of_any_words_is_in_range_or_refused(words in words()) {
        match set_spec(&words).check() {
            Ok(request) => {
                prop_assert_eq!(request.spec.is_none(), words[3] == ACTION_CLEAR);
                let spec = request.spec.unwrap_or_default();
                prop_assert!(spec.prio.is_none_or(|prio| prio.get() <= 39));
                if let Some(terms) = spec.reserve {
                    prop_assert!(Terms::new(terms.kind, terms.capacity, terms.period).is_ok());
                    prop_assert!((1..=10_000).contains(&terms.commands));
                    prop_assert!(spec.mode != Mode::Protected);
                    prop_assert_eq!(terms.hard, words[16] / 2 == 0);
                    let early = terms.deadline < terms.period;
                    prop_assert!(terms.is_firm() || !early);
                    prop_assert!((terms.capacity..=terms.period).contains(&terms.deadline));
                }
            }
            Err(refusal) => prop_assert!(is_telling(refusal), "{:?}", refusal),
        }
    }

    #[test]
    fn claim_of_any_words_is_in_range_or_refused(words in words()) {
        match claim(&words).check() {
            Ok(ClaimRequest::Make { gpu, want, lasts, seen }) => {
                prop_assert_eq!((gpu, words[3]), (words[2], 0));
                prop_assert!((1..=100).contains(&want) && want == words[4]);
                let second = 1_000_000_000;
                prop_assert!((second..=30 * second).contains(&lasts.get()));
                prop_assert_eq!(lasts.get(), u64::from(words[5]) * second);
                prop_assert_eq!(seen.unwrap_or(CLAIM_ANYWAY), wide(&words[6..]));
            }
            Ok(ClaimRequest::Clear { gpu }) => {
                prop_assert_eq!(words[3], ACTION_CLEAR);
                prop_assert_eq!(gpu.unwrap_or(ALL_GPUS), words[2]);
            }
            Err(refusal) => prop_assert!(is_telling(refusal), "{:?}", refusal),
        }
    }

    #[test]
    fn knobs_of_any_words_are_in_range_or_refused(words in words()) {
        match configure(&words).check() {
            Ok(knobs) => {
                let mut config = Config::default();
                knobs.apply(&mut config);
                for (at, knob) in KNOBS.iter().enumerate() {
                    let number = (knob.get)(&config);
                    prop_assert!(knob.check(number).is_ok());
                    let given = words[3] & (1 << at) != 0;
                    prop_assert!(!given || number == words[4 + at]);
                    prop_assert!(given || number == (knob.get)(&Config::default()));
                }
                prop_assert_eq!(knobs.gpu.is_none(), words[2] == ALL_GPUS);
            }
            Err(refusal) => prop_assert!(is_telling(refusal), "{:?}", refusal),
        }
    }

    #[test]
    fn other_calls_of_any_words_are_answered(words in words()) {
        let totals = ReadTotals { flags: words[0], kind: words[1], ..ReadTotals::default() };
        if let Err(refusal) = totals.check() {
            prop_assert!(is_telling(refusal));
        }
        let subscribe = Subscribe { flags: words[0], mask: wide(&words), ..Subscribe::default() };
        prop_assert_eq!(subscribe.check().is_ok(), words[0] == 0 && wide(&words) < 128);
        let snapshot = Snapshot { flags: words[0], reserved: words[1], ..Snapshot::default() };
        prop_assert_eq!(snapshot.check().is_ok(), words[0] == 0 && words[1] == 0);
    }

    #[test]
    fn any_number_is_a_call_of_its_size_or_none(cmd in any::<u32>(), words in words()) {
        let header = Header { version: words[0], size: words[1] };
        if let Some(call) = Call::of(cmd) {
            let right = call.check(cmd, header).is_ok();
            prop_assert_eq!(right, header == call.header() && arg_size(cmd) == call.size());
        }
    }

    #[test]
    fn call_of_another_size_or_version_gets_the_right_ones(by in 1u32..2000, which in 0usize..9) {
        let (call, number) = Call::ALL[which];
        let right = call.header();
        prop_assert_eq!(Call::of(number), Some(call));
        prop_assert_eq!(call.check(number, right), Ok(()));
        let old = Header { version: right.version.wrapping_sub(by), ..right };
        prop_assert_eq!(call.check(number, old), Err(right));
        let long = Header { size: right.size + by, ..right };
        prop_assert_eq!(call.check(number, long), Err(right));
        // A program that was built with another size uses another number.
        let other = number & !(0x3fff << 16) | ((right.size + by) << 16);
        prop_assert_eq!(Call::of(other), Some(call));
        prop_assert_eq!(call.check(other, right), Err(right));
    }
}

#[test]
fn numbers_of_the_calls_are_as_the_kernel_builds_them() {
    for (at, (call, number)) in (1u32..).zip(Call::ALL) {
        assert_eq!(*number & 0xffff, 0x4c00 | at);
        assert_eq!(*number >> 30, 3);
        assert_eq!(arg_size(*number), call.size());
    }
    assert_eq!(Call::of(0x4c0a | (3 << 30)), None);
    // The same number, but read-only.
    assert_eq!(Call::of(Call::ALL[0].1 & !(1 << 30)), None);
    assert_eq!(VERSION, 15);
}

#[test]
fn refusals_name_what_would_be_right() {
    let mut share = SetShare {
        subject: SUBJECT_USER,
        id: 1000,
        mask: SHARE_WEIGHT | SHARE_LIMIT,
        weight: 0,
        limit_pct: 20,
        ..SetShare::default()
    };
    let text = |share: &SetShare| share.check().unwrap_err().to_string();
    assert_eq!(text(&share), "weight=0 is out of range, want 1 to 10000");
    share.weight = 7;
    share.limit_pct = 101;
    assert_eq!(text(&share), "limit=101 is out of range, want 1 to 100");
    share.limit_pct = 100;
    share.id = u64::from(u32::MAX);
    assert_eq!(share.check().unwrap_err().code, REFUSED_UNKNOWN_SUBJECT);
    share.id = 0;
    share.target_pct = 91;
    assert!(share.check().is_ok(), "it is not given");
    share.mask |= SHARE_TARGET;
    assert_eq!(text(&share), "target=91 is out of range, want 1 to 90");
    share.target_pct = 0;
    assert!(share.check().is_ok());
    share.access = 2;
    assert!(share.check().is_ok(), "it is not given");
    share.mask |= SHARE_ACCESS;
    assert_eq!(text(&share), "access=2 is out of range, want 0 to 1");
    share.access = 1;
    assert!(share.check().is_ok());
    share.reserved = 1;
    assert_eq!(share.check().unwrap_err().code, REFUSED_RESERVED);
    share.reserved = 0;
    share.mask |= 1 << 5;
    assert_eq!(share.check().unwrap_err().code, REFUSED_RESERVED);
    share.mask = 0;
    assert_eq!(
        text(&share),
        "nothing to set, want a weight, limit, class, target or access"
    );
}

#[test]
fn claims_out_of_range_are_refused_with_what_would_be_right() {
    let good = Claim {
        want_pct: 50,
        seconds: 10,
        seen: CLAIM_ANYWAY,
        ..Claim::default()
    };
    let made = ClaimRequest::Make {
        gpu: 0,
        want: 50,
        lasts: Ns::from_ms(10_000),
        seen: None,
    };
    assert_eq!(good.check(), Ok(made));
    let say = |change: fn(&mut Claim)| {
        let mut claim = good;
        change(&mut claim);
        claim.check().unwrap_err().to_string()
    };
    for (change, said) in [
        (
            (|claim| claim.want_pct = 0) as fn(&mut Claim),
            "want_pct=0 is out of range, want 1 to 100",
        ),
        (
            |claim| claim.want_pct = 101,
            "want_pct=101 is out of range, want 1 to 100",
        ),
        (
            |claim| claim.seconds = 0,
            "seconds=0 is out of range, want 1 to 30",
        ),
        (
            |claim| claim.seconds = 31,
            "seconds=31 is out of range, want 1 to 30",
        ),
        (
            |claim| claim.action = 2,
            "action=2 is out of range, want 0 to 1",
        ),
        (
            |claim| claim.refusal.max = 1,
            "a reserved field is not zero",
        ),
    ] {
        assert_eq!(say(change), said);
    }
    // What is claimed does not matter to take it back.
    let clear = Claim {
        gpu: ALL_GPUS,
        action: ACTION_CLEAR,
        ..Claim::default()
    };
    assert_eq!(clear.check(), Ok(ClaimRequest::Clear { gpu: None }));
    let full = Refusal::from(Error::Full {
        name: "claims",
        max: 64,
    });
    assert_eq!((full.code, full.max), (REFUSED_FULL, 64));
    assert_eq!(
        full.to_string(),
        "no room for another of 64 claims: clear one first"
    );
    let changed = Refusal::from(Error::Changed);
    assert_eq!(changed.code, REFUSED_CHANGED);
    assert_eq!(
        changed.to_string(),
        "another program has claimed a GPU since: read the snapshots again"
    );
}

#[test]
fn knobs_out_of_range_and_those_that_cannot_be_turned_are_refused() {
    let mut knobs = Configure::default();
    knobs.set("policy", "event").unwrap();
    knobs.set("poll_ms", "5").unwrap();
    let mut config = Config::default();
    knobs.check().unwrap().apply(&mut config);
    assert_eq!(config.policy, PolicyKind::Event);
    assert_eq!((config.poll_ms, config.ratio), (5, Config::default().ratio));
    let text = knobs.set("policy", "events").unwrap_err().to_string();
    assert!(text.contains(" event,"), "{text}");
    assert!(text.contains(" none"), "{text}");
    let text = knobs
        .set("source", "channel-table")
        .unwrap_err()
        .to_string();
    assert_eq!(
        text,
        "source is a parameter of the module: set it at insmod"
    );
    let (group_by, _) = Knob::find("group_by").unwrap();
    knobs.set("group_by", "user").unwrap();
    knobs.values[group_by] = 3;
    assert_eq!(
        knobs.check().unwrap_err().to_string(),
        "group_by=3 is out of range, want 0 to 2"
    );
    let (source, _) = Knob::find("source").unwrap();
    for bit in [source, KNOBS.len(), 31] {
        knobs.mask = 1 << bit;
        assert_eq!(knobs.check().unwrap_err().code, REFUSED_RESERVED);
    }
}
