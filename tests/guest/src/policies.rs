// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of policies with real processes. Shares are those of the model's own log.

use crate::caller::Caller;
use crate::kernel_log::KernelLog;
use crate::ktap::{ensure, Verdict};
use crate::limits::{self, within};
use crate::load::Load;
use crate::sharing::{clear, for_process, for_user, set, target, weight};
use crate::stage::{client_of, Stage, EXACT, FINE, LAZY};
use crate::truth::Truth;
use crate::{modules, sysfs};
use loga_cli::stat::Stat;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

crate::ktap::tests![
    maxmin_gives_light_clients_their_demand_and_the_rest_to_the_hog: timed slow,
    maxmin_with_sparse_accounting_does_so_too: timed,
    policy_maxmin_is_the_default,
    mix_runs_under_each_policy_and_no_client_stays_throttled: timed,
    credit_divides_time_by_weight: timed,
    credit_slo_gives_a_client_its_target_whatever_its_weight: timed,
    cosched_prefers_a_client_that_is_on_a_processor: timed,
    las_serves_clients_that_always_want_the_gpu_alike: timed slow,
    timeslices_are_divided_between_users_by_weight: timed slow,
    las_levels_serves_a_new_client_first_and_starves_none: timed,
    turns_give_equal_shares_to_clients_that_always_want_more: timed,
    channel_that_never_drains_ends_the_phase_with_a_counted_warning: slow,
    kill_behind_a_barrier_is_prompt,
    unload_behind_a_barrier_works_once_all_clients_are_gone,
];

/// Kernels of 200 us back to back: it would use the whole GPU. With exact lengths, this load and
/// the light ones fall into a step that depends on when they began, and a light client's share is
/// anything from 8.1 to 9.0 %.
const HOG: &str = "--kernel-us 200 --jitter 20 --wait block --channels 2";

/// Wants a tenth of the GPU: kernels of 100 us, each followed by a pause of 900 us.
const LIGHT: &str = "--kernel-us 100 --sleep-us 900 --jitter 20 --wait block --channels 2";
/// Length of its kernels, in us.
const LIGHT_US: f64 = 100.0;

/// Time from a kernel's end until the process sees it, and other pauses that are not waiting for
/// the GPU, in us: measured with four light clients.
const LATENCY_US: f64 = 44.0;

/// The hog and three light clients, once LoGA knows them.
fn hog_and_lights(stage: &Stage) -> Result<Vec<Load>, String> {
    let mut loads = vec![Load::start(HOG)?];
    for seed in 1..=3 {
        loads.push(Load::start(&format!("{LIGHT} --seed {seed}"))?);
    }
    stage.wait_until_all_measured(&loads)?;
    Ok(loads)
}

fn maxmin_gives_light_clients_their_demand_and_the_rest_to_the_hog() -> Verdict {
    check_maxmin("accounting=burst")
}

fn maxmin_with_sparse_accounting_does_so_too() -> Verdict {
    check_maxmin("accounting=sparse")
}

fn check_maxmin(accounting: &str) -> Verdict {
    let parameters = format!("policy=maxmin enforce=1 randomize=1 {accounting} {EXACT}");
    let stage = Stage::set("", &parameters)?;
    let loads = hog_and_lights(&stage)?;
    let stat = check_demands(&stage, &loads, Duration::from_secs(5))?;
    stage.check_no_fallback()?;
    check_waits(loads, &stat)?;
    stage.teardown()
}

/// The light clients have what they want, and the hog has the rest.
fn check_demands(stage: &Stage, loads: &[Load], time: Duration) -> Result<Stat, String> {
    Truth::reset()?;
    // Throttling the hog for a period of some 50 ms leaves the GPU idle for two thirds of it.
    let stat = stage.stat_during(time)?;
    let truth = Truth::read()?;
    let shares = loads.iter().map(|load| truth.ran_share(load.pid()) * 100.0);
    let shares: Vec<f64> = shares.collect();
    let busy = 100.0 - 100.0 * truth.idle_ns as f64 / truth.window_ns.max(1) as f64;
    println!("# shares {shares:.1?}, utilisation {busy:.1}");
    // With `event` the GPU is used for little more than half of the time.
    within("percent the GPU is busy", busy, 90.0..)?;
    within("percent of the hog", shares[0], 60.0..)?;
    // Each kernel takes the engine for 110 us with the switches, a cycle takes at least 1100 us:
    // the kernel, the pause and its timer's slack, LATENCY_US. A client that is not throttled waits
    // on average at most for a whole kernel of the hog and a tenth of two others: 110 us in 1325.
    // Throttled for one period of some 50 ms a second it would get 7.9 %.
    for share in &shares[1..] {
        within("percent of a light client", *share, 8.2..)?;
    }
    Ok(stat)
}

