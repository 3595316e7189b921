// SPDX-License-Identifier: GPL-2.0

//! Promises that a caller asks for.

use loga::engaged::Kind;
use loga::uapi::{SetSpec, Spec, PRIO_BY_NICE, RESERVE_CBS, RESERVE_NONE, RESERVE_PE, SPEC_SOFT};
use loga::units::Ns;

/// What is said of a deadline that is not promised.
const NO_DEADLINE: &str =
    "a deadline of a reserve that promises none: want kind cbs, not soft, with its longest \
     submission declared, or no deadline";

#[test]
fn promises_out_of_range_are_refused_with_what_would_be_right() {
    let good = SetSpec {
        spec: Spec {
            prio: PRIO_BY_NICE,
            kind: RESERVE_CBS,
            capacity_ns: 2_500_000,
            period_ns: 25_000_000,
            commands: 1,
            ..Spec::default()
        },
        ..SetSpec::default()
    };
    let promised = |set: &SetSpec| set.check().unwrap().spec.unwrap().reserve.unwrap();
    assert_eq!(promised(&good).kind, Kind::Cbs);
    assert!(promised(&good).hard);
    assert!(promised(&good).longest.is_none());
    let mut early = good;
    (early.spec.longest_ns, early.spec.deadline_ns) = (1_000_000, 10_000_000);
    assert_eq!(promised(&early).deadline, Ns::from_ms(10));
    early.spec.deadline_ns = 0;
    assert_eq!(promised(&early).deadline, Ns::from_ms(25));
    let set = |change: fn(&mut Spec)| {
        let mut set = good;
        change(&mut set.spec);
        set.check().unwrap_err().to_string()
    };
    for (change, said) in [
        (
            (|set| set.capacity_ns = 25_000_001_000) as fn(&mut Spec),
            "capacity_us=25000001 is out of range, want 10 to 25000",
        ),
        (
            |set| set.period_ns = 999_999,
            "period_us=999 is out of range, want 1000 to 10000000",
        ),
        (
            |set| set.longest_ns = 999,
            "longest_us=0 is out of range, want 1 to 1999999",
        ),
        // All others pass before one that is due has ended.
        (
            |set| set.longest_ns = 2_000_000_000,
            "longest_us=2000000 is out of range, want 1 to 1999999",
        ),
        (
            |set| (set.longest_ns, set.kind) = (10_000_001_000, RESERVE_PE),
            "longest_us=10000001 is out of range, want 1 to 10000000",
        ),
        (
            |set| (set.longest_ns, set.deadline_ns) = (1_000_000, 2_499_999),
            "deadline_us=2499 is out of range, want 2500 to 25000",
        ),
        (
            |set| (set.longest_ns, set.deadline_ns) = (1_000_000, 25_001_000),
            "deadline_us=25001 is out of range, want 2500 to 25000",
        ),
        // Of a reserve that promises none: nothing is declared, it is soft, or of another kind.
        (|set| set.deadline_ns = 10_000_000, NO_DEADLINE),
        (
            |set| (set.longest_ns, set.deadline_ns, set.flags) = (1_000_000, 10_000_000, SPEC_SOFT),
            NO_DEADLINE,
        ),
        (
            |set| {
                (set.longest_ns, set.deadline_ns, set.kind) = (1_000_000, 10_000_000, RESERVE_PE);
            },
            NO_DEADLINE,
        ),
        (
            |set| set.commands = 0,
            "commands=0 is out of range, want 1 to 10000",
        ),
        (|set| set.prio = 40, "prio=40 is out of range, want 0 to 39"),
        (|set| set.mode = 3, "mode=3 is out of range, want 0 to 2"),
        (|set| set.kind = 4, "reserve=4 is out of range, want 0 to 3"),
        (|set| set.flags = 2, "a reserved field is not zero"),
        (|set| set.reserved = 1, "a reserved field is not zero"),
        (
            |set| set.lease_ms = 86_400_001,
            "lease_ms=86400001 is out of range, want 0 to 86400000",
        ),
        // Nothing is promised, but a length is given.
        (
            |set| set.kind = RESERVE_NONE,
            "a reserved field is not zero",
        ),
    ] {
        assert_eq!(set(change), said);
    }
}
