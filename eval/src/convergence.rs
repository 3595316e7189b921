// SPDX-License-Identifier: GPL-2.0

//! How soon a client that comes, or comes back, has its share: phases that grow with
//! allocated channels against phases that grow with active clients.
//!
//! All clients always want the GPU; half of them run short commands and half long ones,
//! twelve channels each. When they have settled, one more comes, with short commands, and of a
//! user of its own: served in turn, it would get far less than the others. It has its share from
//! the first period on after which its GPU time since it came stays at nine tenths of an equal
//! division or more.

use crate::ideal::{IdealGpu, Process};
use crate::report::text::table;
use loga::engine::{Config, Inputs, Scale, MIN_ACTIVE};
use loga::error::Error;
use loga::policies::PolicyKind;
use loga::share::GroupBy;
use loga::units::Ns;
use serde::Serialize;

/// Clients, with the one that comes.
pub const CLIENTS: [usize; 4] = [2, 10, 20, 100];
/// Commands of the short and of the long kind, in microseconds.
const SHORT_US: u64 = 100;
const LONG_US: u64 = 1000;
/// Part of an equal division that counts as having it.
const ENOUGH: f64 = 0.9;

/// What one calculation showed.
#[derive(Clone, Debug, Serialize)]
pub struct Convergence {
    /// Policy.
    pub policy: &'static str,
    /// `channels` or `active`.
    pub scale: &'static str,
    /// Clients, with the one that came.
    pub clients: usize,
    /// Whether it had been there before.
    pub returns: bool,
    /// Mean length of a period, in milliseconds.
    pub period_ms: f64,
    /// Periods until it had its share; nothing if it did not within those watched.
    pub periods: Option<u64>,
    /// The same in milliseconds.
    pub ms: Option<f64>,
    /// Its share of the second half of the periods watched, as a fraction of an equal one.
    pub final_part: f64,
}

/// Calculates one case.
///
/// # Errors
///
/// A setting out of range.
pub fn one(
    policy: PolicyKind,
    scale: Scale,
    clients: usize,
    returns: bool,
) -> Result<Convergence, Error> {
    let units = match scale {
        Scale::Active => (clients as u64).max(MIN_ACTIVE.into()),
        Scale::Channels => 12 * clients as u64,
    };
    let period = Ns::from_ms(6 * units);
    let comes = Ns::new(periods(clients) * period.get() + 1_234_567);
    let mut processes: Vec<Process> = (1..clients)
        .map(|at| Process::new(if at % 2 == 1 { LONG_US } else { SHORT_US }, 0))
        .collect();
    let mut newcomer = Process::new(SHORT_US, 0);
    // Of another user, it owes nothing of what the others are ahead.
    newcomer.user = 1;
    if returns {
        newcomer.until = Some(Ns::new(3 * period.get()));
        newcomer.again = Some(comes);
    } else {
        newcomer.from = comes;
    }
    processes.push(newcomer);
    let config = Config {
        policy,
        scale: Some(scale),
        randomize: true,
        enforce: true,
        inputs: Inputs::Cpu,
        ..Config::paper()
    };
    let mut machine = IdealGpu::new(&processes, config, GroupBy::Process)?;
    machine.run_until(comes);
    let (first, before) = (machine.decisions(), last(&machine));
    let mut seen = Vec::new();
    let mut decisions = first;
    while decisions < first + periods(clients) {
        machine.run_until(machine.now().saturating_add(Ns::from_ms(1)));
        if machine.decisions() != decisions {
            decisions = machine.decisions();
            let since = machine.now().saturating_sub(comes).get() as f64;
            let got = last(&machine).saturating_sub(before).get() as f64;
            seen.push((since / 1e6, got / 1e6));
        }
    }
    let part = |(ms, got): &(f64, f64)| got / ms * clients as f64;
    let outside = seen.iter().rposition(|seen| part(seen) < ENOUGH);
    let reached = outside.map_or(0, |at| at + 1);
    let (tail, len) = (seen.len() / 2, seen.len());
    let final_part = match (seen.get(tail), seen.last()) {
        (Some(from), Some(to)) => part(&(to.0 - from.0, to.1 - from.1)),
        _ => f64::NAN,
    };
    Ok(Convergence {
        policy: policy.name(),
        scale: scale.name(),
        clients,
        returns,
        period_ms: seen.last().map_or(0.0, |last| last.0 / len as f64),
        periods: seen.get(reached).map(|_| reached as u64 + 1),
        ms: seen.get(reached).map(|seen| seen.0),
        final_part,
    })
}

/// Periods that clients are given to settle, and that are watched then. A client gets ahead by a
/// period, which is when it is throttled, in as many as it has competitors.
const fn periods(clients: usize) -> u64 {
    60 + 3 * clients as u64
}

/// GPU time of the one that comes.
fn last(machine: &IdealGpu) -> Ns {
    machine.ran().last().copied().unwrap_or_default()
}

/// Calculates all cases.
pub fn all() -> Result<Vec<Convergence>, Error> {
    let mut table = Vec::new();
    for policy in [PolicyKind::Event, PolicyKind::MaxMin] {
        for scale in [Scale::Channels, Scale::Active] {
            for clients in CLIENTS {
                for returns in [false, true] {
                    table.push(one(policy, scale, clients, returns)?);
                }
            }
        }
    }
    Ok(table)
}

/// The same as a table.
pub fn text(all: &[Convergence]) -> String {
    let mut shown = table([
        "policy",
        "scale",
        "clients",
        "comes",
        "period ms",
        "periods",
        "ms",
        "final",
    ]);
    for one in all {
        let most = periods(one.clients);
        let periods = one.periods.map(|periods| periods.to_string());
        shown.add_row([
            one.policy.to_string(),
            one.scale.to_string(),
            one.clients.to_string(),
            if one.returns { "returns" } else { "new" }.to_string(),
            format!("{:.0}", one.period_ms),
            periods.unwrap_or(format!("> {most}")),
            one.ms.map_or("-".into(), |ms| format!("{ms:.0}")),
            format!("{:.2}", one.final_part),
        ]);
    }
    format!("{}\n", shown.trim_fmt())
}
