// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The file for a collector.

use super::*;
use crate::fake::FakeKernel;
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};

fn arguments(line: &str) -> Result<cli::Serve, String> {
    let line = format!("loga agent serve {line}");
    let parsed = <cli::Arguments as clap::Parser>::try_parse_from(line.split_whitespace());
    match parsed.map_err(|error| error.to_string())?.command {
        cli::Command::Agent(cli::Agent {
            what: cli::AgentKind::Serve(serve),
        }) => Ok(serve),
        other => panic!("{other:?}"),
    }
}

#[test]
fn options_are_read() {
    let serve = arguments("").expect("right");
    assert_eq!(serve.listen, "127.0.0.1:9466".parse().expect("an address"));
    assert_eq!((serve.processes, serve.textfile), (None, None));
    assert_eq!(arguments("--processes").expect("right").processes, Some(32));
    assert_eq!(
        arguments("--processes=7").expect("right").processes,
        Some(7)
    );
    assert!(arguments("").expect("right").gpus.is_empty());
    assert_eq!(arguments("--gpu 2,3").expect("right").gpus, [2, 3]);
    for wrong in [
        "--gpu 2,x",
        "--processes=0",
        "--processes=257",
        "--listen nowhere",
        "--textfile x --listen 127.0.0.1:1",
    ] {
        assert!(arguments(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn file_is_replaced_as_a_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("loga.prom");
    fs::write(&path, "old").expect("a file");
    let serve = arguments(&format!("--textfile {}", path.display())).expect("right");
    let fake = FakeKernel::new(1);
    let mut out = Vec::new();
    run(&serve, || Ok(Control::over(&fake)), &mut out).expect("written");
    let text = fs::read_to_string(&path).expect("the file");
    assert!(text.contains("\nloga_up 1\n"), "{text}");
    assert!(text.contains("loga_gpu_clients{"), "{text}");
    assert_eq!(
        fs::metadata(&path).expect("the file").permissions().mode() & 0o777,
        0o644
    );
    // Without the kernel module the file says so, and the caller learns why.
    let gone = || Err::<Control<&FakeKernel>, _>(Error::NotLoaded);
    let failure = run(&serve, gone, &mut out).expect_err("down").to_string();
    assert!(failure.contains("not loaded"), "{failure}");
    assert!(fs::read_to_string(&path)
        .expect("the file")
        .contains("\nloga_up 0\n"));
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1);
}

#[test]
fn link_that_another_user_made_is_not_written_through() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("loga.prom");
    let other = folder.path().join("other");
    fs::write(&other, "of another").expect("a file");
    let name = format!("loga.prom.{}.tmp", std::process::id());
    symlink(&other, folder.path().join(name)).expect("a link");
    let serve = arguments(&format!("--textfile {}", path.display())).expect("right");
    let fake = FakeKernel::new(1);
    run(&serve, || Ok(Control::over(&fake)), &mut Vec::new()).expect("written");
    assert_eq!(fs::read_to_string(&other).expect("a file"), "of another");
    assert!(fs::symlink_metadata(&path).expect("a file").is_file());
}

#[test]
fn file_that_cannot_be_written_is_named() {
    let serve = arguments("--textfile /nonexistent/loga.prom").expect("right");
    let fake = FakeKernel::new(1);
    let failure = run(&serve, || Ok(Control::over(&fake)), &mut Vec::new()).expect_err("refused");
    assert!(
        failure
            .to_string()
            .starts_with("cannot write /nonexistent/loga.prom: "),
        "{failure}"
    );
}
