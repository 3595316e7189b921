// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Channels whose commands are waited for.

use crate::ids::Chid;

/// Channels of one client whose commands are waited for.
const MAX_RUNNING: usize = 32;

/// Channels whose commands are waited for.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    channels: [Chid; MAX_RUNNING],
    count: usize,
}

impl Running {
    /// No channel.
    pub const NONE: Self = Self {
        channels: [Chid::from_bits(0); MAX_RUNNING],
        count: 0,
    };

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether no further channel is waited for.
    pub const fn is_full(&self) -> bool {
        self.count == MAX_RUNNING
    }

    /// The channels.
    pub fn all(&self) -> &[Chid] {
        self.channels.get(..self.count).unwrap_or(&[])
    }

    /// Whether a channel is among them.
    pub fn has(&self, chid: Chid) -> bool {
        self.all().contains(&chid)
    }

    /// Adds a channel; beyond [`is_full`](Self::is_full) it is not waited for.
    pub fn add(&mut self, chid: Chid) {
        if self.has(chid) {
            return;
        }
        if let Some(free) = self.channels.get_mut(self.count) {
            *free = chid;
            self.count = self.count.saturating_add(1);
        }
    }

    /// Forgets those of the channels of which `gone` says so.
    pub fn remove(&mut self, mut gone: impl FnMut(Chid) -> bool) {
        *self = self.only(|chid| !gone(chid));
    }

    /// Those of the channels of which `keep` says so.
    pub fn only(&self, mut keep: impl FnMut(Chid) -> bool) -> Self {
        let mut kept = Self::NONE;
        for chid in self.all().iter().filter(|chid| keep(**chid)) {
            kept.add(*chid);
        }
        kept
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engaged_running))]
mod tests {
    use super::*;

    #[test]
    fn channel_is_there_once_until_it_is_removed() {
        let (a, b) = (Chid::from_bits(3), Chid::from_bits(4));
        let mut running = Running::NONE;
        [a, b, a].iter().for_each(|chid| running.add(*chid));
        assert!(running.all().len() == 2);
        assert!(running.has(b));
        running.remove(|chid| chid == a);
        assert!(running.all().len() == 1);
        assert!(!running.has(a));
        assert!(running.only(|_| false).is_empty());
    }

    #[test]
    fn channels_beyond_the_most_are_not_waited_for() {
        let mut running = Running::NONE;
        // CAST: a few.
        (0..MAX_RUNNING).for_each(|number| running.add(Chid::from_bits(number as u32)));
        assert!(running.is_full());
        running.add(Chid::from_bits(99));
        assert!(running.all().len() == MAX_RUNNING);
        assert!(!running.has(Chid::from_bits(99)));
    }
}
