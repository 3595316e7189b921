// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Recordings as a trace that Perfetto shows, in the JSON of Chrome's traces: a process for
//! each GPU, a thread for each client, counters of shares, slices of throttled times, and instants.
//! Source: Google, Trace Event Format, "JSON Object Format", events M, C, X and i.

use super::convert::{exact, share, Format};
use super::day::utc;
use super::layout::{Event, Gpu, Line, Sample, Start};
use crate::commands::events;
use crate::names::{json, Name};
use loga::uapi;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::io;
use std::io::Write;

/// Number of the first thread: none is that of a process, which would be its first thread.
const THREADS: u64 = 100_000;

/// A client that has a thread.
#[derive(Clone, Debug, Default)]
struct Thread {
    tid: u64,
    label: String,
    /// Since when it is throttled.
    throttled: Option<(u64, String)>,
    /// Whether its counter is not 0.
    counts: bool,
    /// Whether the last sample had it.
    there: bool,
}

/// A trace that is written.
#[derive(Debug)]
pub struct Trace<W> {
    out: W,
    begun: bool,
    start_ns: u64,
    /// Time of the last line.
    last_ns: u64,
    /// Clients by GPU and number; the numbers begin anew after a gap.
    threads: BTreeMap<(u32, u64), Thread>,
    gpus: BTreeMap<u32, String>,
    next: u64,
}

impl<W: Write> Trace<W> {
    /// An empty one.
    pub const fn new(out: W) -> Self {
        Self {
            out,
            begun: false,
            start_ns: 0,
            last_ns: 0,
            threads: BTreeMap::new(),
            gpus: BTreeMap::new(),
            next: THREADS,
        }
    }

    fn put(&mut self, event: &Value) -> io::Result<()> {
        if self.begun {
            self.out.write_all(b",\n")?;
        }
        self.begun = true;
        json::write(&mut self.out, event)
    }

    fn start(&mut self, start: &Start) -> io::Result<()> {
        let about = json!({
            "written_by": format!("loga {}", start.program),
            "start": utc(start.unix_ns),
        });
        self.out
            .write_all(b"{\"displayTimeUnit\":\"ms\",\"otherData\":")?;
        json::write(&mut self.out, &about)?;
        self.out.write_all(b",\"traceEvents\":[\n")?;
        (self.start_ns, self.last_ns) = (start.time_ns, start.time_ns);
        self.name_gpus(&start.gpus)
    }

    fn name_gpus(&mut self, gpus: &[Gpu]) -> io::Result<()> {
        for gpu in gpus {
            let name = format!("GPU {} {} {}", gpu.gpu, gpu.chip, gpu.pci);
            if self.gpus.insert(gpu.gpu, name.clone()).as_ref() != Some(&name) {
                let args = json!({ "name": name });
                let pid = process(gpu.gpu);
                self.put(&json!({"ph": "M", "name": "process_name", "pid": pid, "args": args}))?;
            }
        }
        Ok(())
    }

