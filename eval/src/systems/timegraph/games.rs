// SPDX-License-Identifier: GPL-2.0

//! Figures 7 to 10: a game beside other programs.

use super::standins::{
    bomb, bombs, engine, game, of, own, pct, terms, with, with_rest, CHARGED, ENDS,
};
use crate::scenario::{Client, Promise};
use crate::systems::figure::{Criterion, Length, Line, Lines};
use crate::systems::trial::{hardware, prio, sharing};
use loga::engaged::{Kind, Mode, Prio};
use Criterion::{Any, AtLeast, AtMost, Within};
use Mode::{Ht, Prt};

/// The most important, under HT.
fn first(client: Client) -> Client {
    of(Prio::HIGHEST, Ht, client)
}

/// Figure 7.
pub(super) fn game_and_engine(length: Length) -> Lines {
    let beside = |first: Client, other: Client| vec![first, of(Prio::NORMAL, Prt, other)];
    let clients = |other: Client| beside(first(game()), other);
    let other = || engine("engine", 6000);
    let alone = hardware(vec![game()], length)?.fps("game");
    let none = hardware(clients(other()), length)?.fps("game");
    let ranked = prio(clients(other()), length)?;
    let reserved = |kind| {
        let other = with(own(kind, 2500, 25_000), other());
        prio(beside(with_rest(first(game())), other), length)
    };
    let (pe, ae) = (reserved(Kind::Pe)?, reserved(Kind::Ae)?);
    let kernel = 100.0 * 1.05 / 1000.0;
    Ok(vec![
        Line::new("game alone", "-", alone, "fps", Any),
        Line::new("beside it, no scheduler", "-", none, "fps", Any),
        Line::new(
            "priority, over no scheduler",
            "+2 to +27",
            pct(ranked.fps("game"), none) - 100.0,
            "%",
            AtLeast(10.0),
        ),
        Line::new(
            "priority, of alone",
            "-",
            pct(ranked.fps("game"), alone),
            "%",
            AtLeast(97.0),
        )
        .unless_met(ENDS),
        Line::new(
            "PE, over priority",
            "+2 to +21",
            pct(pe.fps("game"), ranked.fps("game")) - 100.0,
            "%",
            Any,
        ),
        Line::new(
            "AE, over priority",
            "+4 to +36",
            pct(ae.fps("game"), ranked.fps("game")) - 100.0,
            "%",
            Any,
        ),
        Line::new(
            "engine's part under PE",
            "10",
            pe.use_pct("engine"),
            "%",
            AtMost(10.0 + kernel),
        ),
        Line::new(
            "engine's part under AE",
            "-",
            ae.use_pct("engine"),
            "%",
            AtMost(pe.use_pct("engine")),
        ),
    ])
}

/// Figure 8.
pub(super) fn game_and_bomb(length: Length) -> Lines {
    let beside = |first: Client, other: Client| vec![first, of(Prio::NORMAL, Prt, other)];
    let clients = |other: Client| beside(first(game()), other);
    let alone = hardware(vec![game()], length)?.fps("game");
    let none = hardware(clients(bomb("bomb")), length)?.fps("game");
    let ranked = prio(clients(bomb("bomb")), length)?;
    let reserved = |kind| {
        let bomb = with(own(kind, 2500, 25_000), bomb("bomb"));
        prio(beside(with_rest(first(game())), bomb), length)
    };
    let (pe, ae, cbs) = (
        reserved(Kind::Pe)?,
        reserved(Kind::Ae)?,
        reserved(Kind::Cbs)?,
    );
    let of_alone = |fps| pct(fps, alone);
    Ok(vec![
        Line::new("game alone", "-", alone, "fps", Any),
        Line::new("beside it, no scheduler", "-", none, "fps", Any),
        Line::new(
            "priority, over no scheduler",
            "3 to 6",
            ranked.fps("game") / none,
            "times",
            AtLeast(3.0),
        ),
        Line::new(
            "priority, of alone",
            "48 to 76 of fig. 7",
            of_alone(ranked.fps("game")),
            "%",
            Any,
        ),
        Line::new(
            "PE, of alone",
            ">= 97",
            of_alone(pe.fps("game")),
            "%",
            AtLeast(95.0),
        )
        .unless_met(ENDS),
        Line::new(
            "AE, of alone",
            "up to 5 more",
            of_alone(ae.fps("game")),
            "%",
            AtLeast(95.0),
        )
        .unless_met(ENDS),
        Line::new(
            "CBS, of alone",
            "-",
            of_alone(cbs.fps("game")),
            "%",
            AtLeast(95.0),
        )
        .unless_met(ENDS),
        Line::new(
            "bomb's part under PE",
            "10",
            pe.use_pct("bomb"),
            "%",
            Within(9.9, 10.1),
        )
        .unless_met(CHARGED),
        Line::new("bomb's part under AE", "-", ae.use_pct("bomb"), "%", Any),
        Line::new(
            "bomb's part under CBS",
            "-",
            cbs.use_pct("bomb"),
            "%",
            Within(9.9, 10.1),
        )
        .unless_met(CHARGED),
        Line::new(
            "99 % of frames within, priority",
            "-",
            ranked.percentile_ms("game", 99),
            "ms",
            Any,
        ),
        Line::new(
            "99 % of frames within, PE",
            "-",
            pe.percentile_ms("game", 99),
            "ms",
            Any,
        ),
    ])
}

