// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga reserve`: priorities, modes and reserves.

use super::subject::{Listed, Subject};
use super::{print_json, Failure, JSON_VERSION};
use crate::control::{Calls, Control};
use crate::directory::Directory;
use crate::names::Name;
use crate::table::fit::grid_within;
use crate::terminal::Sheet;
use crate::{cli, names};
use loga::uapi;
use serde::Serialize;
use std::io::Write;
use std::time::Duration;

/// What is set for one subject, and what its reserve has served; an object of
/// `loga reserve --json`.
#[derive(Serialize)]
struct Line {
    version: u32,
    gpu: Option<u32>,
    subject: String,
    id: u64,
    name: Option<Name>,
    /// Its bytes in hexadecimal digits, if they are no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    name_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cleared: Option<bool>,
    #[serde(flatten)]
    spec: Option<Spec>,
    #[serde(flatten)]
    served: Option<Served>,
}

/// What is set.
#[derive(Serialize)]
struct Spec {
    /// `null`: by nice.
    prio: Option<u32>,
    mode: String,
    #[serde(flatten)]
    reserve: Option<Reserve>,
    /// What is left of its lease; `null`: it has none.
    lease_ms: Option<u32>,
}

/// What is promised.
#[derive(Serialize)]
struct Reserve {
    kind: String,
    soft: bool,
    capacity_us: u64,
    period_us: u64,
    longest_us: Option<u64>,
    /// If it is before the end of the period.
    deadline_us: Option<u64>,
    commands: u32,
    /// Within what a client is done, beside its pauses, that waits for the end of each of its
    /// `commands` before the next; `null` if no deadline is promised.
    round_us: Option<u64>,
}

/// What was served since it was set.
#[derive(Serialize)]
struct Served {
    left_ns: i64,
    used_ns: u64,
    served: u64,
    longest_seen_ns: u64,
    breaches: u64,
    /// `deadline`, `share`, or `null` if nothing is promised.
    promise: Option<&'static str>,
    missed: u64,
    void_own: u64,
    void_foreign: u64,
    void_fallback: u64,
    void_order: u64,
}

impl Spec {
    fn of(spec: &uapi::Spec) -> Self {
        Self {
            prio: (spec.prio != uapi::PRIO_BY_NICE).then_some(spec.prio),
            mode: names::mode(spec.mode),
            reserve: Reserve::of(spec),
            lease_ms: (spec.lease_ms != 0).then_some(spec.lease_ms),
        }
    }

    /// In one line.
    fn words(&self) -> String {
        let mut words = Vec::new();
        if let Some(reserve) = &self.reserve {
            words.push(reserve.words());
        }
        words.extend(self.prio.map(|prio| format!("prio {prio}")));
        words.push(format!("mode {}", self.mode));
        words.extend(self.lease_ms.map(|ms| format!("for {}", seconds(ms))));
        words.join(", ")
    }
}

impl Reserve {
    fn of(spec: &uapi::Spec) -> Option<Self> {
        let soft = spec.flags & uapi::SPEC_SOFT != 0;
        let is_firm = spec.kind == uapi::RESERVE_CBS && !soft && spec.longest_ns != 0;
        let due_us = match spec.deadline_ns {
            0 => spec.period_ns / 1000,
            ns => ns / 1000,
        };
        (spec.kind != uapi::RESERVE_NONE).then(|| Reserve {
            kind: names::reserve(spec.kind),
            soft,
            capacity_us: spec.capacity_ns / 1000,
            period_us: spec.period_ns / 1000,
            longest_us: (spec.longest_ns != 0).then_some(spec.longest_ns / 1000),
            deadline_us: (spec.deadline_ns != 0).then_some(spec.deadline_ns / 1000),
            commands: spec.commands,
            round_us: is_firm.then(|| due_us.saturating_mul(spec.commands.into())),
        })
    }

    fn words(&self) -> String {
        let soft = if self.soft { "soft " } else { "" };
        let (kind, capacity, period) = (&self.kind, self.capacity_us, self.period_us);
        let within = self.deadline_us.map(|us| format!(" within {us} us"));
        let within = within.unwrap_or_default();
        format!("{soft}{kind} {capacity} us in every {period} us{within}")
    }
}

