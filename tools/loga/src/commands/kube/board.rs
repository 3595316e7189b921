// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What was heard of all nodes: one thread writes it, those that answer requests read it.

use super::hysteresis::Key;
use crate::cluster::heard::Heard;
use crate::cluster::reading::Answer;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock};
use std::time::Instant;

/// A million: all of a GPU.
const WHOLE: u64 = 1_000_000;

/// Percent by the number of a device node.
pub type Free = BTreeMap<u32, u64>;

/// The nodes by name.
#[derive(Debug, Default)]
pub struct Board(RwLock<BTreeMap<String, Heard>>);

impl Board {
    /// Keeps these nodes, forgets others, and takes an answer of each that gave one. Returns the
    /// lines to tell.
    pub fn take(&self, answers: Vec<(&str, Option<Answer>)>) -> Vec<String> {
        let mut board = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut old = std::mem::take(&mut *board);
        let mut told = Vec::new();
        for (name, answer) in answers {
            let mut heard = old.remove(name).unwrap_or_default();
            if let Some(line) = answer.and_then(|answer| heard.take(answer)) {
                told.push(format!("{name}: {line}"));
            }
            board.insert(name.to_string(), heard);
        }
        told
    }

    /// The loss of the best GPU of each node in millionths, or nothing where nothing is known.
    pub fn best(&self, names: &[impl AsRef<str>], now: Instant) -> Vec<Option<u64>> {
        let board = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let best = |name: &str| {
            let heard: &Heard = board.get(name)?;
            heard.gpus(now).map(|(gpu, _)| gpu.ppm).min()
        };
        names.iter().map(|name| best(name.as_ref())).collect()
    }

    /// Whether each node says that all its GPUs are lost.
    pub fn is_lost(&self, names: &[impl AsRef<str>], now: Instant) -> Vec<bool> {
        let board = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let is_lost = |name: &str| {
            let heard: Option<&Heard> = board.get(name);
            let current = heard.and_then(|heard| heard.current(now));
            current.is_some_and(|one| one.exported > 0 && one.lost.len() == one.exported)
        };
        names.iter().map(|name| is_lost(name.as_ref())).collect()
    }

    /// The GPUs that each node calls lost, of nodes that answer.
    pub fn lost(&self, now: Instant) -> BTreeMap<String, BTreeSet<u32>> {
        let board = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let of_node = |(name, heard): (&String, &Heard)| {
            let lost = &heard.current(now)?.lost;
            Some((name.clone(), lost.iter().copied().collect()))
        };
        board.iter().filter_map(of_node).collect()
    }

    /// The part of each GPU that nobody wants, in percent, by the numbers of their device nodes; nothing
    /// of a node of which nothing is known.
    pub fn free(&self, now: Instant) -> BTreeMap<String, Free> {
        let board = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let percent = |want: u64| WHOLE.saturating_sub(want).div_ceil(WHOLE / 100);
        let of_node = |(name, heard): (&String, &Heard)| {
            let gpus = heard.gpus(now);
            let free = gpus.filter_map(|(gpu, _)| Some((gpu.minor, percent(gpu.want?))));
            (name.clone(), free.collect())
        };
        board.iter().map(of_node).collect()
    }

    /// What the programs of each GPU waited, in millionths of the window, by nodes and minors.
    pub fn waited(&self, now: Instant) -> BTreeMap<Key, u64> {
        let board = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let of_node = |(name, heard): (&String, &Heard)| {
            let name = name.clone();
            let gpus = heard.gpus(now);
            let gpus =
                gpus.filter_map(move |(gpu, _)| Some(((name.clone(), gpu.minor), gpu.waited?)));
            gpus.collect::<Vec<_>>()
        };
        board.iter().flat_map(of_node).collect()
    }
}
