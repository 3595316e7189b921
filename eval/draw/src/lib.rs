// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Results as pictures, drawn like the paper's: grouped bars over names, lines over values, both
//! with the standard deviation as error bars. And what happened over [`time`]; [`mod@document`] makes
//! pages of them.

mod bars;
mod document;
mod lines;
mod marks;
pub mod time;

pub use document::document;
pub use marks::label;

use loga_results::{At, Axis, Experiment, Series};
use marks::{Area, Drawn, Style, TEXT};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;
use std::ops::Range;

/// Height of the line with the names of the series, in pixels.
const LEGEND: u32 = 34;
/// Half the width of the end of an error bar, in pixels.
const WHISKER: i32 = 3;

/// Draws an experiment as SVG.
pub fn picture(one: &Experiment) -> Result<String, Box<dyn Error>> {
    let panels = panels(one);
    let names = names(one);
    let size = size(one, panels.len());
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        let (top, rest) = area.split_vertically(LEGEND);
        let named = matches!(one.series[0].points[0].at, At::Name(_));
        legend(&top, &names, named, paper(one))?;
        let columns = if panels.len() > 1 { 2 } else { 1 };
        let parts = rest.split_evenly((panels.len().div_ceil(columns), columns));
        for (part, panel) in parts.iter().zip(&panels) {
            let series: Vec<_> = one
                .series
                .iter()
                .filter(|one| one.panel == *panel)
                .collect();
            let chart = Chart {
                area: part,
                title: panel.as_deref(),
                x: &one.x,
                y: &one.y,
                styles: series.iter().map(|one| style_in(&names, one)).collect(),
                series,
                base: base(one),
            };
            if chart.named() {
                bars::draw(&chart)?;
            } else {
                lines::draw(&chart)?;
            }
        }
        area.present()?;
    }
    Ok(svg)
}

/// One chart of a picture.
struct Chart<'a, 'b> {
    area: &'a Area<'b>,
    title: Option<&'a str>,
    x: &'a Axis,
    y: &'a Axis,
    series: Vec<&'a Series>,
    /// Colour and mark of each of them.
    styles: Vec<Style>,
    /// Where bars begin.
    base: f64,
}

impl Chart<'_, '_> {
    /// Whether the points have names instead of values.
    fn named(&self) -> bool {
        let mut points = self.series.iter().flat_map(|series| &series.points);
        points.any(|point| matches!(point.at, At::Name(_)))
    }

    /// From the smallest to the largest value with its deviation, and `also`, with some room.
    fn reach(&self, also: &[f64]) -> Range<f64> {
        let points = self.series.iter().flat_map(|series| &series.points);
        let ends = points.flat_map(|one| {
            let paper = one.paper.unwrap_or(one.mean);
            [one.mean - one.deviation, one.mean + one.deviation, paper]
        });
        let all = || ends.clone().chain(also.iter().copied());
        let least = all().fold(f64::INFINITY, f64::min);
        let most = all().fold(f64::NEG_INFINITY, f64::max);
        let room = 0.05 * (most - least).max(1e-9);
        let down = if least == 0.0 { 0.0 } else { room };
        least - down..most + room
    }
}

/// The parts of a figure, in order; one without a name if there are none.
fn panels(one: &Experiment) -> Vec<Option<String>> {
    let mut panels = Vec::new();
    for series in &one.series {
        if !panels.contains(&series.panel) {
            panels.push(series.panel.clone());
        }
    }
    panels
}

/// Names of the series, each once.
fn names(one: &Experiment) -> Vec<&str> {
    let mut names = Vec::new();
    for series in &one.series {
        if !names.contains(&&*series.name) {
            names.push(&*series.name);
        }
    }
    names
}

fn style_in(names: &[&str], series: &Series) -> Style {
    let at = names.iter().position(|name| *name == series.name);
    Style::of(&series.name, at.unwrap_or_default())
}

/// Width and height in pixels: wide for many names, narrow for a line.
fn size(one: &Experiment, panels: usize) -> (u32, u32) {
    let points = one.series.iter().map(|series| series.points.len()).max();
    let named = matches!(one.series[0].points[0].at, At::Name(_));
    // CAST: a few dozen.
    let points = points.unwrap_or_default() as u32;
    // The paper's mark is named, too.
    let texts = names(one)
        .into_iter()
        .map(label)
        .chain(["number in the paper"]);
    let legend = 70 + texts.map(room).sum::<u32>();
    match (panels, named) {
        (2.., _) => (860, 620),
        (_, true) => ((120 + 45 * points).clamp(420, 1060).max(legend), 400),
        (_, false) => (560.max(legend), 400),
    }
}

/// Bars of Figure 7 show what is above or below no accounting; all others begin at zero.
fn base(one: &Experiment) -> f64 {
    f64::from(u8::from(one.figure.starts_with('7')))
}

/// Whether any point has a number of the paper.
fn paper(one: &Experiment) -> bool {
    let mut points = one.series.iter().flat_map(|series| &series.points);
    points.any(|point| point.paper.is_some())
}

/// Width of a name in the legend with its mark, in pixels.
fn room(text: &str) -> u32 {
    // CAST: the length of a word; a letter takes about 6 pixels.
    44 + 6 * text.chars().count() as u32
}

/// Names of the series beside their marks, in a line; where bars are drawn, the marks are boxes.
fn legend(area: &Area, names: &[&str], bars: bool, paper: bool) -> Drawn {
    let y = 20;
    let mut x = 70;
    let tell = |text: &str, x: i32| -> Result<i32, Box<dyn Error>> {
        area.draw_text(text, &style(13, HPos::Left, VPos::Center), (x + 16, y))?;
        // CAST: a few hundred pixels.
        Ok(x + room(text) as i32)
    };
    for (at, name) in names.iter().enumerate() {
        let style = Style::of(name, at);
        if bars {
            let corners = [(x - 5, y - 5), (x + 5, y + 5)];
            area.draw(&Rectangle::new(corners, style.colour.filled()))?;
        } else if style.dashed {
            for from in [x - 12, x + 3] {
                let ends = [(from, y), (from + 9, y)];
                area.draw(&PathElement::new(ends, style.colour.stroke_width(2)))?;
            }
        } else {
            style.mark(area, (x, y))?;
        }
        x = tell(label(name), x)?;
    }
    if paper {
        marks::paper(area, (x, y))?;
        tell("number in the paper", x)?;
    }
    Ok(())
}

/// An error bar at these pixels.
fn whisker(area: &Area, x: i32, low: i32, high: i32) -> Drawn {
    let line = TEXT.stroke_width(1);
    area.draw(&PathElement::new([(x, low), (x, high)], line))?;
    for y in [low, high] {
        area.draw(&PathElement::new(
            [(x - WHISKER, y), (x + WHISKER, y)],
            line,
        ))?;
    }
    Ok(())
}

/// Text of this size, anchored like this.
fn style(size: i32, across: HPos, down: VPos) -> TextStyle<'static> {
    let style = ("sans-serif", size).into_font().color(&TEXT);
    style.pos(Pos::new(across, down))
}

/// The text of an axis.
fn title(axis: &Axis) -> String {
    match &axis.unit {
        Some(unit) => format!("{} ({unit})", axis.title),
        None => axis.title.clone(),
    }
}

/// A number on an axis with steps of this size, without digits that say nothing.
fn number(value: f64, step: f64) -> String {
    let digits = [1.0, 0.1, 0.01]
        .iter()
        .filter(|size| step < **size - 1e-12)
        .count();
    format!("{value:.digits$}")
}
