// SPDX-License-Identifier: GPL-2.0

//! All figures on one HTML page that needs nothing else.

use super::timegraph::tasks::{Judged, Report};
use super::{Figure, Line};
use crate::draw::{document, picture};
use crate::results::{Axis, Experiment, Origin, Point, Series, VERSION};
use maud::{html, Markup, PreEscaped};
use std::error::Error;

/// The page of these figures and of random sets of reserves.
///
/// # Errors
///
/// The picture cannot be drawn.
pub fn page(figures: &[Figure], sets: &Report) -> Result<String, Box<dyn Error>> {
    let svg = picture(&acceptance(sets))?;
    let body = html! {
        p {
            "Experiments of four papers in the simulator, with stand-ins for their programs: the "
            "papers' numbers beside ours, what ours have to be, and whether they are. Most bars "
            "of the papers are plotted without numbers; “-” stands for those. Sources: Kato and "
            "others, TimeGraph, USENIX ATC 2011; Gupta and others, Pegasus, USENIX ATC 2011; "
            "Sengupta and others, Strings, SC 2014; Gupta and others, GViM, HPCVirt 2009."
        }
        (corrections())
        (summary(figures))
        @for figure in figures { (section(figure)) }
        (admission(sets, &svg))
    };
    Ok(document(
        "LoGA: TimeGraph, Pegasus, Strings and GViM",
        &body,
    ))
}

/// Where numbers of the papers are not what they seem.
fn corrections() -> Markup {
    html! {
        h2 id="corrections" { "Numbers of the papers that are not compared" }
        ul {
            li {
                "Strings, abstract: 8.70, 8.06 and 6.41 times “over the CUDA runtime” were not "
                "measured. They are 4.02, 3.73 and 2.97 times over the GPUs of one node in turn "
                "(Figures 15 and 12), multiplied by 2.16 of another experiment: one stream on two "
                "GPUs (GRR-Rain, Figure 9). The measured ones stand here."
            }
            li {
                "Strings, section V: PS is said to be 27 % above LAS-Rain; 2.97 over 2.18 is 36 %. "
                "The text has BlackScholes as heavy on bandwidth (50 MB/s in Table I) and "
                "BinomialOptions as high in GPU use (41 %, as Eigenvalues, which it has as low)."
            }
            li {
                "Most of what Strings gains over Rain it gains by packing all programs of a GPU into "
                "one context, so that their kernels run at the same time. LoGA leaves contexts alone: "
                "Rain's numbers are those to compare it with. The lines “packed” are of the simulator."
            }
            li {
                "GViM, Table 1: its numbers are times per iteration. As rates, RR and XC add up to "
                "the same throughput (1.4708 and 1.4704 per ms), and the column “expected” to "
                "1.81, more than both GPUs did. Parts of the sum are compared here."
            }
        }
    }
}

/// Which figures meet their criteria.
fn summary(figures: &[Figure]) -> Markup {
    html! {
        table {
            thead { tr { th { "Figure" } th { "" } th { "Criteria" } th { "Not met" } } }
            tbody { @for figure in figures { tr {
                td { a href={ "#" (figure.name) } { (figure.name) } }
                td { (figure.about) }
                td class="number" { (figure.judged()) }
                td class="number" { (figure.failed()) }
            } } }
        }
    }
}

/// One figure.
fn section(figure: &Figure) -> Markup {
    html! {
        h2 id=(figure.name) { (figure.name) ": " (figure.about) }
        p {
            "Means of " (figure.seeds) " runs of " (figure.each) "."
            @if figure.lines.iter().any(|line| line.within.is_some()) {
                " Behind ± is half of the interval in which the mean is with 95 % (Student); a "
                "criterion has to hold over all of it."
            }
        }
        table {
            thead { tr { th { "" } th { "Paper" } th { "Here" } th { "Criterion" } th { "" } } }
            tbody { @for line in &figure.lines { tr {
                td { (line.what) }
                td { (line.paper) }
                td class="number" { (line.number()) " " (line.unit) }
                td { (line.criterion.text()) }
                td { (verdict(line)) }
            } } }
        }
        @for line in figure.lines.iter().filter(|line| line.holds == Some(false)) {
            @if let Some(why) = line.why { p { strong { (line.what) ": " } (why) } }
        }
    }
}

