// SPDX-License-Identifier: GPL-2.0

//! `--backend cuda` on a stand-in for CUDA's driver library: loading, calibration, report, errors.

#![cfg(not(target_feature = "crt-static"))]

mod common;
#[path = "cuda/log.rs"]
mod log;
#[path = "cuda/residency.rs"]
mod residency;

use common::{run, Ended};
use fake_cuda::{CYCLES_PER_US, FIXED_NS, NAME, ROUNDS_PER_US};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use tempfile::TempDir;
use throttle::clock::{Clock, Monotonic};
use throttle::lengths::Timer;

/// The double, as Cargo built it beside this test.
fn fake_library() -> PathBuf {
    let test = std::env::current_exe().expect("path of the test");
    let library = test.with_file_name("libfake_cuda.so");
    assert!(library.exists(), "{} is missing", library.display());
    library
}

/// A folder with the double under this name.
fn folder_with(name: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    symlink(fake_library(), folder.path().join(name)).expect("a link");
    folder
}

fn cuda(arguments: &str, environment: &[(&str, &str)]) -> Ended {
    let folder = folder_with("libcuda.so.1");
    let path = folder.path().to_str().expect("a plain path");
    let mut environment = environment.to_vec();
    environment.push(("LD_LIBRARY_PATH", path));
    run(&format!("--backend cuda --json {arguments}"), &environment)
}

#[test]
fn kernels_are_as_long_as_asked_and_all_are_counted() {
    for wait in ["spin", "block"] {
        let ended = cuda(&format!("--kernel-us 500 --count 50 --wait {wait}"), &[]);
        let one = &ended.report().instances[0];
        assert_eq!(one.summary.kernels, 50);
        assert_eq!(one.summary.gpu_asked_us, 25_000.0);
        assert!(one.summary.turnaround_min_us >= 475.0);
        let device = ended.device();
        assert_eq!(device.name, format!("{NAME} 0"));
        assert_eq!(device.library, "CUDA 6.0");
        assert_eq!(device.timer, Timer::GlobalTimer);
        assert!((device.units_per_us / 1000.0 - 1.0).abs() < 0.01);
        let fixed_us = FIXED_NS as f64 / 1000.0;
        assert!((device.fixed_us - fixed_us).abs() < 1.0);
        assert_eq!(device.check.kernels, 20);
        assert!(device.check.error_median_percent.abs() < 1.0);
        assert_eq!(device.run.kernels, 50);
    }
}

#[test]
fn kernels_queued_behind_each_other_run_one_after_the_other() {
    // So long that the device has work while the program gets no processor.
    let ended = cuda("--kernel-us 4000 --count 64 --depth 16", &[]);
    let one = &ended.report().instances[0];
    assert_eq!(one.summary.kernels, 64);
    let wall_us = (one.end_ns - one.start_ns) as f64 / 1000.0;
    assert!(wall_us >= 64.0 * 3800.0, "{wall_us}");
    assert!(one.summary.turnaround_median_us >= 15.0 * 3800.0);
}

#[test]
fn coarse_timer_is_replaced_by_the_clock() {
    let device = cuda("--count 10", &[("FAKE_CUDA_STEP_NS", "1000000")]).device();
    assert_eq!(device.timer, Timer::Clock64);
    let cycles = CYCLES_PER_US as f64;
    assert!((device.units_per_us / cycles - 1.0).abs() < 0.01);
    assert!(device.check.error_median_percent.abs() < 1.0);
    // A microsecond is fine for long kernels, too coarse for short ones.
    let step = [("FAKE_CUDA_STEP_NS", "1000")];
    let timer = |us| {
        cuda(&format!("--count 1 --kernel-us {us}"), &step)
            .device()
            .timer
    };
    assert_eq!(timer(1000), Timer::GlobalTimer);
    assert_eq!(timer(10), Timer::Clock64);
}

#[test]
fn timer_that_does_not_count_nanoseconds_is_replaced_by_the_clock() {
    let device = cuda("--count 10", &[("FAKE_CUDA_TIMER", "1.5")]).device();
    assert_eq!(device.timer, Timer::Clock64);
    assert!(device.check.error_median_percent.abs() < 1.0);
}

/// A timer would go on while the device runs another client in the middle of the kernel.
#[test]
fn device_that_preempts_kernels_runs_a_number_of_rounds() {
    let preempts = [("FAKE_CUDA_PREEMPTS", "1")];
    let device = cuda("--count 10", &preempts).device();
    assert_eq!(device.timer, Timer::Loop);
    let rounds = ROUNDS_PER_US as f64;
    assert!((device.units_per_us / rounds - 1.0).abs() < 0.01);
    assert!(device.check.error_median_percent.abs() < 1.0);
    // A driver that does not know the attribute has no such device.
    let unknown = [("FAKE_CUDA_REFUSE", "cuDeviceGetAttribute=1")];
    let timer = cuda("--count 1", &unknown).device().timer;
    assert_eq!(timer, Timer::GlobalTimer);
}

