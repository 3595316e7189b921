// SPDX-License-Identifier: GPL-2.0

//! Cost of a decision with many clients, of which few or all are active.

use crate::figure::Findings;
use crate::stage::Stage;
use crate::{costs, modules};
use loga_cli::device::Device;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Instructions that a decision may take with a thousand clients.
const MOST: f64 = 200_000.0;
/// The same for the booking around it.
const MOST_AROUND: f64 = 600_000.0;

/// The module that measures the pure parts, and its file.
const MEASURES: (&str, &str) = ("loga_decision", "/sys/kernel/debug/loga_decision/cost");

/// The pure parts in the kernel, on synthetic clients: cost of every policy.
///
/// One instruction takes one virtual nanosecond, so times are numbers of instructions.
pub(crate) fn decision(findings: &mut Findings) -> Result<(), String> {
    let (module, file) = MEASURES;
    modules::load(module, "").map_err(|errno| format!("insmod {module}: {errno}"))?;
    let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"));
    modules::remove_patiently(module)?;
    let text = text?;
    for line in text.lines() {
        let cost = Cost::parse(line).ok_or_else(|| format!("{file}: unreadable: {line}"))?;
        let name = format!(
            "{}, {} of {} clients active, {} channels, by {}",
            cost.policy, cost.active, cost.clients, cost.channels, cost.group_by
        );
        let engine = format!("{name}: policy and checks");
        findings.check(&engine, cost.engine, "instructions", 0.0..=MOST);
        let booking = format!("{name}: booking");
        findings.check(&booking, cost.booking, "instructions", 0.0..=MOST_AROUND);
        // Only policies that work in stages scan.
        if cost.scan > 0.0 {
            findings.record(&format!("{name}: scan"), cost.scan, "instructions");
        }
    }
    Ok(())
}

/// A line of the module's file.
#[derive(Debug, PartialEq)]
struct Cost<'a> {
    policy: &'a str,
    group_by: &'a str,
    clients: u32,
    active: u32,
    channels: u32,
    engine: f64,
    booking: f64,
    scan: f64,
}

impl<'a> Cost<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            [policy, group_by, clients, active, channels, "policy_ns", engine, "around_ns", booking, "scan_ns", scan] => {
                Some(Self {
                    policy,
                    group_by,
                    clients: clients.parse().ok()?,
                    active: active.parse().ok()?,
                    channels: channels.parse().ok()?,
                    engine: engine.parse().ok()?,
                    booking: booking.parse().ok()?,
                    scan: scan.parse().ok()?,
                })
            }
            _ => None,
        }
    }
}

/// Channels of each client: the slots of a page, which no two processes share. A GPU has 512
/// such pages, so that it cannot have a thousand clients.
const CHANNELS: u32 = 8;
/// The model rarely scans for work: a scan reads every channel.
const MODEL: &str = "doorbell_us=1000 snoop_us=1000";
const LOGA: &str = "policy=maxmin enforce=1 scale=active randomize=1";
/// Processes that one program starts.
const TOGETHER: u32 = 100;
/// TIMEOUT: until all clients exist, and then until decisions are back to normal.
const LONGEST: Duration = Duration::from_secs(120);
const SETTLED: Duration = Duration::from_secs(8);
/// Measured decisions.
const LAST: usize = 16;
/// What a decision may take that throttles or releases many clients, in ns: calls of uninvolved
/// processes wait for it.
const MOST_TOGETHER: f64 = 1e6;

/// Real processes: time of the main thread for a decision and for the beginning of a polling
/// phase. It includes the work of other processors meanwhile, as they share the clock.
pub(crate) fn clients(findings: &mut Findings) -> Result<(), String> {
    for (clients, active) in [(10, 10), (100, 10), (500, 10)] {
        let _stage = Stage::measured(MODEL, LOGA)?;
        let mut crowd = Crowd::default();
        // An inactive client uses the GPU once.
        crowd.start(clients - active, "--kernel-us 10 --sleep-us 60000000")?;
        crowd.start(active, "--kernel-us 50 --sleep-us 50000")?;
        wait_for(clients)?;
        sleep(SETTLED);
        let name = format!(
            "{active} of {clients} clients active, {} channels",
            clients * CHANNELS
        );
        for (label, what) in [("decision", "decide_ns"), ("begin of a phase", "start_ns")] {
            let [median, most] = costs::recent(what, LAST)?;
            let name = format!("{name}: {label}");
            let target = (what == "decide_ns").then_some(0.0..=MOST);
            findings.check(&format!("{name}, median"), median, "ns", target);
            findings.record(&format!("{name}, largest"), most, "ns");
        }
        drop(crowd);
        // Each of its processes then ends by itself.
        wait_for(0)?;
    }
    throttled_together(findings)
}

