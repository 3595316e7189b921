// SPDX-License-Identifier: GPL-2.0

//! Figures 7 and 11 reduced to what the virtual machine can run in minutes: three applications,
//! each a throttle with the mean kernel of its profile and the mean pause between kernels.
//!
//! The simulator runs the same, so that both can be compared.

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

/// Throttles beside it.
#[derive(Clone, Copy, Debug)]
pub struct Throttles {
    /// How many.
    pub count: u32,
    /// Length of their kernels.
    pub kernel_us: u64,
    /// Pause after each.
    pub sleep_us: u64,
}

/// The throttles of Figure 7a. Source: LoGA paper, section 5.3.
pub const TEN_SHORT: Throttles = Throttles {
    count: 10,
    kernel_us: 10,
    sleep_us: 1000,
};
/// The throttles of Figure 7b. Source: LoGA paper, section 5.3.
pub const TEN_LONG: Throttles = Throttles {
    kernel_us: 100,
    ..TEN_SHORT
};
/// The throttles of Figure 11. Source: LoGA paper, section 5.5.
pub const FOUR: Throttles = Throttles {
    count: 4,
    kernel_us: 200,
    sleep_us: 800,
};
/// None.
pub const ALONE: Throttles = Throttles { count: 0, ..FOUR };

/// For how long an application of Figure 7 runs alone, in ms: two and a half times as long as a
/// polling phase of eleven clients and the one that follows.
pub const OVERHEAD_MS: u64 = 2_000;
/// For how long one of Figure 11 does: its turnaround depends on many decisions.
pub const QUALITY_MS: u64 = 3_000;
/// Throttles run for so long before it comes, in ms.
pub const BEFORE_MS: u64 = 500;

/// Setting of these experiments in both places.
pub const SETTING: &str = "machine";
/// Name of the time from the end of a kernel to the start of the next, in the settings.
pub const LAUNCH: &str = "throttle.launch_us";
/// Name of the time by which a pause is too long, in the settings.
pub const LATE: &str = "throttle.late_us";

impl Application {
    /// Kernels that it runs in so many ms when it is alone.
    pub fn kernels(&self, ms: u64) -> u64 {
        (ms * 1000).div_ceil(self.kernel_us + self.pause_us)
    }
}

/// By how much a turnaround without scheduling has to change for each of `throttles` throttles,
/// which got `throttle` of GPU time each, to have as much as the application, which got `own`, if
/// everybody could always use the whole GPU: the optimum of Figure 11.
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