#[test]
fn kernels_longer_than_asked_show_in_the_report() {
    let stretch = [("FAKE_CUDA_STRETCH", "20")];
    // So long that the device has work while the program gets no processor.
    let device = cuda("--kernel-us 2000 --count 100 --depth 32", &stretch).device();
    assert!(device.check.error_median_percent.abs() < 1.0);
    // The first one has nothing to wait for.
    assert!((15.0..25.0).contains(&device.run.error_median_percent));
    assert!((15.0..25.0).contains(&device.run.error_mean_percent));
}

#[test]
fn instances_calibrate_and_report_each() {
    let begin_ns = Monotonic.now_ns();
    let report = cuda("--instances 3 --count 20", &[]).report();
    assert_eq!(report.total.kernels, 60);
    assert!(report.instances.iter().all(|one| one.device.is_some()));
    // A calibration keeps the device busy for a tenth of a second at least; all come before all starts.
    let started = report.instances.iter().map(|one| one.start_ns);
    let first_ns = started.min().unwrap() - begin_ns;
    assert!(first_ns >= 300_000_000, "{first_ns}");
}

#[test]
fn start_is_announced_once_however_many_start() {
    for instances in [1, 3] {
        let ended = cuda(
            &format!("--announce --instances {instances} --count 1"),
            &[],
        );
        assert_eq!((ended.code, &*ended.stderr), (0, "started\n"));
    }
}

#[test]
fn text_names_the_device_and_the_error() {
    let folder = folder_with("libcuda.so.1");
    let path = folder.path().to_str().expect("a plain path");
    let ended = run("--backend cuda --count 5", &[("LD_LIBRARY_PATH", path)]);
    let last = ended.stdout.lines().last().expect("a line").to_owned();
    assert!(
        last.contains("FakeCuda device 0 (CUDA 6.0), spins on %globaltimer"),
        "{last}"
    );
    assert!(last.contains("in the run, 5 kernels: mean "), "{last}");
}

#[test]
fn driver_that_takes_only_later_ptx_gets_it() {
    let device = cuda("--count 5", &[("FAKE_CUDA_TARGET", "sm_75")]).device();
    assert_eq!(device.timer, Timer::GlobalTimer);
    let ended = cuda("--count 5", &[("FAKE_CUDA_TARGET", "sm_999")]);
    assert_eq!(ended.code, 4);
    assert!(
        ended
            .stderr
            .contains("CUDA error 218 (CUDA_ERROR_INVALID_PTX): ptxas fatal"),
        "{}",
        ended.stderr
    );
}

#[test]
fn refused_call_ends_with_its_name_and_code_4() {
    for (refused, said) in [
        (
            "cuCtxCreate_v2=2",
            "cuCtxCreate failed: CUDA error 2 (CUDA_ERROR_OUT_OF_MEMORY)",
        ),
        (
            "cuLaunchKernel=719",
            "cuLaunchKernel failed: CUDA error 719 (CUDA_ERROR_LAUNCH_FAILED)",
        ),
        (
            "cuEventSynchronize=4242",
            "cuEventSynchronize failed: CUDA error 4242\n",
        ),
    ] {
        let ended = cuda("--count 5", &[("FAKE_CUDA_REFUSE", refused)]);
        assert_eq!(ended.code, 4, "{}", ended.stderr);
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }
}

#[test]
fn missing_device_ends_with_code_8() {
    let none = cuda("", &[("FAKE_CUDA_DEVICES", "0")]);
    assert_eq!(none.code, 8);
    assert!(none
        .stderr
        .contains("libcuda.so.1 has no such GPU: it finds none at all"));
    let one = cuda("--gpu 1", &[]);
    assert_eq!(one.code, 8);
    assert!(one.stderr.contains("--gpu 1, but it has 1"));
    let third = cuda("--gpu 2 --count 1", &[("FAKE_CUDA_DEVICES", "3")]);
    assert_eq!(third.device().name, format!("{NAME} 2"));
}

#[test]
fn library_that_cannot_be_loaded_ends_with_code_7() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("libcuda.so.1"), "no library").expect("a file");
    let path = folder.path().to_str().expect("a plain path");
    let ended = run("--backend cuda", &[("LD_LIBRARY_PATH", path)]);
    assert_eq!(ended.code, 7);
    assert!(
        ended
            .stderr
            .starts_with("throttle: cannot use libcuda.so.1: "),
        "{}",
        ended.stderr
    );
}

#[test]
fn library_without_the_calls_ends_with_code_7() {
    let folder = folder_with("libOpenCL.so.1");
    let path = folder.path().to_str().expect("a plain path");
    let ended = run("--backend opencl", &[("LD_LIBRARY_PATH", path)]);
    assert_eq!(ended.code, 7);
    assert!(
        ended.stderr.contains("it lacks clGetPlatformIDs"),
        "{}",
        ended.stderr
    );
}
