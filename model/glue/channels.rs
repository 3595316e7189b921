// SPDX-License-Identifier: GPL-2.0

//! The hardware channels that the resource manager hands out.

use super::machine::{ChannelSetup, Machine};
use super::rm::{Caller, Kind, Outcome, Rm, VA_END};
use crate::gpu::{Chid, CE0, ENGINES, GR};
use crate::rm;
use crate::rm::class::status;
use crate::rm::{class, submit};
use kernel::prelude::*;

/// Channels that share one page of USERD.
const CHIDS_PER_PAGE: usize = (super::PAGE / submit::USERD_SLOT) as usize;

/// Use of a hardware channel id.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    Free,
    Used {
        pid: i32,
        runlist: u32,
    },
    /// Freed by its owner, still on an engine.
    Draining {
        pid: i32,
    },
}

impl Rm {
    /// Allocates and starts a channel.
    pub fn alloc_channel(
        &mut self,
        machine: &Machine,
        caller: Caller,
        at: &rm::Alloc,
        params: &rm::ChannelParams,
    ) -> Outcome {
        let entries = params.gpfifo_entries;
        let bounds = submit::GP_ENTRIES_MIN..=submit::GP_ENTRIES_MAX;
        if !entries.is_power_of_two() || !bounds.contains(&entries) {
            return Err(status::INVALID_ARGUMENT);
        }
        if params.gpfifo_offset >= VA_END || params.gpfifo_offset % submit::GP_ENTRY_SIZE != 0 {
            return Err(status::INVALID_ARGUMENT);
        }
        let engine = match params.engine_type {
            0 | class::ENGINE_TYPE_GRAPHICS => GR,
            class::ENGINE_TYPE_COPY0 => CE0,
            _ => return Err(status::INVALID_ARGUMENT),
        };
        // CAST: an index below ENGINES.
        let runlist = engine as u32;
        let (space, pid) = {
            let client = self.client(caller, at.root)?;
            (client.space, client.pid)
        };
        self.reap(machine);
        let chid = self.free_chid(pid).ok_or(status::INSUFFICIENT_RESOURCES)?;
        self.insert(
            caller,
            at.root,
            at.parent,
            at.handle,
            Kind::Channel { chid, runlist },
        )?;
        self.slots[usize::from(chid.0)] = Slot::Used { pid, runlist };
        let setup = ChannelSetup {
            pid,
            space,
            gp_base: params.gpfifo_offset,
            gp_entries: entries,
            runlist,
        };
        machine.bind_channel(chid, &setup);
        self.submit(machine, runlist);
        machine.kick();
        Ok(())
    }

    /// Enables or disables a channel.
    pub fn schedule(
        &mut self,
        machine: &Machine,
        caller: Caller,
        at: &rm::Control,
        on: bool,
    ) -> Outcome {
        let (chid, runlist) = self.channel(caller, at.client, at.object)?;
        machine.enable_channel(chid, runlist, on);
        machine.kick();
        Ok(())
    }

    /// Whether every channel of a page of USERD that is in use belongs to the process.
    pub fn owns_userd_page(&self, pid: i32, page: usize) -> bool {
        let slots = self.slots.chunks(CHIDS_PER_PAGE).nth(page).unwrap_or(&[]);
        slots
            .iter()
            .any(|slot| matches!(slot, Slot::Used { pid: owner, .. } if *owner == pid))
    }

    /// Unbinds channels that were freed while they were busy and are idle now.
    pub fn reap(&mut self, machine: &Machine) {
        for chid in 0..self.slots.len() {
            // CAST: below the number of channels, 4096.
            let idle = matches!(self.slots[chid], Slot::Draining { .. })
                && machine.unbind_channel(Chid(chid as u16));
            if idle {
                self.slots[chid] = Slot::Free;
            }
        }
    }

    pub(super) fn stop_channel(&mut self, machine: &Machine, chid: Chid, runlist: u32) {
        let slot = &mut self.slots[usize::from(chid.0)];
        if let Slot::Used { pid, .. } = *slot {
            *slot = Slot::Draining { pid };
        }
        machine.abandon_channel(chid, runlist);
        self.submit(machine, runlist);
        machine.kick();
        self.reap(machine);
    }

    /// Submits the list of the channels in use of a runlist.
    fn submit(&mut self, machine: &Machine, runlist: u32) {
        self.list.clear();
        for (chid, slot) in self.slots.iter().enumerate() {
            if matches!(slot, Slot::Used { runlist: own, .. } if *own == runlist) {
                // The capacity is the number of channels, so that this cannot fail.
                let _ = self.list.push(chid as u16, GFP_KERNEL);
            }
        }
        debug_assert!((runlist as usize) < ENGINES);
        machine.submit_runlist(runlist, &self.list);
    }

    /// A free channel on a page of USERD that no other process uses.
    ///
    /// The real resource manager isolates processes the same way (OGKM `kernel_fifo.c`, isolation
    /// id), which is what makes revoking a page harmless to others.
    fn free_chid(&self, pid: i32) -> Option<Chid> {
        let foreign = |slot: &Slot| match slot {
            Slot::Free => false,
            Slot::Used { pid: owner, .. } | Slot::Draining { pid: owner } => *owner != pid,
        };
        let mut empty = None;
        for (page, slots) in self.slots.chunks(CHIDS_PER_PAGE).enumerate() {
            let Some(free) = slots.iter().position(|slot| *slot == Slot::Free) else {
                continue;
            };
            // CAST: below the number of channels, 4096.
            let chid = Chid((page * CHIDS_PER_PAGE + free) as u16);
            let used = slots.iter().any(|slot| *slot != Slot::Free);
            if used && !slots.iter().any(foreign) {
                return Some(chid);
            }
            if !used && empty.is_none() {
                empty = Some(chid);
            }
        }
        empty
    }
}
