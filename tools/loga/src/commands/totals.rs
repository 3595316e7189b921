// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga totals`: what users and cgroups got, also those without processes.

use super::subject::Listed;
use super::{print_json, Failure, JSON_VERSION};
use crate::control::{Calls, Control};
use crate::directory::Directory;
use crate::names::Name;
use crate::table::fit::grid_within;
use crate::terminal::Sheet;
use crate::{cli, table};
use loga::uapi;
use serde::{Deserialize, Serialize};
use std::io;

/// Stands for all that found no room.
const OTHERS: &str = "(others)";

/// The totals of one GPU; an object of `loga totals --json`.
#[derive(Deserialize, Serialize)]
struct Line {
    version: u32,
    gpu: u32,
    kind: String,
    reset: bool,
    totals: Vec<Total>,
}

/// What one user or cgroup got.
#[derive(Deserialize, Serialize)]
struct Total {
    /// Absent for the row of all that found no room.
    id: Option<u64>,
    name: Option<Name>,
    /// Its bytes in hexadecimal digits, if they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name_hex: Option<String>,
    /// What stands in the table.
    #[serde(skip)]
    shown: String,
    processes: u64,
    measured_ns: u64,
    gpu_time_ns: u64,
    entitled_ns: u64,
    waited_ns: u64,
    throttled_ns: u64,
    throttled_count: u64,
    runs: u64,
    since_ns: u64,
    last_ns: u64,
    #[serde(default)]
    copy_time_ns: u64,
    /// Of a cgroup without a name: the nearest around it that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    within: Option<Name>,
}

/// Prints the totals, most GPU time first.
///
/// # Errors
///
/// Any [`Failure`].
pub fn run(
    arguments: &cli::Totals,
    control: &Control<impl Calls>,
    directory: &Directory,
    out: &mut impl Sheet,
) -> Result<(), Failure> {
    let asked = arguments
        .within
        .iter()
        .map(|name| directory.cgroup_id(name));
    let asked: Vec<u64> = asked.collect::<Result<_, _>>().map_err(Failure::Text)?;
    let (kind, by) = match (arguments.by.as_str(), asked.is_empty()) {
        ("user", true) => (uapi::SUBJECT_USER, "user"),
        _ => (uapi::SUBJECT_CGROUP, "cgroup"),
    };
    for snapshot in control.chosen(arguments.gpu)? {
        let mut read = control.totals(snapshot.gpu, kind, arguments.reset)?;
        if !asked.is_empty() {
            read = together(&read, &asked);
        }
        let around = read.iter().flat_map(|total| total.above);
        let ids = read.iter().map(|total| total.id).chain(around);
        let listed = Listed::of(directory, ids.map(|id| (kind, id)));
        let described = read.iter().map(|total| describe(total, kind, &listed));
        let mut totals: Vec<Total> = described.collect();
        totals.sort_by_key(|total| (std::cmp::Reverse(total.gpu_time_ns), total.id));
        let line = Line {
            version: JSON_VERSION,
            gpu: snapshot.gpu,
            kind: by.to_string(),
            reset: arguments.reset,
            totals,
        };
        // What was reset is nowhere else: it is printed before the next GPU is asked.
        if arguments.json {
            print_json(out, &line)?;
        } else {
            print(&line, out)?;
        }
        out.flush()?;
    }
    Ok(())
}

