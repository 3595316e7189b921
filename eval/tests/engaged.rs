// SPDX-License-Identifier: GPL-2.0

//! Engaged scheduling in the simulator: what scenarios may say, and what becomes of clients.

#[path = "engaged/linger.rs"]
mod linger;

use loga_eval::outcome::GpuOutcome;
use loga_eval::run::run;
use loga_eval::scenario::{parse, Promise, Scenario};

/// The scenario that the documents show.
const EXAMPLE: &str = include_str!("../scenarios/reserve.toml");

const GOOD: &str = r#"length_ms = 1000
[policy]
name = "prio"
[[reserve]]
name = "bombs"
terms = { kind = "pe", capacity_us = 2500, period_us = 25000 }
[[client]]
name = "game"
prio = 30
sched = "ht"
reserve = { kind = "pe", capacity_us = 20000, period_us = 25000, soft = true }
deadline_us = 25000
[[client.phase]]
cpu_us = 4000
[[client.phase]]
cpu_us = 100
kernel_us = { uniform = [500, 1500] }
launch = "queued"
depth = 16
repeat = 16
[[client]]
name = "bomb"
count = 2
shares = "bombs"
[[client.phase]]
cpu_us = 100
kernel_us = { uniform = [4750, 5250] }
launch = "queued"
depth = 16
repeat = 1000
"#;

fn scenario(changes: &[&str]) -> Result<Scenario, String> {
    let changes: Vec<_> = changes.iter().map(|text| (*text).to_owned()).collect();
    parse("x.toml", GOOD, &changes).map_err(|error| error.to_string())
}

/// What the first GPU of a scenario gives.
fn gpu(text: &str) -> GpuOutcome {
    let scenario = parse("x.toml", text, &[]).unwrap();
    run(&scenario, 1, &mut None).unwrap().gpus.remove(0)
}

/// The message for the good scenario with a line replaced.
fn refused(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    parse("x.toml", &text, &[]).unwrap_err().to_string()
}

#[test]
fn scenario_is_read_as_it_is_written() {
    let scenario = scenario(&[]).unwrap();
    let game = &scenario.clients[0];
    assert_eq!(game.engaged.prio.get(), 30);
    assert_eq!(game.deadline.unwrap().get(), 25_000_000);
    assert_eq!(scenario.reserves[0].terms.capacity.get(), 2_500_000);
    let shared = scenario.clients[2].engaged.promise;
    assert_eq!(shared, Some(Promise::Shared(0)));
    let early = "kind = \"cbs\", longest_us = 500, deadline_us = 9000";
    let early = parse("x.toml", &GOOD.replacen("kind = \"pe\"", early, 1), &[]).unwrap();
    assert_eq!(early.reserves[0].terms.deadline.get(), 9_000_000);
}

#[test]
fn scenario_that_makes_no_sense_is_refused_with_its_place() {
    let cases = [
        (
            "prio = 30",
            "prio = 40",
            "x.toml:9:8: prio = 40 is out of range, want 0 to 39",
        ),
        (
            "sched = \"ht\"",
            "sched = \"rt\"",
            "x.toml:10:9: unknown variant `rt`",
        ),
        (
            "capacity_us = 2500",
            "capacity_us = 25001",
            "x.toml:6:9: capacity_us=25001 is out of range, want 10 to 25000",
        ),
        ("capacity_us = 2500", "capacity_us = -1", "x.toml:6:38: negative time -1"),
        (
            "period_us = 25000",
            "period_us = 999",
            "x.toml:6:9: period_us=999 is out of range",
        ),
        (
            "kind = \"pe\"",
            "kind = \"fifo\"",
            "x.toml:6:18: unknown variant `fifo`",
        ),
        (
            "kind = \"pe\"",
            "knid = \"pe\"",
            "x.toml:6:11: unknown field `knid`",
        ),
        (
            "capacity_us = 2500",
            "capacity_us = 2500, deadline_us = 5000",
            "x.toml:6:9: a deadline of a reserve that promises none: want kind cbs, not soft, with",
        ),
        (
            "kind = \"pe\"",
            "kind = \"cbs\", longest_us = 500, deadline_us = 2000",
            "x.toml:6:9: deadline_us=2000 is out of range, want 2500 to 25000",
        ),
        (
            "shares = \"bombs\"",
            "shares = \"bomb\"",
            "no reserve \"bomb\", want one of: bombs",
        ),
        (
            "shares = \"bombs\"",
            "shares = \"bombs\"\nreserve = { kind = \"pe\", capacity_us = 10, period_us = 1000 }",
            "reserve and shares, want one of them",
        ),
        (
            "[[client]]\nname = \"game\"",
            "[[reserve]]\nname = \"bombs\"\nterms = { kind = \"ae\", capacity_us = 10, period_us = 1000 }\n\
             [[client]]\nname = \"game\"",
            "a second reserve \"bombs\"",
        ),
    ];
    for (from, to, said) in cases {
        let refused = refused(from, to);
        assert!(refused.contains(said), "{to}: {refused}");
    }
}

