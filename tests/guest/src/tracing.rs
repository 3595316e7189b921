// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of the trace events, compared with the model's log and LoGA's figures.

use crate::caller::{Caller, SOON};
use crate::ktap::{ensure, Verdict};
use crate::limits::{within, Sample};
use crate::load::Load;
use crate::stage::{Stage, EXACT, FINE, LAZY, LONG_PHASES};
use crate::throttling::throttled_hog;
use crate::tracefs::{Event, Trace};
use crate::truth::Truth;
use crate::{tracefs, truth};
use loga_cli::stat::Client;
use std::collections::BTreeMap;
use std::time::Duration;

crate::ktap::tests![
    trace_of_switches_matches_the_models_log: timed,
    trace_tells_the_life_of_client_and_channel,
    trace_of_holding_pairs_up: timed,
    trace_says_why_all_clients_run,
    work_periods_have_the_standard_format,
    work_periods_keep_the_rules_and_match_the_model: timed,
    work_periods_of_long_phases_are_cut: timed,
];

/// Longest period of one `gpu_work_period`.
const MAX_PERIOD_NS: u64 = 1_000_000_000;

/// The events of one name.
pub(crate) fn named<'a>(events: &'a [Event], name: &'a str) -> impl Iterator<Item = &'a Event> {
    events.iter().filter(move |event| event.name == name)
}

/// How long each channel ran between the first switch of the trace and the last, and that span.
fn ran_by_channel(events: &[Event]) -> Result<(BTreeMap<i64, u64>, std::ops::Range<u64>), String> {
    let mut ran: BTreeMap<i64, u64> = BTreeMap::new();
    let mut last: Option<(u64, i64)> = None;
    let mut first = None;
    for event in named(events, "loga_context_switch") {
        let (at, prev, next) = (
            event.count("at_ns")?,
            event.number("prev_chid")?,
            event.number("next_chid")?,
        );
        match last {
            Some((since, chid)) if chid == prev => *ran.entry(chid).or_default() += at - since,
            Some((_, chid)) => return Err(format!("from {chid} to {next} by way of {prev}")),
            None => first = Some(at),
        }
        last = Some((at, next));
    }
    let (Some(from), Some((to, _))) = (first, last) else {
        return Err("no context switch in the trace".to_owned());
    };
    Ok((ran, from..to))
}

fn trace_of_switches_matches_the_models_log() -> Verdict {
    let stage = Stage::set(
        FINE,
        &format!("{EXACT} poll_ms=100 ratio=1 randomize=0 accounting=burst"),
    )?;
    let loads = [
        Load::start("--kernel-us 250 --channels 1 --wait block")?,
        Load::start("--kernel-us 100 --sleep-us 300 --channels 1 --wait block")?,
    ];
    stage.wait_until_all_measured(&loads)?;
    Truth::reset()?;
    let trace = Trace::of(&["loga"], "mono")?;
    std::thread::sleep(Duration::from_millis(900));
    let events = trace.read()?;
    let log = truth::log()?;
    let begin = position(&events, "loga_phase_begin", 0)?;
    let longest = phases(&events[begin + 1..])
        .max_by_key(|phase| phase.len())
        .ok_or("no whole phase")?;
    let (throttled, span) = ran_by_channel(longest)?;
    let mut real: BTreeMap<i64, u64> = BTreeMap::new();
    for run in log.iter().map(|entry| entry.interval) {
        let part = run
            .end
            .min(span.end)
            .saturating_sub(run.start.max(span.start));
        *real.entry(i64::from(run.chid.0)).or_default() += part;
    }
    real.retain(|_, time| *time > 0);
    println!(
        "# {} ns; trace {throttled:?}, model {real:?}",
        span.end - span.start
    );
    for (chid, real) in &real {
        let seen = throttled.get(chid).copied().unwrap_or(0);
        let error = seen.abs_diff(*real) as f64 / (span.end - span.start) as f64 * 100.0;
        within("percent off the model's", error, ..1.0)?;
    }
    let channels = throttled.keys().filter(|chid| **chid >= 0).count();
    ensure!(
        channels == real.len(),
        "{channels} channels, not {}",
        real.len()
    );
    for phase in named(&events, "loga_phase_end") {
        let sum = phase.count("ran_ns")? + phase.count("idle_ns")? + phase.count("unknown_ns")?;
        ensure!(
            phase.count("length_ns")? == sum,
            "phase does not add up: {phase:?}"
        );
    }
    drop(trace);
    drop(loads);
    stage.teardown()
}

/// Position of the first event of this name, from `start` on.
fn position(events: &[Event], name: &str, start: usize) -> Result<usize, String> {
    let found = events[start..].iter().position(|event| event.name == name);
    found
        .map(|at| at + start)
        .ok_or_else(|| format!("no {name} in the trace"))
}

/// The events of each polling phase that has an end.
fn phases(events: &[Event]) -> impl Iterator<Item = &[Event]> {
    let parts = events.split(|event| event.name == "loga_phase_begin");
    parts.filter(|part| part.iter().any(|event| event.name == "loga_phase_end"))
}

