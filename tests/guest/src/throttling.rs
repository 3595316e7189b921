// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of throttling: a hog waits, and signals, forks and remaps work meanwhile.

use crate::caller::{Caller, SOON};
use crate::calls::Calls;
use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::sharing::{changed, for_process, limit, set, STRICT};
use crate::stage::{client_of, Stage, EXACT, LAZY, LONG_PHASES, PAPER};
use loga::uapi;
use loga_cli::stat::Stat;
use loga_cli::table;
use nix::errno::Errno;
use std::time::Duration;

crate::ktap::tests![
    hog_is_throttled_and_resumes: timed,
    client_on_the_pollers_processor_keeps_the_gpu_supplied: timed,
    hog_alone_is_never_throttled,
    forked_child_is_throttled_with_its_parent,
    limit_holds_for_a_child_that_outlives_its_parent: timed,
    kill_while_throttled_is_prompt: timed,
    unmap_and_remap_while_throttled_stays_throttled,
    remap_of_the_only_page_stays_throttled,
    two_channels_in_one_page_are_told_apart: timed,
    copy_on_write_mapping_is_left_to_the_driver,
];

/// The client that a hog competes with.
fn light() -> Result<Load, String> {
    Load::start("--kernel-us 100 --wait block --channels 1")
}

/// A throttled hog in the middle of a `run` of so many milliseconds, and the load that it competes
/// with.
pub(crate) fn throttled_hog(stage: &Stage, ms: u32) -> Result<(Caller, Load), String> {
    let mut hog = Caller::with_channels(1)?;
    let light = light()?;
    hog.send(&format!("run 1000 {ms}"))?;
    stage.wait_until_throttled(hog.pid())?;
    Ok((hog, light))
}

/// Both keep the GPU supplied: a client that waits for each kernel leaves the GPU idle meanwhile.
const SUPPLYING_HOG: &str = "--kernel-us 1000 --depth 2 --wait block --channels 2";
const SUPPLYING_LIGHT: &str = "--kernel-us 100 --depth 4 --wait block --channels 2";

/// Share of the GPU in percent.
fn share_of(stat: &Stat, load: &Load) -> f64 {
    let client = client_of(stat, load.pid());
    100.0 * client.and_then(|client| client.share).unwrap_or(0.0)
}

/// Fails unless a throttled hog and another client get half of the GPU each.
fn check_halves(stage: &Stage, hog: &Load, other: &Load) -> Result<(), String> {
    let stat = stage.stat_during(Duration::from_millis(6000))?;
    let (mine, its) = (share_of(&stat, hog), share_of(&stat, other));
    println!("# hog {mine:.1} %, other {its:.1} %");
    // Without enforcement 91 and 9. A client is throttled when it is a period of 24 ms ahead, and
    // is then less than another period ahead: at both ends of the window the shares are off by
    // 24 ms at most. By the model's log too the hog gets some two points less than the other.
    within("hog percent", mine, 46.5..=53.5)?;
    within("other percent", its, 46.5..=53.5)?;
    Ok(())
}

fn hog_is_throttled_and_resumes() -> Verdict {
    let stage = Stage::set(LAZY, PAPER)?;
    let hog = Load::start(SUPPLYING_HOG)?;
    let other = Load::start(SUPPLYING_LIGHT)?;
    stage.wait_until_throttled(hog.pid())?;
    check_halves(&stage, &hog, &other)?;
    let gone = other.pid();
    other.stop()?;
    stage.wait_until_gone(gone)?;
    // The decision that lets it run is up to a period away.
    stage.wait_for_client(hog.pid(), Duration::from_secs(1), "released", |client| {
        client.state != "throttled"
    })?;
    let alone = share_of(&stage.stat_during(Duration::from_millis(300))?, &hog);
    within("percent of the hog alone", alone, 95.0..)?;
    let report = hog.stop()?;
    ensure!(
        report.summary.blocked_count > 0,
        "no store of the hog was blocked"
    );
    stage.check_no_fallback()?;
    stage.teardown()
}

