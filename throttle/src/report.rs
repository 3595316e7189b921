// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What is printed, as text and as JSON.

use crate::lengths::DeviceReport;
use crate::load::Outcome;
use crate::plan::Plan;
use crate::residency::Residency;
use crate::statistics::{Summary, Total};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Version of the JSON layout. Raised when a member changes its meaning or goes away.
pub const VERSION: u32 = 1;

/// One process.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Instance {
    /// Its number, from 0.
    pub instance: u32,
    /// Its process id.
    pub pid: u32,
    /// Start of its first kernel, CLOCK_MONOTONIC in ns.
    pub start_ns: u64,
    /// End of its last kernel, CLOCK_MONOTONIC in ns.
    pub end_ns: u64,
    /// Its figures.
    #[serde(flatten)]
    pub summary: Summary,
    /// What the device's own events say; only with CUDA and OpenCL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceReport>,
    /// When it was on the engine; with `--residency`, which runs no kernels to count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residency: Option<Residency>,
}

impl Instance {
    /// The report of this process about its run.
    pub fn of(outcome: &Outcome, instance: u32, device: Option<DeviceReport>) -> Self {
        Instance {
            instance,
            pid: std::process::id(),
            start_ns: outcome.start_ns,
            end_ns: outcome.end_ns,
            summary: outcome.times.summary(),
            device,
            residency: None,
        }
    }
}

/// Everything that one invocation prints.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Report {
    /// [`VERSION`].
    pub version: u32,
    /// What was asked for.
    pub plan: Plan,
    /// The processes.
    pub instances: Vec<Instance>,
    /// All of them together.
    pub total: Total,
}

impl Report {
    /// The report on these processes.
    pub fn new(plan: &Plan, instances: Vec<Instance>) -> Self {
        let parts: Vec<Summary> = instances.iter().map(|one| one.summary.clone()).collect();
        Report {
            version: VERSION,
            plan: plan.clone(),
            total: Total::of(&parts),
            instances,
        }
    }

    /// The report as a person reads it.
    pub fn text(&self) -> String {
        if self.plan.residency {
            return self.residency();
        }
        let mut rows = table(&[
            "pid",
            "kernels",
            "mean us",
            "median us",
            "p99 us",
            "blocked us",
            "blocks",
            "asked us",
        ]);
        for one in &self.instances {
            let summary = &one.summary;
            rows.add_row([
                one.pid.to_string(),
                summary.kernels.to_string(),
                format!("{:.1}", summary.turnaround_mean_us),
                format!("{:.1}", summary.turnaround_median_us),
                format!("{:.1}", summary.turnaround_p99_us),
                format!("{:.0}", summary.blocked_us),
                summary.blocked_count.to_string(),
                format!("{:.0}", summary.gpu_asked_us),
            ]);
        }
        if self.instances.len() > 1 {
            let total = &self.total;
            rows.add_row([
                "total".to_string(),
                total.kernels.to_string(),
                format!("{:.1}", total.turnaround_mean_us),
                "-".to_string(),
                "-".to_string(),
                format!("{:.0}", total.blocked_us),
                total.blocked_count.to_string(),
                format!("{:.0}", total.gpu_asked_us),
            ]);
        }
        let mut text = format!("{}\n", rows.trim_fmt());
        self.frames(&mut text);
        for one in &self.instances {
            if let Some(device) = &one.device {
                // PANIC: writing to a String cannot fail; the result is dropped for that reason.
                let _ = writeln!(text, "{} {}", one.pid, device.text());
            }
        }
        text
    }

    /// The table of when processes were on the engine, two lines each.
    fn residency(&self) -> String {
        let mut rows = table(&[
            "pid",
            "time",
            "sum us",
            "count",
            "min us",
            "p5 us",
            "median us",
            "p95 us",
            "max us",
            "mean us",
            "noted",
            "dropped",
        ]);
        let all = self.instances.iter();
        for (pid, one) in all.filter_map(|one| Some((one.pid, one.residency.as_ref()?))) {
            let noted = format!("{} of {}", one.noted, one.multiprocessors);
            let both = [
                ("on", one.on_engine_us, &one.pieces),
                ("off", one.gap_us, &one.gaps),
            ];
            for (time, sum_us, times) in both {
                rows.add_row([
                    pid.to_string(),
                    time.to_owned(),
                    format!("{sum_us:.0}"),
                    times.count.to_string(),
                    format!("{:.1}", times.min_us),
                    format!("{:.1}", times.p5_us),
                    format!("{:.1}", times.median_us),
                    format!("{:.1}", times.p95_us),
                    format!("{:.1}", times.max_us),
                    format!("{:.1}", times.mean_us),
                    noted.clone(),
                    one.dropped.to_string(),
                ]);
            }
        }
        format!("{}\n", rows.trim_fmt())
    }

