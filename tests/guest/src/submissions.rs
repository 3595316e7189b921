// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of what engaged scheduling measures of submissions.

use crate::busy::Busy;
use crate::dispatch::PRIO;
use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::stage::{Stage, EXACT, FINE};
use crate::tracefs::{Event, Trace};
use crate::tracing::named;
use crate::truth::Truth;
use crate::{sysfs, truth};
use std::time::Duration;

crate::ktap::tests![
    trace_has_each_turn_with_what_it_used: timed slow,
    length_beside_work_from_before_dispatch_is_not_learned: timed,
];

fn trace_has_each_turn_with_what_it_used() -> Verdict {
    let medians_us = turns_in_a_trace(1)?;
    within("median us", medians_us[0], 3_000..3_100)?;
    within("median us", medians_us[1], 500..600)?;
    // Threads that are preempted where a window is opened for them store late, or not at all.
    let busy = [0, 1].map(|processor| Busy::on(processor, || {}));
    turns_in_a_trace(4)?;
    drop(busy);
    Ok(())
}

/// Compares the turns of two clients, with kernels of 3 ms and 500 us, with the model's log of some
/// seconds: each end that is traced is one of a kernel. Returns what they used in us, in the median.
fn turns_in_a_trace(seconds: u64) -> Result<[u64; 2], String> {
    let stage = Stage::set(FINE, &format!("{PRIO} {EXACT}"))?;
    let long = Load::start("--kernel-us 3000 --wait block")?;
    let short = Load::start("--kernel-us 500 --wait block")?;
    let clients = [&long, &short].map(|load| stage.wait_until_measured(load.pid()));
    Truth::reset()?;
    let trace = Trace::of(&["loga"], "mono")?;
    std::thread::sleep(Duration::from_secs(seconds));
    let events = trace.read()?;
    let log = truth::commands()?;
    let mut medians_us = [0; 2];
    let loads = clients.into_iter().zip([&long, &short]);
    for ((client, load), median_us) in loads.zip(&mut medians_us) {
        let client = client?.id;
        let own = |event: &&Event| event.count("client") == Ok(client);
        let turns = named(&events, "loga_submission_begin").filter(own);
        let turns: Vec<&Event> = turns.collect();
        let queue = turns.first().ok_or("no turn")?.count("queue")?;
        let ends = named(&events, "loga_submission_end");
        let ends = ends.filter(|event| event.count("queue") == Ok(queue));
        let used = ends.map(|event| Ok((event.at_ns, event.count("used_ns")?)));
        let used: Result<Vec<(u64, u64)>, String> = used.collect();
        let used = used?;
        let of_load: Vec<_> = log.iter().filter(|run| run.pid == load.pid()).collect();
        // A window may close without a store: then there is no end.
        let (mut lengths, mut empty, mut kernels) = (Vec::new(), Vec::new(), 0);
        for (before, end) in used.iter().zip(used.iter().skip(1)) {
            let ended = |run: &&&truth::Command| (before.0..end.0).contains(&run.end_ns);
            let own = of_load.iter().filter(ended).count();
            kernels += own;
            match own {
                0 => empty.push(end),
                _ => lengths.push(end.1),
            }
        }
        lengths.sort_unstable();
        *median_us = lengths.get(lengths.len() / 2).ok_or("no end of a kernel")? / 1_000;
        println!(
            "# {} turns, {} ends, {kernels} kernels between them, {median_us} us in the median, {empty:?}",
            turns.len(),
            used.len(),
        );
        ensure!(
            lengths.len() == kernels,
            "{} ends of kernels, {kernels} kernels",
            lengths.len()
        );
        ensure!(turns.len() >= kernels, "{} turns", turns.len());
        ensure!(empty.is_empty(), "ends of nothing: {empty:?}");
    }
    drop((trace, long, short));
    stage.teardown()?;
    Ok(medians_us)
}

fn length_beside_work_from_before_dispatch_is_not_learned() -> Verdict {
    let stage = Stage::set(FINE, &format!("policy=none dispatch=none {EXACT}"))?;
    let bombs = ["--kernel-us 5000 --wait block"; 5].map(Load::start);
    let bombs: Vec<Load> = bombs.into_iter().collect::<Result<_, _>>()?;
    stage.wait_until_all_measured(&bombs)?;
    // Each has a kernel on the GPU or before it, which the first that is decided on runs beside.
    sysfs::write("dispatch", "prio")?;
    std::thread::sleep(Duration::from_secs(1));
    for bomb in &bombs {
        let client = stage.wait_until_measured(bomb.pid())?;
        let longest_us = client.longest_submission_wait_ns / 1_000;
        println!(
            "# {} submissions, the longest {longest_us} us",
            client.submissions
        );
        within("longest us", longest_us, 5_000..7_000)?;
    }
    Load::stop_all(bombs)?;
    stage.teardown()
}
