// SPDX-License-Identifier: GPL-2.0

//! Figures 7 and 11 reduced to what the virtual machine can run in minutes: three applications,
//! each a throttle with the mean kernel of its profile and the mean pause between kernels; in Figure
//! 7 beside fewer and slower throttles.
//!
//! The simulator runs the same, so that both can be compared.

use crate::Throttles;

/// An application as a throttle.
#[derive(Clone, Copy, Debug)]
pub struct Application {
    /// Name of its profile in `eval/profiles`.
    pub name: &'static str,
    /// Mean length of its kernels.
    pub kernel_us: u64,
    /// Mean time on CPUs and of copies between two of them.
    pub pause_us: u64,
}

/// Long kernels, short kernels one after the other, and hardly any kernels.
pub const APPLICATIONS: [Application; 3] = [
    Application {
        name: "heartwall",
        kernel_us: 10_000,
        pause_us: 2_672,
    },
    Application {
        name: "srad_v1",
        kernel_us: 110,
        pause_us: 57,
    },
    Application {
        name: "nn",
        kernel_us: 5,
        pause_us: 500,
    },
];

/// The throttles of Figure 7a, half as many with kernels and pauses ten times as long: those of the
/// paper keep the one processor that they share in the virtual machine busy for most of the time,
/// and are slowed down by that, not by the GPU. Source of the ten of 10 us and 1000 us: LoGA paper,
/// section 5.3.
///
/// They vary, because the processor that they share hardly does: after the turns of `sampling`,
/// throttles of exact lengths follow one another for all of a free run, each ready a few us before
/// the one before it ends, and the application waits for four of them instead of one.
pub const FIVE_SHORT: Throttles = Throttles {
    count: 5,
    kernel_us: 100,
    sleep_us: 10_000,
    jitter: 20,
};
/// The throttles of Figure 7b in the same way.
pub const FIVE_LONG: Throttles = Throttles {
    kernel_us: 1000,
    ..FIVE_SHORT
};
/// What is reduced in Figure 7, for the reader of a result.
pub const REDUCED: &str =
    "five throttles with kernels and pauses ten times as long as the paper's \
                           ten: those keep the one processor that clients share in the virtual \
                           machine busy, and wait for it instead of the GPU";
/// Why the throttles of Figure 7 vary, for the reader of a result.
pub const VARIED: &str =
    "kernels and pauses of the throttles vary by up to 20 %: of exact lengths, after the turns of \
     sampling they follow one another all the time, and a few us decide whether the application \
     waits for one of them or for four";
/// With these weights no client is throttled in a free run of `sampling`, or one throttle after
/// many: the limit is that of the lightest, which one of the throttles is, and the others pay a ten
/// thousandth of what it pays. The module scans channels only while it enforces, so this is
/// its way of accounting alone by samples.
pub const WEIGHTS: [u32; 2] = [1, 10_000];
/// The same for the reader of a result.
pub const WEIGHED: &str = "sampling: it decides, with one throttle of weight 1 and all others of \
                           weight 10000, so that its limit is out of reach: the module takes no \
                           samples while it does not enforce";
/// For how long an application of Figure 7 runs alone, in ms: three times as long as a polling phase
/// of six clients and the one that follows.
pub const OVERHEAD_MS: u64 = 3 * 6 * 12 * 6;
/// For how long one of Figure 11 does: five times as long as these of five clients.
pub const QUALITY_MS: u64 = 5 * 5 * 12 * 6;
/// Throttles run for so long before it comes, in ms.
pub const BEFORE_MS: u64 = 500;

/// Setting of these experiments in both places.
pub const SETTING: &str = "machine";
/// Name of the time from the end of a kernel to the start of the next, in the settings.
pub const LAUNCH: &str = "throttle.launch_us";
/// Name of the time by which a pause is too long, in the settings.
pub const LATE: &str = "throttle.late_us";
/// Name of the time by which a kernel runs longer than it was asked to, in the settings.
pub const KERNEL_LATE: &str = "kernel.late_us";
/// Names of that time and of a switch of contexts while LoGA polls, in the settings.
pub const POLLED: [&str; 2] = ["polled.kernel.late_us", "polled.switch_us"];

impl Application {
    /// Kernels that it runs in this time when it is alone.
    pub fn kernels(&self, ms: u64) -> u64 {
        (ms * 1000).div_ceil(self.kernel_us + self.pause_us)
    }
}

/// By how much a turnaround without scheduling has to change for each of `throttles` throttles,
/// which got `throttle` of GPU time each, to have as much as the application, which got `own`, if
/// every client could always use the whole GPU: the optimum of Figure 11.
pub fn optimum(own: f64, throttle: f64, throttles: f64) -> f64 {
    (1.0 + throttles) * own / (own + throttles * throttle).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optimum_is_slower_for_who_has_more_and_faster_for_who_has_less() {
        // 60 and four times 10 of 100: each is to have 20, so that 60 take three times as long.
        assert!((optimum(60.0, 10.0, 4.0) - 3.0).abs() < 1e-12);
        assert!((optimum(20.0, 20.0, 4.0) - 1.0).abs() < 1e-12);
        assert!(optimum(10.0, 22.5, 4.0) < 0.51);
    }

    #[test]
    fn kernels_fill_the_time() {
        assert_eq!(APPLICATIONS[2].kernels(1_010), 2_000);
    }
}
