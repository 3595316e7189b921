// SPDX-License-Identifier: GPL-2.0

//! `[tool]` From units of a device's timer to time: a straight line through measured kernels.

use crate::error::Error;

/// Length of the longer probe: long against the resolution of events, short against the time after
/// which another user of the device gets in between.
const PROBE_NS: u64 = 1_000_000;
/// How long the device works before anything is believed: its clock rises under load.
const WARM_NS: u64 = 100_000_000;
/// Pairs of probes. The shortest of each counts: whatever disturbs a kernel makes it longer.
const REPEATS: u32 = 25;
/// Units of the first probe.
const UNITS_FIRST: u64 = 1000;
/// Doublings before a device that reports no time is given up.
const DOUBLINGS_MAX: u32 = 40;
/// Probes of the warm-up, should they stay short.
const WARM_PROBES_MAX: u32 = 10_000;

/// How long a kernel of a number of units takes: a fixed time and a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// Units in a microsecond.
    pub units_per_us: f64,
    /// Length of a kernel of no units, in ns.
    pub fixed_ns: u64,
}

impl Calibration {
    /// Units of a kernel that takes `length_ns` by the device's events, at least 1.
    pub fn units(&self, length_ns: u64) -> u64 {
        let spin_ns = length_ns.saturating_sub(self.fixed_ns);
        // CAST: saturates; lengths are bounded by the plan.
        ((spin_ns as f64 * self.units_per_us / 1000.0).round() as u64).max(1)
    }
}

/// Measures kernels with `time`, which runs one of a number of units and returns its length in ns.
///
/// # Errors
///
/// What `time` returns, or [`Error::Gpu`] if the lengths do not grow with the units.
pub fn calibrate(time: &mut dyn FnMut(u64) -> Result<u64, Error>) -> Result<Calibration, Error> {
    let mut units = UNITS_FIRST;
    let mut doublings = 0;
    while time(units)? < PROBE_NS {
        doublings += 1;
        if doublings > DOUBLINGS_MAX {
            return Err(no_sense(format!("a kernel of {units} units takes no time")));
        }
        units = units.saturating_mul(2);
    }
    let mut warm_ns = 0u64;
    for _ in 0..WARM_PROBES_MAX {
        if warm_ns >= WARM_NS {
            break;
        }
        warm_ns = warm_ns.saturating_add(time(units)?);
    }
    let less = units / 4;
    let (mut short_ns, mut long_ns) = (u64::MAX, u64::MAX);
    for _ in 0..REPEATS {
        short_ns = short_ns.min(time(less)?);
        long_ns = long_ns.min(time(units)?);
    }
    if long_ns <= short_ns {
        return Err(no_sense(format!(
            "{units} units take {long_ns} ns, {less} take {short_ns} ns"
        )));
    }
    let units_per_ns = (units - less) as f64 / (long_ns - short_ns) as f64;
    // CAST: saturates at 0 where noise made the line start below it.
    let fixed_ns = (short_ns as f64 - less as f64 / units_per_ns) as u64;
    Ok(Calibration {
        units_per_us: units_per_ns * 1000.0,
        fixed_ns,
    })
}

fn no_sense(reason: String) -> Error {
    Error::Gpu {
        call: "calibration",
        reason: format!("the device's events make no sense: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calibrate_finds_rate_and_fixed_time_in_noise() {
        let mut run = 0u64;
        let found = calibrate(&mut |units| {
            run += 1;
            // Two of three are disturbed, by up to 2 ms.
            let noise = (run % 3) * (run * 7919 % 1_000_000);
            Ok(4000 + units * 5 / 4 + noise)
        })
        .expect("calibration");
        assert!((found.units_per_us / 800.0 - 1.0).abs() < 1e-3, "{found:?}");
        assert!((3900..=4100).contains(&found.fixed_ns), "{found:?}");
        let units = found.units(104_000);
        assert!((79_900..=80_100).contains(&units), "{units}");
    }

    #[test]
    fn units_of_a_kernel_shorter_than_the_fixed_time_is_one() {
        let calibration = Calibration {
            units_per_us: 1000.0,
            fixed_ns: 4000,
        };
        assert_eq!(calibration.units(4000), 1);
        assert_eq!(calibration.units(0), 1);
    }

    #[test]
    fn calibrate_of_a_device_without_time_is_an_error() {
        assert!(calibrate(&mut |_| Ok(0)).is_err());
        assert!(calibrate(&mut |_| Ok(2_000_000)).is_err());
    }
}
