// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of settings for cgroups, and of dividing the GPU between them.

use crate::caller::{Caller, SOON};
use crate::calls::Calls;
use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::sharing::{limit, set, shares, weight, BUSY, PROMPT, STEADY, STRICT};
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
    settings_of_cgroups_that_are_gone_make_room,
    limit_of_a_cgroup_that_is_gone_holds_while_its_pages_are_used,
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

fn settings_of_cgroups_that_are_gone_make_room() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let kept = Cgroup::make("kept")?;
    set(kept.chosen()?, weight(300))?;
    // More than there is room for.
    for _ in 0..600 {
        let cgroup = Cgroup::make("short")?;
        let chosen = cgroup.chosen()?;
        set(chosen, weight(300))?;
        drop(cgroup);
        ensure!(
            set(chosen, weight(200)).is_err(),
            "set for a cgroup that is gone"
        );
    }
    let set_for: Vec<u64> = Calls::open()?
        .shares()
        .map_err(|errno| errno.to_string())?
        .iter()
        .map(|share| share.id)
        .collect();
    ensure!(set_for == [kept.chosen()?.id], "set for {set_for:?}");
    stage.teardown()
}

fn limit_of_a_cgroup_that_is_gone_holds_while_its_pages_are_used() -> Verdict {
    let stage = Stage::set(LAZY, PAPER)?;
    let cgroup = Cgroup::make("limited")?;
    let mut parent = Caller::with_channels(1)?;
    let pid = parent.pid();
    cgroup.add_process(pid)?;
    set(cgroup.chosen()?, limit(30))?;
    parent.ask("run 1000 100")?;
    let child = parent.leave_a_child(3000)?;
    stage.wait_for_client(pid, SOON, "one that has ended", |client| client.ended)?;
    // The child leaves, and the cgroup is removed.
    fs::write(format!("{ROOT}/cgroup.procs"), format!("{child}\n"))
        .map_err(|error| error.to_string())?;
    fs::remove_dir(cgroup.path()).map_err(|error| error.to_string())?;
    let settings = stage.stat_during(Duration::from_millis(300))?.settings;
    ensure!(settings == 1, "{settings} settings");
    let limit = stage.client(pid)?.ok_or("the client is gone")?.limit;
    ensure!(limit == 30, "limit {limit}");
    stage.wait_until_gone(pid)?;
    let settings = stage.stat()?.settings;
    ensure!(
        settings == 0,
        "{settings} settings of cgroups that are gone"
    );
    stage.teardown()
}
