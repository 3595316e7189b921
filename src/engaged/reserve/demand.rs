// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What a set of promises asks of an engine up to each deadline, for
//! [`deadlines`](crate::engaged::deadlines).

use super::Terms;
use crate::fair::mul_div;
use crate::units::Ns;

/// One, in parts of an engine.
pub(super) const WHOLE: u64 = 1 << 32;
/// Longest deadline that is looked for.
const LONGEST: Ns = Ns::from_ms(10_000);

/// What a client is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// GPU time in each period.
    pub capacity: Ns,
    /// By when, from the begin of the period.
    pub deadline: Ns,
    /// The period.
    pub period: Ns,
    /// Most commands in a period.
    pub commands: u64,
    /// What a firm reserve is charged for a command when it starts; nothing if no deadline is
    /// promised.
    pub ask: Option<Ns>,
    /// By how much a command, or a grant that is not used, may take more than was left.
    pub overrun: Ns,
}

impl Promise {
    /// Of a reserve with so many submissions in flight at most.
    pub fn of(terms: &Terms, depth: u64) -> Self {
        Self {
            capacity: terms.capacity,
            deadline: terms.deadline,
            period: terms.period,
            commands: terms.commands,
            ask: terms.ask(),
            overrun: terms.overrun().saturating_mul(depth),
        }
    }
}

/// A client, with or without a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// What it is promised, if anything.
    pub promise: Option<Promise>,
    /// Its longest command, times how many of them are in flight at most.
    pub longest: Ns,
}

/// A later deadline of a promise with which it can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// This one, within its period.
    Deadline(Ns),
    /// At the end of a period of this length.
    Period(Ns),
}

/// What endangers a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Too much is promised.
    Sum,
    /// A command of the client at this position is too long.
    Command(usize),
    /// The costs of submissions are too high.
    Costs,
    /// A protected client, or a deadline beside the one that is to be protected.
    Protected,
}

/// `time / of`, rounded up.
pub(super) fn part(time: Ns, of: Ns) -> u64 {
    mul_div(time.get(), WHOLE, of.get().max(1)).saturating_add(1)
}

/// Clients, of which one may have another deadline than it says.
pub(super) struct Set<'a> {
    tasks: &'a [Task],
    delta: Ns,
    limit: u64,
    changed: Option<(usize, Ns)>,
}

impl<'a> Set<'a> {
    pub(super) fn new(tasks: &'a [Task], delta: Ns, limit_pct: u64) -> Self {
        Self {
            tasks,
            delta,
            limit: WHOLE / 100 * limit_pct.min(100),
            changed: None,
        }
    }
}

