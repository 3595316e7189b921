// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga agent pods`: gives the cgroups of a node's pods the weights that Kubernetes has for
//! them, again and again.
//!
//! A weight comes from what the pod's claim took of a capacity, else from its annotation. Nothing
//! else is changed: a pod without either, or that is not found among the cgroups, keeps what it has.
//! What was set goes with the pod, or when it has no weight any more. If the API server or the
//! kernel module do not answer, all stays as it is.

use super::api::{Api, Session};
use super::pod::{Capacity, Pod};
use crate::cli;
use crate::commands::Failure;
use crate::control::{Calls, Control};
use crate::directory::Directory;
use crate::error::Error;
use crate::export::cgroup::Names;
use crate::names::harmless;
use loga::uapi;
use loga::units::Weight;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

/// Follows the pods of a node until interrupted.
///
/// # Errors
///
/// Wrong arguments.
pub fn run<C: Calls>(
    arguments: &cli::Pods,
    open: impl Fn() -> Result<Control<C>, Error>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let api = Api::of(&arguments.server).map_err(Failure::Text);
    if !super::pod::is_name(&arguments.node) {
        let line = format!("--node {}: want the node's name", arguments.node);
        return Err(Failure::Text(line));
    }
    let api = api?;
    let directory = Directory::below(&arguments.cgroups);
    let mut weigher = Weigher::new(arguments);
    let every = Duration::from_secs(arguments.every);
    loop {
        let start = Instant::now();
        let lines = weigher.round(&api, &directory, &open);
        for line in lines {
            // A log that cannot be written weighs no pod less.
            let _ = writeln!(out, "{}", harmless(&line)).and_then(|()| out.flush());
        }
        if arguments.once {
            return Ok(());
        }
        thread::sleep(every.saturating_sub(start.elapsed()));
    }
}

/// What is remembered between rounds.
#[derive(Debug)]
pub(super) struct Weigher {
    node: String,
    capacity: Option<Capacity>,
    most: u32,
    /// Weights that were set, by cgroup.
    set: BTreeMap<u64, u32>,
    /// What was told in the last round: it is told once.
    told: BTreeSet<String>,
}

impl Weigher {
    pub(super) fn new(arguments: &cli::Pods) -> Self {
        Self {
            node: arguments.node.clone(),
            capacity: arguments.capacity.as_ref().map(|name| Capacity {
                driver: arguments.driver.clone(),
                name: name.clone(),
            }),
            most: arguments.max_weight,
            set: BTreeMap::new(),
            told: BTreeSet::new(),
        }
    }

    /// Sets what is to be set now. Returns lines to tell.
    pub(super) fn round<C: Calls>(
        &mut self,
        api: &Api,
        directory: &Directory,
        open: &impl Fn() -> Result<Control<C>, Error>,
    ) -> Vec<String> {
        let (mut told, mut done) = (BTreeSet::new(), Vec::new());
        match self.wanted(api, directory, &mut told) {
            Ok(wanted) => match open() {
                Ok(control) => self.make(&wanted, &control, &mut told, &mut done),
                Err(error) => drop(told.insert(format!("{error}; weights stay as they are"))),
            },
            Err(error) => {
                told.insert(format!("API server: {error}; weights stay as they are"));
            }
        }
        let new = told.difference(&self.told).cloned();
        let lines = new.chain(done).collect();
        self.told = told;
        lines
    }

    /// Cgroups of pods, and the weights that they should have.
    fn wanted(
        &self,
        api: &Api,
        directory: &Directory,
        told: &mut BTreeSet<String>,
    ) -> Result<BTreeMap<u64, u32>, String> {
        let session = api.session()?;
        let pods = session.pods(&self.node)?;
        let cgroups = cgroups(directory);
        let mut wanted = BTreeMap::new();
        let here: Vec<&Pod> = pods.iter().filter(|pod| pod.is_on(&self.node)).collect();
        let uids: BTreeSet<&str> = here.iter().map(|pod| pod.metadata.uid.as_str()).collect();
        for pod in here {
            let Some(cgroup) = cgroups.get(&pod.metadata.uid) else {
                continue;
            };
            match self.weight(&session, pod, &uids) {
                Ok(Some(weight)) => drop(wanted.insert(*cgroup, weight)),
                Ok(None) => {}
                Err(error) => {
                    let (space, name) = (&pod.metadata.namespace, &pod.metadata.name);
                    told.insert(format!("pod {space}/{name}: {error}"));
                    // It keeps what it has.
                    wanted.extend(self.set.get(cgroup).map(|weight| (*cgroup, *weight)));
                }
            }
        }
        Ok(wanted)
    }

