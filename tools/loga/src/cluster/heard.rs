// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What was heard of a node, and which of it still counts.

use super::opinion::{Opinion, Scored, MAX_AGE_S};
use super::reading::Answer;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A GPU that fell back to letting all programs run says nothing for this long.
const FALLBACK: Duration = Duration::from_secs(30);

/// The last answer of a node, which ages until it says nothing.
#[derive(Debug, Default)]
pub struct Heard {
    opinion: Option<(Opinion, Instant)>,
    told: Option<String>,
    /// Fallbacks of each GPU so far, and until when it says nothing.
    fallbacks: HashMap<u32, (u64, Option<Instant>)>,
}

impl Heard {
    /// Takes an answer, and returns what to tell about it if that is new.
    pub fn take(&mut self, answer: Answer) -> Option<String> {
        let (opinion, told) = match answer.said {
            Ok(opinion) => (Some((opinion, answer.read)), None),
            Err(error) => (None, Some(error)),
        };
        for gpu in opinion.iter().flat_map(|(opinion, _)| &opinion.gpus) {
            let seen = self
                .fallbacks
                .entry(gpu.gpu)
                .or_insert((gpu.fallbacks, None));
            if gpu.fallbacks > seen.0 {
                seen.1 = Some(answer.read + FALLBACK);
            }
            seen.0 = gpu.fallbacks;
        }
        self.opinion = opinion;
        let is_new = self.told != told;
        self.told = told.clone();
        is_new.then(|| told.map_or("answers".to_string(), |why| format!("no opinion: {why}")))
    }

    /// How many GPUs the last answer was about.
    pub fn exported(&self) -> usize {
        let opinion = self.opinion.as_ref();
        opinion.map_or(0, |(opinion, _)| opinion.exported)
    }

    /// The last answer, while it is young enough to count.
    pub fn current(&self, now: Instant) -> Option<&Opinion> {
        let (opinion, read) = self.opinion.as_ref()?;
        let since = now.saturating_duration_since(*read).as_secs();
        (opinion.age_s.saturating_add(since) <= MAX_AGE_S).then_some(opinion)
    }

    /// GPUs that may be chosen, and the age of their figures in seconds.
    pub fn gpus(&self, now: Instant) -> impl Iterator<Item = (Scored, u64)> + '_ {
        let opinion = self.opinion.iter();
        let aged = opinion.map(move |(opinion, read)| {
            let since = now.saturating_duration_since(*read).as_secs();
            (opinion, opinion.age_s.saturating_add(since))
        });
        aged.filter(|(_, age)| *age <= MAX_AGE_S)
            .flat_map(|(opinion, age)| opinion.gpus.iter().map(move |gpu| (*gpu, age)))
            .filter(move |(gpu, _)| {
                let barred = self.fallbacks.get(&gpu.gpu).and_then(|seen| seen.1);
                barred.is_none_or(|until| until <= now)
            })
    }
}
