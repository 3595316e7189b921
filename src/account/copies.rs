// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Accounting of the copy engine, beside that of the compute engine and from fewer reads.
//!
//! With burst accounting its status word is read once in [`POLLS_PER_COPY_READ`] polls of the
//! compute word, with sparse accounting at each sample of it. A copy is seen to begin and to end up
//! to eight polls late, so its length is right on average, and copies shorter than eight polls are
//! found as often as they are long. With sparse accounting one sample stands for the same stratum
//! on both engines: what [`sparse`](super::sparse) says of errors holds for each.
//!
//! Copies never disturb the accounting of compute. If a word tells nothing, because its read was
//! refused or the device is gone, the copies of that phase are not measured: [`Copies::found`] has
//! nothing, and no time is charged, not even what was seen before in the phase. The next phase tries
//! again.

use super::{Accountant, PhaseTotals, Slot, UsedSlots};
use crate::regs::{CopyReader, Mmio, Occupant};
use crate::storage::Storage;
use crate::units::Ns;

/// Polls of the compute word to one read of the copy word. A power of two.
pub const POLLS_PER_COPY_READ: u32 = 8;

/// What the copy engine did in a phase.
#[derive(Clone, Copy)]
pub struct Copied<'a> {
    /// Where its time went.
    pub totals: PhaseTotals,
    /// What each channel did.
    pub slots: &'a [Slot],
    /// Which slots were used.
    pub used: &'a UsedSlots,
}

/// Accounts one copy engine.
pub struct Copies<S: Storage> {
    /// Nothing for a chip without a copy engine: then nothing is read.
    reader: Option<CopyReader>,
    slots: S::Of<Slot>,
    accountant: Accountant,
    last: Occupant,
    totals: PhaseTotals,
    /// All reads of the phase have told who is on the engine.
    intact: bool,
}

impl<S: Storage> Copies<S> {
    /// Accounts no engine yet; `slots` as for an [`Accountant`].
    pub const fn new(slots: S::Of<Slot>) -> Self {
        Self {
            reader: None,
            slots,
            accountant: Accountant::new(),
            last: Occupant::Idle,
            totals: PhaseTotals::ZERO,
            intact: false,
        }
    }

    /// Accounts the engine with this status word from the next phase on, if there is one.
    pub fn follow(&mut self, engine: Option<u8>) {
        self.reader = engine.map(CopyReader::new);
        self.intact = false;
    }

    /// Whether it accounts an engine.
    pub const fn follows(&self) -> bool {
        self.reader.is_some()
    }

    fn read(&mut self, mmio: &impl Mmio) -> Option<Occupant> {
        self.reader.as_mut()?.read(mmio)
    }

    /// Begins a polling phase of burst accounting. One read.
    pub fn begin(&mut self, mmio: &impl Mmio, now: Ns) {
        self.totals = PhaseTotals::ZERO;
        let found = self.read(mmio);
        self.intact = found.is_some();
        self.last = found.unwrap_or(Occupant::Idle);
        self.accountant.begin(&mut self.slots, now, self.last);
    }

    /// Looks at the engine: one read. The clock is asked only for a change.
    #[inline]
    pub fn poll(&mut self, mmio: &impl Mmio, clock: impl FnOnce() -> Ns) {
        if !self.intact {
            return;
        }
        let found = self.read(mmio);
        if found != Some(self.last) {
            self.change(found, clock());
        }
    }

    /// Notes a change. Not inlined, so that the poll loop keeps its values in registers.
    #[inline(never)]
    fn change(&mut self, found: Option<Occupant>, now: Ns) {
        match found {
            Some(occupant) => {
                self.last = occupant;
                self.accountant.observe(&mut self.slots, now, occupant);
            }
            None => self.intact = false,
        }
    }

    /// The engine was not looked at from `from` until now: [`Accountant::skip`].
    pub fn skip(&mut self, mmio: &impl Mmio, from: Ns, now: Ns) {
        if !self.intact {
            return;
        }
        match self.read(mmio) {
            Some(occupant) => {
                self.last = occupant;
                self.accountant.skip(&mut self.slots, from, now, occupant);
            }
            None => self.intact = false,
        }
    }

    /// Ends a polling phase of burst accounting.
    pub fn end(&mut self, now: Ns) {
        self.totals = self.accountant.end(&mut self.slots, now);
    }

    /// Begins a phase of sparse accounting.
    pub fn begin_samples(&mut self) {
        self.totals = PhaseTotals::ZERO;
        self.intact = self.reader.is_some();
        let current = self.accountant.current();
        self.accountant.begin(&mut self.slots, Ns::ZERO, current);
    }

    /// Takes a sample along with one of the compute engine that stood for `time`: one read.
    pub fn sample(&mut self, mmio: &impl Mmio, time: Ns) {
        if !self.intact {
            return;
        }
        match self.read(mmio) {
            Some(occupant) => self.accountant.sample(&mut self.slots, time, occupant),
            None => self.intact = false,
        }
    }

    /// Ends a phase of sparse accounting.
    pub fn end_samples(&mut self) {
        // All time is charged already.
        self.end(Ns::ZERO);
    }

    /// What is on the engine now, for a sample between polling phases: one read. Nothing if the
    /// word tells nothing.
    pub fn occupant(&mut self, mmio: &impl Mmio) -> Option<Occupant> {
        self.read(mmio)
    }

    /// Forgets the phase: there was none.
    pub fn forget(&mut self) {
        self.intact = false;
    }

    /// What the engine did in the phase that ended last; nothing if that is not known.
    pub fn found(&self) -> Option<Copied<'_>> {
        self.intact.then_some(Copied {
            totals: self.totals,
            slots: &self.slots,
            used: self.accountant.used_slots(),
        })
    }

    /// Register reads made so far.
    pub const fn reads(&self) -> u64 {
        match &self.reader {
            Some(reader) => reader.reads(),
            None => 0,
        }
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_account_copies))]
mod tests {
    use super::*;
    use crate::ids::Chid;
    use crate::storage::Borrowed;
    use core::cell::Cell;