/// How long the light clients waited, by LoGA and by their own clocks.
fn check_waits(loads: Vec<Load>, stat: &Stat) -> Verdict {
    let lights = loads.len() as f64 - 1.0;
    let (mut estimated, mut waited) = (0.0, 0.0);
    for load in loads.into_iter().skip(1) {
        let client = client_of(stat, load.pid()).ok_or("a client is missing")?;
        estimated += client.waited_ns as f64 / client.gpu_time_ns.max(1) as f64 * LIGHT_US / lights;
        let turnaround = load.stop()?.summary.turnaround_mean_us;
        waited += (turnaround - LIGHT_US - LATENCY_US) / lights;
    }
    println!("# waited {estimated:.0} us for each kernel, by their own clocks {waited:.0}");
    // One client's estimate comes from some hundred samples that found it waiting: 0.1 of it is
    // chance, less of the mean of three.
    within("estimated to waited", estimated / waited, 0.6..=1.2)?;
    Ok(())
}

fn policy_maxmin_is_the_default() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let policy = sysfs::read("policy")?;
    ensure!(policy == "maxmin", "{policy}");
    let all = sysfs::read("available_policies")?;
    for name in [
        "maxmin",
        "event",
        "event-cl",
        "sampling",
        "timeslice",
        "timeslice-eng",
        "none",
        "credit",
        "credit-slo",
        "augc",
        "cosched",
        "las",
        "las-levels",
    ] {
        ensure!(all.split(' ').any(|one| one == name), "no {name} in {all}");
    }
    stage.teardown()
}

/// Shares of wall time by the model's own log, in percent.
fn shares(loads: &[Load], during: Duration) -> Result<Vec<f64>, String> {
    Truth::reset()?;
    std::thread::sleep(during);
    let truth = Truth::read()?;
    let shares = loads.iter().map(|load| truth.ran_share(load.pid()) * 100.0);
    Ok(shares.collect())
}

/// Checks the shares of loads, over `ms`.
fn check_shares(loads: &[Load], ms: u64, check: impl FnOnce(&[f64]) -> Verdict) -> Verdict {
    let shares = shares(loads, Duration::from_millis(ms))?;
    println!("# shares {shares:.1?}");
    check(&shares)
}

/// Checks that each share lies between limits.
fn each_within(shares: &[f64], limits: RangeInclusive<f64>) -> Verdict {
    let mut shares = shares.iter();
    shares.try_for_each(|share| within("percent of each", *share, limits.clone()))
}

/// The mix of the demonstration, under one policy after the other.
fn mix_runs_under_each_policy_and_no_client_stays_throttled() -> Verdict {
    let stage = Stage::set(LAZY, "policy=none enforce=1 randomize=1 accounting=burst")?;
    let mut loads = vec![Load::start("--kernel-us 1000 --wait block --channels 2")?];
    for seed in 1..=3 {
        loads.push(Load::start(&format!(
            "--kernel-us 200 --sleep-us 800 --wait block --channels 2 --seed {seed}"
        ))?);
    }
    stage.wait_until_all_measured(&loads)?;
    for name in sysfs::read("available_policies")?.split(' ') {
        sysfs::write("policy", name)?;
        let shares = shares(&loads, Duration::from_millis(700))?;
        println!("# {name}: {shares:.1?}");
        for share in shares {
            // Least under `timeslice-eng`, which takes the token from a client that sleeps.
            within(&format!("percent of a client under {name}"), share, 0.5..)?;
        }
    }
    stage.check_no_fallback()?;
    for load in loads {
        ensure!(load.stop()?.summary.kernels > 0, "one ran nothing");
    }
    stage.teardown()
}

fn turns_give_equal_shares_to_clients_that_always_want_more() -> Verdict {
    for policy in [
        "timeslice",
        "timeslice-eng",
        "credit",
        "credit-slo",
        "augc",
        "cosched",
    ] {
        let stage = Stage::set(
            LAZY,
            &format!("policy={policy} enforce=1 randomize=0 accounting=burst"),
        )?;
        let loads = [
            Load::start("--kernel-us 1000 --depth 2 --wait block --channels 2")?,
            Load::start("--kernel-us 100 --depth 4 --wait block --channels 2")?,
        ];
        stage.wait_until_all_measured(&loads)?;
        check_shares(&loads, 1500, |shares| each_within(shares, 40.0..=55.0))?;
        stage.check_no_fallback()?;
        drop(loads);
        stage.teardown()?;
    }
    Ok(())
}

