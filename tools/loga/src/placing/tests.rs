// SPDX-License-Identifier: GPL-2.0

//! Tests of the question that is asked of placement policies.

use super::*;
use crate::fake::FakeKernel;

/// A client that is busy for so many percent of the time, in runs of 100 us, and never waits.
pub(crate) fn client(pid: i32, busy_pct: u32) -> uapi::Client {
    uapi::Client {
        id: u64::from(pid.unsigned_abs()),
        pid,
        weight: 100,
        busy_30s_ppm: busy_pct * 10_000,
        measured_ns: 1_000_000,
        runs: 10,
        ..Default::default()
    }
}

/// GPUs with one such client each, at buses 1, 2 and so on; none with 0 percent.
pub(crate) fn kernel(busy_pct: &[u32]) -> FakeKernel {
    let fake = FakeKernel::new(busy_pct.len());
    for ((gpu, at), busy) in fake.gpus.borrow_mut().iter_mut().zip(1..).zip(busy_pct) {
        gpu.info.pci_bdf = at << 8;
        if *busy > 0 {
            gpu.clients.push(client(100 + at as i32, *busy));
        }
    }
    fake
}

/// Another process claims a GPU, whatever was claimed before.
pub(crate) fn claim_of_another(fake: &FakeKernel, process: i32, gpu: u32, want_pct: u32) {
    let own = fake.caller.replace((process, 1000));
    fake.processes.borrow_mut().push(process);
    let wanted = uapi::Claim {
        gpu,
        action: uapi::ACTION_SET,
        want_pct,
        seconds: 30,
        seen: uapi::CLAIM_ANYWAY,
        ..Default::default()
    };
    let claimed = crate::control::Control::over(fake).claim(&wanted);
    claimed.expect("a claim");
    fake.caller.set(own);
}

fn snapshots(busy_pct: &[u32]) -> Vec<Snapshot> {
    let fake = kernel(busy_pct);
    let all = crate::control::Control::over(&fake).all();
    all.expect("snapshots")
}

fn wish(policy: &str, count: u32) -> Wish {
    let asked = cli::Asked::default();
    Wish::new(Some(policy), count, &asked, Weight::DEFAULT).expect("a wish")
}

fn choose(busy_pct: &[u32], policy: &str, count: u32) -> Result<Vec<u32>, String> {
    let pool = Pool::new(&snapshots(busy_pct), &cli::Asked::default(), None);
    pool.expect("a pool").choose(&wish(policy, count))
}

#[test]
fn least_wanted_gpus_are_chosen_best_first() {
    assert_eq!(choose(&[90, 10, 40, 100], "wait", 3), Ok(vec![1, 2, 0]));
    assert_eq!(choose(&[90, 0, 40], "gmin", 2), Ok(vec![1, 2]));
}

#[test]
fn gpus_that_are_missing_are_counted_and_the_reason_told() {
    let said = choose(&[0, 0], "wait", 3).expect_err("three of two");
    assert_eq!(said, "want 3 GPUs, but only 2 may be chosen: that is all");
    let mut all = snapshots(&[0, 0]);
    all[0].info.flags = uapi::GPU_LOST;
    let asked = cli::Asked {
        among: vec![0],
        ..Default::default()
    };
    let pool = Pool::new(&all, &asked, None).expect("a pool");
    let said = pool.choose(&wish("wait", 1)).expect_err("none");
    assert_eq!(
        said,
        "no GPU may be chosen: GPU 0 lost, GPU 1 not in --among"
    );
}

#[test]
fn policy_in_turn_goes_on_with_each_claim() {
    let mut all = snapshots(&[0, 0, 0]);
    for (seen, first) in [(0, 0), (1, 1), (5, 2), (6, 0)] {
        all.iter_mut().for_each(|one| one.info.claims_seen = seen);
        let pool = Pool::new(&all, &cli::Asked::default(), None).expect("a pool");
        let chosen = pool.choose(&wish("grr", 2)).expect("two");
        assert_eq!(chosen, [first, (first + 1) % 3], "{seen}");
    }
}

