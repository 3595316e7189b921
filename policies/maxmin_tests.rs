// SPDX-License-Identifier: GPL-2.0

//! Tests of the rules of `maxmin`, one for each.

use super::demand::Demand;
use super::maxmin::{MaxMin, Past};
use super::rivals::LONGEST_LEAD;
use super::{ClientState, Phase};
use crate::fair::WHOLE;
use crate::ids::GroupId;
use crate::units::{Ns, VTime, Weight};

#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_policy_maxmin_rules))]
mod tests {
    use super::*;

    /// 12 ms polled, 60 ms not, system time at one second.
    fn phase(busy_ms: u64) -> Phase {
        Phase {
            poll: Ns::from_ms(12),
            nonpoll: Ns::from_ms(60),
            direct: Ns::ZERO,
            lead: Ns::from_ms(72),
            idle: Ns::from_ms(12 - busy_ms),
            t_sys: VTime::new(1_000_000_000),
        }
    }

    /// A client that used `busy_ms`, waited for `waited_ms` and is `ahead_ms` ahead of the system.
    fn client(busy_ms: u64, waited_ms: u64, ahead_ms: u64) -> ClientState {
        let vtime = VTime::new(1_000_000_000 + Ns::from_ms(ahead_ms).get());
        let mut client = ClientState::new(GroupId::default(), Weight::DEFAULT, vtime);
        client.busy = Ns::from_ms(busy_ms);
        client.waited = Ns::from_ms(waited_ms);
        client
    }

    /// Decides, with what the clients used as the use of the GPU.
    fn decide(clients: &mut [ClientState]) -> VTime {
        let busy = clients.iter().map(|client| client.busy.get()).sum::<u64>();
        let phase = phase(busy / 1_000_000);
        MaxMin::decide(&phase, &mut Past::default(), clients)
    }

    fn want_percent(client: &ClientState) -> u64 {
        let demand = client.kept.of::<MaxMin>().copied().unwrap_or_default();
        demand.compute.want * 100 / WHOLE
    }

    #[test]
    fn demand_is_the_use_of_the_time_not_spent_waiting() {
        let mut clients = [client(4, 4, 0), client(8, 4, 0), client(0, 12, 0)];
        decide(&mut clients);
        assert_eq!(want_percent(&clients[0]), 50);
        assert_eq!(want_percent(&clients[1]), 100);
        // A client that has only waited may want everything.
        assert_eq!(want_percent(&clients[2]), 100);
    }

    #[test]
    fn wait_that_does_not_fit_beside_the_use_is_cut() {
        let mut clients = [client(4, 500, 0), client(8, 4, 0)];
        decide(&mut clients);
        assert_eq!(want_percent(&clients[0]), 100);
        let free = clients[0]
            .kept
            .of::<MaxMin>()
            .map(|demand: &Demand| demand.compute.free);
        assert_eq!(free, Some(Ns::from_ms(4)));
    }

    #[test]
    fn demand_of_a_throttled_client_is_kept() {
        let mut clients = [client(6, 6, 500), client(6, 6, 0)];
        decide(&mut clients);
        assert!(clients[0].throttled);
        clients[0].busy = Ns::ZERO;
        clients[0].waited = Ns::ZERO;
        decide(&mut clients);
        assert_eq!(want_percent(&clients[0]), 100);
    }

    // What the policy is for: `event` throttles the first client here.
    #[test]
    fn client_that_always_wants_more_runs_beside_one_that_wants_little() {
        let mut clients = [client(11, 1, 0), client(1, 0, 0)];
        for _ in 0..50 {
            decide(&mut clients);
            assert!(!clients[0].throttled);
        }
    }

    #[test]
    fn client_that_wants_little_and_hardly_waits_moves_on_with_time() {
        let mut clients = [client(11, 1, 0), client(1, 0, 0)];
        decide(&mut clients);
        assert_eq!(clients[1].vtime, VTime::new(1_072_000_000));
    }