    /// Adds a table of the frames, if there are any.
    fn frames(&self, text: &mut String) {
        let all = self.instances.iter();
        let all = all.filter_map(|one| Some((one.pid, one.summary.frames.as_ref()?)));
        let all: Vec<_> = all.collect();
        if all.is_empty() {
            return;
        }
        let mut rows = table(&[
            "pid",
            "frames",
            "mean us",
            "median us",
            "p95 us",
            "p99 us",
            "max us",
            "late",
        ]);
        for (pid, frames) in all {
            rows.add_row([
                pid.to_string(),
                frames.count.to_string(),
                format!("{:.1}", frames.mean_us),
                format!("{:.1}", frames.median_us),
                format!("{:.1}", frames.p95_us),
                format!("{:.1}", frames.p99_us),
                format!("{:.1}", frames.max_us),
                frames.late.to_string(),
            ]);
        }
        // PANIC: see above.
        let _ = writeln!(text, "{}", rows.trim_fmt());
    }
}

/// A table of numbers.
fn table(titles: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(titles);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Distribution;
    use crate::statistics::Frames;
    use clap::Parser;

    fn report(count: u32) -> Report {
        let instance = |instance| Instance {
            instance,
            pid: 100 + instance,
            start_ns: 5,
            end_ns: 9,
            summary: Summary {
                kernels: 10,
                turnaround_mean_us: 12.5,
                ..Summary::default()
            },
            ..Instance::default()
        };
        let plan = Plan::parse_from(["throttle", "--count", "10"]);
        Report::new(&plan, (0..count).map(instance).collect())
    }

    #[test]
    fn text_has_a_line_per_process_and_a_total_for_several() {
        assert_eq!(report(1).text().lines().count(), 2);
        let text = report(3).text();
        assert_eq!(text.lines().count(), 5);
        let last: Vec<&str> = text
            .lines()
            .last()
            .expect("total")
            .split_whitespace()
            .collect();
        assert_eq!(last[..3], ["total", "30", "12.5"]);
    }

    #[test]
    fn frames_have_a_table_of_their_own() {
        let mut report = report(2);
        let frames = Frames {
            count: 7,
            late: 3,
            ..Frames::default()
        };
        report.instances[1].summary.frames = Some(frames);
        let text = report.text();
        assert_eq!(text.lines().count(), 6);
        let last: Vec<_> = text
            .lines()
            .last()
            .expect("a line")
            .split_whitespace()
            .collect();
        assert_eq!((last[0], last[1], last[7]), ("101", "7", "3"));
        let json = serde_json::to_string(&report).expect("json");
        assert_eq!(json.matches("\"frames\":{").count(), 1);
    }

    #[test]
    fn residency_has_a_table_of_its_own() {
        let mut report = report(2);
        report.plan.residency = true;
        report.instances[1].residency = Some(Residency {
            multiprocessors: 132,
            noted: 131,
            gap_us: 6000.0,
            dropped: 3,
            gaps: Distribution::of(&[1_000_000, 2_000_000, 3_000_000]),
            ..Residency::default()
        });
        let text = report.text();
        assert_eq!(text.lines().count(), 3);
        let last = text.lines().last().expect("a line");
        let last: Vec<&str> = last.split_whitespace().collect();
        assert_eq!(last[..4], ["101", "off", "6000", "3"]);
        assert_eq!(last[6], "2000.0");
        assert_eq!(last[10..], ["131", "of", "132", "3"]);
        let json = serde_json::to_string(&report).expect("json");
        assert_eq!(json.matches("\"residency\":{").count(), 1);
        let back: Report = serde_json::from_str(&json).expect("parse");
        assert_eq!(back, report);
    }

    #[test]
    fn json_round_trips() {
        let report = report(2);
        let json = serde_json::to_string(&report).expect("json");
        assert!(json.contains("\"turnaround_mean_us\":12.5"));
        let back: Report = serde_json::from_str(&json).expect("parse");
        assert_eq!(back, report);
    }
}
