// SPDX-License-Identifier: GPL-2.0

//! What is calculated from several values of one figure.

use serde::Serialize;

/// Mean of these values; nothing is zero.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0u32);
    for value in values {
        sum += value;
        count += 1;
    }
    sum / f64::from(count.max(1))
}

/// Geometric mean of these values, if there are any and all are above zero.
pub fn geometric_mean(values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let is_none = values.clone().next().is_none();
    (!is_none && values.clone().all(|value| value > 0.0)).then(|| mean(values.map(f64::ln)).exp())
}

/// The smallest of these values such that `percent` percent of them are not above it.
pub fn quantile(values: impl IntoIterator<Item = f64>, percent: usize) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied()
}

/// A figure over all runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Standard deviation; zero for a single run.
    pub deviation: f64,
}

impl Spread {
    /// Of these values, if there are any.
    pub fn of(values: impl Iterator<Item = f64> + Clone) -> Option<Self> {
        let count = values.clone().count();
        if count == 0 {
            return None;
        }
        let mean = mean(values.clone());
        let squares = values.map(|value| (value - mean).powi(2)).sum::<f64>();
        // CAST: a number of runs.
        let deviation = (squares / count.saturating_sub(1).max(1) as f64).sqrt();
        Some(Self { mean, deviation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_mean_and_sample_deviation() {
        let spread = Spread::of([2.0, 4.0, 6.0].into_iter()).unwrap();
        assert_eq!((spread.mean, spread.deviation), (4.0, 2.0));
        assert_eq!(Spread::of([7.0].into_iter()).unwrap().deviation, 0.0);
        assert!(Spread::of([].into_iter()).is_none());
    }

    #[test]
    fn quantile_is_the_value_that_so_many_are_not_above() {
        let values = || (1..=20).rev().map(f64::from);
        assert_eq!(quantile(values(), 95), Some(19.0));
        assert_eq!(quantile(values(), 100), Some(20.0));
        assert_eq!(quantile([3.0, 1.0, 2.0], 99), Some(3.0));
        assert_eq!(quantile((1..=200).map(f64::from), 99), Some(198.0));
        assert_eq!(quantile([], 95), None);
    }
}
