// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga set`: weights, limits and classes.

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

/// What is set for one subject; an object of `loga set --json`.
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
    weight: Option<u32>,
    limit: Option<u32>,
    class: Option<String>,
    target: Option<u32>,
    access: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cleared: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exhausted: Option<bool>,
}

/// Sets, clears or lists.
///
/// # Errors
///
/// Any [`Failure`].
pub fn run(
    arguments: &cli::Set,
    control: &Control<impl Calls>,
    directory: &Directory,
    out: &mut impl Sheet,
) -> Result<(), Failure> {
    if arguments.list {
        return list(arguments, control, directory, out);
    }
    let subject = Subject::find(&arguments.whom, directory)?;
    let mut wanted = if arguments.clear {
        uapi::SetShare {
            action: uapi::ACTION_CLEAR,
            ..Default::default()
        }
    } else {
        asked(arguments)?
    };
    wanted.gpu = arguments.gpu.unwrap_or(uapi::ALL_GPUS);
    wanted.subject = subject.kind;
    wanted.id = subject.id;
    control
        .set_share(&wanted)
        .map_err(|error| subject.explain(error, "loga set --list"))?;
    print(arguments, &subject, out)?;
    if !arguments.clear && !arguments.json && !is_enforced(arguments.gpu, control)? {
        writeln!(
            out,
            "LoGA only accounts, and does not enforce it: `loga policy set --enforce on`"
        )?;
    }
    Ok(())
}

/// Whether decisions are carried out on this GPU, or on all.
fn is_enforced(gpu: Option<u32>, control: &Control<impl Calls>) -> Result<bool, Failure> {
    let snapshots = control.chosen(gpu)?;
    Ok(snapshots.iter().all(|one| one.info.config().enforce))
}

/// What is to be set.
fn asked(arguments: &cli::Set) -> Result<uapi::SetShare, Failure> {
    let given = requested(&arguments.change);
    let Some(access) = arguments.access else {
        return given.ok_or_else(|| nothing("--weight, --limit, --class, --target or --access"));
    };
    let mut argument = given.unwrap_or(uapi::SetShare {
        action: uapi::ACTION_SET,
        ..Default::default()
    });
    argument.access = access.number();
    argument.mask |= uapi::SHARE_ACCESS;
    Ok(argument)
}

fn nothing(wanted: &str) -> Failure {
    Failure::Text(format!("nothing to set: want {wanted}"))
}

/// The fields that are given.
///
/// # Errors
///
/// [`Failure::Text`] if there are none.
pub(super) fn change(wanted: &cli::Change) -> Result<uapi::SetShare, Failure> {
    requested(wanted).ok_or_else(|| nothing("--weight, --limit, --class or --target"))
}

/// The fields that are given; nothing if there are none.
pub(super) fn requested(wanted: &cli::Change) -> Option<uapi::SetShare> {
    let mut argument = uapi::SetShare {
        action: uapi::ACTION_SET,
        ..Default::default()
    };
    if let Some(weight) = wanted.weight {
        argument.weight = weight;
        argument.mask |= uapi::SHARE_WEIGHT;
    }
    if let Some(limit) = wanted.limit {
        argument.limit_pct = limit;
        argument.mask |= uapi::SHARE_LIMIT;
    }
    if let Some(class) = wanted.class {
        argument.class = class.number();
        argument.mask |= uapi::SHARE_CLASS;
    }
    if let Some(target) = wanted.target {
        argument.target_pct = target;
        argument.mask |= uapi::SHARE_TARGET;
    }
    (argument.mask != 0).then_some(argument)
}

