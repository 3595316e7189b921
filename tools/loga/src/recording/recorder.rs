// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Follows the kernel module and writes what it says.
//!
//! It holds the device open as long as the module is attached, to hear events. Memory is bounded: it
//! keeps the last reading of each GPU, and at most one batch of events.

use super::difference::Differences;
use super::layout::{End, Event, Gap, Gpu, Line, Resume, Start, VERSION};
use super::sink::Sink;
use crate::commands::events::{self, monotonic_ns};
use crate::commands::Failure;
use crate::control::{Calls, Control};
use crate::error::Error;
use crate::export::owner::Owners;
use crate::export::reading::Reading;
use crate::names::Name;
use crate::processes::Processes;
use loga::uapi;
use nix::time::{clock_gettime, ClockId};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Events read at once.
const BATCH: usize = 64;
/// TIMEOUT: batches read in a row; the queue of the kernel has four of them.
const BATCHES: usize = 16;

/// What is recorded, and how its names are found.
#[derive(Debug)]
pub struct Subject {
    /// One GPU, or all.
    pub gpu: Option<u32>,
    /// Time between two samples, for the header.
    pub interval: Duration,
    /// Names of users and cgroups.
    pub owners: Owners,
    /// Names of processes.
    pub processes: Processes,
}

/// How much was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Samples.
    pub samples: u64,
    /// Events.
    pub events: u64,
    /// Gaps.
    pub gaps: u64,
}

/// A recording that is written.
#[derive(Debug)]
pub struct Recorder<C, F> {
    open: F,
    subject: Subject,
    sink: Sink,
    /// Nothing while the kernel module does not answer.
    listening: Option<Control<C>>,
    differences: Differences,
    /// Number of the next event.
    expected: Option<u64>,
    count: Count,
}

impl<C: Calls, F: Fn() -> Result<Control<C>, Error>> Recorder<C, F> {
    /// Reads once, makes the file, and writes the header.
    ///
    /// # Errors
    ///
    /// Any [`Failure`].
    pub fn begin(path: &Path, mut subject: Subject, open: F) -> Result<Self, Failure> {
        let control = open()?;
        let readings = connect(&control, &mut subject)?;
        let sink = Sink::create(path).map_err(Failure::Text)?;
        let mut recorder = Self {
            differences: Differences::from(&readings),
            listening: Some(control),
            expected: None,
            count: Count::default(),
            open,
            subject,
            sink,
        };
        let (time_ns, unix_ns) = begin_of(&readings);
        let interval_ms = recorder.subject.interval.as_millis();
        recorder.write(&[Line::Start(Start {
            version: VERSION,
            program: env!("CARGO_PKG_VERSION").to_string(),
            abi: uapi::VERSION,
            interval_ms: u64::try_from(interval_ms).unwrap_or(u64::MAX),
            time_ns,
            unix_ns,
            gpus: gpus(&readings),
        })])?;
        Ok(recorder)
    }

    /// The name of the file, for people.
    pub fn name(&self) -> &Name {
        self.sink.name()
    }

    /// Waits for events at most for `wait`, and writes those there are.
    ///
    /// # Errors
    ///
    /// [`Failure::Text`]: the file cannot be written.
    pub fn hear(&mut self, wait: Duration) -> Result<(), Failure> {
        let mut events = [uapi::Event::default(); BATCH];
        let mut left = wait;
        for _ in 0..BATCHES {
            let Some(control) = &self.listening else {
                sleep(left);
                return Ok(());
            };
            match control.events(&mut events, left) {
                Ok(count) => {
                    self.take(events.get(..count).unwrap_or_default())?;
                    if count < BATCH {
                        return Ok(());
                    }
                }
                Err(error) => {
                    // Why there are no more of them, if it says so.
                    let why = control.chosen(self.subject.gpu).err();
                    return self.lose(&why.unwrap_or(error));
                }
            }
            left = Duration::ZERO;
        }
        Ok(())
    }

    /// Reads all GPUs and writes what happened since, or tries to reach the kernel module again.
    ///
    /// # Errors
    ///
    /// [`Failure::Text`]: the file cannot be written. [`Failure::Device`]: the kernel module that
    /// answers now is of another version.
    pub fn sample(&mut self) -> Result<(), Failure> {
        // What exited before the reading has its event.
        self.hear(Duration::ZERO)?;
        let Some(control) = &self.listening else {
            return self.resume();
        };
        let readings = match read(control, &mut self.subject) {
            Ok(readings) => readings,
            Err(error) => return self.lose(&error),
        };
        let ahead_ns = ahead_ns();
        let owners = &self.subject.owners;
        let differences = &mut self.differences;
        let samples = readings
            .iter()
            .filter_map(|one| differences.sample(one, owners, ahead_ns));
        let lines: Vec<Line> = samples.map(Line::Sample).collect();
        self.differences.keep(&readings);
        // CAST: one for each GPU.
        self.count.samples += lines.len() as u64;
        self.write(&lines)
    }

