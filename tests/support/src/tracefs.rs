// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The kernel's trace of events, switched on for one test.

use std::collections::BTreeMap;
use std::fs;

/// Where tracefs is mounted.
const ROOT: &str = "/sys/kernel/tracing";
/// Room for events on each processor.
const BUFFER_KB: &str = "8192";

/// One event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// When it was recorded, by the trace's clock; whole microseconds.
    pub at_ns: u64,
    /// Its name.
    pub name: String,
    fields: BTreeMap<String, String>,
}

impl Event {
    /// A field; 0 is never a stand-in for one that is missing.
    ///
    /// # Errors
    ///
    /// The event has none of this name, or it is no number.
    pub fn number(&self, key: &str) -> Result<i64, String> {
        let value = self.text(key)?;
        value
            .parse()
            .map_err(|_| format!("{}: {key}={value} is not a number", self.name))
    }

    /// A field that is not negative.
    ///
    /// # Errors
    ///
    /// As [`number`](Self::number), or it is negative.
    pub fn count(&self, key: &str) -> Result<u64, String> {
        u64::try_from(self.number(key)?).map_err(|_| format!("{}: {key} is negative", self.name))
    }

    /// A field as it is written.
    ///
    /// # Errors
    ///
    /// The event has none of this name.
    pub fn text(&self, key: &str) -> Result<&str, String> {
        let value = self.fields.get(key).map(String::as_str);
        value.ok_or_else(|| format!("{} has no field {key}: {:?}", self.name, self.fields))
    }

    /// A line of the trace; nothing if it is not one.
    pub fn parse(line: &str) -> Option<Self> {
        let mut parts = line.splitn(3, ": ");
        let (stamp, name, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let (seconds, micros) = stamp.split_whitespace().last()?.split_once('.')?;
        let (seconds, micros): (u64, u64) = (seconds.parse().ok()?, micros.parse().ok()?);
        let fields = rest
            .split_whitespace()
            .filter_map(|word| word.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        Some(Event {
            at_ns: seconds * 1_000_000_000 + micros * 1000,
            name: name.to_owned(),
            fields,
        })
    }
}

/// Events being recorded; switched off when dropped.
#[derive(Debug)]
pub struct Trace {
    events: Vec<String>,
}

impl Trace {
    /// Clears the trace and records these events, each `SYSTEM` or `SYSTEM/EVENT`. The clock
    /// is that of `gpu_work_period`, or the monotonic one.
    ///
    /// # Errors
    ///
    /// A file of tracefs cannot be written.
    pub fn of(events: &[&str], clock: &str) -> Result<Self, String> {
        write("tracing_on", "0")?;
        write("buffer_size_kb", BUFFER_KB)?;
        write("trace_clock", clock)?;
        write("trace", "")?;
        let trace = Trace {
            events: events.iter().map(|event| (*event).to_owned()).collect(),
        };
        for event in &trace.events {
            write(&format!("events/{event}/enable"), "1")?;
        }
        write("tracing_on", "1")?;
        Ok(trace)
    }

    /// Ends the recording: what was recorded, oldest first. Events that were recorded while a test read
    /// its trace have been seen with wrong times there.
    ///
    /// # Errors
    ///
    /// Events were lost, or a line cannot be read.
    pub fn read(&self) -> Result<Vec<Event>, String> {
        write("tracing_on", "0")?;
        let text = read("trace")?;
        if text.contains("LOST") {
            return Err("the trace has lost events".to_owned());
        }
        text.lines()
            .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
            .map(|line| Event::parse(line).ok_or_else(|| format!("unreadable event {line:?}")))
            .collect()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // The module may have gone, and its events with it.
        for event in &self.events {
            let _ = write(&format!("events/{event}/enable"), "0");
        }
    }
}

/// A file of tracefs.
///
/// # Errors
///
/// It cannot be read.
pub fn read(path: &str) -> Result<String, String> {
    let path = format!("{ROOT}/{path}");
    fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))
}

fn write(path: &str, value: &str) -> Result<(), String> {
    let path = format!("{ROOT}/{path}");
    fs::write(&path, value).map_err(|error| format!("{path}: {value}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_line_becomes_fields() {
        let line =
            "       loga-poll-71      [001] .....    12.345678: loga_context_switch: gpu=0 at_ns=12345678901 prev_chid=-1 next_chid=3";
        let event = Event::parse(line).expect("readable");
        assert_eq!(event.at_ns, 12_345_678_000);
        assert_eq!(event.name, "loga_context_switch");
        assert_eq!(event.number("prev_chid"), Ok(-1));
        assert_eq!(event.count("at_ns"), Ok(12_345_678_901));
        assert!(event.count("prev_chid").is_err());
        assert!(event.number("chid").is_err());
    }

    #[test]
    fn event_line_without_a_stamp_is_refused() {
        assert_eq!(Event::parse("CPU:1 [LOST 5 EVENTS]"), None);
    }
}