/// The poller preempts ordinary threads and polls for a sixth of the time: a client on its
/// processor must not lose that sixth.
fn client_on_the_pollers_processor_keeps_the_gpu_supplied() -> Verdict {
    let stage = Stage::set(LAZY, &format!("{PAPER} {EXACT}"))?;
    let hog = Load::start(SUPPLYING_HOG)?;
    let other = Load::start_on(1, SUPPLYING_LIGHT)?;
    stage.wait_until_throttled(hog.pid())?;
    check_halves(&stage, &hog, &other)?;
    drop((hog, other));
    stage.teardown()
}

fn hog_alone_is_never_throttled() -> Verdict {
    let stage = Stage::set(LAZY, PAPER)?;
    let hog = Load::start("--kernel-us 1000 --wait block --channels 2 --seconds 1")?;
    let report = hog.finish()?;
    within("kernels of 1 ms in 1 s", report.summary.kernels, 751..)?;
    ensure!(stage.stat()?.revokes == 0, "it was throttled");
    stage.teardown()
}

fn forked_child_is_throttled_with_its_parent() -> Verdict {
    let stage = Stage::set(LAZY, LONG_PHASES)?;
    let mut hog = Caller::with_channels(1)?;
    let light = light()?;
    hog.send("fork 1000 2500")?;
    stage.wait_until_throttled(hog.pid())?;
    let child = hog.answer(SOON)?;
    let parent = hog.answer(SOON)?;
    ensure!(
        child.len() == 3 && parent.len() == 1,
        "{child:?} {parent:?}"
    );
    ensure!(child[0] > 0, "the child ran nothing");
    within("us the child was blocked", child[1], 100_001..)?;
    let stat = stage.stat()?;
    let client = client_of(&stat, hog.pid()).ok_or("the parent is no client")?;
    ensure!(client.measured_ns > 0, "the child's work is not charged");
    let child_pid = u32::try_from(parent[0]).map_err(|error| error.to_string())?;
    ensure!(
        client_of(&stat, child_pid).is_none(),
        "the child is a client of its own"
    );
    drop(light);
    drop(hog);
    stage.teardown()
}

fn limit_holds_for_a_child_that_outlives_its_parent() -> Verdict {
    let stage = Stage::set(LAZY, &format!("{STRICT} poll_ms=2"))?;
    let mut parent = Caller::with_channels(1)?;
    let pid = parent.pid();
    // One that has stored to its page is measured.
    parent.ask("run 1000 100")?;
    set(for_process(pid), limit(20))?;
    let child = parent.leave_a_child(4000)?;
    // Readers forget what is set for processes that are gone.
    let client = stage.wait_for_client(pid, SOON, "one that has ended", |client| client.ended)?;
    ensure!(
        client.user.map(i64::from) == Some(i64::from(child)),
        "its pages are used by {:?}, not {child}",
        client.user
    );
    let stat = stage.stat_during(Duration::from_millis(2000))?;
    let client = client_of(&stat, pid).ok_or("the client is gone")?;
    ensure!(client.limit == 20, "limit {}", client.limit);
    // Either end may have a period of 12 ms more, and two kernels that run on: 0.8 points.
    let percent = 100.0 * client.gpu_time_ns as f64 / stat.span_ns as f64;
    within("percent of the GPU", percent, 1.0..=20.8)?;
    let text = table::render(&stat);
    ensure!(
        text.contains(&format!("process {child} uses its pages on")),
        "{text}"
    );
    let (result, refusal) = Calls::open()?.set_share(&changed(for_process(child), limit(30)));
    ensure!(
        (result, refusal.code) == (Err(Errno::EINVAL), uapi::REFUSED_INHERITED),
        "{result:?}, {refusal:?}"
    );
    ensure!(refusal.value == u64::from(pid), "{refusal:?}");
    stage.wait_until_gone(pid)?;
    let settings = stage.stat()?.settings;
    ensure!(
        settings == 0,
        "{settings} settings of processes that are gone"
    );
    stage.teardown()
}

