// SPDX-License-Identifier: GPL-2.0

//! [tool] `loga policy`: who decides, and the knobs.

use super::print_json;
use super::Failure;
use super::JSON_VERSION;
use crate::cli;
use crate::cli::PolicyAction;
use crate::control::Calls;
use crate::control::Control;
use crate::control::Snapshot;
use crate::names;
use crate::table;
use loga::policies;
use loga::uapi;
use serde::Serialize;
use std::io;
use std::io::Write;

/// One GPU's policy and knobs; an object of `loga policy --json`.
#[derive(Serialize)]
struct Line {
    version: u32,
    gpu: u32,
    policy: String,
    enforce: bool,
    poll_ms: u32,
    ratio: u32,
    randomize: bool,
    group_by: String,
    cgroup_depth: u32,
    accounting: String,
    scale: String,
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
    out: &mut impl Write,
) -> Result<(), Failure> {
    let wanted = match &arguments.action {
        None | Some(PolicyAction::Show) => None,
        Some(PolicyAction::List) => {
            let snapshots = control.chosen(arguments.gpu)?;
            return Ok(list(arguments.json, &snapshots, out)?);
        }
        Some(PolicyAction::Switch { name }) => Some(cli::Knobs {
            policy: Some(name.clone()),
            ..Default::default()
        }),
        Some(PolicyAction::Set(knobs)) => Some(knobs.clone()),
    };
    if let Some(knobs) = wanted {
        let mut argument = argument(&knobs)?;
        argument.gpu = arguments.gpu.unwrap_or(uapi::ALL_GPUS);
        control.configure(&argument)?;
    }
    Ok(show(arguments.json, &control.chosen(arguments.gpu)?, out)?)
}

fn argument(knobs: &cli::Knobs) -> Result<uapi::Configure, Failure> {
    let mut argument = uapi::Configure::default();
    if let Some(name) = &knobs.policy {
        let bytes = name.as_bytes();
        // The last byte is the terminating zero.
        let room = argument.policy.len() - 1;
        let place = argument.policy.get_mut(..bytes.len().min(room));
        match place {
            Some(place) if place.len() == bytes.len() => place.copy_from_slice(bytes),
            _ => {
                let line = format!(
                    "policy '{name}': want one of {}",
                    policies::NAMES.join(", ")
                );
                return Err(Failure::Said(line));
            }
        }
        argument.mask |= uapi::KNOB_POLICY;
    }
    let words: [(&Option<String>, &[&str], u32, &mut u32); 5] = [
        (
            &knobs.enforce,
            &cli::SWITCH,
            uapi::KNOB_ENFORCE,
            &mut argument.enforce,
        ),
        (
            &knobs.randomize,
            &cli::SWITCH,
            uapi::KNOB_RANDOMIZE,
            &mut argument.randomize,
        ),
        (
            &knobs.group_by,
            &names::GROUP_BY,
            uapi::KNOB_GROUP_BY,
            &mut argument.group_by,
        ),
        (
            &knobs.accounting,
            &names::ACCOUNTING,
            uapi::KNOB_ACCOUNTING,
            &mut argument.accounting,
        ),
        (
            &knobs.scale,
            &names::SCALES,
            uapi::KNOB_SCALE,
            &mut argument.scale,
        ),
    ];
    for (word, known, knob, field) in words {
        let number = word.as_ref().and_then(|word| names::number(known, word));
        if let Some(number) = number {
            *field = number;
            argument.mask |= knob;
        }
    }
    if let Some(poll_ms) = knobs.poll_ms {
        argument.poll_ms = poll_ms;
        argument.mask |= uapi::KNOB_POLL_MS;
    }
    if let Some(depth) = knobs.cgroup_depth {
        argument.cgroup_depth = depth;
        argument.mask |= uapi::KNOB_CGROUP_DEPTH;
    }
    if let Some(ratio) = knobs.ratio {
        argument.ratio = ratio;
        argument.mask |= uapi::KNOB_RATIO;
    }
    Ok(argument)
}

