// SPDX-License-Identifier: GPL-2.0

//! `[tool]` When a process was on the engine: from what threads on the device note to figures.
//!
//! A thread reads the device's timer in a loop. Two reads that are far apart mean that it did not run
//! in between: a *gap*. The time from the end of one gap to the beginning of the next one is a
//! *piece*, in which the process was on the engine. What a round of the kernel begins and ends with
//! is neither, since nobody knows how much of it the round did not see.

use crate::distribution::Distribution;
use crate::statistics::us;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Gaps that are kept of one multiprocessor; later ones count as dropped.
pub const GAPS_MAX: usize = 1 << 16;

/// A time in which the thread did not read the timer, by that timer in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gap {
    /// The last read before it.
    pub before_ns: u64,
    /// The first read after it.
    pub after_ns: u64,
}

/// What one thread noted in one round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes {
    /// Number of the multiprocessor that it ran on.
    pub multiprocessor: u32,
    /// Its first read of the timer, in ns.
    pub start_ns: u64,
    /// Its last read.
    pub end_ns: u64,
    /// Its gaps, in order.
    pub gaps: Vec<Gap>,
    /// Gaps after these that its memory had no room for.
    pub dropped: u64,
}

/// What all rounds noted on one multiprocessor.
#[derive(Clone, Debug, Default)]
struct Multiprocessor {
    pieces: Vec<u64>,
    gaps: Vec<u64>,
    on_engine_ns: u64,
    seen_ns: u64,
    dropped: u64,
}

impl Multiprocessor {
    fn add(&mut self, notes: &Notes) {
        let room = GAPS_MAX.saturating_sub(self.gaps.len());
        let (kept, left) = notes.gaps.split_at(notes.gaps.len().min(room));
        // CAST: bounded by the device's memory.
        let dropped = notes.dropped.saturating_add(left.len() as u64);
        let mut since_ns = notes.start_ns;
        for (number, gap) in kept.iter().enumerate() {
            let piece_ns = gap.before_ns.saturating_sub(since_ns);
            if number > 0 {
                self.pieces.push(piece_ns);
            }
            self.on_engine_ns = self.on_engine_ns.saturating_add(piece_ns);
            self.gaps.push(gap.after_ns.saturating_sub(gap.before_ns));
            since_ns = gap.after_ns;
        }
        if dropped == 0 {
            let last_ns = notes.end_ns.saturating_sub(since_ns);
            self.on_engine_ns = self.on_engine_ns.saturating_add(last_ns);
        }
        let seen_ns = notes.end_ns.saturating_sub(notes.start_ns);
        self.seen_ns = self.seen_ns.saturating_add(seen_ns);
        self.dropped = self.dropped.saturating_add(dropped);
    }
}

/// What all rounds noted, by multiprocessor.
#[derive(Clone, Debug, Default)]
pub struct Record {
    multiprocessors: BTreeMap<u32, Multiprocessor>,
}

impl Record {
    /// Adds a round. Of several threads on one multiprocessor, which see the same gaps, the first one
    /// counts.
    pub fn add_round(&mut self, round: &[Notes]) {
        let mut first = BTreeMap::new();
        for notes in round {
            first.entry(notes.multiprocessor).or_insert(notes);
        }
        for (number, notes) in first {
            self.multiprocessors.entry(number).or_default().add(notes);
        }
    }

    /// The figures: those of the multiprocessor with the median number of gaps, of several such the
    /// one with the lowest number; of an even number of multiprocessors the lower of both medians.
    pub fn residency(&self, multiprocessors: u32, timer_step_ns: u64) -> Residency {
        let all = || self.multiprocessors.values();
        let noted = all().filter(|one| !one.gaps.is_empty() || one.dropped > 0);
        // CAST: a device has at most some hundreds.
        let noted = noted.count() as u32;
        let mut order: Vec<&Multiprocessor> = all().collect();
        order.sort_by_key(|one| (one.gaps.len() as u64).saturating_add(one.dropped));
        let median = order.get(order.len().saturating_sub(1) / 2);
        let Some(median) = median else {
            return Residency {
                multiprocessors,
                timer_step_ns,
                ..Residency::default()
            };
        };
        let gap_ns = median
            .gaps
            .iter()
            .fold(0u64, |sum, ns| sum.saturating_add(*ns));
        Residency {
            multiprocessors,
            noted,
            timer_step_ns,
            seconds: us(median.seen_ns) / 1e6,
            on_engine_us: us(median.on_engine_ns),
            gap_us: us(gap_ns),
            dropped: median.dropped,
            pieces: Distribution::of(&median.pieces),
            gaps: Distribution::of(&median.gaps),
        }
    }
}

