// SPDX-License-Identifier: GPL-2.0

//! The state of a channel, second word of its entry in the channel table (NV_PCCSR) of
//! Kepler to Turing: whether it waits for its engine or is on it.
//!
//! On Kepler and Maxwell the word has the runlist of the channel. The manuals describe that field
//! as written only; nouveau and NVIDIA's gk20a driver change it by reading the word and writing it
//! back. That it can be read is *unverified*. Where it reads as zero, LoGA takes channels of copy
//! engines for channels of the compute engine.
//!
//! Sources: gk20a `ccsr`; gv100 `dev_fifo` (NV_PCCSR_CHANNEL); nouveau
//! `engine/fifo/gk104.c`.

use super::register::register;
use super::{DeviceGone, Mmio};
use crate::ids::Chid;

register! {
    /// First word of the entry of a channel. That BIND and the address can be read back, and are
    /// zero after unbinding, is *unverified* on hardware; nouveau and gk20a write them so.
    /// Source: gk20a `ccsr_channel_inst`.
    pub(super) ChannelInst = NV_PCCSR_CHANNEL_INST[Chid, stride = 8] @ 0x80_0000 {
        /// BIND: an instance block is bound.
        31:31 bind => bool;
        /// INST_PTR and TARGET: address and memory kind of the instance block.
        29:0 context;
        /// INST_PTR: its address in pages of 4 KiB.
        27:0 page;
    }

    /// Second word of the entry of a channel: its state. Source: gk20a `ccsr_channel`; FAULTED:
    /// gv100 `dev_fifo`.
    pub ChannelState = NV_PCCSR_CHANNEL[Chid, stride = 8] @ 0x80_0004 {
        /// BUSY: work of the channel is executing or waits.
        28:28 busy => bool;
        /// STATUS.
        27:24 status;
        /// PBDMA_FAULTED and ENG_FAULTED: the channel was stopped (Turing; none before that).
        23:22 faulted;
        /// RUNLIST: the runlist that it belongs to.
        19:16 runlist;
        /// ENABLE: the scheduler may consider the channel.
        0:0 enable => bool;
    }
}

/// The runlist of compute and graphics.
const COMPUTE_RUNLIST: u32 = 0;

/// What a channel has to do with its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It has no work.
    None,
    /// It has work and is not on the engine.
    Waits,
    /// Its work waits for a semaphore, not for the engine.
    Acquires,
    /// Its context is on the engine.
    Runs,
}

impl ChannelState {
    /// The instance block that is bound to the id of a channel: address and memory kind. Nothing if
    /// the channel does not exist. One read.
    ///
    /// # Errors
    ///
    /// [`DeviceGone`] for all ones.
    #[inline]
    pub fn bound(mmio: &impl Mmio, chid: Chid) -> Result<Option<u32>, DeviceGone> {
        let inst = ChannelInst::read(mmio, chid)?;
        let exists = inst.bind() || inst.page() != 0;
        Ok(exists.then(|| inst.context()))
    }

    /// What it has to do with its engine.
    pub const fn work(self) -> Work {
        if !self.busy() {
            return Work::None;
        }
        match self.status() {
            // IDLE.
            0 => Work::None,
            // ON_PBDMA_AND_ENG, the states ON_ENG, and the same with a reload: a channel
            // that was disabled meanwhile still runs its command to the end.
            0x6..=0x9 | 0xb..=0xf => Work::Runs,
            _ if !self.enable() => Work::None,
            // PENDING_ACQUIRE, with and without a reload.
            0x3 | 0x4 => Work::Acquires,
            // PENDING and ON_PBDMA, with and without a reload: commands are fetched
            // while the engine still runs those of another.
            _ => Work::Waits,
        }
    }

    /// Whether the scheduler may consider it.
    pub const fn is_schedulable(self) -> bool {
        self.enable() && self.faulted() == 0
    }

    /// Whether it belongs to the compute engine.
    pub const fn is_compute(self) -> bool {
        self.runlist() == COMPUTE_RUNLIST
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_regs_channel_state))]
mod tests {
    use super::super::FakeMmio;
    use super::*;

    fn work(word: u32) -> Work {
        ChannelState::from_bits(word).work()
    }

    #[test]
    fn state_of_a_channel_is_the_second_word_of_its_entry() {
        let mmio = FakeMmio::new([(0x80_001c, 0x1100_0001)]);
        let chid = Chid::from_bits(3);
        assert_eq!(
            ChannelState::read(&mmio, chid),
            Ok(ChannelState::from_bits(0x1100_0001))
        );
        assert_eq!(mmio.reads(), 1);
    }

    #[test]
    fn state_of_all_ones_is_a_lost_device() {
        let mmio = FakeMmio::new([(0x80_0004, 0xffff_ffff)]);
        let chid = Chid::from_bits(0);
        assert_eq!(ChannelState::read(&mmio, chid), Err(DeviceGone));
    }

    #[test]
    fn work_of_every_status_is_as_the_manual_says() {
        let expected = [
            (0x0, Work::None),
            (0x1, Work::Waits),
            (0x2, Work::Waits),
            (0x3, Work::Acquires),
            (0x4, Work::Acquires),
            (0x5, Work::Waits),
            (0x6, Work::Runs),
            (0x7, Work::Runs),
            (0x8, Work::Runs),
            (0x9, Work::Runs),
            (0xa, Work::Waits),
            (0xb, Work::Runs),
            (0xc, Work::Runs),
            (0xd, Work::Runs),
            (0xe, Work::Runs),
        ];
        for (status, expected) in expected {
            assert_eq!(work(0x1000_0001 | (status << 24)), expected);
        }
    }

    #[test]
    fn work_of_a_channel_that_is_not_busy_is_none() {
        for status in 0..0xf {
            assert_eq!(work(0x0000_0001 | (status << 24)), Work::None);
        }
    }

    #[test]
    fn work_of_a_disabled_channel_does_not_wait() {
        assert_eq!(work(0x1100_0000), Work::None);
        assert_eq!(work(0x1300_0000), Work::None);
        assert_eq!(work(0x1700_0000), Work::Runs);
    }

    #[test]
    fn channel_that_is_disabled_or_faulted_is_not_schedulable() {
        let is_schedulable = |word| ChannelState::from_bits(word).is_schedulable();
        assert!(is_schedulable(0x1100_0001));
        assert!(!is_schedulable(0x1100_0000));
        assert!(!is_schedulable(0x0040_0001));
        assert!(!is_schedulable(0x0080_0001));
    }

    #[test]
    fn work_on_a_copy_engine_is_not_that_of_compute() {
        let copies = ChannelState::from_bits(0x1101_0001);
        assert_eq!((copies.runlist(), copies.work()), (1, Work::Waits));
        assert!(!copies.is_compute());
        let computes = ChannelState::from_bits(0x1100_0001);
        assert_eq!((computes.runlist(), computes.work()), (0, Work::Waits));
        assert!(computes.is_compute());
    }
}
