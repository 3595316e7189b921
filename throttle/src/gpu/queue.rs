// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The load loop's backend over a device that runs kernels in order and times them.

use crate::backend::Backend;
use crate::clock::Clock;
use crate::error::Error;
use crate::gpu::calibrate::{calibrate, Calibration};
use crate::lengths::{DeviceReport, LengthCheck, Lengths, Timer};
use crate::log::{Log, Mark, Span, Submission};
use crate::plan::Plan;
use std::collections::VecDeque;

/// Kernels measured before the start.
const CHECK_KERNELS: u64 = 20;
/// Time that they may take together; one is always measured.
const CHECK_NS: u64 = 500_000_000;
/// Longest of them.
const CHECK_LENGTH_NS_MAX: u64 = 100_000_000;

/// Moments that are tried for a mark: the one that both clocks know best counts.
const MARKS: u32 = 16;

/// A device: runs kernels in the order of their launches and knows how long each took.
pub trait Device {
    /// A kernel under way.
    type Kernel;

    /// What the kernels spin on.
    fn timer(&self) -> Timer;
    /// Name of the device.
    fn name(&self) -> String;
    /// Name and version of the library.
    fn library(&self) -> String;
    /// Most kernels under way at a time.
    fn depth_max(&self) -> u32;

    /// Starts a kernel that spins for this number of units of the timer.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] if the library refuses.
    fn launch(&mut self, units: u64) -> Result<Self::Kernel, Error>;

    /// Whether the kernel has ended.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] if it failed.
    fn ended(&mut self, kernel: &Self::Kernel) -> Result<bool, Error>;

    /// Sleeps until the kernel has ended.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] if it failed.
    fn wait(&mut self, kernel: &Self::Kernel) -> Result<(), Error>;

    /// How long a kernel that has ended took by the device's own clock, in ns.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] if the device does not know.
    fn length_ns(&mut self, kernel: Self::Kernel) -> Result<u64, Error>;

    /// As [`length_ns`](Device::length_ns), and when it started. The device's clock begins with the
    /// first [`moment_ns`](Device::moment_ns), or before.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] if the device does not know.
    fn span(&mut self, kernel: Self::Kernel) -> Result<Span, Error>;

    /// Lets an event happen after all kernels so far and waits for it; when that was by the device's
    /// clock, in ns.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] if the device does not know.
    fn moment_ns(&mut self) -> Result<u64, Error>;
}

/// Runs a kernel and waits for it.
///
/// # Errors
///
/// As the calls of [`Device`].
pub fn time<D: Device>(device: &mut D, units: u64) -> Result<u64, Error> {
    let kernel = device.launch(units)?;
    device.wait(&kernel)?;
    device.length_ns(kernel)
}

/// A moment that both clocks know, to half of the shortest time that one took.
///
/// # Errors
///
/// As the calls of [`Device`].
pub fn mark<D: Device, C: Clock>(device: &mut D, clock: &C) -> Result<Mark, Error> {
    let mut best = Mark::default();
    let mut least_ns = u64::MAX;
    for _ in 0..MARKS {
        let before_ns = clock.now_ns();
        let device_ns = device.moment_ns()?;
        let took_ns = clock.now_ns().saturating_sub(before_ns);
        if took_ns < least_ns {
            least_ns = took_ns;
            best = Mark {
                host_ns: before_ns.saturating_add(took_ns / 2),
                device_ns,
            };
        }
    }
    Ok(best)
}

/// A kernel under way.
#[derive(Debug)]
struct UnderWay<K> {
    length_ns: u64,
    submission: Submission,
    kernel: K,
}

/// A calibrated device and the kernels on their way.
#[derive(Debug)]
pub struct Queue<D: Device, C> {
    device: D,
    clock: C,
    calibration: Calibration,
    check: LengthCheck,
    lengths: Lengths,
    log: Option<Log>,
    prepared: VecDeque<u64>,
    under_way: VecDeque<UnderWay<D::Kernel>>,
    sequence: u32,
    completed: u32,
}

impl<D: Device, C: Clock> Queue<D, C> {
    /// Calibrates the device and checks it with kernels of the plan's length.
    ///
    /// # Errors
    ///
    /// As the calls of [`Device`], or lengths that make no sense.
    pub fn new(mut device: D, plan: &Plan, clock: C) -> Result<Self, Error> {
        let calibration = calibrate(&mut |units| time(&mut device, units))?;
        let length_ns = plan.kernel_us.saturating_mul(1000).min(CHECK_LENGTH_NS_MAX);
        let mut lengths = Lengths::default();
        for _ in 0..(CHECK_NS / length_ns.max(1)).clamp(1, CHECK_KERNELS) {
            let measured_ns = time(&mut device, calibration.units(length_ns))?;
            lengths.note(length_ns, measured_ns);
        }
        let log = match plan.log {
            Some(_) => {
                let first = mark(&mut device, &clock)?;
                Some(Log::new(first, plan.count.unwrap_or(u64::MAX)))
            }
            None => None,
        };
        Ok(Queue {
            device,
            clock,
            calibration,
            check: lengths.check(),
            lengths: Lengths::default(),
            log,
            prepared: VecDeque::new(),
            under_way: VecDeque::new(),
            sequence: 0,
            completed: 0,
        })
    }

