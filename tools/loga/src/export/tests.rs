// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What a scrape says about a kernel module of which all is known.

mod documents;
mod measure;
mod names;
mod parse;
mod reserves;
mod serving;

use self::parse::{parse, Page};
use super::board::Boards;
use super::metrics::{Kind, Scope, METRICS};
use super::owner::Owners;
use super::sampler::Sampler;
use super::text::Format;
use crate::cli;
use crate::cluster::opinion::{opinion, Times};
use crate::control::Control;
use crate::directory::Directory;
use crate::error::Error;
use crate::fake::FakeKernel;
use crate::placing::{Pool, Wish};
use loga::uapi;
use loga::units::Weight;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;

pub(super) fn sampler(processes: Option<usize>) -> Sampler {
    Sampler::new(
        Boards::below(Path::new("/nonexistent")),
        Owners::new(Directory::default),
        processes,
    )
}

fn scrape(sampler: &Sampler) -> Page {
    parse(&sampler.latest().text(Format::OpenMetrics).expect("text"))
}

/// One reading of a kernel module, and what it says then.
fn read(sampler: &mut Sampler, fake: &FakeKernel) -> Page {
    sampler.tick(&|| Ok(Control::over(fake)));
    scrape(sampler)
}

/// A GPU with every field set, a client, and totals.
pub(super) fn kernel() -> FakeKernel {
    let fake = FakeKernel::new(1);
    fake.add_client(0, 7, 1000);
    fake.add_total(0, uapi::SUBJECT_USER, 1000, 5_000_000_000);
    fake.add_total(0, uapi::SUBJECT_CGROUP, 4711, 4_000_000_000);
    let mut gpus = fake.gpus.borrow_mut();
    let gpu = &mut gpus[0];
    gpu.totals[0].1.copy_time_ns = 1_500_000_000;
    gpu.info = uapi::Gpu {
        chipset: 0xf1,
        pci_bdf: 0x100,
        polled_ns: 10_000_000_000,
        idle_ns: 2_000_000_000,
        unknown_ns: 1_000_000_000,
        flags: uapi::GPU_COPIES,
        fallbacks: 3,
        evasions: 4,
        unmanaged_mappings: 5,
        submission_waits: uapi::SubmissionWaits {
            running_ns: 1_000_000_000,
            budget_ns: 2_000_000_000,
            order_ns: 3_000_000_000,
            linger_ns: 4_000_000_000,
        },
        misses: uapi::Misses {
            promised: 11,
            own: 12,
            foreign: 13,
            fallback: 14,
            order: 15,
        },
        ..gpu.info
    };
    gpu.clients[0] = uapi::Client {
        pid: 100,
        comm: *b"train\0\0\0\0\0\0\0\0\0\0\0",
        busy_2s_ppm: 500_000,
        busy_30s_ppm: 300_000,
        waited_2s_ppm: 250_000,
        waited_30s_ppm: 125_000,
        copy_2s_ppm: 200_000,
        copy_30s_ppm: 100_000,
        ..gpu.clients[0]
    };
    // Wants 0.633 and 0.857 of the GPU, where the first wants 0.667 and 0.343.
    gpu.hidden.push(uapi::Client {
        busy_2s_ppm: 200_000,
        busy_30s_ppm: 300_000,
        waited_2s_ppm: 684_211,
        waited_30s_ppm: 650_000,
        copy_2s_ppm: 50_000,
        ..uapi::Client::default()
    });
    for (subject, id) in [
        (uapi::SUBJECT_USER, 1000),
        (uapi::SUBJECT_CGROUP, 4711),
        (uapi::SUBJECT_PROCESS, 100),
    ] {
        gpu.shares.push(uapi::Share {
            subject,
            id,
            mask: uapi::SHARE_WEIGHT | uapi::SHARE_LIMIT,
            weight: 300,
            limit_pct: 25,
            ..Default::default()
        });
    }
    gpu.specs = reserves::specs();
    drop(gpus);
    // The last claim counts. The number of claims begins at 1.
    for _ in 0..9 {
        crate::placing::tests::claim_of_another(&fake, 200, 0, 40);
    }
    fake
}

