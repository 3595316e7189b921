// SPDX-License-Identifier: GPL-2.0

//! `--log`: the lines of a run on the stand-in, and what becomes of the file.

use crate::common::{run, Ended};
use crate::cuda;
use std::fs::{read_dir, read_to_string};
use std::path::Path;
use tempfile::TempDir;
use throttle::log::{Kernel, Last};
use throttle::report::Instance;

/// How far the clocks may be apart. The device's is that of the host, counted from another moment; a
/// mark is wrong only by the time that the host takes for the calls around it, if it is interrupted
/// in all that are tried.
const APART_NS: u64 = 50_000_000;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn logged(arguments: &str, path: &Path) -> Ended {
    cuda(&format!("{arguments} --log {}", path.display()), &[])
}

/// The lines of a log, and the last one.
fn lines(path: &Path) -> (Vec<Kernel>, Last) {
    let text = read_to_string(path).expect("a log");
    let mut lines: Vec<&str> = text.lines().collect();
    let last = lines.pop().expect("a last line");
    let kernels = lines
        .into_iter()
        .map(|line| serde_json::from_str(line).expect("a kernel"));
    (
        kernels.collect(),
        serde_json::from_str(last).expect("a last line"),
    )
}

/// Checks the kernels of an instance, each of this length.
fn check(kernels: &[Kernel], instance: &Instance, length_ns: u64) {
    let numbers: Vec<u64> = kernels.iter().map(|one| one.kernel).collect();
    let wanted: Vec<u64> = (1..=instance.summary.kernels).collect();
    assert_eq!(numbers, wanted);
    for one in kernels {
        assert!(instance.start_ns <= one.submitted_ns, "{one:?}");
        assert!(one.submitted_ns <= one.returned_ns, "{one:?}");
        assert!(one.submitted_ns <= one.started_ns + APART_NS, "{one:?}");
        assert!(one.ended_ns <= instance.end_ns + APART_NS, "{one:?}");
        // The device's own measure; a host that is interrupted between calls makes it longer only.
        assert!(
            one.ended_ns >= one.started_ns + length_ns * 9 / 10,
            "{one:?}"
        );
    }
    for pair in kernels.windows(2) {
        assert!(pair[0].returned_ns <= pair[1].submitted_ns, "{pair:?}");
        // The library's times have steps of half a microsecond.
        assert!(pair[0].ended_ns <= pair[1].started_ns + 2000, "{pair:?}");
    }
}

#[test]
fn log_has_a_line_for_each_kernel() {
    let folder = folder();
    let path = folder.path().join("log");
    for depth in [1, 8] {
        let ended = logged(
            &format!("--kernel-us 500 --count 40 --depth {depth}"),
            &path,
        );
        let (kernels, last) = lines(&path);
        assert_eq!((kernels.len(), last), (40, Last { dropped: 0 }));
        check(&kernels, &ended.report().instances[0], 500_000);
        // The device's report counts the same kernels.
        assert_eq!(ended.device().run.kernels, 40);
        let sum_ns: u64 = kernels
            .iter()
            .map(|one| one.ended_ns - one.started_ns)
            .sum();
        let ratio = sum_ns as f64 / 1000.0 / ended.device().run.measured_us;
        assert!((ratio - 1.0).abs() < 0.2, "{ratio}");
    }
    // Of eight under way each waits for those before it: it does not start when it is submitted.
    let waited = |one: &Kernel| one.started_ns.saturating_sub(one.submitted_ns);
    let waited_ns = lines(&path).0.iter().map(waited).max();
    assert!(waited_ns > Some(500_000), "{waited_ns:?}");
    assert_eq!(read_dir(folder.path()).expect("a folder").count(), 1);
}

/// The library's `f32` would be coarse after many seconds: they are counted from an event that is
/// replaced, here every tenth of a second.
#[test]
fn times_stay_in_order_in_a_long_run() {
    let folder = folder();
    let path = folder.path().join("log");
    let arguments = format!("--kernel-us 8000 --count 1500 --log {}", path.display());
    let ended = cuda(&arguments, &[("FAKE_CUDA_CLOCK", "40")]);
    let (kernels, last) = lines(&path);
    assert_eq!(last.dropped, 0);
    // The device counts 40 ns for each of the host's.
    check(&kernels, &ended.report().instances[0], 8_000_000 / 40);
    let ran_ns = kernels.last().expect("a kernel").ended_ns - kernels[0].started_ns;
    assert!(ran_ns * 40 > 8_000_000_000, "{ran_ns}");
}

#[test]
fn instances_write_a_file_each() {
    let folder = folder();
    let path = folder.path().join("log");
    let ended = logged("--kernel-us 200 --count 20 --instances 2", &path);
    for one in &ended.report().instances {
        let own = folder.path().join(format!("log.{}", one.instance));
        let (kernels, last) = lines(&own);
        assert_eq!((kernels.len(), last.dropped), (20, 0));
        check(&kernels, one, 200_000);
    }
    assert_eq!(read_dir(folder.path()).expect("a folder").count(), 2);
}

#[test]
fn file_that_cannot_be_written_ends_the_run_before_it_begins() {
    let folder = folder();
    let path = folder.path().join("none").join("log");
    let ended = logged("--count 5 --announce", &path);
    assert_eq!((ended.code, &*ended.stdout), (5, ""));
    let wanted = format!("throttle: cannot write {}: ", path.display());
    assert!(ended.stderr.starts_with(&wanted), "{}", ended.stderr);
    assert!(!ended.stderr.contains("started"), "{}", ended.stderr);
    let ended = logged("--count 5 --instances 2", &path);
    let wanted = format!("throttle: instance 0: cannot write {}.0: ", path.display());
    assert_eq!(ended.code, 5);
    assert!(ended.stderr.starts_with(&wanted), "{}", ended.stderr);
}

#[test]
fn run_that_fails_leaves_no_file() {
    let folder = folder();
    let path = folder.path().join("log");
    let refuse = [("FAKE_CUDA_REFUSE", "cuEventQuery=719")];
    let ended = cuda(&format!("--count 5 --log {}", path.display()), &refuse);
    assert_eq!(ended.code, 4);
    assert_eq!(read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn standin_is_refused() {
    let folder = folder();
    let path = folder.path().join("log");
    let ended = run(&format!("--log {}", path.display()), &[]);
    assert_eq!(ended.code, 2);
    assert!(ended
        .stderr
        .starts_with("throttle: --log: needs --backend cuda or opencl"));
    assert!(!path.exists());
}
