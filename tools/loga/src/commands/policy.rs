// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga policy`: the policy, and the knobs.

use super::{print_json, Failure, JSON_VERSION};
use crate::cli::PolicyAction;
use crate::control::{Calls, Control, Snapshot};
use crate::table::fit::grid_or_turned;
use crate::terminal::Sheet;
use crate::{cli, names, table};
use loga::knobs::{Knob, KNOBS};
use loga::names::Kind;
use loga::{policies, uapi};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io;

/// One GPU's knobs; an object of `loga policy --json`.
#[derive(Serialize)]
struct Line {
    version: u32,
    gpu: u32,
    /// Those that can be set, by name.
    #[serde(flatten)]
    knobs: Map<String, Value>,
    /// The way of accounting in force.
    effective_accounting: String,
    /// What phases grow with now.
    effective_scale: String,
    /// Nothing if the caller may not know.
    settings: Option<u32>,
}

/// One policy; an object of `loga policy list --json`.
#[derive(Serialize)]
struct Listed {
    version: u32,
    policy: &'static str,
    gpus: Vec<u32>,
}

/// Shows, lists, switches or sets; what was changed is shown as it is then.
///
/// # Errors
///
/// Any [`Failure`].
pub fn run(
    arguments: &cli::Policy,
    control: &Control<impl Calls>,
    out: &mut impl Sheet,
) -> Result<(), Failure> {
    let wanted = match &arguments.action {
        None | Some(PolicyAction::Show) => None,
        Some(PolicyAction::List) => {
            let snapshots = control.chosen(arguments.gpu)?;
            return Ok(list(arguments.json, &snapshots, out)?);
        }
        Some(PolicyAction::Switch { name }) => Some(cli::Knobs::policy(name)),
        Some(PolicyAction::Set(knobs)) => Some(knobs.clone()),
    };
    if let Some(knobs) = wanted {
        let mut argument = uapi::Configure {
            gpu: arguments.gpu.unwrap_or(uapi::ALL_GPUS),
            ..Default::default()
        };
        for (name, value) in &knobs.given {
            let set = argument.set(name, value);
            set.map_err(|cause| Failure::Text(format!("{name}={value}: {cause}")))?;
        }
        control.configure(&argument)?;
    }
    Ok(show(arguments.json, &control.chosen(arguments.gpu)?, out)?)
}

/// The value of a knob as JSON has it.
fn value(knob: &Knob, number: u32) -> Value {
    match knob.kind {
        Kind::Switch => (number != 0).into(),
        Kind::Number { .. } => number.into(),
        Kind::Word(_) => knob.written(number).to_string().into(),
    }
}

/// The value of a knob in a table: that in force, where it follows from others.
fn cell(knob: &Knob, number: u32, effective: &[(&str, &String)]) -> String {
    let follows = effective.iter().find(|(name, _)| *name == knob.name);
    match follows {
        Some((_, effective)) if number == 0 => format!("{effective} (auto)"),
        _ => match knob.kind {
            Kind::Switch => cli::SWITCH[usize::from(number != 0)].to_owned(),
            _ => knob.written(number).to_string(),
        },
    }
}

