// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Limits of figures: what a test measured, and between which values it has to be.
//!
//! A figure that is compared with limits is printed with them, so that `make flakes` can tell how far
//! from its limits it stays over many seeds. Two kinds of limits are meant:
//!
//! - what a method promises (a bound that follows from periods, phases and quanta): [`within`];
//! - what a random figure shows: [`Sample`] widens a promise by what its own observations vary.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use std::cell::RefCell;
use std::ops::{Bound, RangeBounds};

/// Standard errors by which the mean of a sample may be beyond what is promised of it: a correct
/// module is refused less than once in 10^8 samples.
pub const SIGMAS: f64 = 6.0;

/// Fewest observations of a [`Sample`]: below it the quantiles of Student's distribution are so large
/// that nothing would ever be refused.
pub const LEAST_COUNT: usize = 16;

/// The first word of a line that [`within`] prints, after the `# ` of a diagnostic.
pub const FIGURE: &str = "figure";

/// A number that a test measures.
pub trait Measured: Copy + PartialOrd {
    /// The number, near enough to be shown.
    fn shown(self) -> f64;
}

macro_rules! measured {
    ($($number:ty),*) => {
        $(impl Measured for $number {
            fn shown(self) -> f64 {
                // CAST: to be shown.
                self as f64
            }
        })*
    };
}

measured!(f64, i64, u32, u64, usize);

/// Checks that a figure lies between limits, and prints both.
///
/// # Errors
///
/// It does not.
pub fn within<M: Measured>(
    name: &str,
    value: M,
    limits: impl RangeBounds<M>,
) -> Result<(), String> {
    let low = number(limits.start_bound(), f64::NEG_INFINITY);
    let high = number(limits.end_bound(), f64::INFINITY);
    let shown = value.shown();
    println!("# {FIGURE} {} {shown:.6} {low} {high}", word(name));
    if limits.contains(&value) {
        return Ok(());
    }
    refuse(format!("{name}: {shown:.6}, not between {low} and {high}"))
}

thread_local! {
    /// Reasons that [`refuse`] was given since [`note_only`].
    static NOTED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// From now on a figure of this thread that is beyond its limits is noted and not refused, so that a
/// test on a kernel too slow for its figures runs to its end.
pub fn note_only() {
    NOTED.set(Some(Vec::new()));
}

/// What was noted since [`note_only`], in order; from now on figures are refused again.
pub fn noted() -> Vec<String> {
    NOTED.take().unwrap_or_default()
}

/// Says for this reason that a figure is beyond its limits.
///
/// # Errors
///
/// The reason, unless figures are [noted only](note_only).
pub fn refuse(reason: String) -> Result<(), String> {
    NOTED.with_borrow_mut(|noted| match noted {
        Some(noted) => {
            noted.push(reason);
            Ok(())
        }
        None => Err(reason),
    })
}

/// Checks that two shares differ by so many points at most.
///
/// # Errors
///
/// They do not.
pub fn within_points(name: &str, share: f64, real: f64, points: f64) -> Result<(), String> {
    within(name, (share - real) * 100.0, -points..=points)
}

fn number<M: Measured>(bound: Bound<&M>, none: f64) -> f64 {
    match bound {
        Bound::Included(limit) | Bound::Excluded(limit) => limit.shown(),
        Bound::Unbounded => none,
    }
}

/// A name as one word.
fn word(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join("-")
}

/// Independent observations of one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Number of observations.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Standard deviation of one of them.
    pub deviation: f64,
}

