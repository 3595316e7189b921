// SPDX-License-Identifier: GPL-2.0

//! Figure 11: two programs share a GPU, and each should have what is its own.

use super::streams::mean;
use super::{App, GROUP_A, GROUP_B};
use crate::outcome::Error;
use crate::scenario::{Client, Kind, Phase, Policy, Span};
use crate::systems::figure::{Criterion, Length, Line, Lines};
use crate::systems::trial::{as_loaded, Trial};
use loga::policies::PolicyKind;
use Criterion::{Any, AtLeast};

/// Rounds in which the parts of both engines settle.
const ROUNDS: u32 = 50;

/// How the GPU is shared, by name, with the paper's index where it has one.
const SCHEDULERS: [(&str, Kind, &str); 4] = [
    ("no scheduler", Kind::Hardware, "about 0.81"),
    (
        "timeslice-eng",
        Kind::Loga(PolicyKind::TimesliceEngaged),
        "about 0.85",
    ),
    ("event", Kind::Loga(PolicyKind::Event), "-"),
    ("maxmin", Kind::Loga(PolicyKind::MaxMin), "-"),
];

/// A part of the time on the compute engine, and on the copy engine.
type Engines = [f64; 2];

/// Why shares without a scheduler are no worse.
const NO_WORSE: &str =
    "The paper gives no lengths of kernels, so that all have one length here, and turns command by \
     command are fair. Turns of a time keep a program waiting that has one short command: under \
     timeslice-eng it waits for a turn of 30 ms where it would wait for a kernel of 0.1 ms. Of two \
     that always want the GPU the shares are equal under timeslice-eng and not without: the last \
     lines.";
/// Why turns are not fair to programs that pause.
const TURNS: &str =
    "A program that pauses between its commands has none waiting when its turn comes, or loses its \
     turn in a pause, and then waits for a whole turn of the other. A program that copies (BO, MC) \
     seems to pause: the channels of copy engines are not seen, but it is held as a whole.";
/// Why the paper's rule leaves time.
const IDLES: &str =
    "It holds a program back that has had more than an equal part until the other has caught up, \
     though the other does not want that much: the rule is fair and leaves the GPU idle. Copies are \
     not seen, and held with the rest.";
/// Why a fair share is more than a program can get.
const WAITS: &str =
    "A program with one command at a time waits for a command of the other that runs, which no \
     policy can stop. No scheduler at all gives as little: see its lines, and how both fall where \
     the kernels of the other are ten times as long.";

/// Two programs under one scheduler.
#[derive(Clone, Copy, Debug)]
struct Shared {
    /// Jain's index of the time on the GPU.
    plain: f64,
    /// The same of what each got over its max-min fair share.
    fair: f64,
    /// The lesser of the two.
    least: f64,
    /// Whether both together want more of an engine than there is.
    saturates: bool,
    /// Whether one of them copies for most of its time on the GPU.
    copies: bool,
}

/// Jain's index: 1 if all are equal, 1 / n if one has all.
fn jain(of: &[f64]) -> f64 {
    let squares: f64 = of.iter().map(|one| one * one).sum();
    // CAST: a count.
    of.iter().sum::<f64>().powi(2) / (squares * of.len() as f64)
}

/// Max-min fair shares of both engines for programs that want these parts of them: as a part of
/// what each would do alone. A program that one engine holds up wants as much less of the other.
fn fair(wants: [Engines; 2]) -> [f64; 2] {
    // An engine has for a program what the other one leaves, and half of its time at least.
    let beside = |one: usize, other: f64| {
        let of = |engine: usize| {
            let left = 1.0 - wants[1 - one][engine] * other;
            left.max(0.5) / wants[one][engine]
        };
        of(0).min(of(1)).min(1.0)
    };
    let (mut first, mut second) = (1.0, 1.0);
    for _ in 0..ROUNDS {
        first = beside(0, second);
        second = beside(1, first);
    }
    [first, second]
}

/// What a program does for ever.
fn endless(app: App) -> Client {
    Client {
        repeat: None,
        ..app.client()
    }
}

fn policy(kind: Kind) -> Policy {
    match kind {
        Kind::Loga(kind) => as_loaded(kind),
        kind => Policy::paper(kind),
    }
}

