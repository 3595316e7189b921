// SPDX-License-Identifier: GPL-2.0

//! GPUs whose programs share one context, from scenario files.

use loga_eval::run;
use loga_eval::scenario::{parse, Kind, Scenario};

/// Two clients that always want the GPU, with kernels that use these parts of it.
fn two(packed: bool, uses: &str) -> Scenario {
    let client = |name: &str| {
        format!("[[client]]\nname = \"{name}\"\n{uses}\n[[client.phase]]\nkernel_us = 1000\n")
    };
    let (one, other) = (client("one"), client("other"));
    let head = "length_ms = 1000\n[policy]\nname = \"hardware\"\n[[gpu]]";
    let text = format!("{head}\npacked = {packed}\n{one}{other}");
    parse("x.toml", &text, &[]).unwrap()
}

/// What each client's kernels take alone, in percent of the time, and the idle time of the GPU.
fn used_pct(scenario: &Scenario) -> [f64; 3] {
    let outcome = run::run(scenario, 1, &mut None).unwrap();
    let gpu = &outcome.gpus[0];
    let used = [0, 1].map(|at: usize| gpu.percent(gpu.clients[at].compute.run));
    [used[0], used[1], gpu.percent(gpu.idle)]
}

fn near(of: [f64; 3], to: [f64; 3]) -> bool {
    of.iter().zip(to).all(|(of, to)| (of - to).abs() < 0.2)
}

#[test]
fn kernels_share_what_they_use_and_take_turns_without_one_context() {
    let turns = used_pct(&two(false, "fill_pct = 60"));
    assert!(near(turns, [50.0, 50.0, 0.0]), "{turns:?}");
    // Half of the compute units are five sixths of what each uses.
    let fill = used_pct(&two(true, "fill_pct = 60"));
    assert!(near(fill, [83.3, 83.3, 0.0]), "{fill:?}");
    let memory = used_pct(&two(true, "fill_pct = 10\nbandwidth_pct = 80"));
    assert!(near(memory, [62.5, 62.5, 0.0]), "{memory:?}");
    let whole = used_pct(&two(true, ""));
    assert!(near(whole, [50.0, 50.0, 0.0]), "{whole:?}");
}

#[test]
fn loga_on_a_packed_gpu_does_not_run() {
    let mut scenario = two(true, "");
    scenario.policy.kind = Kind::by_name("maxmin").unwrap();
    let error = run::run(&scenario, 1, &mut None).unwrap_err().to_string();
    assert!(error.starts_with("a packed GPU with policy maxmin, want one of hardware"));
}
