// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Machines with and without what LoGA needs.

use super::*;
use crate::control::Control;
use crate::fake::FakeKernel;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

/// A machine with NVIDIA's driver, the module, a GPU and everything else.
struct Files(TempDir);

const GPU: &str = "sys/bus/pci/devices/0000:01:00.0";

impl Files {
    fn good() -> Self {
        let files = Files(tempfile::tempdir().expect("a folder"));
        for (path, text) in [
            ("proc/sys/kernel/osrelease", "6.12.1-amd64\n"),
            ("proc/devices", "Character devices:\n195 nvidia\n"),
            (
                "proc/self/status",
                "Name:\tloga\nCapEff:\t000001ffffffffff\n",
            ),
            ("proc/self/uid_map", "         0          0 4294967295\n"),
            (
                "proc/self/mounts",
                "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
            ),
            ("sys/module/loga/initstate", "live\n"),
            ("sys/module/nvidia/version", "550.163.01\n"),
            ("dev/nvidia0", ""),
            ("dev/nvidiactl", ""),
        ] {
            files.write(path, text);
        }
        files.gpu("0x10de", "0x030000", Some("nvidia"));
        files
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn remove(&self, path: &str) {
        let path = self.path().join(path);
        match path.is_dir() {
            true => fs::remove_dir_all(path).expect("removed"),
            false => fs::remove_file(path).expect("removed"),
        }
    }

    fn gpu(&self, vendor: &str, class: &str, driver: Option<&str>) {
        let _ = fs::remove_dir_all(self.path().join(GPU));
        self.write(&format!("{GPU}/vendor"), vendor);
        self.write(&format!("{GPU}/class"), class);
        self.write(&format!("{GPU}/device"), "0x1b06");
        if let Some(driver) = driver {
            let target = format!("../../../bus/pci/drivers/{driver}");
            symlink(target, self.path().join(GPU).join("driver")).expect("linked");
        }
    }

    fn examine(&self, answer: &Answer) -> Vec<Finding> {
        let environment = [("TERM", "xterm"), ("LANG", "de_DE.UTF-8")];
        examine(&Machine::below(self.path(), &environment), answer)
    }

    /// What is not fine.
    fn trouble(&self, answer: &Answer) -> Vec<String> {
        let not_fine = self.examine(answer).into_iter();
        not_fine
            .filter(|one| one.state != State::Fine)
            .map(|one| {
                let help = one.help.expect("what helps");
                format!("{:?} {}: {} -> {help}", one.state, one.about, one.says)
            })
            .collect()
    }
}

/// A module that enforces, on the GPU of [`Files`].
fn enforcing() -> Answer {
    let fake = FakeKernel::new(1);
    {
        let mut gpus = fake.gpus.borrow_mut();
        let info = &mut gpus[0].info;
        info.pci_domain = 0;
        info.pci_bdf = 1 << 8;
        let mut config = info.config();
        config.enforce = true;
        info.note(&config);
    }
    Control::over(&fake).chosen(None)
}

#[test]
fn machine_with_everything_has_no_trouble() {
    let files = Files::good();
    assert_eq!(files.trouble(&enforcing()), Vec::<String>::new());
}

#[test]
fn bursts_with_a_dispatcher_are_named_with_what_helps() {
    let mut answer = enforcing();
    let info = &mut answer.as_mut().expect("an answer")[0].info;
    let mut config = info.config();
    config.dispatch = Some(loga::policies::dispatch::DispatcherKind::Prio);
    config.accounting = Some(loga::account::Accounting::Burst);
    info.note(&config);
    let trouble = Files::good().trouble(&answer);
    assert_eq!(trouble.len(), 1, "{trouble:?}");
    assert!(
        trouble[0].starts_with("Note knobs: GPU 0: with dispatch, accounting in bursts may"),
        "{trouble:?}"
    );
    assert!(trouble[0].contains("--accounting sparse"), "{trouble:?}");
}

#[test]
fn each_thing_that_is_missing_is_named_with_what_helps() {
    type Change = fn(&Files);
    let cases: &[(Change, &str)] = &[
        (
            |files| files.remove("sys/module/loga"),
            "Wrong module: loga is not loaded -> build",
        ),
        (
            |files| {
                files.remove("sys/module/loga");
                files.write(
                    "lib/modules/6.12.1-amd64/modules.dep",
                    "updates/loga.ko.xz:\n",
                );
            },
            "Wrong module: loga is not loaded -> sudo modprobe loga",
        ),
        (
            |files| {
                files.remove("sys/module/loga");
                files.write(
                    "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
                    "\x06\0\0\0\x01",
                );
            },
            "Note secure boot: it is on",
        ),
        (
            |files| {
                files.remove("sys/module/nvidia");
                files.write("proc/devices", "Character devices:\n  1 mem\n");
            },
            "Wrong driver: NVIDIA's driver is not loaded",
        ),
        (
            |files| files.write("sys/module/nvidia/version", "580.1"),
            "Note driver: NVIDIA 580.1: LoGA was tried with",
        ),
        (
            |files| files.remove("dev/nvidia0"),
            "Note devices: there is no /dev/nvidia0",
        ),
        (
            |files| files.remove("dev/nvidiactl"),
            "Wrong devices: /dev/nvidiactl cannot be opened",
        ),
        (
            |files| files.write("proc/self/mounts", "none /proc proc rw 0 0\n"),
            "Note cgroups: no cgroup v2",
        ),
        (
            |files| files.write("proc/self/uid_map", "0 100000 65536\n"),
            "Note rights: in a user namespace",
        ),
        (
            |files| files.write("proc/self/status", "CapEff:\t0000000000000000\n"),
            "Note rights: sees its own processes only",
        ),
        (
            |files| files.remove("proc"),
            "Note kernel: /proc cannot be read",
        ),
        (
            |files| files.remove("sys"),
            "Note module: /sys cannot be read",
        ),
    ];
    for (change, says) in cases {
        let files = Files::good();
        change(&files);
        let trouble = files.trouble(&enforcing());
        let is_said = trouble.iter().any(|line| line.starts_with(says));
        assert!(is_said, "{says}: {trouble:?}");
    }
}

#[test]
fn gpus_that_loga_does_not_follow_are_told_from_each_other() {
    let other = || {
        let fake = FakeKernel::new(1);
        fake.gpus.borrow_mut()[0].info.pci_bdf = 9 << 8;
        Control::over(&fake).chosen(None)
    };
    for (driver, says) in [
        (None, "no driver is bound to it"),
        (Some("vfio-pci"), "belongs to vfio-pci"),
        (Some("nvidia"), "but LoGA does not follow it"),
    ] {
        let files = Files::good();
        files.gpu("0x10de", "0x030200", driver);
        let trouble = files.trouble(&other());
        assert!(
            trouble.iter().any(|line| line.contains(says)),
            "{trouble:?}"
        );
    }
    let files = Files::good();
    files.gpu("0x8086", "0x030000", Some("i915"));
    let trouble = files.trouble(&other());
    let says = "there is no GPU of NVIDIA on the bus";
    assert!(
        trouble.iter().any(|line| line.contains(says)),
        "{trouble:?}"
    );
}

#[test]
fn terminals_are_told_apart() {
    let files = Files::good();
    let said = |environment: &[(&str, &str)]| {
        let machine = Machine::below(files.path(), environment);
        caller::terminal(&machine).remove(0).says
    };
    assert!(said(&[("TERM", "dumb")]).contains("cannot move the cursor"));
    assert!(said(&[]).contains("cannot move the cursor"));
    assert!(said(&[("TERM", "vt100"), ("LANG", "C")]).contains("without UTF-8"));
    // The first that is set counts.
    let both = [("TERM", "xterm"), ("LC_ALL", "C"), ("LANG", "C.UTF-8")];
    assert!(said(&both).contains("without UTF-8"));
    assert_eq!(
        said(&[("TERM", "xterm"), ("LC_ALL", ""), ("LANG", "C.utf8")]),
        "xterm, UTF-8"
    );
}
