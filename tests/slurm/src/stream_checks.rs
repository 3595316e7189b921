// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The simulator beside Slurm: the same stream of jobs, placed by both. The exporters say what
//! the simulator's programs do at the time at which a job comes.

use crate::binding_checks::SHOWN;
use crate::checks::same;
use crate::cluster::Cluster;
use crate::conf::{GPUS, NODES};
use loga::placement::{Placement, PPM};
use loga::units::Ns;
use loga_eval::arrivals::{run, Arrival, PoolGpu, Rule};
use loga_eval::scenario::{Client, Phase, Span};
use std::fs;

/// GPUs of the cluster.
const ALL: usize = NODES.len() * GPUS;
/// What is on each GPU before the first job, in percent of its time, here and with the module: the last
/// GPU of the second node has the least.
pub(crate) const LOADS: [u32; ALL] = [90, 75, 50, 20, 90, 40];
/// What jobs ask of a GPU alone, in percent.
const JOBS: [u32; 8] = [50, 10, 80, 30, 5, 60, 20, 40];
/// Times of the simulated programs, and of what is known of them, are divided by this.
const SHORTER: u64 = 10;
/// Between two jobs: by then a choice is a part of the load.
const GAP_MS: u64 = 60_000 / SHORTER;
/// Kernels of programs.
const KERNEL_US: u64 = 4_000;

/// A program that is on a GPU for a part of its time, in percent, until all jobs are placed.
fn program(gpu: Option<usize>, percent: u32, at_ms: u64, last_ms: u64) -> Arrival {
    let pause = KERNEL_US * u64::from(100 - percent) / u64::from(percent);
    let phase = Phase::new(Span::us(pause), Span::us(KERNEL_US));
    Arrival {
        application: 0,
        node: 0,
        gpu,
        known: false,
        client: Client {
            channels: 1,
            repeat: Some((last_ms - at_ms) * 1_000 / (pause + KERNEL_US)),
            arrive: Ns::from_ms(at_ms),
            ..Client::new("job", vec![phase])
        },
    }
}

/// Jobs of these parts in percent, so far apart, beside these loads, which are there before.
fn stream(loads: &[u32], jobs: &[u32], gap_ms: u64) -> Vec<Arrival> {
    let first = 60_000 / SHORTER;
    // CAST: some.
    let last = first + gap_ms * jobs.len() as u64 + 1_000;
    let loads = loads.iter().enumerate();
    let loads = loads.map(|(gpu, percent)| program(Some(gpu), *percent, 0, last));
    let jobs = (0u64..).zip(jobs);
    let jobs = jobs.map(|(nth, percent)| program(None, *percent, first + gap_ms * nth, last));
    loads.chain(jobs).collect()
}

/// Where the simulator places them, and how many times as long as alone each is expected to take there,
/// in millionths.
fn simulated(arrivals: &[Arrival]) -> Result<Vec<(usize, u64)>, String> {
    let place = |gpu| PoolGpu {
        node: gpu / GPUS,
        speed: PPM,
        packed: false,
    };
    let places: Vec<PoolGpu> = (0..ALL).map(place).collect();
    let rule = Rule::of(Placement::Wait).shortened(SHORTER);
    let placed = run(&places, arrivals, rule, 1).map_err(|error| error.to_string())?;
    Ok(placed.iter().map(|one| (one.gpu, one.expected)).collect())
}

/// The scores of all GPUs when the last of these programs comes: what it would be expected to take on
/// each.
fn scores(arrivals: &[Arrival]) -> Result<[[f64; GPUS]; NODES.len()], String> {
    let mut scores = [[0.0; GPUS]; NODES.len()];
    for gpu in 0..ALL {
        let mut arrivals = arrivals.to_vec();
        let last = arrivals.last_mut().ok_or("no programs")?;
        last.gpu = Some(gpu);
        let placed = simulated(&arrivals)?;
        let expected = placed.last().ok_or("no programs")?.1;
        // CAST: far below 2^53.
        let slowdown = expected.saturating_sub(PPM) as f64 / PPM as f64;
        scores[gpu / GPUS][gpu % GPUS] = slowdown / (1.0 + slowdown);
    }
    Ok(scores)
}