/// A total for each of these cgroups: those of the cgroups that are in it, and in none of the others
/// that is nearer.
fn together(read: &[uapi::Total], asked: &[u64]) -> Vec<uapi::Total> {
    let nearest = |total: &uapi::Total| {
        let around = total.above.iter().rev().filter(|id| **id != 0);
        let mut inward = std::iter::once(&total.id).chain(around);
        inward.find(|id| asked.contains(id)).copied()
    };
    let sum = |id: u64| {
        let zero = uapi::Total {
            id,
            since_ns: u64::MAX,
            ..Default::default()
        };
        let of = read.iter().filter(|total| nearest(total) == Some(id));
        let sum = of.fold(zero, |sum, one| uapi::Total {
            measured_ns: sum.measured_ns.saturating_add(one.measured_ns),
            gpu_time_ns: sum.gpu_time_ns.saturating_add(one.gpu_time_ns),
            entitled_ns: sum.entitled_ns.saturating_add(one.entitled_ns),
            waited_ns: sum.waited_ns.saturating_add(one.waited_ns),
            throttled_ns: sum.throttled_ns.saturating_add(one.throttled_ns),
            throttled_count: sum.throttled_count.saturating_add(one.throttled_count),
            runs: sum.runs.saturating_add(one.runs),
            processes: sum.processes.saturating_add(one.processes),
            since_ns: sum.since_ns.min(one.since_ns),
            last_ns: sum.last_ns.max(one.last_ns),
            copy_time_ns: sum.copy_time_ns.saturating_add(one.copy_time_ns),
            ..sum
        });
        // Nothing was found.
        (sum.since_ns != u64::MAX).then_some(sum)
    };
    let mut once = asked.to_vec();
    once.sort_unstable();
    once.dedup();
    once.into_iter().filter_map(sum).collect()
}

/// GPU time of a user or cgroup on all GPUs, in what `loga totals --json` printed.
///
/// # Errors
///
/// The text is something else.
pub(super) fn gpu_time_of(text: &str, id: u64) -> Result<u64, String> {
    let mut sum = 0u64;
    for line in text.lines() {
        let line: Line = serde_json::from_str(line).map_err(|error| format!("totals: {error}"))?;
        let mine = line.totals.iter().filter(|total| total.id == Some(id));
        sum = mine.fold(sum, |sum, total| sum.saturating_add(total.gpu_time_ns));
    }
    Ok(sum)
}

/// GPU time on all GPUs of the cgroups or users that found no room, in what `loga totals --json`
/// printed.
///
/// # Errors
///
/// The text is something else.
pub(super) fn gpu_time_of_others(text: &str) -> Result<u64, String> {
    let mut sum = 0u64;
    for line in text.lines() {
        let line: Line = serde_json::from_str(line).map_err(|error| format!("totals: {error}"))?;
        let others = line.totals.iter().filter(|total| total.id.is_none());
        sum = others.fold(sum, |sum, total| sum.saturating_add(total.gpu_time_ns));
    }
    Ok(sum)
}

fn describe(total: &uapi::Total, kind: u32, listed: &Listed<'_>) -> Total {
    let others = total.flags & uapi::TOTAL_OTHERS != 0;
    let (name, mut shown) = match others {
        true => (Some(OTHERS.into()), OTHERS.to_string()),
        false => (listed.name(kind, total.id), listed.shown(kind, total.id)),
    };
    let within = match name {
        None => listed.nearest(&total.above),
        Some(_) => None,
    };
    if let Some(within) = &within {
        shown = format!("{shown} in {within}");
    }
    Total {
        within,
        id: (!others).then_some(total.id),
        name_hex: name.as_ref().and_then(Name::hex),
        name,
        shown,
        processes: total.processes,
        measured_ns: total.measured_ns,
        gpu_time_ns: total.gpu_time_ns,
        entitled_ns: total.entitled_ns,
        waited_ns: total.waited_ns,
        throttled_ns: total.throttled_ns,
        throttled_count: total.throttled_count,
        runs: total.runs,
        since_ns: total.since_ns,
        last_ns: total.last_ns,
        copy_time_ns: total.copy_time_ns,
    }
}

