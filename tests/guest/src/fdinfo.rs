// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of what `/proc/PID/fdinfo` says of the GPU's files.

use crate::caller::Caller;
use crate::ktap::{ensure, Verdict};
use crate::load::Load;
use crate::modules;
use crate::modules::LOGA;
use crate::stage::{Stage, LAZY};
use loga_cli::stat::Client;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

crate::ktap::tests![
    fdinfo_tells_the_drm_usage_stats_of_the_opener,
    fdinfo_tells_the_time_of_copies,
    fdinfo_without_loga_has_no_keys_of_it,
];

/// The keys that LoGA adds to one file.
type Keys = BTreeMap<String, String>;

/// The keys of a process's open files of `node`.
fn keys_of(pid: u32, node: &str) -> Result<Vec<Keys>, String> {
    let mut found = Vec::new();
    let folder = format!("/proc/{pid}/fd");
    for entry in fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))? {
        let entry = entry.map_err(|error| error.to_string())?;
        // A file may be closed meanwhile.
        let Ok(target) = fs::read_link(entry.path()) else {
            continue;
        };
        if target.to_str() != Some(node) {
            continue;
        }
        let path = format!("/proc/{pid}/fdinfo/{}", entry.file_name().to_string_lossy());
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let lines = text.lines().filter_map(|line| line.split_once(":\t"));
        found.push(
            lines
                .filter(|(key, _)| key.starts_with("drm-"))
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
        );
    }
    ensure!(!found.is_empty(), "{pid} has no file {node}");
    Ok(found)
}

fn fdinfo_tells_the_drm_usage_stats_of_the_opener() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let mut caller = Caller::with_channels(2)?;
    caller.ask("run 500 200")?;
    let before = stage.client(caller.pid())?.ok_or("no client")?;
    let files = keys_of(caller.pid(), "/dev/nvidia0")?;
    caller.ask("run 500 100")?;
    let after = stage.client(caller.pid())?.ok_or("no client")?;
    for keys in &files {
        let value = |key: &str| keys.get(key).map_or("missing", String::as_str);
        ensure!(value("drm-driver") == "nvidia", "drm-driver in {keys:?}");
        ensure!(value("drm-pdev") == "0001:00:00.0", "drm-pdev in {keys:?}");
        ensure!(
            value("drm-client-id") == before.id.to_string(),
            "drm-client-id in {keys:?}"
        );
        let time = value("drm-engine-compute");
        let ns: u64 = time
            .strip_suffix(" ns")
            .and_then(|ns| ns.parse().ok())
            .ok_or_else(|| format!("drm-engine-compute is {time:?}"))?;
        ensure!(
            (before.gpu_time_ns..=after.gpu_time_ns).contains(&ns) && ns > 0,
            "{ns} ns, not from {} to {}",
            before.gpu_time_ns,
            after.gpu_time_ns
        );
        println!("# {keys:?}");
    }
    for keys in keys_of(caller.pid(), "/dev/nvidiactl")? {
        ensure!(
            keys.is_empty(),
            "the control file belongs to no GPU: {keys:?}"
        );
    }
    drop(caller);
    stage.teardown()
}

fn fdinfo_tells_the_time_of_copies() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let load = Load::start("--kernel-us 500 --engine copy --wait block --channels 2")?;
    let copied = |client: &Client| client.copy_time_ns > Some(0);
    let limit = Duration::from_secs(10);
    let before = stage.wait_for_client(load.pid(), limit, "copying", copied)?;
    for keys in keys_of(load.pid(), "/dev/nvidia0")? {
        let ns = |key: &str| -> Option<u64> { keys.get(key)?.strip_suffix(" ns")?.parse().ok() };
        ensure!(ns("drm-engine-compute") == Some(0), "{keys:?}");
        let after = stage.client(load.pid())?.ok_or("no client")?;
        let copies = ns("drm-engine-copy");
        ensure!(
            (before.copy_time_ns..=after.copy_time_ns).contains(&copies),
            "{copies:?} ns, not from {:?} to {:?}",
            before.copy_time_ns,
            after.copy_time_ns
        );
    }
    load.stop()?;
    stage.teardown()
}

fn fdinfo_without_loga_has_no_keys_of_it() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let mut caller = Caller::new()?;
    modules::set(LOGA, "attach", "0").map_err(|errno| format!("attach=0: {errno}"))?;
    caller.ask("open 1")?;
    std::thread::sleep(Duration::from_millis(50));
    let files = keys_of(caller.pid(), "/dev/nvidia0")?;
    ensure!(
        files.iter().all(Keys::is_empty),
        "keys after detaching: {files:?}"
    );
    drop(caller);
    stage.teardown()
}