fn show(json: bool, snapshots: &[Snapshot], out: &mut impl Sheet) -> io::Result<()> {
    let live = || KNOBS.iter().filter(|knob| knob.live);
    let mut rows = Vec::new();
    for Snapshot { gpu, info, .. } in snapshots {
        let config = info.config();
        let line = Line {
            version: JSON_VERSION,
            gpu: *gpu,
            knobs: live()
                .map(|knob| (knob.name.to_owned(), value(knob, (knob.get)(&config))))
                .collect(),
            effective_accounting: names::accounting(info.accounting),
            effective_scale: names::scale(info.scale),
            settings: (info.flags & uapi::GPU_WITHHELD == 0).then_some(info.settings),
        };
        if json {
            print_json(out, &line)?;
            continue;
        }
        let effective = [
            ("accounting", &line.effective_accounting),
            ("scale", &line.effective_scale),
        ];
        let mut row = vec![line.gpu.to_string()];
        row.extend(live().map(|knob| cell(knob, (knob.get)(&config), &effective)));
        row.push(
            line.settings
                .map_or_else(|| "-".to_string(), |count| count.to_string()),
        );
        rows.push(row);
    }
    if !json {
        let title = |name: &str| name.to_uppercase().replace('_', " ");
        let knobs: Vec<String> = live().map(|knob| title(knob.name)).collect();
        let knobs = knobs.iter().map(String::as_str);
        let titles: Vec<&str> = ["GPU"]
            .into_iter()
            .chain(knobs)
            .chain(["SETTINGS"])
            .collect();
        let words = live().zip(&titles[1..]);
        let left = words.filter(|(knob, _)| !matches!(knob.kind, Kind::Number { .. }));
        let left: Vec<&str> = left.map(|(_, title)| *title).collect();
        writeln!(
            out,
            "{}",
            grid_or_turned(&titles, &left, rows, out.columns()).unwrap_or_default()
        )?;
        for Snapshot { gpu, info, .. } in snapshots {
            if let Some(caution) = info.config().caution() {
                writeln!(out, "GPU {gpu}: {caution}")?;
            }
        }
    }
    Ok(())
}

