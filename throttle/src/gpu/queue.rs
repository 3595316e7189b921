// SPDX-License-Identifier: GPL-2.0

//! [tool] The load loop's backend over a device that runs kernels in order and times them.

use crate::backend::Backend;
use crate::error::Error;
use crate::gpu::calibrate::{calibrate, Calibration};
use crate::lengths::{DeviceReport, LengthCheck, Lengths, Timer};
use crate::plan::Plan;
use std::collections::VecDeque;

/// Kernels measured before the start.
const CHECK_KERNELS: u64 = 20;
/// Time that they may take together; one is always measured.
const CHECK_NS: u64 = 500_000_000;
/// Longest of them.
const CHECK_LENGTH_NS_MAX: u64 = 100_000_000;

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

/// A calibrated device and the kernels on their way.
#[derive(Debug)]
pub struct Queue<D: Device> {
    device: D,
    calibration: Calibration,
    check: LengthCheck,
    lengths: Lengths,
    prepared: VecDeque<u64>,
    under_way: VecDeque<(u64, D::Kernel)>,
    sequence: u32,
    completed: u32,
}

impl<D: Device> Queue<D> {
    /// Calibrates the device and checks it with kernels of the plan's length.
    ///
    /// # Errors
    ///
    /// As the calls of [`Device`], or lengths that make no sense.
    pub fn new(mut device: D, plan: &Plan) -> Result<Self, Error> {
        let calibration = calibrate(&mut |units| time(&mut device, units))?;
        let length_ns = plan.kernel_us.saturating_mul(1000).min(CHECK_LENGTH_NS_MAX);
        let mut lengths = Lengths::default();
        for _ in 0..(CHECK_NS / length_ns.max(1)).clamp(1, CHECK_KERNELS) {
            let measured_ns = time(&mut device, calibration.units(length_ns))?;
            lengths.note(length_ns, measured_ns);
        }
        Ok(Queue {
            device,
            calibration,
            check: lengths.check(),
            lengths: Lengths::default(),
            prepared: VecDeque::new(),
            under_way: VecDeque::new(),
            sequence: 0,
            completed: 0,
        })
    }
}

impl<D: Device> Backend for Queue<D> {
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
            let kernel = self.device.launch(self.calibration.units(length_ns))?;
            self.under_way.push_back((length_ns, kernel));
        }
        Ok(())
    }

    fn completed(&mut self) -> Result<u32, Error> {
        while let Some((length_ns, kernel)) = self.under_way.pop_front() {
            if !self.device.ended(&kernel)? {
                self.under_way.push_front((length_ns, kernel));
                break;
            }
            self.lengths.note(length_ns, self.device.length_ns(kernel)?);
            self.completed = self.completed.wrapping_add(1);
        }
        Ok(self.completed)
    }

    /// Sleeps until the oldest kernel ends, however long that takes: neither library has a limit.
    fn wait(&mut self, _: u16) -> Result<(), Error> {
        match self.under_way.front() {
            Some((_, kernel)) => self.device.wait(kernel),
            None => Ok(()),
        }
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

    /// Three units a nanosecond, 2 us fixed; a kernel ends when it was asked about twice.
    #[derive(Default)]
    struct FakeDevice {
        launched: Vec<u64>,
        asked: std::collections::BTreeMap<usize, u32>,
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
    }

    fn queue() -> Queue<FakeDevice> {
        let plan = Plan::parse_from(["throttle", "--kernel-us", "500"]);
        Queue::new(FakeDevice::default(), &plan).expect("queue")
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
        let plan = Plan::parse_from(["throttle", "--kernel-us", "60000000"]);
        let queue = Queue::new(FakeDevice::default(), &plan).expect("queue");
        let report = queue.device().expect("report");
        assert_eq!(report.check.kernels, 5);
        assert_eq!(report.check.asked_us, 500_000.0);
    }
}
