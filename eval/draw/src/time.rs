// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What several had of one thing over time: a stack of areas, and below it a row for each
//! that says when it was held.

use crate::marks::{Area, Drawn, GRID, TEXT};
use crate::{number, style};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};
use std::error::Error;

/// Colours of layers, in turn. Source: Okabe and Ito, as of the series; without black.
const LAYERS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(240, 228, 66),
    RGBColor(120, 60, 160),
];
/// Layers that have a colour of their own.
pub const LAYERS_MAX: usize = LAYERS.len();
/// Colour of all others together.
const REST: RGBColor = RGBColor(150, 150, 150);
/// Colour of times of which nothing is known.
const NOTHING: RGBColor = RGBColor(238, 238, 238);

/// Width of a picture, its margins, and the heights of its parts, in pixels.
const WIDTH: i32 = 1080;
const LEFT: i32 = 190;
const RIGHT: i32 = 24;
const TOP: i32 = 34;
const STACK: i32 = 260;
const BETWEEN: i32 = 34;
const ROW: i32 = 20;
const BOTTOM: i32 = 46;

/// Who had a part.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    /// Its name.
    pub name: String,
    /// Whether it stands for all that have no layer of their own.
    pub rest: bool,
    /// The part in each column, 0 to 1; nothing where it is not known.
    pub part: Vec<Option<f64>>,
    /// For which part of each column it was held, 0 to 1.
    pub held: Vec<f64>,
}

/// A stack over time.
#[derive(Clone, Debug, Default)]
pub struct Stack {
    /// What the areas are, such as `share of GPU 0`.
    pub parts: String,
    /// What the rows are, such as `throttled`.
    pub rows: String,
    /// For how long the columns are together, in seconds.
    pub seconds: f64,
    /// Those that had a part; the first is the lowest.
    pub layers: Vec<Layer>,
}

/// Draws a stack as SVG.
///
/// # Errors
///
/// What the plotting library says.
pub fn stack(one: &Stack) -> Result<String, Box<dyn Error>> {
    // CAST: a few rows.
    let rows = one.layers.len() as i32;
    let height = TOP + STACK + BETWEEN + ROW * rows + BOTTOM;
    let mut svg = String::new();
    {
        let size = (WIDTH.unsigned_abs(), height.unsigned_abs());
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        let bottom = TOP + STACK + BETWEEN + ROW * rows;
        unknown(&area, one, bottom)?;
        axes(&area, one, bottom)?;
        areas(&area, one)?;
        held(&area, one)?;
        area.present()?;
    }
    Ok(svg)
}

/// Columns of a stack.
fn columns(one: &Stack) -> usize {
    let lengths = one.layers.iter().map(|layer| layer.part.len());
    lengths.max().unwrap_or(0)
}

/// Where a column begins, in pixels.
fn x(column: usize, columns: usize) -> i32 {
    let wide = f64::from(WIDTH - LEFT - RIGHT);
    // CAST: a place in the picture.
    LEFT + (wide * column as f64 / columns.max(1) as f64).round() as i32
}

/// Where a part is in the stack, in pixels.
fn y(part: f64) -> i32 {
    // CAST: a place in the picture.
    TOP + STACK - (f64::from(STACK) * part.clamp(0.0, 1.0)).round() as i32
}

fn colour(at: usize, layer: &Layer) -> RGBColor {
    match layer.rest {
        true => REST,
        false => LAYERS[at % LAYERS.len()],
    }
}

/// Runs of columns for which something holds: first column and one past the last.
fn runs(columns: usize, holds: impl Fn(usize) -> bool) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for column in (0..columns).filter(|column| holds(*column)) {
        match runs.last_mut() {
            Some((_, end)) if *end == column => *end += 1,
            _ => runs.push((column, column + 1)),
        }
    }
    runs
}

fn known(one: &Stack, column: usize) -> bool {
    let part = |layer: &Layer| layer.part.get(column).copied().flatten();
    one.layers.iter().any(|layer| part(layer).is_some())
}

