// SPDX-License-Identifier: GPL-2.0

//! What passes between the end of a command and the start of the next one, by the module's trace and
//! the model's log. The simulator takes its costs from these figures.

use crate::figure::Findings;
use crate::load::Load;
use crate::stage::{Stage, EXACT, FINE};
use crate::tracefs::{Event, Trace};
use crate::truth;
use loga_model::gpu::Kind;
use loga_results::stats::quantile;
use std::time::Duration;

/// Lengths of kernels, in us.
const LENGTHS_US: [u64; 3] = [33, 100, 1000];
/// The clock of the trace has whole microseconds.
const TICK_NS: u64 = 1_000;
const NAMES: [&str; 4] = [
    "end of a command to its read",
    "read to the thread",
    "thread to the decision",
    "decision to the GPU",
];

/// Two clients of one priority that wait for each of their kernels: the medians of each part.
pub(crate) fn parts(findings: &mut Findings) -> Result<(), String> {
    for length_us in LENGTHS_US {
        let stage = Stage::set(FINE, &format!("policy=none dispatch=prio {EXACT}"))?;
        let line = format!("--kernel-us {length_us} --wait block");
        let loads = [Load::start(&line)?, Load::start(&line)?];
        stage.wait_until_all_measured(&loads)?;
        let trace = Trace::of(
            &[
                "loga/loga_submission_begin",
                "loga/loga_submission_end",
                "loga/loga_fault_wait_end",
            ],
            "mono",
        )?;
        std::thread::sleep(Duration::from_millis(500));
        let log = truth::log()?;
        let events = trace.read()?;
        drop((trace, loads));
        let starts = log.iter().map(|entry| entry.interval.start);
        let runs = log.iter().filter(|entry| entry.interval.kind == Kind::Run);
        let ends = runs.map(|entry| entry.interval.end);
        let parts = split(
            &events,
            &ends.collect::<Vec<_>>(),
            &starts.collect::<Vec<_>>(),
        );
        for (at, name) in NAMES.into_iter().enumerate() {
            let median = quantile(parts.iter().map(|parts| parts[at]), 50);
            let median = median.ok_or("no submission in the trace")?;
            findings.record(&format!("{length_us} us: {name}"), median, "us");
        }
        stage.teardown()?;
    }
    Ok(())
}

/// The parts of each submission, in us, in the order of [`NAMES`]. `ends` and `starts` of commands and
/// switches are in their order.
fn split(events: &[Event], ends: &[u64], starts: &[u64]) -> Vec<[f64; 4]> {
    let times = |name: &str| {
        let own = events.iter().filter(move |event| event.name == name);
        own.map(|event| event.at_ns).collect::<Vec<_>>()
    };
    let first = |all: &[u64], from: u64| all.get(all.partition_point(|at| *at < from)).copied();
    let (woken, begun) = (times("loga_fault_wait_end"), times("loga_submission_begin"));
    let reads = times("loga_submission_end");
    let parts = reads.windows(2).filter_map(|pair| {
        let (read, next) = (pair[0], pair[1]);
        let before = ends.partition_point(|at| *at <= read.saturating_add(TICK_NS));
        let end = *ends.get(before.checked_sub(1)?)?;
        let thread = first(&woken, read)?;
        let decided = first(&begun, thread)?;
        // It may have started within the tick of the decision.
        let started = first(starts, decided)?;
        let times = [end, read, thread, decided, started];
        // What the log does not cover, and stores that did not have to wait, are left out.
        let whole = started < next && thread > read;
        // CAST: microseconds.
        let us = |at: usize| times[at + 1].saturating_sub(times[at]) as f64 / 1e3;
        whole.then(|| std::array::from_fn(us))
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submission_is_split_at_its_read_its_thread_and_its_decision() {
        let lines = [
            "loga-watch-9 [001] ..... 0.000120: loga_submission_end: gpu=0",
            "throttle-71 [000] ..... 0.000140: loga_fault_wait_end: gpu=0",
            "throttle-71 [000] ..... 0.000147: loga_submission_begin: gpu=0",
            "loga-watch-9 [001] ..... 0.000300: loga_submission_end: gpu=0",
            "loga-watch-9 [001] ..... 0.000400: loga_submission_end: gpu=0",
        ];
        let events: Vec<_> = lines.iter().filter_map(|line| Event::parse(line)).collect();
        let parts = split(&events, &[100_000, 290_000], &[50_000, 158_500]);
        // Nothing begins after the other one.
        assert_eq!(parts, [[20.0, 20.0, 7.0, 11.5]]);
    }
}
