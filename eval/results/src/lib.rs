// SPDX-License-Identifier: GPL-2.0

//! [tool] The result of an experiment, wherever it ran: one JSON file, the same layout for the simulator,
//! the virtual machine and a host with a card. `docs/eval.md` describes it.
//!
//! There are numbers here and where they come from, no verdicts: whether a finding of the paper
//! holds is calculated from the numbers each time a report is made.

pub mod reduced;
pub mod whole;

use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io;
use std::path::Path;

/// Version of the layout: raised when a member changes its meaning or goes away.
pub const VERSION: u32 = 1;

/// Name of the point that the paper draws at the right of Figure 7.
pub const GEOMETRIC_MEAN: &str = "geometric mean";

/// Where an experiment ran.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// `loga-sim`: the same accounting, engine and policies on simulated GPUs and clients.
    Simulator,
    /// The real module and real processes on the model of the card, in virtual time.
    VirtualMachine,
    /// The real module on a real card.
    Host,
}

impl Origin {
    /// As it is in the files and their names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simulator => "simulator",
            Self::VirtualMachine => "virtual-machine",
            Self::Host => "host",
        }
    }
}

/// What an axis of a figure shows.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Such as `kernel length`.
    pub title: String,
    /// Such as `us`; nothing for names and for ratios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

impl Axis {
    /// An axis; an empty unit is none.
    pub fn new(title: &str, unit: &str) -> Self {
        Self {
            title: title.to_owned(),
            unit: (!unit.is_empty()).then(|| unit.to_owned()),
        }
    }
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
        // CAST: a number of runs.
        let mean = values.clone().sum::<f64>() / count as f64;
        let squares = values.map(|value| (value - mean).powi(2)).sum::<f64>();
        let deviation = if count > 1 {
            (squares / (count - 1) as f64).sqrt()
        } else {
            0.0
        };
        Some(Self { mean, deviation })
    }
}

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

/// A parameter of the experiment and where its value comes from.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Such as `costs.switch_us`.
    pub name: String,
    /// Its value, with its unit.
    pub value: String,
    /// Who says so: a section of the paper, a measurement, or `assumed`.
    pub origin: String,
}

/// Something that is not as in the paper, or not as in another place.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// What differs.
    pub what: String,
    /// The mechanism, and how it was isolated.
    pub why: String,
}

/// An experiment in one place.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// [`VERSION`].
    pub version: u32,
    /// `7a`, `7b`, `8`, `9`, `10`, `11`: figures of the paper; `5.6`: its section.
    pub figure: String,
    /// Where it ran.
    pub origin: Origin,
    /// What sets it apart from others of the same figure and origin: `paper` for the paper's own
    /// settings, `quick` for few repetitions, `machine` for what is compared with the virtual
    /// machine. Part of the file's name.
    pub setting: String,
    /// What it shows.
    pub title: String,
    /// From left to right.
    pub x: Axis,
    /// From bottom to top.
    pub y: Axis,
    /// The series, in the order in which they are drawn.
    pub series: Vec<Series>,
    /// What the paper found, in words.
    pub paper: String,
    /// What the paper does not say and is assumed here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
    /// Parameters and the origin of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<Setting>,
    /// What differs, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differs: Vec<Difference>,
    /// What it was made from, as a digest: the same inputs need not be run again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub inputs: String,
}

/// Why a file is no result.
#[derive(Debug)]
pub enum Error {
    /// It cannot be read or written.
    File(String, io::Error),
    /// It can, but makes no sense.
    Contents(String, String),
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, error) => write!(f, "{path}: {error}"),
            Self::Contents(path, reason) => write!(f, "{path}: {reason}"),
        }
    }
}

impl std::error::Error for Error {}

impl Experiment {
    /// Name of its file.
    pub fn file(&self) -> String {
        format!(
            "{}-{}-{}.json",
            self.origin.name(),
            self.setting,
            self.figure
        )
    }

    /// The series of this name, in this part of the figure.
    pub fn series(&self, name: &str, panel: Option<&str>) -> Option<&Series> {
        let mut all = self.series.iter();
        all.find(|one| one.name == name && one.panel.as_deref() == panel)
    }

    /// Adds to each series the geometric mean of its points: of the means, and of each repetition's
    /// deviation as it carries over if the points vary independently.
    pub fn add_geometric_means(&mut self) {
        for series in &mut self.series {
            series.points.extend(geometric_mean(&series.points));
        }
    }

