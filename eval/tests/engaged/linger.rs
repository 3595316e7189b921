// SPDX-License-Identifier: GPL-2.0

//! For how long the engine is kept free after work of a protected client.

use super::gpu;

/// A protected client that computes for a while after each pause, beside one with kernels of 3 ms,
/// for 2 s: rounds of the first, and kernels of the other.
fn beside_pauses(pause_us: u32, kernel_us: u32, linger: &str) -> (u64, u64) {
    let text = format!(
        r#"length_ms = 2000
[policy]
name = "prio"
{linger}
[[client]]
name = "protected"
sched = "protected"
[[client.phase]]
cpu_us = {pause_us}
[[client.phase]]
kernel_us = {kernel_us}
[[client]]
name = "other"
[[client.phase]]
kernel_us = 3000
"#
    );
    let run = gpu(&text);
    (
        run.clients[0].got.rounds.count,
        run.clients[1].compute.commands,
    )
}

#[test]
fn linger_that_adapts_keeps_short_pauses_free_and_gives_long_ones_away() {
    let lingers = [
        "",
        "linger_us = 5000",
        "linger_us = 5000\nlinger_adapts = true",
    ];
    // Such that no pause comes a linger after another one.
    let [none, set, adapts] = lingers.map(|linger| beside_pauses(130, 900, linger));
    println!("short pauses: {none:?}, {set:?}, {adapts:?}");
    assert!(2 * none.0 < set.0);
    assert!(adapts.0 * 100 >= set.0 * 99);
    let [none, set, adapts] = lingers.map(|linger| beside_pauses(12_000, 1000, linger));
    println!("long pauses: {none:?}, {set:?}, {adapts:?}");
    assert!(set.1 * 10 < none.1 * 8);
    assert!(adapts.1 * 100 >= none.1 * 93);
    assert!(adapts.0 * 100 >= none.0 * 95);
}
