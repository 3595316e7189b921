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