    /// Says what makes no sense about it.
    ///
    /// # Errors
    ///
    /// The first thing found.
    pub fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("version {}, want {VERSION}", self.version));
        }
        let plain = |name: &str| {
            let good = |one: char| one.is_ascii_alphanumeric() || ".-".contains(one);
            !name.is_empty() && name.chars().all(good)
        };
        if !plain(&self.figure) || !plain(&self.setting) {
            return Err("figure and setting want letters, digits, dots and dashes".to_owned());
        }
        if self.series.is_empty() {
            return Err("there is no series".to_owned());
        }
        for (number, series) in self.series.iter().enumerate() {
            let name = &series.name;
            let same = |other: &Series| other.name == *name && other.panel == series.panel;
            if self.series[..number].iter().any(same) {
                return Err(format!("series {name} is there twice"));
            }
            if series.points.is_empty() {
                return Err(format!("series {name} has no points"));
            }
            for (number, point) in series.points.iter().enumerate() {
                let bad = |what: &str| Err(format!("series {name}, point {}: {what}", point.at));
                let at = if let At::Value(at) = point.at {
                    at
                } else {
                    0.0
                };
                let values = [at, point.mean, point.deviation, point.paper.unwrap_or(0.0)];
                if values.iter().any(|value| !value.is_finite()) {
                    return bad("not a number");
                }
                if point.deviation < 0.0 || point.repetitions == 0 {
                    return bad("deviation below zero, or no repetition");
                }
                if series.points[..number]
                    .iter()
                    .any(|other| other.at == point.at)
                {
                    return bad("there twice");
                }
            }
        }
        Ok(())
    }

    /// Reads a result.
    ///
    /// # Errors
    ///
    /// It cannot be read, or makes no sense.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| Error::File(name.clone(), error))?;
        let read = serde_json::from_str(&text).map_err(|error| error.to_string());
        let checked = read.and_then(|one: Self| one.check().map(|()| one));
        checked.map_err(|reason| Error::Contents(name, reason))
    }

    /// Writes it into a folder, as a whole or not at all.
    ///
    /// # Errors
    ///
    /// It makes no sense, or cannot be written; an earlier file is left as it was.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.join(self.file());
        let name = path.display().to_string();
        let bad = |reason| Error::Contents(name.clone(), reason);
        self.check().map_err(bad)?;
        let text = serde_json::to_string_pretty(self);
        let text = text.map_err(|error| bad(error.to_string()))? + "\n";
        whole::replace(&path, text.as_bytes()).map_err(|error| Error::File(name, error))
    }
}

/// The geometric mean of points; nothing if there is none, or one that is not above zero.
pub fn geometric_mean(points: &[Point]) -> Option<Point> {
    let all = points.iter().map(|point| point.mean);
    if points.is_empty() || all.clone().any(|mean| mean <= 0.0) {
        return None;
    }
    // CAST: a number of applications.
    let count = points.len() as f64;
    let mean = (all.map(f64::ln).sum::<f64>() / count).exp();
    let relative = points
        .iter()
        .map(|point| (point.deviation / point.mean).powi(2));
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

    fn experiment() -> Experiment {
        let point = |name: &str, values: &[f64]| Point::of(name, values).unwrap();
        Experiment {
            version: VERSION,
            figure: "7a".to_owned(),
            origin: Origin::VirtualMachine,
            setting: "paper".to_owned(),
            title: "Overhead".to_owned(),
            x: Axis::new("application", ""),
            y: Axis::new("turnaround over that without accounting", ""),
            series: vec![
                Series::new(
                    "event",
                    vec![point("bfs", &[0.5, 1.5]), point("nn", &[4.0])],
                ),
                Series {
                    panel: Some("right".to_owned()),
                    ..Series::new("event", vec![point("nn", &[1.1]).in_paper(1.234)])
                },
            ],
            paper: "less".to_owned(),
            assumed: vec!["much".to_owned()],
            settings: vec![Setting {
                name: "costs.read_us".to_owned(),
                value: "1 us".to_owned(),
                origin: "section 3.3".to_owned(),
            }],
            differs: vec![Difference {
                what: "all".to_owned(),
                why: "none".to_owned(),
            }],
            inputs: "ab12".to_owned(),
        }
    }

    #[test]
    fn experiment_written_is_read_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let one = experiment();
        one.write(folder.path()).unwrap();
        let path = folder.path().join("virtual-machine-paper-7a.json");
        assert_eq!(Experiment::read(&path).unwrap(), one);
    }

    #[test]
    fn experiment_that_makes_no_sense_is_neither_written_nor_read() {
        let folder = tempfile::tempdir().unwrap();
        let changes: [fn(&mut Experiment); 8] = [
            |one| one.version = 2,
            |one| one.figure = "../7a".to_owned(),
            |one| one.series.clear(),
            |one| one.series[1].panel = None,
            |one| one.series[0].points.clear(),
            |one| one.series[0].points[0].mean = f64::NAN,
            |one| one.series[0].points[0].repetitions = 0,
            |one| one.series[0].points[0].at = At::from("nn"),
        ];
        for change in changes {
            let mut one = experiment();
            change(&mut one);
            assert!(one.write(folder.path()).is_err(), "{one:?}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let path = folder.path().join("bad.json");
        let whole = serde_json::to_string(&experiment()).unwrap();
        for bad in [&whole[..whole.len() - 1], &whole.replace("title", "tilte")] {
            fs::write(&path, bad).unwrap();
            let error = Experiment::read(&path).unwrap_err().to_string();
            assert!(error.contains("bad.json"), "{error}");
        }
    }

    #[test]
    fn spread_is_mean_and_sample_deviation() {
        let spread = Spread::of([2.0, 4.0, 6.0].into_iter()).unwrap();
        assert_eq!((spread.mean, spread.deviation), (4.0, 2.0));
        assert_eq!(Spread::of([7.0].into_iter()).unwrap().deviation, 0.0);
        assert!(Spread::of(std::iter::empty()).is_none());
    }

    #[test]
    fn geometric_mean_of_a_half_and_two_is_one() {
        let point = |values: &[f64]| Point::of("x", values).unwrap();
        let mean = geometric_mean(&[point(&[0.5, 0.5]), point(&[2.0])]).unwrap();
        assert!((mean.mean - 1.0).abs() < 1e-12 && mean.deviation == 0.0);
        assert_eq!(mean.repetitions, 1);
        assert!(geometric_mean(&[]).is_none());
        assert!(geometric_mean(&[point(&[0.0])]).is_none());
    }
}