    #[test]
    fn demand_of_a_returning_client_is_known_at_once() {
        let mut clients = [client(12, 0, 0), client(0, 0, 0)];
        for _ in 0..30 {
            decide(&mut clients);
        }
        clients[0].busy = Ns::from_ms(11);
        clients[1].busy = Ns::from_ms(1);
        clients[1].waited = Ns::from_ms(11);
        decide(&mut clients);
        assert_eq!(want_percent(&clients[1]), 100);
    }

    /// Two clients that always want to copy, the first of which the hardware gives five sixths, and
    /// one that always computes, in so many periods. Returns the copying time of both and the periods
    /// in which the third was throttled.
    fn copying(periods: u32) -> ([u64; 2], u32) {
        let mut clients = [client(0, 0, 0); 3];
        clients[2].busy = Ns::from_ms(12);
        let (mut copied, mut held, mut past) = ([0; 2], 0, Past::default());
        for _ in 0..periods {
            let throttled = [clients[0].throttled, clients[1].throttled];
            let parts = match throttled {
                [true, true] => [0, 0],
                [true, false] => [0, 12],
                [false, true] => [12, 0],
                [false, false] => [10, 2],
            };
            for at in 0..2 {
                clients[at].copied = Ns::from_ms(parts[at]);
                let waited = if throttled[at] { 0 } else { 12 - parts[at] };
                clients[at].waited_to_copy = Ns::from_ms(waited);
                copied[at] += parts[at];
            }
            held += u32::from(clients[2].throttled);
            let computed = if clients[2].throttled { 0 } else { 12 };
            clients[2].busy = Ns::from_ms(computed);
            MaxMin::decide(&phase(computed), &mut past, &mut clients);
        }
        (copied, held)
    }

    #[test]
    fn clients_that_always_want_to_copy_share_the_copy_engine() {
        let (copied, held) = copying(600);
        // A step of two periods ahead, and what it ran in the period before it was throttled.
        assert!(copied[0].abs_diff(copied[1]) <= 4 * 12);
        assert!(copied[0] + copied[1] == 600 * 12);
        // It wants nothing of that engine.
        assert_eq!(held, 0);
    }

    #[test]
    fn copies_for_which_there_is_room_change_nothing() {
        let mut with = [client(11, 1, 0), client(1, 0, 0)];
        let mut without = with;
        with[1].copied = Ns::from_ms(11);
        for _ in 0..20 {
            assert_eq!(decide(&mut with), decide(&mut without));
            assert_eq!(with.map(|one| one.vtime), without.map(|one| one.vtime));
        }
    }

    // It uses half of either engine: as much of each as others use of one.
    #[test]
    fn client_that_has_its_part_of_both_engines_is_as_far_as_those_that_have_it_of_one() {
        let mut clients = [client(6, 6, 0), client(6, 6, 0), client(0, 0, 0)];
        for at in [0, 2] {
            clients[at].copied = Ns::from_ms(6);
            clients[at].waited_to_copy = Ns::from_ms(6);
        }
        for _ in 0..200 {
            decide(&mut clients);
            assert!(clients.iter().all(|client| !client.throttled));
        }
        // It takes more of the copy engine, and is held though it computes no more than its part.
        clients[0].copied = Ns::from_ms(10);
        clients[2].copied = Ns::from_ms(2);
        let held = (0..20).any(|_| {
            decide(&mut clients);
            clients[0].throttled
        });
        assert!(held);
        assert!(!clients[1].throttled);
        assert!(!clients[2].throttled);
    }

    // The first is ahead on one engine, the second on the other.
    #[test]
    fn one_client_runs_whatever_each_engine_says() {
        let mut clients = [client(11, 1, 0), client(1, 11, 0)];
        let mut past = Past::default();
        for _ in 0..200 {
            for (at, copied) in [(0, 1), (1, 11)] {
                clients[at].copied = Ns::from_ms(copied);
                clients[at].waited_to_copy = Ns::from_ms(12 - copied);
            }
            MaxMin::decide(&phase(12), &mut past, &mut clients);
            assert!(clients.iter().any(|client| !client.throttled));
        }
    }

