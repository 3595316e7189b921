// SPDX-License-Identifier: GPL-2.0

//! Lengths of time in a scenario: a number, or a distribution.

use loga::units::Ns;
use rand::{Rng, RngCore};
use rand_distr::{Distribution, Exp1, StandardNormal};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::Deserialize;
use std::fmt::{self, Formatter};

/// Longest time in a scenario, in microseconds: a day.
pub(super) const MICROS_MAX: f64 = 86_400e6;

/// A length of time given in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Micros(pub Ns);

/// A length of time given in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Millis(pub Ns);

/// How long something takes: drawn anew each time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Span {
    /// Always the same.
    Constant(Ns),
    /// Anything from the first to the second, all alike.
    Uniform(f64, f64),
    /// Exponential with this mean.
    Exponential(f64),
    /// Normal with mean and standard deviation; nothing below zero.
    Normal(f64, f64),
    /// Such that the logarithm is normal, with mean and standard deviation of the time itself.
    Lognormal(f64, f64),
}

impl Micros {
    /// So many microseconds.
    pub fn new(us: f64) -> Self {
        // CAST: saturates.
        Self(Ns::new((us * 1e3).round() as u64))
    }
}

impl Span {
    /// Anything between these numbers of microseconds.
    pub const fn uniform_us(least: f64, most: f64) -> Self {
        Self::Uniform(least * 1e3, most * 1e3)
    }

    /// Always this number of microseconds.
    pub const fn us(us: u64) -> Self {
        Self::Constant(Ns::from_us(us))
    }

    /// Draws a length. Random numbers are only used where there is something to draw.
    pub fn draw(&self, random: &mut impl RngCore) -> u64 {
        let drawn = match *self {
            Self::Constant(length) => return length.get(),
            Self::Uniform(least, most) => {
                let part: f64 = random.random();
                least + part * (most - least)
            }
            Self::Exponential(mean) => {
                let unit: f64 = Exp1.sample(random);
                mean * unit
            }
            Self::Normal(mean, deviation) => mean + deviation * normal(random),
            Self::Lognormal(mean, deviation) => {
                let spread = (1.0 + (deviation / mean).powi(2)).ln();
                (mean.ln() - spread / 2.0 + spread.sqrt() * normal(random)).exp()
            }
        };
        // CAST: saturates, and what is below zero becomes zero.
        drawn.round() as u64
    }

    /// The mean, as far as nothing falls below zero.
    pub fn mean(&self) -> f64 {
        match *self {
            // CAST: times in a scenario are exact in a double.
            Self::Constant(length) => length.get() as f64,
            Self::Uniform(least, most) => (least + most) / 2.0,
            Self::Exponential(mean) | Self::Normal(mean, _) | Self::Lognormal(mean, _) => mean,
        }
    }

    /// So many times as long.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        match self {
            // CAST: times in a scenario are exact in a double; saturates.
            Self::Constant(length) => {
                Self::Constant(Ns::new((length.get() as f64 * factor).round() as u64))
            }
            Self::Uniform(least, most) => Self::Uniform(least * factor, most * factor),
            Self::Exponential(mean) => Self::Exponential(mean * factor),
            Self::Normal(mean, deviation) => Self::Normal(mean * factor, deviation * factor),
            Self::Lognormal(mean, deviation) => Self::Lognormal(mean * factor, deviation * factor),
        }
    }

    /// Whether it never takes any time.
    pub fn is_zero(&self) -> bool {
        *self == Self::Constant(Ns::ZERO)
    }
}

/// A number with mean zero and standard deviation one.
fn normal(random: &mut impl RngCore) -> f64 {
    StandardNormal.sample(random)
}

/// A number of units as nanoseconds, if it is one.
fn length<E: de::Error>(units: f64, name: &str, ns_per_unit: f64) -> Result<f64, E> {
    let max = MICROS_MAX * 1000.0 / ns_per_unit;
    if units < 0.0 {
        return Err(E::custom(format!(
            "negative time {units}, want 0 to {max} {name}"
        )));
    }
    if units.is_finite() && units <= max {
        return Ok(units * ns_per_unit);
    }
    Err(E::custom(format!(
        "time {units} is out of range, want 0 to {max} {name}"
    )))
}

/// Reads a number.
struct Number {
    name: &'static str,
    ns_per_unit: f64,
}

impl Visitor<'_> for Number {
    type Value = Ns;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "a number of {}, not negative", self.name)
    }

    fn visit_i64<E: de::Error>(self, units: i64) -> Result<Ns, E> {
        // CAST: what a double cannot hold exactly is out of range.
        self.visit_f64(units as f64)
    }

    fn visit_f64<E: de::Error>(self, units: f64) -> Result<Ns, E> {
        let length = length(units, self.name, self.ns_per_unit)?;
        // CAST: checked to be in range.
        Ok(Ns::new(length.round() as u64))
    }
}

