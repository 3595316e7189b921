// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Why the simulator and the real module differ where they do, for the reader of a result.

use crate::draw::label;
use crate::findings::{agreement, Pair, LIMIT};
use crate::outcome::Error;
use crate::results::{At, Difference, Experiment};

/// From the smallest to the largest that a point is in the simulator, whatever is left to chance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    least: f64,
    most: f64,
}

impl Reach {
    /// Of these; nothing if there are none.
    pub(super) fn of(all: &[f64]) -> Option<Self> {
        let least = all.iter().copied().reduce(f64::min)?;
        let most = all.iter().copied().reduce(f64::max)?;
        Some(Self { least, most })
    }

    /// Whether a value is within, or no further from the nearest end than the limit.
    fn has(&self, value: f64) -> bool {
        let part = LIMIT / 100.0;
        (self.least * (1.0 - part)..=self.most * (1.0 + part)).contains(&value)
    }
}

/// Finds the reach of a point, by application and policy, if it is one that has some.
type Find<'a> = dyn FnMut(&str, &str) -> Result<Option<Reach>, Error> + 'a;

/// The points at which what was simulated is further from what was measured in the virtual machine
/// than the limit, each with what this run isolated of the cause.
pub(super) fn apart(
    simulated: &Experiment,
    real: &Experiment,
    find: &mut Find,
) -> Result<Vec<Difference>, Error> {
    let pairs = agreement(simulated, real).pairs;
    let mut all = Vec::new();
    for pair in pairs.iter().filter(|pair| pair.off.abs() > LIMIT) {
        let reach = match &pair.at {
            At::Name(name) => find(name, &pair.series)?,
            At::Value(_) => None,
        };
        all.push(Difference {
            what: format!(
                "{}, {}: {:.3} with the module, {:.3} in the simulator",
                label(&pair.series),
                pair.at,
                pair.real,
                pair.simulated
            ),
            why: why(pair, reach),
        });
    }
    Ok(all)
}

/// What makes a point differ, as far as this run isolated it.
fn why(pair: &Pair, reach: Option<Reach>) -> String {
    let Some(reach) = reach else {
        return "not isolated in this run".to_owned();
    };
    let spread = format!(
        "clients run in step with each other and with the polling phases, and the module ran once: \
         in the simulator it is {:.3} to {:.3}, depending on when the application comes, on what is \
         between the throttles (0.5, 2.3 and 5 ms) and on how pauses vary (not at all, as assumed, \
         three times as much)",
        reach.least, reach.most
    );
    if reach.has(pair.real) {
        spread
    } else {
        format!("not isolated in this run: {spread}, which is not enough")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::{figure, Plan};

    fn nothing(_: &str, _: &str) -> Result<Option<Reach>, Error> {
        Ok(None)
    }

    #[test]
    fn points_that_are_far_apart_have_a_cause_and_others_are_not_named() {
        let simulated = figure("10", &Plan::quick(), &mut ()).unwrap().unwrap();
        let mut real = simulated.clone();
        let close = apart(&simulated, &real, &mut nothing).unwrap();
        assert_eq!(close, Vec::new());
        real.series[1].points[0].mean *= 2.0;
        let far = apart(&simulated, &real, &mut nothing).unwrap();
        assert_eq!((far.len(), &*far[0].why), (1, "not isolated in this run"));
    }

    #[test]
    fn reach_explains_what_is_within_it_and_nothing_else() {
        let mut simulated = figure("10", &Plan::quick(), &mut ()).unwrap().unwrap();
        simulated.series[1].points[0].at = "nn".into();
        let mut real = simulated.clone();
        simulated.series[1].points[0].mean = 2.0;
        let mut find = |name: &str, _: &str| {
            assert_eq!(name, "nn");
            Ok(Reach::of(&[2.6, 2.0]))
        };
        for (value, explained) in [(2.8, true), (3.0, false)] {
            real.series[1].points[0].mean = value;
            let one = apart(&simulated, &real, &mut find).unwrap();
            assert_eq!(one[0].why.starts_with("clients run"), explained, "{one:?}");
        }
    }
}
