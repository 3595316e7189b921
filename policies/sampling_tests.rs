// SPDX-License-Identifier: GPL-2.0

//! Tests of the rules of `sampling`, one for each.

use super::sampling::{Sampling, Season, Stage, MAX_DRAIN};
use super::{ClientState, Next, Scan};
use crate::ids::GroupId;
use crate::units::{Ns, VTime, Weight};

/// Two clients of 12 channels, scanned when the policy asks for it.
struct Bench {
    clients: [ClientState; 2],
    season: Season,
    now: Ns,
    t_sys: VTime,
    last: Next,
    overdue: u32,
}

impl Bench {
    fn new() -> Self {
        let client = |id| {
            let mut client =
                ClientState::new(GroupId::new(id), Weight::DEFAULT, VTime::new(1_000_000_000));
            client.channels = 12;
            client
        };
        Self {
            clients: [client(1), client(2)],
            season: Season::default(),
            now: Ns::from_ms(1_000),
            t_sys: VTime::new(1_000_000_000),
            last: Next::default(),
            overdue: 0,
        }
    }

    /// A scan now; then time moves on to the next.
    fn scan(&mut self) {
        let scan = Scan {
            now: self.now,
            since: Ns::from_ms(1),
            slice: Ns::from_ms(1),
            ratio: 5,
            t_sys: self.t_sys,
        };
        self.last = Sampling::decide(&scan, &mut self.season, &mut self.clients);
        self.t_sys = self.last.t_sys;
        self.overdue += u32::from(self.last.overdue);
        self.now = self.last.at;
    }

    /// A scan that shows what these clients completed; a client that runs has work.
    fn scan_after(&mut self, completed: [u32; 2]) {
        for (client, completed) in self.clients.iter_mut().zip(completed) {
            let runs = !client.throttled;
            client.seen.completed = if runs { completed } else { 0 };
            client.seen.pending = runs && completed > 0;
        }
        self.scan();
    }

    fn throttled(&self) -> [bool; 2] {
        [self.clients[0].throttled, self.clients[1].throttled]
    }

    /// From a free run to the turn of the first client.
    fn begin_first_slice(&mut self) {
        self.scan_after([0, 0]);
        self.scan_after([0, 0]);
    }

    /// Scans until all clients have had their turn, each with `completed` commands a millisecond.
    /// Returns the scans that each of them had alone.
    fn season(&mut self, completed: [u32; 2]) -> [u32; 2] {
        let mut alone = [0, 0];
        for _ in 0..200 {
            match self.throttled() {
                [false, true] => alone[0] += 1,
                [true, false] => alone[1] += 1,
                _ => {}
            }
            self.scan_after(completed);
            // Only after the last turn the next scan is far away.
            if self.last.at.saturating_sub(Ns::from_ms(1)) > Ns::from_ms(1_000)
                && self.is_free_run()
            {
                break;
            }
        }
        alone
    }

    fn is_free_run(&self) -> bool {
        matches!(self.season.stage, Stage::Start | Stage::FreeRun { .. })
    }

    /// When the free run began.
    fn free_since(&self) -> u64 {
        match self.season.stage {
            Stage::FreeRun { since } => since.get(),
            _ => 0,
        }
    }
}

#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_policy_sampling_rules))]
mod tests {
    use super::*;

    #[test]
    fn barrier_throttles_all_clients() {
        let mut bench = Bench::new();
        bench.scan_after([1, 1]);
        assert_eq!(bench.throttled(), [true, true]);
    }

    #[test]
    fn drain_lasts_until_no_channel_has_work() {
        let mut bench = Bench::new();
        bench.scan();
        for _ in 0..20 {
            bench.clients[1].seen.pending = true;
            bench.scan();
            assert_eq!(bench.throttled(), [true, true]);
        }
        bench.clients[1].seen.pending = false;
        bench.scan();
        assert_eq!(bench.throttled(), [false, true]);
        assert_eq!(bench.overdue, 0);
    }

    #[test]
    fn drain_that_does_not_end_is_counted_and_charged() {
        let mut bench = Bench::new();
        bench.scan();
        let began = bench.now;
        while bench.overdue == 0 {
            bench.clients[0].seen.blocked = true;
            bench.clients[1].seen.pending = true;
            bench.scan();
            assert!(bench.now < began.saturating_add(Ns::from_ms(20_000)));
        }
        // No client can be sampled alone: a free run, without the client that has the endless
        // command.
        assert!(bench.is_free_run());
        assert_eq!(bench.overdue, 1);
        assert!(!bench.clients[0].throttled);
        let charged = bench.clients[1]
            .vtime
            .saturating_sub(bench.clients[0].vtime);
        assert!(charged.get() >= MAX_DRAIN.get());
    }

