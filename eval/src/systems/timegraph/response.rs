// SPDX-License-Identifier: GPL-2.0

//! Figures 14 to 16: how well costs are known in advance, what engaged scheduling costs, and how fast
//! completions have to be seen.

use super::standins::{bomb, bombs, engine, game, of, waited_for};
use crate::outcome::Error;
use crate::scenario::{Client, Kind, Micros, Policy, Span};
use crate::systems::figure::{Criterion, Length, Line, Lines};
use crate::systems::trial::{hardware, prio, Trial};
use loga::engaged::{Mode, Predictor, Prio, Record, MAX_LINGER, RECORDS};
use loga::policies::dispatch::DispatcherKind;
use loga::units::Ns;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// Figure 14: the commands of a program one after the other, as many for each second.
pub(super) fn forecasts(length: Length) -> Lines {
    const PER_SECOND: u64 = 1000;
    // Part of the commands that took at most so many percent more or less than expected.
    let within = |client: Client, pct: u64| {
        let mut kernels = client.phases.iter().filter_map(|phase| phase.kernel);
        let span = kernels.next_back().unwrap_or(Span::us(0));
        let (mut near, mut all) = (0, 0);
        for seed in length.each_seed() {
            let random = &mut Pcg64Mcg::seed_from_u64(seed);
            let mut history = Predictor::new(vec![Record::default(); RECORDS]);
            for _ in 0..length.seconds * PER_SECOND {
                let took = span.draw(random);
                let expected = history.forecast().expected(false).get();
                near += u64::from(took.abs_diff(expected) * 100 <= took * pct);
                all += 1;
                history.learn(Ns::new(took), false);
            }
        }
        // CAST: counts.
        100.0 * near as f64 / all as f64
    };
    let line = |what, paper, ours, criterion| Line::new(what, paper, ours, "%", criterion);
    Ok(vec![
        line(
            "engine: within 15 %",
            "100",
            within(engine("engine", 6000), 15),
            Criterion::AtLeast(95.0),
        ),
        line(
            "bomb: within 15 %",
            "100 within 7 %",
            within(bomb("bomb"), 15),
            Criterion::AtLeast(95.0),
        ),
        line(
            "game: within 20 %",
            "65",
            within(game(), 20),
            Criterion::Any,
        ),
    ])
}

/// Figure 15.
pub(super) fn overhead(length: Length) -> Lines {
    let alone = hardware(vec![game()], length)?.fps("game");
    let lost = |mode| -> Result<f64, Error> {
        let with = prio(vec![of(Prio::HIGHEST, mode, game())], length)?;
        Ok(100.0 - 100.0 * with.fps("game") / alone)
    };
    let shielded = |linger: Ns, adapts: bool| {
        let others = bombs()
            .into_iter()
            .map(|one| of(Prio::NORMAL, Mode::Prt, one));
        let clients = [of(Prio::HIGHEST, Mode::Protected, game())]
            .into_iter()
            .chain(others);
        let policy = Policy {
            linger: Micros(linger),
            linger_adapts: adapts,
            ..Policy::paper(Kind::Engaged(DispatcherKind::Prio))
        };
        Trial::new(policy, clients.collect(), Vec::new(), length)
    };
    let at_once = shielded(Ns::ZERO, false)?;
    let lingering = shielded(Ns::from_us(4500), false)?;
    let adapting = shielded(MAX_LINGER, true)?;
    let p99 = hardware(vec![game()], length)?.percentile_ms("game", 99);
    let beside = |trial: &Trial| 100.0 * trial.fps("game") / alone;
    Ok(vec![
        Line::new("game alone", "-", alone, "fps", Criterion::Any),
        Line::new(
            "lost under HT",
            "4",
            lost(Mode::Ht)?,
            "%",
            Criterion::AtMost(4.0),
        ),
        Line::new(
            "lost under PRT",
            "17 to 28",
            lost(Mode::Prt)?,
            "%",
            Criterion::AtMost(28.0),
        ),
        Line::new(
            "lost under shield",
            "-",
            lost(Mode::Protected)?,
            "%",
            Criterion::AtMost(0.5),
        ),
        Line::new(
            "shield beside five bombs, of alone",
            "-",
            beside(&at_once),
            "%",
            Criterion::AtLeast(95.0),
        )
        .unless_met(
            "Protected work is read when another client wants to pass, and what was read 100 us ago is \
             known. With work that is seen at once, as the simulator had it before, it was 95.3 %.",
        ),
        Line::new(
            "99 % of frames within",
            "-",
            at_once.percentile_ms("game", 99),
            "ms",
            // The longest command of a bomb.
            Criterion::AtMost(1.3 * p99 + 5.25),
        ),
        Line::new(
            "bombs' part",
            "-",
            at_once.use_of_all_pct("bomb"),
            "%",
            Criterion::Any,
        ),
        Line::new(
            "the same with a linger of 4.5 ms, of alone",
            "-",
            beside(&lingering),
            "%",
            Criterion::AtLeast(99.0),
        )
        .unless_met(
            "Each of the five bombs passes once a second since it has waited for so long (the floor), \
             which is the part of the GPU in the next line.",
        ),
        Line::new(
            "bombs' part",
            "-",
            lingering.use_of_all_pct("bomb"),
            "%",
            Criterion::Any,
        ),
        Line::new(
            "with one that adapts, of alone",
            "-",
            beside(&adapting),
            "%",
            Criterion::AtLeast(95.0),
        ),
        Line::new(
            "bombs' part",
            "-",
            adapting.use_of_all_pct("bomb"),
            "%",
            Criterion::Any,
        ),
    ])
}

/// Figure 16.
pub(super) fn tick(length: Length) -> Lines {
    let mut lines = Vec::new();
    for us in [10, 33, 100, 1000] {
        let kernels = |tick: Ns| -> Result<f64, Error> {
            let policy = Policy {
                tick: Micros(tick),
                ..Policy::paper(Kind::Engaged(DispatcherKind::Prio))
            };
            let client = of(Prio::NORMAL, Mode::Prt, waited_for(us));
            let trial = Trial::new(policy, vec![client], Vec::new(), length)?;
            Ok(trial.kernels("kernels"))
        };
        let criterion = match us {
            33 => Criterion::AtLeast(10.0),
            _ => Criterion::Any,
        };
        let ours = kernels(Ns::ZERO)? / kernels(Ns::from_ms(1))?;
        let what = format!("{us} us: seen at once, over a tick");
        let line = Line::new(what, "15 to 30", ours, "times", criterion);
        lines.push(line.unless_met(
            "A submission costs some 60 us beside its kernel, so that a kernel of 33 us comes every 100 \
             to 120 us: 9.1 times as often on the model of a GPU too.",
        ));
    }
    Ok(lines)
}
