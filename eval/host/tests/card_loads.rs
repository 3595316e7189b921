// SPDX-License-Identifier: GPL-2.0

//! Steps of `loga-host card` that start loads: with a load of ours that stores to ordinary files in the
//! place of nodes, and with the load generator on the stand-in for CUDA's library.

mod common;

use common::{json, outcome, Host};
use loga_card::{recording, Outcome};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

/// A host with a card and this load in the place of the load generator.
fn host_with_load() -> Host {
    let host = Host::with_card();
    host.file("load.c", include_str!("common/load.c"));
    let compiled = Command::new("cc")
        .args([
            "-O1", "-Wall", "-Wextra", "-Werror", "-o", "throttle", "load.c",
        ])
        .current_dir(host.folder.path())
        .status()
        .expect("a C compiler");
    assert!(compiled.success());
    host
}

#[test]
fn held_process_waits_and_goes_on_and_its_rings_are_counted() {
    let host = host_with_load();
    let archive = host.archive("--only hold --hold-ms 300,600");
    let said = outcome(&archive, "hold");
    assert!(matches!(said, Outcome::Done { .. }), "{said}");
    let found = json(&archive, "hold/hold.json");
    let count = &found["count"];
    assert_eq!(
        (&count["rings_before"], &count["rings_per_kernel"]),
        (&1.into(), &1.0.into())
    );
    let mapping = &count["mappings"][0];
    assert_eq!(
        (&mapping["bytes"], &mapping["stores"]),
        (&0x10000.into(), &200.into())
    );
    // Each kernel of the load has a token of its own.
    let tokens = mapping["tokens"].as_array().expect("tokens");
    assert_eq!(tokens.len(), 200);
    assert!(tokens
        .iter()
        .all(|token| token["offset"] == 0x90 && token["stores"] == 1));
    let holds = found["holds"].as_array().expect("holds");
    for (hold, asked) in holds.iter().zip([300, 600]) {
        assert_eq!(hold["asked_ms"], asked);
        assert_eq!(hold["program"], "exit status: 0");
        let held = &hold["holds"][0];
        assert!(held["held_ms"].as_f64() >= Some(asked.into()), "{held}");
        // One thread submits, so one store waits. Its device has no queue: at most the kernel starts
        // whose ring came just before.
        assert_eq!(held["waited"], 1, "{held}");
        assert!(held["started"].as_u64() <= Some(1), "{held}");
    }
    assert_eq!(holds.len(), 2);
    // The device of this load looks at the doorbell: it takes nothing along whose ring does not come.
    let pauses = &found["swallowed"][0];
    assert_eq!(
        (&pauses["load"], &pauses["program"]),
        (&"pauses".into(), &"exit status: 0".into())
    );
    let idle = &pauses["by_state"]["idle"];
    assert_eq!(
        (&idle["ended_without"], &idle["ended_after"]),
        (&0.into(), &12.into())
    );
}

#[test]
fn device_that_takes_commands_along_without_a_ring_is_told_from_others() {
    let host = host_with_load();
    host.file("takes-along", "");
    let archive = host.archive("--only hold --hold-ms 1");
    let idle = &json(&archive, "hold/hold.json")["swallowed"][0]["by_state"]["idle"];
    assert_eq!(
        (&idle["ended_without"], &idle["ended_after"]),
        (&12.into(), &0.into())
    );
}

#[test]
fn calls_of_each_process_are_recorded_and_kept() {
    let host = host_with_load();
    let archive = host.archive("--only record");
    let said = outcome(&archive, "record").to_string();
    assert!(said.starts_with("done: one: "), "{said}");
    for name in ["one", "two-a", "two-b", "beside"] {
        let file = format!("record/{name}-0.calls");
        let (_, contents) = archive
            .files()
            .find(|(found, _)| *found == file)
            .unwrap_or_else(|| panic!("no {file}"));
        let text = std::str::from_utf8(contents).expect("text");
        let lines = recording::lines(text).expect("a recording");
        let channel = lines
            .iter()
            .find(|line| line.word("in", 12) == Some(0xc86f));
        assert_eq!(
            channel.and_then(|line| line.wide("params", 64)),
            Some(0x2000),
            "{file}"
        );
        assert!(lines
            .iter()
            .any(|line| line.kind == "mmap" && line.text("node") == "nvidia0"));
    }
}

/// The load generator, as Cargo builds it with the whole workspace.
fn throttle() -> PathBuf {
    let program = PathBuf::from(common::PROGRAM).with_file_name("throttle");
    assert!(
        program.exists(),
        "{}: cargo build -p throttle",
        program.display()
    );
    program
}

#[test]
fn slices_of_the_stand_in_are_found_within_two_percent() {
    let host = Host::with_card();
    let library = std::env::current_exe().expect("this test");
    let library = library.with_file_name("libfake_cuda.so");
    std::fs::create_dir(host.path("lib")).expect("a folder");
    symlink(library, host.path("lib/libcuda.so.1")).expect("a link");
    std::fs::remove_file(host.path("throttle")).ok();
    symlink(throttle(), host.path("throttle")).expect("a link");
    for (slice_us, switch_us) in [(2048.0, 137.0), (1049.0, 50.0)] {
        let mut command = host.command("--out card.tar --only slices");
        command.env("LD_LIBRARY_PATH", host.path("lib"));
        command.env("FAKE_CUDA_SLICE_US", format!("{slice_us}"));
        command.env("FAKE_CUDA_SWITCH_US", format!("{switch_us}"));
        let output = command.output().expect("loga-host starts");
        assert!(output.status.success(), "{}", common::text(&output));
        let archive = loga_card::Archive::read(&host.path("card.tar")).expect("an archive");
        let said = outcome(&archive, "slices");
        assert!(matches!(said, Outcome::Done { .. }), "{said}");
        let sharing = &json(&archive, "slices/slices.json")["sharing"];
        for (name, given) in [("slice_us", slice_us), ("switch_us", switch_us)] {
            let found = sharing[name].as_f64().expect("a figure");
            assert!(
                (found / given - 1.0).abs() <= 0.02,
                "{name}: {found}, given {given}"
            );
        }
    }
}
