// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of fading means, and of their sums, which every user sees.

use crate::calls::as_user;
use crate::ktap::{ensure, Verdict};
use crate::limits::{within, within_points};
use crate::load::Load;
use crate::stage::{client_of, Stage, EXACT, FINE};
use crate::truth::Truth;
use loga::uapi;
use loga_cli::device::{Device, Snapshot};
use loga_cli::stat::Stat;
use nix::sys::signal::Signal;
use std::thread::sleep;
use std::time::Duration;

crate::ktap::tests![
    means_of_a_client_alone_are_those_of_the_model_and_fade: timed slow,
    two_hogs_want_a_whole_gpu_each_and_every_user_sees_the_sums: timed,
];

/// Two fifths of the GPU, evenly over the time.
const STEADY: &str = "--kernel-us 400 --cycle-us 1000 --wait block --channels 2";
/// Keeps the GPU busy.
const HOG: &str = "--kernel-us 500 --depth 3 --wait block --channels 2";
/// A user without a client.
const BYSTANDER: u32 = 1001;

fn snapshot() -> Result<Snapshot, String> {
    let device = Device::open().map_err(|error| error.to_string())?;
    device.snapshot(0).map_err(|error| error.to_string())
}

fn means_of_a_client_alone_are_those_of_the_model_and_fade() -> Verdict {
    let stage = Stage::set(FINE, &format!("{EXACT} poll_always=1"))?;
    let load = Load::start(STEADY)?;
    stage.wait_until_measured(load.pid())?;
    Truth::reset()?;
    sleep(Duration::from_secs(6));
    let (stat, truth) = (stage.stat()?, Truth::read()?);
    let real = truth.ran_share(load.pid());
    let client = client_of(&stat, load.pid()).ok_or("no client")?;
    let means = [
        client.busy_2s,
        client.busy_30s,
        client.waited_2s,
        client.want_2s,
    ];
    println!("# model {real:.4}; busy 2 s, 30 s, waited, wants {means:.4?}");
    within_points("points of 2 s off", client.busy_2s, real, 2.0)?;
    // It began to run some time after it became a client.
    within_points("points of 30 s off", client.busy_30s, real, 6.0)?;
    within("share of 2 s that it waited", client.waited_2s, ..0.05)?;
    within_points("points of all off", stat.busy_2s, real, 2.5)?;
    // It has its channels still, and is asleep for LoGA.
    load.signal(Signal::SIGSTOP);
    sleep(Duration::from_secs(2));
    let faded = stage.client(load.pid())?.ok_or("no client")?;
    let left = faded.busy_2s / client.busy_2s;
    println!(
        "# {left:.3} are left after 2 s, {:.4} of 30 s",
        faded.busy_30s
    );
    within("left after 2 s", left, 0.30..0.42)?;
    ensure!(
        faded.busy_30s > 0.65 * client.busy_30s && faded.busy_30s < client.busy_30s,
        "{} of {}",
        faded.busy_30s,
        client.busy_30s
    );
    load.signal(Signal::SIGCONT);
    load.stop()?;
    stage.teardown()
}

fn two_hogs_want_a_whole_gpu_each_and_every_user_sees_the_sums() -> Verdict {
    let stage = Stage::set(FINE, &format!("{EXACT} enforce=1"))?;
    let (one, other) = (Load::start(HOG)?, Load::start_as(1000, HOG)?);
    stage.wait_until_all_measured([&one, &other])?;
    sleep(Duration::from_secs(8));
    let (all, seen) = (snapshot()?, as_user(BYSTANDER, snapshot)?);
    let stat = Stat::new(&all, None);
    for load in [&one, &other] {
        let client = client_of(&stat, load.pid()).ok_or("a client is missing")?;
        let (busy, waited, want) = (client.busy_30s, client.waited_30s, client.want_30s);
        println!("# busy {busy:.4}, waited {waited:.4}, wants {want:.4}");
        within_points("points from half", busy, 0.5, 6.0)?;
        within("want", want, 0.85..)?;
    }
    let sums = |gpu: &uapi::Gpu| {
        [
            gpu.busy_2s_pct,
            gpu.busy_30s_pct,
            gpu.want_2s_pct,
            gpu.want_30s_pct,
        ]
    };
    let (of_all, of_seen) = (sums(&all.info), sums(&seen.info));
    println!("# sums {of_all:?}, seen by another user {of_seen:?}");
    within("percent of all", of_all[0], 90..=101)?;
    ensure!(
        of_all[2..].iter().all(|sum| (170..=200).contains(sum)),
        "{of_all:?}"
    );
    ensure!(
        all.info.wanting == 2 && seen.info.wanting == 2,
        "{:?}",
        seen.info
    );
    // The other snapshot was taken some periods later.
    let near_all = of_all.into_iter().zip(of_seen);
    let mut near_all = near_all.map(|(one, other)| one.abs_diff(other));
    ensure!(near_all.all(|by| by <= 5), "{of_all:?}, {of_seen:?}");
    ensure!(
        seen.info.flags & uapi::GPU_WITHHELD != 0 && seen.clients.is_empty(),
        "a user sees {:?}",
        seen.clients
    );
    let pid = one.pid();
    drop(one);
    stage.wait_until_gone(pid)?;
    let left = snapshot()?.info;
    ensure!(
        (80..=100).contains(&left.want_30s_pct) && left.wanting == 1,
        "{:?} are left",
        sums(&left)
    );
    stage.check_no_fallback()?;
    drop(other);
    stage.teardown()
}