// Strings' TFS: time by the weights of tenants, whatever the number of their processes.
fn timeslices_are_divided_between_users_by_weight() -> Verdict {
    for policy in ["timeslice", "timeslice-eng"] {
        let parameters = format!("policy={policy} enforce=1 group_by=user");
        let stage = Stage::set(LAZY, &parameters)?;
        let short = "--kernel-us 100 --depth 4 --wait block --channels 2";
        let loads = [
            Load::start_as(1000, "--kernel-us 1000 --depth 2 --wait block --channels 2")?,
            Load::start_as(1000, short)?,
            Load::start_as(1001, short)?,
        ];
        stage.wait_until_all_measured(&loads)?;
        set(for_user(1001), weight(200))?;
        std::thread::sleep(Duration::from_millis(200));
        let shares = shares(&loads, Duration::from_millis(6000))?;
        println!("# {policy}: {shares:.1?}");
        // Slices of 30 and 60 ms. A slice and a command more or less of either in 6 s: 1.7 points.
        let part = 100.0 * shares[2] / shares.iter().sum::<f64>();
        within("percent of the user of twice the weight", part, 65.0..=68.4)?;
        set(for_user(1001), clear)?;
        stage.check_no_fallback()?;
        drop(loads);
        stage.teardown()?;
    }
    Ok(())
}

fn credit_divides_time_by_weight() -> Verdict {
    let stage = Stage::set(LAZY, "policy=credit enforce=1 accounting=burst")?;
    let loads = [
        Load::start("--kernel-us 1000 --depth 2 --wait block --channels 2")?,
        Load::start("--kernel-us 100 --depth 4 --wait block --channels 2")?,
    ];
    stage.wait_until_all_measured(&loads)?;
    set(for_process(loads[1].pid()), weight(400))?;
    // Rounds of 150 ms.
    check_shares(&loads, 3000, |shares| {
        within("second to first", shares[1] / shares[0], 3.5..=4.5)
    })?;
    stage.check_no_fallback()?;
    drop(loads);
    stage.teardown()
}

fn credit_slo_gives_a_client_its_target_whatever_its_weight() -> Verdict {
    let stage = Stage::set(LAZY, "policy=credit-slo enforce=1 accounting=burst")?;
    let loads = [
        Load::start("--kernel-us 1000 --depth 2 --wait block --channels 2")?,
        Load::start("--kernel-us 100 --depth 4 --wait block --channels 2")?,
    ];
    stage.wait_until_all_measured(&loads)?;
    set(for_process(loads[0].pid()), weight(400))?;
    set(for_process(loads[1].pid()), target(60))?;
    std::thread::sleep(Duration::from_millis(1000));
    // By weight it has a fifth. Turns cost some 4 % of the GPU.
    check_shares(&loads, 3000, |shares| {
        within("percent with a target of 60", shares[1], 54.0..=64.0)
    })?;
    let refused = set(for_process(loads[0].pid()), target(31));
    set(for_process(loads[1].pid()), target(0))?;
    std::thread::sleep(Duration::from_millis(1000));
    check_shares(&loads, 3000, |shares| {
        within("percent without a target", shares[1], 16.0..=24.0)
    })?;
    ensure!(
        refused.is_err_and(|said| said.contains("30 % are left")),
        "targets of 91 % were set"
    );
    stage.check_no_fallback()?;
    drop(loads);
    stage.teardown()
}

fn cosched_prefers_a_client_that_is_on_a_processor() -> Verdict {
    let parameters = "policy=cosched enforce=1 group_by=user accounting=burst";
    let stage = Stage::set(LAZY, parameters)?;
    // A client of root that computes and never uses the GPU, beside its load that does.
    let mut busy = Caller::with_channels(1)?;
    busy.ask("busy")?;
    let load = "--kernel-us 200 --depth 2 --wait block --channels 2";
    let loads = [
        Load::start(load)?,
        Load::start_as(1000, load)?,
        Load::start_as(1001, load)?,
    ];
    stage.wait_until_all_measured(&loads)?;
    // 200 turns. Every other turn is root's; it would be every third.
    check_shares(&loads, 6000, |shares| {
        within("percent of root", shares[0], 42.0..=54.0)?;
        each_within(&shares[1..], 19.0..=30.0)
    })?;
    stage.check_no_fallback()?;
    drop((busy, loads));
    stage.teardown()
}