    /// Notes a kernel that has ended.
    fn note(&mut self, ended: UnderWay<D::Kernel>) -> Result<(), Error> {
        let measured_ns = match &mut self.log {
            Some(log) => {
                let span = self.device.span(ended.kernel)?;
                log.add(ended.submission, span);
                span.length_ns
            }
            None => self.device.length_ns(ended.kernel)?,
        };
        self.lengths.note(ended.length_ns, measured_ns);
        self.completed = self.completed.wrapping_add(1);
        Ok(())
    }
}

impl<D: Device, C: Clock> Backend for Queue<D, C> {
    fn depth_max(&self) -> u32 {
        self.device.depth_max()
    }

    fn prepare(&mut self, length_ns: u64, _: bool) -> u32 {
        self.prepared.push_back(length_ns);
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    fn submit(&mut self) -> Result<(), Error> {
        while let Some(length_ns) = self.prepared.pop_front() {
            let submitted_ns = self.clock.now_ns();
            let kernel = self.device.launch(self.calibration.units(length_ns))?;
            let submission = Submission {
                submitted_ns,
                returned_ns: self.clock.now_ns(),
            };
            self.under_way.push_back(UnderWay {
                length_ns,
                submission,
                kernel,
            });
        }
        Ok(())
    }

    fn completed(&mut self) -> Result<u32, Error> {
        while let Some(oldest) = self.under_way.pop_front() {
            if !self.device.ended(&oldest.kernel)? {
                self.under_way.push_front(oldest);
                break;
            }
            self.note(oldest)?;
        }
        Ok(self.completed)
    }

    /// Sleeps until the oldest kernel ends, however long that takes: neither library has a limit.
    fn wait(&mut self, _: u16) -> Result<(), Error> {
        match self.under_way.front() {
            Some(oldest) => self.device.wait(&oldest.kernel),
            None => Ok(()),
        }
    }

    fn log(&mut self) -> Result<Option<&Log>, Error> {
        if let Some(log) = &mut self.log {
            log.end(mark(&mut self.device, &self.clock)?);
        }
        Ok(self.log.as_ref())
    }

    fn device(&self) -> Option<DeviceReport> {
        Some(DeviceReport {
            library: self.device.library(),
            name: self.device.name(),
            timer: self.device.timer(),
            units_per_us: self.calibration.units_per_us,
            fixed_us: self.calibration.fixed_ns as f64 / 1000.0,
            check: self.check.clone(),
            run: self.lengths.check(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::cell::Cell;
    use std::rc::Rc;

    /// Time of a test, which only the device lets pass.
    #[derive(Clone, Default)]
    struct FakeClock(Rc<Cell<u64>>);

    impl FakeClock {
        fn pass(&self, ns: u64) {
            self.0.set(self.0.get() + ns);
        }
    }

    impl Clock for FakeClock {
        fn now_ns(&self) -> u64 {
            self.0.get()
        }
        fn sleep_until(&self, _: u64) {
            unreachable!("the queue does not sleep");
        }
    }

    /// Three units a nanosecond, 2 us fixed; a kernel ends when it was asked about twice.
    ///
    /// Its clock is 7 us ahead and one part in a hundred too fast. A launch takes 10 us, in the
    /// middle of which the kernel starts; a moment comes in the middle of 400 us, each tenth of 4 us.
    #[derive(Default)]
    struct FakeDevice {
        launched: Vec<u64>,
        starts_ns: Vec<u64>,
        asked: std::collections::BTreeMap<usize, u32>,
        clock: FakeClock,
        moments: u32,
    }

    impl FakeDevice {
        fn now_ns(&self) -> u64 {
            7000 + self.clock.now_ns() * 101 / 100
        }
    }

    impl Device for FakeDevice {
        type Kernel = usize;

        fn timer(&self) -> Timer {
            Timer::Loop
        }
        fn name(&self) -> String {
            "fake".to_owned()
        }
        fn library(&self) -> String {
            "none".to_owned()
        }
        fn depth_max(&self) -> u32 {
            4
        }
        fn launch(&mut self, units: u64) -> Result<usize, Error> {
            self.launched.push(units);
            self.clock.pass(5000);
            self.starts_ns.push(self.now_ns());
            self.clock.pass(5000);
            Ok(self.launched.len() - 1)
        }
        fn ended(&mut self, kernel: &usize) -> Result<bool, Error> {
            let asked = self.asked.entry(*kernel).or_default();
            *asked += 1;
            Ok(*asked >= 2)
        }
        fn wait(&mut self, kernel: &usize) -> Result<(), Error> {
            self.asked.insert(*kernel, 2);
            Ok(())
        }
        fn length_ns(&mut self, kernel: usize) -> Result<u64, Error> {
            assert!(self.asked[&kernel] >= 2, "kernel {kernel} has not ended");
            Ok(2000 + self.launched[kernel] / 3)
        }
        fn span(&mut self, kernel: usize) -> Result<Span, Error> {
            Ok(Span {
                started_ns: self.starts_ns[kernel],
                length_ns: self.length_ns(kernel)?,
            })
        }
        fn moment_ns(&mut self) -> Result<u64, Error> {
            self.moments += 1;
            let half_ns = if self.moments % 10 == 0 {
                2000
            } else {
                200_000
            };
            self.clock.pass(half_ns);
            let now_ns = self.now_ns();
            self.clock.pass(half_ns + half_ns / 10);
            Ok(now_ns)
        }
    }

    fn queue_of(arguments: &str) -> (Queue<FakeDevice, FakeClock>, FakeClock) {
        let words = std::iter::once("throttle").chain(arguments.split_whitespace());
        let clock = FakeClock::default();
        let device = FakeDevice {
            clock: clock.clone(),
            ..FakeDevice::default()
        };
        let queue = Queue::new(device, &Plan::parse_from(words), clock.clone());
        (queue.expect("queue"), clock)
    }

    fn queue() -> Queue<FakeDevice, FakeClock> {
        queue_of("--kernel-us 500").0
    }

    #[test]
    fn kernels_complete_in_order_and_one_by_one() {
        let mut queue = queue();
        assert_eq!(queue.prepare(500_000, true), 1);
        assert_eq!(queue.prepare(250_000, true), 2);
        queue.submit().expect("submit");
        assert_eq!(queue.completed().expect("completed"), 0);
        assert_eq!(queue.completed().expect("completed"), 1);
        queue.wait(1).expect("wait");
        assert_eq!(queue.completed().expect("completed"), 2);
        let report = queue.device().expect("report");
        assert_eq!(report.run.kernels, 2);
        assert_eq!(report.run.asked_us, 750.0);
    }

    #[test]
    fn lengths_are_right_after_calibration() {
        let queue = queue();
        let report = queue.device().expect("report");
        assert!((report.units_per_us / 3000.0 - 1.0).abs() < 1e-3);
        assert_eq!(report.check.kernels, 20);
        assert!(report.check.error_worst_percent.abs() < 0.1);
        assert_eq!(report.run.kernels, 0);
    }

    #[test]
    fn long_kernels_are_checked_with_a_few() {
        let queue = queue_of("--kernel-us 60000000").0;
        let report = queue.device().expect("report");
        assert_eq!(report.check.kernels, 5);
        assert_eq!(report.check.asked_us, 500_000.0);
    }

    #[test]
    fn log_has_the_times_of_kernels_on_the_clock_of_the_host() {
        let (mut queue, clock) = queue_of("--kernel-us 500 --log x");
        let mut wanted = Vec::new();
        for kernel in 1..=100u64 {
            // Two at a time.
            for _ in 0..2 {
                queue.prepare(500_000, true);
                wanted.push(clock.now_ns() + 10_000 * (wanted.len() as u64 % 2));
            }
            queue.submit().expect("submit");
            while u64::from(queue.completed().expect("completed")) < 2 * kernel {}
            clock.pass(10_000_000);
        }
        let log = queue.log().expect("no error").expect("a log");
        let found: Vec<_> = log.kernels().collect();
        assert_eq!(found.len(), 200);
        for (number, (kernel, submitted_ns)) in (1..).zip(found.iter().zip(wanted)) {
            assert_eq!(kernel.kernel, number);
            assert_eq!(kernel.submitted_ns, submitted_ns);
            assert_eq!(kernel.returned_ns, submitted_ns + 10_000);
            // A mark takes 4.2 us, and is known to half of it; a second has drifted by 10 ms.
            let started_ns = submitted_ns + 5000;
            assert!(kernel.started_ns.abs_diff(started_ns) < 2200, "{kernel:?}");
            let length_ns = kernel.ended_ns - kernel.started_ns;
            assert!(length_ns.abs_diff(500_000 * 100 / 101) < 100, "{kernel:?}");
        }
    }

    #[test]
    fn queue_without_a_log_makes_no_mark() {
        let mut queue = queue();
        assert!(queue.log().expect("no error").is_none());
        assert_eq!(queue.device.moments, 0);
    }
}
