// SPDX-License-Identifier: GPL-2.0

//! `[pure]` `accounting=burst`: the engine is polled without a break during polling phases.

use super::{clear, goes_on, slot_of, PhaseTotals, Slot, UsedSlots};
use crate::regs::Occupant;
use crate::units::Ns;

/// Accounts one engine. One per GPU, used by its poller only.
///
/// The table of slots belongs to the caller and is passed in; its length decides
/// which occupants are known: [`MAX_CHANNELS`](crate::ids::MAX_CHANNELS) for channels,
/// [`MAX_SLOTS`](super::MAX_SLOTS) for groups too.
pub struct Accountant {
    current: Occupant,
    /// Up to when time has been charged.
    since: Ns,
    totals: PhaseTotals,
    used: UsedSlots,
}

impl Accountant {
    /// An accountant that has seen nothing.
    pub const fn new() -> Self {
        Self {
            current: Occupant::Idle,
            since: Ns::ZERO,
            totals: PhaseTotals::ZERO,
            used: UsedSlots::new(),
        }
    }

    /// Begins a polling phase in which `occupant` is there from `now` on.
    ///
    /// Clears the slots of the last phase.
    pub fn begin(&mut self, slots: &mut [Slot], now: Ns, occupant: Occupant) {
        clear(slots, &mut self.used);
        self.totals = PhaseTotals::default();
        self.current = occupant;
        self.since = now;
    }

    /// Notes that `occupant` was there at `now`. Does nothing if it was there before.
    ///
    /// A clock that goes backwards charges no time.
    #[inline]
    pub fn observe(&mut self, slots: &mut [Slot], now: Ns, occupant: Occupant) {
        if occupant == self.current {
            return;
        }
        self.charge(slots, now);
        let is_new = !goes_on(self.current, occupant);
        self.current = occupant;
        if !is_new {
            return;
        }
        self.totals.switches = self.totals.switches.saturating_add(1);
        if let Some(slot) = slot_of(occupant).and_then(|index| slots.get_mut(index)) {
            slot.runs = slot.runs.saturating_add(1);
            self.used.mark(slot_of(occupant));
        }
    }

    /// Notes that the poller did not poll from `from` on until now, when `occupant` is there.
    ///
    /// An occupant that is there at both ends is charged for the gap: otherwise a client that keeps
    /// the poller's processor busy while its kernels run would not pay for them. Of two different
    /// occupants each is charged the half at its end: the instant of the change is not known, and
    /// the middle is right on average. If the engine was idle before, the new occupant is charged
    /// for the whole gap: the client that shares the processor with the poller submitted the work
    /// at its beginning.
    pub fn skip(&mut self, slots: &mut [Slot], from: Ns, now: Ns, occupant: Occupant) {
        let half = match self.current {
            Occupant::Idle => Ns::ZERO,
            _ => Ns::new(now.saturating_sub(from).get() / 2),
        };
        self.observe(slots, from.saturating_add(half), occupant);
    }

    /// Charges `time` to the occupant that a sample has found: for an engine that is sampled and
    /// not polled. The phase is as long as the times of its samples.
    pub fn sample(&mut self, slots: &mut [Slot], time: Ns, occupant: Occupant) {
        let found = self.since;
        self.observe(slots, found, occupant);
        self.charge(slots, found.saturating_add(time));
    }

    /// The occupant at the last note.
    pub const fn current(&self) -> Occupant {
        self.current
    }

    /// Ends the phase: the occupant is charged up to `now`.
    pub fn end(&mut self, slots: &mut [Slot], now: Ns) -> PhaseTotals {
        self.charge(slots, now);
        self.totals
    }

    /// Indices of the slots that were used in this phase, ascending.
    ///
    /// Takes time in proportion to the slots that were used, not to all slots: it runs between two
    /// polling phases, when the poller does not watch the engine.
    pub fn used(&self) -> impl Iterator<Item = usize> + '_ {
        self.used.iter()
    }

    /// The slots that were used in this phase.
    pub const fn used_slots(&self) -> &UsedSlots {
        &self.used
    }

    /// Charges the time since the last change to the current occupant.
    fn charge(&mut self, slots: &mut [Slot], now: Ns) {
        let time = now.saturating_sub(self.since);
        self.since = self.since.max(now);
        self.totals.length = self.totals.length.saturating_add(time);
        if self.current == Occupant::Idle {
            self.totals.idle = self.totals.idle.saturating_add(time);
            return;
        }
        match slot_of(self.current).and_then(|index| slots.get_mut(index)) {
            Some(slot) => {
                slot.ran = slot.ran.saturating_add(time);
                slot.note_context(self.current);
                self.totals.ran = self.totals.ran.saturating_add(time);
                self.used.mark(slot_of(self.current));
            }
            None => self.totals.unknown = self.totals.unknown.saturating_add(time),
        }
    }
}

