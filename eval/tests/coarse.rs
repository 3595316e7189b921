// SPDX-License-Identifier: GPL-2.0

//! Reserves while submissions are not decided on, under every policy, in the simulator.

use loga::policies::PolicyKind;
use loga_eval::report::{self, Gpu};
use loga_eval::run::run;
use loga_eval::scenario::parse;

/// Three hogs; the first is promised 200 ms in every 400 ms.
const HOGS: &str = "[[client]]\nname = \"promised\"\nRESERVE\n[[client.phase]]\nkernel_us = 500\n\
    launch = \"queued\"\ndepth = 4\nrepeat = 4\n\
    [[client]]\nname = \"other\"\ncount = 2\n[[client.phase]]\nkernel_us = 700\n\
    launch = \"queued\"\ndepth = 4\nrepeat = 4\n";
/// Frames of 8 ms of kernels every 50 ms, to be done in 30, beside four hogs.
const FRAMES: &str =
    "[[client]]\nname = \"frames\"\ncycle_us = 50000\ndeadline_us = 30000\nRESERVE\n\
    [[client.phase]]\nkernel_us = 500\nlaunch = \"queued\"\ndepth = 16\nrepeat = 16\n\
    [[client]]\nname = \"hog\"\ncount = 4\n[[client.phase]]\nkernel_us = 900\n\
    launch = \"queued\"\ndepth = 4\nrepeat = 4\n";

/// Short kernels with 60 % and long ones with 30 %, beside four hogs.
const UNLIKE: &str = "[[client]]\nname = \"short\"\nRESERVE\n[[client.phase]]\nkernel_us = SHORT\n\
    launch = \"queued\"\ndepth = 16\nrepeat = 16\n\
    [[client]]\nname = \"long\"\n\
    reserve = { kind = \"pe\", capacity_us = 120000, period_us = 400000 }\n\
    [[client.phase]]\nkernel_us = LONG\nlaunch = \"queued\"\ndepth = 4\nrepeat = 4\n\
    [[client]]\nname = \"hog\"\ncount = 4\n[[client.phase]]\nkernel_us = 700\n\
    launch = \"queued\"\ndepth = 4\nrepeat = 4\n";

/// The figures of the first GPU.
fn gpu(policy: &str, length_ms: u32, clients: &str, reserve: &str, seed: u64) -> Gpu {
    let clients = clients.replace("RESERVE", reserve);
    let text = format!("length_ms = {length_ms}\n[policy]\n{policy}\n{clients}");
    let scenario = parse("x.toml", &text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let outcome = run(&scenario, seed, &mut None).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut report = report::report("x.toml", &scenario, &[outcome]);
    report.runs.remove(0).gpus.remove(0)
}

fn reserve(capacity_us: u32, soft: bool) -> String {
    format!("reserve = {{ kind = \"pe\", capacity_us = {capacity_us}, period_us = 400000, soft = {soft} }}")
}

/// Length of a run, in milliseconds, and by how many points a reserve of 400 ms may be off in it: a
/// period at its begin, in which its budget grows, and one at its end.
const LENGTH_MS: u32 = 20_000;
const OFF: f64 = 100.0 * 2.0 * 400.0 / LENGTH_MS as f64;

#[test]
fn reserve_gets_its_part_under_every_policy() {
    for kind in PolicyKind::ALL {
        for (percent, capacity_us) in [(50.0, 200_000), (80.0, 320_000)] {
            let policy = format!("name = \"{}\"", kind.name());
            let gpu = gpu(&policy, LENGTH_MS, HOGS, &reserve(capacity_us, false), 1);
            let all: f64 = gpu.clients.iter().map(|one| one.gpu_ms).sum();
            let part = gpu.clients[0].gpu_ms / f64::from(LENGTH_MS) * 100.0;
            let name = kind.name();
            println!("{name}: {part:.2} of {percent}, all {all:.0} ms");
            assert!((part - percent).abs() <= OFF, "{name}: {part}");
            assert!(all > 0.9 * f64::from(LENGTH_MS), "{name}: {all}");
        }
    }
}

#[test]
fn reserves_of_unlike_kernels_get_their_parts() {
    for kind in PolicyKind::ALL {
        for (short, long) in [(100, 5_000), (60, 8_000), (500, 500)] {
            let policy = format!("name = \"{}\"", kind.name());
            let clients = UNLIKE
                .replace("SHORT", &short.to_string())
                .replace("LONG", &long.to_string());
            let gpu = gpu(&policy, 2 * LENGTH_MS, &clients, &reserve(240_000, true), 1);
            let part = |at: usize| gpu.clients[at].gpu_ms / f64::from(2 * LENGTH_MS) * 100.0;
            let name = kind.name();
            println!(
                "{name}, {short} and {long} us: {:.2} of 60, {:.2} of 30",
                part(0),
                part(1)
            );
            // A soft one has its part of the rest besides.
            assert!(part(0) >= 60.0 - OFF / 2.0, "{name}: {}", part(0));
            assert!((part(1) - 30.0).abs() <= OFF / 2.0, "{name}: {}", part(1));
        }
    }
}
#[test]
fn frames_with_a_reserve_come_before_hogs() {
    for seed in 1..=3 {
        let late = |reserve: &str| {
            let gpu = gpu("name = \"maxmin\"", LENGTH_MS, FRAMES, reserve, seed);
            let own = &gpu.clients[0];
            let (rounds, missed) = (own.rounds, own.missed.expect("a deadline"));
            let mean = own.turnaround_ms.expect("rounds");
            let others: f64 = gpu.clients[1..].iter().map(|one| one.gpu_pct).sum();
            println!("{reserve}: {missed} of {rounds} late, {mean:.1} ms, others {others:.1} %");
            (missed as f64 / rounds as f64, others)
        };
        // As one of five it would need the GPU for 40 ms. Others are held back for whole periods of the
        // policy, for which the reserve pays: it is for more than the frames use.
        let ((with, beside), (without, _)) = (late(&reserve(320_000, true)), late(""));
        assert!(without > 0.75, "{without}");
        assert!(with < without / 2.0, "{with}");
        // The rest of the time is theirs, less what the frames take of it.
        assert!(beside > 20.0 * 0.8 - OFF, "{beside}");
    }
}

#[test]
fn shared_reserve_without_dispatch_is_refused() {
    let text = "length_ms = 10\n[policy]\nname = \"maxmin\"\n[[reserve]]\nname = \"both\"\n\
        terms = { kind = \"pe\", capacity_us = 1000, period_us = 400000 }\n\
        [[client]]\nname = \"a\"\nshares = \"both\"\n[[client.phase]]\nkernel_us = 500\n";
    let error = parse("x.toml", text, &[]).expect_err("it shares");
    assert!(
        error.to_string().contains("shares without dispatch"),
        "{error}"
    );
    assert!(parse(
        "x.toml",
        &text.replace("[policy]", "[policy]\ndispatch = \"edf\""),
        &[]
    )
    .is_ok());
}