fn las_serves_clients_that_always_want_the_gpu_alike() -> Verdict {
    let stage = Stage::set(FINE, "policy=las enforce=1")?;
    let loads = [
        Load::start("--kernel-us 2000 --depth 2 --wait block --channels 2")?,
        Load::start("--kernel-us 100 --depth 4 --wait block --channels 2")?,
        Load::start(LIGHT)?,
    ];
    stage.wait_until_all_measured(&loads)?;
    // Epochs alternate. What a client has queued when it is throttled runs on in the epoch of the
    // other, 8 ms of the first client and 0.8 ms of the second: 8 and 0.8 points in two epochs of
    // 100 ms. An epoch ends with the first period of 50 ms that ends after 100 ms: each is longer by
    // up to a period, and these times add up as those of independent, evenly distributed ones. The
    // last wants a tenth at most, and waits for a command of 2 ms now and then.
    const SPAN_MS: f64 = 16_000.0;
    let of_epoch = 100.0 * 50.0 / 12f64.sqrt() / SPAN_MS;
    let chance = limits::SIGMAS * of_epoch * (SPAN_MS / 100.0).sqrt();
    check_shares(&loads, 16_000, |shares| {
        within(
            "points between the equal ones",
            shares[0] - shares[1],
            -0.8 - chance..=8.0 + chance,
        )?;
        within("percent of the third", shares[2], 2.0..)
    })?;
    stage.check_no_fallback()?;
    drop(loads);
    stage.teardown()
}

fn las_levels_serves_a_new_client_first_and_starves_none() -> Verdict {
    let stage = Stage::set(LAZY, "policy=las-levels enforce=1")?;
    const KERNELS: &str = "--kernel-us 500 --depth 2 --wait block --channels 2";
    let mut loads = vec![Load::start(KERNELS)?];
    stage.wait_until_all_measured(&loads)?;
    // It leaves the first level.
    std::thread::sleep(Duration::from_millis(1500));
    // A process of the same user would begin at its level.
    loads.push(Load::start_as(1000, KERNELS)?);
    stage.wait_until_all_measured(&loads)?;
    let first = shares(&loads, Duration::from_millis(700))?;
    // The second leaves the first level too.
    std::thread::sleep(Duration::from_millis(1500));
    println!("# shares {first:.1?}");
    within("percent of the new client", first[1], 75.0..)?;
    check_shares(&loads, 3000, |shares| each_within(shares, 42.0..=54.0))?;
    stage.check_no_fallback()?;
    drop(loads);
    stage.teardown()
}

/// How long the kernel of [`long_command`] runs: sampling's free run before its barrier, and the
/// second after which a drain is late, end well before.
const LONG: Duration = Duration::from_secs(4);

/// A process with a kernel of [`LONG`], and another one that is throttled until the kernel has
/// ended, or until the policy stops waiting for its end.
fn long_command(policy: &str) -> Result<(Stage, Caller, Load), String> {
    let stage = Stage::set(
        LAZY,
        &format!("policy={policy} enforce=1 randomize=0 accounting=burst"),
    )?;
    let mut long = Caller::with_channels(1)?;
    let light = Load::start("--kernel-us 100 --wait block --channels 1")?;
    stage.wait_until_measured(light.pid())?;
    long.ask(&format!("launch {}", LONG.as_micros()))?;
    stage.wait_until_throttled(light.pid())?;
    Ok((stage, long, light))
}

fn channel_that_never_drains_ends_the_phase_with_a_counted_warning() -> Verdict {
    for policy in ["sampling", "timeslice", "timeslice-eng", "augc"] {
        let mut log = KernelLog::from_now()?;
        let (stage, long, light) = long_command(policy)?;
        let began = Instant::now();
        while stage.stat()?.overdue_drains == 0 {
            ensure!(began.elapsed() < LONG, "{policy}: no late drain counted");
            std::thread::sleep(Duration::from_millis(10));
        }
        let warnings = log.with(&["did not run empty in time", "1 times so far"])?;
        ensure!(warnings.len() == 1, "{policy}: {warnings:?}");
        // The kernel ends.
        std::thread::sleep(LONG.saturating_sub(began.elapsed()));
        let share = shares(std::slice::from_ref(&light), Duration::from_secs(2))?;
        println!("# {policy}: {share:.1?} % afterwards");
        within("percent of the other client", share[0], 15.0..)?;
        stage.check_no_fallback()?;
        drop((long, light));
        stage.teardown()?;
    }
    Ok(())
}

fn kill_behind_a_barrier_is_prompt() -> Verdict {
    let (stage, long, light) = long_command("sampling")?;
    std::thread::sleep(Duration::from_millis(20));
    let (since, pid) = (Instant::now(), light.pid());
    drop(light);
    let took = since.elapsed();
    ensure!(took < Duration::from_millis(200), "dead after {took:?}");
    stage.wait_until_gone(pid)?;
    drop(long);
    stage.teardown()
}

fn unload_behind_a_barrier_works_once_all_clients_are_gone() -> Verdict {
    let (stage, long, light) = long_command("timeslice")?;
    std::thread::sleep(Duration::from_millis(20));
    // With clients it is refused.
    let refused = modules::remove(modules::LOGA);
    ensure!(refused.is_err(), "unloaded in use");
    drop((light, long));
    stage.teardown()
}
