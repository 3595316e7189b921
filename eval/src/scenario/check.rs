// SPDX-License-Identifier: GPL-2.0

//! From the file as it is written to a scenario that makes sense.

use super::engaged;
use super::file::{self, Between, File};
use super::kind::Kind;
use super::phase::{phase, REPEAT_MAX};
use super::plain::{Client, Error, Footprint, Gpu, Phase, Scenario, TIMESLICE};
use super::profile::Profile;
use super::promise::Shared;
use super::text::Text;
use loga::ids::MAX_CHANNELS;
use loga::share::{Class, Target};
use loga::units::{Ns, Weight};
use std::path::Path;
use toml::Spanned;

/// Most seeds.
pub(super) const SEEDS_MAX: u64 = 10_000;
/// Most GPUs.
pub(super) const GPUS_MAX: usize = 64;

/// Reads a scenario from the text of the file `name`.
pub(super) fn parse(name: &str, text: &str) -> Result<Scenario, Error> {
    let source = Text { name, text };
    let file: File = source.read()?;
    let reserves = engaged::shared(&source, &file)?;
    let clients = clients(&source, &file, &reserves)?;
    let until = match &file.until {
        Some(name) => Some(until(&source, name, &clients)?),
        None => None,
    };
    let kind = file.policy.kind;
    if file.gpus.get_ref().iter().any(|gpu| gpu.packed) && !kind.is_baseline() {
        return Err(source.error(file.gpus.span(), kind.on_packed()));
    }
    if file.policy.dispatch.is_some() && !matches!(kind, Kind::Loga(_)) {
        let reason = format!(
            "dispatch beside policy {}, want a policy of LoGA, or that dispatcher as the name",
            kind.name()
        );
        return Err(source.error(0..0, reason));
    }
    let is_coarse = matches!(kind, Kind::Loga(_)) && file.policy.dispatch.is_none();
    let shares = file
        .clients
        .get_ref()
        .iter()
        .find_map(|client| client.shares.as_ref());
    if let Some(shares) = shares.filter(|_| is_coarse) {
        let reason = "shares without dispatch, want a reserve of the client's own";
        return Err(source.error(shares.span(), reason));
    }
    if file.length_ms.0.is_zero() {
        return Err(source.error(0..0, "length_ms = 0: want more than 0"));
    }
    Ok(Scenario {
        length: file.length_ms.0,
        seeds: source.number("seeds", &file.seeds, 1, SEEDS_MAX)?,
        until,
        policy: file.policy,
        costs: file.costs,
        gpus: file
            .gpus
            .get_ref()
            .iter()
            .map(|gpu| Gpu {
                switch: gpu.switch_us.unwrap_or(file.costs.switch).0,
                timeslice: gpu.timeslice_us.map_or(TIMESLICE, |time| time.0),
                packed: gpu.packed,
            })
            .collect(),
        cpus: cpus(&source, &file)?,
        reserves,
        clients,
    })
}

/// The slices of the processors.
fn cpus(source: &Text, file: &File) -> Result<Vec<Ns>, Error> {
    let written = file.cpus.get_ref();
    if written.iter().any(|cpu| cpu.slice_us.0.is_zero()) {
        let reason = "slice_us = 0, want more than 0";
        return Err(source.error(file.cpus.span(), reason));
    }
    Ok(written.iter().map(|cpu| cpu.slice_us.0).collect())
}

/// The client that is named as the one to wait for.
fn until(source: &Text, name: &Spanned<String>, clients: &[Client]) -> Result<usize, Error> {
    let wanted = name.get_ref();
    let Some(at) = clients.iter().position(|client| client.name == *wanted) else {
        let names: Vec<_> = clients.iter().map(|client| client.name.as_str()).collect();
        let reason = format!("no client {wanted:?}, want one of {}", names.join(", "));
        return Err(source.error(name.span(), reason));
    };
    if clients[at].repeat.is_none() && clients[at].leave.is_none() {
        let reason = format!("client {wanted:?} never ends: it wants repeat or leave_ms");
        return Err(source.error(name.span(), reason));
    }
    Ok(at)
}