    /// The thread of a client; its name is that of its first line.
    fn thread(&mut self, gpu: u32, id: u64, pid: i32, comm: &Name) -> io::Result<u64> {
        if let Some(thread) = self.threads.get(&(gpu, id)) {
            return Ok(thread.tid);
        }
        let tid = self.next;
        self.next += 1;
        let label = format!("{pid} {comm} (client {id})");
        let args = json!({ "name": label });
        let thread = Thread {
            tid,
            label,
            ..Thread::default()
        };
        self.threads.insert((gpu, id), thread);
        let pid = process(gpu);
        self.put(&json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": args}))?;
        Ok(tid)
    }

    fn counter(&mut self, gpu: u32, name: &str, time_ns: u64, part: f64) -> io::Result<()> {
        let args = json!({ "%": (part * 1e4).round() / 100.0 });
        let (pid, ts) = (process(gpu), us(time_ns));
        self.put(&json!({"ph": "C", "name": name, "pid": pid, "ts": ts, "args": args}))
    }

    /// A counter holds its value until the next one: that of a sample is said at its begin.
    fn sample(&mut self, sample: &Sample) -> io::Result<()> {
        let (gpu, from_ns) = (sample.gpu, sample.from_ns);
        if let Some(whole) = sample.whole.as_ref().filter(|whole| whole.polled_ns > 0) {
            let part = |ns: u64| ns as f64 / whole.polled_ns as f64;
            self.counter(gpu, "busy", from_ns, part(whole.busy_ns))?;
            self.counter(gpu, "unknown", from_ns, part(whole.unknown_ns))?;
        }
        for client in &sample.clients {
            self.thread(gpu, client.id, client.pid, &client.exact_comm())?;
            let part = share(sample, client.got.gpu_time_ns).unwrap_or(0.0);
            let Some(thread) = self.threads.get_mut(&(gpu, client.id)) else {
                continue;
            };
            thread.there = true;
            let changes = part > 0.0 || thread.counts;
            thread.counts = part > 0.0;
            let name = format!("share {}", thread.label);
            if changes {
                self.counter(gpu, &name, from_ns, part)?;
            }
        }
        self.fall(from_ns, |key, thread| key.0 == gpu && !thread.there)?;
        for (_, thread) in self.threads.iter_mut().filter(|(key, _)| key.0 == gpu) {
            thread.there = false;
        }
        Ok(())
    }

    /// Sets counters of some clients to 0.
    fn fall(
        &mut self,
        time_ns: u64,
        which: impl Fn(&(u32, u64), &Thread) -> bool,
    ) -> io::Result<()> {
        let mut fallen = Vec::new();
        for (key, thread) in &mut self.threads {
            if thread.counts && which(key, thread) {
                thread.counts = false;
                fallen.push((key.0, format!("share {}", thread.label)));
            }
        }
        for (gpu, name) in fallen {
            self.counter(gpu, &name, time_ns, 0.0)?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let what = &event.what;
        let (gpu, pid, ts) = (what.gpu, process(what.gpu), us(what.time_ns));
        let args = arguments(event);
        let Some(client) = &what.client else {
            return self.put(&json!({
                "ph": "i", "s": "p", "cat": "loga", "name": what.event, "pid": pid, "tid": pid,
                "ts": ts, "args": args,
            }));
        };
        let comm = exact(&client.comm, client.comm_hex.as_deref());
        let tid = self.thread(gpu, client.client, client.pid, &comm)?;
        let key = (gpu, client.client);
        match what.event.as_str() {
            THROTTLED => {
                let by = what.throttled_by.clone().unwrap_or_default();
                if let Some(thread) = self.threads.get_mut(&key) {
                    thread.throttled = Some((what.time_ns, by));
                }
                return Ok(());
            }
            RELEASED => return self.released(key, what),
            EXITED => self.close(key, what.time_ns)?,
            _ => {}
        }
        self.put(&json!({
            "ph": "i", "s": "t", "cat": "loga", "name": what.event, "pid": pid, "tid": tid,
            "ts": ts, "args": args,
        }))
    }

    /// The event says for how long; it may have begun before the recording.
    fn released(&mut self, key: (u32, u64), what: &events::Line) -> io::Result<()> {
        let Some(thread) = self.threads.get_mut(&key) else {
            return Ok(());
        };
        let by = thread.throttled.take().map(|(_, by)| by);
        let tid = thread.tid;
        let from_ns = what.time_ns.saturating_sub(what.throttled_ns.unwrap_or(0));
        self.slice(key.0, tid, from_ns.max(self.start_ns), what.time_ns, by)
    }

    /// Ends the slice of a client that is throttled.
    fn close(&mut self, key: (u32, u64), time_ns: u64) -> io::Result<()> {
        let thread = self.threads.get_mut(&key);
        let Some((tid, throttled)) = thread.map(|one| (one.tid, one.throttled.take())) else {
            return Ok(());
        };
        match throttled {
            Some((from_ns, by)) => self.slice(key.0, tid, from_ns, time_ns, Some(by)),
            None => Ok(()),
        }
    }

    fn slice(
        &mut self,
        gpu: u32,
        tid: u64,
        from_ns: u64,
        to_ns: u64,
        by: Option<String>,
    ) -> io::Result<()> {
        let dur = us(to_ns.saturating_sub(from_ns));
        self.put(&json!({
            "ph": "X", "cat": "loga", "name": "throttled", "pid": process(gpu), "tid": tid,
            "ts": us(from_ns), "dur": dur, "args": { "by": by },
        }))
    }

    /// Nothing is known from here on.
    fn stop(&mut self, time_ns: u64) -> io::Result<()> {
        self.fall(time_ns, |_, _| true)?;
        let keys: Vec<(u32, u64)> = self.threads.keys().copied().collect();
        for key in keys {
            self.close(key, time_ns)?;
        }
        Ok(())
    }

    fn mark(&mut self, name: &str, time_ns: u64, why: &str) -> io::Result<()> {
        self.put(&json!({
            "ph": "i", "s": "g", "cat": "loga", "name": name, "pid": 1, "tid": 1,
            "ts": us(time_ns), "args": { "why": why },
        }))
    }
}

/// Names of events, as in `loga events --json`.
const THROTTLED: &str = crate::names::EVENTS[uapi::EVENT_THROTTLED as usize];
const RELEASED: &str = crate::names::EVENTS[uapi::EVENT_RELEASED as usize];
const EXITED: &str = crate::names::EVENTS[uapi::EVENT_EXITED as usize];

impl<W: Write> Format for Trace<W> {
    fn line(&mut self, line: &Line, _: &[u8]) -> io::Result<()> {
        match line {
            Line::Start(start) => self.start(start),
            Line::Sample(sample) => {
                self.last_ns = self.last_ns.max(sample.time_ns);
                self.sample(sample)
            }
            Line::Event(event) => {
                self.last_ns = self.last_ns.max(event.what.time_ns);
                self.event(event)
            }
            Line::Gap(gap) => {
                self.stop(self.last_ns)?;
                self.mark("gap", gap.time_ns, &gap.why)
            }
            Line::Resume(resume) => {
                self.threads.clear();
                self.last_ns = self.last_ns.max(resume.time_ns);
                self.start_ns = resume.time_ns;
                self.name_gpus(&resume.gpus)?;
                self.mark("resume", resume.time_ns, "")
            }
            Line::End(_) => Ok(()),
        }
    }

    fn end(&mut self) -> io::Result<()> {
        self.stop(self.last_ns)?;
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }
}

/// A process number for a GPU; 0 means none.
fn process(gpu: u32) -> u64 {
    u64::from(gpu) + 1
}

/// The unit of traces; a fraction has the nanoseconds.
fn us(time_ns: u64) -> f64 {
    time_ns as f64 / 1e3
}

/// What an event says beside its kind.
fn arguments(event: &Event) -> Value {
    let mut value = serde_json::to_value(event).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        for name in ["version", "event", "gpu", "time_ns", "sequence"] {
            members.remove(name);
        }
    }
    value
}
