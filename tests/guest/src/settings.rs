// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of settings from files that follow the files, the cgroups and the module.

use crate::cgroups::Cgroup;
use crate::ktap::{ensure, Verdict};
use crate::modules;
use crate::modules::LOGA;
use crate::stage::{Stage, LAZY};
use crate::tools::objects;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

crate::ktap::tests![settings_follow_files_cgroups_and_the_module];

/// The file.
const FILE: &str = "/run/settings.toml";
/// TIMEOUT: the files are compared every 2 s, and have to be the same twice.
const FOLLOWED: Duration = Duration::from_secs(15);

/// `loga apply --follow`, until it is dropped.
struct Follower(Child);

impl Follower {
    fn start(text: &str) -> Result<Self, String> {
        write(text)?;
        let command = Command::new("loga")
            .args(["apply", "--follow", FILE])
            .stdin(Stdio::null())
            .spawn();
        command
            .map(Follower)
            .map_err(|error| format!("loga apply: {error}"))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = fs::remove_file(FILE);
    }
}

fn write(text: &str) -> Result<(), String> {
    fs::write(FILE, text).map_err(|error| format!("{FILE}: {error}"))
}

/// Waits until these weights are set, of these subjects, and nothing else is.
fn wait_for(what: &str, wanted: &[(u64, u64)]) -> Verdict {
    let begin = Instant::now();
    loop {
        // Nothing can be listed while LoGA is detached.
        let listed = objects("set --list --json").unwrap_or_default();
        let pairs = listed
            .iter()
            .filter_map(|share| Some((share["id"].as_u64()?, share["weight"].as_u64()?)));
        let mut pairs: Vec<(u64, u64)> = pairs.collect();
        pairs.sort_unstable();
        let mut wanted = wanted.to_vec();
        wanted.sort_unstable();
        if pairs == wanted {
            return Ok(());
        }
        ensure!(
            begin.elapsed() < FOLLOWED,
            "{what}: {pairs:?} instead of {wanted:?}"
        );
        sleep(Duration::from_millis(100));
    }
}

fn settings_follow_files_cgroups_and_the_module() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let user = |weight: u32| format!("[[share]]\nuser = 7\nweight = {weight}\n");
    let pattern = "[[share]]\ncgroup = '/follow_*'\nweight = 20\n";
    let follower = Follower::start(&format!("{}{pattern}", user(300)))?;
    wait_for("at the start", &[(7, 300)])?;
    let cgroup = Cgroup::make("follow_1")?;
    let id = cgroup.chosen()?.id;
    wait_for("with a cgroup", &[(7, 300), (id, 20)])?;
    write("[[share]]\nuser = 7\nweight = 0\n")?;
    modules::set(LOGA, "attach", "0").map_err(|errno| format!("attach=0: {errno}"))?;
    modules::set(LOGA, "attach", "1").map_err(|errno| format!("attach=1: {errno}"))?;
    wait_for("attached anew", &[(7, 300), (id, 20)])?;
    stage.remove_loga()?;
    stage.add_loga("")?;
    wait_for("loaded anew", &[(7, 300), (id, 20)])?;
    write(&user(5))?;
    wait_for("with a file that is mended", &[(7, 5)])?;
    drop(follower);
    stage.teardown()
}
