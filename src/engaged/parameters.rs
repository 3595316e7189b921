// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What is set for the clients of an engaged GPU: priority, mode and reserve of a process,
//! cgroup or user.
//!
//! A client follows the most specific spec: that of its process, else of the nearest cgroup around
//! it that has one, else of its user. All clients that follow one share its reserve. A spec is a
//! whole: the other ones add nothing to it.
//!
//! The position of a spec never changes, and its reserve has the next position in
//! [`Submissions`](super::Submissions), see [`reserve_of`].

use super::limits::{SUBMISSION, UNUSED_MOST};
use super::queue::Mode;
use super::reserve::{bears, deadlines, Promise, Refusal, Task, Terms, Why};
use crate::candidate::Prio;
use crate::error::Error;
use crate::share::{Identity, Subject};
use crate::units::Ns;
use core::ops::DerefMut;

/// Most specs of a GPU.
pub const SPECS: usize = 32;

/// Most that is promised, in percent of a GPU.
pub const PROMISED_PCT: u64 = 90;

/// A client without a promise and a command.
const NOTHING: Task = Task {
    promise: None,
    longest: Ns::ZERO,
};

/// What is set for a subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulingParameters {
    /// Its priority; that of the thread that submits if nothing is set.
    pub prio: Option<Prio>,
    /// When it may submit.
    pub mode: Mode,
    /// What is promised to its clients together.
    pub reserve: Option<Terms>,
}

/// A spec and its subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The process, cgroup or user.
    pub subject: Subject,
    /// What is set for it.
    pub spec: SchedulingParameters,
    /// When it ends, if it has a lease.
    pub until: Option<Ns>,
}

impl Row {
    /// A spec without a lease.
    pub const fn new(subject: Subject, spec: SchedulingParameters) -> Self {
        Self {
            subject,
            spec,
            until: None,
        }
    }
}

/// All specs of a GPU. The memory is the caller's, of [`SPECS`] elements.
#[derive(Debug)]
pub struct Specs<R> {
    rows: R,
    promised_pct: u64,
}

impl<R: DerefMut<Target = [Option<Row>]>> Specs<R> {
    /// None is set.
    pub const fn new(rows: R) -> Self {
        Self::up_to(PROMISED_PCT, rows)
    }

    /// None is set, and so much of a GPU is promised at most.
    pub const fn up_to(promised_pct: u64, rows: R) -> Self {
        Self { rows, promised_pct }
    }

    /// The specs with their positions.
    pub fn all(&self) -> impl Iterator<Item = (usize, &Row)> + Clone {
        let rows = self.rows.iter().enumerate();
        rows.filter_map(|(at, row)| Some((at, row.as_ref()?)))
    }

    /// The spec at a position.
    pub fn get(&self, at: usize) -> Option<&Row> {
        self.rows.get(at)?.as_ref()
    }

    /// Whether one protects clients.
    pub fn any_protected(&self) -> bool {
        self.all().any(|(_, row)| row.spec.mode == Mode::Protected)
    }

    /// Position of the spec of a subject.
    pub fn find(&self, subject: Subject) -> Option<usize> {
        let mut all = self.all();
        all.find_map(|(at, row)| (row.subject == subject).then_some(at))
    }

    /// Position of the spec that a process follows.
    pub fn resolve(&self, identity: &Identity) -> Option<usize> {
        // Mostly none is set.
        self.all().next()?;
        identity.subjects().find_map(|subject| self.find(subject))
    }

    /// Sets the spec of a subject, in place of the one before.
    ///
    /// # Errors
    ///
    /// [`Error::Full`]; then nothing has changed.
    pub fn set(&mut self, row: Row) -> Result<(), Error> {
        let vacant = || self.rows.iter().position(Option::is_none);
        let at = self.find(row.subject).or_else(vacant);
        let entry = at.and_then(|at| self.rows.get_mut(at)).ok_or(Error::Full {
            name: "specs",
            max: SPECS,
        })?;
        *entry = Some(row);
        Ok(())
    }