fn trace_tells_the_life_of_client_and_channel() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let trace = Trace::of(&["loga"], "mono")?;
    let mut caller = Caller::with_channels(3)?;
    caller.ask("run 200 100")?;
    let client = stage.client(caller.pid())?.ok_or("no client")?;
    caller.ask("destroy 2")?;
    let pid = caller.pid();
    // A freed channel is noticed at the next decision.
    let has_two = |client: &Client| client.channels == 2;
    stage.wait_for_client(pid, SOON, "seen to free a channel", has_two)?;
    caller.send("quit")?;
    caller.wait()?;
    stage.wait_until_gone(pid)?;
    let events = trace.read()?;
    let of_client = |event: &&Event| event.count("client") == Ok(client.id);
    let created: Vec<&Event> = named(&events, "loga_client_create")
        .filter(of_client)
        .collect();
    let [created] = created[..] else {
        return Err(format!("{} creations of the client", created.len()));
    };
    ensure!(
        created.count("pid")? == u64::from(pid),
        "other pid: {created:?}"
    );
    ensure!(
        created.text("comm")? == "loga-guest",
        "other name: {created:?}"
    );
    let mut chids = Vec::new();
    for event in named(&events, "loga_channel_create").filter(of_client) {
        chids.push(event.count("chid")?);
    }
    ensure!(chids.len() == 3, "channels {chids:?} were created");
    let mut gone = Vec::new();
    for event in named(&events, "loga_channel_destroy").filter(of_client) {
        gone.push(event.count("chid")?);
    }
    ensure!(
        gone.first() == chids.get(2),
        "{gone:?} went, {chids:?} came"
    );
    gone.sort_unstable();
    chids.sort_unstable();
    ensure!(gone == chids, "{gone:?} went, {chids:?} came");
    let ends: Vec<&Event> = named(&events, "loga_client_destroy")
        .filter(of_client)
        .collect();
    let [end] = ends[..] else {
        return Err(format!("{} ends of the client", ends.len()));
    };
    ensure!(end.count("measured_ns")? > 0, "nothing measured: {end:?}");
    drop(trace);
    stage.teardown()
}

fn trace_of_holding_pairs_up() -> Verdict {
    let stage = Stage::set(LAZY, LONG_PHASES)?;
    let trace = Trace::of(&["loga"], "mono")?;
    let (mut hog, light) = throttled_hog(&stage, 1500)?;
    hog.answer(Duration::from_secs(10))?;
    let stat = stage.stat()?;
    let events = trace.read()?;
    let (revokes, restores) = (
        named(&events, "loga_gate_revoke").count() as u64,
        named(&events, "loga_gate_restore").count() as u64,
    );
    ensure!(
        revokes == stat.revokes && restores == stat.restores && revokes > 0,
        "{revokes} revokes and {restores} restores in the trace, {} and {} counted",
        stat.revokes,
        stat.restores
    );
    let mut throttled = false;
    for event in &events {
        if !["loga_gate_revoke", "loga_gate_restore"].contains(&event.name.as_str()) {
            continue;
        }
        ensure!(
            event.count("pid")? == u64::from(hog.pid()),
            "not the hog: {event:?}"
        );
        throttled = !throttled;
        ensure!(
            throttled == (event.name == "loga_gate_revoke"),
            "out of turn: {event:?}"
        );
    }
    let begun = named(&events, "loga_fault_wait_begin").count();
    let mut waited = 0;
    let mut ended = 0;
    for event in named(&events, "loga_fault_wait_end") {
        ensure!(event.number("result")? == 0, "not released: {event:?}");
        waited += event.count("waited_ns")?;
        ended += 1;
    }
    println!(
        "# {revokes} revokes, {ended} faults waited {} ms",
        waited / 1_000_000
    );
    ensure!(
        begun == ended && ended > 0,
        "{begun} waits began, {ended} ended"
    );
    within("ns waited altogether", waited, 50_000_001..)?;
    let decided = named(&events, "loga_decision_make").count() as u64;
    ensure!(
        decided > 0 && decided <= stat.decisions,
        "{decided} decisions"
    );
    drop(trace);
    drop((hog, light));
    stage.teardown()
}

fn trace_says_why_all_clients_run() -> Verdict {
    let stage = Stage::set(LAZY, LONG_PHASES)?;
    let (mut hog, light) = throttled_hog(&stage, 20000)?;
    let trace = Trace::of(&["loga"], "mono")?;
    stage.set_lost(true)?;
    std::thread::sleep(Duration::from_millis(500));
    let events = trace.read();
    hog.kill()?;
    drop(light);
    stage.set_lost(false)?;
    let events = events?;
    let reasons: Vec<&str> = named(&events, "loga_gpu_fallback")
        .map(|event| event.text("reason"))
        .collect::<Result<_, _>>()?;
    ensure!(reasons == ["gpu-lost"], "reasons {reasons:?}");
    drop(trace);
    stage.teardown()
}

