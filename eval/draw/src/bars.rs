// SPDX-License-Identifier: GPL-2.0

//! Grouped bars over names.

use super::marks::{self, GRID, TEXT};
use super::{number, style, title, whisker, Chart, Drawn};
use loga_results::{At, GEOMETRIC_MEAN};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

/// Room for the texts of the axes, in pixels.
const LEFT: u32 = 58;
/// Part of a group's width that its bars take at most, and that a bar takes at most.
const FULL: f64 = 0.8;
const BAR: f64 = 0.22;
/// Length up to which names are written across, with few groups.
const SHORT: usize = 14;

/// Draws a group of bars for each name, one bar for each series that has a point there.
pub(crate) fn draw(chart: &Chart) -> Drawn {
    let groups = groups(chart);
    let upright = groups.len() > 6 || groups.iter().any(|name| name.to_string().len() > SHORT);
    let longest = groups
        .iter()
        .map(|name| name.to_string().len())
        .max()
        .unwrap_or(0);
    // CAST: the length of a word; a letter takes about 6 pixels.
    let bottom = if upright { 32 + 6 * longest as u32 } else { 44 };
    let mut reach = chart.reach(&[chart.base]);
    if chart.base == 0.0 {
        reach.start = reach.start.max(0.0);
    }
    let step = (reach.end - reach.start) / 8.0;
    // CAST: a few dozen.
    let across = groups.len() as f64;
    let mut builder = ChartBuilder::on(chart.area);
    builder
        .margin(10)
        .x_label_area_size(bottom)
        .y_label_area_size(LEFT);
    if let Some(name) = chart.title {
        builder.caption(name, style(15, HPos::Left, VPos::Top));
    }
    let mut plane = builder.build_cartesian_2d(0.0..across, reach.clone())?;
    plane
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .x_desc(title(chart.x))
        .y_desc(title(chart.y))
        .y_label_formatter(&|value| number(*value, step))
        .label_style(("sans-serif", 12))
        .axis_desc_style(("sans-serif", 13))
        .bold_line_style(GRID)
        .max_light_lines(0)
        .draw()?;
    // CAST: a few.
    let count = chart.series.len() as f64;
    let width = (FULL / count).min(BAR);
    let (left, top) = chart.area.get_base_pixel();
    for (group, name) in groups.iter().enumerate() {
        let middle = group as f64 + 0.5;
        if matches!(name, At::Name(name) if name == GEOMETRIC_MEAN) {
            let ends = [(group as f64, reach.start), (group as f64, reach.end)];
            plane.draw_series(LineSeries::new(ends, GRID.stroke_width(2)))?;
        }
        let bars = chart.series.iter().zip(&chart.styles).enumerate();
        for (number, (series, style)) in bars {
            let Some(point) = series.point(name) else {
                continue;
            };
            let from = middle + width * (number as f64 - count / 2.0);
            let corners = [(from, chart.base), (from + 0.92 * width, point.mean)];
            plane.draw_series([Rectangle::new(corners, style.colour.filled())])?;
            // Seen even where the bar has no height.
            let end = [(corners[0].0, point.mean), corners[1]];
            plane.draw_series(LineSeries::new(end, style.colour.stroke_width(2)))?;
            let at = |y: f64| {
                let (x, y) = plane.backend_coord(&(from + 0.46 * width, y));
                (x - left, y - top)
            };
            if point.deviation > 1e-6 * point.mean.abs() {
                let (low, high) = (
                    at(point.mean - point.deviation),
                    at(point.mean + point.deviation),
                );
                whisker(chart.area, low.0, low.1, high.1)?;
            }
            if let Some(paper) = point.paper {
                marks::paper(chart.area, at(paper))?;
            }
        }
        let (x, y) = plane.backend_coord(&(middle, reach.start));
        let place = (x - left, y - top + 7);
        let text = if upright {
            let style = style(12, HPos::Right, VPos::Center);
            TextStyle {
                font: style.font.transform(FontTransform::Rotate270),
                ..style
            }
        } else {
            style(12, HPos::Center, VPos::Top)
        };
        chart.area.draw_text(&name.to_string(), &text, place)?;
    }
    let ends = [(0.0, chart.base), (across, chart.base)];
    plane.draw_series(LineSeries::new(ends, TEXT.stroke_width(1)))?;
    Ok(())
}

/// The names, in the order of their first appearance.
fn groups(chart: &Chart) -> Vec<At> {
    let mut groups = Vec::new();
    for point in chart.series.iter().flat_map(|series| &series.points) {
        if !groups.contains(&point.at) {
            groups.push(point.at.clone());
        }
    }
    groups
}
