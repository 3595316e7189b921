// SPDX-License-Identifier: GPL-2.0

//! Lines over values.

use super::marks::GRID;
use super::{number, style, title, whisker, Chart, Drawn};
use loga_results::At;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

/// Room for the texts of the axes, in pixels.
const LEFT: u32 = 58;
const BOTTOM: u32 = 44;

/// Draws the series as lines with a mark and an error bar at each point.
pub(crate) fn draw(chart: &Chart) -> Drawn {
    let points = chart.series.iter().flat_map(|series| &series.points);
    let values: Vec<f64> = points.filter_map(|point| value(&point.at)).collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    // Ratios are shown around 1; what has a unit, from zero.
    let ratio = chart.y.unit.is_none();
    let mut reach = chart.reach(if ratio { &[0.95, 1.05] } else { &[0.0] });
    if !ratio {
        reach.start = reach.start.max(0.0);
    }
    let step = (reach.end - reach.start) / 8.0;
    let mut builder = ChartBuilder::on(chart.area);
    builder
        .margin(10)
        .margin_right(20)
        .x_label_area_size(BOTTOM)
        .y_label_area_size(LEFT);
    if let Some(name) = chart.title {
        builder.caption(name, style(15, HPos::Left, VPos::Top));
    }
    let mut plane = builder.build_cartesian_2d(0.0..most * 1.04, reach)?;
    plane
        .configure_mesh()
        .x_desc(title(chart.x))
        .y_desc(title(chart.y))
        .x_label_formatter(&|value| number(*value, most / 10.0))
        .y_label_formatter(&|value| number(*value, step))
        .label_style(("sans-serif", 12))
        .axis_desc_style(("sans-serif", 13))
        .bold_line_style(GRID)
        .max_light_lines(0)
        .draw()?;
    if ratio {
        let line = BLACK.stroke_width(1);
        plane.draw_series(LineSeries::new([(0.0, 1.0), (most * 1.04, 1.0)], line))?;
    }
    for (series, style) in chart.series.iter().zip(&chart.styles) {
        let line = || {
            series
                .points
                .iter()
                .filter_map(|one| Some((value(&one.at)?, one.mean)))
        };
        let stroke = style.colour.stroke_width(2);
        if style.dashed {
            plane.draw_series(DashedLineSeries::new(line(), 6, 5, stroke))?;
            continue;
        }
        plane.draw_series(LineSeries::new(line(), stroke))?;
        for ((x, mean), point) in line().zip(&series.points) {
            let pixel = |y: f64| plane.backend_coord(&(x, y));
            // What is drawn on a part of the picture is counted from its corner.
            let (left, top) = chart.area.get_base_pixel();
            let place = |y: f64| (pixel(y).0 - left, pixel(y).1 - top);
            if point.deviation > 1e-6 * mean.abs() {
                let (low, high) = (place(mean - point.deviation), place(mean + point.deviation));
                whisker(chart.area, low.0, low.1, high.1)?;
            }
            style.mark(chart.area, place(mean))?;
            if let Some(paper) = point.paper {
                super::marks::paper(chart.area, place(paper))?;
            }
        }
    }
    Ok(())
}

fn value(at: &At) -> Option<f64> {
    match at {
        At::Value(value) => Some(*value),
        At::Name(_) => None,
    }
}