/// Shades times of which nothing is known.
fn unknown(area: &Area, one: &Stack, bottom: i32) -> Drawn {
    let columns = columns(one);
    for (from, to) in runs(columns, |column| !known(one, column)) {
        let corners = [(x(from, columns), TOP), (x(to, columns), bottom)];
        area.draw(&Rectangle::new(corners, NOTHING.filled()))?;
    }
    Ok(())
}

/// Lines and numbers of the axes, and what they are.
fn axes(area: &Area, one: &Stack, bottom: i32) -> Drawn {
    let line = |ends: [(i32, i32); 2], colour: RGBColor| {
        area.draw(&PathElement::new(ends, colour.stroke_width(1)))
    };
    let parts = format!("{} (%)", one.parts);
    let heading = style(13, HPos::Left, VPos::Center);
    area.draw_text(&parts, &heading, (LEFT, TOP - 18))?;
    for percent in [0, 25, 50, 75, 100] {
        let y = y(f64::from(percent) / 100.0);
        line([(LEFT, y), (WIDTH - RIGHT, y)], GRID)?;
        let style = style(12, HPos::Right, VPos::Center);
        area.draw_text(&percent.to_string(), &style, (LEFT - 6, y))?;
    }
    let (unit, length) = unit(one.seconds);
    let step = step(length);
    // CAST: at most a dozen.
    let ticks = (0..=12).map(|tick| f64::from(tick) * step);
    for tick in ticks.take_while(|tick| *tick <= length * 1.0001) {
        let wide = f64::from(WIDTH - LEFT - RIGHT);
        // CAST: a place in the picture.
        let x = LEFT + (wide * tick / length.max(1e-9)).round() as i32;
        line([(x, TOP), (x, TOP + STACK)], GRID)?;
        line([(x, TOP + STACK + BETWEEN), (x, bottom + 4)], GRID)?;
        let style = style(12, HPos::Center, VPos::Top);
        area.draw_text(&number(tick, step), &style, (x, bottom + 7))?;
    }
    let about = format!("time since the start ({unit})");
    let style = style(13, HPos::Center, VPos::Top);
    area.draw_text(&about, &style, ((LEFT + WIDTH - RIGHT) / 2, bottom + 25))?;
    line([(LEFT, TOP), (LEFT, TOP + STACK)], TEXT)?;
    line([(LEFT, bottom), (WIDTH - RIGHT, bottom)], TEXT)?;
    area.draw_text(&one.rows, &heading, (LEFT, TOP + STACK + BETWEEN - 14))?;
    Ok(())
}

/// The unit of a length in seconds, and the length in it.
fn unit(seconds: f64) -> (&'static str, f64) {
    match seconds {
        s if s >= 3.0 * 3600.0 => ("h", s / 3600.0),
        s if s >= 600.0 => ("min", s / 60.0),
        s => ("s", s),
    }
}

/// The distance of numbers on an axis of this length.
fn step(length: f64) -> f64 {
    let rough = (length / 10.0).max(1e-9);
    let size = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * size);
    let enough = steps.into_iter().find(|step| *step >= rough * 0.9999);
    enough.unwrap_or(rough)
}

/// The areas, each from the top of those below it, with a white line above: they can be told apart
/// without colours.
fn areas(area: &Area, one: &Stack) -> Drawn {
    let columns = columns(one);
    let mut below = vec![0.0; columns];
    for (at, layer) in one.layers.iter().enumerate() {
        let part = |column: usize| layer.part.get(column).copied().flatten();
        let above: Vec<f64> = below
            .iter()
            .enumerate()
            .map(|(column, below)| below + part(column).unwrap_or(0.0).max(0.0))
            .collect();
        for (from, to) in runs(columns, |column| {
            part(column).is_some_and(|part| part > 0.0)
        }) {
            let steps = |of: &[f64]| -> Vec<(i32, i32)> {
                let ends = |column| {
                    let y = y(of[column]);
                    [(x(column, columns), y), (x(column + 1, columns), y)]
                };
                (from..to).flat_map(ends).collect()
            };
            let top = steps(&above);
            let mut corners = top.clone();
            corners.extend(steps(&below).into_iter().rev());
            area.draw(&Polygon::new(corners, colour(at, layer).filled()))?;
            area.draw(&PathElement::new(top, WHITE.stroke_width(1)))?;
        }
        below = above;
    }
    Ok(())
}

