// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Reads the kernel module again and again, and publishes what it said.
//!
//! One thread reads; those that answer scrapes only format what is published. So a call of the
//! device that hangs stops no scrape: the age grows.

use super::board::Boards;
use super::gpu;
use super::metrics::Id;
use super::owner::Owners;
use super::reading::Reading;
use super::rows::{Labels, Rows};
use super::text::{self, Format};
use crate::control::{Calls, Control};
use crate::error::Error;
use crate::processes::Processes;
use loga::uapi;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What the last reading gave.
#[derive(Clone, Debug, Default)]
struct Published {
    /// Nothing while the kernel module does not answer.
    rows: Option<Arc<Rows>>,
    /// When it answered last, and what the clock said then.
    at: Option<(Instant, SystemTime)>,
}

/// What was read last, for all threads.
#[derive(Clone, Debug, Default)]
pub struct Latest(Arc<Mutex<Published>>);

impl Latest {
    /// The whole text in a format.
    ///
    /// # Errors
    ///
    /// That of the encoder; there is none for text in memory.
    pub fn text(&self, format: Format) -> Result<String, fmt::Error> {
        // A thread that panics while it holds the lock leaves a whole value.
        let published = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let mut own = Rows::default();
        let none: Labels = Arc::new([]);
        own.count(Id::Up, &none, u64::from(published.rows.is_some()));
        if let Some((at, clock)) = published.at {
            own.ratio(Id::Age, &none, at.elapsed().as_secs_f64());
            let since = clock.duration_since(UNIX_EPOCH).unwrap_or_default();
            own.ratio(Id::Answered, &none, since.as_secs_f64());
        }
        let build: Labels = Arc::new([
            ("version", env!("CARGO_PKG_VERSION").to_string()),
            ("abi", uapi::VERSION.to_string()),
        ]);
        own.count(Id::Build, &build, 1);
        text::write(
            [Some(Arc::new(own)), published.rows]
                .into_iter()
                .flatten()
                .collect(),
            format,
        )
    }

    fn publish(&self, rows: Option<Arc<Rows>>) {
        let mut published = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.is_some() {
            published.at = Some((Instant::now(), SystemTime::now()));
        }
        published.rows = rows;
    }
}

/// Reads and publishes.
#[derive(Debug)]
pub struct Sampler {
    latest: Latest,
    boards: Boards,
    owners: Owners,
    /// Most processes that have a row of their own; nothing if none are shown.
    processes: Option<usize>,
    /// What processes run.
    mps: Processes,
    /// GPUs that are published; all if it is empty.
    gpus: Vec<u32>,
    /// What was said last.
    said: Option<String>,
}

impl Sampler {
    /// That has read nothing.
    pub fn new(boards: Boards, owners: Owners, processes: Option<usize>) -> Self {
        Self {
            latest: Latest::default(),
            boards,
            owners,
            processes,
            mps: Processes::default(),
            gpus: Vec::new(),
            said: None,
        }
    }

    /// That publishes these GPUs only; all if there are none.
    pub fn only(self, gpus: Vec<u32>) -> Self {
        Self { gpus, ..self }
    }

    /// Where it publishes.
    pub fn latest(&self) -> Latest {
        self.latest.clone()
    }

    /// Reads and publishes once. Returns what is new about the kernel module, for people.
    ///
    /// The device is opened for one reading only: an open file would keep the module loaded.
    pub fn tick<C: Calls>(
        &mut self,
        open: &impl Fn() -> Result<Control<C>, Error>,
    ) -> Option<String> {
        self.tick_seen(open, |_| ())
    }

    /// As [`tick`](Self::tick); `see` gets what was read, or nothing.
    pub fn tick_seen<C: Calls>(
        &mut self,
        open: &impl Fn() -> Result<Control<C>, Error>,
        see: impl FnOnce(Option<&[Reading]>),
    ) -> Option<String> {
        let read = open().and_then(|control| Reading::of_all(&control));
        see(read.as_deref().ok());
        let (rows, state) = match read {
            Ok(readings) => {
                let withheld = |one: &Reading| one.snapshot.info.flags & uapi::GPU_WITHHELD != 0;
                let all = !readings.iter().any(withheld);
                let state = format!("{}{}", reads(all), self.absent(&readings));
                (Some(Arc::new(self.rows(&readings))), state)
            }
            Err(error) => (None, error.to_string()),
        };
        self.latest.publish(rows);
        let new = self.said.as_ref() != Some(&state);
        self.said = Some(state.clone());
        new.then_some(state)
    }

    /// Whether the kernel module answered the last time.
    pub fn answered(&self) -> bool {
        let published = self.latest.0.lock().unwrap_or_else(PoisonError::into_inner);
        published.rows.is_some()
    }

    /// Those of the GPUs to publish that are not there, in words.
    fn absent(&self, readings: &[Reading]) -> String {
        let is_there = |gpu: &u32| readings.iter().any(|reading| reading.snapshot.gpu == *gpu);
        let absent = self.gpus.iter().filter(|gpu| !is_there(gpu));
        absent
            .map(|gpu| format!("; there is no GPU {gpu}"))
            .collect()
    }

    fn rows(&mut self, readings: &[Reading]) -> Rows {
        self.owners.learn(readings);
        let mut rows = Rows::default();
        let is_published = |gpu| self.gpus.is_empty() || self.gpus.contains(&gpu);
        for reading in readings {
            if !is_published(reading.snapshot.gpu) {
                continue;
            }
            let snapshot = &reading.snapshot;
            let labels: Labels = self.boards.labels(snapshot.gpu, &snapshot.info).into();
            gpu::rows(snapshot, &self.mps, &labels, &mut rows);
            self.owners.rows(reading, &labels, &mut rows);
            if let Some(most) = self.processes {
                gpu::processes(snapshot, &labels, most, &mut rows);
            }
        }
        rows
    }
}

/// What the exporter reads.
fn reads(all: bool) -> &'static str {
    if all {
        "reads the GPUs and all users and cgroups"
    } else {
        "without CAP_PERFMON: exports processes of its own user only, and no figures of whole GPUs"
    }
}
