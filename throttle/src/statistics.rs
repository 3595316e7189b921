// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What a run notes: turnaround times, time throttled, GPU time.

use serde::{Deserialize, Serialize};

/// Turnaround times kept for the percentiles; later ones count in mean, least and most only.
pub const SAMPLES_MAX: usize = 1 << 22;

/// A store to GP_PUT that takes longer than this was throttled in the page fault, in ns.
///
/// An uncached store takes at most a few microseconds, a scheduling gap on an idle processor less
/// than this. With CUDA and OpenCL the calls of the library around the store count too, and OpenCL on
/// a processor may give it to the kernel meanwhile.
pub const BLOCKED_ABOVE_NS: u64 = 50_000;

/// Times of one kind, in ns.
#[derive(Clone, Debug, Default)]
struct Durations {
    samples: Vec<u64>,
    count: u64,
    sum: u64,
    most: u64,
}

impl Durations {
    fn add(&mut self, ns: u64) {
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push(ns);
        }
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.saturating_add(ns);
        self.most = self.most.max(ns);
    }

    fn mean_us(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        us(self.sum) / self.count as f64
    }

    fn sorted(&self) -> Vec<u64> {
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        sorted
    }
}

/// The times of one run, in ns.
#[derive(Clone, Debug, Default)]
pub struct Times {
    turnarounds: Durations,
    blocked_ns: u64,
    blocked: u64,
    asked_ns: u64,
    frames: Durations,
    late: u64,
}

impl Times {
    /// Room for `expected` turnaround times without growing.
    pub fn with_capacity(expected: usize) -> Self {
        Times {
            turnarounds: Durations {
                samples: Vec::with_capacity(expected.min(SAMPLES_MAX)),
                ..Durations::default()
            },
            ..Times::default()
        }
    }

    /// Notes a completed kernel: from its submission to the program seeing its end.
    pub fn completed(&mut self, turnaround_ns: u64, asked_ns: u64) {
        self.turnarounds.add(turnaround_ns);
        self.asked_ns = self.asked_ns.saturating_add(asked_ns);
    }

    /// Notes a frame: from its first submission to the program seeing the last of its ends. It is
    /// late if that took longer than `deadline_ns`.
    pub fn framed(&mut self, frame_ns: u64, deadline_ns: Option<u64>) {
        self.frames.add(frame_ns);
        let late = deadline_ns.is_some_and(|deadline_ns| frame_ns > deadline_ns);
        self.late = self.late.saturating_add(late.into());
    }

    /// Notes how long the store to GP_PUT took.
    pub fn stored(&mut self, store_ns: u64) {
        if store_ns > BLOCKED_ABOVE_NS {
            self.blocked = self.blocked.saturating_add(1);
            self.blocked_ns = self.blocked_ns.saturating_add(store_ns);
        }
    }

    /// Kernels completed so far.
    pub fn count(&self) -> u64 {
        self.turnarounds.count
    }

    /// The figures to print.
    pub fn summary(&self) -> Summary {
        let sorted = self.turnarounds.sorted();
        Summary {
            kernels: self.turnarounds.count,
            turnaround_mean_us: self.turnarounds.mean_us(),
            turnaround_min_us: us(sorted.first().copied().unwrap_or(0)),
            turnaround_median_us: us(percentile(&sorted, 50)),
            turnaround_p95_us: us(percentile(&sorted, 95)),
            turnaround_p99_us: us(percentile(&sorted, 99)),
            turnaround_max_us: us(self.turnarounds.most),
            blocked_us: us(self.blocked_ns),
            blocked_count: self.blocked,
            gpu_asked_us: us(self.asked_ns),
            frames: (self.frames.count > 0).then(|| self.frames()),
        }
    }

    fn frames(&self) -> Frames {
        let sorted = self.frames.sorted();
        Frames {
            count: self.frames.count,
            mean_us: self.frames.mean_us(),
            median_us: us(percentile(&sorted, 50)),
            p95_us: us(percentile(&sorted, 95)),
            p99_us: us(percentile(&sorted, 99)),
            max_us: us(self.frames.most),
            late: self.late,
        }
    }
}

/// The frames of one run, times in microseconds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Frames {
    /// Frames completed.
    pub count: u64,
    /// Mean time from the first submission of a frame to the program seeing the last of its ends.
    pub mean_us: f64,
    /// Median (nearest rank).
    pub median_us: f64,
    /// 95th percentile (nearest rank).
    pub p95_us: f64,
    /// 99th percentile (nearest rank).
    pub p99_us: f64,
    /// Most.
    pub max_us: f64,
    /// Frames that took longer than the deadline.
    pub late: u64,
}

/// The figures of one run, times in microseconds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Summary {
    /// Kernels completed.
    pub kernels: u64,
    /// Mean time from submission to the program seeing the end.
    pub turnaround_mean_us: f64,
    /// Least.
    pub turnaround_min_us: f64,
    /// Median (nearest rank).
    pub turnaround_median_us: f64,
    /// 95th percentile (nearest rank).
    #[serde(default)]
    pub turnaround_p95_us: f64,
    /// 99th percentile (nearest rank).
    pub turnaround_p99_us: f64,
    /// Most.
    pub turnaround_max_us: f64,
    /// Time that stores to GP_PUT took where they took more than [`BLOCKED_ABOVE_NS`].
    pub blocked_us: f64,
    /// How many of them there were.
    pub blocked_count: u64,
    /// Sum of the lengths of the kernels completed.
    pub gpu_asked_us: f64,
    /// Its frames, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<Frames>,
}

