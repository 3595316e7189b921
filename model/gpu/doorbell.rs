// SPDX-License-Identifier: GPL-2.0

//! Doorbells: the owner of the GPU names the channel of every submission.
//!
//! The GPU then needs no scans: the channels that may have work are in a list, and the next one to
//! be served is found among them. It is the one that a scan of all channels would choose.

use super::channel::Status;
use super::{Bus, Channel, Chid, Gpu, ENGINES};
use core::ops::DerefMut;

impl<S: DerefMut<Target = [Channel]>> Gpu<S> {
    /// A program has rung the doorbell of a channel: it has work. With `doorbell_ns` 0 the owner
    /// calls it after every submission.
    pub fn ring_doorbell<B: Bus>(&mut self, chid: Chid, bus: &mut B) {
        let Some(channel) = self.channels.get_mut(usize::from(chid.0)) else {
            return;
        };
        let engine = usize::from(channel.runlist);
        if engine < ENGINES && !channel.rung {
            channel.rung = true;
            channel.next_rung = self.runlists[engine].rung.replace(chid.0);
        }
        if channel.status == Status::Idle && channel.schedulable() {
            channel.status = Status::Pending;
            self.publish_channel(chid, bus);
        }
    }

    /// The channel of the next command, as [`Gpu::choose`] finds it, and whether a channel has more
    /// than one scan can fetch. Channels without work leave the list.
    pub(super) fn choose_rung<B: Bus>(
        &mut self,
        engine: usize,
        now: u64,
        bus: &mut B,
    ) -> (Option<Chid>, bool) {
        let resident = self.engines[engine].resident.map(|(context, _)| context);
        let in_slice = now < self.engines[engine].slice_end;
        let length = self.runlists[engine].length;
        let cursor = self.runlists[engine].cursor;
        let cursor = cursor.and_then(|id| Some(self.channel(Chid(id))?.place));
        // Places behind the cursor; all of the ring behind its own.
        let far = |place: u32| match cursor {
            Some(cursor) if place > cursor => place.saturating_sub(cursor.saturating_add(1)),
            Some(cursor) => length
                .saturating_add(place)
                .saturating_sub(cursor.saturating_add(1)),
            None => place,
        };
        let (mut best, mut unfinished) = (None, false);
        let (mut before, mut at) = (None::<u16>, self.runlists[engine].rung);
        // Each is in the list once.
        while let Some(id) = at {
            let Some(mut channel) = self.channel(Chid(id)) else {
                break;
            };
            at = channel.next_rung;
            if channel.schedulable() && channel.fetch.launch.is_none() {
                unfinished |= self.scan_channel(Chid(id), engine, bus);
                let Some(found) = self.channel(Chid(id)) else {
                    break;
                };
                channel = found;
                if channel.status == Status::Idle {
                    self.unlink(engine, before, id);
                    continue;
                }
            }
            if channel.schedulable() && channel.fetch.launch.is_some() {
                let same = self.context(Chid(id)) == resident;
                let rank = (same != in_slice, far(channel.place), id);
                if best.is_none_or(|best| rank < best) {
                    best = Some(rank);
                }
            }
            before = Some(id);
        }
        (best.map(|(_, _, id)| Chid(id)), unfinished)
    }

    /// Takes a channel from the list of rung doorbells; `before` is the one before it.
    fn unlink(&mut self, engine: usize, before: Option<u16>, id: u16) {
        let Some(channel) = self.channels.get_mut(usize::from(id)) else {
            return;
        };
        channel.rung = false;
        let next = channel.next_rung.take();
        match before.and_then(|id| self.channels.get_mut(usize::from(id))) {
            Some(before) => before.next_rung = next,
            None => self.runlists[engine].rung = next,
        }
    }
}
