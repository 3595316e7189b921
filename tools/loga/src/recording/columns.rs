// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What clients had over the time of a recording.

use super::known::{Known, Who};
use super::layout::{Event, Line, Sample};
use super::reader::Reader;
use super::summary::{Board, Summary};
use std::collections::BTreeMap;
use std::io::BufRead;

/// Columns of a picture.
pub const COLUMNS: usize = 600;

/// What one had in each column.
#[derive(Clone, Debug)]
pub struct Row {
    /// GPU time in nanoseconds.
    pub got_ns: Vec<f64>,
    /// Time throttled in nanoseconds.
    pub held_ns: Vec<f64>,
    /// Since when it is throttled.
    throttled: Option<u64>,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            got_ns: vec![0.0; COLUMNS],
            held_ns: vec![0.0; COLUMNS],
            throttled: None,
        }
    }
}

/// What those with most GPU time had over time, on one GPU.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// Time that GPU times are parts of.
    pub span_ns: Vec<f64>,
    /// Those that have a row.
    pub rows: BTreeMap<Who, Row>,
    /// All others together.
    pub rest: Row,
}

/// What was had over time, on all GPUs.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    start_ns: u64,
    /// Length of a column.
    pub wide_ns: f64,
    /// The GPUs.
    pub pictures: BTreeMap<u32, Picture>,
    known: Known,
}

impl Columns {
    /// Of all lines of a recording that was summed up.
    pub fn of<R: BufRead>(reader: &mut Reader<R>, summary: &Summary) -> Self {
        let length_ns = summary.end_ns.saturating_sub(summary.start.time_ns);
        let picture = |(gpu, board): (&u32, &Board)| {
            let first = board.ranked().into_iter().take(loga_draw::time::LAYERS_MAX);
            let picture = Picture {
                span_ns: vec![0.0; COLUMNS],
                rows: first.map(|(who, _)| (who, Row::default())).collect(),
                rest: Row::default(),
            };
            (*gpu, picture)
        };
        let mut columns = Self {
            start_ns: summary.start.time_ns,
            wide_ns: (length_ns as f64 / COLUMNS as f64).max(1.0),
            pictures: summary.boards.iter().map(picture).collect(),
            known: Known::default(),
        };
        while let Ok(Some(line)) = reader.line() {
            columns.add(&line);
        }
        columns.release_all(summary.end_ns);
        columns
    }

    fn add(&mut self, line: &Line) {
        match line {
            Line::Start(_) | Line::Resume(_) => self.known.begin_anew(),
            Line::Sample(sample) => self.sample(sample),
            Line::Event(event) => self.event(event),
            Line::Gap(gap) => self.release_all(gap.time_ns),
            Line::End(_) => {}
        }
    }

    /// Adds an amount to the columns from one time to another.
    fn spread(&self, to: &mut [f64], (from_ns, until_ns): (u64, u64), amount: f64) {
        let place = |time_ns: u64| {
            let since_ns = time_ns.saturating_sub(self.start_ns);
            (since_ns as f64 / self.wide_ns).min(COLUMNS as f64)
        };
        let (from, until) = (place(from_ns), place(until_ns));
        let length = until - from;
        // CAST: a column.
        let first = (from as usize).min(COLUMNS - 1);
        if length <= 0.0 {
            to[first] += amount;
            return;
        }
        for (column, to) in to.iter_mut().enumerate().skip(first) {
            let begin = from.max(column as f64);
            let end = until.min((column + 1) as f64);
            if end <= begin {
                break;
            }
            *to += amount * (end - begin) / length;
        }
    }

    fn sample(&mut self, sample: &Sample) {
        let Some(mut picture) = self.pictures.remove(&sample.gpu) else {
            return;
        };
        let during = (sample.from_ns, sample.time_ns);
        self.spread(&mut picture.span_ns, during, sample.span_ns() as f64);
        for client in &sample.clients {
            let who = (self.known).who(sample.gpu, client.id, client.pid, client.uid);
            let row = picture.rows.get_mut(&who);
            let row = row.unwrap_or(&mut picture.rest);
            self.spread(&mut row.got_ns, during, client.got.gpu_time_ns as f64);
        }
        self.pictures.insert(sample.gpu, picture);
    }

    fn event(&mut self, event: &Event) {
        let what = &event.what;
        let Some(client) = &what.client else {
            return;
        };
        let who = (self.known).who(what.gpu, client.client, client.pid, client.uid);
        let Some(mut picture) = self.pictures.remove(&what.gpu) else {
            return;
        };
        let now_ns = what.time_ns;
        let row = picture.rows.get_mut(&who).unwrap_or(&mut picture.rest);
        if let Some(rest_ns) = event.rest_ns {
            self.spread(&mut row.got_ns, (now_ns, now_ns), rest_ns as f64);
        }
        // Those of all others overlap: they are not drawn.
        if let Some(row) = picture.rows.get_mut(&who) {
            match (what.event.as_str(), what.throttled_ns, row.throttled) {
                ("throttled", ..) => row.throttled = Some(now_ns),
                ("released", Some(for_ns), _) => {
                    self.hold(row, now_ns.saturating_sub(for_ns), now_ns);
                }
                ("exited", _, Some(since_ns)) => self.hold(row, since_ns, now_ns),
                _ => {}
            }
        }
        self.pictures.insert(what.gpu, picture);
    }

    fn hold(&self, row: &mut Row, from_ns: u64, to_ns: u64) {
        row.throttled = None;
        let from_ns = from_ns.max(self.start_ns);
        let held_ns = to_ns.saturating_sub(from_ns) as f64;
        self.spread(&mut row.held_ns, (from_ns, to_ns), held_ns);
    }

    /// Nothing is known from here on.
    fn release_all(&mut self, now_ns: u64) {
        let mut pictures = std::mem::take(&mut self.pictures);
        for row in pictures.values_mut().flat_map(|one| one.rows.values_mut()) {
            if let Some(since_ns) = row.throttled {
                self.hold(row, since_ns, now_ns);
            }
        }
        self.pictures = pictures;
    }
}
