// SPDX-License-Identifier: GPL-2.0

//! Figures 9 and 10 and section 5.6: one load.

use super::{add, empty, gauge, series};
use crate::load::Pattern;
use crate::stage::Stage;
use crate::window::Window;
use loga_results::Experiment;

/// Repetitions, and how long each is, in seconds: the paper has ten of ten seconds, which would take
/// hours here.
const REPETITIONS: u32 = 3;
const WATCHED_S: f64 = 0.3;
/// A decision period of one client is 72 ms.
const CPU_S: f64 = 1.44;
/// Parameters with which LoGA polls all the time.
const ALWAYS: &str = "policy=none poll_always=1";

/// Kernel lengths of the figures, in us.
fn lengths(quick: bool) -> impl Iterator<Item = u64> {
    let all = (1..=10).map(|step| 100 * step);
    all.filter(move |us| !quick || us % 500 == 0)
}

fn repetitions(quick: bool) -> u32 {
    if quick {
        1
    } else {
        REPETITIONS
    }
}

/// Adds what was intended for a load, what it did and what LoGA saw.
fn measure(
    one: &mut Experiment,
    quick: bool,
    intended: f64,
    load: Pattern,
    truth: fn(&Window) -> f64,
    event: fn(&Window) -> f64,
) -> Result<(), String> {
    let windows = Window::several(&[load], WATCHED_S, repetitions(quick))?;
    let each = |figure: fn(&Window) -> f64| windows.iter().map(figure).collect::<Vec<_>>();
    add(&mut one.series, "intended", intended, &[intended])?;
    add(&mut one.series, "truth", intended, &each(truth))?;
    add(&mut one.series, "event", intended, &each(event))?;
    one.settings = vec![gauge::poll(&windows[0])];
    Ok(())
}

/// Figure 9: one throttle at full load, polled all the time.
pub(super) fn kernel_length(quick: bool) -> Result<Experiment, String> {
    let mut one = Experiment {
        assumed: vec!["the model changes both registers at once".to_owned()],
        series: series(&["intended", "truth", "event"]),
        ..empty("9")
    };
    let _stage = Stage::measured("", ALWAYS)?;
    for us in lengths(quick) {
        let load = Pattern {
            spin: true,
            ..Pattern::new(us, 0)
        };
        let truth = |window: &Window| window.true_run_ns(0) / 1000.0;
        let event = |window: &Window| window.loga_run_ns(0) / 1000.0;
        // CAST: a few hundred.
        measure(&mut one, quick, us as f64, load, truth, event)?;
    }
    Ok(one)
}

/// Figure 10: a kernel in each cycle of 1000 us, polled all the time.
pub(super) fn load(quick: bool) -> Result<Experiment, String> {
    let mut one = Experiment {
        series: series(&["intended", "truth", "event"]),
        ..empty("10")
    };
    let _stage = Stage::measured("", ALWAYS)?;
    for us in lengths(quick) {
        let load = Pattern {
            cycle_us: Some(1000),
            spin: true,
            ..Pattern::new(us, 0)
        };
        let truth = |window: &Window| window.busy_share(0);
        let event = |window: &Window| window.loga_share(0);
        // CAST: a few hundred.
        measure(&mut one, quick, us as f64 / 10.0, load, truth, event)?;
    }
    Ok(one)
}

/// Section 5.6: CPU time with phases of 1 ms and 5 ms per channel.
pub(super) fn cpu(quick: bool) -> Result<Experiment, String> {
    let mut one = Experiment {
        assumed: vec![
            "the poller's time between the beginning and the end of its polling phases; what the \
             main thread takes is not in it"
                .to_owned(),
        ],
        series: series(&["intended", "event"]),
        ..empty("5.6")
    };
    let _stage = Stage::measured("", "policy=event")?;
    let windows = Window::several(&[Pattern::new(200, 0)], CPU_S, repetitions(quick))?;
    let polled: Vec<f64> = windows.iter().map(Window::polled_percent).collect();
    add(&mut one.series, "intended", "event", &[100.0 / 6.0])?;
    add(&mut one.series, "event", "event", &polled)?;
    one.series[0].points[0].paper = Some(16.7);
    one.series[1].points[0].paper = Some(17.0);
    one.settings = vec![gauge::poll(&windows[0])];
    Ok(one)
}
