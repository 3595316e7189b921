// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of what priorities, modes and reserves do for real processes.

use crate::caller::Caller;
use crate::calls::Calls;
use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::specs::{cleared, firm, on_all, prio, reserve, set, specs, EDF};
use crate::stage::{client_of, Stage, EXACT, FINE, LAZY};
use crate::tracefs::Trace;
use crate::tracing::named;
use crate::truth;
use crate::truth::Truth;
use loga::uapi;
use nix::errno::Errno;
use std::time::{Duration, Instant};
use throttle::statistics::Frames;

crate::ktap::tests![
    hard_reserve_is_a_limit_of_each_kind: timed,
    clients_of_one_user_share_its_reserve: timed,
    reserve_keeps_the_frames_of_a_client_in_time_beside_hogs: timed,
    priority_that_is_set_counts_instead_of_nice: timed,
    priority_that_is_set_leaves_the_floor: timed,
    two_submissions_of_a_client_in_mode_ht_are_in_flight,
    promise_that_a_long_command_endangers_is_refused_with_its_name,
    deadline_behind_a_long_command_is_void_and_waits_have_their_causes,
];

/// Frames of four kernels of 500 us, one every 20 ms, to be done within 10 ms.
const FRAMES: &str =
    "--kernel-us 500 --kernels-per-frame 4 --depth 4 --cycle-us 20000 --deadline-us 10000 --wait block";

fn hard_reserve_is_a_limit_of_each_kind() -> Verdict {
    let stage = Stage::set(FINE, &format!("{EDF} {EXACT}"))?;
    let load = Load::start("--kernel-us 500 --wait block")?;
    stage.wait_until_measured(load.pid())?;
    // A submission is charged from its window to the read that shows its end. AE loses what does not
    // fit: 2 ms in 10 ms are three submissions.
    for (kind, least) in [
        (uapi::RESERVE_PE, 19.0),
        (uapi::RESERVE_AE, 14.0),
        (uapi::RESERVE_CBS, 19.0),
    ] {
        set(reserve(load.pid(), kind, 2_000, 10_000))?;
        let [share] = truth::shares([load.pid()], 500, 2_000)?;
        let served = specs()?.first().copied().ok_or("nothing is listed")?;
        let mean_us = served.used_ns as f64 / served.served as f64 / 1_000.0;
        let charged = share * mean_us / 500.0;
        println!("# kind {kind}: {share:.2} %, charged {charged:.2} %");
        within(&format!("kind {kind} charged"), charged, least..20.5)?;
    }
    let listed = specs()?.first().copied().ok_or("nothing is listed")?;
    println!("# {listed:?}");
    let own = reserve(load.pid(), uapi::RESERVE_CBS, 2_000, 10_000);
    ensure!(
        listed.spec == own && listed.promise == uapi::PROMISE_SHARE,
        "{listed:?}"
    );
    within("submissions served", listed.served, 600..1200)?;
    let mean = listed.used_ns / listed.served;
    within("ns charged for a submission", mean, 490_000..620_000)?;
    let (result, refusal) = Calls::open()?.set_spec(&cleared(load.pid()));
    ensure!(result.is_ok(), "{refusal}");
    let [share] = truth::shares([load.pid()], 200, 1_000)?;
    within("percent without its reserve", share, 75.0..)?;
    drop(load);
    stage.teardown()
}

fn clients_of_one_user_share_its_reserve() -> Verdict {
    let stage = Stage::set(FINE, &format!("{EDF} {EXACT}"))?;
    let loads = [1000, 1000, 1001].map(|uid| Load::start_as(uid, "--kernel-us 500 --wait block"));
    let [one, two, other] = loads;
    let (one, two, other) = (one?, two?, other?);
    stage.wait_until_all_measured([&one, &two, &other])?;
    set(uapi::Spec {
        subject: uapi::SUBJECT_USER,
        id: 1000,
        ..reserve(0, uapi::RESERVE_CBS, 4_000, 20_000)
    })?;
    std::thread::sleep(Duration::from_millis(500));
    Truth::reset()?;
    // 300 periods: one more or less of them is a fifteenth of a point.
    std::thread::sleep(Duration::from_secs(6));
    let truth = Truth::read()?;
    let kernels = [&one, &two].map(|load| truth.usage(load.pid()).commands);
    let served = specs()?.first().copied().ok_or("nothing is listed")?;
    // A submission is charged from its window to the read that shows its end.
    let each_ns = served.used_ns / served.served;
    let charged = 100.0 * (kernels.iter().sum::<u64>() * each_ns) as f64 / truth.window_ns as f64;
    let rest = truth.busy_share(other.pid());
    println!("# {kernels:?} kernels, charged {charged:.2} %, the other has {rest:.2}");
    within("percent charged", charged, 19.0..20.5)?;
    // They take turns while both fit what is left of the reserve. In each period an odd number may fit,
    // and at its end the expected cost of the one whose turn it is may not fit where that of the other,
    // without a switch, does: two submissions more for one of them.
    let periods = truth.window_ns as f64 / 20e6;
    let more = kernels[0].abs_diff(kernels[1]) as f64 / periods;
    within("submissions more in a period", more, ..=2.0)?;
    within("share of the other user", rest, 0.5..)?;
    drop((one, two, other));
    stage.teardown()
}

