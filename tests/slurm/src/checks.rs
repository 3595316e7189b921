// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The checks, one after the other on one cluster.

use crate::binding_checks::{commented, ended_early, freed};
use crate::clock_checks::skewed;
use crate::cluster::{Cluster, Job};
use crate::conf::{GPUS, NODES, SHARDS};
use crate::own_checks::{heterogeneous, last_element, named_like_a_grant};
use crate::record_checks::seconds;
use crate::stream_checks::{at_once, one_by_one};
use crate::table::exporter;
use crate::Outcome;
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::time::Instant;

/// Age of a table that is too old here, in seconds: beyond that of `SLOWER`.
const OLD_S: u64 = 3600;
/// A job that asks for one shard.
pub(crate) const ONE: [&str; 1] = ["--gres=shard:1"];

/// A check, and the cluster that it is made on.
pub(crate) type Check<On> = fn(&On) -> Result<(), String>;

/// In this order: the controller remembers.
pub(crate) const CHECKS: &[(&str, Check<Cluster>)] = &[
    ("jobs land on the node and GPU of the table", lands),
    ("weights of nodes follow their best GPU", weights),
    ("a stale table changes nothing", stale),
    ("a broken table changes nothing", broken),
    (
        "an exporter that is dead, silent or wrong is not in the table",
        dead_exporter,
    ),
    ("a node whose clock is far off is not in the table", skewed),
    ("a drained node is not in the table", drained),
    ("a job that names a node or a type keeps it", named),
    ("a job of another partition stays in it", partition),
    (
        "a job is bound to a node no longer than that is of use",
        freed,
    ),
    (
        "jobs that were cancelled or failed leave nothing",
        ended_early,
    ),
    ("hostile job fields do nothing but to their job", hostile),
    ("thirty jobs at once spread", spread),
    (
        "a stream of jobs lands where the simulator places it",
        one_by_one,
    ),
    ("and so do jobs that come at the same time", at_once),
    ("GPU seconds come into the job's record", seconds),
    (
        "the job's cgroup gets the weight of its shards, and loses it",
        weighed,
    ),
    (
        "a comment gives the weight that the operator allows",
        commented,
    ),
    (
        "the last element of an array has the weight and the record of itself",
        last_element,
    ),
    (
        "and so have the parts of a heterogeneous job",
        heterogeneous,
    ),
    (
        "a name with words of the controller gives no weight",
        named_like_a_grant,
    ),
    ("a task has the environment of its TaskProlog", told),
    ("a job runs and its node stays when loga is dead", dead_loga),
    (
        "the controller lives, and complained of broken tables alone",
        sound,
    ),
];

/// Runs them all; each counts for itself. Between two of them, `settle` ends what the first has begun.
pub(crate) fn run<On>(
    checks: &[(&str, Check<On>)],
    on: &On,
    settle: Check<On>,
    outcome: &mut Outcome,
) {
    for (number, (name, check)) in checks.iter().enumerate() {
        let start = Instant::now();
        let mut held = check(on);
        if number + 1 < checks.len() {
            held = held.and(settle(on));
        }
        outcome.check(name, held);
        if std::env::var_os("LOGA_SLURM_TIMES").is_some() {
            println!("#    {} ms", start.elapsed().as_millis());
        }
    }
}

/// That something is as wanted.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    got: T,
    wanted: T,
) -> Result<(), String> {
    if got == wanted {
        return Ok(());
    }
    Err(format!("{what}: {got:?} instead of {wanted:?}"))
}

/// That a job was put on a node and a GPU.
pub(crate) fn placed(job: &Job, node: &str, gpu: u32, count: u32) -> Result<(), String> {
    same("state", job.state.as_str(), "COMPLETED")?;
    same(
        "where it ran",
        job.saw.as_str(),
        &format!("{node} {gpu} {gpu}"),
    )?;
    same("nodes", job.nodes.as_str(), node)?;
    let wanted = format!("shard:g{gpu}:{count}");
    same("shards", job.shards.get(5..).unwrap_or_default(), &wanted)
}

/// That a job was left alone, and ran.
pub(crate) fn untouched(job: &Job) -> Result<(), String> {
    same("state", job.state.as_str(), "COMPLETED")?;
    same("nodes", job.nodes.as_str(), "(null)")?;
    same("shards", job.shards.get(5..).unwrap_or_default(), "shard:1")
}

