// SPDX-License-Identifier: GPL-2.0

//! Fairness against overhead as a picture: one point per policy, best at the top left.

use super::{Comparison, Row};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::borrow::Cow;
use std::error::Error;
use std::path::Path;

/// Size in pixels.
const SIZE: (u32, u32) = (760, 520);
/// Width of the legend at the right, where it begins, and from line to line, in pixels.
const LEGEND: i32 = 150;
const TOP: i32 = 60;
const LINE: i32 = 22;
/// Radius of a point in pixels; hollow ones show what lies under them.
const RADIUS: i32 = 6;
/// Colours of the points, in turn; readable on white.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
    RGBColor(120, 60, 160),
];

/// A point of the picture.
struct Point<'a> {
    row: &'a Row,
    overhead: f64,
    fairness: f64,
}

/// Draws a comparison as SVG.
///
/// # Errors
///
/// The plotting library refuses, for example because there is no point at all.
pub fn picture(comparison: &Comparison) -> Result<String, Box<dyn Error>> {
    let points: Vec<_> = comparison.rows.iter().filter_map(point).collect();
    if points.is_empty() {
        return Err("no policy has figures to draw".into());
    }
    let least = |value: fn(&Point) -> f64| points.iter().map(value).fold(f64::INFINITY, f64::min);
    let most =
        |value: fn(&Point) -> f64| points.iter().map(value).fold(f64::NEG_INFINITY, f64::max);
    let (left, right) = (
        least(|one| one.overhead).min(0.0),
        most(|one| one.overhead).max(1.0),
    );
    let bottom = least(|one| one.fairness).min(0.9);
    let (wide, high) = (right - left, 1.0 - bottom);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let name = Path::new(&comparison.scenario).file_name();
        let name = name.map_or(Cow::default(), |name| name.to_string_lossy());
        let mut chart = ChartBuilder::on(&area)
            .caption(
                format!("Fairness against overhead: {name}"),
                ("sans-serif", 18),
            )
            .margin(16)
            .margin_right(LEGEND)
            .x_label_area_size(44)
            .y_label_area_size(56)
            .build_cartesian_2d(
                left - 0.05 * wide..right + 0.05 * wide,
                bottom - 0.05 * high..1.0 + 0.05 * high,
            )?;
        chart
            .configure_mesh()
            .x_desc("overhead: kernel time lost against no scheduler, percent")
            .y_desc("fairness: Jain's index of got over fair")
            .max_light_lines(0)
            .draw()?;
        for ((at, point), line) in points.iter().enumerate().zip(0..) {
            let y = TOP + line * LINE;
            let colour = COLOURS[at % COLOURS.len()];
            let place = chart.backend_coord(&(point.overhead, point.fairness));
            // CAST: a width in pixels.
            let legend = SIZE.0 as i32 - LEGEND + 20;
            mark(&area, at, place, colour)?;
            mark(&area, at, (legend, y + 6), colour)?;
            let style = ("sans-serif", 14).into_font().color(&BLACK);
            area.draw_text(point.row.policy, &style, (legend + 14, y))?;
        }
        area.present()?;
    }
    Ok(svg)
}

/// Draws the mark of the policy number `at`: shapes differ too, for readers that see no colours.
fn mark(
    area: &DrawingArea<SVGBackend, Shift>,
    at: usize,
    place: (i32, i32),
    colour: RGBColor,
) -> Result<(), Box<dyn Error>> {
    let line = colour.stroke_width(2);
    match at % 4 {
        0 => area.draw(&Circle::new(place, RADIUS, line))?,
        1 => area.draw(&TriangleMarker::new(place, RADIUS + 2, line))?,
        2 => area.draw(&Cross::new(place, RADIUS, line))?,
        _ => {
            let (x, y) = place;
            let corners = [(x - RADIUS, y - RADIUS), (x + RADIUS, y + RADIUS)];
            area.draw(&Rectangle::new(corners, line))?;
        }
    }
    Ok(())
}

fn point(row: &Row) -> Option<Point<'_>> {
    Some(Point {
        row,
        overhead: row.overhead_pct?.mean,
        fairness: row.fairness?.mean,
    })
}
