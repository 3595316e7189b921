// SPDX-License-Identifier: GPL-2.0

//! `[pure]` A submission in flight, as its reserve knows it: who pays for it, what was charged, and what
//! is promised of it. `turn` keeps those that there are.

use super::missed::Void;
use crate::share::Rate;
use crate::units::Ns;

/// Who pays for a submission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Payer {
    /// Nothing was promised to its client.
    #[default]
    Unpromised,
    /// The reserve at this position.
    Reserve(usize),
    /// Its reserve is gone, which had this rate: the one that its client has at its end, or what is set
    /// afterwards, which begins when it is paid for.
    Gone(Rate),
}

/// What is promised of a submission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bond {
    /// When it is due, if that is promised.
    pub(super) due: Option<Ns>,
    /// What was broken when it started.
    pub(super) void: Option<Void>,
    /// What its reserve had left when it started, less what those have used since that were in flight:
    /// later starts may fill up what is left.
    pub(super) room: i64,
}

/// A submission in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flight {
    /// Cost that its reserve was told, with the fee.
    pub(super) charged: Ns,
    /// What it pays beside what it uses.
    pub(super) fee: Ns,
    /// What it is charged at most if it is not known what it used.
    pub(super) most: Ns,
    /// Its reserve was changed since: what was charged is not given back.
    pub(super) stale: bool,
    /// Whether another client was on the engine before.
    switched: bool,
    /// Who pays for it.
    pub(super) payer: Payer,
    /// Whether it passed since it had waited for too long.
    floor: bool,
    /// What is promised of it.
    pub(super) bond: Bond,
}

impl Flight {
    /// One of a client to which nothing is promised, and of which this is expected.
    pub(crate) fn new(expected: Ns, switched: bool, floor: bool) -> Self {
        Self {
            charged: expected,
            most: expected,
            switched,
            floor,
            ..Self::default()
        }
    }

    /// The position of its reserve, if that is still there.
    pub(crate) const fn reserve(&self) -> Option<usize> {
        match self.payer {
            Payer::Reserve(at) => Some(at),
            Payer::Unpromised | Payer::Gone(_) => None,
        }
    }

    /// Whether another client was on the engine before.
    pub(crate) const fn is_switched(&self) -> bool {
        self.switched
    }

    /// Whether it passed since it had waited for too long.
    pub(crate) const fn is_of_floor(&self) -> bool {
        self.floor
    }

    /// What was charged for it at its start.
    pub(crate) const fn charged(&self) -> Ns {
        self.charged
    }

    /// What it is charged at most if it is not known what it used.
    pub(crate) const fn most(&self) -> Ns {
        self.most
    }

    /// It is late by its client's own work if it waits for one that was granted under other terms than
    /// its client has now, at the end of which this is called.
    pub(crate) fn blame_change(&mut self, ended: &Self, now: usize) {
        if ended.stale || ended.reserve().is_none_or(|before| before != now) {
            self.bond.void = self.bond.void.or(Some(Void::Own));
        }
    }

    /// What its reserve pays for it.
    pub(super) fn pays(&self, used: Ns) -> Ns {
        let used = used.saturating_add(self.fee);
        match self.stale {
            true => used.max(self.charged),
            false => used,
        }
    }
}
