// SPDX-License-Identifier: GPL-2.0

//! Throttles beside an application.

use serde::Serialize;

/// Throttles beside an application.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Throttles {
    /// How many.
    #[serde(rename = "instances")]
    pub count: u32,
    /// Length of their kernels.
    pub kernel_us: u64,
    /// Pause after each.
    pub sleep_us: u64,
    /// By how many percent both vary; none does on a host.
    #[serde(skip)]
    pub jitter: u32,
}

/// The throttles of Figure 7a. Source: LoGA paper, section 5.3.
pub const TEN_SHORT: Throttles = Throttles {
    count: 10,
    kernel_us: 10,
    sleep_us: 1000,
    jitter: 0,
};
/// The throttles of Figure 7b. Source: as before.
pub const TEN_LONG: Throttles = Throttles {
    kernel_us: 100,
    ..TEN_SHORT
};
/// The throttles of Figure 11. Source: LoGA paper, section 5.5.
pub const FOUR: Throttles = Throttles {
    count: 4,
    kernel_us: 200,
    sleep_us: 800,
    jitter: 0,
};
/// None.
pub const ALONE: Throttles = Throttles { count: 0, ..FOUR };