impl Default for Accountant {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_account_burst))]
mod tests {
    use super::*;
    use crate::ids::{Chid, TsgId};

    const A: Occupant = channel(1);
    const B: Occupant = channel(2);

    const fn channel(id: u32) -> Occupant {
        Occupant::Channel(Chid::from_bits(id))
    }

    /// Slots for the first few channels: enough for a test.
    fn slots() -> [Slot; 8] {
        [Slot::default(); 8]
    }

    const fn tsg(id: u32, context: u32) -> Occupant {
        let id = TsgId::from_bits(id);
        Occupant::Tsg { id, context }
    }

    fn ns(time: u64) -> Ns {
        Ns::new(time)
    }

    #[test]
    fn time_between_two_switches_is_charged_to_their_occupant() {
        let (mut slots, mut accountant) = (slots(), Accountant::new());
        accountant.begin(&mut slots, ns(100), B);
        accountant.observe(&mut slots, ns(110), A);
        accountant.observe(&mut slots, ns(150), B);
        let totals = accountant.end(&mut slots, ns(160));
        assert_eq!(slots[1].ran, ns(40));
        assert_eq!(slots[2].ran, ns(20));
        assert_eq!(totals.switches, 2);
    }

    #[test]
    fn time_without_busy_is_charged_to_no_channel() {
        let (mut slots, mut accountant) = (slots(), Accountant::new());
        accountant.begin(&mut slots, ns(0), A);
        accountant.observe(&mut slots, ns(10), Occupant::Idle);
        let totals = accountant.end(&mut slots, ns(100));
        assert_eq!(totals.idle, ns(90));
        assert_eq!(slots[1].ran, ns(10));
    }

    #[test]
    fn channel_busy_at_the_end_is_charged_to_the_end() {
        let (mut slots, mut accountant) = (slots(), Accountant::new());
        accountant.begin(&mut slots, ns(0), Occupant::Idle);
        accountant.observe(&mut slots, ns(90), A);
        accountant.end(&mut slots, ns(100));
        assert_eq!(slots[1].ran, ns(10));
    }

    #[test]
    fn channel_running_all_along_gets_the_whole_phase() {
        let (mut slots, mut accountant) = (slots(), Accountant::new());
        accountant.begin(&mut slots, ns(0), A);
        accountant.observe(&mut slots, ns(50), A);
        let totals = accountant.end(&mut slots, ns(100));
        assert_eq!(
            slots[1],
            Slot {
                ran: ns(100),
                ..Slot::default()
            }
        );
        assert_eq!(totals.ran, totals.length);
    }

    #[test]
    fn gap_between_two_occupants_is_charged_by_halves() {
        let (mut slots, mut accountant) = (slots(), Accountant::new());
        accountant.begin(&mut slots, ns(100), A);
        accountant.skip(&mut slots, ns(120), ns(170), B);
        let totals = accountant.end(&mut slots, ns(200));
        assert_eq!(slots[1].ran, ns(45));
        assert_eq!(
            slots[2],
            Slot {
                ran: ns(55),
                runs: 1,
                ..Slot::default()
            }
        );
        assert_eq!(totals.length, ns(100));
        assert_eq!(totals.switches, 1);
    }

    #[test]
    fn gap_that_begins_idle_is_charged_to_the_new_occupant() {
        let (mut slots, mut accountant) = (slots(), Accountant::new());
        accountant.begin(&mut slots, ns(100), Occupant::Idle);
        accountant.skip(&mut slots, ns(120), ns(170), B);
        let totals = accountant.end(&mut slots, ns(200));
        assert_eq!((totals.idle, slots[2].ran), (ns(20), ns(80)));
    }

    #[test]
    fn gap_in_the_run_of_a_channel_is_charged_to_it_and_is_no_switch() {
        let (mut slots, mut accountant) = (slots(), Accountant::new());
        accountant.begin(&mut slots, ns(0), A);
        accountant.skip(&mut slots, ns(10), ns(30), A);
        let totals = accountant.end(&mut slots, ns(40));
        assert_eq!(
            slots[1],
            Slot {
                ran: ns(40),
                ..Slot::default()
            }
        );
        assert_eq!(totals.switches, 0);
        assert_eq!((totals.length, totals.ran), (ns(40), ns(40)));
    }