/// A row for each: its colour, its name, and when it was held, the darker the longer.
fn held(area: &Area, one: &Stack) -> Drawn {
    for (at, layer) in one.layers.iter().enumerate() {
        // CAST: a few rows.
        let top = TOP + STACK + BETWEEN + ROW * at as i32;
        let middle = top + ROW / 2;
        let colour = colour(at, layer);
        let corners = [(8, middle - 6), (20, middle + 6)];
        area.draw(&Rectangle::new(corners, colour.filled()))?;
        let style = style(12, HPos::Left, VPos::Center);
        area.draw_text(&layer.name, &style, (26, middle))?;
        let columns = layer.held.len();
        let level = |column: usize| {
            let held = layer.held.get(column).copied().unwrap_or(0.0);
            // CAST: 0 to 4; a little is seen, too.
            (held.clamp(0.0, 1.0) * 4.0).ceil() as u8
        };
        for wanted in 1..=4 {
            for (from, to) in runs(columns, |column| level(column) == wanted) {
                let corners = [
                    (x(from, columns), top + 3),
                    (x(to, columns).max(x(from, columns) + 1), top + ROW - 3),
                ];
                let shade = colour.mix(0.25 * f64::from(wanted));
                area.draw(&Rectangle::new(corners, shade.filled()))?;
            }
        }
        let ends = [(LEFT, top + ROW), (WIDTH - RIGHT, top + ROW)];
        area.draw(&PathElement::new(ends, GRID.stroke_width(1)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(name: &str, part: Vec<Option<f64>>) -> Layer {
        let held = vec![0.0; part.len()];
        Layer {
            name: name.to_string(),
            part,
            held,
            ..Layer::default()
        }
    }

    #[test]
    fn picture_has_the_names_and_an_area_for_each_run_of_known_columns() {
        let known = vec![Some(0.5), Some(0.25), None, Some(0.5)];
        let one = Stack {
            parts: "share of GPU 0".to_string(),
            rows: "throttled".to_string(),
            seconds: 20.0,
            layers: vec![layer("7 <a>&\"b\"", known.clone()), layer("8 b", known)],
        };
        let svg = stack(&one).expect("drawn");
        assert_eq!(svg.matches("<polygon").count(), 4, "{svg}");
        assert!(svg.contains("8 b"));
        assert!(svg.contains("share of GPU 0 (%)"));
        assert!(svg.contains("time since the start (s)"));
        assert!(svg.contains("&lt;a&gt;"), "{svg}");
        assert!(!svg.contains("<a>"), "{svg}");
    }

    #[test]
    fn stack_without_layers_or_time_is_drawn() {
        assert!(stack(&Stack::default()).is_ok());
        let one = Stack {
            layers: vec![layer("a", vec![None; 3])],
            ..Stack::default()
        };
        assert!(stack(&one).is_ok());
    }

    #[test]
    fn axis_has_at_most_a_dozen_round_numbers_in_a_fitting_unit() {
        assert_eq!(unit(59.0), ("s", 59.0));
        assert_eq!(unit(1200.0), ("min", 20.0));
        assert_eq!(unit(36_000.0), ("h", 10.0));
        for (length, expected) in [
            (60.0, 10.0),
            (20.0, 2.0),
            (9.7, 1.0),
            (0.3, 0.05),
            (100.0, 10.0),
        ] {
            let step = step(length);
            assert!((step - expected).abs() < 1e-9, "{length}: {step}");
            assert!(length / step <= 12.0);
        }
    }

    #[test]
    fn runs_are_of_neighbours() {
        let held = [true, true, false, true];
        assert_eq!(runs(4, |column| held[column]), [(0, 2), (3, 4)]);
        assert!(runs(0, |_| true).is_empty());
    }
}
