// SPDX-License-Identifier: GPL-2.0

//! [tool] Experiments of papers on other systems: what they measured, what the simulator gives, and
//! whether that is what it should be.

mod figure;
mod page;
mod pegasus;
pub mod timegraph;
mod trial;

pub use figure::{text, Criterion, Figure, Length, Line};
pub use page::page;

use crate::outcome::Error;
use figure::Experiment;

/// All figures.
fn all() -> impl Iterator<Item = &'static Experiment> {
    timegraph::FIGURES.iter().chain(pegasus::FIGURES)
}

/// Names of the figures.
pub fn names() -> impl Iterator<Item = &'static str> {
    all().map(|(name, ..)| *name)
}

/// The figure of this name, if there is one.
pub fn figure(name: &str, length: Length) -> Option<Result<Figure, Error>> {
    let one = all().find(|(known, ..)| *known == name)?;
    Some(made(one, length))
}

/// All figures in their order, each made when it is asked for; `before` is told its name first.
pub fn figures(
    length: Length,
    before: impl Fn(&str),
) -> impl Iterator<Item = Result<Figure, Error>> {
    all().map(move |one| {
        before(one.0);
        made(one, length)
    })
}

fn made(&(name, about, make): &'static Experiment, length: Length) -> Result<Figure, Error> {
    Ok(Figure {
        name,
        about,
        seconds: length.seconds,
        seeds: length.seeds,
        lines: make(length)?,
    })
}