impl Set<'_> {
    /// The promise of a client.
    fn promise(&self, at: usize) -> Option<Promise> {
        let promise = self.tasks.get(at)?.promise?;
        Some(match self.changed {
            Some((changed, deadline)) if changed == at => Promise {
                deadline,
                period: promise.period.max(deadline),
                ..promise
            },
            _ => promise,
        })
    }

    /// The promise of a client, if its deadline is promised.
    fn firm(&self, at: usize) -> Option<Promise> {
        self.promise(at).filter(|promise| promise.ask.is_some())
    }

    /// The first promise that is in danger, and by what.
    pub(super) fn danger(&self) -> Option<(usize, Why)> {
        (0..self.tasks.len()).find_map(|at| Some((at, self.danger_of(at)?)))
    }

    /// What endangers the promise to a client.
    fn danger_of(&self, at: usize) -> Option<Why> {
        let own = self.promise(at)?;
        let all = (0..self.tasks.len()).filter_map(|other| self.promise(other));
        let (parts, fees) = self.add(all.map(|promise| (promise, promise.period)));
        if parts > self.limit {
            return Some(Why::Sum);
        } else if parts.saturating_add(fees) > self.limit {
            return Some(Why::Costs);
        } else if own.ask.is_none() {
            return None;
        }
        let until = own.deadline;
        let (sum, costs) = self.demand(until);
        let blocking = self.blocking(at, until);
        let (command, other) = blocking.unwrap_or((Ns::ZERO, at));
        if sum > self.limit {
            Some(Why::Sum)
        } else if sum.saturating_add(costs) > self.limit {
            Some(Why::Costs)
        } else if sum
            .saturating_add(costs)
            .saturating_add(part(command, until))
            > self.limit
        {
            Some(Why::Command(other))
        } else {
            None
        }
    }

    /// What the deadline of a client bears, see [`bears`](crate::engaged::bears).
    pub(super) fn bears(&self, at: usize) -> Option<Ns> {
        let own = self.firm(at)?;
        let firm = (0..self.tasks.len()).filter_map(|other| Some((other, self.firm(other)?)));
        let later = firm.filter(|(_, other)| other.deadline >= own.deadline);
        let borne = later.map(|(_, other)| {
            let (sum, costs) = self.demand(other.deadline);
            let left = self.limit.saturating_sub(sum).saturating_sub(costs);
            Ns::new(mul_div(other.deadline.get(), left, WHOLE))
        });
        borne.min()
    }

    /// Firm promises whose deadline is not later than this, with their positions.
    fn due(&self, until: Ns) -> impl Iterator<Item = (usize, Promise)> + '_ {
        let firm = (0..self.tasks.len()).filter_map(|at| Some((at, self.firm(at)?)));
        firm.filter(move |(_, promise)| promise.deadline <= until)
    }

    /// What is promised up to a deadline, with what all but one may overrun by, and the costs of
    /// submissions, in parts of the engine.
    fn demand(&self, until: Ns) -> (u64, u64) {
        let overruns = || self.due(until).map(|(_, promise)| promise.overrun);
        let all = overruns().fold(Ns::ZERO, Ns::saturating_add);
        // The one whose deadline it is does not overrun, whichever that is.
        let others = all.saturating_sub(overruns().min().unwrap_or(Ns::ZERO));
        let within = |(_, promise): (usize, Promise)| {
            let time = promise.deadline.min(promise.period);
            (promise, time)
        };
        let (sum, costs) = self.add(self.due(until).map(within));
        (
            sum.saturating_add(part(others, until)),
            costs.saturating_add(part(self.delta, until)),
        )
    }

    /// The longest that a command which began before may keep up to the deadline of a client from
    /// the engine what is due by then, beyond what its own client is counted with; and whose it is.
    fn blocking(&self, at: usize, until: Ns) -> Option<(Ns, usize)> {
        // Of a client alone, nothing was due while its own ran.
        let alone = self.due(until).nth(1).is_none();
        let others = (0..self.tasks.len()).filter(|other| *other != at || !alone);
        let blocks = others.map(|other| (self.blocks(other, until), other));
        blocks.max_by_key(|(command, _)| *command)
    }

    /// What promises add up to, each within its time, and the costs of submissions.
    fn add(&self, promises: impl Iterator<Item = (Promise, Ns)>) -> (u64, u64) {
        promises.fold((0, 0), |(sum, costs), (promise, within)| {
            let cost = self.delta.saturating_mul(promise.commands);
            (
                sum.saturating_add(part(promise.capacity, within)),
                costs.saturating_add(part(cost, within)),
            )
        })
    }

    /// How long a command of a client may keep from the engine what is due by a deadline, beyond what
    /// the client is counted with up to it.
    ///
    /// One whose deadline is later: its longest. Another one may run on budgets of later periods. All
    /// that it uses from then on, with that, is less than a capacity and what it asks for, if more
    /// of it is due; else it is one command.
    fn blocks(&self, at: usize, until: Ns) -> Ns {
        let longest = self.tasks.get(at).map_or(Ns::ZERO, |task| task.longest);
        let Some(promise) = self.firm(at).filter(|one| one.deadline <= until) else {
            return longest;
        };
        let ask = promise.ask.unwrap_or(Ns::ZERO).saturating_add(self.delta);
        let time = promise.deadline.min(promise.period).get().max(1);
        let counted = Ns::new(mul_div(promise.capacity.get(), until.get(), time));
        let ahead = promise.capacity.saturating_add(ask).saturating_sub(counted);
        let once = longest
            .saturating_sub(promise.overrun)
            .saturating_sub(counted);
        ahead.max(once)
    }

    /// A later deadline of a client, as what would be asked for.
    pub(super) fn fit(&self, at: usize, later: Ns) -> Fit {
        match self.promise(at).filter(|promise| later <= promise.period) {
            Some(_) => Fit::Deadline(later),
            None => Fit::Period(later),
        }
    }

    /// A later deadline of a client with which no deadline is in danger: between one that is not
    /// enough and the next power of two that is, as early as bisection finds one.
    pub(super) fn fits(&self, at: usize) -> Option<Ns> {
        let first = self.promise(at)?.deadline;
        let admitted = |deadline| {
            let changed = Some((at, deadline));
            Self { changed, ..*self }.danger().is_none()
        };
        let doubled = |deadline: &Ns| Some(deadline.saturating_mul(2).max(Ns::new(1)));
        let mut later = core::iter::successors(doubled(&first), doubled)
            .take_while(|deadline| *deadline <= LONGEST.saturating_mul(2));
        let mut enough = later.find_map(|deadline| {
            let deadline = deadline.min(LONGEST);
            admitted(deadline).then_some(deadline)
        })?;
        let mut short = first;
        while enough.saturating_sub(short) > Ns::new(1) {
            let middle = Ns::new(short.get().midpoint(enough.get()));
            if admitted(middle) {
                enough = middle;
            } else {
                short = middle;
            }
        }
        Some(enough)
    }
}
