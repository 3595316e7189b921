// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The checks with the kernel module, one after the other: what Slurm says is compared with
//! what the model notes of its GPUs.

use crate::checks::{same, untouched, Check};
use crate::cluster::until;
use crate::conf::{Behind, NODES};
use crate::machine::{gpu, load, parameters, work, Machine, Ran, Row, ALL};
use crate::stream_checks::LOADS;
use loga::uapi;
use loga_cli::device::Device;
use loga_cli::stat::Stat;
use loga_support::load::Load;
use loga_support::stage::client_of;
use loga_support::truth::{self, Truth};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Users of jobs: `machine.sh` makes them.
const USERS: [u32; ALL as usize] = [1001, 1002, 1003, 1004, 1005, 1006];
/// Loads that differ by less are not told apart.
const APART: f64 = 0.1;
/// Part by which a job's record may differ from the model's log.
const RECORD: f64 = 0.05;
/// Points by which parts of two jobs' GPU time may differ from those of the weights.
const SHARES: f64 = 3.0;
/// TIMEOUT: for a job's program to run.
const SOON: Duration = Duration::from_secs(20);

/// In this order: the controller remembers.
pub(crate) const CHECKS: &[(&str, Check<Machine>)] = &[
    ("each exporter has the GPUs of its node", exported),
    ("jobs land on the GPU that the model notes least of", lands),
    ("node whose GPUs are busy gets a greater weight", weights),
    (
        "six users' jobs at once get a GPU each, and their seconds",
        seconds,
    ),
    ("twelve jobs at once are two on each GPU", spread),
    (
        "job opens its GPU and not the other one of its node",
        confined,
    ),
    (
        "weights of jobs' cgroups divide the GPU, and end with them",
        weighed,
    ),
    ("exporters that are killed change nothing", dead_exporters),
    ("module that is not loaded changes nothing", unloaded),
    ("controller and nodes are sound", sound),
];

fn exported(machine: &Machine) -> Result<(), String> {
    machine.wait_for_all()?;
    let found: Vec<(String, u32)> = machine
        .rows()
        .into_iter()
        .map(|row| (row.node, row.gpu))
        .collect();
    let nodes = NODES.iter().enumerate();
    let all = nodes.flat_map(|(node, name)| Behind::Module.gpus(node).map(|gpu| (name, gpu)));
    // CAST: six.
    let wanted: Vec<(String, u32)> = all
        .map(|(name, gpu)| (name.to_string(), gpu as u32))
        .collect();
    same("rows", found, wanted)
}

/// The GPU of the least score.
fn least(rows: &[Row]) -> Option<u32> {
    let least = rows
        .iter()
        .min_by(|one, other| one.score.total_cmp(&other.score));
    least.map(|row| row.gpu)
}

/// Keeps GPUs busy for these parts of the time, in percent.
fn loads(all: impl IntoIterator<Item = (u32, u32)>) -> Result<Vec<Load>, String> {
    let start = |(gpu, percent)| load(gpu, percent);
    all.into_iter().map(start).collect()
}

/// Parts of the window that programs were on each GPU, by the model.
fn busy() -> Result<Vec<f64>, String> {
    let of = |gpu| {
        let truth = Truth::read_of(gpu)?;
        // CAST: nanoseconds of minutes are exact in a double.
        Ok(1.0 - truth.idle_ns as f64 / truth.window_ns.max(1) as f64)
    };
    (0..ALL).map(of).collect()
}

fn lands(machine: &Machine) -> Result<(), String> {
    let mut loads = loads((0..).zip(LOADS))?;
    (0..ALL).try_for_each(Truth::reset_of)?;
    std::thread::sleep(Duration::from_secs(30));
    let (rows, busy) = (machine.rows(), busy()?);
    println!("# busy by the model {busy:.3?}");
    for row in &rows {
        println!("# {} {} {:.3}", row.node, row.gpu, row.score);
    }
    // The best row comes first.
    let of = |row: &Row| usize::try_from(row.gpu).ok().and_then(|gpu| busy.get(gpu));
    for (one, other) in rows
        .iter()
        .flat_map(|one| rows.iter().map(move |other| (one, other)))
    {
        let (busy_one, busy_other) = (of(one).ok_or("no GPU")?, of(other).ok_or("no GPU")?);
        if busy_one + APART < *busy_other && one.score >= other.score {
            return Err(format!("{one:?} is less busy than {other:?}: {busy:?}"));
        }
    }
    lands_on(&machine.run(USERS[0])?, 3)?;
    // The last GPU becomes free.
    drop(loads.pop());
    machine.cluster.forget()?;
    machine.wait_for("GPU 5 is not the best", |rows| least(rows) == Some(5))?;
    lands_on(&machine.run(USERS[1])?, 5)
}

