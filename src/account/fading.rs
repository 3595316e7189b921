// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Fading means: which part of the recent past a client had the GPU, which part it waited for
//! it, and which part it had the copy engine.
//!
//! A mean weighs the time `t` ago by `exp(-t / tau)`. There are two of each, with `tau` of 2 s and
//! of 30 s. When a period of length `p` is booked in which a client had the GPU for the part `r`,
//!
//! `mean = mean * exp(-dt / tau) + r * (1 - exp(-p / tau))`
//!
//! where `dt` is the time since the client was booked last. A client that sleeps is not booked, and
//! its `dt` is long then; the means of a client that is read fade likewise, up to the time that is
//! asked for. A client is younger than its means look back, so they are divided by
//! `1 - exp(-age / tau)`: they are then means over its life. The first period of a client counts as
//! a whole, as it does in its account.
//!
//! *Cost*: the factors of a period are computed once for all clients ([`Fade`]); each client takes
//! eight multiplications and no division, and four more if it copies.
//!
//! *Error*: each mean is within 30 ppm of the same formula in floating point
//! (`tests/fading.rs`: periods of 1 ms to 5 s, sleeps of up to 70 s).

use super::decay::Decay;
use crate::fair::{mul_div, WHOLE};
use crate::units::Ns;

/// Shortest and longest time constant.
const DECAYS: [Decay; 2] = [
    Decay::new(Ns::from_ms(2_000)),
    Decay::new(Ns::from_ms(30_000)),
];

/// One, in millionths.
pub const ONE_PPM: u32 = 1_000_000;

/// A client counts as wanting the GPU from this want on.
const WANTING_PPM: u32 = 10_000;

/// The fading means of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fading {
    /// When it was booked last.
    booked: Ns,
    /// Means over both time constants at that time, as parts of [`WHOLE`] less one bit in the last
    /// place at most; not yet divided by what its age allows for.
    busy: [u32; 2],
    waited: [u32; 2],
    copied: [u32; 2],
}

/// What the end of a period does to the means of all clients.
#[derive(Clone, Copy, Debug)]
pub struct Fade {
    now: Ns,
    span: Ns,
    /// What a nanosecond of the period adds to a mean, times `2^64`.
    gained: [u64; 2],
    /// What is kept of means that were booked `since` before: nearly all clients were booked at the
    /// same time.
    since: Ns,
    kept: [u64; 2],
}

impl Fade {
    /// That of a period of length `span` that ended `now`.
    pub fn new(now: Ns, span: Ns) -> Self {
        let gained = DECAYS.map(|decay| {
            let lost = WHOLE.saturating_sub(decay.kept(span));
            mul_div(lost, WHOLE, span.get())
        });
        Self {
            now,
            span,
            gained,
            since: Ns::ZERO,
            kept: [WHOLE; 2],
        }
    }

    /// What is kept of means that were booked last at a time.
    #[inline]
    fn kept(&mut self, booked: Ns) -> [u64; 2] {
        let since = self.now.saturating_sub(booked);
        if since != self.since {
            self.since = since;
            self.kept = DECAYS.map(|decay| decay.kept(since));
        }
        self.kept
    }
}

impl Fading {
    /// When it was booked last.
    pub const fn booked(&self) -> Ns {
        self.booked
    }

    /// Books a period, in which the client had the GPU, waited for it and had the copy engine for
    /// these times. Each counts as the whole period at most.
    #[inline]
    pub fn add(&mut self, fade: &mut Fade, busy: Ns, waited: Ns, copied: Ns) {
        let kept = fade.kept(self.booked);
        advance(&mut self.busy, fade, kept, busy);
        advance(&mut self.waited, fade, kept, waited);
        // Most clients never copy for long.
        if !copied.is_zero() || self.copied != [0; 2] {
            advance(&mut self.copied, fade, kept, copied);
        }
        self.booked = fade.now;
    }

    /// The means at a time, of a client that appeared at the time `since`.
    pub fn at(&self, now: Ns, since: Ns) -> Means {
        let (fades, age) = (now.saturating_sub(self.booked), now.saturating_sub(since));
        let factors = |decay: Decay| {
            let all = WHOLE.saturating_sub(decay.kept(age));
            (decay.kept(fades), all)
        };
        let mean = |(kept, all): (u64, u64), mean: u32| {
            let faded = u64::from(mean).saturating_mul(kept) / WHOLE;
            ppm(faded, all)
        };
        let [short, long] = DECAYS.map(factors);
        let ([busy_2s, busy_30s], [waited_2s, waited_30s]) = (self.busy, self.waited);
        let [copied_2s, copied_30s] = self.copied;
        Means {
            busy_2s: mean(short, busy_2s),
            busy_30s: mean(long, busy_30s),
            waited_2s: mean(short, waited_2s),
            waited_30s: mean(long, waited_30s),
            copied_2s: mean(short, copied_2s),
            copied_30s: mean(long, copied_30s),
        }
    }
}

