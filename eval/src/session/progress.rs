// SPDX-License-Identifier: GPL-2.0

//! Progress on a terminal.

use crate::paper::Progress;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::time::{Duration, Instant};

/// Prints a line above the bars.
pub(super) fn say(bars: &MultiProgress, line: &str) {
    bars.suspend(|| println!("{line}"));
}

/// A progress bar of an experiment; nothing is drawn without a terminal.
pub(super) struct Bar {
    pub(super) bar: ProgressBar,
    pub(super) begin: Instant,
}

impl Bar {
    /// One that shows how many runs are done.
    pub(super) fn new(name: &str, bars: &MultiProgress) -> Self {
        Self::with(
            "{msg} [{bar:30}] {pos}/{len} {elapsed} ({eta} left)",
            name,
            bars,
        )
    }

    /// One that shows that something goes on of which no more is known.
    pub(super) fn waiting(name: &str, bars: &MultiProgress) -> Self {
        let bar = Self::with("{msg} {spinner} {elapsed}", name, bars);
        bar.bar.enable_steady_tick(Duration::from_secs(1));
        bar
    }

    fn with(template: &str, name: &str, bars: &MultiProgress) -> Self {
        let bar = bars.add(ProgressBar::new(0).with_message(name.to_owned()));
        // PANIC: the templates are those above, and tests make both bars.
        let style = ProgressStyle::with_template(template).expect("a template");
        bar.set_style(style.progress_chars("=> "));
        Self {
            bar,
            begin: Instant::now(),
        }
    }
}

impl Progress for Bar {
    fn expect(&mut self, runs: u64) {
        self.bar.inc_length(runs);
    }

    fn done(&mut self) {
        self.bar.inc(1);
    }
}
