// SPDX-License-Identifier: GPL-2.0

//! Clients that share a processor, against figures worked out by hand.

#[path = "common/paper.rs"]
mod paper;

use loga_eval::run::run;

/// Kernels that two clients with calls of 400 us on a processor and 600 us on the GPU complete in
/// 600 ms.
fn kernels(policy: &str, cpus: &str, clients: [&str; 2]) -> [u64; 2] {
    let phase = "[[client.phase]]\ncpu_us = 400\nkernel_us = 600\n";
    let clients = clients.map(|more| format!("[[client]]\n{more}\n{phase}"));
    let clients = clients.concat();
    let text = format!("length_ms = 600\n[policy]\n{policy}\n{cpus}\n{clients}");
    let scenario = paper::scenario(&text);
    let outcome = run(&scenario, 1, &mut None).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let clients = &outcome.gpus[0].clients;
    [0, 1].map(|at: usize| clients[at].compute.commands)
}

const NONE: &str = "name = \"hardware\"";
const ONE: &str = "[[cpu]]\nslice_us = 3000";
const SPIN: [&str; 2] = ["name = \"a\"\ncpu = 0", "name = \"b\"\ncpu = 0"];
const BLOCK: [&str; 2] = [
    "name = \"a\"\ncpu = 0\nwait = \"block\"",
    "name = \"b\"\ncpu = 0\nwait = \"block\"",
];

fn assert_near(found: [u64; 2], wanted: [u64; 2]) {
    let near = |at: usize| found[at].abs_diff(wanted[at]) <= 3;
    assert!(near(0), "{found:?}, wanted {wanted:?}");
    assert!(near(1), "{found:?}, wanted {wanted:?}");
}

#[test]
fn clients_that_spin_divide_the_processor() {
    // Three calls in each slice of 3 ms.
    assert_near(kernels(NONE, ONE, SPIN), [300, 300]);
}

#[test]
fn clients_that_block_use_it_by_turns_and_fill_the_gpu() {
    // The GPU does one call every 600 us.
    assert_near(kernels(NONE, ONE, BLOCK), [500, 500]);
}

#[test]
fn clients_with_a_processor_each_fill_the_gpu() {
    let cpus = "[[cpu]]\nslice_us = 3000\n[[cpu]]\nslice_us = 3000";
    let own = [SPIN[0], "name = \"b\"\ncpu = 1"];
    assert_near(kernels(NONE, cpus, own), [500, 500]);
    assert_near(
        kernels(NONE, "", ["name = \"a\"", "name = \"b\""]),
        [500, 500],
    );
}

#[test]
fn weight_on_the_processor_divides_it() {
    let weighted = ["name = \"a\"\ncpu = 0\ncpu_weight = 300", SPIN[1]];
    assert_near(kernels(NONE, ONE, weighted), [450, 150]);
}

#[test]
fn client_that_sleeps_for_its_turn_leaves_the_processor_to_the_holder() {
    // Turns of 30 ms, kept to their end: a call each millisecond of its turn.
    let turns = "name = \"exclusive\"\nquantum_ms = 30\nidle_release_ms = 30";
    assert_near(kernels(turns, ONE, SPIN), [300, 300]);
    // If it spins for its turn, the holder has the processor for half of it.
    let spins = format!("{turns}\nthrottled_spins = true");
    let [first, second] = kernels(&spins, ONE, SPIN);
    assert!((first + second).abs_diff(300) <= 30, "{first} {second}");
    // Unless the processor follows the turn.
    let follows = format!("{spins}\ncpu_boost = 1000");
    let [first, second] = kernels(&follows, ONE, SPIN);
    assert!(first + second > 500, "{first} {second}");
}