/// Frames of a user beside five clients with kernels of 3 ms.
fn frames_beside_hogs(spec: Option<uapi::Spec>) -> Result<Frames, String> {
    let stage = Stage::set(FINE, &format!("{EDF} {EXACT}"))?;
    let hogs = ["--kernel-us 3000 --wait block"; 5].map(Load::start);
    let hogs: Vec<Load> = hogs.into_iter().collect::<Result<_, _>>()?;
    stage.wait_until_all_measured(&hogs)?;
    if let Some(spec) = spec {
        set(uapi::Spec {
            subject: uapi::SUBJECT_USER,
            id: 1000,
            ..spec
        })?;
    }
    let frames = Load::start_as(1000, FRAMES)?;
    std::thread::sleep(Duration::from_secs(4));
    let frames = frames.stop()?.summary.frames.ok_or("no frames")?;
    println!("# {frames:?}, {:?}", specs()?);
    Load::stop_all(hogs)?;
    stage.teardown()?;
    Ok(frames)
}

fn reserve_keeps_the_frames_of_a_client_in_time_beside_hogs() -> Verdict {
    let without = frames_beside_hogs(None)?;
    ensure!(without.late > without.count / 2, "{without:?}");
    // Four kernels: as one submission, or as four.
    let promise = uapi::Spec {
        commands: 4,
        ..firm(0, 3_000, 10_000, 2_500)
    };
    let with = frames_beside_hogs(Some(promise))?;
    ensure!(with.late == 0 && with.count > 150, "{with:?}");
    Ok(())
}

fn priority_that_is_set_counts_instead_of_nice() -> Verdict {
    let stage = Stage::set(FINE, &format!("policy=none dispatch=prio {EXACT}"))?;
    let loads = ["--kernel-us 1000 --depth 3 --wait block"; 2].map(Load::start);
    let [one, two] = loads;
    let (one, two) = (one?, two?);
    stage.wait_until_all_measured([&one, &two])?;
    for (first, second) in [(&one, &two), (&two, &one)] {
        set(prio(first.pid(), 30, uapi::MODE_PRT))?;
        set(prio(second.pid(), 5, uapi::MODE_PRT))?;
        let shares = truth::shares([first.pid(), second.pid()], 300, 1_500)?;
        println!("# {shares:.3?}");
        ensure!(shares[0] > 4.0 * shares[1], "{shares:?}");
    }
    drop((one, two));
    stage.teardown()
}

fn priority_that_is_set_leaves_the_floor() -> Verdict {
    let stage = Stage::set(LAZY, "policy=none dispatch=prio")?;
    let mut low = Caller::with_channels(1)?;
    low.ask("store 100")?;
    let hog = Load::start("--kernel-us 3000 --depth 4 --wait block")?;
    stage.wait_until_measured(hog.pid())?;
    set(prio(hog.pid(), 39, uapi::MODE_PRT))?;
    for _ in 0..2 {
        let took_us = low.ask("store 100")?[0];
        println!("# store took {took_us} us");
        within("us of a store", took_us, 900_000..1_200_000)?;
    }
    drop((hog, low));
    stage.teardown()
}

