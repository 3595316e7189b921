// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Ends every program that was started, however this one ends: a daemon of a step leaves its
//! parent, so this process takes on the orphans among its descendants.

use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use procfs::process::all_processes;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// TIMEOUT: rounds of ending descendants, some of which start further ones.
const ROUNDS: u32 = 100;

/// Takes on orphans, and cleans up on a signal.
///
/// # Errors
///
/// What the kernel refuses.
pub(crate) fn prepare(folder: &Path) -> Result<(), String> {
    set_child_subreaper(true).map_err(|error| format!("PR_SET_CHILD_SUBREAPER: {error}"))?;
    let signals = Signals::new([SIGHUP, SIGINT, SIGTERM]);
    let mut signals = signals.map_err(|error| format!("signals: {error}"))?;
    let folder = folder.to_path_buf();
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            end_all();
            // What is left is in a temporary folder.
            let _ = std::fs::remove_dir_all(folder);
            std::process::exit(130);
        }
    });
    Ok(())
}

/// Ends all descendants.
pub(crate) fn end_all() {
    for _ in 0..ROUNDS {
        let left = descendants();
        for pid in &left {
            // It may have ended meanwhile.
            let _ = kill(*pid, Signal::SIGKILL);
        }
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            if status == WaitStatus::StillAlive {
                break;
            }
        }
        if left.is_empty() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    println!("FAIL slurm: some programs do not end");
}

fn descendants() -> BTreeSet<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for process in all_processes().into_iter().flatten().flatten() {
        if let Ok(stat) = process.stat() {
            children.entry(stat.ppid).or_default().push(stat.pid);
        }
    }
    let mut found = BTreeSet::new();
    let mut ahead = vec![nix::unistd::getpid().as_raw()];
    while let Some(pid) = ahead.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            if found.insert(Pid::from_raw(*child)) {
                ahead.push(*child);
            }
        }
    }
    found
}