/// All instances together; percentiles exist per instance only.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Total {
    /// Processes.
    pub instances: u64,
    /// Kernels completed.
    pub kernels: u64,
    /// Mean over all kernels.
    pub turnaround_mean_us: f64,
    /// Most.
    pub turnaround_max_us: f64,
    /// Sum of the times throttled.
    pub blocked_us: f64,
    /// How often that was.
    pub blocked_count: u64,
    /// Sum of the lengths of the kernels completed.
    pub gpu_asked_us: f64,
}

impl Total {
    /// Adds up the figures of several runs.
    pub fn of(parts: &[Summary]) -> Self {
        // CAST: instances are bounded by INSTANCES_MAX.
        let mut total = Total {
            instances: parts.len() as u64,
            ..Total::default()
        };
        let mut turnaround_us = 0.0;
        for part in parts {
            total.kernels = total.kernels.saturating_add(part.kernels);
            turnaround_us += part.turnaround_mean_us * part.kernels as f64;
            total.turnaround_max_us = total.turnaround_max_us.max(part.turnaround_max_us);
            total.blocked_us += part.blocked_us;
            total.blocked_count = total.blocked_count.saturating_add(part.blocked_count);
            total.gpu_asked_us += part.gpu_asked_us;
        }
        if total.kernels > 0 {
            total.turnaround_mean_us = turnaround_us / total.kernels as f64;
        }
        total
    }
}

/// The value of nearest rank `percent` of sorted values, 0 for none.
pub(crate) fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = sorted.len().saturating_mul(percent).div_ceil(100);
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

/// Nanoseconds as microseconds.
pub(crate) fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_takes_nearest_rank() {
        let values: Vec<u64> = (1..=200).collect();
        assert_eq!(percentile(&values, 50), 100);
        assert_eq!(percentile(&values, 99), 198);
        assert_eq!(percentile(&values[..1], 99), 1);
        assert_eq!(percentile(&[], 99), 0);
    }

    #[test]
    fn summary_of_known_times_is_exact() {
        let mut times = Times::with_capacity(4);
        for turnaround in [4000, 1000, 3000, 2000] {
            times.completed(turnaround, 500);
        }
        let summary = times.summary();
        assert_eq!(summary.kernels, 4);
        assert_eq!(summary.turnaround_mean_us, 2.5);
        assert_eq!(summary.turnaround_median_us, 2.0);
        assert_eq!(summary.turnaround_p95_us, 4.0);
        assert_eq!(summary.turnaround_p99_us, 4.0);
        assert_eq!(summary.frames, None);
        assert_eq!(summary.turnaround_min_us, 1.0);
        assert_eq!(summary.turnaround_max_us, 4.0);
        assert_eq!(summary.gpu_asked_us, 2.0);
    }

    #[test]
    fn frames_are_late_beyond_the_deadline_only() {
        let mut times = Times::default();
        for us in 1..=100 {
            times.framed(us * 1000, Some(90_000));
        }
        let frames = times.summary().frames.unwrap();
        assert_eq!((frames.count, frames.late), (100, 10));
        assert_eq!((frames.median_us, frames.p95_us), (50.0, 95.0));
        assert_eq!(
            (frames.p99_us, frames.max_us, frames.mean_us),
            (99.0, 100.0, 50.5)
        );
        let mut times = Times::default();
        times.framed(1000, None);
        assert_eq!(times.summary().frames.unwrap().late, 0);
    }

    #[test]
    fn stored_counts_only_beyond_the_limit() {
        let mut times = Times::default();
        times.stored(BLOCKED_ABOVE_NS);
        assert_eq!(times.summary().blocked_count, 0);
        times.stored(BLOCKED_ABOVE_NS + 1);
        let summary = times.summary();
        assert_eq!(summary.blocked_count, 1);
        assert_eq!(summary.blocked_us, 50.001);
    }

    #[test]
    fn total_weighs_means_by_kernels() {
        let mut one = Times::default();
        let mut two = Times::default();
        let mut both = Times::default();
        for i in 0..100 {
            let part = if i % 3 == 0 { &mut one } else { &mut two };
            part.completed(i * 1000, 500);
            both.completed(i * 1000, 500);
        }
        let total = Total::of(&[one.summary(), two.summary()]);
        let both = both.summary();
        assert_eq!(total.instances, 2);
        assert_eq!(total.kernels, both.kernels);
        assert!((total.turnaround_mean_us - both.turnaround_mean_us).abs() < 1e-9);
        assert_eq!(total.turnaround_max_us, both.turnaround_max_us);
        assert_eq!(total.gpu_asked_us, both.gpu_asked_us);
        assert_eq!(Total::of(&[]), Total::default());
    }

    #[test]
    fn summary_of_nothing_is_zero() {
        assert_eq!(Times::default().summary(), Summary::default());
    }
}
