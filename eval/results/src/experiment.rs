// SPDX-License-Identifier: GPL-2.0

//! What belongs to an experiment.

use crate::figures::figure;
use crate::{geometric_mean, Series, VERSION};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

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

/// A parameter of the experiment and where its value comes from.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Such as `costs.switch_us`.
    pub name: String,
    /// Its value.
    pub value: SettingValue,
    /// Unit of a number; nothing for counts and ratios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
    /// Its source: a section of the paper, a measurement, or `assumed`.
    pub origin: String,
}

/// The value of a parameter.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SettingValue {
    /// A number.
    Number(f64),
    /// What is no single number.
    Text(String),
}

/// Unit of a parameter.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Unit {
    /// Microseconds.
    #[serde(rename = "us")]
    Micros,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Millis,
    /// Hundredths.
    #[serde(rename = "%")]
    Percent,
}

impl Setting {
    /// A parameter that is a number.
    pub fn number(name: &str, value: f64, unit: impl Into<Option<Unit>>, origin: &str) -> Self {
        Self {
            name: name.to_owned(),
            value: SettingValue::Number(value),
            unit: unit.into(),
            origin: origin.to_owned(),
        }
    }

    /// One that is none.
    pub fn text(name: &str, value: &str, origin: &str) -> Self {
        Self {
            name: name.to_owned(),
            value: SettingValue::Text(value.to_owned()),
            unit: None,
            origin: origin.to_owned(),
        }
    }

    /// Its value, if it is a time in microseconds.
    pub fn micros(&self) -> Option<f64> {
        match (&self.value, self.unit) {
            (SettingValue::Number(us), Some(Unit::Micros)) => Some(*us),
            _ => None,
        }
    }
}

impl Display for Setting {
    /// The value with its unit.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.value {
            SettingValue::Number(number) => number.fmt(f)?,
            SettingValue::Text(text) => text.fmt(f)?,
        }
        f.write_str(match self.unit {
            None => "",
            Some(Unit::Micros) => " us",
            Some(Unit::Millis) => " ms",
            Some(Unit::Percent) => " %",
        })
    }
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

impl Experiment {
    /// One of a figure, without series.
    pub fn new(number: &str, origin: Origin, setting: &str) -> Self {
        let figure = figure(number);
        Self {
            version: VERSION,
            figure: number.to_owned(),
            origin,
            setting: setting.to_owned(),
            title: figure.title.to_owned(),
            x: Axis::new(figure.x.0, figure.x.1),
            y: Axis::new(figure.y.0, figure.y.1),
            series: Vec::new(),
            paper: figure.paper.to_owned(),
            assumed: Vec::new(),
            settings: Vec::new(),
            differs: Vec::new(),
            inputs: String::new(),
        }
    }

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

    /// The parameter of this name.
    pub fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|one| one.name == name)
    }

    /// A time that was measured, in microseconds; zero if it was not.
    pub fn measured_us(&self, name: &str) -> f64 {
        let found = self.setting(name).and_then(Setting::micros);
        found.unwrap_or_default()
    }

    /// Adds to each series the geometric mean of its points: of the means, and of each repetition's
    /// deviation as it carries over if the points vary independently.
    pub fn add_geometric_means(&mut self) {
        for series in &mut self.series {
            series.points.extend(geometric_mean(&series.points));
        }
    }
}
