// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Rounds of a kernel whose threads note when they do not run.

use crate::clock::Clock;
use crate::error::Error;
use crate::load::Stop;
use crate::plan::Plan;
use crate::report::Instance;
use crate::residency::{Notes, Record};
use std::sync::atomic::Ordering;

/// Longest round: how late a stop request can be seen, and short against the seconds after which a
/// driver ends the kernels of a device with a display.
const ROUND_NS: u64 = 500_000_000;

/// A device with a thread on each multiprocessor that notes when it does not run.
pub trait Resident {
    /// Its multiprocessors.
    fn multiprocessors(&self) -> u32;

    /// Smallest step of its timer, in ns; all ones if it does not move.
    fn timer_step_ns(&self) -> u64;

    /// Runs all threads until their timer has advanced by `length_ns`; each notes the gaps that are
    /// longer than `gap_ns`.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] if the library refuses.
    fn round(&mut self, length_ns: u64, gap_ns: u64) -> Result<Vec<Notes>, Error>;
}

/// Refuses a device whose timer is too coarse for the plan's gaps.
///
/// # Errors
///
/// [`Error::Argument`] with the step and the threshold.
pub fn check_timer<R: Resident + ?Sized>(plan: &Plan, device: &R) -> Result<(), Error> {
    let step_ns = device.timer_step_ns();
    if step_ns <= gap_ns(plan) / 2 {
        return Ok(());
    }
    let step = match step_ns {
        u64::MAX => "does not move".to_owned(),
        _ => format!("has steps of {step_ns} ns"),
    };
    Err(Error::Argument(format!(
        "--gap-us {}: must be at least two steps of the device's timer, which {step}",
        plan.gap_us()
    )))
}

/// Runs rounds until the plan's time is over on the device's timer, or until `stop` is set.
///
/// # Errors
///
/// What the device reports.
pub fn run<R: Resident + ?Sized, C: Clock>(
    plan: &Plan,
    device: &mut R,
    clock: &C,
    stop: &Stop,
) -> Result<Instance, Error> {
    let start_ns = clock.now_ns();
    let mut record = Record::default();
    // A plan without a count has a limit.
    let mut left_ns = plan.limit_ns().unwrap_or_default();
    while left_ns > 0 && !stop.load(Ordering::Relaxed) {
        let length_ns = left_ns.min(ROUND_NS);
        record.add_round(&device.round(length_ns, gap_ns(plan))?);
        left_ns = left_ns.saturating_sub(length_ns);
    }
    let residency = record.residency(device.multiprocessors(), device.timer_step_ns());
    Ok(Instance {
        instance: plan.instance.unwrap_or(0),
        pid: std::process::id(),
        start_ns,
        end_ns: clock.now_ns(),
        residency: Some(residency),
        ..Instance::default()
    })
}

fn gap_ns(plan: &Plan) -> u64 {
    plan.gap_us().saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Monotonic;
    use crate::residency::Gap;
    use clap::Parser;

    /// Asks to stop after a number of rounds; every round has one gap.
    struct FakeResident<'a> {
        step_ns: u64,
        rounds: Vec<(u64, u64)>,
        stop: &'a Stop,
        stop_after: usize,
    }

    impl Resident for FakeResident<'_> {
        fn multiprocessors(&self) -> u32 {
            2
        }
        fn timer_step_ns(&self) -> u64 {
            self.step_ns
        }
        fn round(&mut self, length_ns: u64, gap_ns: u64) -> Result<Vec<Notes>, Error> {
            self.rounds.push((length_ns, gap_ns));
            self.stop
                .store(self.rounds.len() >= self.stop_after, Ordering::Relaxed);
            let gap = Gap {
                before_ns: 1000,
                after_ns: 3000,
            };
            let notes = |multiprocessor| Notes {
                multiprocessor,
                end_ns: length_ns,
                gaps: vec![gap],
                ..Notes::default()
            };
            Ok(vec![notes(0), notes(1)])
        }
    }

    fn plan(arguments: &str) -> Plan {
        let words = "throttle --backend cuda --residency ".to_owned() + arguments;
        Plan::parse_from(words.split_whitespace())
    }

    fn run_rounds(arguments: &str, stop_after: usize) -> (Instance, Vec<(u64, u64)>) {
        let stop = Stop::new(false);
        let mut device = FakeResident {
            step_ns: 32,
            rounds: Vec::new(),
            stop: &stop,
            stop_after,
        };
        let found = run(&plan(arguments), &mut device, &Monotonic, &stop).expect("figures");
        (found, device.rounds)
    }

    #[test]
    fn rounds_are_short_and_last_as_long_as_the_plan() {
        let (found, rounds) = run_rounds("--seconds 1.2", usize::MAX);
        let lengths: Vec<u64> = rounds.iter().map(|(length_ns, _)| *length_ns).collect();
        assert_eq!(lengths, [500_000_000, 500_000_000, 200_000_000]);
        assert!(rounds.iter().all(|(_, gap_ns)| *gap_ns == 30_000));
        let residency = found.residency.expect("residency");
        assert!((residency.seconds - 1.2).abs() < 1e-9);
        assert_eq!((residency.multiprocessors, residency.noted), (2, 2));
        assert_eq!((residency.gaps.count, residency.gap_us), (3, 6.0));
        let (_, rounds) = run_rounds("--seconds 0.1 --gap-us 7", usize::MAX);
        assert_eq!(rounds, [(100_000_000, 7000)]);
    }

    #[test]
    fn stop_request_is_seen_after_a_round() {
        let (found, rounds) = run_rounds("", 3);
        assert_eq!(rounds.len(), 3);
        assert!((found.residency.expect("residency").seconds - 1.5).abs() < 1e-9);
        // Ten seconds without one.
        assert_eq!(run_rounds("", usize::MAX).1.len(), 20);
    }

    #[test]
    fn timer_coarser_than_half_the_threshold_is_refused_with_both() {
        let stop = Stop::new(false);
        let refusal = |arguments: &str, step_ns| {
            let device = FakeResident {
                step_ns,
                rounds: Vec::new(),
                stop: &stop,
                stop_after: usize::MAX,
            };
            let refused = check_timer(&plan(arguments), &device).err();
            refused.map(|error| error.to_string())
        };
        assert_eq!(refusal("", 15_000), None);
        let said = refusal("", 15_001).expect("a refusal");
        assert!(said.contains("--gap-us 30:"), "{said}");
        assert!(said.contains("steps of 15001 ns"), "{said}");
        assert_eq!(refusal("--gap-us 40", 15_001), None);
        let said = refusal("", u64::MAX).expect("a refusal");
        assert!(said.ends_with("which does not move"), "{said}");
    }
}
