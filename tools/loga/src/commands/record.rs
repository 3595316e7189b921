// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga record`: a file of what everybody gets over time.

use super::Failure;
use crate::cli;
use crate::control::{Calls, Control};
use crate::directory::Directory;
use crate::error::Error;
use crate::export::owner::Owners;
use crate::processes::Processes;
use crate::recording::recorder::{Recorder, Subject};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// TIMEOUT: a signal that comes just before the wait for events is seen after this.
const WAIT: Duration = Duration::from_millis(200);

/// Records until `stop` is true or the time is over. `open` opens the device.
///
/// # Errors
///
/// Any [`Failure`]. A kernel module that does not answer later on is none.
pub fn run<C: Calls>(
    arguments: &cli::Record,
    open: impl Fn() -> Result<Control<C>, Error>,
    directory: impl Fn() -> Directory + Send + 'static,
    stop: &AtomicBool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let interval = arguments.interval;
    let subject = Subject {
        gpu: arguments.gpu,
        interval,
        owners: Owners::new(directory),
        processes: Processes::default(),
    };
    let mut recorder = Recorder::begin(&arguments.file, subject, open)?;
    let begin = Instant::now();
    let end = arguments.duration.and_then(|span| begin.checked_add(span));
    let mut next = begin + interval;
    let why = loop {
        let now = Instant::now();
        if stop.load(Ordering::Relaxed) {
            break "interrupted";
        }
        if end.is_some_and(|end| end <= now) {
            break "duration";
        }
        if next <= now {
            recorder.sample()?;
            // A machine that slept has nothing to catch up on.
            next = (next + interval).max(now);
            continue;
        }
        let until = end.map_or(next, |end| end.min(next));
        recorder.hear(until.saturating_duration_since(now).min(WAIT))?;
    };
    let name = recorder.name().clone();
    let count = recorder.end(why)?;
    writeln!(
        out,
        "{name}: {} samples and {} events in {:.1} s, {} gaps",
        count.samples,
        count.events,
        begin.elapsed().as_secs_f64(),
        count.gaps
    )?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests;
