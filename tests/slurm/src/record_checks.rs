// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Checks of what is in a job's record after it.

use crate::checks::{same, ONE};
use crate::cluster::{until, Cluster, LIMIT};
use std::fs;

/// The GPU seconds of a job are in its Comment, in the log, and in what `sacct` shows; of a job on two
/// nodes both parts.
pub(crate) fn seconds(cluster: &Cluster) -> Result<(), String> {
    cluster.scores([[0.5, 0.9], [0.9, 0.9], [0.9, 0.9]])?;
    cluster.forget()?;
    cluster.write_table(&[])?;
    let used = cluster.folder.join("used");
    let write = |text: &str| fs::write(&used, text).map_err(|error| error.to_string());
    write("1000000000\n")?;
    let id = cluster.submit(&ONE, &format!("echo 3500000000 > {}", used.display()))?;
    let job = cluster.ended(&id)?;
    same("comment", job.comment.as_str(), "loga: 2.500 GPU s on n1")?;
    let read = |name: &str| fs::read_to_string(cluster.folder.join(name)).unwrap_or_default();
    let line = format!("loga-epilog: job {id}: loga: 2.500 GPU s on n1");
    same(&line, read("logged").contains(&line), true)?;
    // sacctmgr 22.05 writes in small letters.
    let mark = "loga: chose n1 g0 (";
    shown(cluster, &id, |comment| {
        comment.starts_with(mark) && comment.ends_with("); loga: 2.500 gpu s on n1")
    })?;
    same(
        "comment in the database",
        cluster.stored(&id, "state,comment")?.as_str(),
        "COMPLETED|loga: 2.500 GPU s on n1",
    )?;
    let twice = cluster.submit(&["--gres=shard:1", "-N", "2"], "srun true")?;
    let job = cluster.ended(&twice)?;
    same("state", job.state.as_str(), "COMPLETED")?;
    let mut parts: Vec<&str> = job.comment.split("; ").collect();
    parts.sort_unstable();
    let seconds = |part: &&str| part.starts_with("loga: 0.000 GPU s on n");
    let whole = parts.len() == 2 && parts.iter().all(seconds) && parts[0] != parts[1];
    same(&job.comment, whole, true)?;
    shown(cluster, &twice, |comment| {
        let mut all: Vec<&str> = comment.split("; ").collect();
        all.sort_unstable();
        all == parts
            .iter()
            .map(|part| part.to_lowercase())
            .collect::<Vec<_>>()
    })?;
    let job = cluster.run(&[])?;
    same("comment without GPUs", job.comment.as_str(), "(null)")
}

/// That `sacct` shows such an AdminComment soon: slurmctld sends the end of a job a moment later.
pub(crate) fn shown(
    cluster: &Cluster,
    id: &str,
    wanted: impl Fn(&str) -> bool,
) -> Result<(), String> {
    let show = || cluster.stored(id, "admincomment");
    let is_so = || show().is_ok_and(|comment| wanted(&comment.to_ascii_lowercase()));
    until(LIMIT, is_so).map_err(|()| format!("sacct shows {:?}", show()))
}