/// Books a period in the means of one kind of time.
#[inline]
fn advance(means: &mut [u32; 2], fade: &Fade, kept: [u64; 2], time: Ns) {
    let time = time.min(fade.span).get();
    for ((mean, kept), gained) in means.iter_mut().zip(kept).zip(fade.gained) {
        let old = u64::from(*mean).saturating_mul(kept);
        let new = time.saturating_mul(gained).saturating_add(WHOLE / 2);
        // CAST: the upper half.
        *mean = (old.saturating_add(new) >> 32) as u32;
    }
}

/// A part of up to 33 bits of a whole in millionths, rounded to the nearest one: not more than the
/// whole, and nothing of nothing.
fn ppm(part: u64, whole: u64) -> u32 {
    let rounded = part
        .saturating_mul(ONE_PPM.into())
        .saturating_add(whole / 2);
    let ppm = rounded.checked_div(whole).unwrap_or(0);
    // CAST: at most a million.
    ppm.min(ONE_PPM.into()) as u32
}

/// Fading means of a client at some time, in millionths of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Means {
    /// Time on the engine.
    pub busy_2s: u32,
    /// As `busy_2s`.
    pub busy_30s: u32,
    /// Time in which it wanted the GPU and did not have it.
    pub waited_2s: u32,
    /// As `waited_2s`.
    pub waited_30s: u32,
    /// Time on the copy engine.
    pub copied_2s: u32,
    /// As `copied_2s`.
    pub copied_30s: u32,
}

impl Means {
    /// What the client would use of a GPU alone, in millionths: see [`want`].
    pub fn want_2s(&self) -> u32 {
        want(self.busy_2s, self.waited_2s)
    }

    /// As [`Means::want_2s`].
    pub fn want_30s(&self) -> u32 {
        want(self.busy_30s, self.waited_30s)
    }
}

/// `busy / (1 - waited)`, in millionths and a whole GPU at most: what a client would use alone. Of
/// the time in which it does not wait, it has the GPU for this part; alone it never waits. A client
/// that always waits wants a whole GPU, as far as is known.
fn want(busy: u32, waited: u32) -> u32 {
    match ONE_PPM.saturating_sub(waited) {
        0 => ONE_PPM,
        unhindered => ppm(busy.into(), unhindered.into()),
    }
}

/// Means of all clients of a GPU, summed up, in millionths of the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Of [`Means::busy_2s`].
    pub busy_2s: u64,
    /// Of [`Means::busy_30s`].
    pub busy_30s: u64,
    /// Of [`Means::want_2s`].
    pub want_2s: u64,
    /// Of [`Means::want_30s`].
    pub want_30s: u64,
    /// Of [`Means::copied_2s`].
    pub copied_2s: u64,
    /// Of [`Means::copied_30s`].
    pub copied_30s: u64,
    /// Clients that want a hundredth of the GPU or more, over 30 s.
    pub wanting: u32,
}

impl Sums {
    /// Adds a client.
    pub fn add(&mut self, means: &Means) {
        let (want_2s, want_30s) = (means.want_2s(), means.want_30s());
        for (sum, mean) in [
            (&mut self.busy_2s, means.busy_2s),
            (&mut self.busy_30s, means.busy_30s),
            (&mut self.want_2s, want_2s),
            (&mut self.want_30s, want_30s),
            (&mut self.copied_2s, means.copied_2s),
            (&mut self.copied_30s, means.copied_30s),
        ] {
            *sum = sum.saturating_add(mean.into());
        }
        let wants = want_30s >= WANTING_PPM;
        self.wanting = self.wanting.saturating_add(wants.into());
    }
}

/// Millionths as whole percents, rounded to the nearest one.
pub fn percent(ppm: u64) -> u32 {
    let percent = ppm.saturating_add(5_000) / 10_000;
    u32::try_from(percent).unwrap_or(u32::MAX)
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_fading))]
mod tests {
    use super::*;

    /// When the client of the tests appears.
    const SINCE: Ns = Ns::from_ms(7_000);
    const PERIOD: Ns = Ns::from_ms(50);

    /// Some periods in a row, in each of which the client has the GPU and waits for these times.
    fn book(fading: &mut Fading, now: &mut Ns, periods: u32, busy_ms: u64, waited_ms: u64) {
        for _ in 0..periods {
            *now = now.saturating_add(PERIOD);
            let mut fade = Fade::new(*now, PERIOD);
            let (busy, waited) = (Ns::from_ms(busy_ms), Ns::from_ms(waited_ms));
            fading.add(&mut fade, busy, waited, Ns::ZERO);
        }
    }

    fn near(one: u32, other: u32) -> bool {
        one.abs_diff(other) <= 100
    }