#[test]
fn figures_of_the_kernel_module_are_those_of_the_scrape() {
    let since_1970 = || {
        let since = std::time::UNIX_EPOCH.elapsed();
        since.expect("after 1970").as_secs_f64()
    };
    let (before, begin) = (since_1970(), std::time::Instant::now());
    let page = read(&mut sampler(None), &kernel());
    let gpu = [
        ("gpu", "0"),
        ("pci_bus_id", "00000000:01:00.0"),
        ("device", "nvidia0"),
    ];
    for (name, label, wanted) in [
        (
            "loga_gpu_submission_wait_seconds_total",
            ("cause", "running"),
            1.0,
        ),
        (
            "loga_gpu_submission_wait_seconds_total",
            ("cause", "linger"),
            4.0,
        ),
        ("loga_reserve_misses_total", ("why", "promised"), 11.0),
        (
            "loga_reserve_misses_total",
            ("why", "foreign-command"),
            13.0,
        ),
    ] {
        assert_eq!(page.value(name, &[label]), wanted, "{name} {label:?}");
    }
    for (name, labels, wanted) in [
        ("loga_gpu_observed_seconds_total", &[][..], 10.0),
        ("loga_gpu_busy_seconds_total", &[], 7.0),
        ("loga_gpu_idle_seconds_total", &[], 2.0),
        ("loga_gpu_unknown_seconds_total", &[], 1.0),
        ("loga_fallbacks_total", &[], 3.0),
        ("loga_evasions_total", &[], 4.0),
        ("loga_unmanaged_mappings_total", &[], 5.0),
        ("loga_gpu_lost", &[], 0.0),
        ("loga_gpu_enforcing", &[], 0.0),
        ("loga_gpu_clients", &[], 1.0),
        ("loga_gpu_wanting_clients", &[], 2.0),
        ("loga_gpu_claims", &[], 1.0),
        ("loga_claims_total", &[], 10.0),
        ("loga_gpu_claimed_ratio", &[], 0.4),
        (
            "loga_gpu_info",
            &[
                ("policy", "event"),
                ("chip", "0xf1"),
                ("group_by", "process"),
            ],
            1.0,
        ),
        ("loga_gpu_busy_ratio", &[("window", "2s")], 0.7),
        ("loga_gpu_busy_ratio", &[("window", "30s")], 0.6),
        ("loga_gpu_want_ratio", &[("window", "2s")], 1.3),
        ("loga_gpu_want_ratio", &[("window", "30s")], 1.2),
        ("loga_gpu_waited_ratio", &[("window", "2s")], 0.25),
        ("loga_gpu_waited_ratio", &[("window", "30s")], 0.125),
        (
            "loga_gpu_time_seconds_total",
            &[("by", "user"), ("uid", "1000"), ("user", "1000")],
            5.0,
        ),
        (
            "loga_gpu_time_seconds_total",
            &[("by", "cgroup"), ("cgroup_id", "4711")],
            4.0,
        ),
        ("loga_weight", &[("by", "user"), ("uid", "1000")], 300.0),
        (
            "loga_limit_ratio",
            &[("by", "cgroup"), ("cgroup_id", "4711")],
            0.25,
        ),
        ("loga_gpu_copy_busy_ratio", &[("window", "2s")], 0.25),
        ("loga_gpu_copy_busy_ratio", &[("window", "30s")], 0.1),
        (
            "loga_copy_time_seconds_total",
            &[("by", "user"), ("uid", "1000")],
            1.5,
        ),
    ] {
        let labels = [&gpu[..], labels].concat();
        assert_eq!(page.value(name, &labels), wanted, "{name}");
    }
    assert_eq!(page.value("loga_up", &[]), 1.0);
    let read = page.value("loga_snapshot_timestamp_seconds", &[]);
    assert!((before..=since_1970()).contains(&read), "{before} {read}");
    let age = page.value("loga_snapshot_age_seconds", &[]);
    let most = begin.elapsed().as_secs_f64();
    assert!((0.0..=most).contains(&age), "{age} {most}");
    assert!(!page.has("loga_process_busy_ratio"));
}

