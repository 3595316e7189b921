// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What to do: the command line and the limits of its values.

use crate::error::Error;
use clap::{Parser, ValueEnum};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;

/// Version and backends of this build.
#[cfg(not(target_feature = "crt-static"))]
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\nbackends: standin, cuda, opencl"
);
/// Version and backends of this build.
#[cfg(target_feature = "crt-static")]
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\nbackends: standin (linked statically: cannot load CUDA or OpenCL)"
);

/// Longest kernel or sleep, in us: a minute.
pub const LENGTH_US_MAX: u64 = 60_000_000;
/// Longest run, in seconds: a day.
pub const SECONDS_MAX: f64 = 86_400.0;
/// Run length if neither seconds nor a count is given.
pub const SECONDS_DEFAULT: f64 = 10.0;
/// Most processes.
pub const INSTANCES_MAX: u32 = 256;
/// Most channels of one process.
pub const CHANNELS_MAX: u32 = 128;
/// Most kernels of a frame.
pub const FRAME_MAX: u32 = 100_000;
/// Longest threshold of a gap, in us: a tenth of a second.
pub const GAP_US_MAX: u64 = 100_000;
/// Threshold of a gap if none is given, in us: many times what a read of the timer takes, and short
/// against the time that another client is on the engine.
pub const GAP_US_DEFAULT: u64 = 30;
/// Variable with the number of the GPU to use.
pub const GPU_VARIABLE: &str = "LOGA_GPU";
/// Highest number of a GPU.
const GPU_MAX: u64 = 254;
/// Most kernels under way at a time.
pub const DEPTH_MAX: u32 = 1024;

/// Which engine runs the kernels.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Graphics and compute.
    Compute,
    /// The first copy engine.
    Copy,
}

/// How the end of a kernel is waited for.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// Reads the semaphore in a loop, as CUDA does by default.
    Spin,
    /// Sleeps in poll() until the driver reports the interrupt.
    Block,
}

/// Which kind of driver is used.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// The driver stand-in over the GPU model.
    Standin,
    /// CUDA's driver library.
    Cuda,
    /// Any OpenCL library.
    Opencl,
}

/// Options that are about kernels of a chosen length.
const KERNELS_ONLY: [&str; 10] = [
    "kernel_us",
    "sleep_us",
    "cycle_us",
    "kernels_per_frame",
    "deadline_us",
    "jitter",
    "seed",
    "count",
    "depth",
    "log",
];

