// SPDX-License-Identifier: GPL-2.0

//! Figures 14 and 15: what programs have used before.

use super::nodes::{both_use_it, of_pairs, on_two_nodes, ALONE};
use super::streams::{mean, packed_lines, Way};
use super::App;
use crate::arrivals::{Chooser, Rule};
use crate::systems::figure::{Criterion, Length, Line, Lines};
use loga::placement::Placement;
use Criterion::{Any, AtLeast};

/// Figure 14.
pub(super) fn feedback(length: Length) -> Lines {
    use Placement::{Dtf, Guf, Gwtmin, Rtf, Wait};
    let ways = [Gwtmin, Rtf, Guf, Dtf, Wait].map(|policy| Way::from(Rule::of(policy)));
    let all: Vec<_> = ways.into_iter().chain(Way::packed(&ways[1..3])).collect();
    let (speedups, bounds) = on_two_nodes(&all, length)?;
    let [gwtmin, rtf, guf, dtf, wait] = [0, 1, 2, 3, 4].map(|at: usize| mean(&speedups[at]));
    let best = rtf.max(guf).max(dtf);
    let over = |at: usize, both: bool| {
        let which = |all: &[f64]| of_pairs(all, |long, short| both_use_it(long, short) == both);
        which(&speedups[at]) / which(&speedups[0])
    };
    let packed: Vec<_> = speedups[5..].iter().map(|all| mean(all)).collect();
    let mut lines = vec![
        Line::new("gwtmin", "1.82", gwtmin, "times", Any),
        Line::new("rtf", "2.22", rtf, "times", Any),
        Line::new("guf", "2.51", guf, "times", Any),
        Line::new("dtf", "-", dtf, "times", Any),
        Line::new("wait", "-", wait, "times", Any),
        Line::new(
            "rtf over gwtmin",
            "1.22",
            rtf / gwtmin,
            "times",
            AtLeast(1.0),
        )
        .unless_met(
            "It balances run times, of which long programs such as SC spend little on the GPU: \
             where both streams use the GPU, short programs are kept from GPUs that are free. \
             With one such stream it is at least as good as counting.",
        ),
        Line::new("rtf over gwtmin: BS or MC", "-", over(1, true), "times", Any),
        Line::new("rtf over gwtmin: GA or SN", "-", over(1, false), "times", Any),
        Line::new(
            "guf over gwtmin",
            "1.38",
            guf / gwtmin,
            "times",
            AtLeast(1.15),
        )
        .unless_met(
            "At this load, programs of which each has the fastest GPU for itself gain less than that \
             over gwtmin: the next line. Use tells more than a count only where programs of unlike \
             use meet, in the pairs with BS or MC; elsewhere all that load the GPUs are alike.",
        ),
        Line::new(
            format!("{ALONE} over gwtmin"),
            "-",
            mean(&bounds) / gwtmin,
            "times",
            Any,
        ),
        Line::new("guf over gwtmin: BS or MC", "-", over(2, true), "times", Any),
        Line::new("guf over gwtmin: GA or SN", "-", over(2, false), "times", Any),
        Line::new(
            "wait over the best of the others",
            "-",
            wait / best,
            "times",
            AtLeast(0.98),
        ),
    ];
    lines.extend(packed_lines(&[("rtf", "3.23"), ("guf", "3.96")], &packed));
    Ok(lines)
}

/// Figure 15.
pub(super) fn copies_and_memory(length: Length) -> Lines {
    let [guf, dtf] = [Placement::Guf, Placement::Dtf].map(|policy| Way::from(Rule::of(policy)));
    let mbf = Way::from(Rule::by(Chooser::Mbf));
    let in_turn = [guf, dtf].into_iter();
    let all: Vec<_> = in_turn.chain(Way::packed(&[guf, dtf, mbf])).collect();
    let (speedups, _) = on_two_nodes(&all, length)?;
    let means: Vec<_> = speedups.iter().map(|all| mean(all)).collect();
    let copy = |long: &App, short: &App| long.name == "BO" || ["MC", "SN"].contains(&short.name);
    let over = |one: usize, other: usize| {
        of_pairs(&speedups[one], copy) / of_pairs(&speedups[other], copy)
    };
    let mut lines = vec![
        Line::new("guf, in turn", "2.51", means[0], "times", Any),
        Line::new("dtf, in turn", "-", means[1], "times", Any),
        Line::new(
            "dtf over guf, in turn: pairs with MC, SN or BO",
            "-",
            over(1, 0),
            "times",
            AtLeast(1.0),
        ),
    ];
    lines.extend(packed_lines(
        &[("guf", "3.96"), ("dtf", "3.73"), ("mbf", "4.02")],
        &means[2..],
    ));
    let ratios = means[2..]
        .chunks(3)
        .flat_map(|all| [all[1] / all[0], all[2] / all[0]]);
    lines.extend(packed_lines(
        &[("dtf over guf", "0.94"), ("mbf over guf", "1.02")],
        &ratios.collect::<Vec<_>>(),
    ));
    Ok(lines)
}