fn two_submissions_of_a_client_in_mode_ht_are_in_flight() -> Verdict {
    let stage = Stage::set(LAZY, "policy=none dispatch=prio")?;
    let mut caller = Caller::with_channels(1)?;
    caller.ask("store 1000")?;
    for (mode, waits) in [(uapi::MODE_PRT, true), (uapi::MODE_HT, false)] {
        set(prio(caller.pid(), 20, mode))?;
        std::thread::sleep(Duration::from_millis(300));
        caller.ask("launch 100000")?;
        // Longer than a window.
        std::thread::sleep(Duration::from_millis(5));
        let begin = Instant::now();
        caller.ask("launch 1000")?;
        let took = begin.elapsed();
        println!("# mode {mode}: {took:?}");
        ensure!(
            (took > Duration::from_millis(50)) == waits,
            "mode {mode}: {took:?}"
        );
    }
    drop(caller);
    stage.teardown()
}

fn promise_that_a_long_command_endangers_is_refused_with_its_name() -> Verdict {
    let stage = Stage::set(LAZY, EDF)?;
    let mut long = Caller::with_channels(1)?;
    let short = Caller::with_channels(1)?;
    // The second is decided on after the first has ended: its length is known then.
    for _ in 0..2 {
        long.ask("store 20000")?;
    }
    std::thread::sleep(Duration::from_millis(100));
    let calls = Calls::open()?;
    let wanted = on_all(firm(short.pid(), 1_000, 10_000, 900));
    let (result, refusal) = calls.set_spec(&wanted);
    println!("# {refusal}");
    ensure!(result == Err(Errno::EINVAL), "{result:?}");
    ensure!(refusal.code == uapi::REFUSED_COMMAND, "{refusal:?}");
    ensure!(refusal.value == u64::from(long.pid()), "{refusal:?}");
    ensure!((19_900..30_000).contains(&refusal.max), "{refusal:?}");
    ensure!(specs()?.is_empty(), "a refusal set something");
    // What it says would do does.
    set(firm(short.pid(), 1_000, refusal.min, 900))?;
    let (result, refusal) = calls.set_spec(&on_all(reserve(
        long.pid(),
        uapi::RESERVE_PE,
        95_000,
        100_000,
    )));
    ensure!(result == Err(Errno::EINVAL), "{result:?}");
    ensure!(refusal.code == uapi::REFUSED_PROMISES, "{refusal:?}");
    ensure!(specs()?.len() == 1, "{:?}", specs()?);
    // Its own commands do not keep it waiting.
    let (result, refusal) = calls.set_spec(&cleared(short.pid()));
    ensure!(result.is_ok(), "{refusal}");
    set(firm(long.pid(), 5_000, 10_000, 20_000))?;
    // A process that has ended endangers nothing, also if no decision has been made since.
    let (result, refusal) = calls.set_spec(&cleared(long.pid()));
    ensure!(result.is_ok(), "{refusal}");
    let (result, _) = calls.set_spec(&wanted);
    ensure!(result == Err(Errno::EINVAL), "{result:?}");
    // The end of the first forces a decision, that of the other one soon after does not.
    drop(Caller::with_channels(1)?);
    drop(long);
    let (result, refusal) = calls.set_spec(&wanted);
    ensure!(result.is_ok(), "{refusal}");
    drop((short, calls));
    stage.teardown()
}

/// Deadlines that were missed: promised ones, and void ones for a foreign command.
fn missed(spec: &uapi::ListedSpec) -> (u64, u64) {
    (spec.misses.promised, spec.misses.foreign)
}

