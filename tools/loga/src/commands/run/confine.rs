// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A cgroup of its own for a command, to which all GPUs but its own are denied.
//!
//! The command takes the place of `loga run`, which so cannot remove the cgroup when the command
//! ends: each call removes those of commands that have ended.

use super::Failure;
use crate::control::{Calls, Control};
use crate::names::Name;
use loga::uapi;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Names of these cgroups begin with it, and end with the number of the process.
const PREFIX: &str = "loga-run-";

/// Moves this process to a new cgroup below `parent`, to which all GPUs but these are denied.
///
/// # Errors
///
/// Any [`Failure`]; then nothing has changed.
pub(super) fn enter(
    control: &Control<impl Calls>,
    gpus: &[u32],
    parent: &Path,
) -> Result<(), Failure> {
    let all = control.all()?;
    if let Some(one) = all.iter().find(|one| !one.info.config().enforce) {
        return Err(Failure::Text(format!(
            "--confine: LoGA does not enforce on GPU {}: `loga policy set enforce=1` first",
            one.gpu
        )));
    }
    let all: Vec<u32> = all.iter().map(|one| one.gpu).collect();
    remove_ended(control, &all, parent);
    let path = parent.join(format!("{PREFIX}{}", std::process::id()));
    fs::create_dir(&path).map_err(|error| said("make", &path, &error))?;
    let others = all.iter().filter(|gpu| !gpus.contains(gpu));
    let result = deny(control, others, &path).and_then(|()| {
        let procs = path.join("cgroup.procs");
        fs::write(&procs, "0").map_err(|error| said("move to", &path, &error))
    });
    if result.is_err() {
        remove(control, &all, &path);
    }
    result
}

fn said(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::Text(format!(
        "--confine: cannot {what} cgroup {}: {error}",
        Name::from(path)
    ))
}

fn deny<'a>(
    control: &Control<impl Calls>,
    gpus: impl Iterator<Item = &'a u32>,
    path: &Path,
) -> Result<(), Failure> {
    let found = fs::metadata(path).map_err(|error| said("find", path, &error))?;
    for gpu in gpus {
        control.set_share(&uapi::SetShare {
            gpu: *gpu,
            action: uapi::ACTION_SET,
            subject: uapi::SUBJECT_CGROUP,
            id: found.ino(),
            mask: uapi::SHARE_ACCESS,
            access: uapi::ACCESS_DENIED,
            ..Default::default()
        })?;
    }
    Ok(())
}

/// Removes the cgroups of commands that have ended.
fn remove_ended(control: &Control<impl Calls>, gpus: &[u32], parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let process = number.and_then(|number| number.parse::<u32>().ok());
        // One whose process lives may not be in there yet.
        if process.is_some_and(|process| !is_another(process)) {
            remove(control, gpus, &entry.path());
        }
    }
}

/// Whether this is a process that lives, and not the caller.
fn is_another(process: u32) -> bool {
    process != std::process::id() && Path::new("/proc").join(process.to_string()).exists()
}

/// Removes a cgroup without processes, and what is set for it.
fn remove(control: &Control<impl Calls>, gpus: &[u32], path: &Path) {
    let Ok(found) = fs::metadata(path) else {
        return;
    };
    // The kernel removes none with processes in it or below it.
    if fs::remove_dir(path).is_err() {
        return;
    }
    for gpu in gpus {
        // Nothing is set on its own GPUs.
        let _ = control.set_share(&uapi::SetShare {
            gpu: *gpu,
            action: uapi::ACTION_CLEAR,
            subject: uapi::SUBJECT_CGROUP,
            id: found.ino(),
            ..Default::default()
        });
    }
}

/// The directory of the cgroup of this process.
///
/// # Errors
///
/// [`Failure::Text`] where there is none.
pub(super) fn own() -> Result<PathBuf, Failure> {
    let text = |path| fs::read(path).unwrap_or_default();
    let found =
        crate::directory::own_cgroup(&text("/proc/self/mounts"), &text("/proc/self/cgroup"));
    found.map_err(|why| Failure::Text(format!("--confine: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeKernel;

    fn enforcing(gpus: usize) -> FakeKernel {
        let fake = FakeKernel::new(gpus);
        for gpu in fake.gpus.borrow_mut().iter_mut() {
            let config = loga::knobs::Config {
                enforce: true,
                ..gpu.info.config()
            };
            gpu.info.note(&config);
        }
        fake
    }

    /// GPU and cgroup of all that is denied.
    fn denied(fake: &FakeKernel) -> Vec<(usize, u64)> {
        let gpus = fake.gpus.borrow();
        let rows = gpus.iter().enumerate().flat_map(|(gpu, one)| {
            let denied = |share: &&uapi::Share| share.access == uapi::ACCESS_DENIED;
            one.shares
                .iter()
                .filter(denied)
                .map(move |share| (gpu, share.id))
        });
        rows.collect()
    }

    #[test]
    fn other_gpus_are_denied_to_the_cgroup_of_the_command() {
        let fake = enforcing(3);
        let folder = tempfile::tempdir().expect("a folder");
        let control = Control::over(&fake);
        assert!(enter(&control, &[1], folder.path()).is_ok());
        let path = folder
            .path()
            .join(format!("{PREFIX}{}", std::process::id()));
        let id = fs::metadata(&path).expect("a cgroup").ino();
        assert_eq!(denied(&fake), [(0, id), (2, id)]);
        let moved = fs::read_to_string(path.join("cgroup.procs"));
        assert_eq!(moved.expect("its processes"), "0");
    }

    #[test]
    fn cgroups_of_commands_that_ended_go_with_what_is_set_for_them() {
        let fake = enforcing(2);
        let folder = tempfile::tempdir().expect("a folder");
        let control = Control::over(&fake);
        // No process has the first number, and the second lives. The third is of another program.
        let [ended, lives, other] = ["loga-run-4294967295", "loga-run-1", "loga-4294967295"]
            .map(|name| folder.path().join(name));
        for path in [&ended, &lives, &other] {
            fs::create_dir(path).expect("a folder");
            assert!(deny(&control, [0].iter(), path).is_ok());
        }
        let id = fs::metadata(&ended).expect("it is there").ino();
        assert!(denied(&fake).contains(&(0, id)));
        assert!(enter(&control, &[0, 1], folder.path()).is_ok());
        assert!(!ended.exists());
        assert!(lives.exists());
        assert!(other.exists());
        assert!(!denied(&fake).contains(&(0, id)));
        assert_eq!(denied(&fake).len(), 2);
    }

    #[test]
    fn nothing_is_left_if_a_step_fails() {
        let fake = enforcing(2);
        let folder = tempfile::tempdir().expect("a folder");
        let control = Control::over(&fake);
        fake.drop_privileges();
        assert!(enter(&control, &[0], folder.path()).is_err());
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
        let missing = folder.path().join("missing");
        let said = enter(&control, &[0], &missing).expect_err("no folder");
        assert!(
            said.to_string()
                .starts_with("--confine: cannot make cgroup"),
            "{said}"
        );
        let fake = FakeKernel::new(1);
        let said = enter(&Control::over(&fake), &[0], folder.path()).expect_err("enforce=0");
        assert!(
            said.to_string().contains("loga policy set enforce=1"),
            "{said}"
        );
    }
}
