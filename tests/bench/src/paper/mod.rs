// SPDX-License-Identifier: GPL-2.0

//! Experiments of the LoGA paper on the real module: Figures 9 and 10, section 5.6, and Figures 7
//! and 11 reduced to three applications. Each leaves its result in the layout that the simulator
//! and a host use too.
//!
//! | file | contents |
//! |---|---|
//! | `accuracy` | Figures 9 and 10, section 5.6: one load |
//! | `overhead`, `quality` | Figures 7 and 11: an application with throttles |
//! | `beside` | runs an application with throttles |
//! | `gauge` | costs in the virtual machine |

mod accuracy;
mod beside;
mod gauge;
mod overhead;
mod quality;

use crate::OUT;
use loga_results::reduced::SETTING;
use loga_results::{At, Experiment, Origin, Point, Series};
use std::path::Path;

/// Runs an experiment, a shorter one on request.
type Run = fn(quick: bool) -> Result<Experiment, String>;

/// All experiments, by name, in the order in which they are run.
pub(crate) const ALL: &[(&str, Run)] = &[
    ("paper-5.6", accuracy::cpu),
    ("paper-7a", overhead::short),
    ("paper-11", quality::quality),
    ("paper-7b", overhead::long),
    ("paper-9", accuracy::kernel_length),
    ("paper-10", accuracy::load),
];

/// Runs an experiment and leaves its result.
pub(crate) fn measure(name: &str, run: Run, quick: bool) -> Result<(), String> {
    let one = run(quick).map_err(|error| format!("{name}: {error}"))?;
    one.write(Path::new(OUT))
        .map_err(|error| error.to_string())?;
    println!("{name}: {}", one.file());
    Ok(())
}

/// An experiment without series.
fn empty(figure: &str) -> Experiment {
    Experiment::new(figure, Origin::VirtualMachine, SETTING)
}

/// Series without points.
fn series(names: &[&str]) -> Vec<Series> {
    let series = names.iter().map(|name| Series::new(name, Vec::new()));
    series.collect()
}

/// Adds a point to the series of this name and prints it, so that a long run shows its progress.
fn add(series: &mut [Series], name: &str, at: impl Into<At>, values: &[f64]) -> Result<(), String> {
    let point = Point::of(at, values).filter(|point| point.mean.is_finite());
    let point = point.ok_or_else(|| format!("{name}: nothing was measured"))?;
    println!(
        "{name}, {}: {:.4} ± {:.4}",
        point.at, point.mean, point.deviation
    );
    let found = series.iter_mut().find(|one| one.name == name);
    let found = found.ok_or_else(|| format!("no series {name}"))?;
    found.points.push(point);
    Ok(())
}