fn kill_while_throttled_is_prompt() -> Verdict {
    let stage = Stage::set(LAZY, LONG_PHASES)?;
    let (mut hog, light) = throttled_hog(&stage, 8000)?;
    // By now the hog is blocked in a store.
    std::thread::sleep(Duration::from_millis(20));
    let pid = hog.pid();
    let took = hog.kill()?;
    ensure!(took < Duration::from_millis(200), "dead after {took:?}");
    stage.wait_until_gone(pid)?;
    let stat = stage.stat_during(Duration::from_millis(500))?;
    let share = client_of(&stat, light.pid())
        .and_then(|client| client.share)
        .unwrap_or(0.0);
    within("share of the other one", share, 0.5..)?;
    light.stop()?;
    stage.teardown()
}

fn unmap_and_remap_while_throttled_stays_throttled() -> Verdict {
    check_remap(2)
}

/// With its last page unmapped a client has no channels, but keeps its history.
fn remap_of_the_only_page_stays_throttled() -> Verdict {
    check_remap(1)
}

/// Remaps the first of a throttled client's pages: it must stay throttled.
fn check_remap(channels: u32) -> Verdict {
    let stage = Stage::set(LAZY, LONG_PHASES)?;
    let mut hog = Caller::with_channels(channels)?;
    let light = light()?;
    // It keeps kernels queued and waits for orders most of the time, so that the decision to
    // throttle it finds it outside a store. The kernels are short against a polling phase: a light
    // client that the poller never sees does not count as active.
    let mut throttled = false;
    for _ in 0..400 {
        hog.ask("launch 8000")?;
        std::thread::sleep(Duration::from_millis(7));
        throttled = stage
            .client(hog.pid())?
            .is_some_and(|c| c.state == "throttled");
        if throttled {
            break;
        }
    }
    ensure!(throttled, "never throttled");
    hog.ask("unmap")?;
    hog.ask("map")?;
    ensure!(
        stage
            .client(hog.pid())?
            .is_some_and(|c| c.state == "throttled"),
        "released too early for this test"
    );
    hog.send("store 100")?;
    ensure!(
        !hog.has_answered(Duration::from_millis(30))?
            || stage
                .client(hog.pid())?
                .is_none_or(|c| c.state != "throttled"),
        "the new mapping is not throttled"
    );
    let store_us = hog.answer(SOON)?[0];
    within("us of a store while throttled", store_us, 1001..)?;
    let again = hog.ask("store 100")?;
    ensure!(again.len() == 1, "{again:?}");
    light.stop()?;
    drop(hog);
    stage.teardown()
}

fn two_channels_in_one_page_are_told_apart() -> Verdict {
    // Eight channels of 0x200 bytes share a page; clients with one channel each must not be
    // throttled together.
    let stage = Stage::set(LAZY, PAPER)?;
    let hog = Load::start("--kernel-us 1000 --wait block --channels 1")?;
    let others = [light()?, light()?];
    stage.wait_until_throttled(hog.pid())?;
    let stat = stage.stat_during(Duration::from_secs(1))?;
    for other in &others {
        let client = client_of(&stat, other.pid()).ok_or("a client is missing")?;
        let share = client.share.unwrap_or(0.0);
        within("share of a light client", share, 0.2..)?;
    }
    drop(others);
    drop(hog);
    stage.teardown()
}

/// A store through a private mapping goes to a copy and never reaches the device.
fn copy_on_write_mapping_is_left_to_the_driver() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let mut caller = Caller::with_channels(1)?;
    let errno = caller.ask("cow")?;
    ensure!(errno == [0], "errno {errno:?}, not what the driver answers");
    let run = caller.ask("run 100 50")?;
    ensure!(run[0] > 0, "the caller does not work afterwards");
    let stat = stage.stat()?;
    ensure!(
        stat.unmanaged_mappings == 0,
        "{} mappings are not managed",
        stat.unmanaged_mappings
    );
    drop(caller);
    stage.teardown()
}
