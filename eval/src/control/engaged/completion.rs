// SPDX-License-Identifier: GPL-2.0

//! When the completion thread runs.

use loga::engaged::{Action, Reading};
use loga::units::Ns;

/// How much later than it has to the completion thread may run, as in the module.
const LATE: Ns = Ns::from_us(20);

/// What the completion thread is doing.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// It sleeps until then, or until it is woken.
    Sleeps(Option<u64>),
    /// It does this until then.
    Does(u64, Action),
}

/// The completion thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompletionThread {
    pub(super) state: State,
    /// Until when it means to sleep.
    asleep: Option<Ns>,
    /// What the channels did when it began to read them.
    pub(super) reading: Option<Reading>,
}

impl Default for CompletionThread {
    fn default() -> Self {
        Self {
            state: State::Sleeps(None),
            asleep: None,
            reading: None,
        }
    }
}

impl CompletionThread {
    /// When it does something next.
    pub(super) fn next(&self) -> Option<u64> {
        match self.state {
            State::Sleeps(until) => until,
            State::Does(until, _) => Some(until),
        }
    }

    /// A client wakes it, so that it runs at `at`, if it would sleep for too long.
    pub(super) fn wake(&mut self, at: u64, wanted: Option<Ns>) {
        let Some(wanted) = wanted else { return };
        let by = wanted.saturating_add(LATE);
        if self.asleep.is_some_and(|until| by >= until) {
            return;
        }
        self.asleep = Some(wanted);
        if let State::Sleeps(until) = &mut self.state {
            *until = Some(until.map_or(at, |until| until.min(at)));
        }
    }

    /// It sleeps, and runs so much later than it has to.
    pub(super) fn sleep(&mut self, until: Option<Ns>, late: u64) {
        self.asleep = until;
        self.state = State::Sleeps(until.map(|until| until.get().saturating_add(late)));
    }
}
