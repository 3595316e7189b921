// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What NVIDIA's management library (NVML) says of a card: no serial numbers, no names.
//!
//! | file | contents |
//! |---|---|
//! | [`library`] | the library and its calls |

pub(crate) mod library;

use super::refusal::Refusal;
use library::Device;
use serde::{Deserialize, Serialize};

/// The library's usual name.
pub(crate) const LIBRARY: &str = "libnvidia-ml.so.1";
/// Most processes or samples that are taken at once; the library keeps fewer.
const MOST: usize = 4096;

/// State of confidential computing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confidential {
    /// 0 not available, 1 simulated, 2 in production.
    pub(crate) environment: u32,
    /// 0 off, 1 on.
    pub(crate) feature: u32,
    /// 0 off, 1 on: the card may be debugged.
    pub(crate) devtools: u32,
}

/// State of MIG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mig {
    /// Whether it is on.
    pub(crate) is_on: bool,
    /// Whether it will be on after the next reset.
    pub(crate) is_pending: bool,
}

/// How the card is set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    /// Version of the driver.
    pub(crate) driver_version: Result<String, Refusal>,
    /// Confidential computing.
    pub(crate) confidential: Result<Confidential, Refusal>,
    /// MIG.
    pub(crate) mig: Result<Mig, Refusal>,
    /// Whether the driver keeps the card running without clients.
    pub(crate) is_persistent: Result<bool, Refusal>,
    /// 0 none, 1 passed through, 2 a guest's part, 3 and 4 a host of guests.
    pub(crate) virtualization: Result<u32, Refusal>,
    /// Whether accounting is on.
    pub(crate) is_accounting: Result<bool, Refusal>,
    /// Number of processes with a compute context.
    pub(crate) compute_processes: Result<u32, Refusal>,
}

/// One sample of what a process used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Utilisation {
    /// The process.
    pub(crate) pid: u32,
    /// When, in the library's microseconds since 1970.
    pub(crate) at_us: u64,
    /// Percent of the time in which a kernel ran.
    pub(crate) sm_percent: u32,
    /// Percent of the time in which memory was read or written.
    pub(crate) memory_percent: u32,
}

/// What was accounted to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Accounted {
    /// The process.
    pub(crate) pid: u32,
    /// Percent of its time in which a kernel of it ran.
    pub(crate) gpu_percent: u32,
    /// How long its context was there; 0 while it is.
    pub(crate) context_ms: u64,
    /// Whether it runs.
    pub(crate) is_running: bool,
}

impl Device<'_> {
    /// How the card is set up. Every part that is not told has its refusal.
    pub(crate) fn about(&self) -> About {
        let state = self.library().confidential_state();
        let state = state.map(|state| Confidential {
            environment: state.environment,
            feature: state.feature,
            devtools: state.devtools,
        });
        let mig = self.mig_mode();
        let is_on = |mode: Result<u32, Refusal>| mode.map(|mode| mode != 0);
        About {
            driver_version: self.library().driver_version(),
            confidential: state,
            mig: mig.map(|(now, pending)| Mig {
                is_on: now != 0,
                is_pending: pending != 0,
            }),
            is_persistent: is_on(self.persistence_mode()),
            virtualization: self.virtualization_mode(),
            is_accounting: is_on(self.accounting_mode()),
            compute_processes: self.running_processes(),
        }
    }

    /// Samples of what each process used since a time of the library's; 0 for all it has. They
    /// reach back some seconds, and are 100 % while one kernel is resident.
    ///
    /// # Errors
    ///
    /// The library or the driver refused.
    pub(crate) fn utilisation(&self, since_us: u64) -> Result<Vec<Utilisation>, Refusal> {
        let samples = self.utilization(MOST, since_us)?;
        // Elements that the driver did not fill have no time.
        let filled = samples.iter().filter(|sample| sample.time_us != 0);
        let one = filled.map(|sample| Utilisation {
            pid: sample.pid,
            at_us: sample.time_us,
            sm_percent: sample.sm,
            memory_percent: sample.memory,
        });
        Ok(one.collect())
    }

    /// What was accounted to each process that the library knows.
    ///
    /// # Errors
    ///
    /// The library or the driver refused; a process that has ended meanwhile is left out.
    pub(crate) fn accounted(&self) -> Result<Vec<Accounted>, Refusal> {
        let one = |pid| {
            let stats = self.accounting_of(pid).ok()?;
            Some(Accounted {
                pid,
                gpu_percent: stats.gpu,
                context_ms: stats.time_ms,
                is_running: stats.is_running != 0,
            })
        };
        let pids = self.accounted_pids(MOST)?;
        Ok(pids.into_iter().filter_map(one).collect())
    }

    /// Turns accounting on if it is off.
    ///
    /// # Errors
    ///
    /// Only root may, and not on every card.
    pub(crate) fn account(&self) -> Result<Accounting<'_>, Refusal> {
        let was_off = self.accounting_mode()? == 0;
        if was_off {
            self.set_accounting_mode(true)?;
        }
        Ok(Accounting {
            device: self,
            was_off,
        })
    }
}

/// Accounting that is on; off again when dropped, if it was off before.
#[derive(Debug)]
pub(crate) struct Accounting<'a> {
    device: &'a Device<'a>,
    was_off: bool,
}

impl Accounting<'_> {
    /// What was accounted.
    ///
    /// # Errors
    ///
    /// As [`Device::accounted`].
    pub(crate) fn accounted(&self) -> Result<Vec<Accounted>, Refusal> {
        self.device.accounted()
    }

    /// Puts it back as it was.
    ///
    /// # Errors
    ///
    /// The driver refused; then it stays on.
    pub(crate) fn end(mut self) -> Result<(), Refusal> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<(), Refusal> {
        if std::mem::take(&mut self.was_off) {
            self.device.set_accounting_mode(false)?;
        }
        Ok(())
    }
}

impl Drop for Accounting<'_> {
    fn drop(&mut self) {
        // Who wants to know whether it went well calls `end`.
        let _ = self.put_back();
    }
}

#[cfg(test)]
mod tests;