    /// Forgets the spec of a subject.
    ///
    /// # Errors
    ///
    /// [`Error::NotSet`] if there is none.
    pub fn clear(&mut self, subject: Subject) -> Result<(), Error> {
        let at = self.find(subject).ok_or(Error::NotSet)?;
        if let Some(row) = self.rows.get_mut(at) {
            *row = None;
        }
        Ok(())
    }

    /// Forgets specs whose lease is over, and those of subjects that are gone. True if there were any.
    pub fn forget_ended(&mut self, now: Ns, exists: impl Fn(Subject) -> bool) -> bool {
        let mut any = false;
        for entry in self.rows.iter_mut() {
            let has_ended = |row: &Row| {
                let is_over = row.until.is_some_and(|until| until <= now);
                is_over || !exists(row.subject)
            };
            if entry.as_ref().is_some_and(has_ended) {
                *entry = None;
                any = true;
            }
        }
        any
    }

    /// Whether what is set for a subject already can be kept beside all others. `longest` has the
    /// longest command of the clients that follow each spec, and last that of the clients without a
    /// reserve, times how many of them are in flight at most; where a longest command is declared,
    /// that one counts. Positions in a refusal are positions in `longest`.
    ///
    /// No deadline is promised beside a protected client, which nothing stops.
    ///
    /// # Errors
    ///
    /// The first promise that is in danger.
    #[inline(never)]
    pub fn admit(&self, subject: Subject, longest: &[Ns; SPECS + 1]) -> Result<(), Refusal> {
        let Some(own) = self.find(subject) else {
            return Ok(());
        };
        let spec = self.get(own).map(|row| row.spec).unwrap_or_default();
        let is_firm =
            |spec: &SchedulingParameters| spec.reserve.is_some_and(|terms| terms.is_firm());
        let excludes = |other: &SchedulingParameters| match spec.mode {
            Mode::Protected => is_firm(other),
            Mode::Prt | Mode::Ht => is_firm(&spec) && other.mode == Mode::Protected,
        };
        if let Some((of, _)) = self.all().find(|(_, row)| excludes(&row.spec)) {
            return Err(Refusal {
                of,
                why: Why::Protected,
                fits: None,
            });
        }
        if spec.reserve.is_none() {
            return Ok(());
        }
        let mut tasks = [NOTHING; SPECS + 1];
        self.fill_tasks(&mut tasks, longest);
        deadlines(&tasks, SUBMISSION, self.promised_pct).map_err(|refusal| Refusal {
            // Another period of another reserve is not what was asked for.
            fits: refusal.fits.filter(|_| own == refusal.of),
            ..refusal
        })
    }

    /// The longest command of others that the deadline of each spec bears, where something is
    /// promised to it.
    #[inline(never)]
    pub fn bounds(&self) -> [Option<Ns>; SPECS] {
        let mut tasks = [NOTHING; SPECS + 1];
        // It does not depend on how long the commands are.
        self.fill_tasks(&mut tasks, &[Ns::ZERO; SPECS + 1]);
        core::array::from_fn(|at| bears(&tasks, SUBMISSION, self.promised_pct, at))
    }

    /// For admission: what is promised to each spec, and at last clients without a promise.
    fn fill_tasks(&self, tasks: &mut [Task; SPECS + 1], longest: &[Ns; SPECS + 1]) {
        for (at, (task, longest)) in tasks.iter_mut().zip(longest).enumerate() {
            let spec = self.get(at).map(|row| row.spec).unwrap_or_default();
            let declared = spec.reserve.and_then(|terms| terms.longest);
            let declared = declared.map(|longest| longest.saturating_mul(spec.mode.depth()));
            task.longest = declared.unwrap_or(*longest).max(UNUSED_MOST);
            task.promise = spec
                .reserve
                .map(|terms| Promise::of(&terms, spec.mode.depth()));
        }
    }
}