    /// Writes a last sample and the last line.
    ///
    /// # Errors
    ///
    /// As [`sample`](Self::sample).
    pub fn end(mut self, why: &str) -> Result<Count, Failure> {
        if self.listening.is_some() {
            self.sample()?;
            // What exited since is in the totals of its user only.
            self.hear(Duration::ZERO)?;
        }
        let time_ns = monotonic_ns();
        self.write(&[Line::End(End {
            time_ns,
            unix_ns: time_ns.saturating_add(ahead_ns()),
            why: why.to_string(),
        })])?;
        Ok(self.count)
    }

    fn take(&mut self, events: &[uapi::Event]) -> Result<(), Failure> {
        let now_ns = monotonic_ns();
        let mut lines = Vec::with_capacity(events.len());
        for event in events {
            let expected = self.expected.unwrap_or(event.sequence);
            let lost = event.sequence.saturating_sub(expected);
            self.expected = Some(event.sequence.saturating_add(1));
            if self.differences.is_before(event) {
                continue;
            }
            let exited = event.kind == uapi::EVENT_EXITED;
            lines.push(Line::Event(Event {
                what: events::Line::new(event, lost, &self.subject.processes, now_ns),
                rest_ns: exited.then(|| self.differences.exited(event)),
            }));
        }
        // CAST: one batch at most.
        self.count.events += lines.len() as u64;
        self.write(&lines)
    }

    /// The kernel module answers no more. An open file would keep it loaded.
    fn lose(&mut self, error: &Error) -> Result<(), Failure> {
        self.listening = None;
        self.count.gaps += 1;
        let time_ns = monotonic_ns();
        self.write(&[Line::Gap(Gap {
            time_ns,
            unix_ns: time_ns.saturating_add(ahead_ns()),
            why: error.to_string(),
        })])
    }

    fn resume(&mut self) -> Result<(), Failure> {
        let connected = (self.open)().and_then(|control| {
            let readings = connect(&control, &mut self.subject)?;
            Ok((control, readings))
        });
        let (control, readings) = match connected {
            Ok(connected) => connected,
            // It stays so until this program is replaced, too.
            Err(error @ Error::Version { .. }) => return Err(error.into()),
            Err(_) => return Ok(()),
        };
        self.listening = Some(control);
        self.differences = Differences::from(&readings);
        self.expected = None;
        let (time_ns, unix_ns) = begin_of(&readings);
        self.write(&[Line::Resume(Resume {
            time_ns,
            unix_ns,
            gpus: gpus(&readings),
        })])
    }

    fn write(&mut self, lines: &[Line]) -> Result<(), Failure> {
        if lines.is_empty() {
            return Ok(());
        }
        self.sink.write(lines).map_err(Failure::Text)
    }
}

/// Subscribes, then reads: an event that comes between is of before.
fn connect(control: &Control<impl Calls>, subject: &mut Subject) -> Result<Vec<Reading>, Error> {
    let gpu = subject.gpu.unwrap_or(uapi::ALL_GPUS);
    control.subscribe(gpu, uapi::EVENTS_RARE)?;
    read(control, subject)
}

fn read(control: &Control<impl Calls>, subject: &mut Subject) -> Result<Vec<Reading>, Error> {
    let mut snapshots = control.chosen(subject.gpu)?;
    subject.processes.rename(&mut snapshots);
    let readings: Result<Vec<Reading>, Error> = snapshots
        .into_iter()
        .map(|snapshot| Reading::without_shares(control, snapshot))
        .collect();
    let readings = readings?;
    subject.owners.learn(&readings);
    Ok(readings)
}

fn gpus(readings: &[Reading]) -> Vec<Gpu> {
    readings.iter().map(|one| Gpu::of(&one.snapshot)).collect()
}

/// When readings were taken, by both clocks.
fn begin_of(readings: &[Reading]) -> (u64, u64) {
    let times = readings.iter().map(|one| one.snapshot.info.now_ns);
    let time_ns = times.min().unwrap_or_default();
    (time_ns, time_ns.saturating_add(ahead_ns()))
}

/// What CLOCK_REALTIME is ahead of CLOCK_MONOTONIC; it changes when the machine sleeps or its clock
/// is set.
fn ahead_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_REALTIME).map(Duration::from);
    let unix_ns = u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX);
    unix_ns.saturating_sub(monotonic_ns())
}
