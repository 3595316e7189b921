// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The table of metrics. The exporter prints what it names and nothing else; the table in
//! `docs/monitoring.md`, the dashboard and the alerts are tested against it.

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A sum that only grows while the module is loaded.
    Counter,
    /// A value now.
    Gauge,
}

impl Kind {
    /// Its name in the formats.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name, with `_total` for a counter.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels beside those in [`Scope`].
    pub labels: &'static str,
    /// What it is about.
    pub scope: Scope,
    /// What it says, in a sentence.
    pub help: &'static str,
}

/// What a metric is about, which decides on its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The exporter.
    Exporter,
    /// A GPU.
    Gpu,
    /// A user or cgroup on a GPU.
    Owner,
    /// A process on a GPU.
    Process,
}

impl Scope {
    /// Its name in the documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Exporter => "exporter",
            Scope::Gpu => "GPU",
            Scope::Owner => "user or cgroup",
            Scope::Process => "process",
        }
    }
}

impl Metric {
    /// Its base unit, as the end of the name says.
    pub fn unit(&self) -> Option<&'static str> {
        let name = self.name.strip_suffix("_total").unwrap_or(self.name);
        ["seconds", "ratio"].into_iter().find(|unit| {
            name.strip_suffix(unit)
                .is_some_and(|rest| rest.ends_with('_'))
        })
    }
}

/// Declares the metrics: `Id: kind of scope, name, labels, help`.
macro_rules! metrics {
    ($($id:ident: $kind:ident of $scope:ident, $name:literal, $labels:literal, $help:literal;)+) => {
        /// A metric of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Id {
            $(#[doc = $help] $id,)+
        }

        /// All metrics, in the order of their numbers.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: $name,
            kind: Kind::$kind,
            labels: $labels,
            scope: Scope::$scope,
            help: $help,
        },)+];
    };
}

