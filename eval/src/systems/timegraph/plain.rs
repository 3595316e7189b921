// SPDX-License-Identifier: GPL-2.0

//! Figure 1: a game with the highest priority on its processor, beside other programs and without a
//! scheduler of the GPU.
//!
//! The paper's machine has four processors, so that each of two programs has one. A priority can
//! count where they share one, so this is here too.

use super::standins::{bomb, engine, game, pct};
use crate::outcome::Error;
use crate::scenario::{Client, Costs, Kind, Policy, Scenario, Wait};
use crate::systems::figure::{Criterion, Length, Line, Lines};
use crate::systems::trial::{hardware, Trial};
use loga::units::{Ns, Weight};
use Criterion::{Any, AtLeast, Within};

/// The weight of a thread of nice -20, if one of nice 0 has 100: `sched_prio_to_weight` of Linux.
const NICEST: u32 = 8668;
/// How long a thread keeps its processor while others wait, as Linux has it on four of them.
const SLICE: Ns = Ns::from_us(3_000);

/// What the game loses beside another program, in percent of its rate alone. Both are on one
/// processor, with this weight of the game, or each has one.
fn lost(
    other: Client,
    shared: Option<Weight>,
    wait: Wait,
    alone: f64,
    length: Length,
) -> Result<f64, Error> {
    let on = |client: Client, cpu_weight| Client {
        cpu: shared.map(|_| 0),
        cpu_weight,
        wait,
        ..client
    };
    let scenario = Scenario {
        policy: Policy::paper(Kind::Hardware),
        cpus: shared.map(|_| SLICE).into_iter().collect(),
        clients: vec![
            on(game(), shared.unwrap_or_default()),
            on(other, Weight::DEFAULT),
        ],
        ..Scenario::new(Ns::from_ms(length.seconds * 1000), Costs::default())
    };
    let trial = Trial::of(scenario, length)?;
    Ok(100.0 - pct(trial.fps("game"), alone))
}

/// Figure 1.
pub(super) fn game_without_a_scheduler(length: Length) -> Lines {
    let alone = hardware(vec![game()], length)?.fps("game");
    let mut lines = vec![Line::new("game alone", "-", alone, "fps", Any)];
    let nicest = Weight::new(NICEST).unwrap_or_default();
    for (name, other, least) in [
        ("an engine", engine("engine", 6000), 20.0),
        ("a bomb", bomb("bomb"), 60.0),
    ] {
        let lost = |shared, wait| lost(other.clone(), shared, wait, alone, length);
        let apart = lost(None, Wait::Block)?;
        let equal = lost(Some(Weight::DEFAULT), Wait::Block)?;
        let first = lost(Some(nicest), Wait::Block)?;
        let spins = lost(Some(nicest), Wait::Spin)?;
        let line =
            |what: String, paper, ours, criterion| Line::new(what, paper, ours, "%", criterion);
        lines.extend([
            line(
                format!("beside {name}, a processor each: it loses"),
                "much",
                apart,
                AtLeast(least),
            ),
            line(
                format!("beside {name}, on one processor at nice -20"),
                "-",
                first,
                AtLeast(least),
            ),
            line(
                "nice -20 gains there, of its rate at nice 0".into(),
                "nothing",
                100.0 * (100.0 - first) / (100.0 - equal) - 100.0,
                Within(-3.0, 3.0),
            ),
            line(
                "the same, and both spin while they wait: it loses".into(),
                "-",
                spins,
                Any,
            ),
        ]);
    }
    Ok(lines)
}
