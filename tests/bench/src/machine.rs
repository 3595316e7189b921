// SPDX-License-Identifier: GPL-2.0

//! The virtual machine as the scenarios see it: modules, LoGA's snapshots, the model's log.

use crate::figure::Figures;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{sleep, spawn, JoinHandle};
use std::time::{Duration, Instant};

/// Modules inside the machine.
const MODULES: &str = "/lib/loga";
/// Where the model says what it did.
const SUMMARY: &str = "/sys/kernel/debug/loga_model/gpu0/summary";
/// Where LoGA says what its gates cost.
const COSTS: &str = "/sys/kernel/debug/loga/costs";

/// Loads the model, and LoGA with these parameters.
pub(crate) fn load(parameters: &str) -> Result<(), String> {
    load_model_only()?;
    // CPU 0 serves the timers of the model: a poller there would see switches late.
    insert("loga", &format!("poller_cpu=1 {parameters}"))
}

/// Loads the model alone.
pub(crate) fn load_model_only() -> Result<(), String> {
    unload();
    insert("loga_model", "")
}

/// Removes whatever is loaded.
pub(crate) fn unload() {
    for module in ["loga", "loga_model"] {
        if fs::exists(format!("/sys/module/{module}")).unwrap_or(false) {
            let _ = Command::new("rmmod").arg(module).status();
        }
    }
}

fn insert(module: &str, parameters: &str) -> Result<(), String> {
    let status = Command::new("insmod")
        .arg(format!("{MODULES}/{module}.ko"))
        .args(parameters.split_whitespace())
        .status()
        .map_err(|error| format!("insmod: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("insmod {module} {parameters}: {status}"))
    }
}

/// A process in the model's log: time and commands on the compute engine.
#[derive(Clone, Copy, Default)]
struct Truth {
    busy_ns: f64,
    commands: f64,
}

/// What LoGA and the model say at one point in time.
pub(crate) struct Moment {
    gpu: Value,
    clients: BTreeMap<u64, Value>,
    truth: BTreeMap<u64, Truth>,
    /// When the model was asked.
    pub(crate) truth_ns: f64,
}

impl Moment {
    /// Asks both.
    pub(crate) fn now() -> Result<Self, String> {
        let output = Command::new("loga")
            .args(["stat", "--json"])
            .output()
            .map_err(|error| format!("loga stat: {error}"))?;
        let summary = fs::read_to_string(SUMMARY).map_err(|error| format!("{SUMMARY}: {error}"))?;
        let (truth_ns, truth) = parse_summary(&summary)?;
        let stat: Value = if output.status.success() {
            serde_json::from_slice(&output.stdout)
                .map_err(|error| format!("loga stat --json: {error}"))?
        } else {
            // Without LoGA there is only the truth.
            Value::Null
        };
        let clients = stat["clients"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|client| Some((client["pid"].as_u64()?, client.clone())))
            .collect();
        Ok(Self {
            gpu: stat,
            clients,
            truth,
            truth_ns,
        })
    }

    fn client(&self, pid: u64, field: &str) -> f64 {
        self.clients
            .get(&pid)
            .and_then(|client| client[field].as_f64())
            .unwrap_or(f64::NAN)
    }

    fn field(&self, field: &str) -> f64 {
        self.gpu[field].as_f64().unwrap_or(f64::NAN)
    }

    pub(crate) fn measured_ns(&self, pid: u64) -> f64 {
        self.client(pid, "measured_ns")
    }

    pub(crate) fn gpu_time_ns(&self, pid: u64) -> f64 {
        self.client(pid, "gpu_time_ns")
    }

    pub(crate) fn runs(&self, pid: u64) -> f64 {
        self.client(pid, "runs")
    }

    pub(crate) fn polls(&self) -> f64 {
        self.field("polls")
    }

    pub(crate) fn reads(&self) -> f64 {
        self.field("register_reads")
    }

    pub(crate) fn polled_ns(&self) -> f64 {
        self.field("polled_ns")
    }

    /// Time that LoGA's estimates cover: all phases that have ended.
    pub(crate) fn decided_ns(&self) -> f64 {
        self.field("span_ns")
    }

    pub(crate) fn busy_ns(&self, pid: u64) -> f64 {
        self.truth.get(&pid).map_or(f64::NAN, |truth| truth.busy_ns)
    }

    pub(crate) fn commands(&self, pid: u64) -> f64 {
        self.truth
            .get(&pid)
            .map_or(f64::NAN, |truth| truth.commands)
    }
}

/// Understands the model's summary. Returns its time and the compute engine's processes.
fn parse_summary(text: &str) -> Result<(f64, BTreeMap<u64, Truth>), String> {
    let mut now = None;
    let mut truth = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers: Vec<f64> = words
            .iter()
            .skip(1)
            .filter_map(|word| word.parse().ok())
            .collect();
        match (words.first(), numbers.as_slice()) {
            (Some(&"window"), [_, end, ..]) => now = Some(*end),
            // Process, engine, channels, busy, switching, commands; engine 0 computes.
            (Some(&"client"), [pid, engine, _, busy_ns, _, commands]) if *engine == 0.0 => {
                let used = Truth {
                    busy_ns: *busy_ns,
                    commands: *commands,
                };
                truth.insert(*pid as u64, used);
            }
            _ => {}
        }
    }
    let now = now.ok_or_else(|| format!("{SUMMARY}: no line 'window'"))?;
    Ok((now, truth))
}

/// Revoke and restore latencies, and memory, as LoGA's debugfs file gives them.
pub(crate) fn costs(figures: &mut Figures) -> Result<(), String> {
    let text = fs::read_to_string(COSTS).map_err(|error| format!("{COSTS}: {error}"))?;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let mut samples: Vec<f64> = words
            .by_ref()
            .filter_map(|word| word.parse().ok())
            .collect();
        match (name, samples.as_slice()) {
            ("client_bytes" | "channel_bytes", [bytes]) => {
                figures.tell("costs", name, *bytes, "bytes");
            }
            _ => gate_latency(figures, line, &mut samples)?,
        }
    }
    Ok(())
}

/// A line `gpu0 revoke_ns 1 2 3`.
fn gate_latency(figures: &mut Figures, line: &str, samples: &mut [f64]) -> Result<(), String> {
    let name = line.split_whitespace().nth(1).unwrap_or_default();
    samples.sort_by(f64::total_cmp);
    let last = samples
        .len()
        .checked_sub(1)
        .ok_or_else(|| format!("{name}: nobody was held back"))?;
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    figures.tell("costs", &format!("{name}, 12 channels, mean"), mean, "ns");
    // Nearest rank.
    let p99 = samples[(samples.len() * 99).div_ceil(100).clamp(1, last + 1) - 1];
    figures.tell("costs", &format!("{name}, 12 channels, p99"), p99, "ns");
    figures.tell(
        "costs",
        &format!("{name}, samples"),
        samples.len() as f64,
        "",
    );
    Ok(())
}

/// A thread as busy as the poller of one client with 12 channels: 12 ms of every 72.
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
            while !seen.load(Ordering::Relaxed) {
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_millis(12) {
                    for _ in 0..64 {
                        std::hint::black_box(());
                    }
                    std::hint::spin_loop();
                }
                sleep(Duration::from_millis(60));
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
            let _ = thread.join();
        }
    }
}
