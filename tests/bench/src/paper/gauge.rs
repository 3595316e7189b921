// SPDX-License-Identifier: GPL-2.0

//! Costs in the virtual machine: the simulator uses these instead of its own assumptions when
//! both are compared.

use crate::load::Pattern;
use crate::stage::Stage;
use crate::window::Window;
use loga_results::reduced::{KERNEL_LATE, LATE, LAUNCH, POLLED};
use loga_results::{Setting, Unit};
use std::fs;

/// The kernel's file about its processors.
const STAT: &str = "/proc/stat";
/// Length of the window of each load, in seconds.
const WATCHED_S: f64 = 0.4;
/// Kernels of these loads, in us.
const KERNEL_US: u64 = 200;
/// Two throttles without pauses: every command of theirs follows a switch of contexts.
const TWO: [Pattern; 2] = [Pattern::new(KERNEL_US, 0), Pattern::new(KERNEL_US, 0)];

/// A measured cost, in ns.
pub(super) fn cost(name: &str, ns: f64, how: &str) -> Setting {
    let origin = format!("measured in the virtual machine: {how}");
    Setting::number(name, ns.round() / 1000.0, Unit::Micros, &origin)
}

/// The processor that all clients share.
pub(super) struct Processor {
    ticks: [u64; 2],
}

impl Processor {
    /// Its current state.
    pub(super) fn now() -> Result<Self, String> {
        let text = fs::read_to_string(STAT).map_err(|error| format!("{STAT}: {error}"))?;
        let ticks = ticks(&text).ok_or_else(|| format!("{STAT}: unreadable: {text}"))?;
        Ok(Self { ticks })
    }

    /// Part of the time since then in which it was idle.
    pub(super) fn idle(&self) -> Result<Setting, String> {
        let now = Self::now()?.ticks;
        let [all, idle] = [0, 1].map(|at| now[at].saturating_sub(self.ticks[at]));
        // CAST: a few thousand.
        let percent = (100.0 * idle as f64 / all.max(1) as f64).round();
        let origin =
            "measured in the virtual machine: ticks of the processor that the application \
                      and the throttles share, without LoGA";
        Ok(Setting::number(
            "processor.idle",
            percent,
            Unit::Percent,
            origin,
        ))
    }
}

/// All ticks of the first processor, and those in which it was idle. Source: `proc_stat(5)`.
fn ticks(stat: &str) -> Option<[u64; 2]> {
    let line = stat.lines().find(|line| line.starts_with("cpu0 "))?;
    let each = line.split_whitespace().skip(1).map(str::parse);
    let each: Vec<u64> = each.collect::<Result<_, _>>().ok()?;
    Some([each.iter().sum(), *each.get(3)?])
}

/// Cost of a poll, from a window in which LoGA polled.
pub(super) fn poll(window: &Window) -> Setting {
    cost("costs.read_us", window.poll_ns(), "time polled over polls")
}

/// Mean excess of the kernels of a window over the requested length, in ns.
fn kernel_late(window: &Window) -> f64 {
    // CAST: a few hundred.
    (window.true_run_ns(0) - KERNEL_US as f64 * 1000.0).max(0.0)
}

/// Costs of the model's switches and kernels while LoGA polls, which delays the model's timers. On
/// the model with these parameters.
pub(super) fn polled(model: &str) -> Result<Vec<Setting>, String> {
    let _stage = Stage::measured(model, "policy=none poll_always=1")?;
    let two = Window::of(&TWO, WATCHED_S)?;
    let how = "two throttles without pauses, from the model's log, while LoGA polls all the time";
    let [late, switch] = POLLED;
    Ok(vec![
        cost(late, kernel_late(&two), how),
        cost(switch, two.switch_ns(), how),
    ])
}

/// Costs of throttles and of the model with these parameters, without LoGA.
pub(super) fn throttles(model: &str) -> Result<Vec<Setting>, String> {
    let _stage = Stage::without_loga(model)?;
    let busy = Window::of(&[Pattern::new(KERNEL_US, 0)], WATCHED_S)?;
    let launch = busy.period_ns(0) - busy.true_run_ns(0);
    let sleeper = Window::of(&[Pattern::new(KERNEL_US, 800)], WATCHED_S)?;
    let late = sleeper.period_ns(0) - sleeper.true_run_ns(0) - 800_000.0 - launch;
    let two = Window::of(&TWO, WATCHED_S)?;
    Ok(vec![
        cost(
            "costs.switch_us",
            two.switch_ns(),
            "switching over commands of two throttles without pauses, from the model's log",
        ),
        cost(
            KERNEL_LATE,
            kernel_late(&two),
            "how much longer their commands of 200 us ran than that, from the model's log",
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

#[cfg(test)]
mod tests {
    use super::ticks;

    #[test]
    fn ticks_are_those_of_the_first_processor() {
        let text = "cpu  9 9 9 9 9\ncpu0 1 2 3 40 5 0 0 0 0 0\ncpu1 9 9 9 9 9\n";
        assert_eq!(ticks(text), Some([51, 40]));
        assert_eq!(ticks("cpu0 1 2\n"), None);
    }
}
