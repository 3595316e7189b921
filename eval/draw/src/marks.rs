// SPDX-License-Identifier: GPL-2.0

//! Colours and marks: a series has the same in every figure, and shapes differ too, for readers
//! that see no colours.

use plotters::coord::Shift;
use plotters::prelude::*;
use std::error::Error;

/// Where a chart is drawn.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// What the plotting library says.
pub(crate) type Drawn = Result<(), Box<dyn Error>>;

/// Colour of text and error bars.
pub(crate) const TEXT: RGBColor = RGBColor(40, 40, 40);
/// Colour of the lines behind the data.
pub(crate) const GRID: RGBColor = RGBColor(225, 225, 225);
/// Radius of a mark in pixels.
const RADIUS: i32 = 4;

/// Name in the files, name in pictures, colour. Source of the colours: Okabe and Ito, readable
/// with every kind of colour blindness.
const SERIES: &[(&str, &str, RGBColor)] = &[
    ("event", "LoGA (event)", RGBColor(0, 114, 178)),
    ("sampling", "NEON (sampling)", RGBColor(230, 159, 0)),
    ("event-cl", "LoGA-CL (event-cl)", RGBColor(86, 180, 233)),
    ("maxmin", "max-min", RGBColor(204, 121, 167)),
    ("none", "no scheduling", RGBColor(150, 150, 150)),
    ("fair", "fair optimum", RGBColor(0, 158, 115)),
    ("intended", "intended", RGBColor(150, 150, 150)),
    ("truth", "record of the GPU", RGBColor(213, 94, 0)),
    (
        "busy thread",
        "control: a busy thread",
        RGBColor(120, 60, 160),
    ),
];

/// Colours of series that are not known, in turn.
const OTHERS: [RGBColor; 3] = [
    RGBColor(120, 60, 160),
    RGBColor(160, 110, 50),
    RGBColor(90, 90, 90),
];

/// How a series is shown to people.
pub fn label(name: &str) -> &str {
    let known = SERIES.iter().find(|known| known.0 == name);
    known.map_or(name, |known| known.1)
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Style {
    pub(crate) colour: RGBColor,
    /// Dashed where it is drawn as a line: what was asked for, not measured.
    pub(crate) dashed: bool,
    /// Number of the shape of its marks.
    shape: usize,
    /// Larger and empty, so that what lies over it can be seen.
    hollow: bool,
}

impl Style {
    /// Of the series with this name, the `at`th of its figure.
    pub(crate) fn of(name: &str, at: usize) -> Self {
        let known = SERIES.iter().find(|known| known.0 == name);
        Self {
            colour: known.map_or(OTHERS[at % OTHERS.len()], |known| known.2),
            dashed: name == "intended",
            shape: at,
            hollow: name == "truth",
        }
    }

    /// Draws the mark of a point.
    pub(crate) fn mark(self, area: &Area, place: (i32, i32)) -> Drawn {
        let (x, y) = place;
        let (line, full) = (self.colour.stroke_width(2), self.colour.filled());
        if self.hollow {
            area.draw(&Circle::new(place, RADIUS + 3, line))?;
            return Ok(());
        }
        match self.shape % 4 {
            0 => area.draw(&Circle::new(place, RADIUS, full))?,
            1 => area.draw(&TriangleMarker::new(place, RADIUS + 2, full))?,
            2 => {
                let corners = [(x - RADIUS, y - RADIUS), (x + RADIUS, y + RADIUS)];
                area.draw(&Rectangle::new(corners, full))?;
            }
            _ => area.draw(&Cross::new(place, RADIUS, line))?,
        }
        Ok(())
    }
}

/// Draws the mark of a number that the paper gives: a diamond with a white edge.
pub(crate) fn paper(area: &Area, place: (i32, i32)) -> Drawn {
    let (x, y) = place;
    for (size, colour) in [(RADIUS + 3, WHITE), (RADIUS + 1, BLACK)] {
        let corners = [(x, y - size), (x + size, y), (x, y + size), (x - size, y)];
        area.draw(&Polygon::new(corners, colour.filled()))?;
    }
    Ok(())
}
