// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The gates of a GPU that are to be updated once its books are unlocked.
//!
//! A gate is in the list once: [`Gate::begin_update`] marks it, and [`Gate::apply`] takes the mark away,
//! after the gate has left the list. Storage for all of them is there from the beginning, since gates are
//! listed with the books locked.

use super::gate::Gate;
use crate::track::pages::MAX_PAGES;
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A gate to update.
pub(in crate::glue::gpu) struct GateUpdate {
    pub(in crate::glue::gpu) gate: Arc<Gate>,
    /// Number and process of the client, for traces.
    pub(in crate::glue::gpu) client: u64,
    pub(in crate::glue::gpu) tgid: i32,
    /// How long it was throttled, if it is released.
    pub(in crate::glue::gpu) throttled: Option<Ns>,
}

/// The gates to update.
pub(in crate::glue::gpu) struct GateUpdates {
    list: KVec<GateUpdate>,
}

impl GateUpdates {
    /// None.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(in crate::glue::gpu) fn new() -> Result<Self> {
        Ok(Self {
            list: KVec::with_capacity(2 * MAX_PAGES, GFP_KERNEL)?,
        })
    }

    /// Lists a gate, unless it is listed already. `client` and `tgid` are its owner's number and process.
    pub(in crate::glue::gpu) fn list(
        &mut self,
        gate: &Arc<Gate>,
        client: u64,
        tgid: i32,
        throttled: Option<Ns>,
    ) {
        if gate.begin_update() {
            let update = GateUpdate {
                gate: gate.clone(),
                client,
                tgid,
                throttled,
            };
            // There is room: a gate is in the list once.
            let _ = self.list.push_within_capacity(update);
        }
    }

    /// Takes any gate out.
    pub(in crate::glue::gpu) fn pop(&mut self) -> Option<GateUpdate> {
        self.list.pop()
    }

    /// Takes this gate out, if it is listed.
    pub(in crate::glue::gpu) fn take(&mut self, gate: &Arc<Gate>) -> Option<GateUpdate> {
        let mut updates = self.list.iter();
        let at = updates.position(|update| Arc::ptr_eq(&update.gate, gate))?;
        self.list.remove(at).ok()
    }
}