fn deadline_behind_a_long_command_is_void_and_waits_have_their_causes() -> Verdict {
    let stage = Stage::set(LAZY, &format!("{EDF} {EXACT}"))?;
    let mut long = Caller::with_channels(1)?;
    let mut short = Caller::with_channels(1)?;
    // Both lengths are known then.
    for _ in 0..2 {
        long.ask("store 1000")?;
        short.ask("store 500")?;
    }
    set(firm(short.pid(), 2_000, 20_000, 1_000))?;
    let listed = || {
        specs()?
            .first()
            .copied()
            .ok_or("nothing is listed".to_string())
    };
    // Commands of 1 ms keep it waiting, and it is in time.
    for _ in 0..5 {
        long.ask("launch 1000")?;
        short.ask("store 500")?;
    }
    ensure!(missed(&listed()?) == (0, 0), "{:?}", listed()?);
    // Its deadline bears 15.3 ms beside what is promised to it.
    let trace = Trace::of(&["loga"], "mono")?;
    let listener = Calls::open()?;
    let kinds = [
        uapi::EVENT_MISSED,
        uapi::EVENT_VOID,
        uapi::EVENT_EXCEEDED,
        uapi::EVENT_BREACHED,
    ];
    let mask = kinds.iter().fold(0, |mask, kind| mask | 1 << kind);
    listener
        .subscribe(mask)
        .map_err(|errno| errno.to_string())?;
    long.ask("launch 60000")?;
    std::thread::sleep(Duration::from_millis(5));
    short.ask("store 500")?;
    // The completion thread sees its end after the client.
    let begin = Instant::now();
    let mut spec = listed()?;
    while missed(&spec) == (0, 0) && begin.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(10));
        spec = listed()?;
    }
    println!("# {spec:?}");
    ensure!(missed(&spec) == (0, 1), "{spec:?}");
    let events = trace.read()?;
    let exceeds: Vec<_> = named(&events, "loga_submission_exceed").collect();
    let [exceed] = exceeds[..] else {
        return Err(format!("{} submissions were too long", exceeds.len()));
    };
    let (used, bears) = (exceed.count("used_ns")?, exceed.count("bears_ns")?);
    println!("# {used} ns, its deadline bears {bears} ns");
    // From the window to the read that shows the end: some 60 us, and 200 us between two reads.
    within("ns of the long one", used, 60_000_000..60_500_000)?;
    // 90 % of 20 ms, less 2 ms and 11 times 60 us.
    within("ns that it bears", bears, 15_339_000..=15_340_000)?;
    // Its client waits until four fifths and a half of the time have paid for that.
    let begin = Instant::now();
    long.ask("launch 100")?;
    let waited = begin.elapsed();
    println!("# the long one waited {waited:?}");
    // CAST: less than a minute.
    within(
        "us until its next turn",
        waited.as_micros() as u64,
        20_000..60_000,
    )?;
    // Told with the next polling period.
    let begin = Instant::now();
    let mut told = Vec::new();
    while told.len() < 2 && begin.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(10));
        told.extend(listener.events()?);
    }
    drop(listener);
    let told: Vec<_> = told
        .iter()
        .map(|one| (one.pid.unsigned_abs(), one.kind, one.value))
        .collect();
    let void = (short.pid(), uapi::EVENT_VOID, 1);
    let exceeded = (long.pid(), uapi::EVENT_EXCEEDED, 1);
    let both = told.contains(&void) && told.contains(&exceeded);
    ensure!(
        told.len() == 2 && both,
        "{told:?}, not {void:?} and {exceeded:?}"
    );
    let stat = stage.stat()?;
    ensure!((stat.missed, stat.void_foreign) == (0, 1), "{stat:?}");
    let client = client_of(&stat, short.pid());
    let client = client.ok_or("no client")?;
    println!("# {client:?}");
    // It waited for what was on the engine before.
    let running_ms = client.submission_wait_running_ns / 1_000_000;
    within("running ms", running_ms, 50..80)?;
    let budget_us = client.submission_wait_budget_ns / 1_000;
    // And now for its reserve, of which 2 ms are left: each further 2 ms are 20 ms later.
    let before = listed()?.used_ns;
    let begin = Instant::now();
    for _ in 0..12 {
        short.ask("store 500")?;
    }
    let used_us = (listed()?.used_ns - before) / 1_000;
    // CAST: less than a minute.
    let elapsed_us = begin.elapsed().as_micros() as u64;
    let stat = stage.stat()?;
    let client = client_of(&stat, short.pid());
    let client = client.ok_or("no client")?;
    println!("# {client:?}");
    let more_us = client.submission_wait_budget_ns / 1_000 - budget_us;
    // What ran, but for the last one, whose end may not have been seen; and at most what was no wait.
    within("us charged", used_us, 5_500..=elapsed_us - more_us)?;
    // All but two of the periods that pay for them, less what runs in those; all of them at most.
    let most_us = 10 * used_us;
    within(
        "budget us",
        more_us,
        most_us.saturating_sub(45_000)..=most_us,
    )?;
    let parts = client.submission_wait_running_ns + client.submission_wait_budget_ns;
    let parts = parts + client.submission_wait_order_ns + client.submission_wait_linger_ns;
    ensure!(parts == client.submission_wait_ns, "{client:?}");
    drop((long, short));
    stage.teardown()
}