/// Sets, clears or lists.
///
/// # Errors
///
/// Any [`Failure`].
pub fn run(
    arguments: &cli::Reserve,
    control: &Control<impl Calls>,
    directory: &Directory,
    out: &mut impl Sheet,
) -> Result<(), Failure> {
    if arguments.list {
        return list(arguments, control, directory, out);
    }
    let subject = Subject::find(&arguments.whom, directory)?;
    let mut wanted = wanted(arguments)?;
    (wanted.spec.subject, wanted.spec.id) = (subject.kind, subject.id);
    control
        .set_spec(&wanted)
        .map_err(|error| subject.explain(error, "loga reserve --list"))?;
    let spec = (!arguments.clear).then(|| Spec::of(&wanted.spec));
    if arguments.json {
        let line = Line {
            version: JSON_VERSION,
            gpu: arguments.gpu,
            subject: names::subject(subject.kind),
            id: subject.id,
            name_hex: subject.name.hex(),
            name: Some(subject.name),
            cleared: Some(arguments.clear),
            spec,
            served: None,
        };
        return Ok(print_json(out, &line)?);
    }
    let words = spec.as_ref().map(Spec::words);
    let words = words.unwrap_or("cleared".to_string());
    let place = arguments
        .gpu
        .map_or("all GPUs".to_string(), |gpu| format!("GPU {gpu}"));
    writeln!(out, "{subject}: {words} on {place}")?;
    let reserve = spec.as_ref().and_then(|spec| spec.reserve.as_ref());
    if let Some((us, commands @ 2..)) = reserve.and_then(|one| Some((one.round_us?, one.commands)))
    {
        writeln!(out, "{commands} submissions, each after the end of the one before: within {us} us and their pauses")?;
    }
    tell_idle(control, arguments.gpu, out)
}

/// The call that the options stand for, but for its subject.
fn wanted(arguments: &cli::Reserve) -> Result<uapi::SetSpec, Failure> {
    let number = |words: &[&str], word: &Option<String>| {
        let word = word.as_deref();
        word.and_then(|word| names::number(words, word))
    };
    let mut spec = uapi::Spec {
        prio: arguments.prio.unwrap_or(uapi::PRIO_BY_NICE),
        mode: number(&names::MODES, &arguments.mode).unwrap_or(uapi::MODE_PRT),
        lease_ms: arguments.lease.map_or(0, lease_ms),
        ..Default::default()
    };
    let ns = |us: u64| us.saturating_mul(1000);
    if let (Some(capacity), Some(period)) = (arguments.capacity_us, arguments.period_us) {
        spec.kind = number(&names::RESERVES, &arguments.kind).unwrap_or(uapi::RESERVE_CBS);
        (spec.capacity_ns, spec.period_ns) = (ns(capacity), ns(period));
        spec.longest_ns = arguments.longest_us.map_or(0, ns);
        spec.deadline_ns = arguments.deadline_us.map_or(0, ns);
        spec.commands = arguments.commands.unwrap_or(1);
        spec.flags = if arguments.soft { uapi::SPEC_SOFT } else { 0 };
    } else if !arguments.clear && arguments.prio.is_none() && arguments.mode.is_none() {
        let line = "nothing to set: want --capacity-us and --period-us, --prio or --mode";
        return Err(Failure::Text(line.to_string()));
    }
    Ok(uapi::SetSpec {
        gpu: arguments.gpu.unwrap_or(uapi::ALL_GPUS),
        action: if arguments.clear {
            uapi::ACTION_CLEAR
        } else {
            uapi::ACTION_SET
        },
        spec,
        ..Default::default()
    })
}

/// A lease of at most a day, in milliseconds: one at least.
fn lease_ms(lease: Duration) -> u32 {
    u32::try_from(lease.as_millis())
        .unwrap_or(uapi::MAX_LEASE_MS)
        .max(1)
}

/// Names the GPUs of those chosen that do not decide on submissions, and what counts there.
pub(super) fn tell_idle(
    control: &Control<impl Calls>,
    gpu: Option<u32>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    for one in control.chosen(gpu)? {
        let config = one.info.config();
        if config.dispatch.is_none() {
            let counts = match config.enforce {
                true => "reserves promise a part of it, priorities and modes do not count",
                false => "nothing is promised",
            };
            writeln!(
                out,
                "GPU {} does not decide on submissions, {counts}: `loga policy set --dispatch edf` (or prio)",
                one.gpu
            )?;
        }
    }
    Ok(())
}