    #[test]
    fn turns_go_in_the_order_of_ids_and_the_others_are_throttled() {
        let mut bench = Bench::new();
        bench.begin_first_slice();
        assert_eq!(bench.throttled(), [false, true]);
        while bench.throttled() == [false, true] {
            bench.scan_after([1, 1]);
        }
        // What the first had under way ends before the second begins.
        assert_eq!(bench.throttled(), [true, true]);
        bench.scan_after([0, 0]);
        assert_eq!(bench.throttled(), [true, false]);
    }

    #[test]
    fn turn_lasts_a_millisecond_for_each_channel() {
        let mut bench = Bench::new();
        bench.clients[1].channels = 3;
        let alone = bench.season([1, 1]);
        assert_eq!(alone, [12, 3]);
    }

    #[test]
    fn turn_with_96_commands_ends_early() {
        let mut bench = Bench::new();
        bench.begin_first_slice();
        let mut scans = 0;
        while bench.throttled() == [false, true] {
            bench.scan_after([32, 0]);
            scans += 1;
        }
        assert_eq!(scans, 3);
    }

    #[test]
    fn client_without_channels_has_no_turn() {
        let mut bench = Bench::new();
        bench.clients[0].channels = 0;
        bench.begin_first_slice();
        assert_eq!(bench.throttled(), [true, false]);
    }

    #[test]
    fn free_run_lasts_ratio_times_as_long_as_sampling() {
        let mut bench = Bench::new();
        let began = bench.now;
        bench.season([1, 1]);
        assert!(bench.is_free_run());
        // The scan that ended it was a millisecond after the one before.
        let run = bench.last.at;
        let season = bench.free_since() - began.get();
        assert_eq!(run.get() - bench.free_since(), 5 * season);
        assert_eq!(bench.throttled(), [false, false]);
    }

    #[test]
    fn vtime_advances_by_average_length_over_the_sum() {
        let mut bench = Bench::new();
        // One command a millisecond and four: averages as four to one.
        bench.season([1, 4]);
        let run = bench.last.at.get() - bench.free_since();
        // Nothing was to be charged before the first free run.
        assert_eq!(bench.clients[0].vtime, bench.clients[1].vtime);
        bench.season([1, 4]);
        let ahead = |at: usize| bench.clients[at].vtime.get() - 1_000_000_000;
        // The scans at the ends of turns count half.
        assert!(ahead(0).abs_diff(run * 4 / 5) < run / 20);
        assert!(ahead(1).abs_diff(run / 5) < run / 20);
    }

    #[test]
    fn client_far_ahead_is_throttled_in_the_free_run_and_has_no_turn() {
        let mut bench = Bench::new();
        bench.clients[0].vtime = VTime::new(100_000_000_000);
        bench.season([1, 1]);
        assert_eq!(bench.throttled(), [true, false]);
        let alone = bench.season([1, 1]);
        assert_eq!(alone[0], 0);
        assert!(alone[1] > 0);
    }

    #[test]
    fn client_throttled_in_the_free_run_counts_in_the_minimum() {
        let mut bench = Bench::new();
        bench.clients[0].vtime = VTime::new(100_000_000_000);
        bench.season([1, 1]);
        // The other one catches up; the system time is the least of both, not of the clients that
        // ran.
        for _ in 0..10_000 {
            bench.season([1, 1]);
            let least = bench.clients[0].vtime.min(bench.clients[1].vtime);
            assert!(bench.t_sys <= least);
            if !bench.clients[0].throttled {
                break;
            }
        }
        assert!(!bench.clients[0].throttled);
    }

    #[test]
    fn client_without_commands_is_lifted_and_counts_in_no_minimum() {
        let mut bench = Bench::new();
        bench.season([1, 0]);
        bench.season([1, 0]);
        assert!(bench.t_sys > VTime::new(1_000_000_000));
        assert_eq!(bench.clients[1].vtime, bench.t_sys);
        assert_eq!(bench.clients[0].vtime, bench.t_sys);
    }

    #[test]
    fn free_run_on_an_unused_gpu_throttles_no_client() {
        let mut bench = Bench::new();
        bench.clients[0].vtime = VTime::new(100_000_000_000);
        bench.season([0, 0]);
        assert_eq!(bench.throttled(), [false, false]);
    }

    // Regression: charged for the free run to come, the length of which depends on which clients
    // are sampled, the client of long commands got 31 % of it.
    #[test]
    fn clients_that_always_want_more_share_equally_whatever_their_commands() {
        let mut bench = Bench::new();
        let (mut used, mut before) = ([0u64; 2], bench.now);
        for _ in 0..20_000 {
            // Commands of a millisecond, and of a tenth of that.
            bench.scan_after([1, 10]);
            let time = bench.now.saturating_sub(before).get();
            before = bench.now;
            // Together they take turns, command by command.
            let parts = match bench.throttled() {
                [false, false] => [10, 1],
                [false, true] => [11, 0],
                [true, false] => [0, 11],
                _ => [0, 0],
            };
            used[0] += time * parts[0] / 11;
            used[1] += time * parts[1] / 11;
        }
        let share = used[0] * 1000 / (used[0] + used[1]);
        assert!((480..=520).contains(&share));
    }
}