fn print(arguments: &cli::Set, subject: &Subject, out: &mut impl Sheet) -> Result<(), Failure> {
    let cli::Change {
        weight,
        limit,
        class,
        target,
    } = &arguments.change;
    let class = class.map(|class| names::class(class.number()));
    let access = arguments.access;
    let access = access.map(|access| names::access(access.number()));
    if arguments.json {
        let line = Line {
            version: JSON_VERSION,
            gpu: arguments.gpu,
            subject: names::subject(subject.kind),
            id: subject.id,
            name_hex: subject.name.hex(),
            name: Some(subject.name.clone()),
            weight: *weight,
            limit: *limit,
            class,
            target: *target,
            access,
            cleared: Some(arguments.clear),
            exhausted: None,
        };
        return Ok(print_json(out, &line)?);
    }
    let mut words = Vec::new();
    words.extend(arguments.clear.then(|| "cleared".to_string()));
    words.extend(weight.map(|weight| format!("weight {weight}")));
    words.extend(limit.map(|limit| format!("limit {limit} %")));
    words.extend(class.map(|class| format!("class {class}")));
    words.extend(target.map(|target| format!("target {target} %")));
    words.extend(access.map(|access| format!("access {access}")));
    let place = arguments
        .gpu
        .map_or("all GPUs".to_string(), |gpu| format!("GPU {gpu}"));
    Ok(writeln!(out, "{subject}: {} on {place}", words.join(", "))?)
}

fn list(
    arguments: &cli::Set,
    control: &Control<impl Calls>,
    directory: &Directory,
    out: &mut impl Sheet,
) -> Result<(), Failure> {
    let mut shares = Vec::new();
    for snapshot in control.chosen(arguments.gpu)? {
        shares.push((snapshot.gpu, control.shares(snapshot.gpu)?));
    }
    let subjects = shares.iter().flat_map(|(_, shares)| shares);
    let listed = Listed::of(directory, subjects.map(|one| (one.subject, one.id)));
    let mut rows = Vec::new();
    for (gpu, shares) in shares {
        for share in shares {
            let name = listed.name(share.subject, share.id);
            let given = |bit: u32, value: u32| (share.mask & bit != 0).then_some(value);
            let line = Line {
                version: JSON_VERSION,
                gpu: Some(gpu),
                subject: names::subject(share.subject),
                id: share.id,
                name_hex: name.as_ref().and_then(Name::hex),
                name,
                weight: given(uapi::SHARE_WEIGHT, share.weight),
                limit: given(uapi::SHARE_LIMIT, share.limit_pct),
                class: given(uapi::SHARE_CLASS, share.class).map(names::class),
                target: given(uapi::SHARE_TARGET, share.target_pct),
                access: given(uapi::SHARE_ACCESS, share.access).map(names::access),
                cleared: None,
                exhausted: Some(share.exhausted != 0),
            };
            if arguments.json {
                print_json(out, &line)?;
            } else {
                rows.push(row(line, listed.shown(share.subject, share.id)));
            }
        }
    }
    if !arguments.json {
        let titles = [
            "GPU",
            "FOR",
            "SUBJECT",
            "WEIGHT",
            "LIMIT",
            "CLASS",
            "TARGET",
            "ACCESS",
            "EXHAUSTED",
        ];
        let words = ["FOR", "SUBJECT", "CLASS", "ACCESS", "EXHAUSTED"];
        let dispensable = ["TARGET", "EXHAUSTED", "ACCESS", "CLASS", "GPU"];
        let grid = grid_within(&titles, &words, &dispensable, rows, out.columns());
        writeln!(out, "{}", grid.unwrap_or("nothing is set".to_string()))?;
    }
    Ok(())
}

fn row(line: Line, subject: String) -> Vec<String> {
    let number = |value: Option<u32>| value.map_or("-".to_string(), |value| value.to_string());
    let exhausted = line.exhausted == Some(true);
    vec![
        number(line.gpu),
        line.subject,
        subject,
        number(line.weight),
        line.limit
            .map_or("-".to_string(), |limit| format!("{limit} %")),
        line.class.unwrap_or("-".to_string()),
        line.target
            .map_or("-".to_string(), |target| format!("{target} %")),
        line.access.unwrap_or("-".to_string()),
        if exhausted { "yes" } else { "no" }.to_string(),
    ]
}

#[cfg(test)]
mod tests;
