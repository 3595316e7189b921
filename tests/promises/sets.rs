// SPDX-License-Identifier: GPL-2.0

//! The sets of clients that are tried.

use loga::engaged::{Kind, Mode, Prio, SchedulingParameters, Terms};
use loga::policies::dispatch::DispatcherKind;
use loga::units::Ns;
use proptest::prelude::*;

/// For how long a client has the engine at most that does not use its grant, in microseconds.
const MOST_UNUSED_US: u64 = 260;

/// The longest submission that may be declared for promised deadlines.
const MOST_LONGEST: Ns = Ns::from_ms(1_999);

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Habit {
    /// In each period a job that its reserve has room for, as a thread that stores without a pause.
    Honest,
    /// Submissions so many times as long as declared, without end.
    Long(u64),
    /// Within what is declared, and without end.
    Greedy,
}

/// What becomes of a grant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fate {
    /// It is used.
    Runs,
    /// Its client dies when so much of the command has run, in percent, and comes anew.
    Dies(u64),
    /// It comes back after this many microseconds.
    Returns(u64),
}

/// What is asked for, and kept by one client or by several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) kind: Kind,
    pub(super) hard: bool,
    pub(super) declares: bool,
    pub(super) ht: bool,
    pub(super) prio: u32,
    /// Capacity, longest submission and period: parts of the one after, in percent; and microseconds.
    pub(super) capacity_pct: u64,
    pub(super) longest_pct: u64,
    pub(super) period_us: u64,
    /// How much of the time from the capacity to the period its deadline is, in percent.
    pub(super) deadline_pct: u64,
    pub(super) commands: u64,
}

/// A client, and what is asked for it.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) asked: Asked,
    /// It shares the reserve of the one before, of which that is asked.
    pub(super) shares: bool,
    pub(super) habit: Habit,
    /// Its lengths, in percent of the longest, and its pauses between jobs beyond its period.
    pub(super) lengths: Vec<u64>,
    pub(super) pauses_us: Vec<u64>,
    pub(super) fates: Vec<Fate>,
    /// When it comes first.
    pub(super) phase_us: u64,
}

impl Member {
    /// Whether what it does is what a deadline is promised for.
    pub(super) fn is_honest(&self) -> bool {
        self.habit == Habit::Honest && self.runs_all()
    }

    /// Whether it uses all grants.
    pub(super) fn runs_all(&self) -> bool {
        self.fates.iter().all(|fate| *fate == Fate::Runs)
    }
}

impl Asked {
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
        let longest = Ns::new((self.capacity().get() / 100 * self.longest_pct).max(1_000));
        longest.min(MOST_LONGEST)
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
            prio: Some(Prio::new(self.prio).unwrap()),
            mode: if self.ht { Mode::Ht } else { Mode::Prt },
            reserve: Some(terms.declared(self.commands).unwrap()),
        }
    }
}

/// A client without a reserve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Other {
    pub(super) prio: u32,
    /// Its longest submission that was seen before admission, in microseconds, and by how much later
    /// ones are longer, in percent.
    pub(super) seen_us: u64,
    pub(super) longer_pct: u64,
}

/// What changes for a reserve.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// It is cleared, and set anew.
    Anew,
    /// It is cleared, and set anew this many microseconds later.
    Later(u64),
    /// It gets another capacity, in percent of its period.
    Capacity(u64),
    /// The other mode.
    Mode,
    /// Another kind, hard or soft.
    Kind(Kind, bool),
}

/// A set of clients, and clients without a reserve beside them.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) dispatcher: DispatcherKind,
    /// Most that is promised, in percent.
    pub(super) limit_pct: u64,
    pub(super) members: Vec<Member>,
    pub(super) others: Vec<Other>,
    /// When, and for which of the members, in order.
    pub(super) changes: Vec<(u64, usize, Change)>,
    /// Of each submission, in percent of what a submission costs: the time to its begin.
    pub(super) costs: Vec<u64>,
}

