// SPDX-License-Identifier: GPL-2.0

//! An experiment as a file.

use crate::{whole, At, Experiment, Series, Setting, SettingValue, VERSION};
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io;
use std::path::Path;

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
        let finite =
            |one: &Setting| !matches!(one.value, SettingValue::Number(value) if !value.is_finite());
        if let Some(bad) = self.settings.iter().find(|one| !finite(one)) {
            return Err(format!("setting {}: not a number", bad.name));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Difference, Origin, Point, Unit};

    fn experiment() -> Experiment {
        let point = |name: &str, values: &[f64]| Point::of(name, values).unwrap();
        Experiment {
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
            settings: vec![
                Setting::number("costs.read_us", 1.25, Unit::Micros, "section 3.3"),
                Setting::number("policy.ratio", 5.0, None, "section 5.1"),
                Setting::text("channels", "12 each", "section 5.1"),
            ],
            differs: vec![Difference {
                what: "all".to_owned(),
                why: "none".to_owned(),
            }],
            inputs: "ab12".to_owned(),
            ..Experiment::new("7a", Origin::VirtualMachine, "paper")
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
        let changes: [fn(&mut Experiment); 9] = [
            |one| one.version = VERSION + 1,
            |one| one.figure = "../7a".to_owned(),
            |one| one.settings[0].value = SettingValue::Number(f64::INFINITY),
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
}
