// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Checks of jobs whose number names others as well: weight and record are those of the job
//! itself.

use crate::checks::same;
use crate::cluster::{until, Cluster, LIMIT};
use crate::record_checks::shown;
use std::fs;

/// What the Prolog of a job said, after its number.
fn said(cluster: &Cluster, id: u32) -> Result<String, String> {
    let begin = format!("loga-prolog: job {id}: ");
    let find = || {
        let logged = fs::read_to_string(cluster.folder.join("logged")).ok()?;
        let line = logged.lines().find_map(|line| line.strip_prefix(&begin))?;
        Some(line.to_string())
    };
    // The log is written beside the job.
    until(LIMIT, || find().is_some()).map_err(|()| format!("no Prolog of job {id}"))?;
    Ok(find().unwrap_or_default())
}

/// That the Prolog of a job gave such a weight.
fn weighs(cluster: &Cluster, id: u32, weight: u32) -> Result<(), String> {
    let said = said(cluster, id)?;
    let wanted = format!("weight {weight} for cgroup ");
    same(
        &format!("job {id}: {said}"),
        said.starts_with(&wanted),
        true,
    )
}

/// What the queue shows of a name, without spaces at the end.
fn queued(cluster: &Cluster, name: &str, column: &str) -> Result<String, String> {
    let ask = ["-h", "--states=all", "-j", name, "-O", column];
    Ok(cluster.ask("squeue", &ask)?.trim_end().to_string())
}

fn number(id: &str) -> Result<u32, String> {
    id.parse().map_err(|_| format!("'{id}' is no number"))
}

/// An element that is held asks for more shards than there are and comes first in the queue's answer; the
/// other one has the array's number and one shard.
pub(crate) fn last_element(cluster: &Cluster) -> Result<(), String> {
    cluster.forget()?;
    let options = ["--array=0-1", "-H", "--gres=shard:g0:1"];
    let array = cluster.submit(&options, "true")?;
    let [held, last] = [0, 1].map(|element| format!("{array}_{element}"));
    let inflated = ["update", &format!("JobId={held}"), "Gres=shard:g0:100"];
    cluster.ask("scontrol", &inflated)?;
    let asked = queued(cluster, &array, "tres-per-node:40")?;
    cluster.ask("scontrol", &["release", &last])?;
    cluster.wait(std::slice::from_ref(&last))?;
    let first = asked.lines().next().unwrap_or_default().trim_end();
    same("the first row", first, "gres:shard:g0:100")?;
    let shown_last = queued(cluster, &last, "JobID:24")?;
    same("its number", shown_last.as_str(), array.as_str())?;
    weighs(cluster, number(&array)?, 100)?;
    let comment = queued(cluster, &last, "comment:128")?;
    let is_own = |text: &str| text.starts_with("loga: 0.000 gpu s on n");
    same(&comment, is_own(&comment.to_lowercase()), true)?;
    shown(cluster, &last, is_own)?;
    same(
        "of the other",
        queued(cluster, &held, "comment:128")?.as_str(),
        "(null)",
    )?;
    let of_other = cluster.stored(&held, "admincomment")?;
    same("of the other, stored", of_other.as_str(), "")
}

/// The second part has three shards and comes first in the answer; the first part has the number of the
/// whole, and one shard.
pub(crate) fn heterogeneous(cluster: &Cluster) -> Result<(), String> {
    cluster.forget()?;
    let first = ["--gres=shard:g0:1", "-p", "other"];
    let second = ["--gres=shard:g0:3", "-p", "main", "-w", "n1"];
    let whole = cluster.submit(&[&first[..], &[":"], &second].concat(), "true")?;
    let asked = queued(cluster, &whole, "tres-per-node:40")?;
    let row = asked.lines().next().unwrap_or_default().trim_end();
    same("the first row", row, "gres:shard:g0:3")?;
    cluster.wait(std::slice::from_ref(&whole))?;
    let id = number(&whole)?;
    weighs(cluster, id, 100)?;
    weighs(cluster, id + 1, 300)?;
    for (part, node) in [(0, "n3"), (1, "n1")] {
        let part = format!("{whole}+{part}");
        let line = format!("loga: 0.000 gpu s on {node}");
        shown(cluster, &part, |comment| comment == line)?;
    }
    let of_second = queued(cluster, &(id + 1).to_string(), "comment:128")?;
    // It has no task.
    same("comment of the second", of_second.as_str(), "(null)")
}

/// A name in which a grant of eight shards stands: the weight stays, and why is said.
pub(crate) fn named_like_a_grant(cluster: &Cluster) -> Result<(), String> {
    cluster.forget()?;
    let name = "x\nJobId=1 Nodes=n[1-3] CPU_IDs=0 Mem=0 GRES=shard:g0:8(IDX:0)\ny";
    let id = cluster.submit(&["--gres=shard:g1:1", "-J", name], "true")?;
    same("state", cluster.ended(&id)?.state.as_str(), "COMPLETED")?;
    let said = said(cluster, number(&id)?)?;
    let wanted = "scontrol says 2 times what it was given on n";
    same(&said, said.starts_with(wanted), true)
}