fn lands(cluster: &Cluster) -> Result<(), String> {
    cluster.scores([[0.9, 0.8], [0.5, 0.05], [0.7, 0.6]])?;
    cluster.write_table(&[])?;
    placed(&cluster.run(&["--gres=shard:2"])?, "n2", 1, 2)?;
    cluster.scores([[0.9, 0.8], [0.7, 0.9], [0.1, 0.6]])?;
    cluster.write_table(&[])?;
    placed(&cluster.run(&ONE)?, "n3", 0, 1)
}

fn weights(cluster: &Cluster) -> Result<(), String> {
    // The first table of the check before: 10 + 90 times 0.8, 0.05 and 0.6.
    cluster.scores([[0.9, 0.8], [0.5, 0.05], [0.7, 0.6]])?;
    cluster.write_table(&[])?;
    let weights = cluster.ask("sinfo", &["-h", "-N", "-p", "main", "-o", "%N %w"])?;
    same("weights", weights.as_str(), "n1 80\nn2 10\nn3 60\n")?;
    // The third GPU is free, and not in the node's gres.conf.
    cluster.exporter("n2", &exporter(&[0.5, 0.7, 0.0]))?;
    cluster.write_table(&[])?;
    let weight = cluster.ask("sinfo", &["-h", "-N", "-n", "n2", "-p", "main", "-o", "%w"])?;
    same("weight of n2", weight.as_str(), "60\n")?;
    cluster.scores([[0.9, 0.8], [0.5, 0.05], [0.7, 0.6]])?;
    cluster.write_table(&[])?;
    // Slurm's own choice, without a table, is the least weight.
    cluster.age_table(OLD_S)?;
    let job = cluster.run(&ONE)?;
    untouched(&job)?;
    same("node", job.saw.split(' ').next(), Some("n2"))
}

fn stale(cluster: &Cluster) -> Result<(), String> {
    cluster.scores([[0.9, 0.9], [0.9, 0.9], [0.9, 0.1]])?;
    cluster.write_table(&[])?;
    cluster.age_table(OLD_S)?;
    untouched(&cluster.run(&ONE)?)
}

fn broken(cluster: &Cluster) -> Result<(), String> {
    cluster.write_table(&[])?;
    let whole = cluster.table()?;
    let huge = whole.repeat(100_000);
    let tables: [&[u8]; 7] = [
        b"",
        whole.trim_end().as_bytes(),
        &whole.as_bytes()[..whole.len() / 2],
        b"\x00\xff\x00\n",
        huge.as_bytes(),
        b"# loga-slurm-table 2 9999999999999999999999\n",
        b"return os.execute('touch executed')\n",
    ];
    let mut ids = Vec::new();
    for table in tables {
        cluster.replace_table(table)?;
        ids.push(cluster.submit(&ONE, "true")?);
    }
    fs::remove_file(cluster.folder.join("table")).map_err(|error| error.to_string())?;
    ids.push(cluster.submit(&ONE, "true")?);
    for (at, id) in ids.iter().enumerate() {
        untouched(&cluster.ended(id)?).map_err(|why| format!("table {at}: {why}"))?;
    }
    same("executed", cluster.folder.join("executed").exists(), false)
}

/// Lines of the table of a node.
fn rows(cluster: &Cluster, node: &str) -> Result<usize, String> {
    let table = cluster.table()?;
    let begin = format!("{node} ");
    Ok(table
        .lines()
        .filter(|line| line.starts_with(&begin))
        .count())
}

fn dead_exporter(cluster: &Cluster) -> Result<(), String> {
    cluster.scores([[0.9, 0.9], [0.0, 0.0], [0.5, 0.9]])?;
    // Accepts, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let address = silent.local_addr().map_err(|error| error.to_string())?;
    let dead = [
        format!("n2=http://{address}/metrics"),
        "n2=http://127.0.0.1:1/metrics".to_string(),
        "n2=/no/such/file".to_string(),
    ];
    for node in dead {
        cluster.write_table(std::slice::from_ref(&node))?;
        same(
            &node,
            (rows(cluster, "n1")?, rows(cluster, "n2")?),
            (GPUS, 0),
        )?;
    }
    cluster.forget()?;
    placed(&cluster.run(&ONE)?, "n3", 0, 1)?;
    cluster.exporter(
        "n2",
        "loga_up 1\nloga_snapshot_age_seconds 0\nwhat is this?\n",
    )?;
    let output = cluster.write_table(&[])?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    same(
        &said,
        said.contains("n2: no opinion: line 3 is no sample"),
        true,
    )?;
    same("n2", rows(cluster, "n2")?, 0)
}

