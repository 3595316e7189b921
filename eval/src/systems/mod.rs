// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Experiments of papers on other systems: what they measured, what the simulator gives, and
//! whether that is what it should be.

mod figure;
mod gvim;
mod measured;
mod page;
mod pegasus;
mod strings;
pub mod timegraph;
mod trial;

pub use figure::{text, Criterion, Figure, Length, Line};
pub use page::page;

use crate::outcome::Error;
use figure::{Experiment, Lines};
use std::thread;

/// All figures.
fn all() -> impl Iterator<Item = &'static Experiment> {
    let of_others = timegraph::FIGURES.iter().chain(pegasus::FIGURES);
    of_others.chain(strings::FIGURES).chain(gvim::FIGURES)
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

/// Figures that are made seed by seed and judged by the spread of the seeds, as their
/// specification asks for: those on placing, and on turns.
fn one_by_one(name: &str) -> bool {
    let mut all = strings::FIGURES.iter().chain(gvim::FIGURES);
    all.any(|(known, ..)| *known == name)
}

fn made(&(name, about, make): &'static Experiment, length: Length) -> Result<Figure, Error> {
    let (seeds, lines) = match one_by_one(name) {
        true => (length.one_by_one, seed_by_seed(make, length)?),
        false => (length.seeds, make(length)?),
    };
    Ok(Figure {
        name,
        about,
        each: strings::each(name, length).unwrap_or_else(|| format!("{} s", length.seconds)),
        seeds,
        lines,
    })
}

/// The lines of a figure from each seed, put together. All processors work on it.
fn seed_by_seed(make: fn(Length) -> Lines, length: Length) -> Lines {
    let seeds = length.first..length.first.saturating_add(length.one_by_one.max(1));
    let one = |first: u64| {
        make(Length {
            seeds: 1,
            first,
            ..length
        })
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    // Worker by worker, every so many seeds.
    let work = |worker: usize| -> Vec<Lines> {
        let own = seeds.clone().skip(worker).step_by(workers);
        own.map(one).collect()
    };
    let made: Vec<Vec<Lines>> = thread::scope(|scope| {
        let work = &work;
        let spawned = (0..workers).map(|worker| scope.spawn(move || work(worker)));
        let spawned: Vec<_> = spawned.collect();
        let joined = spawned.into_iter().map(|one| match one.join() {
            Ok(lines) => lines,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    });
    let made: Vec<Vec<Line>> = made.into_iter().flatten().collect::<Result<_, _>>()?;
    let count = made.first().map_or(0, Vec::len);
    let of_line = |at: usize| {
        made.iter()
            .map(|lines| lines[at].clone())
            .collect::<Vec<_>>()
    };
    Ok((0..count).map(|at| Line::of_seeds(&of_line(at))).collect())
}
