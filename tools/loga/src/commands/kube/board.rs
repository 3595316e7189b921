// SPDX-License-Identifier: GPL-2.0

//! [tool] What was heard of all nodes: one thread writes it, those that answer requests read it.

use super::hysteresis::Key;
use crate::exporters::heard::Heard;
use crate::exporters::reading::Answer;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};
use std::time::Instant;

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
    pub fn best(&self, names: &[String], now: Instant) -> Vec<Option<u64>> {
        let board = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let best = |name| {
            let heard: &Heard = board.get(name)?;
            heard.gpus(now).map(|(gpu, _)| gpu.ppm).min()
        };
        names.iter().map(best).collect()
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