/// Keeps a GPU busy with kernels of a chosen length and prints what it got.
///
/// Ends after --seconds or --count, or on SIGINT or SIGTERM, and prints in all cases. Exit codes:
/// 0 done, 2 bad argument, 3 device node missing, 4 refused by the driver, 5 failed system call or
/// file, 6 a command did not complete, 7 no GPU library, 8 the library has no such GPU.
///
/// With CUDA and OpenCL every kernel is timed by the device's own events, and the report says how
/// far the kernels were from the length asked for.
#[derive(Clone, Debug, Deserialize, Parser, PartialEq, Serialize)]
#[command(version, long_version = VERSION)]
pub struct Plan {
    /// Length of a kernel on the GPU, in microseconds.
    #[arg(long, default_value_t = 1000, value_name = "US")]
    pub kernel_us: u64,
    /// Pause after every kernel, or frame, in microseconds.
    #[arg(long, default_value_t = 0, value_name = "US")]
    pub sleep_us: u64,
    /// Start a kernel, or frame, every US microseconds instead; at once if the last one ended later.
    #[arg(long, value_name = "US", conflicts_with = "sleep_us")]
    pub cycle_us: Option<u64>,
    /// Submit this many kernels at a time, wait for all of them, and report on these frames.
    #[arg(long, value_name = "N")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernels_per_frame: Option<u32>,
    /// Count the frames that take longer than this, in microseconds.
    #[arg(long, value_name = "US", requires = "kernels_per_frame")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_us: Option<u64>,
    /// Vary kernels and pauses by up to this many percent, the same for the same seed.
    #[arg(long, default_value_t = 0, value_name = "PERCENT")]
    pub jitter: u32,
    /// Stop after this many seconds [default without --count: 10].
    #[arg(long, value_name = "S")]
    pub seconds: Option<f64>,
    /// Stop after this many kernels (of each instance).
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Processes to start, each with its own client.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub instances: u32,
    /// Channels to allocate; the first runs the kernels. CUDA and OpenCL decide themselves.
    #[arg(long, default_value_t = 12, value_name = "N")]
    pub channels: u32,
    /// Seed of the variation.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Engine that runs the kernels; the copy engine with the stand-in only.
    #[arg(long, value_enum, default_value_t = Engine::Compute)]
    pub engine: Engine,
    /// Kernels under way at a time; 1 waits for each.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub depth: u32,
    /// How to wait for the end of a kernel.
    #[arg(long, value_enum, default_value_t = Wait::Spin)]
    pub wait: Wait,
    /// GPU to use: N of /dev/nvidiaN; of CUDA by bus address; of OpenCL GPUs first [default: with
    /// the stand-in LOGA_GPU of the environment, as `loga run --gpu` sets it; else 0].
    #[arg(long, value_name = "N")]
    pub gpu: Option<u32>,
    /// Driver to use.
    #[arg(long, value_enum, default_value_t = BackendKind::Standin)]
    pub backend: BackendKind,
    /// Measure when the process is on the engine, by a kernel that notes when it does not run, instead
    /// of running kernels of a chosen length; with CUDA only.
    #[arg(long, conflicts_with_all = KERNELS_ONLY)]
    #[serde(default)]
    pub residency: bool,
    /// Note what keeps the kernel from running for longer than this, in microseconds [default: 30].
    #[arg(long, value_name = "US", requires = "residency")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_us: Option<u64>,
    /// Write a line of JSON for each kernel to this file, with --instances to FILE.N; with CUDA and
    /// OpenCL only.
    #[arg(long, value_name = "FILE")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
    /// Say `started` on standard error when the kernels start: after all calibration.
    #[arg(long)]
    #[serde(default)]
    pub announce: bool,
    /// Set in the processes that --instances starts: its number.
    #[arg(long, hide = true)]
    pub instance: Option<u32>,
}

impl Plan {
    /// Checks every value.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`], naming the argument and its range.
    pub fn check(&self) -> Result<(), Error> {
        range("--kernel-us", self.kernel_us, 1, LENGTH_US_MAX)?;
        range("--sleep-us", self.sleep_us, 0, LENGTH_US_MAX)?;
        if let Some(cycle_us) = self.cycle_us {
            range("--cycle-us", cycle_us, 1, LENGTH_US_MAX)?;
            if cycle_us < self.kernel_us {
                return Err(Error::Argument(format!(
                    "--cycle-us {cycle_us}: shorter than --kernel-us {}",
                    self.kernel_us
                )));
            }
        }
        if let Some(kernels) = self.kernels_per_frame {
            range("--kernels-per-frame", kernels.into(), 1, FRAME_MAX.into())?;
        }
        if let Some(deadline_us) = self.deadline_us {
            range("--deadline-us", deadline_us, 1, LENGTH_US_MAX)?;
        }
        range("--jitter", self.jitter.into(), 0, 100)?;
        if let Some(seconds) = self.seconds {
            if !(seconds > 0.0 && seconds <= SECONDS_MAX) {
                return Err(Error::Argument(format!(
                    "--seconds {seconds}: must be above 0 and at most {SECONDS_MAX}"
                )));
            }
        }
        if let Some(count) = self.count {
            range("--count", count, 1, u64::from(u32::MAX))?;
        }
        range(
            "--instances",
            self.instances.into(),
            1,
            INSTANCES_MAX.into(),
        )?;
        range("--channels", self.channels.into(), 1, CHANNELS_MAX.into())?;
        range("--depth", self.depth.into(), 1, DEPTH_MAX.into())?;
        if self.engine == Engine::Copy && self.backend != BackendKind::Standin {
            return Err(Error::Argument(
                "--engine copy: only the stand-in times its copies".to_owned(),
            ));
        }
        if self.residency && self.backend != BackendKind::Cuda {
            return Err(Error::Argument(
                "--residency: needs --backend cuda, whose kernels can read a timer".to_owned(),
            ));
        }
        range("--gap-us", self.gap_us(), 1, GAP_US_MAX)?;
        if self.log.is_some() && self.backend == BackendKind::Standin {
            return Err(Error::Argument(
                "--log: needs --backend cuda or opencl, whose devices say when a kernel ran"
                    .to_owned(),
            ));
        }
        range("--gpu", self.gpu().into(), 0, GPU_MAX)
    }