/// Figure 9.
pub(super) fn game_and_bombs(length: Length) -> Lines {
    let beside = |first: Client, each: &dyn Fn(Client) -> Client| {
        let others = bombs()
            .into_iter()
            .map(|one| of(Prio::NORMAL, Prt, each(one)));
        [first].into_iter().chain(others).collect::<Vec<_>>()
    };
    let alone = hardware(vec![game()], length)?.fps("game");
    let of_alone = |fps| pct(fps, alone);
    let none = hardware(beside(first(game()), &|one| one), length)?;
    let ranked = prio(beside(first(game()), &|one| one), length)?;
    let reserved = |promise: Promise| {
        let each = |one| with(promise, one);
        beside(with_rest(first(game())), &each)
    };
    let separate = prio(reserved(own(Kind::Pe, 500, 25_000)), length)?;
    let all = terms(Kind::Pe, 2500, 25_000);
    let shared = reserved(Promise::Shared(0));
    let shared = sharing(shared, vec![all], length)?;
    let separate_pct = of_alone(separate.fps("game"));
    Ok(vec![
        Line::new(
            "no scheduler, of alone",
            "unresponsive",
            of_alone(none.fps("game")),
            "%",
            AtMost(10.0),
        ),
        Line::new(
            "priority, of alone",
            "80 to 93",
            of_alone(ranked.fps("game")),
            "%",
            AtLeast(80.0),
        ),
        Line::new(
            "0.5/25 ms each, of alone",
            "about 100",
            separate_pct,
            "%",
            AtLeast(95.0),
        )
        .unless_met(ENDS),
        Line::new(
            "2.5/25 ms shared, of alone",
            "slightly better",
            of_alone(shared.fps("game")),
            "%",
            AtLeast(separate_pct - 1.0),
        ),
        Line::new(
            "bombs' part, each",
            "10",
            separate.use_of_all_pct("bomb"),
            "%",
            Any,
        ),
        Line::new(
            "bombs' part, shared",
            "10",
            shared.use_of_all_pct("bomb"),
            "%",
            Any,
        ),
    ])
}

/// Figure 10.
pub(super) fn divided(length: Length) -> Lines {
    const PERIOD_US: u64 = 25_000;
    let promise = |kind, tenths| own(kind, PERIOD_US * tenths / 10, PERIOD_US);
    let game = |tenths| of(Prio::NORMAL, Prt, with(promise(Kind::Pe, tenths), game()));
    let engine = |kind, tenths| {
        let engine = engine("engine", 6000);
        of(Prio::NORMAL, Prt, with(promise(kind, 9 - tenths), engine))
    };
    let mut lines = Vec::new();
    for tenths in 1..=8_u64 {
        let pe = prio(vec![game(tenths), engine(Kind::Pe, tenths)], length)?;
        let ae = prio(vec![game(tenths), engine(Kind::Ae, tenths)], length)?;
        // CAST: at most eight.
        let (to_game, to_engine) = (10.0 * tenths as f64, 90.0 - 10.0 * tenths as f64);
        // Demand allows what a client uses in the same company without a reserve of its own.
        let free = |mut client: Client| {
            client.engaged.promise = None;
            client
        };
        let wants = prio(vec![free(game(tenths)), engine(Kind::Pe, tenths)], length)?;
        let wants = wants.use_pct("game");
        let wants_engine = prio(vec![game(tenths), free(engine(Kind::Pe, tenths))], length)?;
        let wants_engine = wants_engine.use_pct("engine");
        let judged = |wants: f64, promised| Within(wants.min(promised) - 1.0, promised + 1.0);
        let used = |what: &str, promised: f64, used, criterion| {
            let what = format!("{what}'s part of {promised:.0} %");
            Line::new(what, "follows C/T", used, "%", criterion).unless_met(CHARGED)
        };
        let (game_pe, engine_pe) = (pe.use_pct("game"), pe.use_pct("engine"));
        let (game_ae, engine_ae) = (ae.use_pct("game"), ae.use_pct("engine"));
        lines.extend([
            used("PE/PE: game", to_game, game_pe, judged(wants, to_game)),
            used(
                "PE/PE: engine",
                to_engine,
                engine_pe,
                judged(wants_engine, to_engine),
            ),
            used("PE/AE: game", to_game, game_ae, judged(wants, to_game)),
            used("PE/AE: engine", to_engine, engine_ae, AtMost(engine_pe)),
        ]);
        for (what, trial) in [("PE/PE", &pe), ("PE/AE", &ae)] {
            for name in ["game", "engine"] {
                let what = format!("{what}: {name}");
                let paper = if tenths >= 6 { "> 25" } else { "-" };
                lines.push(Line::new(what, paper, trial.fps(name), "fps", Any));
            }
        }
    }
    Ok(lines)
}
