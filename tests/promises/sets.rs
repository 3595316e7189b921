// SPDX-License-Identifier: GPL-2.0

//! The sets of clients that are tried.

use loga::engaged::{Kind, Mode, Prio, SchedulingParameters, Terms};
use loga::units::Ns;
use proptest::prelude::*;

/// Longest period of a reserve.
pub(super) const MOST_PERIOD: Ns = Ns::from_ms(60);

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Habit {
    /// In each period a job that its reserve has room for, as a thread that stores without a pause.
    Honest,
    /// Submissions longer than declared, without end.
    Long,
    /// Within what is declared, and without end.
    Greedy,
}

/// A client, and what is asked for it.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) kind: Kind,
    pub(super) hard: bool,
    pub(super) declares: bool,
    pub(super) ht: bool,
    pub(super) habit: Habit,
    /// Capacity, longest submission and period: parts of the one after, in percent; and microseconds.
    pub(super) capacity_pct: u64,
    pub(super) longest_pct: u64,
    pub(super) period_us: u64,
    /// How much of the time from the capacity to the period its deadline is, in percent.
    pub(super) deadline_pct: u64,
    pub(super) commands: u64,
    /// Its lengths, in percent of the longest, and its pauses between jobs beyond its period.
    pub(super) lengths: Vec<u64>,
    pub(super) pauses_us: Vec<u64>,
    /// When it comes first.
    pub(super) phase_us: u64,
}

impl Member {
    pub(super) fn period(&self) -> Ns {
        Ns::from_us(self.period_us)
    }

    /// By when a job of it is due.
    pub(super) fn deadline(&self) -> Ns {
        let (capacity, period) = (self.capacity(), self.period());
        if self.kind != Kind::Cbs || !self.hard || !self.declares {
            return period;
        }
        let spare = period.saturating_sub(capacity).get();
        // Whole microseconds, as they are asked for.
        let us = (capacity.get() + spare / 100 * self.deadline_pct).div_ceil(1000);
        Ns::from_us(us).min(period)
    }

    pub(super) fn capacity(&self) -> Ns {
        let part = self.period().get() / 100 * self.capacity_pct;
        Ns::new(part.max(10_000))
    }

    /// The longest submission of a client that keeps its word.
    pub(super) fn longest(&self) -> Ns {
        Ns::new((self.capacity().get() / 100 * self.longest_pct).max(1_000))
    }

    pub(super) fn spec(&self) -> SchedulingParameters {
        let terms = Terms::new(self.kind, self.capacity(), self.period()).unwrap();
        let terms = Terms {
            hard: self.hard,
            longest: self.declares.then_some(self.longest()),
            ..terms
        };
        let terms = match self.deadline() < self.period() {
            true => terms.due(self.deadline()).unwrap(),
            false => terms,
        };
        SchedulingParameters {
            prio: Some(Prio::NORMAL),
            mode: if self.ht { Mode::Ht } else { Mode::Prt },
            reserve: Some(terms.declared(self.commands).unwrap()),
        }
    }
}

/// A set of clients, and clients without a reserve beside them.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) members: Vec<Member>,
    /// Longest submission of each that was seen before admission, in microseconds, and by how much
    /// later ones are longer, in percent.
    pub(super) others: Vec<(u64, u64)>,
    /// When what is set for one of the members is cleared and set anew, or set with another capacity.
    pub(super) changes: Vec<(u64, usize, bool, u64)>,
    /// Of each submission, in percent of what a submission costs: the time to its begin.
    pub(super) costs: Vec<u64>,
}

fn member() -> impl Strategy<Value = Member> {
    let kind = prop_oneof![
        6 => Just((Kind::Cbs, true, true)),
        1 => Just((Kind::Cbs, false, true)),
        1 => Just((Kind::Cbs, true, false)),
        1 => Just((Kind::Pe, true, true)),
        1 => Just((Kind::Ae, true, false)),
    ];
    let habit = prop_oneof![
        5 => Just(Habit::Honest),
        1 => Just(Habit::Long),
        2 => Just(Habit::Greedy),
    ];
    let longest = prop_oneof![8 => 5..=100_u64, 1 => 100..=1_000_u64];
    let deadline = prop_oneof![1 => Just(100), 1 => 0..100_u64];
    let parts = (1..60_u64, longest, 1_000..60_000_u64, 1..=8_u64, deadline);
    let lengths = prop::collection::vec(30..=100_u64, 1..6);
    let pauses = prop::collection::vec(0..20_000_u64, 1..4);
    (
        kind,
        habit,
        prop::bool::weighted(0.2),
        parts,
        lengths,
        pauses,
        0..60_000_u64,
    )
        .prop_map(
            |((kind, hard, declares), habit, ht, parts, lengths, pauses_us, phase_us)| Member {
                kind,
                hard,
                declares,
                ht,
                habit,
                capacity_pct: parts.0,
                longest_pct: parts.1,
                period_us: parts.2,
                commands: parts.3,
                deadline_pct: parts.4,
                lengths,
                pauses_us,
                phase_us,
            },
        )
}

pub(super) fn set() -> impl Strategy<Value = Set> {
    let others = prop::collection::vec(
        (10..4_000_u64, prop_oneof![3 => Just(0), 1 => 0..400_u64]),
        0..3,
    );
    let change = (1..400_u64, 0..8_usize, any::<bool>(), 1..60_u64);
    (
        prop::collection::vec(member(), 1..8),
        others,
        prop::collection::vec(change, 0..4),
        prop::collection::vec(0..=100_u64, 1..5),
    )
        .prop_map(|(members, others, changes, costs)| Set {
            members,
            others,
            changes,
            costs,
        })
}