fn list(json: bool, snapshots: &[Snapshot], out: &mut impl Sheet) -> io::Result<()> {
    let mut rows = Vec::new();
    for name in policies::NAMES.iter().copied() {
        let here = |snapshot: &&Snapshot| snapshot.info.config().policy.name() == name;
        let line = Listed {
            version: JSON_VERSION,
            policy: name,
            gpus: snapshots.iter().filter(here).map(|one| one.gpu).collect(),
        };
        if json {
            print_json(out, &line)?;
            continue;
        }
        let gpus: Vec<String> = line.gpus.iter().map(u32::to_string).collect();
        rows.push(vec![name.to_string(), gpus.join(" ")]);
    }
    if !json {
        let titles = ["POLICY", "DECIDES ON GPU"];
        writeln!(
            out,
            "{}",
            table::grid(&titles, &titles, rows).unwrap_or_default()
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeKernel;
    use crate::terminal::tests::Narrow;

    fn policy(fake: &FakeKernel, line: &str) -> Result<String, String> {
        let line = format!("loga policy {line}");
        let words = line.split_whitespace();
        let arguments = <cli::Arguments as clap::Parser>::parse_from(words);
        let cli::Command::Policy(arguments) = arguments.command else {
            panic!("not policy: {line}");
        };
        let mut out = Vec::new();
        match run(&arguments, &Control::over(fake), &mut out) {
            Ok(()) => Ok(String::from_utf8(out).expect("text")),
            Err(failure) => Err(failure.to_string()),
        }
    }

    #[test]
    fn switch_reaches_the_gpu_and_shows_it() {
        let fake = FakeKernel::new(2);
        let shown = policy(&fake, "switch none --gpu 1").expect("switched");
        assert!(
            shown.lines().nth(1).expect("a row").contains("none"),
            "{shown}"
        );
        let all = policy(&fake, "--json").expect("shown");
        let lines: Vec<serde_json::Value> = all
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(lines[0]["policy"], "event");
        assert_eq!(lines[1]["policy"], "none");
        let wanted = fake.configured.get().expect("configured");
        assert_eq!(wanted.gpu, 1);
        assert_eq!(requested(&wanted), ["policy=none"]);
    }

    /// The knobs that were given, in the words of a user.
    fn requested(wanted: &uapi::Configure) -> Vec<String> {
        let values = KNOBS.iter().zip(wanted.values).enumerate();
        let given = values.filter(|(at, _)| wanted.mask & (1 << at) != 0);
        given
            .map(|(_, (knob, value))| format!("{}={}", knob.name, knob.written(value)))
            .collect()
    }

    #[test]
    fn knobs_given_are_set_and_no_others() {
        let fake = FakeKernel::new(1);
        let line = "set --poll-ms 3 --enforce on --group-by cgroup --scale active";
        policy(&fake, line).expect("set");
        let wanted = fake.configured.get().expect("configured");
        assert_eq!(wanted.gpu, uapi::ALL_GPUS);
        assert_eq!(
            requested(&wanted),
            ["enforce=1", "poll_ms=3", "group_by=cgroup", "scale=active"]
        );
    }

    #[test]
    fn bursts_with_a_dispatcher_are_set_with_a_caution() {
        let fake = FakeKernel::new(2);
        let bursts = policy(&fake, "set --accounting burst").expect("set");
        assert!(!bursts.contains("with dispatch"), "{bursts}");
        {
            let info = &mut fake.gpus.borrow_mut()[1].info;
            let mut config = info.config();
            config.accounting = Some(loga::account::Accounting::Burst);
            config.dispatch = Some(loga::policies::dispatch::DispatcherKind::Prio);
            info.note(&config);
        }
        let both = policy(&fake, "set --enforce on --gpu 1").expect("set");
        let said = both.lines().last().expect("a line");
        assert!(
            said.starts_with("GPU 1: with dispatch, accounting in bursts may"),
            "{both}"
        );
    }

    #[test]
    fn every_live_knob_is_an_option_of_the_same_name() {
        for knob in KNOBS.iter().filter(|knob| knob.live) {
            let fake = FakeKernel::new(1);
            let option = knob.name.replace('_', "-");
            policy(&fake, &format!("set --{option} {}", knob.default)).expect("set");
            let wanted = fake.configured.get().expect("configured");
            assert_eq!(
                requested(&wanted),
                [format!("{}={}", knob.name, knob.default)]
            );
        }
    }

    #[test]
    fn value_that_is_none_is_refused_with_those_there_are() {
        let refused = |line: &str| {
            let words = format!("loga policy set {line}");
            let words = words.split_whitespace();
            let parsed = <cli::Arguments as clap::Parser>::try_parse_from(words);
            parsed.expect_err("refused").to_string()
        };
        let said = refused("--ratio 1001");
        assert!(
            said.contains("ratio=1001 is out of range, want 1 to 1000"),
            "{said}"
        );
        let said = refused("--scale clients");
        assert!(said.contains("auto, active, channels"), "{said}");
        assert!(refused("").contains("--poll-ms"));
    }

    #[test]
    fn knobs_fit_a_narrow_terminal_one_below_the_other() {
        let fake = FakeKernel::new(2);
        let mut out = Narrow {
            columns: 80,
            ..Default::default()
        };
        let words = ["loga", "policy"];
        let arguments = <cli::Arguments as clap::Parser>::parse_from(words);
        let cli::Command::Policy(arguments) = arguments.command else {
            panic!("not policy");
        };
        run(&arguments, &Control::over(&fake), &mut out).expect("shown");
        let text = String::from_utf8(out.text).expect("text");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        let is_there = |line: &str| line.split_whitespace().eq(["POLICY", "event", "event"]);
        assert!(text.lines().any(is_there), "{text}");
    }

    #[test]
    fn list_names_every_policy_and_where_it_decides() {
        let fake = FakeKernel::new(2);
        let listed = policy(&fake, "list").expect("listed");
        for name in policies::NAMES {
            assert!(listed.contains(name), "{listed}");
        }
        let decides = |line: &str| line.split_whitespace().eq(["event", "0", "1"]);
        assert!(listed.lines().any(decides), "{listed}");
    }

    #[test]
    fn unprivileged_caller_may_read_but_not_change() {
        let fake = FakeKernel::new(1);
        fake.drop_privileges();
        policy(&fake, "show").expect("shown");
        let said = policy(&fake, "switch none").expect_err("not root");
        assert!(
            said.starts_with("changing policies and knobs is for root"),
            "{said}"
        );
    }
}