fn work_periods_have_the_standard_format() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let format = tracefs::read("events/power/gpu_work_period/format")?;
    for field in [
        "field:u32 gpu_id;\toffset:8;\tsize:4;\tsigned:0;",
        "field:u32 uid;\toffset:12;\tsize:4;\tsigned:0;",
        "field:u64 start_time_ns;\toffset:16;\tsize:8;\tsigned:0;",
        "field:u64 end_time_ns;\toffset:24;\tsize:8;\tsigned:0;",
        "field:u64 total_active_duration_ns;\toffset:32;\tsize:8;\tsigned:0;",
        "\"gpu_id=%u uid=%u start_time_ns=%llu end_time_ns=%llu total_active_duration_ns=%llu\"",
    ] {
        ensure!(format.contains(field), "no {field:?} in {format}");
    }
    stage.teardown()
}

/// Checks the rules of `gpu_work_period`; returns per user the active time, and the time from
/// the first period's start to the last one's end.
fn check_rules(events: &[Event]) -> Result<(BTreeMap<u64, u64>, u64), String> {
    let mut active: BTreeMap<u64, u64> = BTreeMap::new();
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut first, mut end) = (u64::MAX, 0);
    for event in named(events, "gpu_work_period") {
        let (uid, from, to, time) = (
            event.count("uid")?,
            event.count("start_time_ns")?,
            event.count("end_time_ns")?,
            event.count("total_active_duration_ns")?,
        );
        ensure!(
            from < to && to - from <= MAX_PERIOD_NS,
            "length of {event:?}"
        );
        ensure!(
            time <= to - from,
            "active for longer than it lasted: {event:?}"
        );
        // The trace's clock has microseconds.
        ensure!(
            event.at_ns + 1000 >= to,
            "reported before its end: {event:?}"
        );
        ensure!(
            event.at_ns <= to + MAX_PERIOD_NS,
            "reported too late: {event:?}"
        );
        let before = last.insert(uid, to).unwrap_or(0);
        ensure!(before <= from, "overlaps the one before: {event:?}");
        *active.entry(uid).or_default() += time;
        first = first.min(from);
        end = end.max(to);
    }
    ensure!(!active.is_empty(), "no gpu_work_period");
    Ok((active, end - first))
}

fn work_periods_keep_the_rules_and_match_the_model() -> Verdict {
    // Phases of equal lengths would poll the same part of a round of the loads every time.
    let stage = Stage::set(FINE, &format!("randomize=1 {EXACT}"))?;
    let loads = [
        Load::start("--kernel-us 300 --wait block --channels 1")?,
        Load::start("--kernel-us 100 --wait block --channels 1")?,
        Load::start_as_user("--kernel-us 200 --wait block --channels 2")?,
    ];
    stage.wait_until_all_measured(&loads)?;
    Truth::reset()?;
    let trace = Trace::of(&["power/gpu_work_period"], "mono_raw")?;
    std::thread::sleep(Duration::from_secs(2));
    let events = trace.read()?;
    let truth = Truth::read()?;
    let (active, span) = check_rules(&events)?;
    let periods = shares_of_periods(&events)?;
    let mut real: BTreeMap<u64, f64> = BTreeMap::new();
    for (load, user) in loads.iter().zip([0, 0, 1000]) {
        *real.entry(user).or_default() += truth.ran_share(load.pid());
    }
    ensure!(active.keys().eq(real.keys()), "other users: {active:?}");
    for (uid, real) in real {
        let seen = active[&uid] as f64 / span as f64;
        println!(
            "# user {uid}: {:.2} %, model {:.2} %",
            seen * 100.0,
            real * 100.0
        );
        // What phases see differs from phase to phase, as rounds of the loads are cut.
        let sample = Sample::of(periods.get(&uid).into_iter().flatten().copied())?;
        sample.check(
            &format!("percent of user {uid}"),
            real * 100.0..=real * 100.0,
        )?;
    }
    drop(trace);
    drop(loads);
    stage.teardown()
}

/// Percentages of the periods for which users were active, by user.
fn shares_of_periods(events: &[Event]) -> Result<BTreeMap<u64, Vec<f64>>, String> {
    let mut shares: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for event in named(events, "gpu_work_period") {
        let length = event.count("end_time_ns")? - event.count("start_time_ns")?;
        let active = event.count("total_active_duration_ns")?;
        let share = 100.0 * active as f64 / length as f64;
        shares.entry(event.count("uid")?).or_default().push(share);
    }
    Ok(shares)
}

fn work_periods_of_long_phases_are_cut() -> Verdict {
    // Cycles of 2.4 s, of which 1.9 s can be reported in time.
    let stage = Stage::set(LAZY, "poll_ms=400 ratio=5 randomize=0")?;
    let load = Load::start("--kernel-us 500 --wait block --channels 1")?;
    stage.wait_until_measured(load.pid())?;
    let trace = Trace::of(&["power/gpu_work_period"], "mono_raw")?;
    let decisions = stage.stat()?.decisions;
    std::thread::sleep(Duration::from_millis(3000));
    let events = trace.read()?;
    let decisions = stage.stat()?.decisions - decisions;
    check_rules(&events)?;
    let periods = events.len() as u64;
    ensure!(
        periods == 2 * decisions && periods > 0,
        "{periods} periods in {decisions} decisions"
    );
    drop(trace);
    drop(load);
    stage.teardown()
}