/// Position of the reserve of a spec in [`Submissions`](super::Submissions).
pub const fn reserve_of(spec: usize) -> usize {
    spec.saturating_add(1)
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engaged_specs))]
mod tests {
    use super::super::{Fit, Kind, Why, MAX_GRANT};
    use super::*;

    type Rows = [Option<Row>; 3];

    fn spec(prio: u32) -> SchedulingParameters {
        SchedulingParameters {
            prio: Prio::new(prio).ok(),
            ..SchedulingParameters::default()
        }
    }

    fn promised(capacity_us: u64, period_us: u64) -> Terms {
        let terms = Terms::new(Kind::Cbs, Ns::from_us(capacity_us), Ns::from_us(period_us));
        let longest = Some(Ns::from_us(capacity_us.min(1_000)));
        let terms = Terms {
            longest,
            ..terms.unwrap()
        };
        terms.declared(1).unwrap()
    }

    fn process_7() -> Identity {
        Identity {
            process: 7,
            cgroup: 40,
            user: 1000,
            ..Identity::default()
        }
    }

    #[test]
    fn process_follows_the_most_specific_spec() {
        let mut rows: Rows = [None; 3];
        let mut specs = Specs::new(&mut rows[..]);
        assert_eq!(specs.resolve(&process_7()), None);
        specs.set(Row::new(Subject::User(1000), spec(1))).unwrap();
        specs.set(Row::new(Subject::Cgroup(40), spec(2))).unwrap();
        specs.set(Row::new(Subject::Process(8), spec(3))).unwrap();
        assert_eq!(specs.resolve(&process_7()), Some(1));
        specs.clear(Subject::Cgroup(40)).unwrap();
        assert_eq!(specs.resolve(&process_7()), Some(0));
        specs.set(Row::new(Subject::Process(7), spec(3))).unwrap();
        assert_eq!(specs.resolve(&process_7()), Some(1));
        assert_eq!(specs.clear(Subject::Cgroup(40)), Err(Error::NotSet));
    }

    #[test]
    fn full_table_refuses_a_further_subject_and_changes_nothing() {
        let mut rows: Rows = [None; 3];
        let mut specs = Specs::new(&mut rows[..]);
        for user in 0..3 {
            specs
                .set(Row::new(Subject::User(user), spec(user)))
                .unwrap();
        }
        let full = specs.set(Row::new(Subject::User(3), spec(3)));
        assert!(matches!(full, Err(Error::Full { name: "specs", .. })));
        assert_eq!(specs.set(Row::new(Subject::User(1), spec(9))), Ok(()));
        assert_eq!(specs.get(1).map(|row| row.spec), Some(spec(9)));
        assert_eq!(specs.all().count(), 3);
    }

    #[test]
    fn specs_of_processes_end_with_them() {
        let mut rows: Rows = [None; 3];
        let mut specs = Specs::new(&mut rows[..]);
        specs.set(Row::new(Subject::Process(7), spec(1))).unwrap();
        specs.set(Row::new(Subject::User(7), spec(1))).unwrap();
        assert!(!specs.forget_ended(Ns::ZERO, |_| true));
        assert!(specs.forget_ended(Ns::ZERO, |subject| subject != Subject::Process(7)));
        assert_eq!(specs.all().map(|(at, _)| at).next(), Some(1));
    }

    #[test]
    fn spec_with_a_lease_ends_with_it_unless_it_is_set_again() {
        let mut rows: Rows = [None; 3];
        let mut specs = Specs::new(&mut rows[..]);
        let leased = |until| Row {
            until: Some(Ns::from_ms(until)),
            ..Row::new(Subject::User(1), spec(1))
        };
        specs.set(leased(10)).unwrap();
        specs.set(Row::new(Subject::User(2), spec(2))).unwrap();
        assert!(!specs.forget_ended(Ns::from_ms(9), |_| true));
        specs.set(leased(20)).unwrap();
        assert!(!specs.forget_ended(Ns::from_ms(19), |_| true));
        assert!(specs.forget_ended(Ns::from_ms(20), |_| true));
        assert_eq!(specs.find(Subject::User(1)), None);
        assert_eq!(specs.all().count(), 1);
    }

