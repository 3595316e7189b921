// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Processors: threads that keep to one, and a thread that keeps one busy.

use nix::errno::Errno;
use nix::sched::{sched_setaffinity, CpuSet};
use nix::unistd::Pid;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Lets a thread run on one processor only; 0 is the calling thread.
///
/// # Errors
///
/// There is no such processor, or the thread cannot be moved.
pub fn pin(pid: i32, processor: usize) -> Result<(), Errno> {
    let mut cpus = CpuSet::new();
    cpus.set(processor)?;
    sched_setaffinity(Pid::from_raw(pid), &cpus)
}

/// A thread that computes on a processor, and where there is no such processor, wherever it may;
/// ends when dropped.
#[derive(Debug)]
pub struct Busy {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    /// Starts it; it repeats `round`.
    pub fn on(processor: usize, round: impl Fn() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let rounds = Arc::new(AtomicU64::new(0));
        let (told, counted) = (stop.clone(), rounds.clone());
        let thread = std::thread::spawn(move || {
            let _ = pin(0, processor);
            while !told.load(Ordering::Relaxed) {
                round();
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self {
            stop,
            rounds,
            thread: Some(thread),
        }
    }

    /// Its rounds so far.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has ended too.
            let _ = thread.join();
        }
    }
}