#[test]
fn speeds_are_for_all_gpus_and_relative() {
    assert_eq!(speeds(&[], 2), Ok(vec![PPM, PPM]));
    assert_eq!(speeds(&[4.0, 1.0], 2), Ok(vec![PPM, PPM / 4]));
    let said = speeds(&[1.0], 2).expect_err("too few");
    assert_eq!(said, "--speeds: want one for each of 2 GPUs, not 1");
    // A slow idle GPU loses against a fast one with a light client.
    let asked = cli::Asked {
        speeds: vec![1.0, 0.25],
        ..Default::default()
    };
    let pool = Pool::new(&snapshots(&[10, 0]), &asked, None).expect("a pool");
    assert_eq!(pool.choose(&wish("wait", 1)), Ok(vec![0]));
}

#[test]
fn gpu_in_a_list_that_does_not_exist_is_refused_with_those_there_are() {
    let asked = cli::Asked {
        among: vec![1, 4],
        ..Default::default()
    };
    let said = Pool::new(&snapshots(&[0, 0]), &asked, None).expect_err("no GPU 4");
    assert_eq!(said, "--among: there is no GPU 4: want 0 to 1");
}

#[test]
fn user_that_sees_nothing_of_others_chooses_as_root_does() {
    let mut all = snapshots(&[60, 30]);
    let asked = cli::Asked::default();
    let of = |all: &[Snapshot]| Pool::new(all, &asked, None).expect("a pool");
    let root = of(&all).costs(&wish("wait", 1));
    for one in &mut all {
        one.clients.clear();
    }
    let user = of(&all);
    assert_eq!(user.choose(&wish("wait", 1)), Ok(vec![1]));
    assert_eq!(user.places[0].clients, (0, 1));
    // It does not know how long the runs of others are.
    assert_ne!(user.costs(&wish("wait", 1)), root);
}

#[test]
fn snapshots_agree_if_no_claim_changed_between_them() {
    let mut all = snapshots(&[0, 0]);
    all.iter_mut().for_each(|one| one.info.claims_seen = 7);
    assert_eq!(agreed(&all), Some(7));
    all[1].info.claims_seen = 8;
    assert_eq!(agreed(&all), None);
}

#[test]
fn want_on_the_fastest_gpu_is_less_than_on_a_slow_one() {
    let slow = Demand {
        want: 666_667,
        run: Ns::from_us(2000),
        ..Demand::UNKNOWN
    };
    let fast = on_fastest(slow, PPM / 2);
    assert!(fast.want.abs_diff(PPM / 2) < 10, "{fast:?}");
    assert_eq!(fast.run, Ns::from_us(1000));
    assert_eq!(on_fastest(slow, PPM), slow);
    // Back again, with copies.
    let both = Demand {
        want: 400_000,
        copy: 300_000,
        ..Demand::UNKNOWN
    };
    let gpu = Gpu {
        open: true,
        local: true,
        speed: PPM / 4,
        bound: &[],
    };
    let newcomer = Newcomer {
        demand: both,
        known: true,
        time: None,
    };
    let again = on_fastest(placement::on(&gpu, &newcomer), gpu.speed);
    let distance = again.want.abs_diff(both.want) + again.copy.abs_diff(both.copy);
    assert!(distance < 20, "{again:?}");
}

#[test]
fn cost_with_unknown_memory_grows_with_each_program() {
    let costs: Vec<u64> = (0..1000).map(crowded).collect();
    assert_eq!(costs[..4], [1, 2, 4, 8]);
    assert!(costs.is_sorted_by(|one, next| one < next));
}

#[test]
fn claim_of_a_program_is_its_want_in_percent_rounded_up() {
    let mut one = wish("wait", 1);
    assert_eq!(one.want_pct(), 50);
    one.newcomer.demand.want = 1;
    assert_eq!(one.want_pct(), 1);
    one.newcomer.demand.want = 2 * PPM;
    assert_eq!(one.want_pct(), 100);
}

#[test]
fn claim_on_a_slow_gpu_is_more_of_it() {
    let asked = cli::Asked {
        speeds: vec![1.0, 0.5],
        ..cli::Asked::default()
    };
    let pool = Pool::new(&snapshots(&[0, 0]), &asked, None);
    let pool = pool.expect("two GPUs");
    let one = wish("wait", 1);
    assert_eq!(pool.claim_pct(0, &one), 50);
    // As long for what it does on the GPU as 2/3 to 1/3 of the time.
    assert_eq!(pool.claim_pct(1, &one), 67);
}