    /// Threshold of a gap, in us.
    pub fn gap_us(&self) -> u64 {
        self.gap_us.unwrap_or(GAP_US_DEFAULT)
    }

    /// GPU to use.
    pub fn gpu(&self) -> u32 {
        self.gpu.unwrap_or(0)
    }

    /// Completes what depends on other values, for the report. Takes the GPU that no argument names
    /// from [`GPU_VARIABLE`], whose value is `given`. CUDA and OpenCL follow `CUDA_VISIBLE_DEVICES`
    /// themselves: their first device is the right one.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the value is no number of a GPU.
    pub fn settle(&mut self, given: Option<&OsStr>) -> Result<(), Error> {
        let given = given.filter(|_| self.gpu.is_none() && self.backend == BackendKind::Standin);
        if let Some(given) = given {
            let number = given.to_str().and_then(|text| text.parse::<u32>().ok());
            let number = number.filter(|number| u64::from(*number) <= GPU_MAX);
            self.gpu = Some(number.ok_or_else(|| {
                let given = given.to_string_lossy();
                Error::Argument(format!("{GPU_VARIABLE}={given}: must be 0 to {GPU_MAX}"))
            })?);
        }
        self.gpu = Some(self.gpu());
        self.gap_us = self.residency.then(|| self.gap_us());
        Ok(())
    }

    /// How long the run may take, in ns; without `--seconds` and with `--count`: no limit.
    pub fn limit_ns(&self) -> Option<u64> {
        let seconds = match (self.seconds, self.count) {
            (None, Some(_)) => return None,
            (seconds, _) => seconds.unwrap_or(SECONDS_DEFAULT),
        };
        // CAST: check() bounds it by SECONDS_MAX.
        Some((seconds * 1e9) as u64)
    }
}