fn show(json: bool, snapshots: &[Snapshot], out: &mut impl Write) -> io::Result<()> {
    let mut rows = Vec::new();
    for Snapshot { gpu, info, .. } in snapshots {
        let line = Line {
            version: JSON_VERSION,
            gpu: *gpu,
            policy: names::text(&info.policy),
            enforce: info.flags & uapi::GPU_ENFORCING != 0,
            poll_ms: info.poll_ms,
            ratio: info.ratio,
            randomize: info.flags & uapi::GPU_RANDOMIZING != 0,
            group_by: names::group_by(info.group_by),
            cgroup_depth: info.cgroup_depth,
            accounting: names::accounting(info.accounting),
            scale: names::scale(info.scale),
            settings: (info.flags & uapi::GPU_WITHHELD == 0).then_some(info.settings),
        };
        if json {
            print_json(out, &line)?;
            continue;
        }
        rows.push(vec![
            line.gpu.to_string(),
            line.policy,
            cli::SWITCH[usize::from(line.enforce)].to_string(),
            line.poll_ms.to_string(),
            line.ratio.to_string(),
            cli::SWITCH[usize::from(line.randomize)].to_string(),
            match line.cgroup_depth {
                0 => line.group_by,
                depth => format!("{}, cgroup_depth {depth}", line.group_by),
            },
            line.accounting,
            line.scale,
            line.settings
                .map_or_else(|| "-".to_string(), |count| count.to_string()),
        ]);
    }
    if !json {
        let titles = [
            "GPU",
            "POLICY",
            "ENFORCE",
            "POLL ms",
            "RATIO",
            "RANDOM",
            "GROUP BY",
            "ACCOUNTING",
            "SCALE",
            "SETTINGS",
        ];
        let left = [
            "POLICY",
            "ENFORCE",
            "RANDOM",
            "GROUP BY",
            "ACCOUNTING",
            "SCALE",
        ];
        writeln!(
            out,
            "{}",
            table::grid(&titles, &left, rows).unwrap_or_default()
        )?;
    }
    Ok(())
}

fn list(json: bool, snapshots: &[Snapshot], out: &mut impl Write) -> io::Result<()> {
    let mut rows = Vec::new();
    for name in policies::NAMES.iter().copied() {
        let here = |snapshot: &&Snapshot| names::text(&snapshot.info.policy) == name;
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
        assert_eq!((wanted.gpu, wanted.mask), (1, uapi::KNOB_POLICY));
    }

    #[test]
    fn knobs_given_are_set_and_no_others() {
        let fake = FakeKernel::new(1);
        let line = "set --poll-ms 3 --enforce on --group-by cgroup --scale active";
        policy(&fake, line).expect("set");
        let wanted = fake.configured.get().expect("configured");
        let mask = uapi::KNOB_POLL_MS | uapi::KNOB_ENFORCE | uapi::KNOB_GROUP_BY | uapi::KNOB_SCALE;
        assert_eq!((wanted.gpu, wanted.mask), (uapi::ALL_GPUS, mask));
        assert_eq!((wanted.poll_ms, wanted.enforce), (3, 1));
        assert_eq!(wanted.group_by, uapi::GROUP_BY_CGROUP);
        assert_eq!(wanted.scale, uapi::SCALE_ACTIVE);
    }

    #[test]
    fn every_knob_has_its_own_bit_and_field() {
        let fake = FakeKernel::new(1);
        let line = "set --policy none --ratio 7 --randomize on --accounting sparse --enforce off \
            --cgroup-depth 2";
        policy(&fake, line).expect("set");
        let wanted = fake.configured.get().expect("configured");
        assert_eq!(&wanted.policy[..5], b"none\0");
        assert_eq!((wanted.ratio, wanted.randomize, wanted.enforce), (7, 1, 0));
        assert_eq!(wanted.accounting, uapi::ACCOUNTING_SPARSE);
        let mask = uapi::KNOB_POLICY
            | uapi::KNOB_RATIO
            | uapi::KNOB_RANDOMIZE
            | uapi::KNOB_ACCOUNTING
            | uapi::KNOB_CGROUP_DEPTH
            | uapi::KNOB_ENFORCE;
        assert_eq!(wanted.cgroup_depth, 2);
        assert_eq!(wanted.mask, mask);
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
    fn unprivileged_caller_may_look_but_not_change() {
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
