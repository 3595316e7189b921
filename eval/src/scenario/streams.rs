// SPDX-License-Identifier: GPL-2.0

//! Scenarios of programs that arrive in streams and are placed on GPUs of several nodes.

use super::check::{footprint, phases, GPUS_MAX, SEEDS_MAX};
use super::file::{no_phases, one, Phase, Policy};
use super::kind::Kind;
use super::phase::REPEAT_MAX;
use super::plain::{Client, Error};
use super::text::Text;
use super::time::{Millis, Span};
use crate::arrivals::{Chooser, Incoming, PoolGpu, Rule};
use loga::ids::MAX_CHANNELS;
use loga::placement::PPM;
use loga::units::{Ns, Weight};
use serde::Deserialize;
use std::path::Path;
use toml::Spanned;

/// Channels of a program: for kernels and for copies.
const CHANNELS: u16 = 2;
/// Programs of all streams: each GPU has channels for all.
const PROGRAMS_MAX: u64 = MAX_CHANNELS as u64 / CHANNELS as u64;

/// A scenario that makes sense.
#[derive(Clone, Debug)]
pub struct Streams {
    /// Seeds to run with: 1 and following.
    pub seeds: u64,
    /// The scheduler on each GPU.
    pub policy: Policy,
    /// How programs are placed.
    pub rule: Rule,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// The GPUs.
    pub places: Vec<PoolGpu>,
    /// The programs.
    pub streams: Vec<Incoming>,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default = "one")]
    seeds: Spanned<u64>,
    policy: Option<Policy>,
    place: Placing,
    #[serde(rename = "node")]
    nodes: Spanned<Vec<Node>>,
    #[serde(rename = "gpu")]
    gpus: Spanned<Vec<Gpu>>,
    #[serde(rename = "stream")]
    streams: Spanned<Vec<Stream>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Placing {
    policy: Spanned<String>,
    signal_ms: Option<Spanned<Millis>>,
    settles_ms: Option<Millis>,
    window_ms: Option<Spanned<Millis>>,
    claims: Option<bool>,
    history: Option<bool>,
    #[serde(default)]
    within: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    name: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Gpu {
    node: Spanned<String>,
    speed_pct: Option<Spanned<u64>>,
    #[serde(default)]
    packed: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stream {
    name: Spanned<String>,
    node: Spanned<String>,
    gap_us: Span,
    count: Spanned<u64>,
    repeat: Option<Spanned<u64>>,
    weight: Option<Spanned<u64>>,
    user: Option<String>,
    #[serde(default)]
    known: bool,
    fill_pct: Option<Spanned<u64>>,
    bandwidth_pct: Option<Spanned<u64>>,
    profile: Option<Spanned<String>>,
    #[serde(default = "no_phases", rename = "phase")]
    phases: Spanned<Vec<Spanned<Phase>>>,
}

/// Reads a scenario of streams from a file.
///
/// # Errors
///
/// The file cannot be read or makes no sense: where, and what would.
pub fn read_streams(path: &Path) -> Result<Streams, Error> {
    let name = &path.display().to_string();
    let text = &std::fs::read_to_string(path).map_err(|error| Error {
        place: name.clone(),
        reason: error.to_string(),
    })?;
    let source = Text { name, text };
    let file: File = source.read()?;
    let nodes = nodes(&source, &file)?;
    let policy = file.policy.unwrap_or(Policy::paper(Kind::Hardware));
    let places = places(&source, &file, &nodes)?;
    if places.iter().any(|place| place.packed) && !policy.kind.is_baseline() {
        return Err(source.error(file.gpus.span(), policy.kind.on_packed()));
    }
    Ok(Streams {
        seeds: source.number("seeds", &file.seeds, 1, SEEDS_MAX)?,
        policy,
        rule: rule(&source, &file.place)?,
        places,
        streams: streams(&source, &file, &nodes)?,
        nodes,
    })
}

fn nodes(source: &Text, file: &File) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> = Vec::new();
    for Node { name } in file.nodes.get_ref() {
        if names.contains(name.get_ref()) {
            let reason = format!("a second node {:?}, want another name", name.get_ref());
            return Err(source.error(name.span(), reason));
        }
        names.push(name.get_ref().clone());
    }
    Ok(names)
}

/// The number of a node.
fn node(source: &Text, name: &Spanned<String>, nodes: &[String]) -> Result<usize, Error> {
    let found = nodes.iter().position(|node| node == name.get_ref());
    found.ok_or_else(|| {
        let names = nodes.join(", ");
        let reason = format!("no node {:?}, want one of {names}", name.get_ref());
        source.error(name.span(), reason)
    })
}

fn places(source: &Text, file: &File, nodes: &[String]) -> Result<Vec<PoolGpu>, Error> {
    let gpus = file.gpus.get_ref();
    if gpus.is_empty() || gpus.len() > GPUS_MAX {
        let reason = format!("{} GPUs, want 1 to {GPUS_MAX}", gpus.len());
        return Err(source.error(file.gpus.span(), reason));
    }
    let place = |gpu: &Gpu| {
        let pct = match &gpu.speed_pct {
            Some(speed) => source.number("speed_pct", speed, 1, 100)?,
            None => 100,
        };
        Ok(PoolGpu {
            node: node(source, &gpu.node, nodes)?,
            speed: pct * PPM / 100,
            packed: gpu.packed,
        })
    };
    gpus.iter().map(place).collect()
}

fn rule(source: &Text, place: &Placing) -> Result<Rule, Error> {
    let chooser = Chooser::by_name(place.policy.get_ref());
    let chooser = chooser.map_err(|reason| source.error(place.policy.span(), reason))?;
    let rule = Rule::by(chooser);
    let time = |key: &str, written: &Option<Spanned<Millis>>, otherwise: Ns| match written {
        None => Ok(otherwise),
        Some(time) if time.get_ref().0.is_zero() => {
            let reason = format!("{key} = 0, want more than 0");
            Err(source.error(time.span(), reason))
        }
        Some(time) => Ok(time.get_ref().0),
    };
    Ok(Rule {
        within: place.within,
        claims: place.claims.unwrap_or(rule.claims),
        learns: place.history.unwrap_or(rule.learns),
        signal: time("signal_ms", &place.signal_ms, rule.signal)?,
        settles: place.settles_ms.map_or(rule.settles, |time| time.0),
        window: time("window_ms", &place.window_ms, rule.window)?,
        ..rule
    })
}

fn streams(source: &Text, file: &File, nodes: &[String]) -> Result<Vec<Incoming>, Error> {
    let written = file.streams.get_ref();
    let (mut all, mut programs) = (Vec::<Incoming>::new(), 0);
    for stream in written {
        let name = stream.name.get_ref();
        if all.iter().any(|other| other.client.name == *name) {
            let reason = format!("a second stream {name:?}, want another name");
            return Err(source.error(stream.name.span(), reason));
        }
        let weight = match &stream.weight {
            None => Weight::DEFAULT,
            Some(weight) => {
                let (min, max) = (Weight::MIN.into(), Weight::MAX.into());
                // CAST: checked to be in range.
                let number = source.number("weight", weight, min, max)? as u32;
                Weight::new(number).unwrap_or_default()
            }
        };
        let repeat = match &stream.repeat {
            Some(repeat) => source.number("repeat", repeat, 1, REPEAT_MAX)?,
            None => 1,
        };
        let phases = phases(source, &stream.name, &stream.profile, &stream.phases)?;
        let count = source.number("count", &stream.count, 1, PROGRAMS_MAX)?;
        programs += count;
        if programs > PROGRAMS_MAX {
            let reason = format!("{programs} programs, want at most {PROGRAMS_MAX}");
            return Err(source.error(stream.count.span(), reason));
        }
        all.push(Incoming {
            client: Client {
                channels: CHANNELS,
                weight,
                user: stream.user.clone(),
                repeat: Some(repeat),
                footprint: footprint(source, &stream.fill_pct, &stream.bandwidth_pct)?,
                ..Client::new(name, phases)
            },
            node: node(source, &stream.node, nodes)?,
            gap: stream.gap_us,
            count,
            known: stream.known,
        });
    }
    if all.is_empty() {
        let reason = "no streams, want at least one [[stream]]";
        return Err(source.error(file.streams.span(), reason));
    }
    Ok(all)
}
