// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What a reserve promises, and what each kind of reserve says and is told.

use crate::candidate::Offer;
use crate::engaged::limits::{MAX_GRANT, SUBMISSION, UNUSED_MOST};
use crate::error::{in_range, Error};
use crate::fair::mul_div;
use crate::share::{CoarseTerms, Rate};
use crate::units::{signed, unsigned, Ns};

/// Most submissions in a period that may be declared.
const MAX_COMMANDS: u64 = 10_000;

/// How a reserve is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Posterior enforcement: a command starts while anything is left, and may overrun.
    Pe,
    /// Apriori enforcement: a command starts when what it is expected to take is left.
    Ae,
    /// Constant-bandwidth server: a command that does not fit postpones the deadline first.
    Cbs,
}

/// What is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How it is kept.
    pub kind: Kind,
    /// GPU time in each period.
    pub capacity: Ns,
    /// The period.
    pub period: Ns,
    /// By when what has its budget is done, from the begin of a period on: at its end, or earlier if
    /// deadlines are promised.
    pub deadline: Ns,
    /// Whether no more may be used.
    pub hard: bool,
    /// The longest command, if its owner says.
    pub longest: Option<Ns>,
    /// Most commands in each period that cost nothing beside what they use.
    pub commands: u64,
    /// What each further one is charged beside what it uses.
    pub submission: Ns,
}

impl Terms {
    /// A hard reserve.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for a capacity that is not 10 us to 10 s, a period that is not 1 ms to
    /// 10 s, or a capacity above the period.
    pub fn new(kind: Kind, capacity: Ns, period: Ns) -> Result<Self, Error> {
        in_range("period_us", period.get() / 1000, 1_000, 10_000_000)?;
        in_range(
            "capacity_us",
            capacity.get() / 1000,
            10,
            period.get() / 1000,
        )?;
        Ok(Self {
            kind,
            capacity,
            period,
            deadline: period,
            hard: true,
            longest: None,
            commands: 1,
            submission: Ns::ZERO,
        })
    }

    /// With a deadline before the end of its period.
    ///
    /// # Errors
    ///
    /// [`Error::NoDeadline`] if none is promised ([`is_firm`](Self::is_firm));
    /// [`Error::OutOfRange`] for one that is below the capacity or above the period.
    pub fn due(self, deadline: Ns) -> Result<Self, Error> {
        if !self.is_firm() {
            return Err(Error::NoDeadline);
        }
        let (least, most) = (self.capacity.get().div_ceil(1000), self.period.get() / 1000);
        in_range("deadline_us", deadline.get() / 1000, least, most)?;
        Ok(Self {
            // Microseconds were compared.
            deadline: deadline.min(self.period),
            ..self
        })
    }

    /// What is promised in a spec, with so many submissions in a period at most that cost nothing
    /// beside what they use.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for submissions that are not 1 to 10000, or a longest command that is
    /// not 1 us to 10 s; of a firm reserve, below [`MAX_GRANT`], after which all others pass.
    pub fn declared(self, commands: u64) -> Result<Self, Error> {
        in_range("commands", commands, 1, MAX_COMMANDS)?;
        if let Some(longest) = self.longest {
            let most = match self.is_firm() {
                true => MAX_GRANT.get() / 1000 - 1,
                false => 10_000_000,
            };
            in_range("longest_us", longest.get() / 1000, 1, most)?;
        }
        Ok(Self {
            commands,
            submission: SUBMISSION,
            ..self
        })
    }

    /// By how much a submission is due before the deadline of its server.
    pub(super) fn lead(&self) -> Ns {
        self.period.saturating_sub(self.deadline)
    }

    /// Whether its deadlines are promised, if the earliest deadline is first and it was admitted:
    /// for a hard CBS reserve whose longest command is declared. All others promise a part of the
    /// GPU only: PE and AE may use twice their capacity around the end of a period, and the commands
    /// of a soft reserve, and commands of any length, may start at any time.
    pub fn is_firm(&self) -> bool {
        self.kind == Kind::Cbs && self.hard && self.longest.is_some()
    }

    /// What is promised while submissions are not decided on.
    pub const fn coarse(&self) -> CoarseTerms {
        CoarseTerms {
            rate: Rate {
                capacity: self.capacity,
                period: self.period,
            },
            hard: self.hard,
        }
    }

    /// What a firm reserve is charged for a command when it starts; nothing for others.
    ///
    /// The longest, if what is left is that much before each of the declared commands, or if a
    /// command needs several periods anyway. Otherwise next to nothing: what several commands of one
    /// submission take is known only at its end, and the last of them may overrun.
    pub fn ask(&self) -> Option<Ns> {
        let longest = self.longest.filter(|_| self.is_firm())?;
        let all = longest.saturating_mul(self.commands);
        let fits = all <= self.capacity || longest > self.capacity;
        Some(if fits { longest } else { Ns::new(1) })
    }

    /// What a reserve is charged for a command when it starts: what a firm one asks for, else what is
    /// expected, and not more than the longest that its owner has declared.
    pub(super) fn charge(&self, expected: Ns) -> Ns {
        let cost = self
            .longest
            .map_or(expected, |longest| expected.min(longest));
        self.ask().unwrap_or(cost)
    }

    /// By how much a command, or a grant that is not used, may take more than what a firm reserve had
    /// left when it started.
    pub fn overrun(&self) -> Ns {
        self.ask().map_or(Ns::ZERO, |asked| {
            let longest = self.longest.unwrap_or(Ns::ZERO);
            longest.max(UNUSED_MOST).saturating_sub(asked)
        })
    }

    /// The time in which this capacity accrues, rounded up.
    pub(super) fn time_for(&self, capacity: Ns) -> Ns {
        let (c, t) = (self.capacity.get().max(1), self.period.get());
        let down = mul_div(capacity.get(), t, c);
        // Exact in all but the last: a product that is too large for this is so after rounding too.
        let exact = down.checked_mul(c) == capacity.get().checked_mul(t);
        Ns::new(down.saturating_add(u64::from(!exact)))
    }

    /// Up to when what was used is paid for, with this much left of a period that ends then.
    pub(super) fn paid_until(&self, left: i64, ends: Ns) -> Ns {
        let used = unsigned(signed(self.capacity).saturating_sub(left));
        ends.saturating_sub(self.period)
            .saturating_add(self.time_for(used))
    }

    /// The capacity that accrues in this time, rounded down.
    pub(super) fn capacity_in(&self, time: Ns) -> Ns {
        Ns::new(mul_div(time.get(), self.capacity.get(), self.period.get()))
    }
}

/// What keeps a reserve of one kind.
pub(super) trait Keeper {
    /// A command of this expected cost waits, or the reserve is without any since then: `None`.
    /// `idle`: none waited and none was in flight.
    fn wanted(&mut self, terms: &Terms, now: Ns, cost: Option<Ns>, idle: bool);
    /// When a command of this expected cost may start.
    fn offer(&self, terms: &Terms, now: Ns, cost: Ns) -> Offer;
    /// A command starts.
    fn start(&mut self, terms: &Terms, now: Ns, cost: Ns);
    /// It has ended.
    fn end(&mut self, terms: &Terms, now: Ns, cost: Ns, used: Ns);
    /// Promises something else from now on.
    fn resize(&mut self, before: &Terms, now: Ns);
    /// What is left, negative for a debt.
    fn left(&self, terms: &Terms, now: Ns) -> i64;
    /// Up to when what was used is paid for.
    fn paid_until(&self, terms: &Terms, now: Ns) -> Ns;
}
