// SPDX-License-Identifier: GPL-2.0

//! Tests of the GPU's semantics: the order of commands.

#[cfg_attr(model_kunit, kernel::macros::kunit_tests(loga_model_scheduling))]
mod scheduling {
    use super::super::schedule::HIDES_FULL_SCAN_NS;
    use super::super::testbus::*;
    use super::super::*;

    fn runs(bus: &TestBus, index: usize) -> Option<(u64, u64, u16)> {
        let runs = bus
            .intervals
            .iter()
            .flatten()
            .filter(|interval| interval.kind == Kind::Run);
        runs.into_iter()
            .nth(index)
            .map(|run| (run.start, run.end, run.chid.0))
    }

    #[test]
    fn command_runs_to_completion_and_releases_its_semaphore() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b10, 0], &mut table, &mut bus);
        bus.submit(1, 500, 7);
        assert_eq!(gpu.advance(100, &mut bus), Some(600));
        assert_eq!(bus.status, 0x8000_2001);
        assert_eq!((bus.semaphore(1), bus.get(1)), (0, 1));
        assert_eq!(gpu.advance(599, &mut bus), Some(600));
        assert_eq!(bus.semaphore(1), 0);
        assert_eq!(gpu.advance(600, &mut bus), Some(610));
        assert_eq!((bus.semaphore(1), bus.completions[1]), (7, 1));
        assert_eq!(bus.status, 0x0000_2001);
        assert_eq!(runs(&bus, 0), Some((100, 600, 1)));
        assert!(gpu.mmio_read(regs::PFIFO_INTR) & regs::INTR_NON_STALL != 0);
    }

    #[test]
    fn late_caller_finds_registers_and_record_in_agreement() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b10, 0], &mut table, &mut bus);
        bus.submit(1, 500, 7);
        bus.submit(1, 500, 8);
        gpu.advance(0, &mut bus);
        gpu.advance(550, &mut bus);
        gpu.advance(1100, &mut bus);
        assert_eq!(runs(&bus, 0), Some((0, 550, 1)));
        assert_eq!(runs(&bus, 1), Some((550, 1100, 1)));
    }

    #[test]
    fn runlist_is_walked_round_robin() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b1110, 0], &mut table, &mut bus);
        for chid in [3, 1, 2, 2, 1] {
            bus.submit(chid, 10, 1);
        }
        run(&mut gpu, &mut bus, 0, 100);
        assert_eq!(runs(&bus, 0).map(|run| run.2), Some(1));
        assert_eq!(runs(&bus, 1).map(|run| run.2), Some(2));
        assert_eq!(runs(&bus, 2).map(|run| run.2), Some(3));
        assert_eq!(runs(&bus, 3).map(|run| run.2), Some(1));
        assert_eq!(runs(&bus, 4), Some((40, 50, 2)));
    }

    #[test]
    fn timeslice_lets_a_context_go_on_until_it_ends() {
        let timing = Timing {
            timeslice_ns: 25,
            ..FREE
        };
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(timing, [0b110, 0], &mut table, &mut bus);
        for _ in 0..5 {
            bus.submit(1, 10, 1);
        }
        bus.submit(2, 10, 1);
        run(&mut gpu, &mut bus, 0, 100);
        // Three commands start within 25 ns, the third one outlives the timeslice.
        assert_eq!(runs(&bus, 2).map(|run| run.2), Some(1));
        assert_eq!(runs(&bus, 3), Some((30, 40, 2)));
        assert_eq!(runs(&bus, 4).map(|run| run.2), Some(1));
    }

    #[test]
    fn switch_walks_save_switch_load_and_names_who_is_charged() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(SWITCH, [0b110, 0], &mut table, &mut bus);
        bus.submit(1, 100, 1);
        bus.submit(2, 100, 1);
        assert_eq!(gpu.advance(0, &mut bus), Some(10));
        assert_eq!(bus.status, 0x8001_a000);
        assert_eq!(gpu.advance(10, &mut bus), Some(110));
        assert_eq!(gpu.advance(110, &mut bus), Some(120));
        assert_eq!(bus.status, 0x8000_c001);
        assert_eq!(gpu.mmio_read(regs::FECS_LOADING), 0);
        assert_eq!(gpu.mmio_read(regs::FECS_CURRENT_CTX), 0x8000_0101);
        assert_eq!(gpu.advance(120, &mut bus), Some(130));
        assert_eq!(bus.status, 0x8002_e001);
        assert_eq!(gpu.mmio_read(regs::FECS_LOADING), regs::FECS_LOADING_BIT);
        assert_eq!(gpu.mmio_read(regs::FECS_ARB_CTX_PTR), 0x102);
        assert_eq!(gpu.advance(130, &mut bus), Some(140));
        assert_eq!(bus.status, 0x8002_a001);
        assert_eq!(gpu.advance(140, &mut bus), Some(240));
        assert_eq!(bus.status, 0x8000_2002);
        let switches =
            |index: usize| bus.intervals[index].map(|i| (i.start, i.end, i.chid.0, i.kind));
        assert_eq!(switches(2), Some((110, 120, 1, Kind::Switch)));
        assert_eq!(switches(3), Some((120, 140, 2, Kind::Switch)));
    }

    #[test]
    fn engine_is_busy_from_the_switch_into_the_command() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(SWITCH, [0b110, 0], &mut table, &mut bus);
        bus.submit(1, 100, 1);
        bus.submit(2, 100, 1);
        run(&mut gpu, &mut bus, 0, 300);
        assert_eq!(runs(&bus, 1), Some((140, 240, 2)));
        // Once after each command, not between a switch and what it is for.
        assert_eq!(bus.idle_shown, 2);
    }

    // Regression: the record began and ended intervals when the call began, which is up to some
    // microseconds before the registers change.
    #[test]
    fn record_follows_the_registers_when_calls_take_time() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b10, 0], &mut table, &mut bus);
        bus.lag = 3;
        bus.submit(1, 500, 7);
        assert_eq!(gpu.advance(100, &mut bus), Some(603));
        gpu.advance(603, &mut bus);
        assert_eq!(runs(&bus, 0), Some((103, 606, 1)));
    }

    #[test]
    fn command_submitted_during_another_is_found_in_time() {
        for (length, others) in [(10, 12), (HIDES_FULL_SCAN_NS, 2)] {
            let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
            let mut gpu = gpu(FREE, [0b110, 0], &mut table, &mut bus);
            bus.submit(1, length, 1);
            gpu.advance(0, &mut bus);
            // A channel that never ran, next to one that never stops.
            bus.submit(2, length, 1);
            let mut now = 0;
            for _ in 0..others {
                bus.submit(1, length, 1);
                now += length;
                gpu.advance(now, &mut bus);
            }
            let found = bus
                .intervals
                .iter()
                .flatten()
                .any(|run| run.chid == Chid(2));
            assert!(found || bus.status & 0xfff == 2);
        }
    }

    // Regression: a queue of commands passed over one submitted while it ran.
    #[test]
    fn command_submitted_during_a_queued_one_is_the_next() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let timing = Timing {
            doorbell_ns: 1000,
            ..FREE
        };
        let mut gpu = gpu(timing, [0b110, 0], &mut table, &mut bus);
        for _ in 0..5 {
            bus.submit(1, 10, 1);
        }
        bus.submit(2, 10, 1);
        run(&mut gpu, &mut bus, 0, 35);
        bus.submit(2, 10, 1);
        run(&mut gpu, &mut bus, 35, 60);
        assert_eq!(runs(&bus, 1).map(|run| run.2), Some(2));
        assert_eq!(runs(&bus, 3).map(|run| run.2), Some(1));
        assert_eq!(runs(&bus, 4), Some((40, 50, 2)));
    }

    /// The state of a channel as the registers show it.
    fn state(gpu: &TestGpu<'_>, chid: u16) -> u32 {
        gpu.mmio_read(entry(chid) + 4) & (regs::CHANNEL_BUSY | (0xf << regs::CHANNEL_STATUS_SHIFT))
    }

    // Regression: hardware sees the store to GP_PUT at once, the model saw it at the command's end.
    #[test]
    fn work_submitted_while_a_command_runs_is_shown_as_pending() {
        const IDLE: u32 = 0;
        const PENDING: u32 = regs::CHANNEL_BUSY | (1 << regs::CHANNEL_STATUS_SHIFT);
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let timing = Timing {
            doorbell_ns: 1_000,
            snoop_ns: 20_000,
            ..FREE
        };
        let mut gpu = gpu(timing, [0b110, 0], &mut table, &mut bus);
        bus.submit(2, 100, 1);
        run(&mut gpu, &mut bus, 0, 3_000);
        bus.submit(1, 100_000, 1);
        assert_eq!(gpu.advance(10_000, &mut bus), Some(20_000));
        bus.submit(2, 100, 1);
        assert_eq!(state(&gpu, 2), IDLE);
        assert_eq!(gpu.advance(20_000, &mut bus), Some(40_000));
        assert_eq!(state(&gpu, 2), PENDING);
        // The last scan does not delay the end of the command.
        run(&mut gpu, &mut bus, 40_000, 99_999);
        assert_eq!(gpu.advance(100_000, &mut bus), Some(110_000));
        run(&mut gpu, &mut bus, 110_000, 110_200);
        assert_eq!(runs(&bus, 2), Some((110_000, 110_100, 2)));
    }

    // Regression: between two commands a channel was shown without work until the next had begun.
    #[test]
    fn channel_with_commands_left_is_shown_with_work_all_along() {
        for doorbell_ns in [0, 10] {
            let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
            let timing = Timing {
                doorbell_ns,
                ..FREE
            };
            let mut gpu = gpu(timing, [0b10, 0], &mut table, &mut bus);
            for payload in 1..=4 {
                bus.submit(1, 100, payload);
            }
            gpu.ring_doorbell(Chid(1), &mut bus);
            bus.channels_idle = 0;
            run(&mut gpu, &mut bus, 0, 399);
            assert_eq!((bus.semaphore(1), bus.channels_idle), (3, 0));
            run(&mut gpu, &mut bus, 399, 500);
            assert_eq!((bus.semaphore(1), bus.channels_idle), (4, 1));
        }
    }

    // Regression: a switch of 5 us took 9 when each of its parts was noticed late.
    #[test]
    fn switch_seen_late_ends_as_planned() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(SWITCH, [0b110, 0], &mut table, &mut bus);
        bus.submit(1, 100, 1);
        run(&mut gpu, &mut bus, 0, 200);
        bus.submit(2, 100, 1);
        assert_eq!(gpu.advance(300, &mut bus), Some(310));
        assert_eq!(gpu.advance(314, &mut bus), Some(320));
        assert_eq!(gpu.advance(324, &mut bus), Some(330));
        assert_eq!(gpu.advance(330, &mut bus), Some(430));
    }

    #[test]
    fn resident_context_continues_without_a_switch() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(SWITCH, [0b10, 0], &mut table, &mut bus);
        bus.submit(1, 100, 1);
        run(&mut gpu, &mut bus, 0, 200);
        bus.submit(1, 100, 2);
        assert_eq!(gpu.advance(300, &mut bus), Some(400));
    }

    #[test]
    fn engines_run_side_by_side() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b10, 0b100], &mut table, &mut bus);
        bus.submit(1, 100, 1);
        bus.submit_to(2, crate::rm::submit::SUBCHANNEL_COPY, 50, 2);
        assert_eq!(gpu.advance(0, &mut bus), Some(50));
        assert_eq!(gpu.mmio_read(regs::ENGINE_STATUS), 0x8000_2001);
        assert_eq!(gpu.mmio_read(regs::ENGINE_STATUS + 8 * 4), 0x8000_2002);
        gpu.advance(50, &mut bus);
        assert_eq!((bus.semaphore(1), bus.semaphore(2)), (0, 2));
    }

    #[test]
    fn waiting_channel_shows_as_pending() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b110, 0], &mut table, &mut bus);
        bus.submit(1, 100, 1);
        bus.submit(2, 100, 1);
        gpu.advance(0, &mut bus);
        assert_eq!(gpu.mmio_read(entry(1) + 4) >> 24, 0x16);
        assert_eq!(gpu.mmio_read(entry(2) + 4) >> 24, 0x11);
        gpu.advance(100, &mut bus);
        assert_eq!(gpu.mmio_read(entry(1) + 4) >> 24, 0);
    }

    #[test]
    fn tsg_shares_a_context_and_shows_its_id() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(SWITCH, [0b110, 0], &mut table, &mut bus);
        set_entry(&mut bus, 0, 0, (2 << 26) | regs::RUNLIST_ENTRY_TSG | 9);
        set_entry(&mut bus, 0, 1, 1);
        set_entry(&mut bus, 0, 2, 2);
        submit_runlist(&mut gpu, 0, 3, &mut bus);
        bus.submit(1, 100, 1);
        bus.submit(2, 100, 1);
        gpu.advance(0, &mut bus);
        gpu.advance(10, &mut bus);
        assert_eq!(bus.status, 0x8000_3009);
        assert_eq!(gpu.advance(110, &mut bus), Some(210));
        assert_eq!(bus.status, 0x8000_3009);
    }

    #[test]
    fn acquire_waits_without_holding_the_engine() {
        use crate::rm::submit::*;
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b110, 0], &mut table, &mut bus);
        let words = [
            incrementing(0, method::SEMAPHORE_A, 4),
            0,
            SEMAPHORE as u32,
            5,
            SEMAPHORE_ACQUIRE,
        ];
        for (index, word) in words.iter().enumerate() {
            bus.poke(1, 64 + 4 * index as u64, *word);
        }
        bus.submit_raw(1, gp_entry(64, 5));
        bus.submit(1, 10, 1);
        bus.submit(2, 10, 1);
        gpu.advance(0, &mut bus);
        assert_eq!(gpu.mmio_read(entry(1) + 4) >> 24, 0x13);
        gpu.advance(10, &mut bus);
        assert_eq!(runs(&bus, 0), Some((0, 10, 2)));
        bus.poke(1, SEMAPHORE, 5);
        assert_eq!(gpu.advance(20, &mut bus), Some(30));
        assert_eq!(bus.status, 0x8000_2001);
    }

    #[test]
    fn nothing_is_due_without_an_enabled_channel() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b10, 0], &mut table, &mut bus);
        assert_eq!(gpu.advance(0, &mut bus), Some(10));
        gpu.mmio_write(entry(1) + 4, regs::CHANNEL_ENABLE_CLR, &mut bus);
        assert_eq!(gpu.advance(10, &mut bus), None);
    }

    #[test]
    fn glance_sees_new_work_of_channels_that_ran_only() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b110, 0], &mut table, &mut bus);
        bus.submit(1, 10, 1);
        run(&mut gpu, &mut bus, 0, 50);
        assert!(gpu.idle());
        assert!(!gpu.has_recent_work(60, &mut bus));
        bus.submit(2, 10, 1);
        assert!(!gpu.has_recent_work(70, &mut bus));
        bus.submit(1, 10, 1);
        assert!(gpu.has_recent_work(80, &mut bus));
    }

    #[test]
    fn endless_empty_commands_do_not_hold_the_caller() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b10, 0], &mut table, &mut bus);
        for _ in 0..7 {
            bus.submit(1, 0, 1);
        }
        assert!(gpu.advance(0, &mut bus).is_some());
        assert_eq!(bus.recorded, 7);
    }
}