/// When a process was on the engine, by one of its threads on the device; sums and distributions are
/// those of the multiprocessor with the median number of gaps.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Residency {
    /// Multiprocessors of the device, each with one thread.
    pub multiprocessors: u32,
    /// Multiprocessors that noted at least one gap.
    pub noted: u32,
    /// Smallest step of the device's timer, in ns.
    pub timer_step_ns: u64,
    /// How long the rounds took by that timer.
    pub seconds: f64,
    /// Sum of the time outside gaps, with what begins and ends each round.
    pub on_engine_us: f64,
    /// Sum of the gaps.
    pub gap_us: f64,
    /// Gaps that there was no room for. What comes after them in a round is in neither sum.
    pub dropped: u64,
    /// Times from the end of a gap to the beginning of the next one.
    pub pieces: Distribution,
    /// The gaps.
    pub gaps: Distribution,
}

/// How two busy processes share an engine.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Sharing {
    /// Time that a process is on the engine at a stretch.
    pub slice_us: f64,
    /// Time that a switch from one to the other takes.
    pub switch_us: f64,
}

/// Slice and switch of two processes that ran beside each other, from the medians of both.
///
/// A slice is a piece, and a gap is the other's slice between two switches:
/// `switch = (gap of one - piece of the other) / 2`; both figures are the means over the two
/// processes. That assumes that both had work at all times, that nobody else used the engine, that
/// slices are of one length, that a switch takes as long in either direction, and that it belongs to
/// neither piece. A negative switch says that this was not so. `None` if one of them has no piece or
/// no gap.
pub fn slice_and_switch(a: &Residency, b: &Residency) -> Option<Sharing> {
    let all = [&a.pieces, &a.gaps, &b.pieces, &b.gaps];
    if all.iter().any(|one| one.count == 0) {
        return None;
    }
    let switch_us =
        |one: &Residency, other: &Residency| (one.gaps.median_us - other.pieces.median_us) / 2.0;
    Some(Sharing {
        slice_us: (a.pieces.median_us + b.pieces.median_us) / 2.0,
        switch_us: (switch_us(a, b) + switch_us(b, a)) / 2.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round of a thread that has these gaps, each a begin and an end in us.
    fn notes(multiprocessor: u32, end_us: u64, gaps: &[(u64, u64)]) -> Notes {
        let gap = |(before, after): &(u64, u64)| Gap {
            before_ns: before * 1000,
            after_ns: after * 1000,
        };
        Notes {
            multiprocessor,
            start_ns: 0,
            end_ns: end_us * 1000,
            gaps: gaps.iter().map(gap).collect(),
            dropped: 0,
        }
    }

    fn residency(rounds: &[&[Notes]]) -> Residency {
        let mut record = Record::default();
        rounds.iter().for_each(|round| record.add_round(round));
        record.residency(4, 32)
    }

    #[test]
    fn ends_of_a_round_are_on_the_engine_but_no_pieces() {
        let found = residency(&[&[notes(0, 1000, &[(100, 300), (500, 600), (900, 950)])]]);
        assert_eq!((found.multiprocessors, found.noted), (4, 1));
        assert_eq!((found.timer_step_ns, found.dropped), (32, 0));
        assert_eq!((found.on_engine_us, found.gap_us), (650.0, 350.0));
        assert_eq!(found.seconds, 1e-3);
        let pieces = (found.pieces.count, found.pieces.min_us, found.pieces.max_us);
        assert_eq!(pieces, (2, 200.0, 300.0));
        let gaps = (found.gaps.count, found.gaps.min_us, found.gaps.max_us);
        assert_eq!(gaps, (3, 50.0, 200.0));
    }

    #[test]
    fn rounds_add_up_and_their_boundary_is_neither_piece_nor_gap() {
        let round = [notes(3, 1000, &[(100, 300), (500, 600)])];
        let found = residency(&[&round, &round]);
        assert_eq!((found.pieces.count, found.gaps.count), (2, 4));
        assert_eq!(found.pieces.max_us, 200.0);
        assert_eq!((found.on_engine_us, found.gap_us), (1400.0, 600.0));
        assert_eq!(found.seconds, 2e-3);
    }

    #[test]
    fn process_alone_has_neither_pieces_nor_gaps() {
        let found = residency(&[&[notes(0, 1000, &[]), notes(1, 1000, &[])]]);
        assert_eq!(
            (found.noted, found.on_engine_us, found.gap_us),
            (0, 1000.0, 0.0)
        );
        assert_eq!(found.pieces, Distribution::default());
        assert_eq!(found.gaps, Distribution::default());
        assert_eq!(residency(&[]).seconds, 0.0);
    }

    #[test]
    fn multiprocessor_with_the_median_number_of_gaps_is_reported() {
        let one = notes(0, 1000, &[]);
        let two = notes(1, 1000, &[(10, 50), (100, 140)]);
        let many = notes(2, 1000, &[(10, 90), (100, 190), (200, 290), (300, 390)]);
        let found = residency(&[&[many.clone(), one.clone(), two.clone()]]);
        assert_eq!((found.noted, found.gaps.count, found.gap_us), (2, 2, 80.0));
        // The lower one of two.
        let found = residency(&[&[many, two]]);
        assert_eq!((found.noted, found.gaps.count), (2, 2));
    }

    #[test]
    fn second_thread_on_a_multiprocessor_does_not_count() {
        let first = notes(0, 1000, &[(10, 50)]);
        let second = notes(0, 1000, &[(11, 51)]);
        let found = residency(&[&[first, second]]);
        assert_eq!((found.noted, found.gaps.count, found.seconds), (1, 1, 1e-3));
    }

    #[test]
    fn time_after_a_dropped_gap_is_in_neither_sum() {
        let mut round = notes(0, 1000, &[(100, 300), (500, 600)]);
        round.dropped = 7;
        let found = residency(&[&[round]]);
        assert_eq!((found.dropped, found.gaps.count), (7, 2));
        assert_eq!((found.on_engine_us, found.gap_us), (300.0, 300.0));
        assert_eq!(found.seconds, 1e-3);
    }

    #[test]
    fn gaps_beyond_the_table_are_dropped() {
        let gaps: Vec<(u64, u64)> = (0..40_000).map(|at| (at * 10, at * 10 + 4)).collect();
        let round = [notes(0, 400_000, &gaps)];
        let found = residency(&[&round, &round]);
        assert_eq!(found.gaps.count, GAPS_MAX as u64);
        assert_eq!(found.dropped, 80_000 - GAPS_MAX as u64);
    }

    #[test]
    fn slice_and_switch_come_from_the_medians_of_both() {
        let medians = |piece_us, gap_us| {
            let median = |median_us| Distribution {
                count: 1,
                median_us,
                ..Distribution::default()
            };
            Residency {
                pieces: median(piece_us),
                gaps: median(gap_us),
                ..Residency::default()
            }
        };
        let (a, b) = (medians(2000.0, 2300.0), medians(2010.0, 2310.0));
        let found = slice_and_switch(&a, &b).expect("figures");
        assert_eq!((found.slice_us, found.switch_us), (2005.0, 150.0));
        assert_eq!(slice_and_switch(&b, &a), Some(found));
        // Slices of two lengths: each gap belongs to the other's.
        let (a, b) = (medians(1000.0, 4020.0), medians(4000.0, 1020.0));
        assert_eq!(slice_and_switch(&a, &b).expect("figures").switch_us, 10.0);
        let nothing = Residency::default();
        assert_eq!(slice_and_switch(&a, &nothing), None);
        assert_eq!(slice_and_switch(&nothing, &a), None);
    }
}
