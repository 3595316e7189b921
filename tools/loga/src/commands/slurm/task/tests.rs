// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of the environment of a task.

use super::*;
use crate::control::Control;
use crate::fake::FakeKernel;
use crate::placing::tests::kernel;
use loga::knobs::Config;
use std::fs;

/// GPUs of these loads that enforce.
fn enforcing(busy_pct: &[u32]) -> FakeKernel {
    let fake = kernel(busy_pct);
    for gpu in fake.gpus.borrow_mut().iter_mut() {
        gpu.info.note(&Config {
            enforce: true,
            ..Config::default()
        });
    }
    fake
}

fn task(seen: &str, tasks: Option<&str>) -> Result<Option<Task>, String> {
    Task::of(|name| {
        let value = match name {
            "SLURM_JOB_ID" => "7",
            "SLURM_JOB_UID" => "1000",
            "SLURMD_NODENAME" => "n1",
            "SLURM_JOB_GPUS" => "0,1",
            "CUDA_VISIBLE_DEVICES" => seen,
            "SLURM_STEP_NUM_TASKS" => return tasks.map(str::to_string),
            "SLURM_NTASKS" => "9",
            _ => return None,
        };
        Some(value.to_string())
    })
}

/// A task that is alone and sees these GPUs of a node of GPUs 1, 2 and 3, of four of the machine.
struct Setting<'a> {
    fake: &'a FakeKernel,
    proc: &'a Path,
    denied: &'a [&'a str],
    gpus: &'a [u32],
    loose: bool,
    any_gpu: bool,
    tasks: &'a str,
}

impl Setting<'_> {
    fn lines(&self, seen: &str) -> Result<String, String> {
        let task = task(seen, Some(self.tasks)).expect("sound").expect("GPUs");
        let note = Note {
            gpus: self.gpus.to_vec(),
            loose: self.loose,
            ..Note::default()
        };
        let snapshots = Control::over(self.fake).all().expect("snapshots");
        let machine = Machine {
            snapshots: &snapshots,
            proc: self.proc,
            may_open: &|node: &str| match node {
                node if self.denied.contains(&node) => Err(Errno::EPERM),
                "nvidia0" | "nvidia1" | "nvidia2" | "nvidia3" => Ok(()),
                _ => Err(Errno::ENOENT),
            },
        };
        lines(&task, &note, self.any_gpu, &machine)
    }
}

fn setting(fake: &FakeKernel) -> Setting<'_> {
    Setting {
        fake,
        proc: Path::new("/nowhere"),
        denied: &[],
        gpus: &[1, 2, 3],
        loose: false,
        any_gpu: false,
        tasks: "1",
    }
}

fn told(positions: &str, first: u32) -> Result<String, String> {
    Ok(format!(
        "export CUDA_DEVICE_ORDER=PCI_BUS_ID\nexport CUDA_VISIBLE_DEVICES={positions}\n\
         export LOGA_GPU={first}\n"
    ))
}

#[test]
fn task_sees_its_gpus_on_the_bus_the_best_one_first() {
    let fake = enforcing(&[0, 90, 0, 20]);
    let of = setting(&fake);
    // Slurm's 0 is GPU 1.
    assert_eq!(of.lines("0"), told("1", 1));
    assert_eq!(of.lines("0,2"), told("3,1", 3));
    assert_eq!(of.lines("0,1,2"), told("2,3,1", 2));
}

#[test]
fn tasks_of_a_step_have_the_same_order() {
    let fake = enforcing(&[0, 90, 0, 20]);
    let of = Setting {
        tasks: "2",
        ..setting(&fake)
    };
    assert_eq!(of.lines("0,2"), told("1,3", 1));
}