    // A sampled estimate of a ninth of the time: nothing, nothing, a third.
    #[test]
    fn client_with_noisy_waits_moves_on_with_time() {
        let mut clients = [client(8, 1, 0), client(1, 0, 0)];
        for period in 0..60u64 {
            clients[1].waited = Ns::from_ms(4 * (period % 3 / 2));
            decide(&mut clients);
        }
        let by = clients[1].vtime.get() - 1_000_000_000;
        assert!(by > Ns::from_ms(60 * 72 * 97 / 100).get());
    }

    #[test]
    fn client_ahead_of_its_equal_by_more_than_a_step_is_throttled() {
        // Both are entitled to a half: a step is two periods.
        for (ahead_ms, throttled) in [(143, false), (145, true)] {
            let mut clients = [client(6, 6, ahead_ms), client(6, 6, 0)];
            decide(&mut clients);
            assert_eq!(clients[0].throttled, throttled);
            assert!(!clients[1].throttled);
        }
    }

    #[test]
    fn client_of_three_times_the_weight_advances_a_third() {
        let mut clients = [client(6, 6, 0), client(6, 6, 0)];
        clients[0].weight = Weight::new(300).unwrap_or_default();
        decide(&mut clients);
        let advance = |client: &ClientState| client.vtime.get() - 1_000_000_000;
        // 36 ms used, of three quarters and of a quarter.
        assert!(advance(&clients[0]).abs_diff(48_000_000) < 1_000);
        assert!(advance(&clients[1]).abs_diff(144_000_000) < 1_000);
    }

    #[test]
    fn throttling_that_idles_the_gpu_ends_and_is_paid_off_before_the_next() {
        let mut past = Past::default();
        let mut clients = [client(6, 6, 5_000), client(6, 6, 0)];
        MaxMin::decide(&phase(12), &mut past, &mut clients);
        assert!(clients[0].throttled);
        clients[0].busy = Ns::ZERO;
        clients[0].waited = Ns::ZERO;
        clients[1].busy = Ns::from_ms(1);
        clients[1].waited = Ns::ZERO;
        // 11 of 12 ms were lost: 66 ms of the period, at 7.2 ms allowed in each.
        for _ in 0..9 {
            MaxMin::decide(&phase(1), &mut past, &mut clients);
            assert!(!clients[0].throttled);
            assert!(!past.spent.is_zero());
        }
        MaxMin::decide(&phase(1), &mut past, &mut clients);
        assert_eq!(past.spent, Ns::ZERO);
    }

    // Regression: any lead beyond three steps was forgiven, and a client that submitted seconds of
    // work with one store paid for some periods of it.
    #[test]
    fn debt_of_many_steps_is_paid() {
        let mut clients = [client(6, 6, 5_000), client(6, 6, 0)];
        let t_sys = decide(&mut clients);
        assert_eq!(t_sys, clients[1].vtime);
        let mut periods = 0;
        while clients[0].throttled {
            clients[0].busy = Ns::ZERO;
            clients[0].waited = Ns::ZERO;
            clients[1].busy = Ns::from_ms(12);
            clients[1].waited = Ns::ZERO;
            decide(&mut clients);
            periods += 1;
        }
        // Five seconds of virtual time, at two steps of a period in each: less a lead of 144 ms.
        assert!((30..=36).contains(&periods));
    }

    // Regression: the system's virtual time followed the greatest one at a distance of a minute.
    #[test]
    fn debt_of_any_length_is_paid_whole() {
        let (mut past, mut at) = (Past::default(), phase(12));
        let mut clients = [client(6, 6, 1_000_000), client(6, 6, 0)];
        let mut periods = 0;
        loop {
            at.t_sys = MaxMin::decide(&at, &mut past, &mut clients);
            if !clients[0].throttled {
                break;
            }
            assert_eq!(at.t_sys, clients[1].vtime);
            clients[0].busy = Ns::ZERO;
            clients[0].waited = Ns::ZERO;
            clients[1].busy = Ns::from_ms(12);
            clients[1].waited = Ns::ZERO;
            periods += 1;
        }
        // A thousand seconds of virtual time, at two steps of a period in each.
        assert!((6_930..=6_950).contains(&periods));
    }

