// SPDX-License-Identifier: GPL-2.0

//! `[pure]` From scans of a channel to commands submitted and completed.
//!
//! A channel's commands lie in a ring. GP_PUT is where the program writes the next one, GP_GET
//! where the GPU fetches the next one. Fetched is not completed: while the channel has work, its
//! last command is taken to be under way. The length of the ring is only in the channel's instance
//! block; when an index falls, the length is taken to be the power of two above the largest index
//! seen.

use crate::policies::ScanResult;
use crate::regs::{ChannelState, Ring, Work};

/// So many scans in a row the indices of a channel are believed that has no work for the engine
/// although they differ: the engine takes some time to see what was submitted. Its client may write
/// both.
const BELIEVED: u8 = 3;

/// Where a channel was at the last scan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Commands {
    /// Nothing before the first scan.
    last: Option<Ring>,
    /// The largest index seen.
    top: u32,
    /// The last command fetched was not completed.
    under_way: bool,
    /// Scans in a row in which GP_PUT stayed, and the engine had nothing of the channel.
    unseen: u8,
}

impl Commands {
    /// Notes a scan: the state of the channel, and its ring if that could be read. Returns what
    /// happened since the last scan; `blocked` is never set here.
    ///
    /// Channels of other engines than compute show nothing. Commands that wait for a semaphore, and
    /// those left in a channel that was stopped, are neither pending nor done; those that only the
    /// indices tell of are pending for [`BELIEVED`] scans.
    pub fn note_scan(&mut self, state: ChannelState, ring: Option<Ring>) -> ScanResult {
        if !state.is_compute() {
            return ScanResult::default();
        }
        let work = state.work();
        let queued = ring.is_some_and(|ring| ring.put != ring.get);
        let stays = || {
            ring.zip(self.last)
                .is_some_and(|(ring, last)| ring.put == last.put)
        };
        self.unseen = match work {
            Work::None if queued && stays() => self.unseen.saturating_add(1),
            _ => 0,
        };
        let mut seen = ScanResult {
            pending: match work {
                Work::Waits | Work::Runs => true,
                Work::Acquires => false,
                Work::None => queued && state.is_schedulable() && self.unseen < BELIEVED,
            },
            ..ScanResult::default()
        };
        let Some(ring) = ring else {
            return seen;
        };
        let under_way = work != Work::None;
        self.top = self.top.max(ring.put).max(ring.get);
        if let Some(last) = self.last {
            let fetched = self.distance(last.get, ring.get);
            seen.submitted = self.distance(last.put, ring.put);
            seen.completed = fetched
                .saturating_add(self.under_way.into())
                .saturating_sub(under_way.into());
        }
        self.last = Some(ring);
        self.under_way = under_way;
        seen
    }

    /// Steps from one index to another.
    fn distance(&self, from: u32, to: u32) -> u32 {
        match to.checked_sub(from) {
            Some(steps) => steps,
            None => {
                let length = self
                    .top
                    .checked_add(1)
                    .and_then(u32::checked_next_power_of_two);
                let rest = length.unwrap_or(from).saturating_sub(from);
                rest.saturating_add(to)
            }
        }
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_account_commands))]
mod tests {
    use super::*;

    const IDLE: u32 = 0x0000_0001;
    const WAITS: u32 = 0x1100_0001;
    const ACQUIRES: u32 = 0x1300_0001;
    const RUNS: u32 = 0x1600_0001;
    const COPIES: u32 = 0x1601_0001;
    const FAULTED: u32 = 0x0040_0001;
    const DISABLED: u32 = 0x0000_0000;

    fn scan(commands: &mut Commands, word: u32, get: u32, put: u32) -> ScanResult {
        commands.note_scan(ChannelState::from_bits(word), Some(Ring { get, put }))
    }

    #[test]
    fn first_scan_counts_nothing() {
        let seen = scan(&mut Commands::default(), RUNS, 7, 9);
        assert_eq!((seen.submitted, seen.completed), (0, 0));
        assert!(seen.pending);
    }

    #[test]
    fn command_counts_as_completed_when_the_channel_is_idle_again() {
        let mut commands = Commands::default();
        scan(&mut commands, IDLE, 4, 4);
        let seen = scan(&mut commands, RUNS, 5, 5);
        assert_eq!((seen.submitted, seen.completed), (1, 0));
        let seen = scan(&mut commands, RUNS, 7, 8);
        assert_eq!((seen.submitted, seen.completed), (3, 2));
        let seen = scan(&mut commands, IDLE, 8, 8);
        assert_eq!((seen.submitted, seen.completed), (0, 2));
        assert!(!seen.pending);
    }

    #[test]
    fn index_that_falls_went_round_the_ring() {
        let mut commands = Commands::default();
        scan(&mut commands, IDLE, 30, 30);
        let seen = scan(&mut commands, IDLE, 3, 3);
        assert_eq!((seen.submitted, seen.completed), (5, 5));
    }

    #[test]
    fn work_that_is_not_fetched_is_pending() {
        let mut commands = Commands::default();
        assert!(scan(&mut commands, IDLE, 4, 5).pending);
        assert!(!scan(&mut commands, IDLE, 5, 5).pending);
        assert!(scan(&mut commands, WAITS, 5, 5).pending);
    }

    #[test]
    fn indices_alone_are_believed_for_some_scans_after_each_submission() {
        let mut commands = Commands::default();
        for put in [5, 6] {
            for _ in 0..BELIEVED {
                assert!(scan(&mut commands, IDLE, 4, put).pending);
            }
            for get in [4, 9, 3] {
                assert!(!scan(&mut commands, IDLE, get, put).pending);
            }
        }
        assert!(scan(&mut commands, WAITS, 4, 6).pending);
        assert!(scan(&mut commands, IDLE, 4, 6).pending);
    }

    #[test]
    fn channel_that_cannot_go_on_is_not_pending() {
        for word in [ACQUIRES, FAULTED, DISABLED] {
            assert!(!scan(&mut Commands::default(), word, 4, 5).pending);
        }
    }

    #[test]
    fn copies_show_nothing() {
        let mut commands = Commands::default();
        assert_eq!(scan(&mut commands, COPIES, 4, 5), ScanResult::default());
        assert_eq!(scan(&mut commands, COPIES, 9, 9), ScanResult::default());
    }

    #[test]
    fn ring_that_cannot_be_read_leaves_the_state() {
        let mut commands = Commands::default();
        let seen = commands.note_scan(ChannelState::from_bits(RUNS), None);
        assert!(seen.pending);
        assert!(
            !commands
                .note_scan(ChannelState::from_bits(IDLE), None)
                .pending
        );
    }
}