/// A verdict as a word with a colour.
fn verdict(line: &Line) -> Markup {
    match line.holds {
        None => html! {},
        Some(true) => html! { span class="chip holds" { "met" } },
        Some(false) => html! { span class="chip differs" { "not met" } },
    }
}

/// Random sets of reserves.
fn admission(sets: &Report, svg: &str) -> Markup {
    let settings = &sets.settings;
    html! {
        h2 id="admission" { "Random sets of reserves" }
        p {
            (settings.sets) " sets of 2 to 16 hard CBS reserves beside a client without one, seed "
            (settings.seed) ", " (settings.seconds) " s each. TimeGraph admits by the sum of the "
            "promises; LoGA also by the longest command of another client that may be in the way."
        }
        div class="pictures" { figure {
            figcaption { "Sets admitted, by the part of the GPU that is promised" }
            (PreEscaped(svg))
        } }
        table {
            thead { tr {
                th { "Simulated" } th { "Sets" } th { "With a miss" } th { "Rounds" } th { "Late" }
                th { "Longest round, of its deadline" }
            } }
            tbody {
                (judged("admitted", &sets.admitted))
                (judged("admitted by the sum alone", &sets.by_sum_only))
            }
        }
    }
}

fn judged(what: &str, one: &Judged) -> Markup {
    html! { tr {
        td { (what) }
        td class="number" { (one.sets) }
        td class="number" { (one.broken) }
        td class="number" { (one.jobs) }
        td class="number" { (one.missed) }
        td class="number" { (format!("{:.2}", one.worst_pct)) " %" }
    } }
}

/// Which part of the sets is admitted, over what they promise.
fn acceptance(sets: &Report) -> Experiment {
    let series = |name: &str, admitted: fn(&super::timegraph::tasks::Bin) -> u64| {
        let points = (0u32..).zip(&sets.bins).filter_map(|(at, bin)| {
            // CAST: counts.
            let pct = 100.0 * admitted(bin) as f64 / bin.sets as f64;
            // The middle of what the sets promise.
            let promised = 10.0 * f64::from(at) + 5.0;
            (bin.sets > 0).then(|| Point::of(promised, &[pct]))?
        });
        Series::new(name, points.collect())
    };
    Experiment {
        version: VERSION,
        figure: "admission".to_owned(),
        origin: Origin::Simulator,
        setting: String::new(),
        title: "Sets admitted".to_owned(),
        x: Axis::new("promised part of the GPU", "%"),
        y: Axis::new("sets admitted", "%"),
        series: vec![
            series("LoGA", |bin| bin.admitted),
            series("sum of promises", |bin| bin.by_sum),
        ],
        paper: String::new(),
        assumed: Vec::new(),
        settings: Vec::new(),
        differs: Vec::new(),
        inputs: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::systems::timegraph::tasks::{self, Settings};
    use crate::systems::Criterion;

    #[test]
    fn page_has_each_line_its_verdict_and_the_reason_of_a_bad_one() {
        let line = |what: &str, ours: f64| {
            Line::new(what, "3 to 6", ours, "times", Criterion::AtLeast(2.0))
                .unless_met("a long command")
        };
        let figure = Figure {
            name: "timegraph-8",
            about: "a game",
            each: "1 s".to_owned(),
            seeds: 1,
            lines: vec![line("good", 3.0), line("bad", 1.0)],
        };
        let settings = Settings {
            early_pct: 0,
            sets: 40,
            seconds: 1,
            seed: 1,
        };
        let sets = tasks::run(settings).unwrap();
        let page = page(&[figure], &sets).unwrap();
        assert_eq!(page.matches("chip holds").count(), 1);
        assert_eq!(page.matches("chip differs").count(), 1);
        assert!(page.contains("<strong>bad: </strong>a long command"));
        assert!(!page.contains("<strong>good: </strong>"));
        assert!(page.contains("multiplied by 2.16"));
        assert!(page.contains("<svg"));
        assert!(page.contains("sum of promises"));
    }
}
