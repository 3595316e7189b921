// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Recordings as CSV (RFC 4180): a row for each sample, GPU and client.

use super::convert::{exact, share, Context, Format};
use super::day::utc;
use super::layout::{Client, Event, Line, Sample};
use crate::names::Name;
use csv::{ErrorKind, Writer};
use std::io;
use std::io::Write;

/// The first row.
pub const COLUMNS: [&str; 22] = [
    "time",
    "row",
    "from_ns",
    "time_ns",
    "gpu",
    "policy",
    "client",
    "pid",
    "uid",
    "user",
    "comm",
    "cgroup",
    "cgroup_path",
    "state",
    "share",
    "gpu_time_ns",
    "waited_ns",
    "throttled_ns",
    "span_ns",
    "busy_ns",
    "idle_ns",
    "unknown_ns",
];

/// Characters with which a spreadsheet begins a formula.
const FORMULA: [char; 4] = ['=', '+', '-', '@'];

/// A table that is written.
#[derive(Debug)]
pub struct Table<W: Write> {
    writer: Writer<W>,
    context: Context,
}

impl<W: Write> Table<W> {
    /// One without rows.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn new(out: W) -> io::Result<Self> {
        let mut writer = Writer::from_writer(out);
        writer.write_record(COLUMNS).map_err(io_error)?;
        let context = Context::default();
        Ok(Self { writer, context })
    }

    fn sample(&mut self, sample: &Sample) -> io::Result<()> {
        for client in &sample.clients {
            self.row(sample, Some(client))?;
        }
        if sample.clients.is_empty() {
            self.row(sample, None)?;
        }
        Ok(())
    }

    fn row(&mut self, sample: &Sample, client: Option<&Client>) -> io::Result<()> {
        let of = |text: fn(&Client) -> String| client.map(text).unwrap_or_default();
        let whole = sample.whole.as_ref();
        let number = |number: Option<u64>| number.map(|one| one.to_string()).unwrap_or_default();
        let user = client.and_then(|client| self.context.user(client.uid));
        let share = client.and_then(|client| share(sample, client.got.gpu_time_ns));
        let row = [
            utc(sample.unix_ns),
            "sample".to_string(),
            sample.from_ns.to_string(),
            sample.time_ns.to_string(),
            sample.gpu.to_string(),
            sample.policy.clone(),
            of(|client| client.id.to_string()),
            of(|client| client.pid.to_string()),
            of(|client| client.uid.to_string()),
            user.map(cell).unwrap_or_default(),
            of(|client| cell(&client.exact_comm())),
            number(client.and_then(|client| client.cgroup)),
            of(|client| client.exact_path().as_ref().map(cell).unwrap_or_default()),
            of(|client| client.state.clone()),
            share.map(|share| format!("{share:.6}")).unwrap_or_default(),
            of(|client| client.got.gpu_time_ns.to_string()),
            of(|client| client.got.waited_ns.to_string()),
            of(|client| client.got.throttled_ns.to_string()),
            number(whole.map(|whole| whole.span_ns)),
            number(whole.map(|whole| whole.busy_ns)),
            number(whole.map(|whole| whole.idle_ns)),
            number(whole.map(|whole| whole.unknown_ns)),
        ];
        self.writer.write_record(row).map_err(io_error)
    }

    /// GPU time that is in no sample: else the rows did not sum up.
    fn exited(&mut self, event: &Event, rest_ns: u64) -> io::Result<()> {
        let what = &event.what;
        let Some(client) = &what.client else {
            return Ok(());
        };
        let user = self.context.user(client.uid);
        let mut row = vec![String::new(); COLUMNS.len()];
        for (column, text) in [
            ("time", utc(self.context.unix_ns(what.time_ns))),
            ("row", "exited".to_string()),
            ("time_ns", what.time_ns.to_string()),
            ("gpu", what.gpu.to_string()),
            ("client", client.client.to_string()),
            ("pid", client.pid.to_string()),
            ("uid", client.uid.to_string()),
            ("user", user.map(cell).unwrap_or_default()),
            (
                "comm",
                cell(&exact(&client.comm, client.comm_hex.as_deref())),
            ),
            ("gpu_time_ns", rest_ns.to_string()),
        ] {
            let at = COLUMNS.iter().position(|known| *known == column);
            if let Some(cell) = at.and_then(|at| row.get_mut(at)) {
                *cell = text;
            }
        }
        self.writer.write_record(row).map_err(io_error)
    }
}

impl<W: Write> Format for Table<W> {
    fn line(&mut self, line: &Line, _: &[u8]) -> io::Result<()> {
        self.context.learn(line);
        match line {
            Line::Sample(sample) => self.sample(sample),
            Line::Event(event) => match event.rest_ns {
                Some(rest_ns) => self.exited(event, rest_ns),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn end(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// A name as it is printed; in quotes also where a spreadsheet would calculate it.
fn cell(name: &Name) -> String {
    let text = name.to_string();
    match text.starts_with(FORMULA) {
        true => format!("{name:?}"),
        false => text,
    }
}

/// What the output said, such as that its reader is gone.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
