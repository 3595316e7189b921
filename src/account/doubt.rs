// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Whether polling phases show what a client does: two estimates compared.
//!
//! With burst accounting a polling phase stands for the non-polling phase before it. A client that
//! finds out when the poller polls can run when it does not. So the status word is read at random
//! instants of the non-polling phase too ([`super::residue`]), and the time found there, added to
//! the polled time, is a second estimate of the period. It is without bias whatever a client does,
//! but rests on some ten samples a period; the first one is better as long as both agree.
//!
//! *Rule*: the differences of both, and their squares, are summed up, fading over [`FADE`] periods.
//! The estimates differ lastingly when `sum^2 > 9 squares`, three standard errors whatever the
//! errors of the two are, and by more than two points on average. From then on the second one
//! counts, and the time that the client had gained before is charged at once. The first one counts
//! again when they differ by less than a point on average.
//! *Bound*: a client that uses all of its time outside of polling phases is found after ten periods
//! or so; one that gains less than `3 sd / sqrt(128)` of a period, if `sd` is the standard
//! deviation of a difference, or less than two points, is not found.
//! *False alarms*: the squares fade no faster than the sums, so that three standard errors here are
//! more than four.

use crate::units::Ns;

/// Periods over which differences fade.
pub const FADE: u64 = 128;
/// Longest difference that is summed up, in microseconds: the longest period.
const LONGEST: u64 = 1 << 26;
/// Standard errors, squared.
const SURE: u64 = 9;
/// A difference matters from this part of the time on, and no longer below half of it.
const MATTERS: u64 = 50;

/// The differences of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubt {
    /// Sum of the differences, time found minus time scaled, in microseconds.
    sum: i64,
    /// Sum of their squares.
    squares: u64,
    /// Sum of the lengths of periods, in microseconds.
    spans: u64,
    lasts: bool,
    /// Times that it began to gain by not being polled.
    times: u64,
}

/// What to charge for a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What the polling phase stands for.
    Scaled,
    /// What was polled and found.
    Found {
        /// What it had gained before; not zero only when a lasting difference begins.
        gained: Ns,
    },
}

impl Doubt {
    /// Notes both estimates of a period of length `span`, and returns which of them counts.
    pub fn note(&mut self, scaled: Ns, found: Ns, span: Ns) -> Verdict {
        let part = |time: Ns| time.get() / 1000;
        let more = part(found.saturating_sub(scaled)).min(LONGEST);
        let less = part(scaled.saturating_sub(found)).min(LONGEST);
        let size = more.max(less);
        // CAST: (both) of 27 bits at most; the sums stay below 128 of them.
        let difference = more as i64 - less as i64;
        self.sum = self.sum - self.sum / FADE as i64 + difference;
        self.squares = self.squares - self.squares / FADE + size * size;
        self.spans = self.spans - self.spans / FADE + part(span).min(LONGEST);
        let size = self.sum.unsigned_abs();
        let matters = size.saturating_mul(MATTERS) > self.spans;
        let sure = size.saturating_mul(size) > self.squares.saturating_mul(SURE);
        let mut gained = Ns::ZERO;
        if self.lasts {
            self.lasts = size.saturating_mul(2 * MATTERS) > self.spans;
        } else if sure && matters {
            self.lasts = true;
            if self.sum > 0 {
                self.times = self.times.saturating_add(1);
                // What this period adds is part of what was found.
                gained = Ns::from_us(size).saturating_sub(found.saturating_sub(scaled));
            }
        }
        if self.lasts {
            Verdict::Found { gained }
        } else {
            Verdict::Scaled
        }
    }

    /// Times that the client began to gain by not being polled.
    pub const fn times(&self) -> u64 {
        self.times
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_account_doubt))]
mod tests {
    use super::*;
    use crate::random::XorShift;

    const SPAN: Ns = Ns::from_ms(36);

