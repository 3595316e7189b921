// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The demonstration as a picture: shares of the GPU over time, a panel for each act.

use super::Act;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::error::Error;

/// Size in pixels.
const SIZE: (u32, u32) = (1080, 360);
/// Height of the line with the names.
const LEGEND: u32 = 30;
/// Colours of the hog, of the light clients, and of the time in which no client ran.
const COLORS: [(&str, RGBColor); 3] = [
    ("hog", RGBColor(0xc0, 0x39, 0x2b)),
    ("light clients", RGBColor(0x2e, 0x6d, 0xa4)),
    ("idle", RGBColor(0xd8, 0xd8, 0xd8)),
];

/// Draws all acts as SVG: the shares of the clients one above the other, up to all of the GPU.
pub(super) fn svg(acts: &[Act]) -> Result<String, Box<dyn Error>> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let (legend, panels) = area.split_vertically(LEGEND);
        draw_legend(&legend)?;
        for (act, panel) in acts.iter().zip(panels.split_evenly((1, acts.len()))) {
            draw_act(act, &panel)?;
        }
        area.present()?;
    }
    Ok(svg)
}

fn draw_legend(area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), Box<dyn Error>> {
    for ((name, color), at) in COLORS.iter().zip((0..).map(|place| 60 + 160 * place)) {
        area.draw(&Rectangle::new([(at, 10), (at + 14, 24)], color.filled()))?;
        let style = ("sans-serif", 14).into_font().color(&BLACK);
        area.draw(&Text::new(*name, (at + 20, 11), style))?;
    }
    Ok(())
}

fn draw_act(act: &Act, panel: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), Box<dyn Error>> {
    let end = act.shares.len() as f64 * act.step_s;
    let mut chart = ChartBuilder::on(panel)
        .caption(act.short, ("sans-serif", 15))
        .margin(8)
        .x_label_area_size(34)
        .y_label_area_size(44)
        .build_cartesian_2d(0.0..end, 0.0..100.0)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .x_desc("time in s")
        .y_desc("GPU in percent")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .draw()?;
    for (at, shares) in act.shares.iter().enumerate() {
        let (from, to) = (at as f64 * act.step_s, (at + 1) as f64 * act.step_s);
        let mut below = 0.0;
        for (number, share) in shares.iter().enumerate() {
            let color = COLORS[usize::from(number > 0)].1;
            let bar = [(from, below), (to, (below + share).min(100.0))];
            chart.draw_series([Rectangle::new(bar, color.filled())])?;
            // Where one light client ends and the next begins.
            chart.draw_series([Rectangle::new(bar, WHITE.stroke_width(1))])?;
            below += share;
        }
        let idle = [(from, below.min(100.0)), (to, 100.0)];
        chart.draw_series([Rectangle::new(idle, COLORS[2].1.filled())])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_has_a_panel_for_each_act_and_all_of_the_gpu_in_each() {
        let act = |short| Act {
            short,
            step_s: 1.0,
            shares: vec![vec![60.0, 12.0, 12.0, 12.0], vec![50.0, 20.0, 20.0, 20.0]],
        };
        let text = svg(&[act("one"), act("two")]).expect("drawn");
        for word in [
            "one",
            "two",
            "hog",
            "light clients",
            "idle",
            "GPU in percent",
        ] {
            assert!(text.contains(word), "{word}");
        }
        let of = |color: &str| text.matches(color).count();
        // One in the legend.
        assert_eq!(of("#C0392B"), 1 + 4);
        assert_eq!(of("#2E6DA4"), 1 + 12);
        assert_eq!(of("#D8D8D8"), 1 + 4);
    }
}
