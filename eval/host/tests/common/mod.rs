// SPDX-License-Identifier: GPL-2.0

//! Hosts made of files, on which `loga-host card` runs.

#![allow(dead_code, reason = "each test program uses a part of it")]

use loga_card::{Archive, Outcome};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_loga-host");

/// A folder with a root of a host in it, in which files can be put.
pub(crate) struct Host {
    pub(crate) folder: TempDir,
}

impl Host {
    /// One with a kernel and nothing else.
    pub(crate) fn empty() -> Self {
        let host = Host {
            folder: tempfile::tempdir().expect("a folder"),
        };
        host.file("root/proc/sys/kernel/osrelease", "7.3.4\n");
        host
    }

    /// One with an H100 and its driver, as their files look.
    pub(crate) fn with_card() -> Self {
        let host = Host::empty();
        let card = "root/sys/bus/pci/devices/0000:04:00.0";
        host.file(&format!("{card}/vendor"), "0x10de\n");
        host.file(&format!("{card}/device"), "0x2330\n");
        host.file(&format!("{card}/class"), "0x030200\n");
        host.file(
            &format!("{card}/resource"),
            "0x0000000010000000 0x0000000010ffffff 0x0000000000140204\n\
             0x0000004000000000 0x0000005fffffffff 0x000000000014220c\n",
        );
        host.file(
            "root/proc/driver/nvidia/gpus/0000:04:00.0/information",
            "Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-8f6a1c2d-1111-2222-3333-444455556666\n\
             GPU Firmware: \t 580.159.04\nDevice Minor: \t 0\n",
        );
        host.file(
            "root/proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n",
        );
        host.file(
            "root/sys/kernel/security/lockdown",
            "none [integrity] confidentiality\n",
        );
        host.file("root/proc/77/comm", "nvidia-cuda-mps-control\n");
        host.file("root/dev/nvidiactl", "");
        host.file("root/dev/nvidia0", "");
        host
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// A load generator that does this.
    pub(crate) fn throttle(&self, text: &str) {
        self.file("throttle", &format!("#!/bin/bash\n{text}\n"));
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.path("throttle"), mode).expect("a mode");
    }

    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(["card", "--root", "root", "--throttle", "./throttle"]);
        command.args(words.split_whitespace());
        command.current_dir(self.folder.path());
        // Folders that steps leave are seen by their tests.
        fs::create_dir_all(self.path("tmp")).expect("a folder");
        command.env("TMPDIR", self.path("tmp"));
        command
    }

    pub(crate) fn run(&self, words: &str) -> Output {
        self.command(words).output().expect("loga-host starts")
    }

    /// The archive of a run that must have written one and left nothing else.
    pub(crate) fn archive(&self, words: &str) -> Archive {
        let output = self.run(&format!("--out card.tar {words}"));
        assert!(output.status.success(), "{}", text(&output));
        self.nothing_is_left();
        Archive::read(&self.path("card.tar")).expect("an archive")
    }

    pub(crate) fn nothing_is_left(&self) {
        assert_eq!(names(&self.path("tmp")), [""; 0]);
        assert!(!self.path("card.tar.part").exists());
    }
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.collect()
}

pub(crate) fn text(output: &Output) -> String {
    let both = [&*output.stdout, &*output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// The outcome of a step.
pub(crate) fn outcome<'a>(archive: &'a Archive, name: &str) -> &'a Outcome {
    let mut steps = archive.manifest.steps.iter();
    let step = steps.find(|step| step.name == name);
    &step.unwrap_or_else(|| panic!("no step {name}")).outcome
}

/// What a file of an archive has.
pub(crate) fn json(archive: &Archive, name: &str) -> serde_json::Value {
    let (_, contents) = archive
        .files()
        .find(|(found, _)| *found == name)
        .unwrap_or_else(|| panic!("no file {name}"));
    serde_json::from_slice(contents).expect("JSON")
}
