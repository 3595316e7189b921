// SPDX-License-Identifier: GPL-2.0

//! What the figures of the paper show, and what it found in each, in words.

/// A figure, or a section.
#[derive(Default)]
pub(crate) struct Figure {
    pub(crate) title: &'static str,
    /// Titles of the axes and their units.
    pub(crate) x: (&'static str, &'static str),
    pub(crate) y: (&'static str, &'static str),
    pub(crate) paper: &'static str,
}

/// The figures of the paper, in its order, and its section 5.6.
pub const FIGURES: &[&str] = &["7a", "7b", "8", "9", "10", "11", "5.6"];

const OVERHEAD: (&str, &str) = ("turnaround over that without accounting", "");

/// The figure of this number; nothing is known of others.
pub(crate) fn figure(number: &str) -> Figure {
    match number {
        "7a" => Figure {
            title: "Accounting beside ten throttles of 10 us",
            x: ("application", ""),
            y: OVERHEAD,
            paper: "sampling: 11.4 % more on average, 23.4 % at worst (nn); event: less than \
                    without accounting, not significantly",
        },
        "7b" => Figure {
            title: "Accounting beside ten throttles of 100 us",
            x: ("application", ""),
            y: OVERHEAD,
            paper: "sampling: 7.6 % more on average; event: 0.7 %",
        },
        "8" => Figure {
            title: "Accounting beside one to twenty throttles",
            x: ("throttles", ""),
            y: OVERHEAD,
            paper: "sampling grows with the throttles for most applications (heartwall); lavaMD \
                    is faster than without accounting beside few; dwt2d falls, then rises; \
                    mummergpu falls all the way; event stays where it is",
        },
        "9" => Figure {
            title: "Intended and measured kernel length of throttle",
            x: ("intended kernel length", "us"),
            y: ("measured kernel length", "us"),
            paper: "underestimates by up to 6 %, because two registers of different engines are \
                    read that do not change together; the relative error does not depend on the \
                    length",
        },
        "10" => Figure {
            title: "Intended and measured GPU load",
            x: ("intended load", "percent"),
            y: ("measured load", "percent"),
            paper: "within 2.5 % of the intended load in all cases",
        },
        "11" => Figure {
            title: "Scheduling beside four throttles",
            x: ("application", ""),
            y: ("turnaround over that alone", ""),
            paper: "LoGA brings all applications closer to the optimum, mostly from below; NEON \
                    is similar in most cases, sees less imbalance in bfs, cfd, hotspot, \
                    hotspot3D, hybridsort and particlefilter, and slows down the wrong \
                    application in dwt2d, gaussian, lavaMD, lud and srad_v1; LoGA-CL is like \
                    NEON in many cases, and less prone to the latter",
        },
        "5.6" => Figure {
            title: "CPU time of LoGA",
            x: ("policy", ""),
            y: ("CPU time", "percent of one CPU"),
            paper: "16.7 % expected, 17 % measured; the rest is put down to decisions; NEON's \
                    could not be told from the background",
        },
        _ => Figure::default(),
    }
}