impl<'de> Deserialize<'de> for Micros {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number {
            name: "us",
            ns_per_unit: 1e3,
        };
        deserializer.deserialize_any(number).map(Self)
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number {
            name: "ms",
            ns_per_unit: 1e6,
        };
        deserializer.deserialize_any(number).map(Self)
    }
}

/// Names of the distributions, as keys of a table.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shape {
    Uniform,
    Exponential,
    Normal,
    Lognormal,
}

/// Reads a number or a distribution in microseconds.
struct SpanVisitor;

impl<'de> Visitor<'de> for SpanVisitor {
    type Value = Span;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a number of us, not negative, or one of { uniform = [min, max] }, \
             { exponential = mean }, { normal = [mean, deviation] }, \
             { lognormal = [mean, deviation] }",
        )
    }

    fn visit_i64<E: de::Error>(self, units: i64) -> Result<Span, E> {
        // CAST: what a double cannot hold exactly is out of range.
        self.visit_f64(units as f64)
    }

    fn visit_f64<E: de::Error>(self, units: f64) -> Result<Span, E> {
        let length = length(units, "us", 1e3)?;
        // CAST: checked to be in range.
        Ok(Span::Constant(Ns::new(length.round() as u64)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Span, A::Error> {
        let Some(shape) = map.next_key::<Shape>()? else {
            return Err(de::Error::custom(
                "a distribution is missing, want one of uniform, exponential, normal, lognormal",
            ));
        };
        let us = |units: f64| length::<A::Error>(units, "us", 1e3);
        let span = match shape {
            Shape::Exponential => Span::Exponential(us(map.next_value()?)?),
            Shape::Uniform => {
                let [least, most] = map.next_value()?;
                let (least, most) = (us(least)?, us(most)?);
                if least > most {
                    return Err(de::Error::custom(
                        "uniform wants [min, max] with min <= max",
                    ));
                }
                Span::Uniform(least, most)
            }
            Shape::Normal => {
                let [mean, deviation] = map.next_value()?;
                Span::Normal(us(mean)?, us(deviation)?)
            }
            Shape::Lognormal => {
                let [mean, deviation] = map.next_value()?;
                if mean <= 0.0 {
                    return Err(de::Error::custom("lognormal wants a mean above 0"));
                }
                Span::Lognormal(us(mean)?, us(deviation)?)
            }
        };
        match map.next_key::<Shape>()? {
            None => Ok(span),
            Some(_) => Err(de::Error::custom("a time has one distribution only")),
        }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SpanVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    #[derive(Deserialize)]
    struct Holder {
        span: Span,
    }

    fn parse(text: &str) -> Result<Span, String> {
        toml::from_str::<Holder>(&format!("span = {text}"))
            .map(|holder| holder.span)
            .map_err(|error| error.message().to_owned())
    }

    /// Mean and standard deviation of many draws, in us.
    fn drawn(text: &str) -> (f64, f64) {
        const DRAWS: u32 = 100_000;
        let (span, mut random) = (parse(text).unwrap(), Pcg64Mcg::seed_from_u64(1));
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..DRAWS {
            let us = span.draw(&mut random) as f64 / 1000.0;
            sum += us;
            squares += us * us;
        }
        let mean = sum / f64::from(DRAWS);
        (mean, (squares / f64::from(DRAWS) - mean * mean).sqrt())
    }

    #[test]
    fn draws_have_the_mean_and_the_deviation_asked_for() {
        for (text, mean, deviation) in [
            ("200", 200.0, 0.0),
            ("0.5", 0.5, 0.0),
            ("{ uniform = [100, 300] }", 200.0, 57.735),
            ("{ exponential = 200 }", 200.0, 200.0),
            ("{ normal = [200, 20] }", 200.0, 20.0),
            ("{ lognormal = [200, 100] }", 200.0, 100.0),
        ] {
            let (m, d) = drawn(text);
            assert!((m - mean).abs() <= 0.01 * mean, "{text}: mean {m}");
            assert!(
                (d - deviation).abs() <= 0.02 * deviation + 1e-3,
                "{text}: {d}"
            );
        }
    }

    #[test]
    fn times_that_cannot_be_are_refused_with_what_is_allowed() {
        for (text, reason) in [
            ("-1", "negative time -1, want 0 to 86400000000 us"),
            ("-0.5", "negative time -0.5"),
            ("inf", "out of range"),
            ("1e20", "out of range"),
            ("\"200\"", "a number of us, not negative, or one of"),
            ("{ exponential = -3 }", "negative time -3"),
            ("{ gamma = 3 }", "expected one of `uniform`, `exponential`"),
            ("{ uniform = [3, 1] }", "min <= max"),
            ("{ lognormal = [0, 1] }", "above 0"),
            ("{ }", "want one of uniform"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(reason), "{text}: {message}");
        }
    }
}
