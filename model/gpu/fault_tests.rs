// SPDX-License-Identifier: GPL-2.0

//! Tests of the GPU's semantics: faults, preemption and runlists that change.

#[cfg_attr(model_kunit, kernel::macros::kunit_tests(loga_model_unhappy))]
mod unhappy {
    use super::super::testbus::*;
    use super::super::*;
    use crate::rm::submit;

    #[test]
    fn disabled_channel_finishes_its_command_and_stops() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b10, 0], &mut table, &mut bus);
        bus.submit(1, 100, 1);
        bus.submit(1, 100, 2);
        gpu.advance(0, &mut bus);
        gpu.mmio_write(entry(1) + 4, regs::CHANNEL_ENABLE_CLR, &mut bus);
        assert_eq!(gpu.advance(50, &mut bus), Some(100));
        assert!(gpu.mmio_read(entry(1) + 4) & regs::CHANNEL_BUSY != 0);
        assert_eq!(gpu.advance(100, &mut bus), None);
        assert_eq!((bus.recorded, bus.semaphore(1)), (1, 0));
        assert_eq!(gpu.mmio_read(entry(1) + 4), 0);
        gpu.mmio_write(entry(1) + 4, regs::CHANNEL_ENABLE_SET, &mut bus);
        assert_eq!(gpu.advance(200, &mut bus), Some(300));
        assert_eq!(bus.semaphore(1), 1);
    }

    #[test]
    fn bad_gpfifo_entry_faults_only_its_channel() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b110, 0], &mut table, &mut bus);
        bus.submit_raw(1, submit::gp_entry(0xdead_0000, 4));
        bus.submit(2, 100, 3);
        assert_eq!(gpu.advance(0, &mut bus), Some(100));
        gpu.advance(100, &mut bus);
        assert_eq!((bus.faults[1], bus.faults[2], bus.semaphore(2)), (1, 0, 3));
        assert!(gpu.mmio_read(entry(1) + 4) & regs::CHANNEL_PBDMA_FAULTED != 0);
        assert!(gpu.mmio_read(regs::PFIFO_INTR) & regs::INTR_PBDMA != 0);
        let pbdma = gpu.mmio_read(regs::PBDMA + regs::PBDMA_INTR);
        assert_eq!(pbdma, regs::PBDMA_INTR_METHOD);
        bus.submit(1, 100, 4);
        gpu.advance(200, &mut bus);
        assert_eq!(bus.faults[1], 1);
    }

    #[test]
    fn put_beyond_the_ring_faults() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b10, 0], &mut table, &mut bus);
        bus.set_put(1, ENTRIES);
        gpu.advance(0, &mut bus);
        assert_eq!(bus.faults[1], 1);
    }

    #[test]
    fn command_for_another_engine_faults() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b10, 0], &mut table, &mut bus);
        bus.submit_to(1, submit::SUBCHANNEL_COPY, 10, 1);
        gpu.advance(0, &mut bus);
        assert_eq!((bus.faults[1], bus.recorded), (1, 0));
    }

    #[test]
    fn command_longer_than_the_limit_faults() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b10, 0], &mut table, &mut bus);
        bus.submit(1, submit::COMMAND_NS_MAX + 1, 1);
        gpu.advance(0, &mut bus);
        assert_eq!(bus.faults[1], 1);
    }

    #[test]
    fn preempt_waits_for_the_command_and_unloads_the_context() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(SWITCH, [0b10, 0], &mut table, &mut bus);
        bus.submit(1, 100, 1);
        gpu.advance(0, &mut bus);
        gpu.advance(10, &mut bus);
        gpu.mmio_write(entry(1) + 4, regs::CHANNEL_ENABLE_CLR, &mut bus);
        gpu.mmio_write(regs::PREEMPT, 1, &mut bus);
        gpu.advance(50, &mut bus);
        assert_eq!(gpu.mmio_read(regs::PREEMPT), regs::PREEMPT_PENDING | 1);
        assert_eq!(gpu.advance(110, &mut bus), Some(120));
        assert_eq!(bus.status, 0x8000_c001);
        assert_eq!(gpu.advance(120, &mut bus), None);
        assert_eq!((bus.status, gpu.mmio_read(regs::PREEMPT)), (0, 1));
        assert!(!gpu.on_engine(Chid(1)));
    }

    #[test]
    fn preempt_of_an_absent_context_is_done_at_once() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(SWITCH, [0b110, 0], &mut table, &mut bus);
        bus.submit(1, 100, 1);
        gpu.advance(0, &mut bus);
        gpu.mmio_write(regs::PREEMPT, 2, &mut bus);
        assert_eq!(gpu.mmio_read(regs::PREEMPT), 2);
    }

    #[test]
    fn unbind_while_running_is_a_bind_error() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b10, 0], &mut table, &mut bus);
        bus.submit(1, 100, 1);
        gpu.advance(0, &mut bus);
        gpu.mmio_write(entry(1), 0, &mut bus);
        assert_eq!(
            gpu.mmio_read(regs::BIND_ERROR),
            regs::BIND_UNBIND_WHILE_RUNNING
        );
        assert!(gpu.mmio_read(regs::PFIFO_INTR) & regs::INTR_BIND_ERROR != 0);
        assert_eq!(gpu.mmio_read(entry(1)), 0x8000_0101);
        gpu.advance(100, &mut bus);
        assert_eq!(bus.semaphore(1), 1);
    }

    #[test]
    fn bind_without_userd_base_is_a_bind_error() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = Gpu::new(FREE, &mut table[..]);
        gpu.mmio_write(entry(1), 0x8000_0101, &mut bus);
        assert_eq!(
            gpu.mmio_read(regs::BIND_ERROR),
            regs::BIND_SNOOP_WITHOUT_BAR1
        );
        assert_eq!(gpu.mmio_read(entry(1)), 0);
    }

    #[test]
    fn second_bind_is_a_bind_error() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b10, 0], &mut table, &mut bus);
        gpu.mmio_write(entry(1), 0x8000_0109, &mut bus);
        assert_eq!(gpu.mmio_read(regs::BIND_ERROR), regs::BIND_NOT_UNBOUND);
    }

    #[test]
    fn runlist_with_a_channel_twice_is_a_scheduling_error() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b10, 0], &mut table, &mut bus);
        set_entry(&mut bus, 0, 1, 1);
        submit_runlist(&mut gpu, 0, 2, &mut bus);
        assert!(gpu.mmio_read(regs::PFIFO_INTR) & regs::INTR_SCHED_ERROR != 0);
        bus.submit(1, 100, 1);
        assert_eq!(gpu.advance(0, &mut bus), Some(100));
    }

    #[test]
    fn disabled_runlist_is_not_scheduled() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b10, 0], &mut table, &mut bus);
        gpu.mmio_write(regs::SCHED_DISABLE, 1, &mut bus);
        bus.submit(1, 100, 1);
        gpu.advance(0, &mut bus);
        assert_eq!(bus.status, 0);
        gpu.mmio_write(regs::SCHED_DISABLE, 0, &mut bus);
        gpu.advance(10, &mut bus);
        assert_eq!(bus.status, 0x8000_2001);
    }

    #[test]
    fn channel_missing_from_a_new_runlist_is_not_served() {
        let (mut bus, mut table) = (TestBus::new(), [Channel::NEW; CHANNELS]);
        let mut gpu = gpu(FREE, [0b110, 0], &mut table, &mut bus);
        set_entry(&mut bus, 0, 0, 2);
        submit_runlist(&mut gpu, 0, 1, &mut bus);
        bus.submit(1, 100, 1);
        bus.submit(2, 100, 1);
        gpu.advance(0, &mut bus);
        gpu.advance(100, &mut bus);
        assert_eq!((bus.semaphore(1), bus.semaphore(2)), (0, 1));
    }

    #[test]
    fn device_table_names_engines_and_runlists() {
        let mut table = [Channel::NEW; CHANNELS];
        let gpu = Gpu::new(FREE, &mut table[..]);
        let word = |index: u32| gpu.mmio_read(regs::DEVICE_INFO + 4 * index);
        assert_eq!(
            ((word(0) >> 26) & 15, (word(0) >> 21) & 15, word(1) >> 2),
            (0, 0, 0)
        );
        assert_eq!(
            ((word(2) >> 26) & 15, (word(2) >> 21) & 15, word(3) >> 2),
            (4, 1, 1)
        );
        let (boot_0, boot_42) = (
            gpu.mmio_read(regs::PMC_BOOT_0),
            gpu.mmio_read(regs::PMC_BOOT_42),
        );
        assert_eq!(((boot_0 >> 20) & 0x1ff, boot_0 & 0xff), (0xf1, 0xa1));
        assert_eq!(
            ((boot_42 >> 20) & 0x3ff, (boot_42 >> 12) & 0xff),
            (0xf1, 0xa1)
        );
    }
}
