// SPDX-License-Identifier: GPL-2.0

//! `--residency` on the stand-in, whose device divides its time as the environment says. It computes
//! what the kernel's threads would note, so that the figures are the same in every run.

use crate::common::{run, Ended};
use crate::{cuda, folder_with};
use fake_cuda::MULTIPROCESSORS;
use throttle::residency::{slice_and_switch, Residency};

/// Beside another process; phase and all other figures in us.
fn beside(slice: u64, switch: u64, phase: u64, arguments: &str) -> Ended {
    let values = [slice, switch, phase].map(|us| us.to_string());
    let names = ["SLICE", "SWITCH", "PHASE"].map(|name| format!("FAKE_CUDA_{name}_US"));
    let mut environment = vec![("FAKE_CUDA_JITTER_US", "1")];
    environment.extend(
        names
            .iter()
            .map(String::as_str)
            .zip(values.iter().map(String::as_str)),
    );
    cuda(&format!("--residency {arguments}"), &environment)
}

fn residency(ended: &Ended) -> Residency {
    let report = ended.report();
    let first = report.instances.first().expect("an instance");
    first.residency.clone().expect("a residency")
}

#[test]
fn slice_and_switch_of_the_device_are_found() {
    for (slice, switch) in [(2048, 137), (1049, 5), (500, 50), (100, 20), (7000, 800)] {
        let a = beside(slice, switch, 0, "--seconds 4");
        let b = beside(slice, switch, slice + switch, "--seconds 4");
        let (a, b) = (residency(&a), residency(&b));
        let found = slice_and_switch(&a, &b).expect("figures");
        let near = |found_us: f64, given: u64| (found_us / given as f64 - 1.0).abs() < 0.02;
        assert!(near(found.slice_us, slice), "{slice} {switch} {found:?}");
        assert!(near(found.switch_us, switch), "{slice} {switch} {found:?}");
        for one in [a, b] {
            assert_eq!(
                (one.multiprocessors, one.noted),
                (MULTIPROCESSORS, MULTIPROCESSORS)
            );
            assert_eq!((one.timer_step_ns, one.dropped), (32, 0));
            // Eight rounds, each of which sees a gap in each period, and lasts until a gap is over.
            let period = 2 * (slice + switch);
            let gaps = one.gaps.count.abs_diff(4_000_000 / period);
            assert!(gaps <= 8, "{slice} {switch} {one:?}");
            assert_eq!(one.pieces.count, one.gaps.count - 8);
            let most = 4.0 + 8.0 * period as f64 / 1e6;
            assert!((4.0..most).contains(&one.seconds), "{}", one.seconds);
            let sum = one.on_engine_us + one.gap_us;
            assert!((sum / 1e6 / one.seconds - 1.0).abs() < 1e-9);
        }
    }
}

#[test]
fn process_alone_is_always_on_the_engine() {
    let ended = cuda("--residency --seconds 2", &[]);
    let one = residency(&ended);
    assert_eq!((one.multiprocessors, one.noted), (MULTIPROCESSORS, 0));
    assert_eq!((one.gaps.count, one.pieces.count, one.dropped), (0, 0, 0));
    assert_eq!(one.gap_us, 0.0);
    assert!((one.on_engine_us / 2e6 - 1.0).abs() < 1e-4, "{one:?}");
    assert_eq!(slice_and_switch(&one, &one), None);
    let report = ended.report();
    assert_eq!(report.plan.gap_us, Some(30));
    assert_eq!(report.instances[0].summary.kernels, 0);
    assert!(report.instances[0].device.is_none());
}

#[test]
fn gaps_up_to_the_threshold_are_none() {
    // Gaps of 140 us, by jitter and between multiprocessors from 137 to 143 us.
    let below = residency(&beside(100, 20, 0, "--seconds 0.5 --gap-us 145"));
    assert_eq!((below.noted, below.gaps.count), (0, 0));
    let above = residency(&beside(100, 20, 0, "--seconds 0.5 --gap-us 135"));
    assert!(above.gaps.count > 2000, "{above:?}");
}