#[test]
fn example_of_the_documents_keeps_the_game_fast() {
    let game = gpu(EXAMPLE).clients[0].got.clone();
    // Nine tenths of what it does alone; figure 8 of the documents says what the rest is.
    assert!(game.rounds.count > 450, "{}", game.rounds.count);
    assert!(game.latency.percentile(99).unwrap() < 28_000_000);
}

#[test]
fn shared_reserve_limits_all_its_clients_together() {
    let gpu = gpu(GOOD);
    let bombs: u64 = gpu.clients[1..].iter().map(|one| one.compute.run).sum();
    let pct = gpu.percent(bombs);
    assert!((9.0..11.0).contains(&pct), "{pct}");
    let game = &gpu.clients[0].got;
    assert!(game.rounds.count >= 45, "{}", game.rounds.count);
    assert!(game.missed < 5);
}

#[test]
fn missed_deadlines_are_counted_also_of_a_round_that_never_ends() {
    let text = GOOD.replacen("deadline_us = 25000", "deadline_us = 15000", 1);
    let all = gpu(&text).clients[0].got.clone();
    assert!(all.missed >= all.rounds.count);
    assert!(all.missed <= all.rounds.count + 1);
    let text = GOOD.replacen("name = \"prio\"", "name = \"hardware\"", 1);
    let text = text.replacen("cpu_us = 4000", "kernel_us = 5000000", 1);
    let none = gpu(&text).clients[0].got.clone();
    assert_eq!((none.rounds.count, none.missed), (0, 1));
}

#[test]
fn client_that_leaves_while_it_waits_gets_no_turn() {
    // The low one always has the engine for 50 ms; the high one waits with a second submission
    // when it goes.
    let text = r#"length_ms = 1000
[policy]
name = "prio"
[[client]]
name = "low"
prio = 1
[[client.phase]]
kernel_us = 50000
[[client]]
name = "high"
prio = 9
arrive_ms = 10
leave_ms = 75
[[client.phase]]
cpu_us = 100
kernel_us = 30000
launch = "queued"
depth = 8
repeat = 8
"#;
    let gpu = gpu(text);
    let (low, high) = (&gpu.clients[0], &gpu.clients[1]);
    assert_eq!(high.compute.commands, 1);
    // The rest is all of the low one's.
    assert!(low.compute.run >= 950_000_000 - 30_000_000 - 50_000_000);
}

#[test]
fn endless_command_holds_others_for_two_seconds_only_then_the_gpu_decides() {
    let text = r#"length_ms = 6000
[policy]
name = "prio"
[[client]]
name = "endless"
[[client.phase]]
kernel_us = 3500000
[[client]]
name = "other"
prio = 39
arrive_ms = 100
wait = "block"
[[client.phase]]
kernel_us = 1000
"#;
    let gpu = gpu(text);
    let other = &gpu.clients[1];
    // It came after 100 ms. The command cannot be stopped, but it is not LoGA that holds it then.
    let blocked = other.got.held;
    assert!(
        (1_890_000_000..1_920_000_000).contains(&blocked),
        "{blocked}"
    );
    assert!(other.compute.commands > 0);
}