#[test]
fn score_of_a_gpu_is_what_loga_place_expects_there() {
    let fake = kernel();
    let snapshots = Control::over(&fake).all().expect("snapshots");
    let asked = cli::Asked::default();
    let wish = Wish::new(None, 1, &asked, Weight::DEFAULT).expect("a wish");
    let pool = Pool::new(&snapshots, &asked, None).expect("GPUs");
    let (_, expected) = pool.costs(&wish)[0].expect("may be chosen");
    // With three others that want more than a quarter of it, half of what it wants.
    assert_eq!(expected, 2_000_000);
    let mut sampler = sampler(None);
    let page = read(&mut sampler, &fake);
    let score = page.value("loga_gpu_place_score", &[("policy", "wait")]);
    assert_eq!(score, (expected - 1_000_000) as f64 / 1e6);
    let enforcing = |fake: &FakeKernel| {
        let mut gpus = fake.gpus.borrow_mut();
        let config = loga::knobs::Config {
            enforce: true,
            ..gpus[0].info.config()
        };
        gpus[0].info.note(&config);
    };
    enforcing(&fake);
    read(&mut sampler, &fake);
    let text = sampler.latest().text(Format::Prometheus).expect("text");
    let scored = opinion(text.as_bytes(), &Times::default())
        .expect("an opinion")
        .gpus[0];
    assert_eq!(scored.ppm, (expected - 1_000_000) * 1_000_000 / expected);
    let free = FakeKernel::new(1);
    let page = read(&mut sampler, &free);
    assert_eq!(page.value("loga_gpu_place_score", &[]), 0.0);
}

#[test]
fn copies_that_are_not_measured_are_absent_and_not_zero() {
    let fake = kernel();
    fake.gpus.borrow_mut()[0].info.flags = 0;
    let page = read(&mut sampler(None), &fake);
    assert!(!page.has("loga_gpu_copy_busy_ratio"));
    // What was measured before stays.
    let name = "loga_copy_time_seconds_total";
    assert_eq!(page.value(name, &[]), 1.5);
}

#[test]
fn families_and_labels_are_those_of_the_table() {
    let page = read(&mut sampler(Some(8)), &kernel());
    for metric in METRICS {
        let family = metric.name.strip_suffix("_total").unwrap_or(metric.name);
        let (kind, unit) = &page.families[family];
        assert_eq!(kind, metric.kind.name(), "{family}");
        assert_eq!(unit.as_deref(), metric.unit(), "{family}");
        let own: Vec<&str> = metric
            .labels
            .split(", ")
            .filter(|label| !label.is_empty())
            .collect();
        for (name, labels) in page.values.keys().filter(|series| series.0 == metric.name) {
            let of_gpu = ["gpu", "pci_bus_id", "device"]
                .iter()
                .all(|label| labels.contains_key(*label));
            assert_eq!(of_gpu, metric.scope != Scope::Exporter, "{name}");
            assert_eq!(
                labels.contains_key("by"),
                metric.scope == Scope::Owner,
                "{name}"
            );
            assert_eq!(
                labels.contains_key("pid"),
                metric.scope == Scope::Process,
                "{name}"
            );
            assert!(
                own.iter().all(|label| labels.contains_key(*label)),
                "{name} {labels:?}"
            );
            assert_eq!(
                labels.contains_key("window"),
                own.contains(&"window"),
                "{name}"
            );
        }
    }
}

#[test]
fn older_format_declares_counters_by_their_whole_names() {
    let mut sampler = sampler(None);
    let fake = kernel();
    sampler.tick(&|| Ok(Control::over(&fake)));
    let text = sampler.latest().text(Format::Prometheus).expect("text");
    assert!(
        text.contains("# TYPE loga_fallbacks_total counter\nloga_fallbacks_total{gpu=\"0\""),
        "{text}"
    );
    assert!(text.contains("# TYPE loga_up gauge\nloga_up 1\n"), "{text}");
    assert!(!text.contains("# EOF"), "{text}");
    assert!(!text.contains("# UNIT"), "{text}");
    assert!(text.ends_with('\n'));
}

#[test]
fn counters_never_go_back_while_clients_exit() {
    let fake = kernel();
    let mut sampler = sampler(Some(1));
    let mut before = read(&mut sampler, &fake).values;
    for round in 1..50 {
        let mut gpus = fake.gpus.borrow_mut();
        let gpu = &mut gpus[0];
        // A client comes, another goes; sums grow by odd numbers of nanoseconds.
        gpu.clients.truncate(1 + round % 3);
        gpu.clients.push(uapi::Client {
            id: 100 + round as u64,
            ..gpu.clients[0]
        });
        gpu.info.polled_ns += 1_000_003;
        gpu.info.idle_ns += 999_999;
        gpu.info.unknown_ns += 1;
        for (_, total) in &mut gpu.totals {
            total.gpu_time_ns += 7;
            total.waited_ns += 1;
        }
        drop(gpus);
        let now = read(&mut sampler, &fake).values;
        for (series, value) in before
            .iter()
            .filter(|(series, _)| series.0.ends_with("_total"))
        {
            assert!(now[series] >= *value, "{series:?}");
        }
        before = now;
    }
}

