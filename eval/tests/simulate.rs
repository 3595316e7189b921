// SPDX-License-Identifier: GPL-2.0

//! What the simulator gives, against figures worked out by hand and against the reference.

#[path = "simulate/baselines.rs"]
mod baselines;
#[path = "common/paper.rs"]
mod paper;

use loga::engine::Config;
use loga::policies::PolicyKind;
use loga::units::Ns;
use loga_eval::mixes;
use loga_eval::oracle;
use loga_eval::outcome::Outcome;
use loga_eval::reference;
use loga_eval::report::{self, Gpu};
use loga_eval::run::run;

/// Nothing costs anything.
const FREE: &str = "[costs]\nread_us = 0\nrevoke_us = 0\nfault_us = 0\nwakeup_us = 0\n";

fn outcome(text: &str) -> Outcome {
    let scenario = paper::scenario(text);
    run(&scenario, 1, &mut None).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The figures of the first GPU.
fn gpu(text: &str) -> Gpu {
    let scenario = paper::scenario(text);
    let outcomes = [outcome(text)];
    let mut report = report::report("x.toml", &scenario, &outcomes);
    report.runs.remove(0).gpus.remove(0)
}

fn client(name: &str, more: &str, phase: &str) -> String {
    format!("[[client]]\nname = \"{name}\"\n{more}\n[[client.phase]]\n{phase}\n")
}

#[test]
fn two_synchronous_clients_take_turns() {
    // 300 us and 100 us in turn: 100 rounds of 400 us, and 300 us of the next.
    let text = format!(
        "length_ms = 40.3\n[policy]\nname = \"hardware\"\n{}{}",
        client("a", "", "kernel_us = 300"),
        client("b", "", "kernel_us = 100"),
    );
    let gpu = gpu(&text);
    assert_eq!((gpu.clients[0].kernels, gpu.clients[1].kernels), (100, 100));
    assert_eq!((gpu.clients[0].gpu_ms, gpu.clients[1].gpu_ms), (30.3, 10.0));
    assert_eq!(gpu.idle_pct, 0.0);
    assert_eq!(gpu.clients[1].turnaround_ms, Some(0.4));
}

#[test]
fn synchronous_client_leaves_the_gpu_idle_while_it_computes() {
    let text = format!(
        "length_ms = 100\n[policy]\nname = \"hardware\"\n{}",
        client("a", "", "kernel_us = 200\n[[client.phase]]\ncpu_us = 800")
    );
    let gpu = gpu(&text);
    assert!((gpu.utilisation_pct - 20.0).abs() < 1e-9, "{gpu:?}");
    assert_eq!(gpu.clients[0].rounds, 99);
    assert_eq!(gpu.clients[0].kernels, 100);
}

#[test]
fn queued_kernels_run_while_the_client_computes() {
    // The CPU part of 50 us hides behind kernels of 100 us.
    let phase = "cpu_us = 50\nkernel_us = 100\nlaunch = \"queued\"\ndepth = 4\nrepeat = 1000";
    let text = format!(
        "length_ms = 90.06\n[policy]\nname = \"hardware\"\n{}",
        client("a", "", phase)
    );
    assert_eq!(gpu(&text).clients[0].kernels, 900);
    let text = text.replace("launch = \"queued\"\ndepth = 4\n", "");
    assert_eq!(gpu(&text).clients[0].kernels, 600);
}

#[test]
fn queued_client_keeps_the_engine_for_its_timeslice() {
    // 1 ms of queued kernels for each 100 us kernel of the other.
    let queued = "kernel_us = 100\nlaunch = \"queued\"\ndepth = 50\nrepeat = 1000000";
    let text = format!(
        "length_ms = 1100\n[policy]\nname = \"hardware\"\n[[gpu]]\ntimeslice_us = 1000\n{}{}",
        client("queued", "", queued),
        client("single", "", "kernel_us = 100"),
    );
    let slices = gpu(&text);
    assert!(
        (slices.clients[0].gpu_pct - 1000.0 / 11.0).abs() < 0.5,
        "{slices:?}"
    );
    let turns = gpu(&text.replace("timeslice_us = 1000", "timeslice_us = 0"));
    assert!((turns.clients[0].gpu_pct - 50.0).abs() < 0.5, "{turns:?}");
}

#[test]
fn copies_and_kernels_of_two_clients_overlap() {
    let text = format!(
        "length_ms = 100.01\n[policy]\nname = \"hardware\"\n{}{}",
        client("a", "", "copy_us = 100"),
        client("b", "", "kernel_us = 100"),
    );
    let gpu = gpu(&text);
    assert_eq!(gpu.idle_pct, 0.0);
    assert!((gpu.copy_pct - 100.0).abs() < 1e-9);
    assert_eq!(
        (gpu.clients[0].copies, gpu.clients[1].kernels),
        (1000, 1000)
    );
}

#[test]
fn phase_with_all_parts_does_them_in_order() {
    let phase = "cpu_us = 10\ncopy_us = 20\nkernel_us = 30\nrepeat = 5";
    let text = format!(
        "length_ms = 100\n[policy]\nname = \"hardware\"\n{}",
        client("a", "repeat = 3", phase)
    );
    let gpu = gpu(&text);
    assert_eq!(gpu.clients[0].total_ms, Some(0.9));
    assert_eq!(gpu.clients[0].turnaround_ms, Some(0.3));
    assert_eq!((gpu.clients[0].copies, gpu.clients[0].kernels), (15, 15));
    // No client has anything left to do: the run is over.
    assert_eq!(gpu.length_ms, 0.9);
}

#[test]
fn cycle_starts_a_round_at_its_beat() {
    let text = format!(
        "length_ms = 100\n[policy]\nname = \"hardware\"\n{}",
        client("a", "cycle_us = 1000", "kernel_us = 300")
    );
    let gpu = gpu(&text);
    assert_eq!(gpu.clients[0].kernels, 100);
    assert!((gpu.utilisation_pct - 30.0).abs() < 1e-9);
}

#[test]
fn clients_come_and_go_and_end_the_run() {
    let text = format!(
        "length_ms = 100\nuntil = \"b\"\n[policy]\nname = \"hardware\"\n{}{}",
        client("a", "arrive_ms = 10\nleave_ms = 30", "kernel_us = 1000"),
        client("b", "repeat = 50", "kernel_us = 1000"),
    );
    let gpu = gpu(&text);
    // 10 alone, then in turn from 10 to 30, then what was submitted at 29, then alone again.
    assert_eq!(gpu.clients[0].kernels, 11);
    assert_eq!(gpu.length_ms, 61.0);
    assert_eq!(gpu.clients[1].total_ms, Some(61.0));
}

#[test]
fn gpus_share_nothing() {
    let text = format!(
        "length_ms = 100\n[policy]\nname = \"hardware\"\n[[gpu]]\n[[gpu]]\n{}{}",
        client("a", "", "kernel_us = 100"),
        client("b", "gpu = 1", "kernel_us = 100"),
    );
    let outcome = outcome(&text);
    for gpu in &outcome.gpus {
        assert_eq!(gpu.clients[0].compute.run, 100_000_000);
    }
}

#[test]
fn switches_cost_what_they_are_said_to() {
    // 1300 us of work and four switches of 5 us, as in the reference.
    let text = format!(
        "length_ms = 2000\n[policy]\nname = \"hardware\"\n[costs]\nswitch_us = 5\n{}{}",
        client("a", "", "kernel_us = 1000"),
        client("b", "count = 3", "kernel_us = 100"),
    );
    let gpu = gpu(&text);
    let wanted = 100.0 * 1300.0 / 1320.0;
    assert!((gpu.utilisation_pct - wanted).abs() < 0.1, "{gpu:?}");
    assert!((gpu.switch_pct - (100.0 - wanted)).abs() < 0.1, "{gpu:?}");
}

#[test]
fn scenario_without_costs_is_the_ideal_gpu() {
    for mix in mixes::all() {
        for policy in [PolicyKind::None, PolicyKind::Event] {
            let seconds = 10;
            let config = Config {
                enforce: true,
                policy,
                ..Config::paper()
            };
            let settings = reference::Settings {
                seconds,
                ..reference::Settings::default()
            };
            let reference = reference::row(&mix, config, &settings).unwrap();
            let mut text = format!(
                "length_ms = {}\n[policy]\nname = \"{}\"\n{FREE}",
                1000 * seconds,
                policy.name()
            );
            for (number, load) in mix.loads.iter().enumerate() {
                let weight = format!("weight = {}", load.weight.get());
                let us = |time: Ns| time.get() / 1000;
                let phase = format!(
                    "kernel_us = {}\n[[client.phase]]\ncpu_us = {}",
                    us(load.kernel),
                    us(load.sleep)
                );
                text += &client(&format!("c{number}"), &weight, &phase);
            }
            let gpu = gpu(&text);
            for (client, wanted) in gpu.clients.iter().zip(&reference.clients) {
                // CAST: a few seconds.
                let wanted = wanted.share_pct / 100.0 * 1000.0 * seconds as f64;
                let off = (client.gpu_ms - wanted).abs();
                assert!(off <= 1.0, "{}, {policy:?}: {wanted} {client:?}", mix.name);
            }
        }
    }
}

#[test]
fn estimates_agree_with_the_truth_and_cost_what_polling_costs() {
    let text = format!(
        "length_ms = 60000\n{}{}",
        client("a", "", "kernel_us = 1000"),
        client("b", "count = 3", "kernel_us = 100"),
    );
    let gpu = gpu(&text);
    assert!(gpu.accounting_error_pct.unwrap() < 2.0, "{gpu:?}");
    // One part in six is polled.
    assert!((gpu.loga_cpu_pct - 100.0 / 6.0).abs() < 0.5, "{gpu:?}");
    assert!(gpu.jain.unwrap() > 0.99, "{gpu:?}");
}

#[test]
fn polling_all_the_time_measures_to_the_length_of_a_read() {
    // Changes that fall onto polls are seen at once; others up to a read later, at both ends.
    let text = format!(
        "length_ms = 10000\n[policy]\nname = \"none\"\npoll_always = true\n{}",
        client(
            "a",
            "",
            "kernel_us = 250.3\n[[client.phase]]\ncpu_us = 0.2\nrepeat = 1"
        )
    );
    let exact = gpu(&text.replace("[policy]", "[costs]\nread_us = 0\nwakeup_us = 0\n[policy]"));
    assert!(exact.accounting_error_pct.unwrap() < 1e-3, "{exact:?}");
    let seen = gpu(&text);
    let error = seen.accounting_error_pct.unwrap();
    assert!(error > 1e-4, "{seen:?}");
    assert!(error < 0.5, "{seen:?}");
}

#[test]
fn throttled_client_is_slowed_by_fault_and_wakeup() {
    let mixed = format!(
        "{}{}",
        client("a", "", "kernel_us = 1000"),
        client("b", "", "kernel_us = 100")
    );
    let cheap = gpu(&format!("length_ms = 5000\n{FREE}{mixed}"));
    let dear = FREE.replace("fault_us = 0", "fault_us = 1000");
    let dear = gpu(&format!("length_ms = 5000\n{dear}{mixed}"));
    assert!(cheap.throttles > 5);
    assert!(dear.throttles > 5);
    assert_eq!(cheap.loga_in_clients_ms, 0.0);
    // Each fault takes a millisecond of a client.
    assert_eq!(dear.loga_in_clients_ms, dear.faults as f64);
    assert!(dear.utilisation_pct <= cheap.utilisation_pct);
}

#[test]
fn no_client_is_throttled_without_enforcement() {
    let text = format!(
        "length_ms = 2000\n[policy]\nenforce = false\n{}{}",
        client("a", "", "kernel_us = 1000"),
        client("b", "", "kernel_us = 100"),
    );
    let gpu = gpu(&text);
    assert_eq!((gpu.throttles, gpu.faults), (0, 0));
    assert!((gpu.clients[0].gpu_pct - 90.9).abs() < 0.1);
}

#[test]
fn group_counts_as_one() {
    let both = |by: &str| {
        gpu(&format!(
            "length_ms = 20000\n[policy]\nby = \"{by}\"\n{}{}",
            client("a", "group = \"x\"\ncount = 3", "kernel_us = 500"),
            client("b", "", "kernel_us = 500"),
        ))
    };
    assert!((both("client").clients[3].gpu_pct - 25.0).abs() < 1.0);
    assert!((both("group").clients[3].gpu_pct - 50.0).abs() < 1.0);
}

#[test]
fn gpu_is_divided_by_weight_between_what_the_scenario_says() {
    let shares = |by: &str| {
        let gpu = gpu(&format!(
            "length_ms = 20000\n[policy]\nby = \"{by}\"\n{}{}{}",
            client("a", "user = \"x\"\ncgroup = \"p\"", "kernel_us = 500"),
            client("b", "user = \"x\"\ncgroup = \"q\"", "kernel_us = 500"),
            client("c", "user = \"y\"\ncgroup = \"q\"", "kernel_us = 500"),
        ));
        gpu.clients
            .iter()
            .map(|client| client.gpu_pct)
            .collect::<Vec<_>>()
    };
    for (by, wanted) in [
        ("client", [33.3, 33.3, 33.3]),
        ("user", [25.0, 25.0, 50.0]),
        ("cgroup", [50.0, 25.0, 25.0]),
    ] {
        let shares = shares(by);
        for (share, wanted) in shares.iter().zip(wanted) {
            assert!((share - wanted).abs() < 1.0, "{by}: {shares:?}");
        }
    }
}

#[test]
fn same_seed_gives_the_same_bytes_and_another_does_not() {
    let text = format!(
        "length_ms = 500\n{}{}",
        client("a", "", "kernel_us = { exponential = 300 }"),
        client(
            "b",
            "",
            "kernel_us = { normal = [100, 20] }\ncpu_us = { uniform = [0, 50] }"
        ),
    );
    let scenario = paper::scenario(&text);
    let json = |seed| {
        let outcomes = [run(&scenario, seed, &mut None).unwrap()];
        serde_json::to_string(&report::report("x.toml", &scenario, &outcomes)).unwrap()
    };
    assert_eq!(json(1), json(1));
    assert_ne!(
        json(1).replace("\"seed\":1", ""),
        json(2).replace("\"seed\":2", "")
    );
}

#[test]
fn oracle_sees_time_that_is_missing_or_too_much() {
    let text = format!("length_ms = 10\n{}", client("a", "", "kernel_us = 100"));
    let good = outcome(&text).gpus.remove(0);
    assert_eq!(oracle::check(&good), Vec::<String>::new());
    let mut lost = good.clone();
    lost.clients[0].compute.run -= 1;
    assert!(oracle::check(&lost)[0].starts_with("conservation: "));
    let mut long = good.clone();
    long.clients[0].booked.throttled = long.length + 1;
    assert!(oracle::check(&long)[0].contains("was throttled"));
    let mut told = good;
    told.ledger.violations.push("virtual time: fell".to_owned());
    assert_eq!(oracle::check(&told), ["virtual time: fell"]);
}

/// Two hogs of 1000 and 100 us under `event`, with more settings of the policy and of the first.
fn two_hogs(policy: &str, first: &str) -> Gpu {
    gpu(&format!(
        "length_ms = 20000\n[policy]\nname = \"event\"\nrandomize = true\nscale = \"active\"\n\
         {policy}\n{FREE}{}{}",
        client("a", first, "kernel_us = 1000"),
        client("b", "", "kernel_us = 100"),
    ))
}

#[test]
fn sparse_accounting_divides_the_gpu_too_and_costs_less() {
    let (burst, sparse) = (two_hogs("", ""), two_hogs("accounting = \"sparse\"", ""));
    for gpu in [&burst, &sparse] {
        for client in &gpu.clients {
            assert!((client.gpu_ms / 200.0 - 50.0).abs() < 1.0, "{gpu:?}");
        }
    }
    assert!(sparse.accounting_error_pct.unwrap() < 2.0, "{sparse:?}");
    assert!(sparse.loga_cpu_pct < 2.0);
    assert!(burst.loga_cpu_pct > 10.0);
}

#[test]
fn limit_and_idle_class_of_a_scenario_are_kept() {
    let limited = two_hogs("", "limit_pct = 20");
    let share = limited.clients[0].gpu_ms / 200.0;
    assert!((18.0..=21.0).contains(&share), "{limited:?}");
    let idle = two_hogs("", "class = \"idle\"");
    assert!(idle.clients[0].gpu_ms / 200.0 < 1.0, "{idle:?}");
}

#[test]
fn client_that_is_away_leaves_the_gpu_to_the_other() {
    let away = two_hogs("", "away_ms = [0, 10000]");
    let share = away.clients[0].gpu_ms / 200.0;
    // Half of the second half.
    assert!((24.0..=26.0).contains(&share), "{away:?}");
}
