// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Checks of what binds a job to a node, of what is left of it, and of wishes in comments.

use crate::checks::{placed, same};
use crate::cluster::{until, Cluster, Job, LIMIT};
use std::fs;
use std::time::Duration;

/// Slurm shows a job to its script in the second after the one in which it came.
pub(crate) const SHOWN: Duration = Duration::from_millis(1100);

/// A job bound to n1, which then takes no more jobs, is bound no longer, and runs elsewhere.
pub(crate) fn freed(cluster: &Cluster) -> Result<(), String> {
    cluster.scores([[0.1, 0.9], [0.9, 0.9], [0.9, 0.9]])?;
    cluster.forget()?;
    cluster.write_table(&[])?;
    let began = cluster.folder.join("began");
    let then = format!(
        "[ -e {0} ] || {{ touch {0}; {1}; }}",
        began.display(),
        cluster.until_released()
    );
    let id = cluster.submit(&["--gres=shard:1", "--requeue"], &then)?;
    until(LIMIT, || began.exists()).map_err(|()| "the job does not start".to_string())?;
    cluster.ask("scontrol", &["requeue", &id])?;
    cluster.idle("n1")?;
    let drain = ["update", "NodeName=n1", "State=DRAIN", "Reason=test"];
    cluster.ask("scontrol", &drain)?;
    // A job that never ran.
    let second = cluster.submit(&["--gres=shard:1"], "true")?;
    let mut output = cluster.write_table(&[])?;
    let is_bound = |id: &str| {
        let shown = cluster.ask("scontrol", &["-o", "show", "job", id]);
        !shown.is_ok_and(|shown| shown.contains("ReqNodeList=(null)"))
    };
    // Slurm says a moment later that a job waits for a node; the agent writes every few seconds.
    let all_freed = until(LIMIT, || {
        let freed = !is_bound(&id) && !is_bound(&second);
        if let (false, Ok(round)) = (freed, cluster.write_table(&[])) {
            output = round;
        }
        freed
    });
    let job = format!("JobId={id}");
    // Slurm would wait for two minutes.
    let now = cluster.ask("scontrol", &["update", &job, "StartTime=now"]);
    let ended = now.and_then(|_| Ok([cluster.ended(&id)?, cluster.ended(&second)?]));
    cluster.ask("scontrol", &["update", "NodeName=n1", "State=RESUME"])?;
    cluster.idle("n1")?;
    let said = String::from_utf8_lossy(&output.stderr);
    all_freed.map_err(|()| format!("a job stays bound to n1: {said}"))?;
    for job in ended? {
        same(&said, job.state.as_str(), "COMPLETED")?;
        same("nodes", job.nodes.as_str(), "(null)")?;
        same("shards", job.shards.as_str(), "gres:shard:g0:1")?;
        let node = job
            .saw
            .lines()
            .last()
            .and_then(|line| line.split(' ').next());
        same("not on n1", node.is_some_and(|node| node != "n1"), true)?;
    }
    cluster.write_table(&[]).map(drop)
}

/// Jobs that are refused, cancelled or failed leave no claim: more of them than a GPU has shards, and
/// the next job goes where they would have.
pub(crate) fn ended_early(cluster: &Cluster) -> Result<(), String> {
    cluster.scores([[0.9, 0.9], [0.0, 0.95], [0.9, 0.9]])?;
    cluster.forget()?;
    cluster.write_table(&[])?;
    for _ in 0..2 {
        let id = cluster.submit(&["--gres=shard:4"], &cluster.until_released())?;
        std::thread::sleep(SHOWN);
        cluster.ask("scancel", &[&id])?;
        let job = cluster.ended(&id)?;
        same("cancelled on", job.nodes.as_str(), "n2")?;
        let id = cluster.submit(&["--gres=shard:4"], "sleep 1.1; exit 3")?;
        let job = cluster.ended(&id)?;
        same("state", job.state.as_str(), "FAILED")?;
        placed(
            &Job {
                state: "COMPLETED".to_string(),
                ..job
            },
            "n2",
            0,
            4,
        )?;
    }
    let notes = fs::read_dir(cluster.folder.join("notes")).map_err(|error| error.to_string())?;
    let names = notes
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    let of_jobs = names.filter(|name| !name.ends_with(".last"));
    same("notes", of_jobs.collect(), Vec::<String>::new())
}

/// The Prolog of this cluster allows weights up to 400.
pub(crate) fn commented(cluster: &Cluster) -> Result<(), String> {
    cluster.forget()?;
    let set = cluster.folder.join("set");
    for (comment, weight, said) in [
        ("of mine, loga:weight=300", 300, "weight 300 for cgroup"),
        (
            "loga:weight=401",
            200,
            "refused of its comment: loga:weight=401: at most 400",
        ),
        (
            "loga:weight=300;loga:limit=50",
            200,
            "refused of its comment: loga:limit is not allowed",
        ),
        (
            "loga:weight=$(reboot)",
            200,
            "want loga:weight=N with 1 to 10000",
        ),
    ] {
        // Of jobs before.
        let _ = fs::remove_file(&set);
        let option = format!("--comment={comment}");
        let id = cluster.submit(&["--gres=shard:2", &option], "true")?;
        let job = cluster.ended(&id)?;
        same("state", job.state.as_str(), "COMPLETED")?;
        let asked = fs::read_to_string(&set).unwrap_or_default();
        let line = asked.lines().next().unwrap_or_default();
        let wanted = format!(" --weight {weight}");
        same(&asked, line.ends_with(&wanted), true)?;
        let logged = fs::read_to_string(cluster.folder.join("logged")).unwrap_or_default();
        let begin = format!("loga-prolog: job {id}: ");
        let line = logged.lines().find(|line| line.starts_with(&begin));
        same(
            &format!("{line:?}"),
            line.is_some_and(|line| line.contains(said)),
            true,
        )?;
        // What the user wrote stays.
        same(&job.comment, job.comment.starts_with(comment), true)?;
    }
    Ok(())
}