    #[test]
    fn promises_out_of_range_are_refused() {
        let terms = promised(1000, 10_000);
        assert!(terms.declared(0).is_err());
        assert!(terms.declared(10_001).is_err());
        let longest = Some(Ns::ZERO);
        assert!(Terms { longest, ..terms }.declared(1).is_err());
        // All others pass before one of a firm reserve has ended.
        let longest = Some(MAX_GRANT);
        let long = Terms { longest, ..terms };
        assert!(long.declared(1).is_err());
        assert!(Terms {
            hard: false,
            ..long
        }
        .declared(1)
        .is_ok());
    }

    #[test]
    fn grants_that_are_not_used_are_counted_for_each_reserve() {
        // The longest command of those that are set before, and how many there are.
        let admitted = |short: u64, count: u32| {
            let mut rows = [None; SPECS];
            let mut specs = Specs::new(&mut rows[..]);
            let firm = |capacity, period, longest, commands| {
                let terms = Terms::new(Kind::Cbs, Ns::from_us(capacity), Ns::from_us(period));
                let terms = Terms {
                    longest: Some(Ns::from_us(longest)),
                    ..terms.unwrap()
                };
                SchedulingParameters {
                    reserve: Some(terms.declared(commands).unwrap()),
                    ..spec(0)
                }
            };
            let own = Subject::User(100);
            for user in 0..count {
                let each = firm(short, 5_000, short, 1);
                specs.set(Row::new(Subject::User(user), each)).unwrap();
            }
            specs
                .set(Row::new(own, firm(2_000, 5_000, 250, 8)))
                .unwrap();
            specs.admit(own, &[Ns::ZERO; SPECS + 1]).is_ok()
        };
        assert!(admitted(10, 4));
        // Each may be stopped once with a grant of 260 us for which it asked 10.
        assert!(!admitted(10, 12));
    }

    #[test]
    fn promise_is_judged_beside_the_others_and_the_longest_commands() {
        let mut rows: Rows = [None; 3];
        let mut specs = Specs::new(&mut rows[..]);
        let (ann, ben) = (Subject::User(1), Subject::User(2));
        let mut longest = [Ns::ZERO; SPECS + 1];
        let reserve = |promised| SchedulingParameters {
            reserve: Some(promised),
            ..spec(0)
        };
        // Nothing is promised.
        specs.set(Row::new(ann, spec(0))).unwrap();
        assert_eq!(specs.admit(ann, &longest), Ok(()));
        let half = promised(5_000, 10_000);
        specs.set(Row::new(ann, reserve(half))).unwrap();
        assert_eq!(specs.admit(ann, &longest), Ok(()));
        specs.set(Row::new(ben, reserve(half))).unwrap();
        assert_eq!(specs.admit(ben, &longest).unwrap_err().why, Why::Sum);
        specs
            .set(Row::new(ben, reserve(promised(1_000, 10_000))))
            .unwrap();
        assert_eq!(specs.admit(ben, &longest), Ok(()));
        // A client without a promise submits for 9 ms at a time.
        longest[SPECS] = Ns::from_ms(9);
        let refusal = specs.admit(ben, &longest).unwrap_err();
        // The one that is in danger first is of another client: no period of this one would do.
        assert_eq!((refusal.of, refusal.why), (0, Why::Command(SPECS)));
        assert_eq!(refusal.fits, None);
        specs.clear(ann).unwrap();
        let refusal = specs.admit(ben, &longest).unwrap_err();
        let Some(Fit::Period(period)) = refusal.fits else {
            panic!("{refusal:?}");
        };
        let period = period.get().div_ceil(1_000);
        specs
            .set(Row::new(ben, reserve(promised(1_000, period))))
            .unwrap();
        assert_eq!(specs.admit(ben, &longest), Ok(()));
    }
}
