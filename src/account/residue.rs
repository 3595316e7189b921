// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What runs between two polling phases: samples of the engine after a decision.
//!
//! *While no client is throttled*, the non-polling phase is cut into [`EVEN`] strata of one length,
//! and in each the status word is read once, at an instant drawn uniformly: the time found of a
//! client is compared with what the polling phases show of it, see [`super::doubt`].
//!
//! *When a client is throttled*, commands that it submitted before run to completion and are to be
//! charged. Most of them run at the beginning of the non-polling phase, where the poller does not
//! poll: a client that is throttled often would get more than its share, the more the shorter the
//! periods. So that phase is cut into strata, each twice as long as the one before, up to the
//! length of the others, and in each the status word is read once, at an instant drawn uniformly.
//! The client found there is charged the stratum.
//!
//! *Unbiased*: a client that runs for a part `q` of a stratum of length `S` is charged `S` with
//! probability `q`. That holds for a phase that is cut short as well, and for one that lasts longer
//! than planned (the GPU waits until others have been polled): strata follow that are a tenth of the
//! time since the phase began, until the next polling phase begins. So there are few of them, however
//! long it lasts, and the error stays the same part of the phase.
//! *Error*: `S sqrt(q (1 - q))` for each stratum in which a client begins or ends to run (standard
//! deviation): at most half of the time since the decision. Errors after different decisions are
//! independent, and virtual time adds them up, so that they even out.
//! *Cost*: ten samples in a phase, and one for each doubling after a decision that throttles: four
//! in ten milliseconds.

use super::slot_of;
use crate::random::XorShift;
use crate::regs::Occupant;
use crate::units::Ns;

/// The first stratum: shorter than the commands that matter.
const FIRST: Ns = Ns::from_us(64);
/// Samples in a phase in which no client is throttled.
pub const EVEN: u64 = 10;
/// Channels and TSGs at most that are found in a phase: more than there are samples, up to several
/// times the planned length.
const SAMPLES_MAX: usize = 32;

/// Samples one engine between polling phases. One per GPU.
pub struct Residue {
    random: XorShift,
    /// Least and greatest length of a stratum.
    least: Ns,
    most: Ns,
    /// Length and end of the stratum that is to be sampled.
    stratum: Ns,
    end: Ns,
    /// Up to when time has been charged.
    charged: Ns,
    /// When the phase began, and its planned end.
    begun: Ns,
    until: Ns,
    found: [(Occupant, Ns); SAMPLES_MAX],
    len: usize,
    /// As `found`, on the copy engine.
    copied: [(Occupant, Ns); SAMPLES_MAX],
    copies: usize,
    /// What the last sample stood for.
    last: Ns,
}

impl Residue {
    /// One that has seen nothing. The same seed draws the same instants.
    pub const fn new(seed: u64) -> Self {
        Self {
            random: XorShift::new(seed),
            least: FIRST,
            most: FIRST,
            stratum: Ns::ZERO,
            end: Ns::ZERO,
            charged: Ns::ZERO,
            begun: Ns::ZERO,
            until: Ns::ZERO,
            found: [(Occupant::Idle, Ns::ZERO); SAMPLES_MAX],
            len: 0,
            copied: [(Occupant::Idle, Ns::ZERO); SAMPLES_MAX],
            copies: 0,
            last: Ns::ZERO,
        }
    }

    /// Begins with a phase of `length` and forgets the last one; `throttled` says whether a client
    /// is throttled in it. Returns when to sample; nothing if the phase has no length. Samples go on
    /// until the caller ends them.
    pub fn begin(&mut self, now: Ns, length: Ns, throttled: bool) -> Option<Ns> {
        self.most = Ns::new(length.get().div_ceil(EVEN)).max(FIRST);
        self.least = if throttled { FIRST } else { self.most };
        (self.len, self.copies) = (0, 0);
        self.stratum = Ns::ZERO;
        (self.begun, self.end, self.charged) = (now, now, now);
        self.until = now.saturating_add(length);
        (!length.is_zero()).then(|| self.draw())
    }

    /// Notes the occupant `now`, at the instant that was drawn or later, and returns when to sample
    /// next. Strata that were missed are charged to this occupant.
    pub fn sample(&mut self, now: Ns, occupant: Occupant) -> Ns {
        while self.end < now {
            self.lengthen();
        }
        let time = self.end.saturating_sub(self.charged);
        (self.charged, self.last) = (self.end, time);
        note(&mut self.found, &mut self.len, occupant, time);
        self.draw()
    }