    /// The weight of a pod, if it has one. `here` are uids of the node's pods.
    fn weight(
        &self,
        session: &Session,
        pod: &Pod,
        here: &BTreeSet<&str>,
    ) -> Result<Option<u32>, String> {
        let mut consumed = None;
        if let Some(capacity) = &self.capacity {
            for name in pod.claims() {
                let claim = session.claim(&pod.metadata.namespace, name)?;
                let claim = claim.unwrap_or_default();
                let reserving = claim.pods();
                // A pod may name any claim of its namespace; only one that reserves it has a part.
                if !reserving.contains(pod.metadata.uid.as_str()) {
                    continue;
                }
                let sharing = reserving.intersection(here).count();
                let part = claim.consumed(capacity)?.map(|whole| part(whole, sharing));
                consumed = consumed.max(part);
            }
        }
        let weight = match consumed {
            Some(weight) => Some(weight),
            None => pod.annotated()?,
        };
        Ok(weight.map(|weight| weight.min(self.most)))
    }

    /// Makes the weights those that are wanted.
    fn make(
        &mut self,
        wanted: &BTreeMap<u64, u32>,
        control: &Control<impl Calls>,
        told: &mut BTreeSet<String>,
        done: &mut Vec<String>,
    ) {
        let gone: Vec<u64> = self.set.keys().copied().collect();
        for cgroup in gone.into_iter().filter(|id| !wanted.contains_key(id)) {
            self.set.remove(&cgroup);
            // It may be gone with the pod.
            if control.set_share(&share(cgroup, None)).is_ok() {
                done.push(format!("cgroup {cgroup}: no weight"));
            }
        }
        for (cgroup, weight) in wanted {
            // Again and again: the kernel module may be another one by now.
            match control.set_share(&share(*cgroup, Some(*weight))) {
                Ok(()) => {
                    if self.set.insert(*cgroup, *weight) != Some(*weight) {
                        done.push(format!("cgroup {cgroup}: weight {weight}"));
                    }
                }
                Err(error) => drop(told.insert(format!("cgroup {cgroup}: {error}"))),
            }
        }
    }
}

/// What each of so many pods has of a claim's weight, rounded down so that the sum is within what was
/// granted. It is the least weight where that would be none: there is no weight of 0, and the pod
/// would have the 100 of those without one.
fn part(whole: u32, pods: usize) -> u32 {
    let pods = u32::try_from(pods).unwrap_or(u32::MAX).max(1);
    (whole / pods).max(Weight::MIN)
}

fn share(cgroup: u64, weight: Option<u32>) -> uapi::SetShare {
    uapi::SetShare {
        gpu: uapi::ALL_GPUS,
        subject: uapi::SUBJECT_CGROUP,
        id: cgroup,
        action: weight.map_or(uapi::ACTION_CLEAR, |_| uapi::ACTION_SET),
        mask: weight.map_or(0, |_| uapi::SHARE_WEIGHT),
        weight: weight.unwrap_or(0),
        ..Default::default()
    }
}

/// The outermost cgroup of each pod, by the pod's uid.
fn cgroups(directory: &Directory) -> BTreeMap<String, u64> {
    let mut found: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    for (id, path) in directory.cgroup_paths() {
        let uid = Names::of(&path).pod_uid;
        let depth = path.as_bytes().split(|byte| *byte == b'/').count();
        if uid.is_empty() {
            continue;
        }
        let one = found.entry(uid).or_insert((depth, id));
        *one = (*one).min((depth, id));
    }
    let outermost = found.into_iter().map(|(uid, (_, id))| (uid, id));
    outermost.collect()
}

#[cfg(test)]
mod tests;
