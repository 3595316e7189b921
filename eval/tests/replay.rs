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

/// JSON objects with these members; `all` has the values of each, separated by commas.
fn objects(names: [&str; 3], all: &str) -> String {
    let object = |values: &str| {
        let members = names.iter().zip(values.split_whitespace());
        let members = members.map(|(name, value)| format!("\"{name}\":{value}"));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    };
    let all = all.split(", ").filter(|values| !values.is_empty());
    all.map(object).collect::<Vec<_>>().join(",")
}

/// Checks decisions of `event` after periods with phases of these lengths in ns. A row has the id,
/// GPU time and weight of each client, then the time of the system, then the id and virtual time of
/// each client and whether it is throttled.
fn check_event((poll, nonpoll): (u64, u64), periods: &str) {
    let (mut given, mut wanted) = (Vec::new(), Vec::new());
    let rows = periods.lines().filter(|row| row.contains('|'));
    for row in rows {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let clients = objects(["id", "busy_ns", "weight"], cells[0]);
        given.push(format!(
            r#"{{"t_poll_ns":{poll},"t_nonpoll_ns":{nonpoll},"clients":[{clients}]}}"#
        ));
        let clients = objects(["id", "vtime_ns", "throttled"], cells[2]);
        wanted.push(format!(
            r#"{{"t_sys_ns":{},"clients":[{clients}]}}"#,
            cells[1]
        ));
    }
    let given: Vec<_> = given.iter().map(String::as_str).collect();
    assert!(!given.is_empty());
    assert_eq!(decisions("event", &given).unwrap(), wanted);
}

#[test]
fn two_alike_share_a_period_by_their_use() {
    let periods = "
        # 6000 ns by 3 : 1; the limit is 1500 + 6000.
        1 750 100, 2 250 100 | 1500 | 1 4500 false, 2 1500 false
        # 9000 and 3000: apart by exactly a period, so no client is throttled.
        1 750 100, 2 250 100 | 3000 | 1 9000 false, 2 3000 false
        # 13500 and 4500: beyond.
        1 750 100, 2 250 100 | 4500 | 1 13500 true, 2 4500 false
        # The throttled one uses nothing; the other gets the whole period and catches up.
        1 0 100, 2 1000 100 | 10500 | 1 13500 false, 2 10500 false
    ";
    check_event((1000, 5000), periods);
}

#[test]
fn weights_divide_and_the_lightest_sets_the_lead() {
    let periods = "
        # 3000 each; over 3: 1000; over 0.5: 6000. The lead is 6000 / 0.5.
        1 400 300, 2 400 50 | 1000 | 1 1000 false, 2 6000 false
        # 2000 and 12000: within 2000 + 12000.
        1 400 300, 2 400 50 | 2000 | 1 2000 false, 2 12000 false
        # 3000 and 18000: beyond 3000 + 12000.
        1 400 300, 2 400 50 | 3000 | 1 3000 false, 2 18000 true
    ";
    check_event((1000, 5000), periods);
}

#[test]
fn new_client_starts_at_the_time_of_the_system_and_so_does_one_that_returns() {
    let periods = "
        7 100 100 | 600 | 7 600 false
        # The new one starts at 600 and gets a quarter of 600.
        3 25 100, 7 75 100 | 750 | 3 750 false, 7 1050 false
        # 7 has gone.
        3 40 100 | 1350 | 3 1350 false
        # It is back, with nothing of what it was: 1350 + 300.
        3 50 100, 7 50 100 | 1650 | 3 1650 false, 7 1650 false
    ";
    check_event((100, 500), periods);
}

#[test]
fn idle_client_is_lifted_and_an_idle_gpu_stands_still() {
    let periods = "
        1 60 100, 2 0 100 | 600 | 1 600 false, 2 600 false
        1 0 100, 2 0 100 | 600 | 1 600 false, 2 600 false
        | 600 |
    ";
    check_event((100, 500), periods);
}

#[test]
fn unknown_names_are_skipped_and_the_order_of_clients_is_that_of_their_ids() {
    let line = r#"{"gpu":0,"t_poll_ns":100,"t_nonpoll_ns":0,"clients":[{"id":9,"pid":4,"busy_ns":50},{"id":2,"busy_ns":50,"weight":100,"runs":3}],"idle_ns":0}"#;
    let wanted = r#"{"t_sys_ns":50,"clients":[{"id":2,"vtime_ns":50,"throttled":false},{"id":9,"vtime_ns":50,"throttled":false}]}"#;
    assert_eq!(decisions("event", &[line]).unwrap(), [wanted]);
}

#[test]
fn times_beyond_64_bits_of_products_are_exact() {
    // 10 s polled and 50 s not: products of 10^20.
    let periods = "
        1 2500000000 100, 2 7500000000 100 | 15000000000 | 1 15000000000 false, 2 45000000000 false
    ";
    check_event((10_000_000_000, 50_000_000_000), periods);
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