    #[test]
    fn young_client_has_means_over_its_life() {
        let (mut fading, mut now) = (Fading::default(), SINCE);
        book(&mut fading, &mut now, 20, 25, 10);
        let means = fading.at(now, SINCE);
        assert!(near(means.busy_2s, 500_000));
        assert!(near(means.busy_30s, 500_000));
        assert!(near(means.waited_2s, 200_000));
        assert!(near(means.waited_30s, 200_000));
    }

    #[test]
    fn client_without_a_booked_period_has_no_means() {
        let fading = Fading::default();
        let none = Means::default();
        assert_eq!(fading.at(SINCE, SINCE), none);
        assert_eq!(fading.at(Ns::ZERO, SINCE), none);
        assert_eq!(fading.at(SINCE.saturating_mul(9), SINCE), none);
    }

    #[test]
    fn means_of_a_client_that_is_not_booked_fade_with_their_time_constants() {
        let (mut fading, mut now) = (Fading::default(), SINCE);
        // Long enough for both means to forget the beginning.
        book(&mut fading, &mut now, 12_000, 50, 50);
        let means = fading.at(now, SINCE);
        assert!(near(means.busy_2s, ONE_PPM));
        assert!(near(means.waited_30s, ONE_PPM));
        let later = fading.at(now.saturating_add(Ns::from_ms(2_000)), SINCE);
        assert!(near(later.busy_2s, 367_879));
        assert!(near(later.busy_30s, 935_507));
        assert!(near(later.waited_2s, 367_879));
        assert!(near(later.waited_30s, 935_507));
        // What it did before is kept when it comes back.
        now = now.saturating_add(Ns::from_ms(30_000));
        book(&mut fading, &mut now, 1, 0, 0);
        let means = fading.at(now, SINCE);
        assert!(means.busy_2s < 10);
        assert!(near(means.busy_30s, 367_266));
    }

    #[test]
    fn time_beyond_the_period_counts_as_the_period() {
        let (mut fading, mut now) = (Fading::default(), SINCE);
        book(&mut fading, &mut now, 1, u64::MAX, 0);
        assert_eq!(fading.at(now, SINCE).busy_2s, ONE_PPM);
        // A period of no length adds nothing.
        let before = fading;
        fading.add(&mut Fade::new(now, Ns::ZERO), PERIOD, PERIOD, PERIOD);
        assert_eq!(fading, before);
    }

    #[test]
    fn clients_booked_at_other_times_fade_by_their_own() {
        let (mut early, mut late) = (Fading::default(), Fading::default());
        let (mut begin, mut now) = (SINCE, SINCE);
        book(&mut early, &mut begin, 1, 50, 0);
        book(&mut late, &mut now, 20, 50, 0);
        let alone = |mut fading: Fading| {
            fading.add(&mut Fade::new(now, PERIOD), PERIOD, PERIOD, PERIOD);
            fading
        };
        let (early_alone, late_alone) = (alone(early), alone(late));
        let mut fade = Fade::new(now, PERIOD);
        for _ in 0..2 {
            let (mut one, mut other) = (early, late);
            one.add(&mut fade, PERIOD, PERIOD, PERIOD);
            other.add(&mut fade, PERIOD, PERIOD, PERIOD);
            assert_eq!((one, other), (early_alone, late_alone));
        }
    }

    #[test]
    fn want_is_what_a_client_would_use_alone() {
        for (busy, waited, wanted) in [
            (0, 0, 0),
            (250_000, 0, 250_000),
            (250_000, 500_000, 500_000),
            (500_000, 500_000, ONE_PPM),
            // It was charged while it was throttled.
            (500_000, 700_000, ONE_PPM),
            (0, 500_000, 0),
            (0, ONE_PPM, ONE_PPM),
        ] {
            let means = Means {
                busy_2s: busy,
                waited_2s: waited,
                ..Means::default()
            };
            assert_eq!((means.want_2s(), means.want_30s()), (wanted, 0));
        }
    }

    #[test]
    fn sums_count_the_clients_that_want_a_hundredth() {
        let mut sums = Sums::default();
        for (busy_30s, waited_30s) in [(9_999, 0), (10_000, 0), (5_000, 500_000), (400_000, 0)] {
            sums.add(&Means {
                busy_2s: ONE_PPM,
                busy_30s,
                waited_30s,
                ..Means::default()
            });
        }
        assert_eq!(sums.wanting, 3);
        assert_eq!((sums.busy_2s, sums.want_2s), (4_000_000, 4_000_000));
        assert_eq!((sums.busy_30s, sums.want_30s), (424_999, 429_999));
        assert_eq!(percent(sums.busy_30s), 42);
        assert_eq!((percent(sums.want_30s), percent(445_000)), (43, 45));
    }
}
