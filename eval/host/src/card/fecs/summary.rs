// SPDX-License-Identifier: GPL-2.0

//! `[tool]` From records to time per process, pieces and switches.
//!
//! A piece begins when a context has been restored (CONTEXT_START, SIMPLE_START) and ends when it
//! has been saved (SAVE_END, SIMPLE_END). A switch is what lies between the end of one piece and the
//! beginning of the next. What records were dropped in is neither: it is counted as broken, and no
//! time is made up for it.
//!
//! Source of the tags: open-gpu-kernel-modules 595, `cl90cdfecs.h`.

use super::buffer::{Losses, Record, Version, Who};
use super::spread::{Lengths, Spread};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Beginnings: CONTEXT_START and SIMPLE_START.
const STARTS: [u8; 2] = [5, 6];
/// Ends: SAVE_END and SIMPLE_END.
const ENDS: [u8; 2] = [3, 7];
/// Steps of a switch between an end and a beginning, which are not needed.
const STEPS: [u8; 8] = [0x00, 0x01, 0x02, 0x04, 0x0a, 0x0b, 0x0c, 0x0d];
/// ENGINE_RESET and INVALID_TIMESTAMP: what was on the engine is not known any more.
const BREAKS: [u8; 2] = [0xfe, 0xff];
/// Most processes that are told apart.
const PROCESSES_MAX: usize = 1024;
/// Most instances of MIG that are followed.
const INSTANCES_MAX: usize = 64;

/// Time of one process on the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    /// Whose time.
    pub(crate) who: Who,
    /// All of it, without broken pieces.
    pub(crate) on_engine_ns: u64,
    /// Its pieces.
    pub(crate) pieces: Spread,
}

/// What the records say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Summary {
    /// Layout of the records.
    pub(crate) version: Version,
    /// Number of records.
    pub(crate) records: u64,
    /// From the earliest to the latest record, by the GPU's clock.
    pub(crate) length_ns: u64,
    /// Time per process, by process; hidden ones and the kernel last.
    pub(crate) processes: Vec<Process>,
    /// Pieces of more processes than are told apart.
    pub(crate) other_pieces: u64,
    /// Switches.
    pub(crate) switches: Spread,
    /// Pieces whose beginning was seen, but not their end: at the end of the recording one.
    pub(crate) starts_without_end: u64,
    /// Pieces whose end was seen, but not their beginning: at the start of the recording one.
    pub(crate) ends_without_start: u64,
    /// Times that went back.
    pub(crate) times_back: u64,
    /// Records of tags that are not known, by tag.
    pub(crate) unknown_tags: BTreeMap<u8, u64>,
    /// What the buffer lost.
    pub(crate) losses: Losses,
}

/// What is known of an engine between two records.
#[derive(Clone, Copy, Debug)]
enum Engine {
    /// Nothing.
    Unknown,
    /// A piece has begun.
    Piece(Who, u64),
    /// A piece has ended.
    Between(u64),
}

/// Adds records up.
#[derive(Debug, Default)]
pub(crate) struct Adder {
    records: u64,
    range: Option<(u64, u64)>,
    processes: BTreeMap<Who, Lengths>,
    other_pieces: u64,
    switches: Lengths,
    engines: BTreeMap<(u8, u8), Engine>,
    starts_without_end: u64,
    ends_without_start: u64,
    times_back: u64,
    unknown_tags: BTreeMap<u8, u64>,
}

impl Adder {
    /// Adds the next record.
    pub(crate) fn add(&mut self, record: &Record) {
        self.records = self.records.saturating_add(1);
        if record.missing > 0 {
            self.break_all();
        }
        let known = self.engines.get(&record.instance).copied();
        if known.is_none() && self.engines.len() >= INSTANCES_MAX {
            return;
        }
        let engine = known.unwrap_or(Engine::Unknown);
        let at = record.at_ns;
        let after = match record.tag {
            tag if STARTS.contains(&tag) => self.start(engine, record.who, at),
            tag if ENDS.contains(&tag) => self.end(engine, record.who, at),
            tag if BREAKS.contains(&tag) => {
                self.break_one(engine);
                Engine::Unknown
            }
            tag if STEPS.contains(&tag) => engine,
            tag => {
                let count = self.unknown_tags.entry(tag).or_default();
                *count = count.saturating_add(1);
                engine
            }
        };
        self.engines.insert(record.instance, after);
    }

    /// Widens the range of the recording; times that nobody measured are 0 or all ones.
    fn note_time(&mut self, at: u64) -> bool {
        if at == 0 || at == u64::MAX {
            self.times_back = self.times_back.saturating_add(1);
            return false;
        }
        let (first, last) = self.range.unwrap_or((at, at));
        self.range = Some((first.min(at), last.max(at)));
        true
    }