#[test]
fn task_of_constrained_devices_counts_those_that_it_may_open() {
    let fake = enforcing(&[0, 0, 90, 20]);
    let of = Setting {
        denied: &["nvidia1"],
        loose: true,
        any_gpu: true,
        ..setting(&fake)
    };
    // Slurm and CUDA count 0 for GPUs 2 and 0 of those that are left: GPU 0 is not Slurm's.
    assert_eq!(of.lines("0"), told("1", 2));
    assert_eq!(of.lines("0,1"), told("2,1", 3));
    assert!(of.lines("2").is_err(), "there are two");
}

#[test]
fn gpus_with_uuids_are_named_by_them() {
    let fake = enforcing(&[0, 90, 0, 20]);
    let folder = tempfile::tempdir().expect("a folder");
    for (at, minor) in [(1, 3), (2, 2), (3, 1), (4, 0)] {
        let of = folder.path().join(DRIVER).join(format!("0000:0{at}:00.0"));
        fs::create_dir_all(&of).expect("a folder");
        let uuid = format!("GPU-{at:08}-0000-0000-0000-000000000000");
        let text = format!("GPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n");
        fs::write(of.join("information"), text).expect("a file");
    }
    let of = Setting {
        proc: folder.path(),
        // The node of GPU 3.
        denied: &["nvidia0"],
        ..setting(&fake)
    };
    let lines = of.lines("0,1").expect("lines");
    let uuid = |at: u32| format!("GPU-{at:08}-0000-0000-0000-000000000000");
    let wanted = format!(
        "export CUDA_VISIBLE_DEVICES={},{}\nexport LOGA_GPU=2\n",
        uuid(3),
        uuid(2)
    );
    assert_eq!(lines, wanted);
}

#[test]
fn shard_that_no_type_binds_goes_to_any_gpu_only_where_the_site_says_so() {
    let fake = enforcing(&[0, 90, 50, 20]);
    let with = |loose, any_gpu, seen: &str| {
        let of = Setting {
            loose,
            any_gpu,
            ..setting(&fake)
        };
        of.lines(seen)
    };
    // Of GPUs 1 to 3, although GPU 0 is free.
    assert_eq!(with(true, true, "0"), told("3", 3));
    for (loose, any_gpu) in [(true, false), (false, true)] {
        assert_eq!(with(loose, any_gpu, "0"), told("1", 1));
    }
    assert_eq!(with(true, true, "0,1"), told("2,1", 2), "of two it has two");
}

#[test]
fn without_an_opinion_the_order_stays() {
    let fake = enforcing(&[0, 90, 0, 20]);
    let of = setting(&fake);
    fake.gpus.borrow_mut()[3].info.flags |= uapi::GPU_LOST;
    assert_eq!(of.lines("0,2"), told("1,3", 1));
    assert_eq!(of.lines("0,1"), told("2,1", 2), "of these there is one");
    fake.gpus.borrow_mut()[1].info.note(&Config::default());
    assert_eq!(of.lines("0,1"), told("1,2", 1));
}

#[test]
fn task_keeps_what_it_has_if_anything_is_not_as_it_should_be() {
    let fake = enforcing(&[0, 90]);
    for (gpus, seen, why) in [
        (&[0, 1][..], "2", "not among the types"),
        (&[0, 7], "0", "there is no GPU 7"),
        (&[], "0", "no types of ours"),
    ] {
        let of = Setting {
            gpus,
            ..setting(&fake)
        };
        let said = of.lines(seen).expect_err(why);
        assert!(said.contains(why), "{said}");
    }
    for seen in ["", "GPU-1234", "0,", "-1", "NoDevFiles", "0,1x"] {
        assert!(task(seen, None).is_err(), "{seen}");
    }
    assert!(task(&"0,".repeat(70), None).is_err());
    assert!(!task("0", None).expect("sound").expect("GPUs").alone);
    assert_eq!(Task::of(|_| None), Ok(None));
    let fake = enforcing(&[0; 5]);
    let of = Setting {
        gpus: &[3, 4],
        ..setting(&fake)
    };
    assert_eq!(
        of.lines("0"),
        Err("/dev/nvidia4: ENOENT: No such file or directory".into())
    );
}