/// Where Slurm was told to put a job.
fn chosen(cluster: &Cluster, id: &str) -> Result<usize, String> {
    let job = cluster.ended(id)?;
    let node = NODES.iter().position(|name| *name == job.nodes);
    let node = node.ok_or_else(|| format!("job {id} was left alone: {job:?}"))?;
    let gpu = job.shards.strip_prefix("gres:shard:g");
    let gpu = gpu.and_then(|rest| rest.split(':').next()?.parse::<usize>().ok());
    Ok(node * GPUS + gpu.ok_or_else(|| format!("job {id}: {}", job.shards))?)
}

/// The first row of the table that these scores make.
fn best(scores: &[[f64; GPUS]; NODES.len()]) -> usize {
    // The agent orders by millionths.
    let rounded = |score: &f64| (score * 1e6).round();
    let all = scores.iter().flatten().map(rounded).enumerate();
    all.min_by(|one, other| one.1.total_cmp(&other.1))
        .map_or(0, |one| one.0)
}

/// Jobs that come a minute apart, each when the exporters show the ones before it. The simulator places
/// them by the rule of the table, the least expected slowdown of the job.
pub(crate) fn one_by_one(cluster: &Cluster) -> Result<(), String> {
    let mut all = stream(&LOADS, &JOBS, GAP_MS);
    // A minute passes in the simulator between two jobs, and a second here.
    let claim = cluster.folder.join("claim");
    fs::write(&claim, "0\n").map_err(|error| error.to_string())?;
    cluster.forget()?;
    let (mut ids, mut wanted, mut by_wait) = (Vec::new(), Vec::new(), 0);
    for nth in LOADS.len()..all.len() {
        let so_far = &all[..=nth];
        let scores = scores(so_far)?;
        let gpu = best(&scores);
        by_wait += usize::from(simulated(so_far)?.last().is_some_and(|one| one.0 == gpu));
        all[nth].gpu = Some(gpu);
        wanted.push(gpu);
        cluster.scores(scores)?;
        cluster.write_table(&[])?;
        ids.push(cluster.submit(&["--gres=shard:1"], &cluster.until_released())?);
    }
    println!(
        "#    policy wait of the simulator and of loga place takes {by_wait} of them there too"
    );
    fs::remove_file(claim).map_err(|error| error.to_string())?;
    compare(cluster, &ids, &wanted)
}

/// Jobs that come within a second to free GPUs, four of each: policy `wait` of the simulator places them
/// there too, in the same order.
pub(crate) fn at_once(cluster: &Cluster) -> Result<(), String> {
    let jobs = [50; ALL * 4];
    let wanted = simulated(&stream(&[], &jobs, 1))?;
    let wanted: Vec<usize> = wanted.iter().map(|one| one.0).collect();
    // They need every shard there is. What the script sees of the jobs before them may be a second
    // old, and Slurm shows it others only when another job has come since.
    std::thread::sleep(SHOWN);
    cluster.run(&[])?;
    cluster.scores([[0.0; GPUS]; NODES.len()])?;
    cluster.forget()?;
    cluster.write_table(&[])?;
    let submit = |_: &u32| cluster.submit(&["--gres=shard:1"], &cluster.until_released());
    let ids: Vec<String> = jobs.iter().map(submit).collect::<Result<_, _>>()?;
    compare(cluster, &ids, &wanted)
}

/// Ends the jobs, and compares where they were.
fn compare(cluster: &Cluster, ids: &[String], wanted: &[usize]) -> Result<(), String> {
    let ids_of: Vec<&str> = ids.iter().map(String::as_str).collect();
    cluster.ask("scancel", &ids_of)?;
    cluster.forget()?;
    let places = ids.iter().map(|id| chosen(cluster, id));
    let places: Vec<usize> = places.collect::<Result<_, _>>()?;
    println!("#    GPUs of the simulator {wanted:?}");
    same("GPUs of the jobs", places.as_slice(), wanted)
}
