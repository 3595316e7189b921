// SPDX-License-Identifier: GPL-2.0

//! `packaging/module`: what it says about a kernel for which the module cannot be built, in one line
//! that says what to do. The headers here are made up; `make test-package` has real ones.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What made the kernel.
const RUSTC: &str = "rustc 1.85.1 (4eb161250 2025-03-15) (built from a source tarball)";

/// Headers of a kernel, with a compiler beside them.
struct Headers {
    folder: PathBuf,
}

impl Headers {
    /// Those of 7.3.4, configured with `options` and made by `RUSTC`, which is there.
    fn new(name: &str, options: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        let headers = Self { folder };
        let made = format!("{options}CONFIG_RUSTC_VERSION_TEXT={RUSTC}\n");
        headers.write("kernel/include/config/auto.conf", made.as_bytes());
        headers.write("kernel/include/config/kernel.release", b"7.3.4-made-up\n");
        headers.write("kernel/Module.symvers", b"");
        headers.compiler(RUSTC);
        headers
    }

    /// The same, with metadata made by a compiler.
    fn with_metadata(name: &str, by: &str) -> Self {
        let headers = Self::new(name, "CONFIG_RUST=y\n");
        headers.write("kernel/rust/libkernel.rmeta", b"rust");
        let start = format!("rust\0\0\0\n#{by}\0\0");
        headers.write("kernel/rust/libcore.rmeta", start.as_bytes());
        headers
    }

    fn write(&self, name: &str, text: &[u8]) -> PathBuf {
        let path = self.folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, text).expect("written");
        path
    }

    /// The compiler that is there says that it is this one.
    fn compiler(&self, version: &str) {
        let path = self.write("rustc", format!("#!/bin/sh\necho '{version}'\n").as_bytes());
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
    }

    /// Standard output of the script, or its one line of error.
    fn ask(&self, command: &str, kernel: &str) -> Result<String, String> {
        let output = Command::new("packaging/module")
            .arg(command)
            .arg(self.folder.join(kernel))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("RUSTC", self.folder.join("rustc"))
            .env("LOGA_CACHE", self.folder.join("cache"))
            .output()
            .expect("the script runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        if output.status.success() {
            return Ok(text(output.stdout));
        }
        let error = text(output.stderr);
        assert_eq!(error.lines().count(), 1, "{error}");
        Err(error)
    }

    /// `packaging/module why` has this in its line.
    #[track_caller]
    fn is_refused(&self, with: &str) {
        let error = self.ask("why", "kernel").expect_err("refused");
        assert!(error.contains(with), "{error}");
    }
}

#[test]
fn kernel_with_metadata_is_built_against_as_it_is() {
    let headers = Headers::with_metadata("metadata", "rustc 1.85.1 (4eb161250 2025-03-15)");
    assert_eq!(headers.ask("why", "kernel"), Ok(String::new()));
    let words = headers.ask("tree", "kernel").expect("words");
    let folder = headers.folder.display();
    assert_eq!(
        words,
        format!("-C\n{folder}/kernel\nRUSTC={folder}/rustc\n")
    );
}

#[test]
fn kernel_without_rust_is_refused() {
    let headers = Headers::new("no-rust", "CONFIG_MODULES=y\n");
    headers.is_refused("kernel 7.3.4-made-up was built without Rust (CONFIG_RUST): boot Linux");
}

#[test]
fn old_kernel_is_refused() {
    let headers = Headers::new("old", "CONFIG_RUST=y\n");
    headers.write("kernel/include/config/kernel.release", b"6.18.3\n");
    headers.is_refused("kernel 6.18.3 is too old: boot Linux");
}

#[test]
fn folder_without_headers_is_refused() {
    let headers = Headers::new("nothing", "");
    let error = headers.ask("why", "elsewhere").expect_err("refused");
    assert!(error.contains("those of the running one are in"), "{error}");
}

#[test]
fn tree_that_was_not_built_is_refused() {
    let headers = Headers::new("not-built", "CONFIG_RUST=y\n");
    fs::remove_file(headers.folder.join("kernel/Module.symvers")).expect("removed");
    headers.is_refused("is not a built kernel tree: run make in it");
}

#[test]
fn another_build_of_the_same_compiler_is_refused() {
    let headers = Headers::with_metadata("compiler", "rustc 1.85.1 (4eb161250 2025-03-15)");
    headers.compiler("rustc 1.85.1 (4eb161250 2025-03-15)");
    headers.is_refused("kernel 7.3.4-made-up was built by 'rustc 1.85.1 (4eb161250 2025-03-15) (built from a source tarball)', and ");
}

#[test]
fn missing_compiler_is_refused() {
    let headers = Headers::with_metadata("no-compiler", "rustc 1.85.1 (4eb161250 2025-03-15)");
    fs::remove_file(headers.folder.join("rustc")).expect("removed");
    headers.is_refused("rustc is 'not installed': ");
}

#[test]
fn metadata_older_than_the_configuration_is_refused() {
    let headers = Headers::with_metadata("stale", "rustc 1.84.0 (9fc6b4312 2025-01-07)");
    headers.is_refused("was made by 'rustc 1.84.0 (9fc6b4312 2025-01-07)', but the kernel is");
}

#[test]
fn missing_metadata_is_refused_with_what_to_install() {
    let headers = Headers::new("no-metadata", "CONFIG_RUST=y\n");
    headers.is_refused("Rust metadata of kernel 7.3.4-made-up is ");
    assert!(!headers.folder.join("cache").exists(), "asking made a file");
}

/// Licences that go with GPL-2.0-only in one program. Apache-2.0 alone is none of them.
const ALLOWED: [&str; 10] = [
    "MIT",
    "MIT-0",
    "ISC",
    "Zlib",
    "Unlicense",
    "BSL-1.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "Unicode-3.0",
    "GPL-2.0-only",
];

/// Whether an SPDX expression leaves a choice that is allowed; a slash is an older way to write `OR`.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace(['(', ')'], "").replace('/', " OR ");
    let mut parts = expression.split(" AND ");
    parts.all(|part| part.split(" OR ").any(|one| ALLOWED.contains(&one.trim())))
}

#[test]
fn programs_of_the_package_contain_only_what_their_licence_allows() {
    assert!(is_allowed("MIT/Apache-2.0"));
    assert!(is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
    assert!(!is_allowed("Apache-2.0"));
    assert!(!is_allowed("Apache-2.0 AND ISC"));
    let listed = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--edges", "normal"])
        .args(["--package", "loga-cli", "--package", "throttle"])
        .args(["--prefix", "none", "--format", "{p}|{l}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo");
    let said = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success(), "{said}");
    let listed = String::from_utf8(listed.stdout).expect("UTF-8");
    let crates = listed.lines().filter_map(|line| line.split_once('|'));
    let crates: Vec<_> = crates.collect();
    assert!(crates.len() > 50, "{listed}");
    for (name, licence) in crates {
        // One that was listed before has no licence, but a mark.
        let licence = licence.trim_end_matches(" (*)");
        assert!(is_allowed(licence), "{name}: {licence}");
    }
}