/// All clients, each as often as it is wanted.
fn clients(source: &Text, file: &File, reserves: &[Shared]) -> Result<Vec<Client>, Error> {
    let written = file.clients.get_ref();
    if written.is_empty() {
        let reason = "no clients, want at least one [[client]]";
        return Err(source.error(file.clients.span(), reason));
    }
    let gpus = file.gpus.get_ref().len();
    if gpus == 0 || gpus > GPUS_MAX {
        let reason = format!("{gpus} GPUs, want 1 to {GPUS_MAX}");
        return Err(source.error(file.gpus.span(), reason));
    }
    let mut clients: Vec<Client> = Vec::new();
    for one in written {
        let model = client(source, file, one, reserves)?;
        let count = source.number("count", &one.count, 1, MAX_CHANNELS as u64)?;
        for number in 0..count {
            let mut client = model.clone();
            if count > 1 {
                client.name = format!("{}-{number}", model.name);
            }
            if clients.iter().any(|other| other.name == client.name) {
                let reason = format!("a second client {:?}, want another name", client.name);
                return Err(source.error(one.name.span(), reason));
            }
            clients.push(client);
        }
        // CAST: a GPU has 4096 channels.
        let used: u64 = clients
            .iter()
            .filter(|client| client.gpu == model.gpu)
            .map(|client| u64::from(client.channels))
            .sum();
        if used > MAX_CHANNELS as u64 {
            let reason = format!(
                "the clients of GPU {} allocate {used} channels, want at most {MAX_CHANNELS}",
                model.gpu
            );
            return Err(source.error(one.name.span(), reason));
        }
    }
    groups(source, file, &clients)?;
    engaged::modes(source, file, &clients, reserves)?;
    for one in &clients {
        let shares = |other: &&Client| one.cpu.is_some() && other.cpu == one.cpu;
        let apart = |other: &&Client| other.gpu != one.gpu;
        if let Some(other) = clients.iter().filter(shares).find(apart) {
            let reason = format!(
                "clients {:?} and {:?} share a processor and have two GPUs, want one GPU: \
                 each GPU is simulated by itself",
                one.name, other.name
            );
            return Err(source.error(file.clients.span(), reason));
        }
    }
    Ok(clients)
}

/// Checks that the clients of a group agree on its weight: of a user, unless groups are cgroups.
fn groups(source: &Text, file: &File, clients: &[Client]) -> Result<(), Error> {
    let by = match file.policy.by {
        Between::Cgroup => Between::Cgroup,
        Between::Client | Between::User => Between::User,
    };
    for one in clients {
        let group = one.group(by);
        let same = |other: &&Client| group.is_some() && other.group(by) == group;
        let parts = |one: &Client| (one.weight, one.target_pct);
        let mut others = clients.iter().filter(same);
        if let Some(other) = others.find(|other| parts(other) != parts(one)) {
            let (what, own, its) = match one.weight == other.weight {
                false => ("weights", one.weight.get(), other.weight.get()),
                true => {
                    let target = |one: &Client| one.target_pct.unwrap_or(0);
                    ("target_pct", target(one), target(other))
                }
            };
            let reason = format!(
                "clients {:?} and {:?} of one group have {what} {own} and {its}, want the same: \
                 it is that of the group",
                one.name, other.name
            );
            return Err(source.error(file.clients.span(), reason));
        }
    }
    Ok(())
}

/// The processor of a client.
fn cpu(source: &Text, one: &file::Client, cpus: usize) -> Result<Option<usize>, Error> {
    let Some(cpu) = &one.cpu else {
        return Ok(None);
    };
    if cpus == 0 {
        let reason = "cpu without any [[cpu]], want one with slice_us";
        return Err(source.error(cpu.span(), reason));
    }
    // CAST: (both) as many as a file has.
    let number = source.number("cpu", cpu, 0, cpus as u64 - 1)?;
    Ok(Some(number as usize))
}