    fn start(&mut self, engine: Engine, who: Who, at: u64) -> Engine {
        if let Engine::Piece(..) = engine {
            self.starts_without_end = self.starts_without_end.saturating_add(1);
        }
        if !self.note_time(at) {
            return Engine::Unknown;
        }
        if let Engine::Between(since) = engine {
            match at.checked_sub(since) {
                Some(length) => self.switches.add(length),
                None => self.times_back = self.times_back.saturating_add(1),
            }
        }
        Engine::Piece(who, at)
    }

    fn end(&mut self, engine: Engine, who: Who, at: u64) -> Engine {
        let begun = match engine {
            Engine::Piece(begun_by, begun) if begun_by == who => Some(begun),
            // The piece of another one: neither its end nor this one's beginning was seen.
            other => {
                self.break_one(other);
                self.ends_without_start = self.ends_without_start.saturating_add(1);
                None
            }
        };
        if !self.note_time(at) {
            return Engine::Unknown;
        }
        match begun.map(|begun| at.checked_sub(begun)) {
            Some(Some(length)) => self.add_piece(who, length),
            Some(None) => {
                self.times_back = self.times_back.saturating_add(1);
                return Engine::Unknown;
            }
            None => {}
        }
        Engine::Between(at)
    }

    fn add_piece(&mut self, who: Who, length: u64) {
        if self.processes.len() >= PROCESSES_MAX && !self.processes.contains_key(&who) {
            self.other_pieces = self.other_pieces.saturating_add(1);
            return;
        }
        self.processes.entry(who).or_default().add(length);
    }

    /// What was begun will not be seen to end.
    fn break_one(&mut self, engine: Engine) {
        if let Engine::Piece(..) = engine {
            self.starts_without_end = self.starts_without_end.saturating_add(1);
        }
    }

    fn break_all(&mut self) {
        for (_, engine) in std::mem::take(&mut self.engines) {
            self.break_one(engine);
        }
    }