fn drained(cluster: &Cluster) -> Result<(), String> {
    cluster.scores([[0.0, 0.0], [0.9, 0.9], [0.9, 0.2]])?;
    let drain = ["update", "NodeName=n1", "State=DRAIN", "Reason=test"];
    cluster.ask("scontrol", &drain)?;
    cluster.write_table(&[])?;
    let left = rows(cluster, "n1")?;
    cluster.forget()?;
    let job = cluster.run(&ONE);
    cluster.ask("scontrol", &["update", "NodeName=n1", "State=RESUME"])?;
    same("rows of n1", left, 0)?;
    placed(&job?, "n3", 1, 1)?;
    cluster.idle("n1")?;
    cluster.write_table(&[])?;
    same("rows of n1 after it came back", rows(cluster, "n1")?, GPUS)
}

fn named(cluster: &Cluster) -> Result<(), String> {
    cluster.scores([[0.0, 0.0], [0.9, 0.9], [0.9, 0.9]])?;
    cluster.write_table(&[])?;
    let tries: [&[&str]; 4] = [
        &["--gres=shard:1", "-w", "n2"],
        &["--gres=shard:g1:1"],
        &["--gres=gpu:1"],
        &[],
    ];
    let submit = |options: &&[&str]| cluster.submit(options, "true");
    let ids: Vec<String> = tries.iter().map(submit).collect::<Result<_, _>>()?;
    let jobs = ids.iter().map(|id| cluster.ended(id));
    let jobs: Vec<Job> = jobs.collect::<Result<_, _>>()?;
    let nodes: Vec<&str> = jobs.iter().map(|job| job.nodes.as_str()).collect();
    same("nodes", nodes, vec!["n2", "(null)", "n1", "(null)"])?;
    let saw = |at: usize, word: usize| jobs.get(at).and_then(|job| job.saw.split(' ').nth(word));
    same("node", saw(0, 0), Some("n2"))?;
    same("GPU", saw(1, 1), Some("1"))?;
    let whole = jobs.get(2).map(|job| job.shards.as_str());
    same("a whole GPU", whole, Some("gres:gpu:g0:1"))
}

fn partition(cluster: &Cluster) -> Result<(), String> {
    cluster.forget()?;
    cluster.write_table(&[])?;
    placed(
        &cluster.run(&["--gres=shard:1", "-p", "other"])?,
        "n3",
        0,
        1,
    )
}

fn hostile(cluster: &Cluster) -> Result<(), String> {
    cluster.scores([[0.9, 0.9], [0.9, 0.9], [0.2, 0.9]])?;
    cluster.write_table(&[])?;
    let long = format!("--comment={}", "%s%n\n".repeat(100));
    let features = "--constraint=[os.exit(1)]".to_string();
    let tries: &[&[&str]] = &[
        &["--gres=shard:999999999999"],
        &["--gres=shard:-1"],
        &["--gres=shard:1;os.exit(1)"],
        &["--gres=shard:1,shard:1,shard:g0:1"],
        &["--gres=shard:%s%s%s%n"],
        &["--gres=shard:1", "-p", "%s,'..os.exit(1)..'"],
        &["--gres=shard:1", &features],
        &["--gres=shard:1", "-w", "n[1-999999999]"],
        &["--gres=shard:1", "-N", "4000000000"],
        &["--gres=shard:1", "-n", "4294967293"],
        &["--gres=shard:1", "-c", "65000"],
        &["--gres=shard:1", "--mem=18446744073709551615"],
        &["--gres=shard:1", "-b", "now+1000days"],
        &["--gres=shard:1", "-a", "1-1000"],
        &["--gres=shard:1", "-d", "afterok:999999"],
    ];
    for options in tries {
        // Refused or taken, as by Slurm alone.
        let _ = cluster.submit(options, "true");
    }
    let user = nix::unistd::geteuid().to_string();
    cluster.ask("scancel", &["-u", &user])?;
    cluster.forget()?;
    let job = cluster.run(&["--gres=shard:1", "-J", "$(touch executed)", &long])?;
    placed(&job, "n3", 0, 1)?;
    same("executed", cluster.folder.join("executed").exists(), false)
}

