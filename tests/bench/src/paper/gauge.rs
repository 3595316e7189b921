// SPDX-License-Identifier: GPL-2.0

//! What things cost in the virtual machine: the simulator takes these in the place of its own
//! assumptions when both are compared.

use crate::load::Load;
use crate::stage;
use crate::window::Window;
use loga_results::reduced::LATE;
use loga_results::reduced::LAUNCH;
use loga_results::Setting;

/// How long each load is watched, in seconds.
const WATCHED_S: f64 = 0.4;

/// A cost that was measured, in ns.
pub(super) fn cost(name: &str, ns: f64, how: &str) -> Setting {
    Setting {
        name: name.to_owned(),
        value: format!("{:.3} us", ns / 1000.0),
        origin: format!("measured in the virtual machine: {how}"),
    }
}

/// What a look of the poller costs, from a window in which LoGA polled.
pub(super) fn look(window: &Window) -> Setting {
    cost(
        "costs.read_us",
        window.poll_ns(),
        "time polled over looks of the poller",
    )
}

/// Costs of throttles and of the model, without LoGA.
pub(super) fn throttles() -> Result<Vec<Setting>, String> {
    stage::load_model_only()?;
    let busy = Window::of(&[Load::new(200, 0)], WATCHED_S)?;
    let launch = busy.period_ns(0) - busy.true_run_ns(0);
    let sleeper = Window::of(&[Load::new(200, 800)], WATCHED_S)?;
    let late = sleeper.period_ns(0) - sleeper.true_run_ns(0) - 800_000.0 - launch;
    let two = Window::of(&[Load::new(200, 0), Load::new(200, 0)], WATCHED_S)?;
    Ok(vec![
        cost(
            "costs.switch_us",
            two.switch_ns(),
            "switching over commands of two throttles without pauses, from the model's log",
        ),
        cost(
            LAUNCH,
            launch,
            "from the end of a command to the beginning of the next, one throttle without pauses",
        ),
        cost(
            LATE,
            late.max(0.0),
            "how much longer that takes with a pause of 800 us, less the pause",
        ),
    ])
}