/// Refuses a value outside `least..=most`.
fn range(name: &str, value: u64, least: u64, most: u64) -> Result<(), Error> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(Error::Argument(format!(
            "{name} {value}: must be {least} to {most}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arguments: &str) -> Plan {
        let words = std::iter::once("throttle").chain(arguments.split_whitespace());
        Plan::try_parse_from(words).expect("parsable arguments")
    }

    fn refusal(arguments: &str) -> String {
        plan(arguments).check().expect_err(arguments).to_string()
    }

    #[test]
    fn defaults_are_valid_and_last_ten_seconds() {
        let plan = plan("");
        plan.check().expect("defaults");
        assert_eq!(plan.limit_ns(), Some(10_000_000_000));
        assert_eq!(plan.channels, 12);
    }

    #[test]
    fn count_without_seconds_has_no_time_limit() {
        assert_eq!(plan("--count 5").limit_ns(), None);
        assert_eq!(
            plan("--count 5 --seconds 0.5").limit_ns(),
            Some(500_000_000)
        );
    }

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        assert_eq!(
            refusal("--kernel-us 0"),
            "--kernel-us 0: must be 1 to 60000000"
        );
        assert!(refusal("--kernel-us 60000001").starts_with("--kernel-us"));
        assert!(refusal("--sleep-us 60000001").starts_with("--sleep-us"));
        assert!(refusal("--instances 0").starts_with("--instances"));
        assert!(refusal("--channels 0").starts_with("--channels"));
        assert!(refusal("--channels 129").starts_with("--channels"));
        assert!(refusal("--depth 0").starts_with("--depth"));
        assert!(refusal("--count 0").starts_with("--count"));
        assert!(refusal("--kernels-per-frame 0").starts_with("--kernels-per-frame"));
        assert!(refusal("--kernels-per-frame 2 --deadline-us 0").starts_with("--deadline-us"));
        assert!(refusal("--jitter 101").starts_with("--jitter"));
        assert!(refusal("--gpu 255").starts_with("--gpu"));
        assert!(refusal("--seconds 0").starts_with("--seconds"));
        assert!(refusal("--seconds NaN").starts_with("--seconds"));
        assert!(refusal("--seconds inf").starts_with("--seconds"));
    }

    #[test]
    fn gpu_that_no_argument_names_is_that_of_the_environment() {
        let settled = |arguments: &str, given: Option<&str>| {
            let mut plan = plan(arguments);
            let given = given.map(OsStr::new);
            plan.settle(given)
                .map(|()| plan.gpu())
                .map_err(|error| error.to_string())
        };
        assert_eq!(settled("", None), Ok(0));
        assert_eq!(settled("", Some("3")), Ok(3));
        assert_eq!(settled("--gpu 1", Some("3")), Ok(1));
        assert_eq!(settled("--gpu 0", Some("3")), Ok(0));
        // It is the only one, or the first one, that their library shows.
        assert_eq!(settled("--backend cuda", Some("3")), Ok(0));
        assert_eq!(settled("--backend opencl", Some("3")), Ok(0));
        for wrong in ["", "x", "-1", "255"] {
            let said = settled("", Some(wrong)).expect_err(wrong);
            assert_eq!(said, format!("LOGA_GPU={wrong}: must be 0 to 254"));
        }
    }

    #[test]
    fn residency_is_of_cuda_and_takes_no_kernels() {
        assert!(refusal("--residency").starts_with("--residency: needs --backend cuda"));
        assert!(refusal("--residency --backend opencl").starts_with("--residency: needs"));
        let cuda = "--residency --backend cuda --seconds 2 --wait block";
        plan(cuda).check().expect("valid");
        assert_eq!(plan(cuda).gap_us(), GAP_US_DEFAULT);
        let given = |us| refusal(&format!("{cuda} --gap-us {us}"));
        assert_eq!(given(0), "--gap-us 0: must be 1 to 100000");
        assert_eq!(given(100_001), "--gap-us 100001: must be 1 to 100000");
        for wrong in [
            "--gap-us 5",
            "--residency --count 5",
            "--residency --depth 2",
        ] {
            let words = format!("throttle --backend cuda {wrong}");
            let parsed = Plan::try_parse_from(words.split_whitespace());
            assert!(parsed.is_err(), "{wrong}");
        }
        for option in KERNELS_ONLY {
            let option = option.replace('_', "-");
            let frames = match option.as_str() {
                "deadline-us" => "--kernels-per-frame 1",
                _ => "",
            };
            let words = format!("throttle {cuda} {frames} --{option} 5");
            let parsed = Plan::try_parse_from(words.split_whitespace());
            let kind = parsed.expect_err(&option).kind();
            assert_eq!(kind, clap::error::ErrorKind::ArgumentConflict, "{option}");
        }
    }

    #[test]
    fn log_of_the_standin_is_refused() {
        assert!(refusal("--log x").starts_with("--log: needs --backend cuda or opencl"));
        for backend in ["cuda", "opencl"] {
            let words = format!("--log x --backend {backend} --depth 4 --instances 2");
            plan(&words).check().expect("valid");
        }
    }

    #[test]
    fn copies_of_a_library_are_refused() {
        assert!(refusal("--engine copy --backend cuda").starts_with("--engine copy"));
        plan("--engine copy").check().expect("the stand-in's");
    }

    #[test]
    fn cycle_shorter_than_kernel_is_refused() {
        assert_eq!(
            refusal("--kernel-us 200 --cycle-us 100"),
            "--cycle-us 100: shorter than --kernel-us 200"
        );
    }

    #[test]
    fn deadline_without_frames_is_refused() {
        let words = ["throttle", "--deadline-us", "5"];
        assert!(Plan::try_parse_from(words).is_err());
    }

    #[test]
    fn cycle_and_sleep_together_are_refused() {
        let words = ["throttle", "--cycle-us", "5", "--sleep-us", "5"];
        assert!(Plan::try_parse_from(words).is_err());
    }
}
