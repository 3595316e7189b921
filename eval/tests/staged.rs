// SPDX-License-Identifier: GPL-2.0

//! Policies that work in stages, and those with waits as input, in the simulator.

#[path = "common/paper.rs"]
mod paper;

use loga_eval::report::{self, Gpu};
use loga_eval::run::run;

/// Nothing costs anything.
const FREE: &str =
    "[costs]\nread_us = 0\nscan_us = 0\nrevoke_us = 0\nfault_us = 0\nwakeup_us = 0\n";
/// One client that always has work and ten that hardly have any.
const LIGHT: &str = "[[client]]\nname = \"full\"\n[[client.phase]]\nkernel_us = 500\n\
    [[client]]\nname = \"light\"\ncount = 10\n[[client.phase]]\nkernel_us = 10\n\
    [[client.phase]]\ncpu_us = { uniform = [900, 1100] }\n";
/// Two clients that always have work.
const EQUALS: &str = "[[client]]\nname = \"long\"\n[[client.phase]]\nkernel_us = 900\n\
    [[client]]\nname = \"short\"\n[[client.phase]]\nkernel_us = 100\n";

/// Three clients with a load of a fifth each.
const DEMO_LIGHT: &str = "[[client]]\nname = \"light\"\ncount = 3\n[[client.phase]]\n\
    kernel_us = 200\n[[client.phase]]\ncpu_us = 800\n";

/// The figures of the first GPU under a policy.
fn gpu(policy: &str, length_ms: u32, rest: &str) -> Gpu {
    let text = format!("length_ms = {length_ms}\n[policy]\n{policy}\n{rest}");
    let scenario = paper::scenario(&text);
    let outcome = run(&scenario, 1, &mut None).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut report = report::report("x.toml", &scenario, &[outcome]);
    report.runs.remove(0).gpus.remove(0)
}

#[test]
fn accounting_of_sampling_idles_the_gpu_and_that_of_event_does_not() {
    let kernels = |policy: &str| gpu(policy, 4000, LIGHT).clients[0].kernels as f64;
    let none = kernels("name = \"none\"\nenforce = false");
    let event = kernels("name = \"event\"\nenforce = false");
    let sampling = kernels("name = \"sampling\"\nenforce = false");
    assert_eq!(none, event);
    // A sixth of the time all clients but one are stopped, and that one is the full client once in
    // eleven turns: it loses 10/11 of a sixth, and a little to drains.
    assert!(
        (0.80..0.87).contains(&(sampling / none)),
        "{sampling} {none}"
    );
}

#[test]
fn sampling_that_only_accounts_throttles_no_client_in_free_runs() {
    // The run itself fails if it does: that is an oracle. With enforcement, it does.
    let accounts = gpu("name = \"sampling\"\nenforce = false", 4000, EQUALS);
    let enforces = gpu("name = \"sampling\"", 4000, EQUALS);
    let throttled = |gpu: &Gpu| gpu.clients[0].throttled_ms;
    assert!(
        throttled(&enforces) > 1.5 * throttled(&accounts),
        "{} {}",
        throttled(&enforces),
        throttled(&accounts)
    );
    // Command lengths 900 and 100: by average command the first has had nine tenths.
    assert!(
        enforces.clients[0].gpu_ms
            < 0.6 * (enforces.clients[0].gpu_ms + enforces.clients[1].gpu_ms)
    );
}

#[test]
fn timeslices_of_equals_are_equal() {
    for policy in [
        "timeslice",
        "timeslice-eng",
        "credit",
        "credit-slo",
        "augc",
        "cosched",
    ] {
        let policy = format!("name = \"{policy}\"");
        let gpu = gpu(&policy, 6000, &format!("{FREE}{EQUALS}"));
        // By turns of commands, the first would have nine tenths. A client that drains fast
        // is charged up to the scan that sees it all the same.
        let part = gpu.clients[0].gpu_ms / (gpu.clients[0].gpu_ms + gpu.clients[1].gpu_ms);
        assert!((part - 0.5).abs() < 0.02, "{policy}: {part}");
        assert!(
            gpu.utilisation_pct > 90.0,
            "{policy}: {}",
            gpu.utilisation_pct
        );
    }
}

#[test]
fn scan_costs_time_for_each_channel() {
    let cpu = |scan_us: u32| {
        let costs = format!("[costs]\nscan_us = {scan_us}\nrevoke_us = 0\nwakeup_us = 0\n");
        let gpu = gpu(
            "name = \"timeslice-eng\"",
            2000,
            &format!("{costs}{EQUALS}"),
        );
        (gpu.loga_cpu_ms, gpu.scans as f64)
    };
    let ((cheap, _), (dear, scans)) = (cpu(1), cpu(20));
    // 24 channels. Scans at a high price come a little later, so they are fewer.
    let expected = scans * 24.0 * 0.019;
    assert!(scans > 500.0, "{scans}");
    assert!(
        ((dear - cheap) / expected - 1.0).abs() < 0.15,
        "{cheap} {dear} {expected}"
    );
}

#[test]
fn submissions_of_a_watched_client_fault_if_asked_for() {
    let faults = |trap: bool| {
        let policy = format!("name = \"sampling\"\nenforce = false\ntrap = {trap}");
        gpu(&policy, 2000, LIGHT).faults
    };
    // There are two rounds of turns, each with 24 commands of the first and 12 of each other.
    assert!(
        faults(true) > faults(false) + 200,
        "{} {}",
        faults(true),
        faults(false)
    );
}

#[test]
fn maxmin_gives_away_what_who_wants_little_does_not_use() {
    let demo = "[[client]]\nname = \"hog\"\n[[client.phase]]\nkernel_us = 1000\n\
        [[client]]\nname = \"light\"\ncount = 3\n[[client.phase]]\nkernel_us = 200\n\
        [[client.phase]]\ncpu_us = 800\n";
    let (event, maxmin) = (gpu("", 5000, demo), gpu("name = \"maxmin\"", 5000, demo));
    assert!(
        maxmin.utilisation_pct > event.utilisation_pct + 5.0,
        "{maxmin:?}"
    );
    assert!(maxmin.clients[0].gpu_ms > 1.3 * event.clients[0].gpu_ms);
}

#[test]
fn copies_are_no_commands_to_a_scan() {
    let app = |copy: &str| {
        format!("[[client]]\nname = \"app\"\n[[client.phase]]\n{copy}_us = 9000\nkernel_us = 100\n{DEMO_LIGHT}")
    };
    let throttled = |copy| gpu("name = \"sampling\"", 4000, &app(copy)).clients[0].rounds as f64;
    // A copy of 9 ms is worth as little to it as 9 ms of a CPU.
    assert!(
        (throttled("copy") / throttled("cpu") - 1.0).abs() < 0.1,
        "{} {}",
        throttled("copy"),
        throttled("cpu")
    );
}
