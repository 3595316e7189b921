// SPDX-License-Identifier: GPL-2.0

//! [tool] Threads that run next to LoGA's: one that counts, and one as busy as the poller.

use nix::sched::sched_setaffinity;
use nix::sched::CpuSet;
use nix::unistd::Pid;
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

/// Keeps all processes that are started from now on off the poller's processor, as on a machine
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

/// The processor of the poller.
const POLLER_CPU: usize = 1;
/// How long the poller of one client with 12 channels polls, and how long it does not.
const POLL: Duration = Duration::from_millis(12);
const PAUSE: Duration = Duration::from_millis(60);

/// Rounds of a loop between two pauses: about as long as the poller goes without one.
const BETWEEN_PAUSES: u32 = 4_000;

/// A thread that only counts, on the processor without the model's timers.
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

    /// Its count.
    pub(crate) fn now(&self) -> u64 {
        self.counted.load(Ordering::Relaxed)
    }

    /// Its counts per second, over a time.
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
/// processors share one clock, so that work on one slows the others down.
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
