// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What the submissions are told of protected clients, see `shield`.

use super::submissions::{Step, Submissions};
use super::Record;
use crate::storage::Storage;
use crate::units::Ns;

impl<S: Storage<Of<Record>: 'static>> Submissions<S> {
    /// Keeps the engine idle so long after work of protected clients, at most
    /// [`MAX_LINGER`](super::MAX_LINGER). `adapts`: only as long as their pauses last, so long at most.
    pub fn set_linger(&mut self, linger: Ns, adapts: bool) {
        self.shield.set_linger(linger, adapts);
    }

    /// Work of protected clients is there from now on, or none is.
    pub fn protected(&mut self, now: Ns, busy: bool) -> Step {
        let waits = self.waits();
        self.shield.note(now, busy, waits);
        self.select(now)
    }

    /// Whether the end of the work of protected clients has to be seen, for which another client
    /// waits, or that of a pause.
    pub fn watches_protected(&self, now: Ns, busy: bool) -> bool {
        busy && self.waits() || self.shield.learns(now)
    }

    /// Whether work of protected clients is there is not known until [`protected`](Self::protected)
    /// says so: no client passes until then, but one that has waited for too long.
    pub fn doubt(&mut self) {
        self.shield.doubt();
    }
}
