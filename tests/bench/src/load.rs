// SPDX-License-Identifier: GPL-2.0

//! Loads: `throttle` processes that run for a while, and a thread as busy as the poller.

use nix::sched::sched_setaffinity;
use nix::sched::CpuSet;
use nix::sys::signal::kill;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::thread::sleep;
use std::thread::spawn;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;
use throttle::report::Instance;
use throttle::report::Report;

/// Has all processes that are started from now on keep off the poller's processor, as on a machine
/// with one set aside for it.
pub(crate) fn apart() -> Result<(), String> {
    let failed = |error: nix::Error| format!("sched_setaffinity: {error}");
    // The virtual machine has two.
    let count = available_parallelism().map_or(2, |count| count.get().max(2));
    let mut cpus = CpuSet::new();
    for cpu in (0..count).filter(|cpu| *cpu != POLLER_CPU) {
        cpus.set(cpu).map_err(failed)?;
    }
    sched_setaffinity(Pid::from_raw(0), &cpus).map_err(failed)
}

/// What one throttle process does.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// Length of its kernels.
    pub(crate) kernel_us: u64,
    /// Pause after each.
    pub(crate) sleep_us: u64,
    /// Length of a cycle with one kernel in it, instead of a pause.
    pub(crate) cycle_us: Option<u64>,
    /// Whether it spins for completions instead of sleeping.
    pub(crate) spin: bool,
    /// By how many percent both vary.
    pub(crate) jitter: u32,
    /// Kernels that are queued at a time.
    pub(crate) depth: u32,
    /// What `loga run` sets for it, as on its command line.
    pub(crate) share: Option<&'static str>,
    /// Kernels after which it ends, whatever time it takes.
    pub(crate) count: Option<u64>,
    /// Which GPU it uses.
    pub(crate) gpu: u32,
}

impl Load {
    /// Kernels of `kernel_us` with pauses of `sleep_us`.
    pub(crate) const fn new(kernel_us: u64, sleep_us: u64) -> Self {
        Self {
            kernel_us,
            sleep_us,
            cycle_us: None,
            spin: false,
            count: None,
            jitter: 0,
            depth: 1,
            share: None,
            gpu: 0,
        }
    }

    /// The same with so many kernels queued at a time.
    pub(crate) const fn deep(self, depth: u32) -> Self {
        Self { depth, ..self }
    }

    /// The same, varying by so many percent.
    pub(crate) const fn varying(self, jitter: u32) -> Self {
        Self { jitter, ..self }
    }

    /// The same with something set for it.
    pub(crate) const fn with(self, share: &'static str) -> Self {
        Self {
            share: Some(share),
            ..self
        }
    }

    /// The same until it has run so many kernels.
    pub(crate) const fn counted(self, kernels: u64) -> Self {
        Self {
            count: Some(kernels),
            ..self
        }
    }

    /// The same on another GPU.
    pub(crate) const fn on(self, gpu: u32) -> Self {
        Self { gpu, ..self }
    }

    /// Starts a process that does this for `seconds`, or until it has run so many kernels.
    pub(crate) fn start(&self, seconds: f64, seed: u64) -> Result<Running, String> {
        let mut command = match self.share {
            Some(share) => {
                let mut command = Command::new("loga");
                command.arg("run").args(share.split(' '));
                command.args(["--", "throttle"]);
                command
            }
            None => Command::new("throttle"),
        };
        command
            .arg("--json")
            .args(["--kernel-us", &self.kernel_us.to_string()])
            .args(["--jitter", &self.jitter.to_string()])
            .args(["--depth", &self.depth.to_string()])
            .args(["--gpu", &self.gpu.to_string()])
            .args(["--seed", &seed.to_string()])
            .args(["--wait", if self.spin { "spin" } else { "block" }])
            .stdout(Stdio::piped());
        match self.count {
            Some(count) => command.args(["--count", &count.to_string()]),
            None => command.args(["--seconds", &seconds.to_string()]),
        };
        match self.cycle_us {
            Some(cycle_us) => command.args(["--cycle-us", &cycle_us.to_string()]),
            None => command.args(["--sleep-us", &self.sleep_us.to_string()]),
        };
        let child = command
            .spawn()
            .map_err(|error| format!("throttle: {error}"))?;
        Ok(Running { child })
    }
}