    /// `count` periods in which a client runs for `polled` of 1000 parts of the polling phase and
    /// `other` of 1000 parts of the non-polling one, sampled ten times; both with errors. Returns
    /// the periods in which the samples counted, and the time charged in all, in parts of a period.
    fn periods(doubt: &mut Doubt, count: u32, polled: u64, other: u64) -> (u32, u64) {
        let mut random = XorShift::new(11);
        let (mut counted, mut charged) = (0, Ns::ZERO);
        for _ in 0..count {
            // The polled sixth of the period, with an error of up to a fifth where there is room
            // for it.
            let room = (1000 - polled).min(polled / 5);
            let noise = u64::from(random.bits16()) * (2 * room + 1) / 65536;
            let busy = 6 * (polled + noise - room);
            let hits = (0..10).filter(|_| u64::from(random.bits16()) * 1000 / 65536 < other);
            let found = Ns::from_us(busy + 3_000 * hits.count() as u64);
            let scaled = Ns::from_us(busy * 6);
            charged = charged.saturating_add(match doubt.note(scaled, found, SPAN) {
                Verdict::Scaled => scaled,
                Verdict::Found { gained } => {
                    counted += 1;
                    found.saturating_add(gained)
                }
            });
        }
        (
            counted,
            charged.get() * 1000 / SPAN.get() / u64::from(count),
        )
    }

    #[test]
    fn client_that_is_the_same_in_both_phases_is_never_doubted() {
        for part in [0, 20, 100, 300, 500, 900, 1000] {
            let mut doubt = Doubt::default();
            assert_eq!(periods(&mut doubt, 20_000, part, part).0, 0);
            assert_eq!(doubt.times(), 0);
        }
    }

    #[test]
    fn client_that_runs_between_polling_phases_is_charged_all_of_it() {
        for part in [100, 300, 600] {
            let mut doubt = Doubt::default();
            let (counted, charged) = periods(&mut doubt, 1000, 0, part);
            assert!(counted > 900);
            assert_eq!(doubt.times(), 1);
            // Five sixths of the time.
            assert!(charged.abs_diff(part * 5 / 6) < 12);
        }
    }

    #[test]
    fn client_that_begins_to_dodge_after_long_is_found_within_a_second() {
        let mut doubt = Doubt::default();
        periods(&mut doubt, 2000, 450, 450);
        let (counted, _) = periods(&mut doubt, 100, 0, 540);
        assert!(counted > 70);
    }

    #[test]
    fn client_that_ends_to_dodge_is_charged_by_polls_again() {
        let mut doubt = Doubt::default();
        periods(&mut doubt, 500, 0, 400);
        periods(&mut doubt, 2000, 400, 400);
        assert_eq!(periods(&mut doubt, 100, 400, 400).0, 0);
        assert_eq!(doubt.times(), 1);
    }

    #[test]
    fn client_polled_too_often_is_charged_less_and_is_no_evasion() {
        let mut doubt = Doubt::default();
        let (counted, charged) = periods(&mut doubt, 1000, 1000, 400);
        assert!(counted > 900);
        assert_eq!(doubt.times(), 0);
        assert!(charged.abs_diff(500) < 30);
    }

    #[test]
    fn difference_that_does_not_matter_is_not_lasting() {
        let mut doubt = Doubt::default();
        for _ in 0..1000 {
            let verdict = doubt.note(Ns::from_us(36_000), Ns::from_us(35_900), SPAN);
            assert_eq!(verdict, Verdict::Scaled);
        }
    }

    #[test]
    fn absurd_times_do_not_overflow() {
        let mut doubt = Doubt::default();
        let end = Ns::new(u64::MAX);
        for _ in 0..1000 {
            doubt.note(Ns::ZERO, end, end);
        }
        for _ in 0..1000 {
            doubt.note(end, Ns::ZERO, end);
        }
        assert_eq!(doubt.times(), 1);
    }
}
