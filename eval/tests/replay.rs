// SPDX-License-Identifier: GPL-2.0

//! Replays with decisions that were worked out by hand from the rule of the policy `event`:
//! `dvt = busy / sum of busy * (poll + nonpoll) * 100 / weight`; `t_sys` the least virtual time of
//! those that were busy; a client is throttled beyond `t_sys + (poll + nonpoll) * 100 / w_min`,
//! where `w_min` is the least weight among those that were busy or throttled.

use loga_eval::replay::{replay, Error};

fn decisions(policy: &str, lines: &[&str]) -> Result<Vec<String>, (Vec<String>, String)> {
    let text = lines.join("\n");
    let mut output = Vec::new();
    let done = replay(policy, "x.jsonl", &mut text.as_bytes(), &mut output);
    let text = String::from_utf8(output).unwrap();
    let lines = text.lines().map(str::to_owned).collect();
    match done {
        Ok(()) => Ok(lines),
        Err(error) => Err((lines, error.to_string())),
    }
}

fn check(policy: &str, pairs: &[(&str, &str)]) {
    let (given, wanted): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
    assert_eq!(decisions(policy, &given).unwrap(), wanted);
}

#[test]
fn two_alike_share_a_period_by_their_use() {
    check(
        "event",
        &[
            // 6000 ns by 3 : 1; the limit is 1500 + 6000.
            (
                r#"{"t_poll_ns":1000,"t_nonpoll_ns":5000,"clients":[{"id":1,"busy_ns":750,"weight":100},{"id":2,"busy_ns":250,"weight":100}]}"#,
                r#"{"t_sys_ns":1500,"clients":[{"id":1,"vtime_ns":4500,"throttled":false},{"id":2,"vtime_ns":1500,"throttled":false}]}"#,
            ),
            // 9000 and 3000: apart by exactly a period, so no client is throttled.
            (
                r#"{"t_poll_ns":1000,"t_nonpoll_ns":5000,"clients":[{"id":1,"busy_ns":750,"weight":100},{"id":2,"busy_ns":250,"weight":100}]}"#,
                r#"{"t_sys_ns":3000,"clients":[{"id":1,"vtime_ns":9000,"throttled":false},{"id":2,"vtime_ns":3000,"throttled":false}]}"#,
            ),
            // 13500 and 4500: beyond.
            (
                r#"{"t_poll_ns":1000,"t_nonpoll_ns":5000,"clients":[{"id":1,"busy_ns":750,"weight":100},{"id":2,"busy_ns":250,"weight":100}]}"#,
                r#"{"t_sys_ns":4500,"clients":[{"id":1,"vtime_ns":13500,"throttled":true},{"id":2,"vtime_ns":4500,"throttled":false}]}"#,
            ),
            // The throttled one uses nothing; the other gets the whole period and catches up.
            (
                r#"{"t_poll_ns":1000,"t_nonpoll_ns":5000,"clients":[{"id":1,"busy_ns":0,"weight":100},{"id":2,"busy_ns":1000,"weight":100}]}"#,
                r#"{"t_sys_ns":10500,"clients":[{"id":1,"vtime_ns":13500,"throttled":false},{"id":2,"vtime_ns":10500,"throttled":false}]}"#,
            ),
        ],
    );
}

#[test]
fn weights_divide_and_the_lightest_sets_the_lead() {
    check(
        "event",
        &[
            // 3000 each; over 3: 1000; over 0.5: 6000. The lead is 6000 / 0.5.
            (
                r#"{"t_poll_ns":1000,"t_nonpoll_ns":5000,"clients":[{"id":1,"busy_ns":400,"weight":300},{"id":2,"busy_ns":400,"weight":50}]}"#,
                r#"{"t_sys_ns":1000,"clients":[{"id":1,"vtime_ns":1000,"throttled":false},{"id":2,"vtime_ns":6000,"throttled":false}]}"#,
            ),
            // 2000 and 12000: within 2000 + 12000.
            (
                r#"{"t_poll_ns":1000,"t_nonpoll_ns":5000,"clients":[{"id":1,"busy_ns":400,"weight":300},{"id":2,"busy_ns":400,"weight":50}]}"#,
                r#"{"t_sys_ns":2000,"clients":[{"id":1,"vtime_ns":2000,"throttled":false},{"id":2,"vtime_ns":12000,"throttled":false}]}"#,
            ),
            // 3000 and 18000: beyond 3000 + 12000.
            (
                r#"{"t_poll_ns":1000,"t_nonpoll_ns":5000,"clients":[{"id":1,"busy_ns":400,"weight":300},{"id":2,"busy_ns":400,"weight":50}]}"#,
                r#"{"t_sys_ns":3000,"clients":[{"id":1,"vtime_ns":3000,"throttled":false},{"id":2,"vtime_ns":18000,"throttled":true}]}"#,
            ),
        ],
    );
}