/// Time on the engines of some clients under one scheduler.
fn used(clients: Vec<Client>, kind: Kind, length: Length) -> Result<Vec<Engines>, Error> {
    let names: Vec<_> = clients.iter().map(|client| client.name.clone()).collect();
    let trial = Trial::new(policy(kind), clients, Vec::new(), length)?;
    Ok(names.iter().map(|name| trial.engines(name)).collect())
}

/// What the programs of all pairs want, alone; commands of the long ones are so many times as long.
fn wanted(longer: u64, length: Length) -> Result<Vec<[(App, Engines); 2]>, Error> {
    let alone = |app: App| Ok((app, used(vec![endless(app)], Kind::Hardware, length)?[0]));
    let long = GROUP_A.map(|app| alone(app.shorter(app.shortened / longer)));
    let long: Vec<_> = long.into_iter().collect::<Result<_, Error>>()?;
    let short = GROUP_B.map(alone).into_iter();
    let short: Vec<_> = short.collect::<Result<_, Error>>()?;
    let pairs = long
        .iter()
        .flat_map(|long| short.iter().map(|short| [*long, *short]));
    Ok(pairs.collect())
}

/// These pairs under one scheduler.
fn shared(kind: Kind, pairs: &[[(App, Engines); 2]], length: Length) -> Result<Vec<Shared>, Error> {
    let one = |pair: &[(App, Engines); 2]| {
        let got = used(pair.map(|(app, _)| endless(app)).into(), kind, length)?;
        let wants = pair.map(|(_, wants)| wants);
        let fair = fair(wants);
        let time = |engines: &Engines| engines.iter().sum::<f64>();
        let over = [0, 1].map(|one: usize| time(&got[one]) / time(&wants[one]) / fair[one]);
        let both = [0, 1].map(|engine: usize| wants[0][engine] + wants[1][engine]);
        let copies = |(app, _): &(App, Engines)| app.copy_pct > 50.0;
        Ok(Shared {
            plain: jain(&[time(&got[0]), time(&got[1])]),
            fair: jain(&over),
            least: over[0].min(over[1]),
            saturates: both.iter().any(|both| *both > 1.0),
            copies: pair.iter().any(copies),
        })
    };
    pairs.iter().map(one).collect()
}

/// The least of something of those pairs.
fn least(pairs: &[Shared], which: fn(&Shared) -> bool, what: fn(&Shared) -> f64) -> f64 {
    let chosen = pairs.iter().filter(|one| which(one)).map(what);
    chosen.fold(f64::INFINITY, f64::min)
}

/// Jain's index of two clients that always want the GPU, one with kernels ten times as long.
fn hogs(kind: Kind, length: Length) -> Result<f64, Error> {
    let hog = |name, us| Client::new(name, vec![Phase::new(Span::us(0), Span::us(us))]);
    let got = used(vec![hog("long", 1_000), hog("short", 100)], kind, length)?;
    Ok(jain(&[got[0][0], got[1][0]]))
}

/// Pairs whose index is less under the first than under the second.
fn below(one: &[Shared], other: &[Shared], index: fn(&Shared) -> f64) -> f64 {
    let less = one.iter().zip(other);
    // CAST: at most 24.
    less.filter(|(one, other)| index(one) < index(other))
        .count() as f64
}

