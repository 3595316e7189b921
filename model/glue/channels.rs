// SPDX-License-Identifier: GPL-2.0

//! The hardware channels that the resource manager hands out.

use super::machine::{ChannelSetup, Machine};
use super::rm::{Caller, Kind, Outcome, Rm, Slot, VA_END};
use crate::gpu::{regs, Chid, CE0, ENGINES, GR};
use crate::rm;
use crate::rm::class::status;
use crate::rm::{class, submit};
use kernel::prelude::*;

/// Channels that share one page of USERD.
const CHIDS_PER_PAGE: usize = (super::PAGE / submit::USERD_SLOT) as usize;

/// Channels of one TSG: the length in a runlist has six bits.
const TSG_CHANNELS_MAX: usize = 63;

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
        let tsg = match self.object(caller, at.root, at.parent) {
            Ok(Kind::Group(tsg)) => Some(*tsg),
            _ => None,
        };
        if tsg.is_some() && self.members(runlist, tsg).count() >= TSG_CHANNELS_MAX {
            return Err(status::INSUFFICIENT_RESOURCES);
        }
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
        self.slots[usize::from(chid.0)] = Slot::Used { pid, runlist, tsg };
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

    /// Allocates a group of channels.
    pub fn alloc_group(&mut self, caller: Caller, at: &rm::Alloc) -> Outcome {
        let free = self.tsgs.iter().position(|used| !used);
        let free = free.ok_or(status::INSUFFICIENT_RESOURCES)?;
        // CAST: below the number of channels, 4096.
        let kind = Kind::Group(free as u16);
        self.insert(caller, at.root, at.parent, at.handle, kind)?;
        self.tsgs[free] = true;
        Ok(())
    }

    /// Channels in use of a runlist that are in this TSG, or in none.
    fn members(&self, runlist: u32, tsg: Option<u16>) -> impl Iterator<Item = u32> + '_ {
        let is_member = move |slot: &Slot| matches!(slot, Slot::Used { runlist: own, tsg: of, .. } if *own == runlist && *of == tsg);
        // CAST: below the number of channels, 4096.
        let chids = self.slots.iter().enumerate();
        chids.filter_map(move |(chid, slot)| is_member(slot).then_some(chid as u32))
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

    /// Gives out again the channels that were freed while they were busy and are unbound now.
    pub fn reap(&mut self, machine: &Machine) {
        for chid in 0..self.slots.len() {
            // CAST: below the number of channels, 4096.
            let idle = matches!(self.slots[chid], Slot::Draining { .. })
                && machine.has_left(Chid(chid as u16));
            if idle {
                self.slots[chid] = Slot::Free;
            }
        }
    }

    pub(super) fn stop_channel(&mut self, machine: &Machine, chid: Chid, runlist: u32) {
        let slot = &mut self.slots[usize::from(chid.0)];
        let mut group = None;
        if let Slot::Used { pid, tsg, .. } = *slot {
            *slot = Slot::Draining { pid };
            group = tsg;
        }
        machine.abandon_channel(chid, runlist, group);
        self.submit(machine, runlist);
        machine.kick();
        self.reap(machine);
    }

    /// Submits the list of the channels in use of a runlist: those of a TSG behind an entry for it.
    fn submit(&mut self, machine: &Machine, runlist: u32) {
        let mut list = core::mem::replace(&mut self.list, KVVec::new());
        list.clear();
        // There is room for each channel and each TSG, so that this cannot fail.
        let push = |list: &mut KVVec<u32>, entry| {
            let _ = list.push_within_capacity(entry);
        };
        for member in self.members(runlist, None) {
            push(&mut list, member);
        }
        for (tsg, _) in self.tsgs.iter().enumerate().filter(|(_, used)| **used) {
            // CAST (both): below the number of channels, 4096.
            let count = self.members(runlist, Some(tsg as u16)).count() as u32;
            if count != 0 {
                let length = count << regs::RUNLIST_ENTRY_COUNT_SHIFT;
                push(&mut list, tsg as u32 | regs::RUNLIST_ENTRY_TSG | length);
                for member in self.members(runlist, Some(tsg as u16)) {
                    push(&mut list, member);
                }
            }
        }
        self.list = list;
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