    #[test]
    fn gap_with_an_idle_engine_at_both_ends_is_idle_time() {
        let (mut slots, mut accountant) = (slots(), Accountant::new());
        accountant.begin(&mut slots, ns(0), Occupant::Idle);
        accountant.skip(&mut slots, ns(10), ns(30), Occupant::Idle);
        let totals = accountant.end(&mut slots, ns(40));
        assert_eq!(totals.idle, ns(40));
    }

    #[test]
    fn clock_that_goes_backwards_charges_nothing() {
        let (mut slots, mut accountant) = (slots(), Accountant::new());
        accountant.begin(&mut slots, ns(100), A);
        accountant.observe(&mut slots, ns(50), B);
        let totals = accountant.end(&mut slots, ns(120));
        assert_eq!(slots[1].ran, Ns::ZERO);
        assert_eq!(slots[2].ran, ns(20));
        assert_eq!(totals.length, ns(20));
    }

    #[test]
    fn begin_after_a_phase_starts_from_zero() {
        let (mut slots, mut accountant) = (slots(), Accountant::new());
        accountant.begin(&mut slots, ns(0), A);
        accountant.end(&mut slots, ns(10));
        accountant.begin(&mut slots, ns(20), B);
        let totals = accountant.end(&mut slots, ns(25));
        assert_eq!(slots[1], Slot::default());
        assert_eq!(totals.ran, ns(5));
        assert!(accountant.used().eq([2]));
    }

    #[test]
    fn occupant_without_slot_is_unknown_time() {
        let (mut slots, mut accountant) = (slots(), Accountant::new());
        accountant.begin(&mut slots, ns(0), Occupant::Unknown);
        accountant.observe(&mut slots, ns(10), channel(4000));
        accountant.observe(&mut slots, ns(30), tsg(1, 0));
        let totals = accountant.end(&mut slots, ns(60));
        assert_eq!(totals.unknown, ns(60));
        assert_eq!(totals.ran, Ns::ZERO);
    }

    #[test]
    fn run_is_counted_where_it_begins() {
        let (mut slots, mut accountant) = (slots(), Accountant::new());
        accountant.begin(&mut slots, ns(0), A);
        accountant.observe(&mut slots, ns(10), Occupant::Idle);
        accountant.observe(&mut slots, ns(20), A);
        accountant.end(&mut slots, ns(30));
        assert_eq!(slots[1].runs, 1);
    }

    #[test]
    fn used_names_first_and_last_slot_of_every_word() {
        let mut slots = [Slot::default(); 200];
        let mut accountant = Accountant::new();
        accountant.begin(&mut slots, ns(0), channel(0));
        for (at, id) in (1..).zip([199, 63, 64, 127, 128, 0, 63]) {
            accountant.observe(&mut slots, ns(at), channel(id));
        }
        accountant.end(&mut slots, ns(9));
        assert!(accountant.used().eq([0, 63, 64, 127, 128, 199]));
    }

    // Regression: the prototype had no place for channel 0.
    #[test]
    fn slot_of_channels_and_groups_never_overlap() {
        assert_eq!(slot_of(channel(0)), Some(0));
        assert_eq!(slot_of(channel(4095)), Some(4095));
        assert_eq!(slot_of(tsg(0, 0)), Some(4096));
        assert_eq!(slot_of(Occupant::Idle), None);
    }

    // Regression: the prototype lost up to a microsecond at every switch.
    #[test]
    fn intervals_below_a_microsecond_add_up() {
        let (mut slots, mut accountant) = (slots(), Accountant::new());
        accountant.begin(&mut slots, ns(0), A);
        for switch in 1..1000 {
            let occupant = if switch % 2 == 0 { A } else { B };
            accountant.observe(&mut slots, ns(switch * 700), occupant);
        }
        accountant.end(&mut slots, ns(700_000));
        assert_eq!(slots[1].ran, ns(350_000));
        assert_eq!(slots[2].ran, ns(350_000));
    }

    // Regression: the prototype shared its state among the GPUs.
    #[test]
    fn accountants_of_two_gpus_do_not_mix() {
        let (mut one_slots, mut one) = (slots(), Accountant::new());
        let (mut other_slots, mut other) = (slots(), Accountant::new());
        one.begin(&mut one_slots, ns(0), A);
        other.begin(&mut other_slots, ns(50), B);
        one.end(&mut one_slots, ns(100));
        other.end(&mut other_slots, ns(60));
        assert_eq!(one_slots[1].ran, ns(100));
        assert_eq!(other_slots[1].ran, Ns::ZERO);
        assert_eq!(other_slots[2].ran, ns(10));
    }
}
