// SPDX-License-Identifier: GPL-2.0

//! A trace in the JSON format of Chrome, which Perfetto reads.
//!
//! Written as the run goes, so that its length costs no memory. Each GPU is a process; its rows
//! are the engines, LoGA, and the clients that are throttled. Times are in microseconds.
//! Source: the *Trace Event Format* document of the Chromium project, events `X` and `M`.

use loga_model::gpu::{Kind, GR};
use serde_json::json;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Row of a GPU's trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// What is on an engine.
    Engine(usize),
    /// The phases of the scheduler.
    Phases,
    /// When a client is throttled.
    Throttled(usize),
}

impl Row {
    /// Number of the row.
    fn number(self) -> usize {
        match self {
            Self::Engine(engine) => 1 + engine,
            Self::Phases => 10,
            Self::Throttled(client) => 100 + client,
        }
    }
}

/// A trace that is being written. The first error is kept and reported at the end.
pub struct Trace {
    out: BufWriter<File>,
    gpu: usize,
    names: Vec<String>,
    first: bool,
    failed: Option<io::Error>,
}

impl Trace {
    /// Begins a trace.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut out = BufWriter::new(File::create(path)?);
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
        Ok(Self {
            out,
            gpu: 0,
            names: Vec::new(),
            first: true,
            failed: None,
        })
    }

    /// Names the GPU of the events that follow, and its clients.
    pub fn begin(&mut self, gpu: usize, names: Vec<String>) {
        self.gpu = gpu;
        self.names = names;
        self.name("process_name", 0, &format!("GPU {gpu}"));
        self.name("thread_name", Row::Engine(GR).number(), "compute engine");
        self.name("thread_name", Row::Engine(1).number(), "copy engine");
        self.name("thread_name", Row::Phases.number(), "scheduler");
        for client in 0..self.names.len() {
            let name = format!("throttled: {}", self.names[client]);
            self.name("thread_name", Row::Throttled(client).number(), &name);
        }
    }

    /// Ends the trace.
    ///
    /// # Errors
    ///
    /// The first thing that could not be written.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }

    /// What was on an engine, from when to when in ns.
    pub(super) fn engine(&mut self, engine: usize, owner: usize, kind: Kind, start: u64, end: u64) {
        let name = match kind {
            Kind::Run => self.names.get(owner).cloned().unwrap_or_default(),
            Kind::Switch => "switch".to_owned(),
        };
        self.span(Row::Engine(engine), &name, start, end);
    }

    /// Something that lasted from `start` to `end`, in ns.
    pub fn span(&mut self, row: Row, name: &str, start: u64, end: u64) {
        let event = json!({
            "ph": "X",
            "pid": self.gpu,
            "tid": row.number(),
            "name": name,
            "ts": micros(start),
            "dur": micros(end.saturating_sub(start)),
        });
        self.write(&event);
    }

    fn name(&mut self, what: &str, row: usize, name: &str) {
        let event = json!({
            "ph": "M",
            "pid": self.gpu,
            "tid": row,
            "name": what,
            "args": { "name": name },
        });
        self.write(&event);
    }

    fn write(&mut self, event: &serde_json::Value) {
        if self.failed.is_some() {
            return;
        }
        let separator = if self.first { "" } else { ",\n" };
        self.first = false;
        if let Err(error) = write!(self.out, "{separator}{event}") {
            self.failed = Some(error);
        }
    }
}

/// Microseconds with nanoseconds behind the point.
fn micros(ns: u64) -> f64 {
    // CAST: a run lasts days at most, and their nanoseconds are exact in a double.
    ns as f64 / 1000.0
}