#[test]
fn lost_gpu_keeps_its_row() {
    let fake = kernel();
    let mut sampler = sampler(None);
    read(&mut sampler, &fake);
    fake.gpus.borrow_mut()[0].info.flags |= uapi::GPU_LOST;
    let page = read(&mut sampler, &fake);
    assert_eq!(page.value("loga_gpu_lost", &[("gpu", "0")]), 1.0);
    assert_eq!(page.value("loga_up", &[]), 1.0);
    assert_eq!(
        page.value("loga_gpu_busy_seconds_total", &[("gpu", "0")]),
        7.0
    );
}

#[test]
fn missing_and_other_kernel_modules_are_down_until_they_answer() {
    let fake = kernel();
    let mut sampler = sampler(None);
    let there = Cell::new(false);
    let open = || match there.get() {
        true => Ok(Control::over(&fake)),
        false => Err(Error::NotLoaded),
    };
    assert!(sampler.tick(&open).expect("is said").contains("not loaded"));
    let page = scrape(&sampler);
    assert_eq!(page.value("loga_up", &[]), 0.0);
    assert!(!page.has("loga_snapshot_age_seconds"));
    assert!(page.has("loga_build_info"));
    // It is said once.
    assert_eq!(sampler.tick(&open), None);
    there.set(true);
    assert_eq!(
        sampler.tick(&open).expect("is said"),
        "reads the GPUs and all users and cgroups"
    );
    assert_eq!(scrape(&sampler).value("loga_up", &[]), 1.0);
    fake.speak(3);
    assert!(sampler.tick(&open).expect("is said").contains("version 3"));
    let page = scrape(&sampler);
    assert_eq!(page.value("loga_up", &[]), 0.0);
    assert!(page.has("loga_snapshot_age_seconds"));
    assert!(!page.has("loga_gpu_clients"));
    for errno in [libc::ENODEV, libc::EIO] {
        fake.speak(uapi::VERSION);
        fake.fail(errno);
        sampler.tick(&open);
        assert_eq!(scrape(&sampler).value("loga_up", &[]), 0.0);
    }
}

#[test]
fn gpus_that_are_not_named_are_not_exported() {
    let fake = FakeKernel::new(3);
    let mut sampler = sampler(None).only(vec![2, 5]);
    let said = sampler.tick(&|| Ok(Control::over(&fake))).expect("is said");
    assert!(said.ends_with("; there is no GPU 5"), "{said}");
    let page = scrape(&sampler);
    let gpus = page.values.keys().filter_map(|series| series.1.get("gpu"));
    let gpus: BTreeSet<&str> = gpus.map(String::as_str).collect();
    assert_eq!(gpus, BTreeSet::from(["2"]));
    assert_eq!(page.value("loga_up", &[]), 1.0);
}

#[test]
fn caller_without_capability_exports_no_figures_of_whole_gpus() {
    let fake = kernel();
    fake.gpus.borrow_mut()[0].info.withhold();
    let mut sampler = sampler(None);
    let said = sampler.tick(&|| Ok(Control::over(&fake))).expect("is said");
    assert!(said.starts_with("without CAP_PERFMON"), "{said}");
    assert_eq!(sampler.tick(&|| Ok(Control::over(&fake))), None);
    let page = scrape(&sampler);
    let of_gpus = |name: &str| {
        METRICS
            .iter()
            .any(|metric| metric.name == name && metric.kind == Kind::Counter)
    };
    for absent in [
        "loga_gpu_busy_seconds_total",
        "loga_fallbacks_total",
        "loga_gpu_busy_ratio",
        "loga_gpu_waited_ratio",
    ] {
        assert!(!page.has(absent), "{absent}");
        assert!(of_gpus(absent) || absent.ends_with("ratio"));
    }
    assert_eq!(page.value("loga_gpu_clients", &[]), 1.0);
    assert_eq!(
        page.value("loga_gpu_time_seconds_total", &[("by", "user")]),
        5.0
    );
}