/// That job_submit sent a job to a GPU.
fn lands_on(ran: &Ran, gpu: u32) -> Result<(), String> {
    // CAST: six.
    let node = NODES[gpu as usize / 2];
    let found = (ran.node.as_str(), ran.gpu, ran.job.nodes.as_str());
    same("where it ran", found, (node, gpu, node))
}

fn weights(machine: &Machine) -> Result<(), String> {
    let _loads = loads([0, 1].map(|gpu| (gpu, 90)))?;
    let weight = |node| {
        let weight = machine
            .cluster
            .ask("sinfo", &["-h", "-N", "-p", "main", "-n", node, "-o", "%w"]);
        weight
            .ok()
            .and_then(|weight| weight.trim().parse::<u32>().ok())
    };
    let all = || [weight("n1"), weight("n2"), weight("n3")];
    let heavier = || match all() {
        [Some(first), Some(second), Some(third)] => first > second.max(third),
        _ => false,
    };
    until(Duration::from_secs(120), heavier).map_err(|()| format!("weights {:?}", all()))?;
    println!("# weights {:?}", all());
    // It asks for what job_submit does not add up, so that Slurm alone chooses: the least weight.
    let user = format!("--uid={}", USERS[0]);
    let id = machine.cluster.submit(
        &["--gres=gpu:1", "--cpus-per-gpu=1", &user],
        &work("--kernel-us 1000 --count 20"),
    )?;
    let ran = machine.ran(&id)?;
    same("nodes", ran.job.nodes.as_str(), "(null)")?;
    if ran.node == NODES[0] {
        return Err(format!("it ran on {}", ran.node));
    }
    Ok(())
}

/// Waits until nothing of loads before is left that would matter.
fn calm(machine: &Machine) -> Result<(), String> {
    machine.wait_for("loads are not forgotten", |rows| {
        rows.len() == ALL as usize && rows.iter().all(|row| row.score < 0.1)
    })?;
    machine.cluster.forget()
}

fn seconds(machine: &Machine) -> Result<(), String> {
    calm(machine)?;
    let users = USERS.map(|user| format!("--uid={user}"));
    let options: Vec<[&str; 2]> = users.iter().map(|user| ["--gres=shard:1", user]).collect();
    let options: Vec<&[&str]> = options.iter().map(|options| &options[..]).collect();
    let ids = machine
        .cluster
        .submit_at_once(&options, &work("--kernel-us 4000 --count 1000"))?;
    machine.cluster.wait(&ids)?;
    let mut gpus = Vec::new();
    for id in &ids {
        let ran = machine.ran(id)?;
        gpus.push(ran.gpu);
        // CAST: nanoseconds of minutes are exact in a double.
        let noted = ran.ns as f64 / 1e9;
        println!("# {}; by the model {noted:.3} s", ran.job.comment);
        let said = ran.job.comment.strip_prefix("loga: ").unwrap_or_default();
        let end = format!(" GPU s on {}", ran.node);
        let said = said
            .strip_suffix(&end)
            .and_then(|said| said.parse::<f64>().ok());
        let said = said.ok_or_else(|| format!("its record: {}", ran.job.comment))?;
        if (said / noted - 1.0).abs() > RECORD {
            return Err(format!("{said} s in the record, {noted} s by the model"));
        }
    }
    gpus.sort_unstable();
    same("GPUs", gpus, (0..ALL).collect())
}

fn spread(machine: &Machine) -> Result<(), String> {
    calm(machine)?;
    let options: &[&str] = &["--gres=shard:1", "--uid=1001"];
    let ids = machine
        .cluster
        .submit_at_once(&[options; 12], &work("--kernel-us 4000 --count 100"))?;
    machine.cluster.wait(&ids)?;
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for id in &ids {
        *counts.entry(machine.ran(id)?.gpu).or_default() += 1;
    }
    same(
        "jobs by GPU",
        counts,
        (0..ALL).map(|gpu| (gpu, 2)).collect(),
    )
}

fn confined(machine: &Machine) -> Result<(), String> {
    machine.cluster.forget()?;
    let then = "for gpu in 0 1 2 3 4 5; do \
        throttle --gpu $gpu --count 1 --channels 1 --wait block > /dev/null 2>&1; \
        echo $gpu $?; done";
    let user = format!("--uid={}", USERS[0]);
    let id = machine.cluster.submit(&["--gres=shard:1", &user], then)?;
    let job = machine.cluster.ended(&id)?;
    let mut lines = job.saw.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let given = gpu(words.next().unwrap_or_default(), words.next());
    let given = given.ok_or_else(|| format!("it has no GPU: {}", job.saw))?;
    // A node's slurmd knows of its own GPUs only.
    let neighbour = given ^ 1;
    // That device nodes are missing or cannot be opened.
    let refused = lines.filter_map(|line| line.strip_suffix(" 3")?.parse::<u32>().ok());
    same(&job.saw, refused.collect(), vec![neighbour])?;
    let used = job.saw.lines().any(|line| line == format!("{given} 0"));
    same(&job.saw, used, true)
}

