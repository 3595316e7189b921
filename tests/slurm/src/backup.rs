// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Two controllers on one machine: each has a name, a list of hosts and a file of its process
//! of its own, by namespaces, and an address of its own.

use crate::binding_checks::SHOWN;
use crate::checks::{same, Check};
use crate::cluster::{daemon, until, Cluster, LIMIT};
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::SystemTime;

/// What is in slurm.conf. After a takeover, commands try the first one for half of the time.
pub(crate) const HOSTS: &str = "SlurmctldHost=first(127.0.0.1)\nSlurmctldHost=second(127.0.0.2)\n\
     CommunicationParameters=NoCtldInAddrAny\nSlurmctldTimeout=10\nLicenses=one:1\n";
/// The names, as each of them resolves them.
const NAMES: &str = "127.0.0.1 first localhost\n127.0.0.2 second\n";

pub(crate) const CHECKS: &[(&str, Check<Cluster>)] = &[(
    "table and choices go on when the second controller takes over",
    taken_over,
)];

/// Starts both; the first is the one that has the cluster.
///
/// # Errors
///
/// One does not start.
pub(crate) fn controllers(folder: &Path) -> Result<Child, String> {
    let write = |name: &str, text: &str| {
        fs::write(folder.join(name), text).map_err(|error| format!("{name}: {error}"))
    };
    write("hosts", NAMES)?;
    fs::create_dir(folder.join("second")).map_err(|error| error.to_string())?;
    // A controller ends the one whose number is in the file.
    let script = "hostname $1 && mount --bind hosts /etc/hosts && \
         if [ $1 = second ]; then mount --bind second pid; fi && shift && exec \"$@\"";
    let start = |name: &str, clean: &[&str]| {
        let own = own_user();
        let mut arguments = vec!["--uts", "--mount"];
        if own.is_some() {
            arguments.insert(0, "--map-root-user");
        }
        arguments.extend(["sh", "-c", script, "sh", name]);
        arguments.extend(own.iter().flatten().map(String::as_str));
        arguments.extend(["/usr/sbin/slurmctld", "-D"]);
        arguments.extend(clean);
        daemon(folder, "unshare", &arguments)
    };
    let first = start("first", &["-c"])?;
    // The second one waits for the first only if that is there.
    let runs = || ping(folder).is_ok_and(|said| said.contains("first is UP"));
    until(LIMIT, runs).map_err(|()| "the first controller does not start".to_string())?;
    start("second", &[])?;
    let stands_by = || ping(folder).is_ok_and(|said| said.contains("second is UP"));
    until(LIMIT, stands_by).map_err(|()| "the second controller does not start".to_string())?;
    Ok(first)
}

/// The way back to this user from a namespace in which it is root; nothing for root.
fn own_user() -> Option<[String; 4]> {
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    (!user.is_root()).then(|| {
        [
            "unshare".to_string(),
            "--user".to_string(),
            format!("--map-user={user}"),
            format!("--map-group={group}"),
        ]
    })
}

fn ping(folder: &Path) -> Result<String, String> {
    let mut command = Command::new("scontrol");
    command.env("SLURM_CONF", folder.join("slurm.conf"));
    let output = command.arg("ping").output();
    let output = output.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A choice of the first controller, of a job that waits for a licence, is load for the second one too,
/// with its shards; and the second one reads the table.
fn taken_over(cluster: &Cluster) -> Result<(), String> {
    cluster.scores([[0.9, 0.9], [0.0, 0.25], [0.9, 0.9]])?;
    cluster.write_table(&[])?;
    let holder = cluster.submit(&["-L", "one"], &cluster.until_released())?;
    let runs = || {
        let state = cluster.ask("squeue", &["-h", "-j", &holder, "-o", "%T"]);
        state.is_ok_and(|state| state == "RUNNING\n")
    };
    until(LIMIT, runs).map_err(|()| "the job does not start".to_string())?;
    // One of half a minute ago counts no more.
    cluster.write_table(&[])?;
    let first = cluster.submit(&["--gres=shard:4", "-L", "one"], "true")?;
    // Slurm shows a job in the next second, and saves its state after some.
    std::thread::sleep(SHOWN);
    let saved = cluster.folder.join("state/job_state");
    let since = SystemTime::now();
    let is_saved = || {
        let at = fs::metadata(&saved).and_then(|data| data.modified());
        at.is_ok_and(|at| at > since)
    };
    // Any change is one to save.
    let change = cluster.submit(&["-H"], "true")?;
    until(LIMIT, is_saved).map_err(|()| "no state is saved".to_string())?;
    let mut controller = cluster.controller.borrow_mut();
    let killed = controller.kill().and_then(|()| controller.wait());
    killed.map_err(|error| error.to_string())?;
    cluster.ask("scontrol", &["takeover"])?;
    // As the agent does beside it.
    cluster.write_table(&[])?;
    let second = cluster.submit(&["--gres=shard:1"], "true")?;
    cluster.ask("scancel", &[&holder, &change])?;
    let [first, second] = [cluster.ended(&first)?, cluster.ended(&second)?];
    for (job, shards) in [(first, "shard:g0:4"), (second, "shard:g1:1")] {
        same("state", job.state.as_str(), "COMPLETED")?;
        same("nodes", job.nodes.as_str(), "n2")?;
        same("shards", job.shards.get(5..), Some(shards))?;
    }
    // Without the claim of a job that has ended, the best GPU is that again.
    std::thread::sleep(SHOWN);
    cluster.write_table(&[])?;
    let third = cluster.run(&["--gres=shard:4"])?;
    same("shards", third.shards.get(5..), Some("shard:g0:4"))
}
