// SPDX-License-Identifier: GPL-2.0

//! Points of a figure, and what is calculated from repetitions.

use crate::stats::{self, Spread};
use crate::GEOMETRIC_MEAN;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

/// Where on the axis a point is.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged)]
pub enum At {
    /// A value.
    Value(f64),
    /// A name: an application, a policy, or [`GEOMETRIC_MEAN`].
    Name(String),
}

impl Display for At {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => value.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl From<f64> for At {
    fn from(value: f64) -> Self {
        Self::Value(value)
    }
}

impl From<&str> for At {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

/// A point: the repetitions of one measurement together.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Where it is.
    pub at: At,
    /// Mean over the repetitions.
    pub mean: f64,
    /// Standard deviation over the repetitions; zero for one.
    pub deviation: f64,
    /// How many there were.
    pub repetitions: u32,
    /// What the paper gives in words or in its figure, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<f64>,
}

impl Point {
    /// The repetitions of a measurement; nothing if there was none.
    pub fn of(at: impl Into<At>, values: &[f64]) -> Option<Self> {
        let spread = Spread::of(values.iter().copied())?;
        Some(Self {
            at: at.into(),
            mean: spread.mean,
            deviation: spread.deviation,
            repetitions: u32::try_from(values.len()).unwrap_or(u32::MAX),
            paper: None,
        })
    }

    /// With the number that the paper gives.
    #[must_use]
    pub fn in_paper(mut self, paper: f64) -> Self {
        self.paper = Some(paper);
        self
    }
}

/// Points that belong together: bars of one colour, or a line.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// A policy (`event`, `sampling`, `event-cl`, `maxmin`, `none`), or `fair` (the optimum as the
    /// paper calculates it), `intended` (what was asked for), `truth` (the GPU's own record).
    pub name: String,
    /// Part of the figure it is drawn in, where there are several: the application in Figure 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub panel: Option<String>,
    /// The points, from left to right.
    pub points: Vec<Point>,
}

impl Series {
    /// A series of a figure that has one part.
    pub fn new(name: &str, points: Vec<Point>) -> Self {
        Self {
            name: name.to_owned(),
            panel: None,
            points,
        }
    }

    /// The point at this place.
    pub fn point(&self, at: &At) -> Option<&Point> {
        self.points.iter().find(|point| point.at == *at)
    }
}

/// The geometric mean of points; nothing if there is none, or one that is not above zero.
pub fn geometric_mean(points: &[Point]) -> Option<Point> {
    let mean = stats::geometric_mean(points.iter().map(|point| point.mean))?;
    let relative = points
        .iter()
        .map(|point| (point.deviation / point.mean).powi(2));
    // CAST: a number of applications.
    let count = points.len() as f64;
    Some(Point {
        at: At::from(GEOMETRIC_MEAN),
        mean,
        deviation: mean * relative.sum::<f64>().sqrt() / count,
        repetitions: points.iter().map(|point| point.repetitions).min()?,
        paper: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometric_mean_of_a_half_and_two_is_one() {
        let point = |values: &[f64]| Point::of("x", values).unwrap();
        let mean = geometric_mean(&[point(&[0.5, 0.5]), point(&[2.0])]).unwrap();
        assert!((mean.mean - 1.0).abs() < 1e-12);
        assert!(mean.deviation == 0.0);
        assert_eq!(mean.repetitions, 1);
        assert!(geometric_mean(&[]).is_none());
        assert!(geometric_mean(&[point(&[0.0])]).is_none());
    }
}