    /// Notes the occupant of the copy engine at the sample that was noted last.
    pub fn sample_copies(&mut self, occupant: Occupant) {
        note(&mut self.copied, &mut self.copies, occupant, self.last);
    }

    /// The channels and TSGs found, each once, and the time that each is to be charged.
    pub fn found(&self) -> &[(Occupant, Ns)] {
        self.found.get(..self.len).unwrap_or_default()
    }

    /// As [`Residue::found`], on the copy engine.
    pub fn found_copying(&self) -> &[(Occupant, Ns)] {
        self.copied.get(..self.copies).unwrap_or_default()
    }

    /// Draws an instant in the next stratum.
    fn draw(&mut self) -> Ns {
        self.lengthen();
        let length = self.end.saturating_sub(self.charged);
        let part = length.saturating_mul(self.random.bits16().into()).get() >> 16;
        self.charged.saturating_add(Ns::new(part))
    }

    /// Moves the end on by the next stratum. One ends where the phase was to end.
    fn lengthen(&mut self) {
        if self.end < self.until {
            let doubled = self.stratum.saturating_mul(2).max(self.least);
            self.stratum = doubled.min(self.most);
            self.end = self.end.saturating_add(self.stratum).min(self.until);
        } else {
            let lasted = self.end.saturating_sub(self.begun);
            self.stratum = Ns::new(lasted.get() / EVEN).max(self.most);
            self.end = self.end.saturating_add(self.stratum);
        }
    }
}

/// Adds time to that of an occupant. One of more than there is room for is not charged.
fn note(found: &mut [(Occupant, Ns); SAMPLES_MAX], len: &mut usize, occupant: Occupant, time: Ns) {
    if slot_of(occupant).is_none() {
        return;
    }
    let known = found
        .iter_mut()
        .take(*len)
        .find(|known| known.0 == occupant);
    if let Some((_, sum)) = known {
        *sum = sum.saturating_add(time);
    } else if let Some(free) = found.get_mut(*len) {
        *free = (occupant, time);
        *len = len.saturating_add(1);
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_account_residue))]
mod tests {
    use super::*;
    use crate::ids::Chid;

    const START: Ns = Ns::from_ms(1000);
    const PHASE: Ns = Ns::from_ms(10);
    const THROTTLED: Occupant = Occupant::Channel(Chid::from_bits(3));

    /// Samples a phase that ends at `until`, in which the throttled client runs for `rest`, then
    /// none. Returns the samples made and the time that it is charged.
    fn phase_until(residue: &mut Residue, until: Ns, rest: Ns, throttled: bool) -> (u32, Ns) {
        let (mut samples, mut next) = (0, residue.begin(START, PHASE, throttled).unwrap());
        while next < until {
            samples += 1;
            let runs = next < START.saturating_add(rest);
            let occupant = if runs { THROTTLED } else { Occupant::Idle };
            next = residue.sample(next, occupant);
        }
        let times = residue.found().iter().map(|(_, time)| *time);
        (samples, times.fold(Ns::ZERO, Ns::saturating_add))
    }

    /// The same with the planned length.
    fn phase_with(residue: &mut Residue, rest: Ns) -> (u32, Ns) {
        phase_until(residue, START.saturating_add(PHASE), rest, true)
    }

    #[test]
    fn client_that_runs_through_is_charged_the_phase() {
        let (samples, charged) = phase_with(&mut Residue::new(1), PHASE);
        assert_eq!(charged, PHASE);
        // Four doublings up to a millisecond, and ten of the rest.
        assert_eq!(samples, 14);
    }

    #[test]
    fn client_that_does_not_run_is_charged_nothing() {
        assert_eq!(phase_with(&mut Residue::new(1), Ns::ZERO).1, Ns::ZERO);
    }

    #[test]
    fn phase_of_no_length_is_not_sampled() {
        assert_eq!(Residue::new(1).begin(START, Ns::ZERO, true), None);
    }

    #[test]
    fn phase_without_throttling_is_sampled_ten_times() {
        for length_ms in [1u64, 30, 60_000] {
            let length = Ns::from_ms(length_ms);
            let mut residue = Residue::new(3);
            let mut next = residue.begin(START, length, false).unwrap();
            let mut samples = 0;
            while next < START.saturating_add(length) {
                samples += 1;
                next = residue.sample(next, THROTTLED);
            }
            assert_eq!(residue.found(), [(THROTTLED, length)]);
            assert_eq!(samples, 10);
        }
    }

