// SPDX-License-Identifier: GPL-2.0

//! `[tool]` An annotation of each node with the free part of its GPUs: `loga/free-percent`, such as
//! `{"0":63,"1":5}`, by the numbers of the device nodes.
//!
//! It is written when a GPU's part is [`STEP`] points or more away from what is there, or a GPU comes
//! or goes, and at most once in [`DWELL`] for a node; it is removed when nothing is known of the node.
//! Nodes that were written, or tried, longest ago come first. An error ends the round; the next one tries
//! the others before that node.

use super::api::Session;
use super::board::Free;
use std::collections::BTreeMap;
use std::time::Duration;

/// The annotation.
pub const ANNOTATION: &str = "loga/free-percent";
/// Points by which a part has to change.
const STEP: u64 = 5;
/// Least time between two writes of a node.
const DWELL: Duration = Duration::from_secs(30);
/// Most nodes that are written in a round.
const MAX_WRITES: usize = 64;

/// What was written of each node, nothing if that failed, and when.
#[derive(Debug, Default)]
pub struct Annotations {
    written: BTreeMap<String, (Option<Free>, Duration)>,
}

impl Annotations {
    /// Nodes to write now, with what: nothing known removes the annotation. `now` is the time since
    /// some start.
    fn due<'a>(&self, free: &'a BTreeMap<String, Free>, now: Duration) -> Vec<(&'a str, &'a Free)> {
        let is_due = |(name, free): &(&String, &Free)| match self.written.get(*name) {
            Some((Some(old), at)) => differs(old, free) && now.saturating_sub(*at) >= DWELL,
            // One of an earlier run may be there.
            Some((None, _)) | None => true,
        };
        let mut due: Vec<_> = free.iter().filter(is_due).collect();
        due.sort_by_key(|(name, _)| self.written.get(*name).map(|(_, at)| *at));
        let due = due.into_iter().take(MAX_WRITES);
        due.map(|(name, free)| (name.as_str(), free)).collect()
    }

    /// Writes what is due. Returns an error as a line to tell.
    pub fn round(
        &mut self,
        session: &Session,
        free: &BTreeMap<String, Free>,
        now: Duration,
    ) -> Result<(), String> {
        self.written.retain(|name, _| free.contains_key(name));
        let due: Vec<(String, Free)> = self
            .due(free, now)
            .into_iter()
            .map(|(name, free)| (name.to_string(), free.clone()))
            .collect();
        for (name, free) in due {
            let done = session.annotate(&name, ANNOTATION, text(&free).as_deref());
            let written = done.is_ok().then_some(free);
            self.written.insert(name, (written, now));
            done?;
        }
        Ok(())
    }
}

/// Whether a GPU came or went, or one of them changed by as much.
fn differs(old: &Free, new: &Free) -> bool {
    let far =
        |(gpu, part): (&u32, &u64)| old.get(gpu).is_none_or(|was| was.abs_diff(*part) >= STEP);
    old.len() != new.len() || new.iter().any(far)
}

/// Nothing for a node of which nothing is known.
fn text(free: &Free) -> Option<String> {
    let parts: Vec<String> = free
        .iter()
        .map(|(gpu, part)| format!("\"{gpu}\":{part}"))
        .collect();
    (!parts.is_empty()).then(|| format!("{{{}}}", parts.join(",")))
}

#[cfg(test)]
mod tests;
