// SPDX-License-Identifier: GPL-2.0

//! `[double]` A management library that the C compiler makes, and the tests with it.

use super::library::Library;
use super::*;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the stand-in knows a card.
const ADDRESS: &str = "0000:01:00.0";

/// A stand-in with these macros, in a folder of its own.
struct StandIn {
    folder: tempfile::TempDir,
}

impl StandIn {
    fn new(macros: &[&str]) -> Self {
        let stand_in = StandIn {
            folder: tempfile::tempdir().unwrap(),
        };
        let source = stand_in.folder.path().join("standin.c");
        std::fs::write(&source, include_str!("standin.c")).unwrap();
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([stand_in.library(), source])
            .args(macros)
            .status();
        assert!(status.unwrap().success(), "cc");
        stand_in
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("libnvidia-ml.so.1")
    }

    fn load(&self) -> Library {
        Library::load(&self.library()).unwrap()
    }
}

const ORDINARY: [&str; 3] = ["-DINIT=0", "-DSET=0", "-DACCOUNTING=0"];

#[test]
fn about_has_each_answer_of_the_library() {
    let stand_in = StandIn::new(&ORDINARY);
    let library = stand_in.load();
    let about = library.device(ADDRESS).unwrap().about();
    assert_eq!(about.driver_version.as_deref(), Ok("580.159.04"));
    let (environment, feature, devtools) = (2, 1, 0);
    let confidential = Confidential {
        environment,
        feature,
        devtools,
    };
    assert_eq!(about.confidential, Ok(confidential));
    let (is_on, is_pending) = (false, true);
    assert_eq!(about.mig, Ok(Mig { is_on, is_pending }));
    assert_eq!(
        (about.is_persistent, about.is_accounting),
        (Ok(true), Ok(false))
    );
    assert_eq!(
        (about.virtualization, about.compute_processes),
        (Ok(1), Ok(2))
    );
}

#[test]
fn call_that_an_older_library_lacks_is_refused_or_replaced() {
    let stand_in = StandIn::new(&["-DINIT=0", "-DSET=0", "-DACCOUNTING=0", "-DOLD"]);
    let library = stand_in.load();
    let about = library.device(ADDRESS).unwrap().about();
    let refusal = about.confidential.unwrap_err();
    assert!(
        refusal.by.ends_with(": nvmlSystemGetConfComputeState"),
        "{refusal}"
    );
    assert_eq!(refusal.answer, "no such call");
    assert_eq!(about.compute_processes, Ok(0));
}

#[test]
fn utilisation_has_the_samples_that_were_filled() {
    let stand_in = StandIn::new(&ORDINARY);
    let library = stand_in.load();
    let device = library.device(ADDRESS).unwrap();
    let samples = device.utilisation(0).unwrap();
    let found: Vec<(u32, u64, u32, u32)> = samples
        .iter()
        .map(|one| (one.pid, one.at_us, one.sm_percent, one.memory_percent))
        .collect();
    assert_eq!(found, [(100, 1000, 40, 5), (200, 2000, 60, 6)]);
    assert_eq!(device.utilisation(2001), Ok(Vec::new()));
}

#[test]
fn accounting_is_turned_on_and_put_back() {
    let stand_in = StandIn::new(&ORDINARY);
    let library = stand_in.load();
    let device = library.device(ADDRESS).unwrap();
    let accounting = device.account().unwrap();
    assert_eq!(device.about().is_accounting, Ok(true));
    let stats = accounting.accounted().unwrap();
    let found: Vec<(u32, u32, u64, bool)> = stats
        .iter()
        .map(|one| (one.pid, one.gpu_percent, one.context_ms, one.is_running))
        .collect();
    assert_eq!(found, [(100, 10, 1100, false), (300, 30, 1300, true)]);
    drop(accounting);
    assert_eq!(device.about().is_accounting, Ok(false));
    device.account().unwrap().end().unwrap();
    assert_eq!(device.about().is_accounting, Ok(false));
    assert_eq!(device.changes(), Ok(4));
}

#[test]
fn accounting_that_was_on_stays_on() {
    let stand_in = StandIn::new(&["-DINIT=0", "-DSET=0", "-DACCOUNTING=1"]);
    let library = stand_in.load();
    let device = library.device(ADDRESS).unwrap();
    drop(device.account().unwrap());
    assert_eq!(device.about().is_accounting, Ok(true));
    assert_eq!(device.changes(), Ok(0));
}

#[test]
fn accounting_that_may_not_be_turned_on_is_refused_by_the_library() {
    let stand_in = StandIn::new(&["-DINIT=0", "-DSET=4", "-DACCOUNTING=0"]);
    let library = stand_in.load();
    let device = library.device(ADDRESS).unwrap();
    let refusal = device.account().unwrap_err();
    assert!(
        refusal.by.ends_with(": nvmlDeviceSetAccountingMode"),
        "{refusal}"
    );
    assert_eq!(refusal.answer, "status 4 (Insufficient Permissions)");
}

#[test]
fn card_that_the_library_does_not_know_is_refused() {
    let stand_in = StandIn::new(&ORDINARY);
    let library = stand_in.load();
    let refusal = library.device("0000:02:00.0").unwrap_err();
    assert_eq!(refusal.answer, "status 6 (Some Error)");
    let refusal = library.device("0000\0").unwrap_err();
    assert_eq!(refusal.by, "this program");
}

#[test]
fn library_that_is_missing_or_finds_no_driver_is_refused() {
    let refusal = Library::load(Path::new("libnvidia-ml.so.none")).unwrap_err();
    assert_eq!(refusal.by, "no library: libnvidia-ml.so.none");
    assert!(refusal.answer.contains("libnvidia-ml.so.none"), "{refusal}");
    let stand_in = StandIn::new(&["-DINIT=9", "-DSET=0", "-DACCOUNTING=0"]);
    let refusal = Library::load(&stand_in.library()).unwrap_err();
    assert!(refusal.by.ends_with(": nvmlInit_v2"), "{refusal}");
    assert_eq!(refusal.answer, "status 9 (Some Error)");
}

#[test]
fn library_is_shut_down_once_and_only_if_it_was_initialised() {
    let stand_in = StandIn::new(&ORDINARY);
    let (first, second) = (stand_in.load(), stand_in.load());
    assert_eq!(second.initialised(), Ok(2));
    drop(first);
    assert_eq!(second.initialised(), Ok(1));
}
