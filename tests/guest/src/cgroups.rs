// SPDX-License-Identifier: GPL-2.0

//! [tool] Tests of settings for cgroups, and of dividing the GPU between them.

use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::sharing::{clear, limit, set, shares, weight, BUSY, PROMPT, STEADY, STRICT};
use crate::stage::{Stage, EXACT, LAZY, PAPER};
use crate::sysfs;
use loga::uapi;
use std::fs;
use std::os::unix::fs::{chown, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

crate::ktap::tests![
    weight_of_a_cgroup_follows_its_processes: timed,
    limit_of_a_cgroup_holds_for_all_its_processes_together: timed,
    group_by_cgroup_divides_between_cgroups: timed,
    cgroup_that_is_removed_keeps_no_name_but_can_be_cleared,
];

/// Where cgroup v2 is mounted for these tests.
const ROOT: &str = "/run/cgroup";

/// A cgroup; removed when dropped, once it is empty.
#[derive(Debug)]
pub(crate) struct Cgroup(PathBuf);

impl Cgroup {
    pub(crate) fn make(name: &str) -> Result<Self, String> {
        if !PathBuf::from(ROOT).join("cgroup.procs").exists() {
            let script = format!("mkdir -p {ROOT} && mount -t cgroup2 none {ROOT}");
            let status = Command::new("sh").args(["-c", &script]).status();
            let status = status.map_err(|error| error.to_string())?;
            ensure!(status.success(), "{script}: {status}");
        }
        let path = PathBuf::from(ROOT).join(name);
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Cgroup(path))
    }

    /// Moves a process in.
    fn add(&self, load: &Load) -> Result<(), String> {
        self.add_process(load.pid())
    }

    /// As [`Cgroup::add`], by its number.
    pub(crate) fn add_process(&self, pid: u32) -> Result<(), String> {
        let path = self.0.join("cgroup.procs");
        fs::write(&path, format!("{pid}\n")).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Gives it and its process list to a user.
    pub(crate) fn delegate(&self, uid: u32) -> Result<(), String> {
        for path in [self.0.clone(), self.0.join("cgroup.procs")] {
            chown(&path, Some(uid), Some(uid))
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// The argument that sets something for it.
    pub(crate) fn chosen(&self) -> Result<uapi::SetShare, String> {
        let found = fs::metadata(&self.0).map_err(|error| error.to_string())?;
        Ok(uapi::SetShare {
            subject: uapi::SUBJECT_CGROUP,
            id: found.ino(),
            ..Default::default()
        })
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for inner in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            if inner.file_type().is_ok_and(|kind| kind.is_dir()) {
                let _ = fs::remove_dir(inner.path());
            }
        }
        // A process that is still ending leaves it to the end of the machine.
        let _ = fs::remove_dir(&self.0);
    }
}

fn weight_of_a_cgroup_follows_its_processes() -> Verdict {
    let stage = Stage::set(LAZY, PAPER)?;
    let (heavy, light) = (Cgroup::make("heavy")?, Cgroup::make("light")?);
    let load = Load::start(BUSY)?;
    stage.wait_until_all_measured([&load])?;
    let weight_of = || -> Result<u32, String> {
        std::thread::sleep(Duration::from_millis(100));
        Ok(stage.client(load.pid())?.ok_or("no client")?.weight)
    };
    set(heavy.chosen()?, weight(700))?;
    ensure!(weight_of()? == 100, "a weight of a cgroup it is not in");
    heavy.add(&load)?;
    ensure!(weight_of()? == 700, "not the weight of its cgroup");
    set(light.chosen()?, weight(9))?;
    light.add(&load)?;
    ensure!(weight_of()? == 9, "not the weight of its new cgroup");
    stage.check_no_fallback()?;
    drop(load);
    stage.teardown()
}

fn limit_of_a_cgroup_holds_for_all_its_processes_together() -> Verdict {
    let stage = Stage::set(LAZY, PAPER)?;
    let cgroup = Cgroup::make("limited")?;
    let (one, other) = (Load::start(STEADY)?, Load::start(STEADY)?);
    cgroup.add(&one)?;
    cgroup.add(&other)?;
    stage.wait_until_all_measured([&one, &other])?;
    set(cgroup.chosen()?, limit(30))?;
    let got = shares([&one, &other], 500, 3000)?;
    let sum: f64 = got.iter().sum();
    within("percent with a limit of 30", sum, 25.0..=31.5)?;
    stage.check_no_fallback()?;
    drop((one, other));
    stage.teardown()
}

fn group_by_cgroup_divides_between_cgroups() -> Verdict {
    let stage = Stage::set(PROMPT, &format!("{STRICT} {EXACT}"))?;
    sysfs::write("group_by", "cgroup")?;
    let (many, few) = (Cgroup::make("many")?, Cgroup::make("few")?);
    set(few.chosen()?, weight(300))?;
    let loads = [Load::start(BUSY)?, Load::start(BUSY)?, Load::start(BUSY)?];
    many.add(&loads[0])?;
    many.add(&loads[1])?;
    few.add(&loads[2])?;
    stage.wait_until_all_measured(&loads)?;
    let got = shares([&loads[0], &loads[1], &loads[2]], 1000, 6000)?;
    let all: f64 = got.iter().sum();
    let part = got[2] / all * 100.0;
    within("percent for 300 against 100", part, 73.0..=77.0)?;
    stage.check_no_fallback()?;
    drop(loads);
    stage.teardown()
}

fn cgroup_that_is_removed_keeps_no_name_but_can_be_cleared() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let cgroup = Cgroup::make("short")?;
    let chosen = cgroup.chosen()?;
    set(chosen, weight(300))?;
    drop(cgroup);
    let again = set(chosen, weight(200));
    ensure!(again.is_err(), "set for a cgroup that is gone");
    ensure!(
        stage.stat()?.settings == 1,
        "the setting went with its cgroup"
    );
    set(chosen, clear)?;
    ensure!(stage.stat()?.settings == 0, "it is still set");
    stage.teardown()
}