/// All clients of a user, throttled and released in one decision each time.
fn throttled_together(findings: &mut Findings) -> Result<(), String> {
    const CLIENTS: u32 = 250;
    /// Measured decisions: of several, only one throttles or releases.
    const DECISIONS: usize = 64;
    let _stage = Stage::measured(MODEL, LOGA)?;
    let limit = Command::new("loga")
        .args(["set", "--user", "0", "--limit", "20"])
        .output()
        .map_err(|error| format!("loga set: {error}"))?;
    if !limit.status.success() {
        let reason = String::from_utf8_lossy(&limit.stderr).into_owned();
        return Err(format!("loga set: {reason}"));
    }
    let mut crowd = Crowd::default();
    crowd.start(CLIENTS, "--kernel-us 200 --sleep-us 100000")?;
    wait_for(CLIENTS)?;
    sleep(SETTLED);
    let before = revokes()?;
    sleep(SETTLED);
    let each = (revokes()? - before) / f64::from(CLIENTS);
    let name = format!("{CLIENTS} clients of a user with a limit");
    if each < 2.0 {
        return Err(format!(
            "each of {CLIENTS} clients was throttled {each} times"
        ));
    }
    let [median, most] = costs::recent("decide_ns", DECISIONS)?;
    findings.record(&format!("{name}: decision, median"), median, "ns");
    let target = Some(0.0..=MOST_TOGETHER);
    findings.check(&format!("{name}: decision, largest"), most, "ns", target);
    drop(crowd);
    wait_for(0)
}

/// Programs, each with many clients; they end with it.
#[derive(Default)]
struct Crowd(Vec<Child>);

impl Crowd {
    fn start(&mut self, mut clients: u32, work: &str) -> Result<(), String> {
        while clients > 0 {
            let part = clients.min(TOGETHER);
            let child = Command::new("throttle")
                .args(["--instances", &part.to_string()])
                .args(["--channels", &CHANNELS.to_string()])
                .args(["--seconds", "600", "--wait", "block"])
                .args(work.split(' '))
                .stdout(Stdio::null())
                .spawn()
                .map_err(|error| format!("throttle: {error}"))?;
            self.0.push(child);
            clients -= part;
        }
        Ok(())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Its processes end with it. A program that has ended already is no error here.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How often a client of the first GPU was throttled.
fn revokes() -> Result<f64, String> {
    let device = Device::open().map_err(|error| error.to_string())?;
    let snapshot = device.snapshot(0).map_err(|error| error.to_string())?;
    // CAST: some thousands.
    Ok(snapshot.info.revokes as f64)
}

/// Waits until there are `clients` clients.
fn wait_for(clients: u32) -> Result<(), String> {
    let device = Device::open().map_err(|error| error.to_string())?;
    let since = Instant::now();
    let mut last = String::new();
    while since.elapsed() < LONGEST {
        match device.snapshot(0) {
            // CAST: a thousand.
            Ok(snapshot) if snapshot.clients.len() == clients as usize => return Ok(()),
            Ok(snapshot) => last = format!("{} clients", snapshot.clients.len()),
            // While clients start, the tables may grow each time that they are read.
            Err(error) => last = error.to_string(),
        }
        sleep(Duration::from_millis(200));
    }
    Err(format!("{last} after {LONGEST:?}, not {clients} clients"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_the_module_is_read() {
        let cost = Cost::parse("event user 1000 10 4000 policy_ns 5 around_ns 7 scan_ns 9")
            .expect("complete");
        assert_eq!((cost.policy, cost.group_by), ("event", "user"));
        assert_eq!((cost.clients, cost.active, cost.channels), (1000, 10, 4000));
        assert_eq!((cost.engine, cost.booking, cost.scan), (5.0, 7.0, 9.0));
        assert_eq!(Cost::parse("event user 1000"), None);
    }
}