fn spread(cluster: &Cluster) -> Result<(), String> {
    cluster.scores([[0.0; 2]; 3])?;
    cluster.forget()?;
    cluster.write_table(&[])?;
    // None ends before the last one has come: its GPU would have room again.
    let ids = cluster.submit_at_once(&[&ONE[..]; 30], &cluster.until_released())?;
    cluster.release()?;
    cluster.wait(&ids)?;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let (mut chosen, mut left) = (0, 0);
    for id in &ids {
        let job = cluster.ended(id)?;
        same("state", job.state.as_str(), "COMPLETED")?;
        if job.nodes == "(null)" {
            left += 1;
            continue;
        }
        chosen += 1;
        *counts.entry(job.saw).or_default() += 1;
    }
    let room = NODES.len() * GPUS * SHARDS;
    same(
        "jobs that found room",
        (chosen, left),
        (room, ids.len() - room),
    )?;
    let even: Vec<usize> = vec![SHARDS; NODES.len() * GPUS];
    same(
        &format!("{counts:?}"),
        counts.values().copied().collect(),
        even,
    )
}

fn weighed(cluster: &Cluster) -> Result<(), String> {
    let set = cluster.folder.join("set");
    // Of jobs before.
    let _ = fs::remove_file(&set);
    let id = cluster.submit(&["--gres=shard:2"], "true")?;
    same("state", cluster.ended(&id)?.state.as_str(), "COMPLETED")?;
    let path = format!("cgroups/system.slice/slurmstepd.scope/job_{id}");
    let left = cluster.folder.join(path).exists();
    same("the cgroup, in which no step has run, is left", left, false)?;
    let asked = fs::read_to_string(&set).unwrap_or_default();
    let number = asked.split(' ').nth(2).unwrap_or_default().to_string();
    let wanted = format!("set --cgroup {number} --weight 200\nset --cgroup {number} --clear\n");
    same("what was set", asked, wanted)
}

fn told(cluster: &Cluster) -> Result<(), String> {
    // Without the kernel module a task keeps what Slurm gave it, and that is said.
    let id = cluster.submit(&["--gres=shard:g1:1", "-w", "n2"], "true")?;
    let job = cluster.ended(&id)?;
    same("kept", job.saw.as_str(), "n2 1 1")?;
    let read = |name: &str| fs::read_to_string(cluster.folder.join(name)).unwrap_or_default();
    let said = "loga-task-prolog: /dev/loga does not exist";
    same(said, read("logged").contains(said), true)?;
    let told = cluster.folder.join("told");
    let lines = "export CUDA_VISIBLE_DEVICES=GPU-1234\nexport LOGA_GPU=5\n";
    fs::write(&told, lines).map_err(|error| error.to_string())?;
    let id = cluster.submit(&ONE, "echo $LOGA_GPU");
    let job = id.and_then(|id| cluster.ended(&id));
    fs::remove_file(&told).map_err(|error| error.to_string())?;
    let saw = job?.saw;
    same(&saw, saw.ends_with(" GPU-1234\n5"), true)
}

fn dead_loga(cluster: &Cluster) -> Result<(), String> {
    let dead = cluster.folder.join("dead");
    fs::write(&dead, "").map_err(|error| error.to_string())?;
    let job = cluster.run(&ONE);
    // The shipped scripts, with nothing at all to run.
    let bin = cluster.folder.join("bin/loga");
    fs::remove_file(&bin).map_err(|error| error.to_string())?;
    let second = cluster.run(&ONE);
    for job in [job?, second?] {
        same("state", job.state.as_str(), "COMPLETED")?;
        same("comment", job.comment.as_str(), "(null)")?;
    }
    let states = cluster.ask("sinfo", &["-h", "-N", "-p", "main", "-o", "%t"])?;
    same("nodes", states.as_str(), "idle\nidle\nidle\n")
}

fn sound(cluster: &Cluster) -> Result<(), String> {
    same("the controller lives", cluster.controller_lives(), true)?;
    let log = fs::read_to_string(cluster.folder.join("log/slurmctld"));
    let log = log.map_err(|error| error.to_string())?;
    let of_lua = log
        .lines()
        .filter(|line| line.contains("error:") && line.contains("lua"));
    let other: Vec<&str> = of_lua.filter(|line| !line.contains("loga: ")).collect();
    same("complaints", other, Vec::new())?;
    // Once a minute, and again by each script without memory.
    same("complaints of ours", log.contains("loga: "), true)
}