fn client(
    source: &Text,
    file: &File,
    one: &file::Client,
    reserves: &[Shared],
) -> Result<Client, Error> {
    let name = one.name.get_ref().clone();
    let phases = phases(source, &one.name, &one.profile, &one.phases)?;
    let weight = |key: &str, written: &Option<Spanned<u64>>| match written {
        None => Ok(Weight::DEFAULT),
        Some(weight) => {
            let (min, max) = (Weight::MIN.into(), Weight::MAX.into());
            let number = source.number(key, weight, min, max)?;
            // CAST: checked to be in range.
            Ok(Weight::new(number as u32).unwrap_or_default())
        }
    };
    let limit_pct = match &one.limit_pct {
        // CAST: checked to be in range.
        Some(limit) => Some(source.number("limit_pct", limit, 1, 100)? as u32),
        None => None,
    };
    let target_pct = match &one.target_pct {
        // CAST: checked to be in range.
        Some(target) => Some(source.number("target_pct", target, 1, Target::MAX.into())? as u32),
        None => None,
    };
    let leave = match &one.leave_ms {
        Some(leave) if leave.get_ref().0 <= one.arrive_ms.0 => {
            let reason = "leave_ms is not after arrive_ms, want a later time";
            return Err(source.error(leave.span(), reason));
        }
        leave => leave.as_ref().map(|leave| leave.get_ref().0),
    };
    let away = match &one.away_ms {
        Some(away) if away.get_ref().0 .0 >= away.get_ref().1 .0 => {
            let reason = "away_ms ends before it begins, want [from, to]";
            return Err(source.error(away.span(), reason));
        }
        away => away
            .as_ref()
            .map(|away| (away.get_ref().0 .0, away.get_ref().1 .0)),
    };
    let repeat = match &one.repeat {
        Some(repeat) => Some(source.number("repeat", repeat, 1, REPEAT_MAX)?),
        None => None,
    };
    // One for kernels, one for copies.
    let least = if phases.iter().any(|phase| phase.copy.is_some()) {
        2
    } else {
        1
    };
    let channels = source.number("channels", &one.channels, least, MAX_CHANNELS as u64)?;
    let client = Client {
        name,
        // CAST: at most GPUS_MAX and MAX_CHANNELS.
        gpu: source.number("gpu", &one.gpu, 0, file.gpus.get_ref().len() as u64 - 1)? as usize,
        cpu: cpu(source, one, file.cpus.get_ref().len())?,
        cpu_weight: weight("cpu_weight", &one.cpu_weight)?,
        arrive: one.arrive_ms.0,
        leave,
        away,
        channels: channels as u16,
        weight: weight("weight", &one.weight)?,
        user: one.user.clone(),
        cgroup: one.cgroup.clone(),
        limit_pct,
        target_pct,
        class: match one.class {
            file::Class::Normal => Class::Normal,
            file::Class::Idle => Class::Idle,
        },
        repeat,
        cycle: one
            .cycle_us
            .map(|cycle| cycle.0)
            .filter(|cycle| !cycle.is_zero()),
        deadline: one.deadline_us.map(|deadline| deadline.0),
        engaged: engaged::engagement(source, one, reserves)?,
        wait: one.wait,
        footprint: footprint(source, &one.fill_pct, &one.bandwidth_pct)?,
        phases,
    };
    let takes_time = |phase: &Phase| {
        let spans = [Some(phase.cpu), phase.copy, phase.kernel];
        spans.iter().flatten().any(|span| span.mean() > 0.0)
    };
    if client.cycle.is_none() && !client.phases.iter().any(takes_time) {
        let reason = format!("client {:?} takes no time at all", client.name);
        return Err(source.error(one.name.span(), reason));
    }
    Ok(client)
}

/// What the kernels of a client use of a GPU.
pub(super) fn footprint(
    source: &Text,
    fill: &Option<Spanned<u64>>,
    bandwidth: &Option<Spanned<u64>>,
) -> Result<Footprint, Error> {
    let part = |key: &str, written: &Option<Spanned<u64>>, least: u64, otherwise: f64| {
        let Some(written) = written else {
            return Ok(otherwise);
        };
        // CAST: at most 100.
        Ok(source.number(key, written, least, 100)? as f64 / 100.0)
    };
    let whole = Footprint::default();
    Ok(Footprint {
        fill: part("fill_pct", fill, 1, whole.fill)?,
        bandwidth: part("bandwidth_pct", bandwidth, 0, whole.bandwidth)?,
    })
}

/// What a client does: as it is written, or as its profile says.
pub(super) fn phases(
    source: &Text,
    client: &Spanned<String>,
    profile: &Option<Spanned<String>>,
    written: &Spanned<Vec<Spanned<file::Phase>>>,
) -> Result<Vec<Phase>, Error> {
    let (name, written) = (client.get_ref(), written.get_ref());
    let Some(profile) = profile else {
        if written.is_empty() {
            let reason = format!(
                "client {name:?} has no phases, want a profile, or at least one [[client.phase]] \
                 with cpu_us, copy_us or kernel_us"
            );
            return Err(source.error(client.span(), reason));
        }
        return written.iter().map(|one| phase(source, one)).collect();
    };
    if !written.is_empty() {
        let reason = format!("client {name:?} has a profile and phases, want one of them");
        return Err(source.error(profile.span(), reason));
    }
    // The name may go on with the changes to the file.
    let file = source.name.split(" with --set ").next().unwrap_or_default();
    let folder = Path::new(file).parent();
    let found = Profile::find(profile.get_ref(), folder.unwrap_or(Path::new("")));
    found.map(|profile| profile.phases).map_err(|error| {
        if error.place.is_empty() {
            source.error(profile.span(), error.reason)
        } else {
            error
        }
    })
}