/// Weight of a process on the first GPU, if it is there.
fn weight_of(pid: u32) -> Option<u32> {
    let snapshot = Device::open().and_then(|device| device.snapshot(0)).ok()?;
    client_of(&Stat::new(&snapshot, None), pid).map(|client| client.weight)
}

/// The process of a job that does [`work`], once it has said so.
fn process_of(machine: &Machine, id: &str) -> Option<u32> {
    let path = machine.cluster.folder.join("jobs").join(id);
    fs::read_to_string(path).ok()?.lines().nth(1)?.parse().ok()
}

fn weighed(machine: &Machine) -> Result<(), String> {
    let jobs = [(USERS[0], 3), (USERS[1], 1)].map(|(user, shards)| {
        let (user, gres) = (format!("--uid={user}"), format!("--gres=shard:g0:{shards}"));
        machine
            .cluster
            .submit(&[&gres, &user], &work("--kernel-us 1000 --seconds 10"))
    });
    let [one, other] = jobs;
    let ids = [one?, other?];
    let weights = || {
        let processes = ids.each_ref().map(|id| process_of(machine, id));
        processes.map(|pid| pid.and_then(weight_of))
    };
    let wanted = [Some(300), Some(100)];
    until(SOON, || weights() == wanted).map_err(|()| format!("weights {:?}", weights()))?;
    let processes = ids
        .each_ref()
        .map(|id| process_of(machine, id).unwrap_or(0));
    let cgroup = fs::read_to_string(format!("/proc/{}/cgroup", processes[0]));
    let cgroup = cgroup.map_err(|error| error.to_string())?;
    println!("# {}", cgroup.trim());
    same(&cgroup, cgroup.contains(&format!("/job_{}/", ids[0])), true)?;
    let [share, _] = truth::shares(processes, 1000, 5000)?;
    if (share - 75.0).abs() > SHARES {
        return Err(format!(
            "{share:.1} % of the GPU for three quarters of the shards"
        ));
    }
    machine.cluster.wait(&ids)?;
    let shares = Device::open().and_then(|device| device.shares(0));
    let shares = shares.map_err(|error| error.to_string())?;
    let of_cgroups = shares
        .iter()
        .filter(|share| share.subject == uapi::SUBJECT_CGROUP);
    same("cgroups that have a weight", of_cgroups.count(), 0)?;
    let scope = Path::new("/sys/fs/cgroup/system.slice/n1_slurmstepd.scope");
    let left = ids
        .each_ref()
        .map(|id| scope.join(format!("job_{id}")).exists());
    same("cgroups that are left", left, [false; 2])
}

fn dead_exporters(machine: &Machine) -> Result<(), String> {
    let _loads = loads([0, 1, 4, 5].map(|gpu| (gpu, 90)))?;
    machine.wait_for("GPU 2 or 3 is not the best", |rows| {
        matches!(least(rows), Some(2 | 3))
    })?;
    machine.kill_exporters_from(2)?;
    machine.wait_for("n3 is still in the table", |rows| rows.len() == 4)?;
    machine.cluster.forget()?;
    let ran = machine.run(USERS[0])?;
    same("node", ran.job.nodes.as_str(), "n2")?;
    machine.kill_exporters_from(0)?;
    machine.wait_for("rows without an exporter", <[Row]>::is_empty)?;
    untouched(&machine.run(USERS[0])?.job)?;
    machine.export()?;
    machine.wait_for_all()
}

fn unloaded(machine: &Machine) -> Result<(), String> {
    machine.stage.remove_loga()?;
    let ran = machine.run(USERS[0])?;
    same("comment", ran.job.comment.as_str(), "(null)")?;
    machine.wait_for("rows without a module", <[Row]>::is_empty)?;
    untouched(&machine.run(USERS[0])?.job)?;
    machine.stage.add_loga(&parameters())?;
    machine.wait_for_all()?;
    machine.cluster.forget()?;
    let ran = machine.run(USERS[0])?;
    same("nodes", ran.job.nodes.as_str(), ran.node.as_str())
}

fn sound(machine: &Machine) -> Result<(), String> {
    same(
        "the controller lives",
        machine.cluster.controller_lives(),
        true,
    )?;
    NODES
        .iter()
        .try_for_each(|node| machine.cluster.idle(node))?;
    machine.stage.check_no_fallback()?;
    let log = fs::read_to_string(machine.cluster.folder.join("log/slurmctld"));
    let log = log.map_err(|error| error.to_string())?;
    let complaints: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("error:") && line.contains("lua"))
        .collect();
    same("complaints", complaints, Vec::new())
}
