// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The pages through which a client may store now. Nothing here allocates or sleeps.

use crate::engaged::Running;
use crate::glue::gpu::gates::gate::Gate;
use crate::track::pages::SLOTS;
use kernel::sync::Arc;

/// Pages that a client can store to through one window.
const MAX_OPEN: usize = 4;

/// A page with an entry, and where its rings were before.
#[derive(Clone)]
struct Opened {
    gate: Arc<Gate>,
    /// `None` until they are read.
    puts: Option<[u32; SLOTS]>,
}

/// The pages with entries.
#[derive(Clone, Default)]
pub(super) struct Opening([Option<Opened>; MAX_OPEN]);

impl Opening {
    /// The gates of the pages.
    pub(super) fn gates(&self) -> impl Iterator<Item = &Arc<Gate>> {
        self.0.iter().flatten().map(|opened| &opened.gate)
    }

    /// Notes that a page gets an entry. Returns whether it is new; nothing if there are too many.
    pub(super) fn add(&mut self, gate: &Arc<Gate>) -> Option<bool> {
        if self.gates().any(|listed| Arc::ptr_eq(listed, gate)) {
            return Some(false);
        }
        let free = self.0.iter_mut().find(|opened| opened.is_none())?;
        *free = Some(Opened {
            gate: gate.clone(),
            puts: None,
        });
        Some(true)
    }

    /// Notes where the rings of a page are before the first store.
    pub(super) fn note(&mut self, gate: &Arc<Gate>, puts: [u32; SLOTS]) {
        let mut all = self.0.iter_mut().flatten();
        if let Some(opened) = all.find(|opened| Arc::ptr_eq(&opened.gate, gate)) {
            opened.puts = Some(puts);
        }
    }

    /// The channels to which something was submitted. `read` reads where the rings of a page are
    /// now. Where that is not known, or was not before: all channels of the page, if `doubt`.
    pub(super) fn stored(
        &self,
        read: impl Fn(&Gate) -> Option<[u32; SLOTS]>,
        doubt: bool,
    ) -> Running {
        let mut stored = Running::NONE;
        for Opened { gate, puts } in self.0.iter().flatten() {
            let known = puts.and_then(|before| Some((before, read(gate)?)));
            for (slot, chid) in gate.channels() {
                let moved = known.map_or(doubt, |(before, now)| before.get(slot) != now.get(slot));
                if moved {
                    stored.add(chid);
                }
            }
        }
        stored
    }
}
