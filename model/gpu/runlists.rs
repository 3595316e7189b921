// SPDX-License-Identifier: GPL-2.0

//! What is done with the runlists of `runlist`.

use super::runlist::Runlist;
use super::{regs, Bus, Channel, Chid, Gpu};
use core::ops::DerefMut;

impl<S: DerefMut<Target = [Channel]>> Gpu<S> {
    /// Takes over the runlist at `base` with `count` entries; false if it makes no sense.
    ///
    /// Entries up to the bad one are kept, as far as they form a list.
    pub(super) fn load_runlist<B: Bus>(
        &mut self,
        runlist: usize,
        base: u32,
        count: u32,
        bus: &mut B,
    ) -> bool {
        let old_cursor = self.runlists[runlist].cursor;
        self.clear_runlist(runlist);
        self.runlists[runlist].base = base;
        self.runlists[runlist].count = count;
        let address = u64::from(base & 0x0fff_ffff) << 12;
        let mut group: Option<(u16, u32)> = None;
        let mut tail: Option<u16> = None;
        let mut good = true;
        // At most every channel in a TSG of its own.
        for index in 0..count.min(2 * regs::CHANNELS) {
            let Some(word) = bus.vidmem_read(address.saturating_add(u64::from(index) * 8)) else {
                good = false;
                break;
            };
            // CAST: masked to 12 bits.
            let id = (word & 0xfff) as u16;
            if word & regs::RUNLIST_ENTRY_TSG != 0 {
                group = Some((id, word >> regs::RUNLIST_ENTRY_COUNT_SHIFT));
                continue;
            }
            let tsg = match group {
                Some((tsg, left)) if left > 0 => {
                    group = Some((tsg, left - 1));
                    Some(tsg)
                }
                _ => None,
            };
            if !self.append(runlist, id, tsg, &mut tail) {
                good = false;
                break;
            }
        }
        self.runlists[runlist].cursor = old_cursor.filter(|&chid| {
            self.channel(Chid(chid))
                .is_some_and(|channel| channel.listed && usize::from(channel.runlist) == runlist)
        });
        good
    }

    /// Whether a channel may get work.
    pub(super) fn listens(&self, engine: usize) -> bool {
        self.ring(engine)
            .any(|chid| self.channel(chid).is_some_and(Channel::schedulable))
    }

    /// Whether a channel has work.
    ///
    /// This is what an idle engine does at every doorbell tick: one walk, one read per channel.
    pub(super) fn scan<B: Bus>(&mut self, engine: usize, bus: &mut B) -> bool {
        let mut at = self.runlists[engine].head;
        for _ in 0..self.runlists[engine].length {
            let Some(channel) = at.and_then(|chid| self.channel(Chid(chid))) else {
                break;
            };
            let (link, schedulable) = (channel.link, channel.schedulable());
            if schedulable && at.is_some_and(|chid| self.has_work(Chid(chid), bus)) {
                return true;
            }
            at = Some(link);
        }
        false
    }

    /// The channels of a runlist.
    fn ring(&self, runlist: usize) -> impl Iterator<Item = Chid> + '_ {
        let head = self.runlists[runlist].head;
        core::iter::successors(head, |chid| self.behind(*chid))
            .take(self.runlists[runlist].length as usize)
            .map(Chid)
    }

    /// The channel behind `chid` in its ring.
    pub(super) fn behind(&self, chid: u16) -> Option<u16> {
        let channel = self.channel(Chid(chid))?;
        channel.listed.then_some(channel.link)
    }

    /// Empties a runlist.
    fn clear_runlist(&mut self, runlist: usize) {
        let mut at = self.runlists[runlist].head;
        for _ in 0..self.runlists[runlist].length {
            let Some(channel) = at.and_then(|chid| self.channels.get_mut(usize::from(chid))) else {
                break;
            };
            channel.listed = false;
            at = Some(channel.link);
        }
        let rung = self.runlists[runlist].rung;
        self.runlists[runlist] = Runlist {
            rung,
            ..Runlist::new()
        };
    }

    /// Adds a channel at the end of the ring; false if it cannot be there.
    fn append(
        &mut self,
        runlist: usize,
        id: u16,
        tsg: Option<u16>,
        tail: &mut Option<u16>,
    ) -> bool {
        let Some(channel) = self.channels.get_mut(usize::from(id)) else {
            return false;
        };
        if channel.listed || usize::from(channel.runlist) != runlist {
            return false;
        }
        let head = self.runlists[runlist].head.unwrap_or(id);
        channel.place = self.runlists[runlist].length;
        channel.listed = true;
        channel.tsg = tsg;
        channel.link = head;
        self.runlists[runlist].head = Some(head);
        self.runlists[runlist].length = self.runlists[runlist].length.saturating_add(1);
        let before = tail.and_then(|chid| self.channels.get_mut(usize::from(chid)));
        if let Some(before) = before {
            before.link = id;
        }
        *tail = Some(id);
        true
    }
}