    // Regression: nobody else was divided any more.
    #[test]
    fn debt_of_one_client_changes_nothing_between_others() {
        for may_throttle in [true, false] {
            let mut past = Past::default();
            if !may_throttle {
                past.spent = Ns::from_ms(100_000);
            }
            let mut clients = [
                client(0, 0, 1_000_000),
                client(6, 6, 2_000),
                client(6, 6, 0),
            ];
            clients[0].throttled = true;
            let t_sys = MaxMin::decide(&phase(12), &mut past, &mut clients);
            assert_eq!(t_sys, clients[2].vtime);
            assert_eq!(clients[1].throttled, may_throttle);
            let lead = clients[1].vtime.saturating_sub(t_sys).get();
            // Two seconds, of which 72 ms in ten seconds fade.
            let faded = if may_throttle { 0 } else { 14_400_000 };
            assert!((2_000_000_000 - lead).abs_diff(faded) < 1_000);
        }
    }

    // A client of the least weight beside heavy ones, and what it ran for a month.
    #[test]
    fn command_of_a_month_is_not_the_end_of_virtual_time() {
        let (mut past, mut at) = (Past::default(), phase(12));
        let mut clients = [client(0, 0, 0), client(6, 6, 0), client(6, 6, 0)];
        clients[0].weight = Weight::new(Weight::MIN).unwrap_or_default();
        for heavy in &mut clients[1..] {
            heavy.weight = Weight::new(Weight::MAX).unwrap_or_default();
        }
        (clients[0].throttled, clients[0].paid) = (true, Ns::from_ms(30 * 86_400_000));
        at.t_sys = MaxMin::decide(&at, &mut past, &mut clients);
        let lead = clients[0].vtime.saturating_sub(at.t_sys);
        assert_eq!(lead, LONGEST_LEAD);
        // The others go, and it runs: what follows has room.
        clients[0].paid = Ns::ZERO;
        for heavy in &mut clients[1..] {
            (heavy.busy, heavy.waited) = (Ns::ZERO, Ns::ZERO);
        }
        for _ in 0..2 {
            clients[0].busy = Ns::from_ms(12);
            at.t_sys = MaxMin::decide(&at, &mut past, &mut clients);
        }
        assert!(!clients[0].throttled);
        assert!(clients.iter().all(|one| one.vtime.get() < u64::MAX / 100));
    }

    #[test]
    fn debt_fades_while_throttling_is_forbidden() {
        let mut past = Past::default();
        // More than is paid off in the time of this test.
        past.spent = Ns::from_ms(100_000);
        let mut clients = [client(6, 6, 1_000), client(6, 6, 0)];
        let mut at = phase(12);
        for _ in 0..139 {
            at.t_sys = MaxMin::decide(&at, &mut past, &mut clients);
            assert!(!clients[0].throttled);
        }
        // Ten seconds later: a third.
        let lead = clients[0].vtime.saturating_sub(clients[1].vtime).get() / 1_000_000;
        assert!((300..=420).contains(&lead));
    }

    #[test]
    fn least_of_clients_that_are_all_throttled_runs_first() {
        // What the first has submitted before still runs.
        let mut clients = [client(12, 0, 2_000), client(0, 0, 1_000)];
        clients
            .iter_mut()
            .for_each(|client| client.throttled = true);
        decide(&mut clients);
        assert!(clients[0].throttled);
        assert!(!clients[1].throttled);
    }

    #[test]
    fn client_alone_is_never_throttled() {
        let mut clients = [client(12, 0, 5_000)];
        clients[0].throttled = true;
        decide(&mut clients);
        assert!(!clients[0].throttled);
    }
}