metrics! {
    Up: Gauge of Exporter, "loga_up", "", "1 if the kernel module answered the last time it was asked.";
    Age: Gauge of Exporter, "loga_snapshot_age_seconds", "", "Time since the kernel module answered last.";
    Answered: Gauge of Exporter, "loga_snapshot_timestamp_seconds", "", "When the kernel module answered last, in seconds since 1970; grows old in a file that nobody writes any more.";
    Build: Gauge of Exporter, "loga_build_info", "version, abi", "Version of the exporter, and of /dev/loga that it speaks; always 1.";
    Info: Gauge of Gpu, "loga_gpu_info", "chip, policy, accounting, group_by", "What the GPU is, and how it is divided; always 1.";
    Lost: Gauge of Gpu, "loga_gpu_lost", "", "1 if the GPU stopped answering; nothing is throttled then.";
    Enforcing: Gauge of Gpu, "loga_gpu_enforcing", "", "1 if decisions are carried out (knob enforce).";
    Mps: Gauge of Gpu, "loga_gpu_mps_servers", "", "Servers of NVIDIA's MPS that use the GPU; all programs behind one are one process here.";
    Clients: Gauge of Gpu, "loga_gpu_clients", "", "Processes that use the GPU.";
    Wanting: Gauge of Gpu, "loga_gpu_wanting_clients", "", "Processes that want the GPU.";
    Claims: Gauge of Gpu, "loga_gpu_claims", "", "Programs that have been placed on the GPU and have not run yet.";
    Claimed: Gauge of Gpu, "loga_gpu_claimed_ratio", "", "Part of the GPU that they are expected to want.";
    ClaimsSeen: Counter of Gpu, "loga_claims_total", "", "Programs that have been placed on the GPU.";
    Busy: Gauge of Gpu, "loga_gpu_busy_ratio", "window", "Part of the window in which the engine was busy.";
    CopyBusy: Gauge of Gpu, "loga_gpu_copy_busy_ratio", "window", "Part of the window in which the copy engine was busy; absent where copies are not measured.";
    Want: Gauge of Gpu, "loga_gpu_want_ratio", "window", "What all processes together wanted of the window, in GPUs; may be above 1.";
    Waited: Gauge of Gpu, "loga_gpu_waited_ratio", "window", "What all processes together waited in the window, in windows; may be above 1.";
    PlaceScore: Gauge of Gpu, "loga_gpu_place_score", "policy", "How much longer than alone a program of which nothing is known is expected to take there, in times.";
    ObservedSeconds: Counter of Gpu, "loga_gpu_observed_seconds_total", "", "Time in which the engine was observed; busy, idle and unknown time are parts of it.";
    BusySeconds: Counter of Gpu, "loga_gpu_busy_seconds_total", "", "Time observed in which work of a known process was on the engine.";
    IdleSeconds: Counter of Gpu, "loga_gpu_idle_seconds_total", "", "Time observed in which no work was on the engine.";
    UnknownSeconds: Counter of Gpu, "loga_gpu_unknown_seconds_total", "", "Time observed in which channels without a known owner were on the engine.";
    Fallbacks: Counter of Gpu, "loga_fallbacks_total", "", "Times that all processes ran against a decision, since a policy or the machine was at fault.";
    Evasions: Counter of Gpu, "loga_evasions_total", "", "Times that a process was found to avoid the phases in which the engine is observed.";
    UnmanagedMappings: Counter of Gpu, "loga_unmanaged_mappings_total", "", "Mappings of submission pages that LoGA neither controls nor has refused; their channels run unthrottled.";
    UnmanagedFiles: Counter of Gpu, "loga_unmanaged_files_total", "", "Files of the GPU that were open before LoGA was attached and are passed through.";
    OverdueDrains: Counter of Gpu, "loga_overdue_drains_total", "", "Times that a channel did not run empty within the bound of a policy that waits for it.";
    Decisions: Counter of Gpu, "loga_decisions_total", "", "Decisions of the policy.";
    Switches: Counter of Gpu, "loga_gpu_switches_total", "", "Changes of the engine's occupant that were seen.";
    SubmissionWait: Counter of Gpu, "loga_gpu_submission_wait_seconds_total", "cause", "Time that submissions waited for their grants while they were decided on.";
    ReserveMisses: Counter of Gpu, "loga_reserve_misses_total", "why", "Submissions that ended after the deadline of their reserve; why=promised: although all conditions of the promise held.";
    GpuTime: Counter of Owner, "loga_gpu_time_seconds_total", "", "GPU time of all its processes, those that exited included.";
    CopyTime: Counter of Owner, "loga_copy_time_seconds_total", "", "Time of all its processes on the copy engine; absent where copies are not measured.";
    WaitedSeconds: Counter of Owner, "loga_waited_seconds_total", "", "Time in which its processes wanted the GPU and did not have it.";
    Entitled: Counter of Owner, "loga_entitled_seconds_total", "", "GPU time that a division by weights among the active processes would have given it.";
    Throttled: Counter of Owner, "loga_throttled_seconds_total", "", "Time that its processes spent throttled.";
    Throttles: Counter of Owner, "loga_throttles_total", "", "Times that its processes were throttled.";
    Processes: Counter of Owner, "loga_processes_total", "", "Processes that have begun to use the GPU.";
    ReserveServed: Counter of Owner, "loga_reserve_submissions_total", "promise", "Submissions that its reserve has served since it was set.";
    ReserveLate: Counter of Owner, "loga_reserve_late_submissions_total", "why", "Those of them that ended after the deadline; why=promised: although all conditions of the promise held.";
    Weight: Gauge of Owner, "loga_weight", "", "Weight that is set for it.";
    Limit: Gauge of Owner, "loga_limit_ratio", "", "Hard limit that is set for it, as part of the GPU.";
    ProcessBusy: Gauge of Process, "loga_process_busy_ratio", "window", "Part of the window in which the process had the engine.";
    ProcessWaited: Gauge of Process, "loga_process_waited_ratio", "window", "Part of the window in which the process waited for the engine.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_follow_the_conventions() {
        // OpenMetrics has families, which are named without the end of a counter.
        let family = |metric: &Metric| metric.name.trim_end_matches("_total");
        let names: BTreeSet<&str> = METRICS.iter().map(family).collect();
        assert_eq!(names.len(), METRICS.len());
        for metric in METRICS {
            let name = metric.name;
            let legal = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(name.starts_with("loga_"), "{name}");
            assert!(name.chars().all(legal), "{name}");
            let sums = metric.kind == Kind::Counter;
            assert_eq!(name.ends_with("_total"), sums, "{name}");
            assert!(metric.help.ends_with('.'), "{name}");
        }
    }

    #[test]
    fn unit_is_that_of_the_name() {
        let unit = |id: Id| METRICS[id as usize].unit();
        assert_eq!(unit(Id::BusySeconds), Some("seconds"));
        assert_eq!(unit(Id::Age), Some("seconds"));
        assert_eq!(unit(Id::Limit), Some("ratio"));
        assert_eq!(unit(Id::Fallbacks), None);
    }
}