    /// The status word of engine 4, and reads of it.
    struct Word {
        word: Cell<u32>,
        reads: Cell<u32>,
    }

    impl Mmio for Word {
        fn read32(&self, offset: u32) -> u32 {
            assert_eq!(offset, 0x2660);
            self.reads.set(self.reads.get().saturating_add(1));
            self.word.get()
        }
    }

    const IDLE: u32 = 0;

    const fn on(channel: u32) -> u32 {
        0x8000_2000 | channel
    }

    fn engine(word: u32) -> Word {
        Word {
            word: Cell::new(word),
            reads: Cell::new(0),
        }
    }

    fn with_copies(check: for<'a> fn(&mut Copies<Borrowed<'a>>)) {
        let mut slots = [Slot::default(); 8];
        let mut copies = Copies::<Borrowed<'_>>::new(&mut slots[..]);
        copies.follow(Some(4));
        check(&mut copies);
    }

    fn ns(time: u64) -> Ns {
        Ns::new(time)
    }

    /// Time of a channel; nothing if the phase was not measured.
    fn ran(copies: &Copies<Borrowed<'_>>, channel: u32) -> Option<Ns> {
        let slot = Chid::from_bits(channel).index();
        copies.found()?.slots.get(slot).map(|slot| slot.ran)
    }

    #[test]
    fn time_between_two_changes_is_charged_to_the_channel_between_them() {
        with_copies(|copies| {
            let engine = engine(on(2));
            copies.begin(&engine, ns(100));
            copies.poll(&engine, || ns(110));
            engine.word.set(on(3));
            copies.poll(&engine, || ns(120));
            engine.word.set(IDLE);
            copies.skip(&engine, ns(130), ns(150));
            copies.end(ns(200));
            assert_eq!(
                (ran(copies, 2), ran(copies, 3)),
                (Some(ns(20)), Some(ns(20)))
            );
            let totals = copies.found().map(|found| found.totals);
            let totals = totals.unwrap_or_default();
            assert_eq!((totals.length, totals.idle), (ns(100), ns(60)));
            assert_eq!(engine.reads.get(), 4);
            assert_eq!(copies.reads(), 4);
        });
    }

    #[test]
    fn clock_is_asked_for_changes_only() {
        with_copies(|copies| {
            let engine = engine(on(2));
            copies.begin(&engine, ns(0));
            let asked = Cell::new(0);
            let clock = || {
                asked.set(asked.get() + 1);
                ns(50)
            };
            copies.poll(&engine, clock);
            copies.poll(&engine, clock);
            assert_eq!(asked.get(), 0);
            engine.word.set(IDLE);
            copies.poll(&engine, clock);
            assert_eq!(asked.get(), 1);
        });
    }

    #[test]
    fn sample_charges_what_it_stands_for() {
        with_copies(|copies| {
            let engine = engine(on(2));
            copies.begin_samples();
            copies.sample(&engine, ns(300));
            copies.sample(&engine, ns(200));
            engine.word.set(IDLE);
            copies.sample(&engine, ns(400));
            engine.word.set(on(2));
            copies.sample(&engine, ns(100));
            copies.end_samples();
            assert_eq!(ran(copies, 2), Some(ns(600)));
            let found = copies.found();
            let totals = found.map(|found| found.totals).unwrap_or_default();
            assert_eq!((totals.length, totals.idle), (ns(1000), ns(400)));
            let runs = found.and_then(|found| found.slots.get(2).map(|slot| slot.runs));
            assert_eq!(runs, Some(2));
            // The next phase begins with nothing.
            copies.begin_samples();
            copies.end_samples();
            assert_eq!(ran(copies, 2), Some(Ns::ZERO));
        });
    }

    #[test]
    fn phase_with_a_word_that_tells_nothing_is_not_measured_and_the_next_one_is() {
        with_copies(|copies| {
            for refused in [0xbadf_1201, 0xffff_ffff] {
                let engine = engine(on(2));
                copies.begin(&engine, ns(0));
                engine.word.set(refused);
                copies.poll(&engine, || ns(50));
                let reads = engine.reads.get();
                engine.word.set(on(2));
                copies.poll(&engine, || ns(60));
                copies.end(ns(100));
                assert!(copies.found().is_none());
                // It is not read on in vain.
                assert_eq!(engine.reads.get(), reads);
                copies.begin_samples();
                engine.word.set(refused);
                copies.sample(&engine, ns(10));
                assert!(copies.found().is_none());
                engine.word.set(on(2));
                copies.begin(&engine, ns(200));
                copies.end(ns(300));
                assert_eq!(ran(copies, 2), Some(ns(100)));
            }
        });
    }

    #[test]
    fn chip_without_a_copy_engine_is_not_read() {
        with_copies(|copies| {
            copies.follow(None);
            let engine = engine(on(2));
            copies.begin(&engine, ns(0));
            copies.poll(&engine, || ns(1));
            copies.skip(&engine, ns(1), ns(2));
            copies.end(ns(3));
            copies.begin_samples();
            copies.sample(&engine, ns(4));
            copies.end_samples();
            assert!(copies.found().is_none());
            assert!(copies.occupant(&engine).is_none());
            assert_eq!(engine.reads.get(), 0);
        });
    }

    #[test]
    fn phase_that_never_began_is_not_measured() {
        with_copies(|copies| {
            copies.begin(&engine(on(2)), ns(0));
            copies.end(ns(10));
            copies.forget();
            assert!(copies.found().is_none());
        });
    }
}