#[test]
fn new_client_starts_at_the_time_of_the_system_and_so_does_one_that_returns() {
    check(
        "event",
        &[
            (
                r#"{"t_poll_ns":100,"t_nonpoll_ns":500,"clients":[{"id":7,"busy_ns":100,"weight":100}]}"#,
                r#"{"t_sys_ns":600,"clients":[{"id":7,"vtime_ns":600,"throttled":false}]}"#,
            ),
            // The new one starts at 600 and gets a quarter of 600.
            (
                r#"{"t_poll_ns":100,"t_nonpoll_ns":500,"clients":[{"id":3,"busy_ns":25,"weight":100},{"id":7,"busy_ns":75,"weight":100}]}"#,
                r#"{"t_sys_ns":750,"clients":[{"id":3,"vtime_ns":750,"throttled":false},{"id":7,"vtime_ns":1050,"throttled":false}]}"#,
            ),
            // 7 has gone.
            (
                r#"{"t_poll_ns":100,"t_nonpoll_ns":500,"clients":[{"id":3,"busy_ns":40,"weight":100}]}"#,
                r#"{"t_sys_ns":1350,"clients":[{"id":3,"vtime_ns":1350,"throttled":false}]}"#,
            ),
            // It is back, with nothing of what it was: 1350 + 300.
            (
                r#"{"t_poll_ns":100,"t_nonpoll_ns":500,"clients":[{"id":3,"busy_ns":50,"weight":100},{"id":7,"busy_ns":50,"weight":100}]}"#,
                r#"{"t_sys_ns":1650,"clients":[{"id":3,"vtime_ns":1650,"throttled":false},{"id":7,"vtime_ns":1650,"throttled":false}]}"#,
            ),
        ],
    );
}

#[test]
fn idle_client_is_lifted_and_an_idle_gpu_stands_still() {
    check(
        "event",
        &[
            (
                r#"{"t_poll_ns":100,"t_nonpoll_ns":500,"clients":[{"id":1,"busy_ns":60,"weight":100},{"id":2,"busy_ns":0,"weight":100}]}"#,
                r#"{"t_sys_ns":600,"clients":[{"id":1,"vtime_ns":600,"throttled":false},{"id":2,"vtime_ns":600,"throttled":false}]}"#,
            ),
            (
                r#"{"t_poll_ns":100,"t_nonpoll_ns":500,"clients":[{"id":1,"busy_ns":0,"weight":100},{"id":2,"busy_ns":0,"weight":100}]}"#,
                r#"{"t_sys_ns":600,"clients":[{"id":1,"vtime_ns":600,"throttled":false},{"id":2,"vtime_ns":600,"throttled":false}]}"#,
            ),
            (
                r#"{"t_poll_ns":100,"t_nonpoll_ns":500,"clients":[]}"#,
                r#"{"t_sys_ns":600,"clients":[]}"#,
            ),
        ],
    );
}

#[test]
fn unknown_names_are_skipped_and_the_order_of_clients_is_that_of_their_ids() {
    check(
        "event",
        &[(
            r#"{"gpu":0,"t_poll_ns":100,"t_nonpoll_ns":0,"clients":[{"id":9,"pid":4,"busy_ns":50},{"id":2,"busy_ns":50,"weight":100,"runs":3}],"idle_ns":0}"#,
            r#"{"t_sys_ns":50,"clients":[{"id":2,"vtime_ns":50,"throttled":false},{"id":9,"vtime_ns":50,"throttled":false}]}"#,
        )],
    );
}

#[test]
fn times_beyond_64_bits_of_products_are_exact() {
    // 10 s polled and 50 s not: products of 10^20.
    check(
        "event",
        &[(
            r#"{"t_poll_ns":10000000000,"t_nonpoll_ns":50000000000,"clients":[{"id":1,"busy_ns":2500000000,"weight":100},{"id":2,"busy_ns":7500000000,"weight":100}]}"#,
            r#"{"t_sys_ns":15000000000,"clients":[{"id":1,"vtime_ns":15000000000,"throttled":false},{"id":2,"vtime_ns":45000000000,"throttled":false}]}"#,
        )],
    );
}

#[test]
fn policy_none_throttles_no_client() {
    let line = r#"{"t_poll_ns":100,"t_nonpoll_ns":500,"clients":[{"id":1,"busy_ns":100,"weight":1},{"id":2,"busy_ns":1,"weight":100}]}"#;
    for decision in decisions("none", &[line; 20]).unwrap() {
        assert!(!decision.contains("true"), "{decision}");
    }
}

#[test]
fn lines_that_make_no_sense_are_named_and_those_before_are_decided() {
    let good = r#"{"t_poll_ns":1,"t_nonpoll_ns":5,"clients":[]}"#;
    for (bad, reason) in [
        ("{", "EOF while parsing"),
        ("[]", "x.jsonl:3: "),
        (
            r#"{"t_poll_ns":1,"clients":[]}"#,
            "missing field `t_nonpoll_ns`",
        ),
        (
            r#"{"t_poll_ns":-1,"t_nonpoll_ns":5,"clients":[]}"#,
            "invalid value: integer `-1`",
        ),
        (
            r#"{"t_poll_ns":1,"t_nonpoll_ns":5,"clients":[{"id":1}]}"#,
            "missing field `busy_ns`",
        ),
        (
            r#"{"t_poll_ns":1,"t_nonpoll_ns":5,"clients":[{"id":1,"busy_ns":1,"weight":0}]}"#,
            "client 1: weight=0 is out of range, want 1 to 10000",
        ),
        (
            r#"{"t_poll_ns":1,"t_nonpoll_ns":5,"clients":[{"id":1,"busy_ns":1},{"id":1,"busy_ns":1}]}"#,
            "client 1 is there twice",
        ),
    ] {
        let (decided, message) = decisions("event", &[good, "", bad, good]).unwrap_err();
        assert_eq!(decided.len(), 1, "{bad}");
        assert!(message.starts_with("x.jsonl:3: "), "{message}");
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn policy_that_does_not_exist_is_refused_with_those_that_do() {
    let error = replay("fifo", "x", &mut &b""[..], &mut Vec::new()).unwrap_err();
    assert!(matches!(error, Error::Input(_)));
    assert!(error
        .to_string()
        .contains("unknown policy \"fifo\", want one of maxmin, event"));
    // A baseline has no periods.
    assert!(replay("hardware", "x", &mut &b""[..], &mut Vec::new()).is_err());
}
