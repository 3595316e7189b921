// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Experiments of the TimeGraph paper with engaged scheduling.
//!
//! The paper's programs are stand-ins ([`standins`]), so its numbers and ours are not of the same
//! kind: compared are ratios within one figure. Source: Kato and others, TimeGraph, USENIX ATC 2011,
//! section 6; its bars are plotted only, so numbers are those of its text.

mod exact;
mod games;
mod plain;
mod rates;
mod response;
mod standins;
pub mod tasks;

use super::figure::Experiment;

/// The figures, with what is done in them.
pub(super) const FIGURES: &[Experiment] = &[
    (
        "timegraph-1",
        "a game of the highest CPU priority beside an engine or a bomb; no scheduler",
        plain::game_without_a_scheduler,
    ),
    (
        "timegraph-7",
        "a game (HT) above an engine (PRT); then the engine has 2.5 of 25 ms",
        games::game_and_engine,
    ),
    (
        "timegraph-8",
        "a game (HT) above a bomb of 5 ms commands (PRT); then the bomb has 2.5 of 25 ms",
        games::game_and_bomb,
    ),
    (
        "timegraph-9",
        "a game (HT) above five bombs (PRT); then each has 0.5 of 25 ms, or all share 2.5",
        games::game_and_bombs,
    ),
    (
        "timegraph-10",
        "a game and an engine (PRT) share 90 % of the GPU by reserves, period 25 ms",
        games::divided,
    ),
    (
        "timegraph-11",
        "an engine above five bombs, which share 2.5 of 25 ms",
        rates::steady,
    ),
    (
        "timegraph-12",
        "three engines: no scheduler, three priorities, then 15/25, 5/50 and 5/100 ms",
        rates::three_engines,
    ),
    (
        "timegraph-13",
        "a player at 24 frames per second (10 of 40 ms) and five bombs (5 of 40 ms)",
        rates::player,
    ),
    (
        "timegraph-14",
        "what commands were expected to take, beside what they took; no scheduler",
        response::forecasts,
    ),
    (
        "timegraph-15",
        "a game alone: what scheduling costs it; and protected beside five bombs",
        response::overhead,
    ),
    (
        "timegraph-16",
        "kernels under PRT: completions seen at once, or at a tick of 1 ms",
        response::tick,
    ),
];