fn asked() -> impl Strategy<Value = Asked> {
    let kind = prop_oneof![
        6 => Just((Kind::Cbs, true, true)),
        1 => Just((Kind::Cbs, false, true)),
        1 => Just((Kind::Cbs, true, false)),
        1 => Just((Kind::Pe, true, true)),
        1 => Just((Kind::Ae, true, false)),
    ];
    let longest = prop_oneof![8 => 5..=100_u64, 1 => 100..=1_000_u64];
    let deadline = prop_oneof![1 => Just(100), 1 => 0..100_u64];
    let period = prop_oneof![9 => 1_000..60_000_u64, 1 => 60_000..10_000_000_u64];
    let parts = (1..60_u64, longest, period, 1..=8_u64, deadline);
    (kind, prop::bool::weighted(0.2), 0..40_u32, parts).prop_map(
        |((kind, hard, declares), ht, prio, parts)| Asked {
            kind,
            hard,
            declares,
            ht,
            prio,
            capacity_pct: parts.0,
            longest_pct: parts.1,
            period_us: parts.2,
            commands: parts.3,
            deadline_pct: parts.4,
        },
    )
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        2 => Just(Fate::Runs),
        1 => (0..=100_u64).prop_map(Fate::Dies),
        1 => (0..=MOST_UNUSED_US).prop_map(Fate::Returns),
    ];
    prop_oneof![
        3 => Just(vec![Fate::Runs]),
        1 => prop::collection::vec(fate, 1..6),
    ]
}

fn member() -> impl Strategy<Value = Member> {
    let habit = prop_oneof![
        5 => Just(Habit::Honest),
        1 => prop_oneof![3 => Just(3), 1 => Just(1_000)].prop_map(Habit::Long),
        2 => Just(Habit::Greedy),
    ];
    let lengths = prop::collection::vec(30..=100_u64, 1..6);
    let pauses = prop::collection::vec(0..20_000_u64, 1..4);
    let shares = prop::bool::weighted(0.15);
    (
        asked(),
        shares,
        habit,
        lengths,
        pauses,
        fates(),
        0..60_000_u64,
    )
        .prop_map(
            |(asked, shares, habit, lengths, pauses_us, fates, phase_us)| Member {
                asked,
                shares,
                habit,
                lengths,
                pauses_us,
                fates,
                phase_us,
            },
        )
}

fn other() -> impl Strategy<Value = Other> {
    let longer = prop_oneof![3 => Just(0), 1 => 0..400_u64];
    (0..40_u32, 10..4_000_u64, longer).prop_map(|(prio, seen_us, longer_pct)| Other {
        prio,
        seen_us,
        longer_pct,
    })
}

fn change() -> impl Strategy<Value = Change> {
    let kind = prop_oneof![Just(Kind::Pe), Just(Kind::Ae), Just(Kind::Cbs)];
    prop_oneof![
        1 => Just(Change::Anew),
        1 => (1..30_000_u64).prop_map(Change::Later),
        2 => (1..60_u64).prop_map(Change::Capacity),
        1 => Just(Change::Mode),
        1 => (kind, any::<bool>()).prop_map(|(kind, hard)| Change::Kind(kind, hard)),
    ]
}

pub(super) fn set() -> impl Strategy<Value = Set> {
    let dispatcher = prop_oneof![
        4 => Just(DispatcherKind::Edf),
        1 => Just(DispatcherKind::Prio),
    ];
    let many = prop::collection::vec((1..400_000_u64, 0..8_usize, change()), 0..4);
    // Again and again, while its clients run.
    let loops = (1..200_000_u64, 200..5_000_u64, 0..8_usize, change()).prop_map(
        |(from, step, at, change)| {
            (0..40)
                .map(|turn| (from + turn * step, at, change))
                .collect()
        },
    );
    let changes = prop_oneof![4 => many, 1 => loops];
    (
        (dispatcher, prop_oneof![Just(90), Just(100)]),
        prop::collection::vec(member(), 1..8),
        prop::collection::vec(other(), 0..3),
        changes,
        prop::collection::vec(0..=100_u64, 1..5),
    )
        .prop_map(|(rules, members, others, changes, costs)| {
            let mut changes: Vec<_> = changes;
            changes.sort_by_key(|(us, ..)| *us);
            Set {
                dispatcher: rules.0,
                limit_pct: rules.1,
                members,
                others,
                changes,
                costs,
            }
        })
}
