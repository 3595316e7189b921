// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The caller: rights, devices, cgroups, terminal.

use super::here::{Here, NO_USE};
use super::machine::Machine;
use super::Finding;
use crate::terminal::Terminal;

/// Bit of CAP_SYS_ADMIN, of CAP_PERFMON.
const SYS_ADMIN: u32 = 21;
const PERFMON: u32 = 38;

/// Effective capabilities.
fn capabilities(machine: &Machine) -> Option<u64> {
    let status = machine.text("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Whether the caller is in the user namespace of the host: all ids are their own.
fn is_in_host_users(machine: &Machine) -> bool {
    let map = machine.text("/proc/self/uid_map").unwrap_or_default();
    let words: Vec<&str> = map.split_whitespace().collect();
    words == ["0", "0", "4294967295"]
}

pub(super) fn rights(machine: &Machine) -> Vec<Finding> {
    let Some(capabilities) = capabilities(machine) else {
        return Vec::new();
    };
    let has = |bit: u32| capabilities >> bit & 1 != 0;
    let host = is_in_host_users(machine);
    vec![match (host, has(SYS_ADMIN), has(PERFMON)) {
        (true, true, _) => Finding::fine("rights", "may read and change everything"),
        (true, false, true) => Finding::note(
            "rights",
            "may read everything and lower its own processes",
            "sudo for all changes",
        ),
        (true, false, false) => Finding::note(
            "rights",
            "sees its own processes only, and may lower them",
            "sudo to see and change all",
        ),
        (false, _, _) => Finding::note(
            "rights",
            "in a user namespace, as in a rootless container: root here is an ordinary user for LoGA",
            "run it on the host to see and change all",
        ),
    }]
}

/// Variables that hide GPUs from programs of the caller. Sources: CUDA C Programming Guide, "CUDA
/// Environment Variables"; NVIDIA Container Toolkit, "Specialized Configurations".
const HIDING: [&str; 2] = ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"];

pub(super) fn nodes(here: &Here<'_>) -> Vec<Finding> {
    let machine = here.machine;
    let is_gpu = |name: &String| {
        let number = name.strip_prefix("nvidia");
        number.is_some_and(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
    };
    let gpus: Vec<String> = machine.names("/dev").into_iter().filter(is_gpu).collect();
    let driven = here.gpus.iter().filter(|gpu| gpu.is_driven()).count();
    let mut found = Vec::new();
    if gpus.is_empty() {
        found.push(Finding::note(
            "devices",
            "there is no /dev/nvidia0 here: programs of this caller reach no GPU",
            match here.follows_nothing() {
                true => NO_USE,
                false => "nvidia-modprobe -c 0; in a container, --gpus or --device",
            },
        ));
    } else {
        let names = format!("/dev/{}", gpus.join(", /dev/"));
        found.push(if gpus.len() < driven {
            Finding::note(
                "devices",
                format!("the driver has {driven} GPUs, and there is only {names} here"),
                "nvidia-modprobe -c N for each; in a container, --gpus all or --device",
            )
        } else {
            Finding::fine("devices", names)
        });
        if !machine.opens("/dev/nvidiactl") {
            found.push(Finding::wrong(
                "devices",
                "/dev/nvidiactl cannot be opened by this caller",
                "chmod 0666 /dev/nvidiactl, or the group that owns it",
            ));
        }
    }
    for name in HIDING {
        if machine.variable(name).is_some() {
            found.push(Finding::note(
                "devices",
                format!(
                    "{name} is set: it may hide GPUs from programs of this caller, not from LoGA"
                ),
                format!("unset {name}"),
            ));
        }
    }
    found
}

pub(super) fn cgroups(machine: &Machine) -> Vec<Finding> {
    let Some(mounts) = machine.text("/proc/self/mounts") else {
        return Vec::new();
    };
    let is_v2 = |line: &&str| line.split_whitespace().nth(2) == Some("cgroup2");
    let at = mounts.lines().find(is_v2);
    vec![match at.and_then(|line| line.split_whitespace().nth(1)) {
        Some(at) => Finding::fine("cgroups", format!("version 2 at {at}")),
        None => Finding::note(
            "cgroups",
            "no cgroup v2 hierarchy is mounted: shares can be set for processes and users only",
            "mount -t cgroup2 none /sys/fs/cgroup",
        ),
    }]
}

pub(super) fn terminal(machine: &Machine) -> Vec<Finding> {
    if !machine.terminal {
        return Vec::new();
    }
    let terminal = Terminal::in_environment(|name| machine.variable(name).map(str::to_string));
    let kind = machine.variable("TERM").unwrap_or("unknown");
    vec![
        match (terminal.addressable, terminal.capabilities.unicode) {
            (false, _) => Finding::note(
                "terminal",
                "it cannot move the cursor (TERM is dumb or not set)",
                "loga stat --watch 1 instead of loga top",
            ),
            (true, true) => Finding::fine("terminal", format!("{kind}, UTF-8")),
            (true, false) => Finding::note(
                "terminal",
                format!("{kind}, without UTF-8: bars are of ASCII"),
                "export LC_ALL=C.UTF-8",
            ),
        },
    ]
}
