// SPDX-License-Identifier: GPL-2.0

//! The scripts of the set-up, where a whole run from an empty cache would take long.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An empty cache of this name.
fn cache(name: &str) -> PathBuf {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&cache);
    fs::create_dir_all(&cache).expect("made");
    cache
}

/// Readies a folder for cargo in a cache, as `tests/vm/build` does: the first failure ends it.
fn ready(cache: &Path, target: &Path) {
    let root = env!("CARGO_MANIFEST_DIR");
    let line = "set -euo pipefail
        . tests/vm/lib/report.sh
        . tests/vm/lib/checkouts.sh
        ready_target";
    let output = Command::new("bash")
        .args(["-c", line])
        .current_dir(root)
        .env("root", root)
        .env("cache", cache)
        .env("CARGO_TARGET_DIR", target)
        .output()
        .expect("bash runs");
    assert!(output.status.success(), "{output:?}");
    let of = fs::read_to_string(target.join(".checkout")).expect("noted");
    assert_eq!(of.trim(), root);
}

#[test]
fn first_checkout_finds_nothing_to_take_over() {
    let cache = cache("first-checkout");
    ready(&cache, &cache.join("target-0123456789ab"));
}

#[test]
fn next_checkout_takes_crates_over_that_are_not_ours() {
    let cache = cache("next-checkout");
    let old = cache.join("target-0123456789ab");
    ready(&cache, &old);
    let deps = old.join("debug/deps");
    fs::create_dir_all(&deps).expect("made");
    for name in ["libserde-1.rlib", "libloga-1.rlib", "requests-1"] {
        fs::write(deps.join(name), name).expect("written");
    }
    let new = cache.join("target-ba9876543210");
    ready(&cache, &new);
    let taken = fs::read_dir(new.join("debug/deps")).expect("a folder");
    let taken: Vec<_> = taken.flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(taken, ["libserde-1.rlib"]);
}

/// What `tests/vm/frames` says of a function that calls another one, with 3000 and 1000 bytes.
fn frames(name: &str, limit: &str) -> (bool, String) {
    const SOURCE: &str = "void use(char *);
        static __attribute__((noinline)) void leaf(void) { char own[1000]; use(own); use(own); }
        void root(void) { char own[3000]; use(own); leaf(); use(own); }
        void other(void) { char own[3500]; use(own); use(own); }
        void kunit_of_root(void) { char own[500]; use(own); root(); use(own); }";
    let folder = cache(name);
    let (source, object) = (folder.join("two.c"), folder.join("two.o"));
    fs::write(&source, SOURCE).expect("written");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-fno-stack-protector", "-fcf-protection=none", "-c"]);
    let compiled = compiler.arg(&source).arg("-o").arg(&object).status();
    assert!(compiled.expect("a compiler").success());
    let output = Command::new("tests/vm/frames")
        .arg(&object)
        .arg(limit)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("a script");
    let text = String::from_utf8(output.stdout).expect("text");
    (output.status.success(), text)
}

#[test]
fn deepest_chain_of_calls_is_found() {
    let (fits, text) = frames("frames-that-fit", "5000");
    assert!(fits, "{text}");
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    let bytes: u32 = words[0][1].parse().expect("a number");
    // With return addresses, registers that are kept, and alignment.
    assert!((4_016..4_100).contains(&bytes), "{text}");
    let names: Vec<_> = text
        .lines()
        .skip(1)
        .filter_map(|line| line.rsplit(' ').next())
        .collect();
    assert_eq!(names, ["root", "leaf"]);
}

#[test]
fn chain_of_calls_that_is_too_deep_is_an_error() {
    let (fits, text) = frames("frames-too-deep", "4000");
    assert!(!fits, "{text}");
    assert!(text.ends_with("leaf\n"), "{text}");
}