fn print(line: &Line, out: &mut impl Sheet) -> io::Result<()> {
    let title = line.kind.to_uppercase();
    let titles = [
        title.as_str(),
        "PROCESSES",
        "GPU ms",
        "COPY ms",
        "ENTITLED ms",
        "WAITED ms",
        "THROTTLED ms",
        "TIMES",
    ];
    let rows = line.totals.iter().map(|total| {
        vec![
            total.shown.clone(),
            total.processes.to_string(),
            table::ms(total.gpu_time_ns),
            table::ms(total.copy_time_ns),
            table::ms(total.entitled_ns),
            table::ms(total.waited_ns),
            table::ms(total.throttled_ns),
            format!("{}x", total.throttled_count),
        ]
    });
    let dispensable = [
        "TIMES",
        "COPY ms",
        "THROTTLED ms",
        "PROCESSES",
        "ENTITLED ms",
        "WAITED ms",
    ];
    let grid = grid_within(
        &titles,
        &[&title],
        &dispensable,
        rows.collect(),
        out.columns(),
    );
    let grid = grid.unwrap_or_else(|| format!("no {} has used it", line.kind));
    let reset = if line.reset { ", reset now" } else { "" };
    writeln!(
        out,
        "GPU {}, totals by {}{reset}\n{grid}\n",
        line.gpu, line.kind
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fake::FakeKernel;

    fn totals(fake: &FakeKernel, line: &str) -> Result<String, String> {
        let line = format!("loga totals {line}");
        let words = line.split_whitespace();
        let arguments = <cli::Arguments as clap::Parser>::parse_from(words);
        let cli::Command::Totals(arguments) = arguments.command else {
            panic!("not totals: {line}");
        };
        let mut out = Vec::new();
        let directory = Directory::default();
        match run(&arguments, &Control::over(fake), &directory, &mut out) {
            Ok(()) => Ok(String::from_utf8(out).expect("text")),
            Err(failure) => Err(failure.to_string()),
        }
    }

    /// What is printed for users with these GPU times.
    pub(in crate::commands) fn json_of_users(users: &[(u64, u64)]) -> String {
        let fake = FakeKernel::new(1);
        for (uid, gpu_ns) in users {
            fake.add_total(0, uapi::SUBJECT_USER, *uid, *gpu_ns);
        }
        totals(&fake, "--json").expect("prints")
    }

    /// What is printed for cgroups that found no room.
    pub(in crate::commands) fn json_of_others(gpu_time_ns: u64) -> String {
        let fake = FakeKernel::new(1);
        let total = uapi::Total {
            flags: uapi::TOTAL_OTHERS,
            gpu_time_ns,
            ..Default::default()
        };
        fake.gpus.borrow_mut()[0]
            .totals
            .push((uapi::SUBJECT_CGROUP, total));
        totals(&fake, "--by cgroup --json").expect("prints")
    }

    // The test of `loga slurm` with Slurm's daemons answers with this file.
    #[test]
    fn totals_of_the_test_with_slurm_are_what_is_printed() {
        let file = include_str!("../../../../tests/slurm/totals.json");
        assert_eq!(json_of_users(&[(4242, 123_456_789)]), file);
    }

    #[test]
    fn gpu_time_is_read_back_from_what_was_printed() {
        let text = json_of_users(&[(1000, 7), (1001, 5)]);
        assert_eq!(gpu_time_of(&text, 1000), Ok(7));
        assert_eq!(gpu_time_of(&text.repeat(2), 1001), Ok(10));
        assert_eq!(gpu_time_of(&text, 0), Ok(0));
        assert!(gpu_time_of("{}", 0).is_err());
        assert_eq!(gpu_time_of_others(&text), Ok(0));
        assert_eq!(gpu_time_of_others(&json_of_others(7).repeat(2)), Ok(14));
        assert!(gpu_time_of_others("{}").is_err());
    }

    fn kernel() -> FakeKernel {
        let fake = FakeKernel::new(1);
        fake.add_total(0, uapi::SUBJECT_USER, 1000, 5_000_000);
        fake.add_total(0, uapi::SUBJECT_USER, 1001, 9_000_000);
        fake.add_total(0, uapi::SUBJECT_CGROUP, 4711, 14_000_000);
        fake
    }

    #[test]
    fn most_gpu_time_comes_first() {
        let text = totals(&kernel(), "").expect("prints");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "GPU 0, totals by user");
        assert!(lines[2].trim().starts_with("1001"), "{text}");
        assert!(lines[2].contains("9.0"), "{text}");
        assert!(lines[3].trim().starts_with("1000"), "{text}");
    }

    #[test]
    fn reset_reads_once_more_and_only_its_kind() {
        let fake = kernel();
        let json = totals(&fake, "--reset --json").expect("prints");
        let line: serde_json::Value = serde_json::from_str(json.trim()).expect("JSON");
        assert_eq!(line["totals"].as_array().expect("a list").len(), 2);
        assert_eq!(line["reset"], true);
        assert!(totals(&fake, "")
            .expect("prints")
            .contains("no user has used it"));
        let left = totals(&fake, "--by cgroup").expect("prints");
        assert!(left.contains("4711"), "{left}");
    }

    #[test]
    fn row_of_the_others_has_no_number() {
        let total = uapi::Total {
            flags: uapi::TOTAL_OTHERS,
            ..Default::default()
        };
        let directory = Directory::default();
        let total = describe(&total, uapi::SUBJECT_USER, &Listed::of(&directory, []));
        assert_eq!((total.id, total.name), (None, Some(OTHERS.into())));
    }

    #[test]
    fn totals_of_cgroups_that_were_removed_are_those_of_the_nearest_that_is_asked_for() {
        let root = tempfile::tempdir().expect("a folder");
        let make = |path: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(&path).expect("made");
            std::os::unix::fs::MetadataExt::ino(&path.metadata().expect("there"))
        };
        let (top, jobs, job) = (make("."), make("jobs"), make("jobs/7"));
        let fake = FakeKernel::new(1);
        let gone = u64::MAX - 1;
        for (id, above, gpu_time_ns) in [
            (gone, vec![top, jobs, job], 4_000_000),
            (gone - 1, vec![top, jobs], 2_000_000),
            (jobs, vec![top], 1_000_000),
            (gone - 2, vec![top], 8_000_000),
        ] {
            let mut total = uapi::Total {
                id,
                gpu_time_ns,
                ..Default::default()
            };
            total.above[..above.len()].copy_from_slice(&above);
            let totals = &mut fake.gpus.borrow_mut()[0].totals;
            totals.push((uapi::SUBJECT_CGROUP, total));
        }
        let totals = |line: &str| {
            let words = format!("loga totals {line}");
            let arguments = <cli::Arguments as clap::Parser>::parse_from(words.split(' '));
            let cli::Command::Totals(arguments) = arguments.command else {
                panic!("not totals: {line}");
            };
            let mut out = Vec::new();
            let directory = Directory::below(root.path());
            run(&arguments, &Control::over(&fake), &directory, &mut out).expect("prints");
            String::from_utf8(out).expect("text")
        };
        let all = totals("--by cgroup");
        let in_job = format!("removed cgroup {gone} in /jobs/7");
        assert!(all.contains(&in_job), "{all}");
        let in_jobs = format!("removed cgroup {} in /jobs", gone - 1);
        assert!(all.contains(&in_jobs), "{all}");
        let of = |line: &str| -> Vec<(u64, u64)> {
            let json: Line = serde_json::from_str(totals(line).trim()).expect("JSON");
            let times = json.totals.iter();
            times
                .map(|one| (one.id.expect("a cgroup"), one.gpu_time_ns))
                .collect()
        };
        assert_eq!(of("--within /jobs --json"), [(jobs, 7_000_000)]);
        let both = of("--within /jobs --within /jobs/7 --json");
        assert_eq!(both, [(job, 4_000_000), (jobs, 3_000_000)]);
        assert_eq!(of("--within / --json"), [(top, 15_000_000)]);
    }

    #[test]
    fn reset_is_for_root() {
        let fake = kernel();
        fake.drop_privileges();
        assert!(totals(&fake, "").is_ok());
        let said = totals(&fake, "--reset").expect_err("not root");
        assert!(said.contains("is for root of the host"), "{said}");
    }
}