    // A phase lasts until the poller is free, which may be later than planned, or a setting ends it
    // early: the mean is what ran.
    #[test]
    fn phase_that_ends_early_or_late_is_charged_for_as_long_as_it_lasts() {
        let mut residue = Residue::new(5);
        for (lasts_us, throttled) in [(4_300, false), (12_345, false), (31_700, true)] {
            let lasts = Ns::from_us(lasts_us);
            let until = START.saturating_add(lasts);
            let (mut sum, mut samples) = (0, 0);
            for _ in 0..4000 {
                let (made, charged) = phase_until(&mut residue, until, lasts, throttled);
                sum += charged.get();
                samples += made;
            }
            // The last stratum is charged or not: half of a tenth is the deviation at most, a 63rd of
            // that in the mean. Four of these.
            let mean = sum / 4000;
            assert!(mean.abs_diff(lasts.get()) < lasts.get().max(PHASE.get()) / 20 * 4 / 63);
            // Four doublings, ten of a tenth, twelve that are a tenth longer each, and the last.
            assert!(samples / 4000 <= 4 + 10 + 13);
        }
    }

    #[test]
    fn channels_found_are_as_many_as_there_is_room_for() {
        let mut residue = Residue::new(3);
        let mut next = residue.begin(START, PHASE, false).unwrap();
        for at in 0..40 {
            next = residue.sample(next, Occupant::Channel(Chid::from_bits(at)));
        }
        assert_eq!(residue.found().len(), SAMPLES_MAX);
        // One of them that is found again is charged.
        let before = residue.found()[0].1;
        residue.sample(next, Occupant::Channel(Chid::from_bits(0)));
        assert!(residue.found()[0].1 > before);
    }

    // Over many decisions the charge is what really ran, for rests shorter than the first stratum
    // and for those that end in a long one.
    #[test]
    fn charges_even_out_to_what_ran() {
        let mut residue = Residue::new(7);
        for rest_us in [20u64, 100, 350, 3000, 7000] {
            let rest = Ns::from_us(rest_us);
            let mut sum = Ns::ZERO;
            for _ in 0..4000 {
                sum = sum.saturating_add(phase_with(&mut residue, rest).1);
            }
            let mean = sum.get() / 4000;
            assert!(mean.abs_diff(rest.get()) < rest.get() / 20);
        }
    }

    #[test]
    fn strata_missed_are_charged_to_the_occupant_found() {
        let mut residue = Residue::new(1);
        let first = residue.begin(START, PHASE, true);
        assert!(first.is_some());
        // Late by several strata: up to the end of the one of 960 to 1960 us.
        let late = START.saturating_add(Ns::from_us(1000));
        assert!(residue.sample(late, THROTTLED) > late);
        assert_eq!(residue.found(), [(THROTTLED, Ns::from_us(1960))]);
    }

    #[test]
    fn sample_that_is_later_than_the_phase_ends_the_stratum_that_it_is_in() {
        let mut residue = Residue::new(1);
        residue.begin(START, PHASE, false);
        let late = START.saturating_add(Ns::from_us(15_500));
        let next = residue.sample(late, THROTTLED);
        // Strata of 1, 1.1, 1.21, 1.331 and 1.4641 ms follow the phase of 10 ms.
        let end = Ns::from_us(16_105).saturating_add(Ns::new(100));
        assert_eq!(residue.found(), [(THROTTLED, end)]);
        let end = START.saturating_add(end);
        assert!(next >= end);
        assert!(next < end.saturating_add(Ns::from_us(1_611)));
    }

    #[test]
    fn copies_found_along_with_a_sample_are_charged_its_stratum() {
        let mut residue = Residue::new(1);
        let mut next = residue.begin(START, PHASE, true).unwrap();
        while next < START.saturating_add(PHASE) {
            next = residue.sample(next, Occupant::Idle);
            residue.sample_copies(THROTTLED);
        }
        assert!(residue.found().is_empty());
        let times = residue.found_copying().iter().map(|(_, time)| *time);
        assert_eq!(times.fold(Ns::ZERO, Ns::saturating_add), PHASE);
        residue.begin(START, PHASE, true);
        assert!(residue.found_copying().is_empty());
    }
}