/// Figure 11.
pub(super) fn pairs_on_one_gpu(length: Length) -> Lines {
    let [equal, longer] = [1, 10].map(|longer| wanted(longer, length));
    let (equal, longer) = (equal?, longer?);
    let (mut alike, mut unlike) = (Vec::new(), Vec::new());
    let mut lines = Vec::new();
    for (name, kind, paper) in SCHEDULERS {
        alike.push(shared(kind, &equal, length)?);
        unlike.push(shared(kind, &longer, length)?);
        let plain: Vec<_> = alike[alike.len() - 1].iter().map(|one| one.plain).collect();
        let what = format!("Jain's index of the time on the GPU, mean of the pairs: {name}");
        lines.push(Line::new(what, paper, mean(&plain), "", Any));
    }
    lines.extend([
        Line::new(
            "pairs whose index over fair shares is less without a scheduler than under timeslice-eng, of 24",
            "all but a few",
            below(&alike[0], &alike[1], |one| one.fair),
            "",
            AtLeast(20.0),
        )
        .unless_met(NO_WORSE),
        Line::new(
            "the same of the plain index",
            "-",
            below(&alike[0], &alike[1], |one| one.plain),
            "",
            Any,
        ),
        Line::new(
            "the same over fair shares, kernels of long programs ten times as long",
            "-",
            below(&unlike[0], &unlike[1], |one| one.fair),
            "",
            Any,
        ),
    ]);
    for ((at, (name, kind, _)), judged) in
        SCHEDULERS.iter().enumerate().zip([false, true, true, true])
    {
        let must = |bound| if judged { AtLeast(bound) } else { Any };
        let (pairs, long) = (&alike[at], &unlike[at]);
        let why = match *name {
            "timeslice-eng" => TURNS,
            "event" => IDLES,
            _ => WAITS,
        };
        lines.extend([
            Line::new(
                format!("{name}: least index over fair shares of pairs that want too much"),
                "-",
                least(pairs, |one| one.saturates, |one| one.fair),
                "",
                must(0.99),
            )
            .unless_met(why),
            Line::new(
                format!("{name}: the same without programs that copy"),
                "-",
                least(pairs, |one| one.saturates && !one.copies, |one| one.fair),
                "",
                Any,
            ),
            Line::new(
                format!("{name}: least part of its fair share that a program gets"),
                "-",
                least(pairs, |_| true, |one| one.least),
                "",
                must(0.95),
            )
            .unless_met(why),
            Line::new(
                format!("{name}: the same of pairs without programs that copy"),
                "-",
                least(pairs, |one| !one.copies, |one| one.least),
                "",
                Any,
            ),
            Line::new(
                format!("{name}: the same with long kernels ten times as long"),
                "-",
                least(long, |_| true, |one| one.least),
                "",
                Any,
            ),
            Line::new(
                format!("{name}: two that always want it, of kernels of 1 and 0.1 ms: index"),
                "-",
                hogs(*kind, length)?,
                "",
                must(0.99),
            ),
        ]);
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(of: [f64; 2], to: [f64; 2]) -> bool {
        of.iter().zip(to).all(|(of, to)| (of - to).abs() < 1e-6)
    }

    #[test]
    fn jain_is_one_for_equal_parts_and_a_half_if_one_of_two_has_all() {
        assert_eq!(jain(&[0.3, 0.3]), 1.0);
        assert_eq!(jain(&[0.7, 0.0]), 0.5);
        assert!((jain(&[3.0, 1.0]) - 0.8).abs() < 1e-12);
    }

    #[test]
    fn fair_is_all_there_is_while_it_is_enough_and_max_min_beyond() {
        assert_eq!(fair([[0.6, 0.0], [0.4, 0.0]]), [1.0; 2]);
        // The light one has what it wants, and the other the rest: 0.75 of 0.9.
        assert!(near(fair([[0.9, 0.0], [0.25, 0.0]]), [0.75 / 0.9, 1.0]));
        assert!(near(fair([[0.9, 0.0], [0.8, 0.0]]), [0.5 / 0.9, 0.5 / 0.8]));
        // Each on an engine of its own.
        assert_eq!(fair([[0.9, 0.0], [0.0, 0.9]]), [1.0; 2]);
    }

    #[test]
    fn program_that_one_engine_holds_up_wants_less_of_the_other() {
        // Both want 0.8 of the copy engine and have 0.5 of it, so that the first needs 0.125 of the
        // other engine, of which it would want 0.2 beside 0.9.
        let held = fair([[0.2, 0.8], [0.0, 0.8]]);
        assert!(near(held, [0.5 / 0.8; 2]), "{held:?}");
    }

    #[test]
    fn program_has_what_the_other_leaves_of_one_engine_because_of_the_other_engine() {
        // Each is held up by the engine that it wants most of, and leaves of the other one more
        // than a half: x * 0.9 + x * 0.5 = 1.
        let crossed = fair([[0.9, 0.5], [0.5, 0.9]]);
        assert!(near(crossed, [1.0 / 1.4; 2]), "{crossed:?}");
    }
}
