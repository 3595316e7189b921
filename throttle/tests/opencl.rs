// SPDX-License-Identifier: GPL-2.0

//! `--backend opencl` on whatever OpenCL device the machine has; `make test` installs PoCL, which is
//! one on the processor.
//!
//! Only counts and orders are checked: other work on the machine makes kernels longer at any time,
//! never shorter. A test that is ignored measures their lengths.

#![cfg(not(target_feature = "crt-static"))]

mod common;

use common::{run, Ended};
use std::io::Write;
use std::process::Command;
use throttle::lengths::Timer;
use throttle::log::Kernel;

/// Set by `make test`: the device must be there.
const REQUIRED: &str = "LOGA_NEED_OPENCL";

/// How far the clocks of host and device may be apart, if other work comes between all calls.
const APART_NS: u64 = 50_000_000;

/// Whether PoCL is installed, so that there must be a device.
fn pocl_is_installed() -> bool {
    let query = Command::new("dpkg-query")
        .args(["-W", "-f", "${db:Status-Status}", "pocl-opencl-icd"])
        .output();
    query.is_ok_and(|query| query.stdout == b"installed")
}

/// Runs with `arguments`; nothing, after saying so loudly, where there is no device to run on.
fn opencl(arguments: &str) -> Option<Ended> {
    let ended = run(&format!("--backend opencl --json {arguments}"), &[]);
    if ![7, 8].contains(&ended.code) {
        return Some(ended);
    }
    assert!(
        std::env::var_os(REQUIRED).is_none(),
        "an OpenCL device must be there, but: {}",
        ended.stderr
    );
    assert!(
        !pocl_is_installed(),
        "an OpenCL device must be there, but: {}",
        ended.stderr
    );
    let line = format!("NOT TESTED, no OpenCL device: {}", ended.stderr);
    // Past the test runner, which swallows what a test prints.
    let _ = std::io::stderr().write_all(line.as_bytes());
    None
}

#[test]
fn kernels_are_counted_and_timed_by_the_device() {
    let Some(ended) = opencl("--kernel-us 500 --count 300") else {
        return;
    };
    let one = &ended.report().instances[0];
    assert_eq!(one.summary.kernels, 300);
    assert_eq!(one.summary.gpu_asked_us, 150_000.0);
    let device = ended.device();
    assert_eq!(device.timer, Timer::Loop);
    assert!(!device.name.is_empty());
    assert!(!device.library.is_empty());
    assert_eq!(device.check.kernels, 20);
    assert_eq!((device.run.kernels, device.run.asked_us), (300, 150_000.0));
    for check in [&device.check, &device.run] {
        assert!(check.error_least_percent <= check.error_median_percent);
    }
    // The errors follow from the sums, and the worst is at least the median.
    let mean = 100.0 * (device.run.measured_us / device.run.asked_us - 1.0);
    assert!((device.run.error_mean_percent - mean).abs() < 1e-6);
    assert!(device.run.error_worst_percent.abs() >= device.run.error_median_percent.abs());
    // The device cannot have worked longer than the program waited.
    let waited_us = one.summary.turnaround_mean_us * 300.0;
    assert!(
        device.run.measured_us <= waited_us,
        "{waited_us} {device:?}"
    );
    assert!(waited_us <= (one.end_ns - one.start_ns) as f64 / 1000.0);
}

/// `cargo test -p throttle --test opencl -- --ignored`
#[test]
#[ignore = "a measurement of the processor, which is the device"]
fn kernel_length_follows_what_is_asked() {
    let shortest = |us: f64| {
        let ended = opencl(&format!("--kernel-us {us} --count 200"))?;
        let device = ended.device();
        // Some kernel is left alone even on a busy machine. What shares the core changes its speed.
        for check in [&device.check, &device.run] {
            let least = check.error_least_percent;
            assert!((-45.0..45.0).contains(&least), "{device:?}");
        }
        Some(us * (1.0 + device.run.error_least_percent / 100.0))
    };
    let (Some(short), Some(long)) = (shortest(300.0), shortest(1200.0)) else {
        return;
    };
    let ratio = long / short;
    assert!(
        (2.8..=5.6).contains(&ratio),
        "{long} us to {short} us is {ratio}, not 4"
    );
}

#[test]
fn kernels_complete_in_order_at_any_depth() {
    for depth in [4, 32] {
        let Some(ended) = opencl(&format!(
            "--kernel-us 200 --count 256 --depth {depth} --wait block"
        )) else {
            return;
        };
        let one = &ended.report().instances[0];
        let device = ended.device();
        assert_eq!((one.summary.kernels, device.run.kernels), (256, 256));
        // One after the other: all kernels fit into the run.
        let wall_us = (one.end_ns - one.start_ns) as f64 / 1000.0;
        assert!(device.run.measured_us <= wall_us, "{wall_us} {device:?}");
        // A kernel waits for the ones before it: about `depth` lengths, at least half as many.
        let length_us = device.run.measured_us / 256.0;
        let waited = one.summary.turnaround_mean_us / length_us;
        assert!(
            waited >= f64::from(depth) / 2.0,
            "{waited} lengths at depth {depth}"
        );
    }
}

#[test]
fn log_has_the_kernels_in_order_on_the_clock_of_the_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let arguments = format!(
        "--kernel-us 500 --count 100 --depth 4 --log {}",
        path.display()
    );
    let Some(ended) = opencl(&arguments) else {
        return;
    };
    let one = &ended.report().instances[0];
    let text = std::fs::read_to_string(&path).expect("a log");
    let kernels = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let kernels: Vec<Kernel> = kernels.collect();
    assert_eq!((kernels.len(), text.lines().count()), (100, 101));
    for kernel in &kernels {
        assert!(kernel.submitted_ns <= kernel.returned_ns, "{kernel:?}");
        assert!(
            kernel.submitted_ns <= kernel.started_ns + APART_NS,
            "{kernel:?}"
        );
        assert!(kernel.started_ns < kernel.ended_ns, "{kernel:?}");
        assert!(kernel.ended_ns <= one.end_ns + APART_NS, "{kernel:?}");
    }
    let in_order = |pair: &[Kernel]| pair[0].ended_ns <= pair[1].started_ns + 2000;
    assert!(kernels.windows(2).all(in_order), "{kernels:?}");
}

#[test]
fn missing_device_ends_with_code_8() {
    if opencl("--count 1").is_none() {
        return;
    }
    let ended = run("--backend opencl --gpu 250", &[]);
    assert_eq!(ended.code, 8);
    assert!(
        ended.stderr.contains("--gpu 250, but it has "),
        "{}",
        ended.stderr
    );
}

#[test]
fn machine_without_an_implementation_ends_with_code_8() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a plain path");
    let ended = run("--backend opencl", &[("OCL_ICD_VENDORS", path)]);
    // Not with another loader library than the one that packages install.
    assert!([7, 8].contains(&ended.code), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("throttle: "), "{}", ended.stderr);
}