fn list(
    arguments: &cli::Reserve,
    control: &Control<impl Calls>,
    directory: &Directory,
    out: &mut impl Sheet,
) -> Result<(), Failure> {
    let mut specs = Vec::new();
    for snapshot in control.chosen(arguments.gpu)? {
        specs.push((snapshot.gpu, control.specs(snapshot.gpu)?));
    }
    let subjects = specs.iter().flat_map(|(_, specs)| specs);
    let listed_names = Listed::of(
        directory,
        subjects.map(|one| (one.spec.subject, one.spec.id)),
    );
    let mut rows = Vec::new();
    for (gpu, specs) in specs {
        for listed in specs {
            let spec = &listed.spec;
            let name = listed_names.name(spec.subject, spec.id);
            let line = Line {
                version: JSON_VERSION,
                gpu: Some(gpu),
                subject: names::subject(spec.subject),
                id: spec.id,
                name_hex: name.as_ref().and_then(Name::hex),
                name,
                cleared: None,
                spec: Some(Spec::of(spec)),
                served: Some(Served {
                    left_ns: listed.left_ns,
                    used_ns: listed.used_ns,
                    served: listed.served,
                    longest_seen_ns: listed.longest_seen_ns,
                    breaches: listed.breaches,
                    promise: names::promise(listed.promise),
                    missed: listed.misses.promised,
                    void_own: listed.misses.own,
                    void_foreign: listed.misses.foreign,
                    void_fallback: listed.misses.fallback,
                    void_order: listed.misses.order,
                }),
            };
            if arguments.json {
                print_json(out, &line)?;
            } else {
                rows.push(row(
                    &line,
                    listed_names.shown(spec.subject, spec.id),
                    &listed,
                ));
            }
        }
    }
    if !arguments.json {
        let titles = [
            "GPU", "FOR", "SUBJECT", "PRIO", "MODE", "RESERVE", "PROMISE", "LEFT", "USED",
            "COMMANDS", "LONGEST", "BREACHES", "MISSED", "VOID", "ENDS IN",
        ];
        let words = ["FOR", "SUBJECT", "MODE", "RESERVE", "PROMISE"];
        let dispensable = [
            "LONGEST", "COMMANDS", "VOID", "ENDS IN", "BREACHES", "LEFT", "USED", "MISSED", "MODE",
            "PRIO", "GPU",
        ];
        let grid = grid_within(&titles, &words, &dispensable, rows, out.columns());
        writeln!(out, "{}", grid.unwrap_or("nothing is set".to_string()))?;
    }
    Ok(())
}

/// Milliseconds as seconds.
fn seconds(ms: u32) -> String {
    format!("{:.1} s", f64::from(ms) / 1000.0)
}

/// Deadlines that were missed and not promised.
fn void(misses: &uapi::Misses) -> u64 {
    let uapi::Misses {
        promised: _,
        own,
        foreign,
        fallback,
        order,
    } = misses;
    [own, foreign, fallback, order].into_iter().sum()
}

fn row(line: &Line, subject: String, listed: &uapi::ListedSpec) -> Vec<String> {
    let spec = &listed.spec;
    let reserve = Reserve::of(spec);
    let of_reserve = |text: String| {
        if reserve.is_some() {
            text
        } else {
            "-".to_string()
        }
    };
    let words = reserve
        .as_ref()
        .map_or("-".to_string(), |reserve| reserve.words());
    vec![
        line.gpu.map_or("-".to_string(), |gpu| gpu.to_string()),
        line.subject.clone(),
        subject,
        match spec.prio {
            uapi::PRIO_BY_NICE => "nice".to_string(),
            prio => prio.to_string(),
        },
        names::mode(spec.mode),
        words,
        names::promise(listed.promise).unwrap_or("-").to_string(),
        of_reserve(format!("{:.3} ms", listed.left_ns as f64 / 1e6)),
        of_reserve(format!("{:.1} ms", listed.used_ns as f64 / 1e6)),
        of_reserve(listed.served.to_string()),
        of_reserve(format!("{:.3} ms", listed.longest_seen_ns as f64 / 1e6)),
        of_reserve(listed.breaches.to_string()),
        of_reserve(listed.misses.promised.to_string()),
        of_reserve(void(&listed.misses).to_string()),
        match spec.lease_ms {
            0 => "-".to_string(),
            ms => seconds(ms),
        },
    ]
}

#[cfg(test)]
mod tests;