#[test]
fn gaps_that_the_threads_have_no_room_for_are_dropped() {
    // A gap in 82 us, and room for 4096 in half a second.
    let one = residency(&beside(40, 1, 0, "--seconds 1"));
    assert_eq!(one.gaps.count, 2 * 4096);
    let all = one.gaps.count + one.dropped;
    assert!(all.abs_diff(1_000_000 / 82) <= 2, "{all}");
    // What came after them is in neither sum.
    let seen = (one.on_engine_us + one.gap_us) / 1e6;
    assert!((seen / (2.0 * 4096.0 * 82e-6) - 1.0).abs() < 0.01, "{seen}");
    assert!(one.seconds >= 1.0);
}

#[test]
fn coarse_timer_is_refused_with_step_and_threshold() {
    for (step, arguments, said) in [
        ("16000", "", "--gap-us 30: must be at least two steps of the device's timer, which has steps of 16000 ns"),
        ("51000", "--gap-us 100", "--gap-us 100: must be at least two steps of the device's timer, which has steps of 51000 ns"),
    ] {
        let ended = cuda(&format!("--residency {arguments}"), &[("FAKE_CUDA_STEP_NS", step)]);
        assert_eq!((ended.code, &*ended.stdout), (2, ""));
        assert_eq!(ended.stderr, format!("throttle: {said}\n"));
    }
    let fine = cuda(
        "--residency --gap-us 32 --seconds 0.1",
        &[("FAKE_CUDA_STEP_NS", "16000")],
    );
    assert_eq!(residency(&fine).timer_step_ns, 16_000);
}

#[test]
fn refused_calls_end_with_their_names() {
    for (refused, said) in [
        (
            "cuDeviceGetAttribute=1",
            "cuDeviceGetAttribute failed: CUDA error 1",
        ),
        (
            "cuMemAlloc_v2=2",
            "cuMemAlloc failed: CUDA error 2 (CUDA_ERROR_OUT_OF_MEMORY)",
        ),
        (
            "cuMemcpyDtoH_v2=719",
            "cuMemcpyDtoH failed: CUDA error 719 (CUDA_ERROR_LAUNCH_FAILED)",
        ),
    ] {
        let ended = cuda(
            "--residency --seconds 0.1",
            &[("FAKE_CUDA_REFUSE", refused)],
        );
        assert_eq!((ended.code, &*ended.stdout), (4, ""));
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
}

#[test]
fn other_backends_are_refused() {
    for backend in ["standin", "opencl"] {
        let ended = run(&format!("--residency --backend {backend}"), &[]);
        assert_eq!(ended.code, 2);
        assert!(ended
            .stderr
            .starts_with("throttle: --residency: needs --backend cuda"));
    }
}

#[test]
fn instances_measure_each() {
    let ended = beside(2048, 137, 0, "--seconds 1 --instances 2 --announce");
    assert_eq!(ended.stderr, "started\n");
    let report = ended.report();
    assert_eq!(report.instances.len(), 2);
    for one in &report.instances {
        let residency = one.residency.as_ref().expect("a residency");
        assert!(residency.gaps.count > 200, "{residency:?}");
        assert!(one.start_ns <= one.end_ns);
    }
    assert_ne!(report.instances[0].pid, report.instances[1].pid);
}

#[test]
fn text_has_a_line_for_pieces_and_one_for_gaps() {
    let folder = folder_with("libcuda.so.1");
    let environment = [
        (
            "LD_LIBRARY_PATH",
            folder.path().to_str().expect("a plain path"),
        ),
        ("FAKE_CUDA_SLICE_US", "2048"),
        ("FAKE_CUDA_SWITCH_US", "137"),
    ];
    let ended = run("--backend cuda --residency --seconds 1", &environment);
    assert_eq!((ended.code, &*ended.stderr), (0, ""));
    let lines: Vec<Vec<&str>> = ended
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines.len(), 3, "{}", ended.stdout);
    for (line, name, us) in [(&lines[1], "on", 2048.0), (&lines[2], "off", 2322.0)] {
        assert_eq!(line[1], name);
        let median: f64 = line[6].parse().expect("a number");
        assert!((median - us).abs() < 2.0, "{}", ended.stdout);
        let all = MULTIPROCESSORS.to_string();
        assert_eq!(line[10..], [&all, "of", &all, "0"]);
    }
}