#[test]
fn protected_client_is_never_stopped_and_the_others_use_its_pauses() {
    let text = r#"length_ms = 1000
[policy]
name = "prio"
[[client]]
name = "protected"
sched = "protected"
[[client.phase]]
cpu_us = 4000
[[client.phase]]
kernel_us = 6000
[[client]]
name = "other"
[[client.phase]]
kernel_us = 500
"#;
    let run = gpu(text);
    let (protected, other) = (&run.clients[0], &run.clients[1]);
    assert_eq!(protected.got.blocked, 0);
    // A command of the other may be in the way of each of its kernels.
    assert!(protected.got.rounds.longest <= 10_510_000);
    assert!(other.compute.commands > 550, "{}", other.compute.commands);
    let lingering = text.replacen("name = \"prio\"", "name = \"prio\"\nlinger_us = 5000", 1);
    let run = gpu(&lingering);
    assert_eq!(run.clients[0].got.rounds.count, 99);
    assert_eq!(run.clients[1].compute.commands, 8);
}

#[test]
fn fifty_processes_without_a_promise_take_no_more_from_one_with_it_than_one_does() {
    let text = |others: u32| {
        format!(
            r#"length_ms = 3000
[policy]
name = "edf"
[[client]]
name = "promised"
reserve = {{ kind = "cbs", capacity_us = 6000, period_us = 10000 }}
[[client.phase]]
kernel_us = 500
launch = "queued"
depth = 4
repeat = 1000
[[client]]
name = "other"
count = {others}
[[client.phase]]
kernel_us = 1000
launch = "queued"
depth = 4
repeat = 1000
"#
        )
    };
    let part = |others| {
        let gpu = gpu(&text(others));
        gpu.percent(gpu.clients[0].compute.run)
    };
    let (one, fifty) = (part(1), part(50));
    // Its reserve is charged until the ends are read.
    assert!(one > 57.5, "{one}");
    assert!((one - fifty).abs() < 0.5, "{one} and {fifty}");
}

#[test]
fn reserve_gets_its_part_beside_clients_of_higher_priority_without_one() {
    for dispatcher in ["prio", "edf"] {
        for (kind, soft) in [("pe", false), ("pe", true), ("ae", false), ("cbs", true)] {
            for kernel_us in [30, 100, 300] {
                let text = format!(
                    r#"length_ms = 5000
[policy]
name = "{dispatcher}"
[[client]]
name = "promised"
prio = 10
reserve = {{ kind = "{kind}", capacity_us = 10000, period_us = 100000, soft = {soft} }}
[[client.phase]]
kernel_us = 1000
launch = "queued"
depth = 4
repeat = 1000
[[client]]
name = "other"
prio = 30
count = 2
[[client.phase]]
kernel_us = {kernel_us}
launch = "queued"
depth = 4
repeat = 1000
"#
                );
                let gpu = gpu(&text);
                let part = gpu.percent(gpu.clients[0].compute.run);
                let name = format!("{dispatcher}, {kind}, soft {soft}, {kernel_us} us: {part:.2}");
                println!("{name}");
                // AE loses up to a half to what does not fit.
                let least = if kind == "ae" { 5.0 } else { 9.0 };
                assert!((least..=11.0).contains(&part), "{name}");
            }
        }
    }
}

