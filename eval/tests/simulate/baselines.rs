// SPDX-License-Identifier: GPL-2.0

//! The baselines: what the GPU is without LoGA.

use super::*;

#[test]
fn per_command_scheduling_pays_for_each_command_and_shares_exactly() {
    let text = format!(
        "length_ms = 1000\n[policy]\nname = \"per-command\"\nsubmit_us = 0\ninterrupt_us = 10\n{}{}",
        client("a", "", "kernel_us = 90\nlaunch = \"queued\"\ndepth = 8\nrepeat = 1000000"),
        client("b", "", "kernel_us = 40\nlaunch = \"queued\"\ndepth = 8\nrepeat = 1000000"),
    );
    let gpu = gpu(&text);
    let (a, b) = (gpu.clients[0].gpu_ms, gpu.clients[1].gpu_ms);
    assert!((a - b).abs() < 0.2, "{gpu:?}");
    // 90 + 10 for a, and 9/4 times 40 + 10 for b.
    let wanted = 100.0 * 180.0 / (100.0 + 9.0 / 4.0 * 50.0);
    assert!((gpu.utilisation_pct - wanted).abs() < 0.1, "{gpu:?}");
}

#[test]
fn exclusive_quanta_go_round_and_are_given_up_when_idle() {
    let policy = "length_ms = 4000\n[policy]\nname = \"exclusive\"\nquantum_ms = 1000\n\
                  idle_release_ms = 100\n";
    let gpu_a = gpu(&format!(
        "{policy}{FREE}{}{}",
        client("a", "", "kernel_us = 1000"),
        client("b", "", "kernel_us = 10"),
    ));
    assert!((gpu_a.clients[0].gpu_ms - 2000.0).abs() < 5.0, "{gpu_a:?}");
    assert!(
        (gpu_a.clients[1].throttled_ms - 2000.0).abs() < 5.0,
        "{gpu_a:?}"
    );
    // 50 ms of work, then a pause of a second: given up after 100 ms.
    let gpu_b = gpu(&format!(
        "{policy}{FREE}{}{}",
        client(
            "a",
            "",
            "kernel_us = 50000\n[[client.phase]]\ncpu_us = 1000000"
        ),
        client("b", "", "kernel_us = 1000"),
    ));
    assert!(gpu_b.clients[1].gpu_ms > 3000.0, "{gpu_b:?}");
}

#[test]
fn token_bucket_limits_to_the_weight_and_not_who_is_alone() {
    let text = format!(
        "length_ms = 30000\n[policy]\nname = \"token-bucket\"\n{}{}",
        client("a", "weight = 300", "kernel_us = 500"),
        client("b", "weight = 100", "kernel_us = 500"),
    );
    let both = gpu(&text);
    assert!((both.clients[1].gpu_pct - 25.0).abs() < 3.0, "{both:?}");
    let alone = |off: bool| {
        gpu(&format!(
            "length_ms = 30000\n[policy]\nname = \"token-bucket\"\noff_when_alone = {off}\n{}",
            client("a", "", "kernel_us = 500")
        ))
    };
    assert_eq!(alone(true).utilisation_pct, 100.0);
    // No client gets the unused time of another: half of it is the limit of two.
    let idle = client("b", "", "cpu_us = 1000\n[[client.phase]]\nkernel_us = 1");
    let limited = gpu(&format!(
        "length_ms = 30000\n[policy]\nname = \"token-bucket\"\n{}{idle}",
        client("a", "", "kernel_us = 500")
    ));
    assert!(
        (limited.clients[0].gpu_pct - 50.0).abs() < 5.0,
        "{limited:?}"
    );
}