impl Sample {
    /// The sample of these observations.
    ///
    /// # Errors
    ///
    /// There are fewer than [`LEAST_COUNT`], or one is not a number.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Result<Self, String> {
        let values: Vec<f64> = values.into_iter().collect();
        let count = values.len();
        if count < LEAST_COUNT {
            return Err(format!("{count} observations, {LEAST_COUNT} are needed"));
        }
        if let Some(value) = values.iter().find(|value| !value.is_finite()) {
            return Err(format!("an observation is {value}"));
        }
        // CAST: small numbers.
        let number = count as f64;
        let mean = values.iter().sum::<f64>() / number;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Ok(Self {
            count,
            mean,
            deviation: (squares / (number - 1.0)).sqrt(),
        })
    }

    /// By how much the mean may be off by chance: as unlikely, by Student's distribution for so many
    /// observations, as [`SIGMAS`] standard deviations of a normal figure.
    pub fn margin(&self) -> f64 {
        // CAST: a small number.
        let number = self.count as f64;
        quantile(number - 1.0) * self.deviation / number.sqrt()
    }

    /// Checks that the mean lies between limits that are promised, or beyond them by chance only.
    ///
    /// # Errors
    ///
    /// It does not.
    pub fn check(&self, name: &str, promised: impl RangeBounds<f64>) -> Result<(), String> {
        let margin = self.margin();
        let low = number(promised.start_bound(), f64::NEG_INFINITY) - margin;
        let high = number(promised.end_bound(), f64::INFINITY) + margin;
        within(name, self.mean, low..=high).map_err(|reason| {
            format!(
                "{reason} ({} observations that vary by {:.6})",
                self.count, self.deviation
            )
        })
    }
}

/// Student's quantile for as small a probability as that of [`SIGMAS`] normal deviations.
fn quantile(freedom: f64) -> f64 {
    let normal = Normal::standard();
    match StudentsT::new(0.0, 1.0, freedom) {
        Ok(student) => -student.inverse_cdf(normal.cdf(-SIGMAS)),
        // Only a freedom of zero is refused, and LEAST_COUNT keeps it away.
        Err(_) => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throttle::random::Random;

    /// Sums of twelve uniform numbers: nearly normal, with a deviation of 1.
    fn normal(random: &mut Random) -> f64 {
        // CAST: 53 bits are exact.
        let uniform = |random: &mut Random| (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0
    }

    #[test]
    fn figure_is_held_to_each_kind_of_limits() {
        assert!(within("x", 1.0, 0.5..1.5).is_ok());
        assert!(within("x", 1.5, 0.5..1.5).is_err());
        assert!(within("x", 1.5, 0.5..=1.5).is_ok());
        assert!(within("x", 0.4, 0.5..).is_err());
        assert!(within("x", 9.9, 0.5..).is_ok());
        assert!(within("x", f64::NAN, 0.5..).is_err());
        let reason = within("share of one", 2.0, ..1.5).unwrap_err();
        assert_eq!(reason, "share of one: 2.000000, not between -inf and 1.5");
    }

    #[test]
    fn figures_that_are_noted_only_are_not_refused() {
        note_only();
        assert!(within("x", 2.0, ..1.5).is_ok());
        assert!(within("x", 1.0, ..1.5).is_ok());
        assert!(refuse("too slow".to_owned()).is_ok());
        assert_eq!(
            noted(),
            ["x: 2.000000, not between -inf and 1.5", "too slow"]
        );
        assert!(within("x", 2.0, ..1.5).is_err());
        assert!(noted().is_empty());
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // Six normal deviations: one in 10^9 on either side.
        assert!((quantile(1e7) - 6.0).abs() < 0.001, "{}", quantile(1e7));
        // The others by mpmath's incomplete beta function.
        for (freedom, wanted) in [(15.0, 12.7052), (39.0, 7.7619), (99.0, 6.6084)] {
            let got = quantile(freedom);
            assert!((got - wanted).abs() < 0.0001, "{freedom}: {got}");
        }
    }

    #[test]
    fn sample_has_mean_and_deviation_of_its_observations() {
        let sample = Sample::of((1..=20).map(f64::from)).unwrap();
        assert_eq!((sample.count, sample.mean), (20, 10.5));
        assert!((sample.deviation - 35.0_f64.sqrt()).abs() < 1e-9);
        assert!(Sample::of((1..=15).map(f64::from)).is_err());
        assert!(Sample::of((1..=20).map(|_| f64::NAN)).is_err());
    }

    #[test]
    fn correct_module_passes_and_a_wrong_one_does_not() {
        let mut random = Random::new(3);
        for _ in 0..2_000 {
            let sample = Sample::of((0..40).map(|_| 20.0 + normal(&mut random))).unwrap();
            assert!(sample.check("right", 20.0..=20.0).is_ok(), "{sample:?}");
            assert!(sample.check("wrong", ..16.0).is_err(), "{sample:?}");
            assert!(sample.check("wrong", 24.0..).is_err(), "{sample:?}");
        }
    }
}