#[test]
fn history_trained_with_short_commands_gains_no_time() {
    // AE loses up to a half to what does not fit.
    for (kind, least) in [("cbs", 9.0), ("ae", 5.0)] {
        let text = format!(
            r#"length_ms = 10000
[policy]
name = "edf"
[[client]]
name = "trains"
reserve = {{ kind = "{kind}", capacity_us = 1000, period_us = 10000 }}
[[client.phase]]
kernel_us = 50
repeat = 19
[[client.phase]]
kernel_us = 20000
[[client]]
name = "other"
[[client.phase]]
kernel_us = 500
launch = "queued"
depth = 4
repeat = 1000
"#
        );
        let gpu = gpu(&text);
        let pct = gpu.percent(gpu.clients[0].compute.run);
        // One command of 20 ms more than 10 %.
        assert!(pct <= 10.3, "{kind}: {pct}");
        assert!(pct >= least, "{kind}: {pct}");
    }
}

/// Two clients of one priority for 4 s, with kernels of 4 ms and of 1 ms: their parts in percent.
fn parts(policy: &str) -> [f64; 2] {
    let text = format!(
        r#"length_ms = 4000
[policy]
{policy}
[[client]]
name = "long"
weight = 100
[[client.phase]]
kernel_us = 4000
[[client]]
name = "short"
weight = 100
[[client.phase]]
kernel_us = 1000
"#
    );
    let gpu = gpu(&text);
    [0, 1].map(|client: usize| gpu.percent(gpu.clients[client].compute.run))
}

#[test]
fn dispatcher_divides_submissions_and_a_policy_beside_it_changes_that_little() {
    // In turns, the client of the longer submissions has more.
    let [long, short] = parts("name = \"prio\"");
    assert!(long > 70.0, "{long} {short}");
    assert!(short > 15.0, "{long} {short}");
    let none = parts("name = \"none\"\ndispatch = \"prio\"");
    assert!((none[0] - long).abs() < 1.0, "{none:?} {long}");
    // The policy takes a client that waits for its turn for one that wants less.
    let turns = parts("name = \"timeslice\"\ndispatch = \"prio\"");
    assert!((turns[0] - long).abs() < 3.0, "{turns:?} {long}");
}

#[test]
fn dispatcher_beside_another_scheduler_is_refused() {
    let refused = refused(
        "name = \"prio\"",
        "name = \"hardware\"\ndispatch = \"prio\"",
    );
    assert!(refused.contains("want a policy of LoGA"), "{refused}");
    let refused = self::refused("name = \"prio\"", "name = \"maxmin\"\ndispatch = \"fifo\"");
    assert!(
        refused.contains("\"fifo\": unknown dispatch, want one of"),
        "{refused}"
    );
}

#[test]
fn clients_of_a_reserve_with_two_modes_are_refused() {
    // The game is under HT, the bombs are not.
    let own = "reserve = { kind = \"pe\", capacity_us = 20000, period_us = 25000, soft = true }";
    let refused = refused(own, "shares = \"bombs\"");
    let said = "clients \"game\" and \"bomb-0\" of reserve \"bombs\" have two sched";
    assert!(refused.contains(said), "{refused}");
}

#[test]
fn copies_are_not_held_behind_kernels() {
    let text = r#"length_ms = 1000
[policy]
name = "prio"
[[client]]
name = "kernels"
prio = 39
[[client.phase]]
kernel_us = 100000
launch = "queued"
depth = 4
repeat = 10
[[client]]
name = "copies"
[[client.phase]]
copy_us = 100
"#;
    assert!(gpu(text).clients[1].copy.commands > 9000);
}

#[test]
fn completions_seen_at_a_tick_leave_the_engine_idle_in_between() {
    let text = r#"length_ms = 1000
[policy]
name = "prio"
tick_us = 1000
[[client]]
name = "one"
[[client.phase]]
kernel_us = 100
"#;
    let commands = gpu(text).clients[0].compute.commands;
    assert!((990..=1000).contains(&commands), "{commands}");
    let at_once = gpu(&text.replacen("tick_us = 1000", "", 1)).clients[0]
        .compute
        .commands;
    // Some 60 us for each.
    assert!(at_once > 5_500, "{at_once}");
}