    /// The end of the recording.
    pub(crate) fn finish(mut self, version: Version, losses: Losses) -> Summary {
        self.break_all();
        let process = |(who, lengths): (Who, Lengths)| Process {
            who,
            on_engine_ns: lengths.sum_ns(),
            pieces: lengths.spread(),
        };
        Summary {
            version,
            records: self.records,
            length_ns: self.range.map_or(0, |(first, last)| last - first),
            processes: self.processes.into_iter().map(process).collect(),
            other_pieces: self.other_pieces,
            switches: self.switches.spread(),
            starts_without_end: self.starts_without_end,
            ends_without_start: self.ends_without_start,
            times_back: self.times_back,
            unknown_tags: self.unknown_tags,
            losses,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds up (tag, process, time in us, missing before).
    fn sum(records: &[(u8, Who, u64, u64)]) -> Summary {
        let mut adder = Adder::default();
        for (tag, who, at_us, missing) in records {
            adder.add(&Record {
                tag: *tag,
                seqno: 0,
                context: 0,
                who: *who,
                instance: (0, 0),
                at_ns: at_us * 1000,
                missing: *missing,
            });
        }
        adder.finish(Version::Two, Losses::default())
    }

    const A: Who = Who::Pid(10);
    const B: Who = Who::Pid(20);

    #[test]
    fn two_processes_in_turn_get_pieces_and_switches() {
        let summary = sum(&[
            (6, A, 1000, 0),
            (7, A, 3000, 0),
            (6, B, 3137, 0),
            (7, B, 5137, 0),
            (6, A, 5237, 0),
            (7, A, 6237, 0),
        ]);
        let [a, b] = &summary.processes[..] else {
            panic!("two processes");
        };
        assert_eq!((a.who, a.on_engine_ns, a.pieces.count), (A, 3_000_000, 2));
        assert_eq!((b.who, b.on_engine_ns, b.pieces.count), (B, 2_000_000, 1));
        let switches = &summary.switches;
        assert_eq!((switches.count, switches.sum_ns), (2, 237_000));
        assert_eq!((switches.min_ns, switches.max_ns), (100_000, 137_000));
        assert_eq!((summary.length_ns, summary.records), (5_237_000, 6));
        assert_eq!(
            (summary.starts_without_end, summary.ends_without_start),
            (0, 0)
        );
    }

    #[test]
    fn pieces_cut_at_both_borders_give_no_time() {
        let summary = sum(&[(7, A, 1000, 0), (6, B, 1100, 0)]);
        assert_eq!(summary.processes, []);
        assert_eq!(
            (summary.starts_without_end, summary.ends_without_start),
            (1, 1)
        );
        assert_eq!(summary.switches.count, 1);
    }

    #[test]
    fn piece_with_records_missing_in_it_is_broken() {
        let summary = sum(&[
            (6, A, 1000, 0),
            (7, A, 9000, 3),
            (6, B, 9100, 0),
            (7, B, 9300, 0),
        ]);
        assert_eq!(summary.processes.len(), 1);
        assert_eq!(summary.processes[0].who, B);
        assert_eq!(
            (summary.starts_without_end, summary.ends_without_start),
            (1, 1)
        );
    }

    #[test]
    fn switch_with_records_missing_in_it_is_none() {
        let summary = sum(&[(6, A, 1, 0), (7, A, 2, 0), (6, B, 90, 2), (7, B, 91, 0)]);
        assert_eq!((summary.switches.count, summary.processes.len()), (0, 2));
    }

    #[test]
    fn end_of_another_process_ends_nothing() {
        let summary = sum(&[(6, A, 1, 0), (7, B, 2, 0)]);
        assert_eq!(summary.processes, []);
        assert_eq!(
            (summary.starts_without_end, summary.ends_without_start),
            (1, 1)
        );
    }

    #[test]
    fn start_upon_start_begins_anew() {
        let summary = sum(&[(6, A, 1, 0), (6, A, 5, 0), (7, A, 7, 0)]);
        assert_eq!(summary.processes[0].on_engine_ns, 2000);
        assert_eq!(summary.starts_without_end, 1);
    }

    #[test]
    fn time_that_goes_back_or_is_none_gives_no_length() {
        let summary = sum(&[
            (6, A, 9, 0),
            (7, A, 8, 0),
            (6, A, 10, 0),
            (7, A, 12, 0),
            (6, B, 11, 0),
            (7, B, 0, 0),
        ]);
        assert_eq!(summary.times_back, 3);
        assert_eq!(summary.switches.count, 0);
        assert_eq!(summary.processes.len(), 1);
        assert_eq!(summary.processes[0].on_engine_ns, 2000);
    }

    #[test]
    fn unknown_tags_are_counted_and_steps_are_not() {
        let summary = sum(&[(6, A, 1, 0), (0x33, A, 2, 0), (4, A, 3, 0), (7, A, 4, 0)]);
        assert_eq!(summary.unknown_tags, BTreeMap::from([(0x33, 1)]));
        assert_eq!(summary.processes[0].on_engine_ns, 3000);
    }

    #[test]
    fn reset_of_the_engine_breaks_what_was_on_it() {
        let summary = sum(&[(6, A, 1, 0), (0xfe, A, 2, 0), (7, A, 4, 0)]);
        assert_eq!(summary.processes, []);
        assert_eq!(
            (summary.starts_without_end, summary.ends_without_start),
            (1, 1)
        );
    }

    #[test]
    fn hidden_and_kernel_time_stay_apart() {
        let (hidden, kernel) = (Who::Hidden, Who::Kernel);
        let mut records = Vec::new();
        for (at, who) in (1u64..).zip([A, hidden, kernel, hidden]) {
            records.extend([(6, who, at * 10, 0), (7, who, at * 10 + at, 0)]);
        }
        let times: Vec<(Who, u64)> = sum(&records)
            .processes
            .iter()
            .map(|process| (process.who, process.on_engine_ns))
            .collect();
        assert_eq!(times, [(A, 1000), (hidden, 6000), (kernel, 3000)]);
    }

    #[test]
    fn instances_of_mig_are_followed_apart() {
        let mut adder = Adder::default();
        for (tag, who, instance, at_ns) in [
            (6, A, (1, 0), 100),
            (6, B, (2, 0), 200),
            (7, A, (1, 0), 300),
            (7, B, (2, 0), 500),
        ] {
            let (seqno, context, missing) = (0, 0, 0);
            adder.add(&Record {
                tag,
                seqno,
                context,
                who,
                instance,
                at_ns,
                missing,
            });
        }
        let summary = adder.finish(Version::Two, Losses::default());
        let times: Vec<u64> = summary
            .processes
            .iter()
            .map(|one| one.on_engine_ns)
            .collect();
        assert_eq!(times, [200, 300]);
    }

    #[test]
    fn more_processes_than_are_told_apart_are_counted() {
        let mut records = Vec::new();
        for pid in 1..=1030 {
            let at = u64::from(pid) * 10;
            records.extend([(6, Who::Pid(pid), at, 0), (7, Who::Pid(pid), at + 1, 0)]);
        }
        let summary = sum(&records);
        assert_eq!((summary.processes.len(), summary.other_pieces), (1024, 6));
    }
}