/// A throttle process.
pub(crate) struct Running {
    child: Child,
}

impl Running {
    /// Asks these to end now. All are asked before one is waited for: who is held back ends when
    /// it is released, and that may take until the others have ended.
    pub(crate) fn stop_all(all: Vec<Self>) -> Result<Vec<Instance>, String> {
        let asked: Vec<_> = all.iter().map(Self::ask).collect();
        let ended: Vec<_> = all.into_iter().map(Self::finish).collect();
        asked.into_iter().collect::<Result<(), _>>()?;
        ended.into_iter().collect()
    }

    /// Asks it to end.
    fn ask(&self) -> Result<(), String> {
        // CAST: process ids are below 2^22.
        let pid = Pid::from_raw(self.child.id() as i32);
        kill(pid, Signal::SIGTERM).map_err(|error| format!("throttle {pid}: {error}"))
    }

    /// Waits for its end and returns its report.
    pub(crate) fn finish(self) -> Result<Instance, String> {
        let output = self
            .child
            .wait_with_output()
            .map_err(|error| format!("throttle: {error}"))?;
        if !output.status.success() {
            return Err(format!("throttle: {}", output.status));
        }
        let report: Report = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("throttle --json: {error}"))?;
        let mut instances = report.instances.into_iter();
        instances
            .next()
            .ok_or_else(|| "throttle reported nothing".to_owned())
    }
}

/// The processor of the poller.
pub(crate) const POLLER_CPU: usize = 1;
/// How long the poller of one client with 12 channels polls, and how long it does not.
const POLL: Duration = Duration::from_millis(12);
const PAUSE: Duration = Duration::from_millis(60);

/// Rounds of a loop between two pauses: about as long as the poller goes without one.
const BETWEEN_PAUSES: u32 = 4_000;

/// A thread that does nothing but count, on the processor that the model's timers do not run on.
pub(crate) struct Count {
    stop: Arc<AtomicBool>,
    counted: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Count {
    /// Starts it.
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let counted = Arc::new(AtomicU64::new(0));
        let (seen, count) = (stop.clone(), counted.clone());
        let thread = spawn(move || {
            let mut cpus = CpuSet::new();
            // Where there is no such processor, it runs wherever it may.
            if cpus.set(POLLER_CPU).is_ok() {
                let _ = sched_setaffinity(Pid::from_raw(0), &cpus);
            }
            while !seen.load(Ordering::Relaxed) {
                for _ in 0..100 {
                    std::hint::black_box(());
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self {
            stop,
            counted,
            thread: Some(thread),
        }
    }

    /// What it has counted.
    pub(crate) fn now(&self) -> u64 {
        self.counted.load(Ordering::Relaxed)
    }

    /// What it counts per second, over a time.
    pub(crate) fn during(&self, time: Duration) -> f64 {
        let (since, before) = (Instant::now(), self.now());
        sleep(time);
        let counted = self.now() - before;
        // CAST: a few million.
        counted as f64 / since.elapsed().as_secs_f64()
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has ended too.
            let _ = thread.join();
        }
    }
}

/// A thread as busy as the poller of one client, on its processor. In instruction-count mode all
/// processors share one clock, so that whatever runs on one slows the others down.
pub(crate) struct Control {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Starts it.
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = spawn(move || {
            let mut cpus = CpuSet::new();
            // Where there is no such processor, it runs wherever it may.
            if cpus.set(POLLER_CPU).is_ok() {
                let _ = sched_setaffinity(Pid::from_raw(0), &cpus);
            }
            while !seen.load(Ordering::Relaxed) {
                let begin = Instant::now();
                while begin.elapsed() < POLL {
                    for _ in 0..BETWEEN_PAUSES {
                        std::hint::black_box(());
                    }
                    std::hint::spin_loop();
                }
                sleep(PAUSE);
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has ended too.
            let _ = thread.join();
        }
    }
}
