// SPDX-License-Identifier: GPL-2.0

//! `[pure]` A client that is ready to submit, as a dispatcher sees it.
//!
//! [`engaged`](crate::engaged) makes candidates, and a [dispatcher](crate::policies::dispatch) puts
//! them in order. Neither has to be known here.

use crate::error::{in_range, Error};
use crate::units::Ns;

/// How important a client is: 0 to 39, as 19 minus its nice value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prio(u8);

impl Prio {
    /// Of a client for which nothing is set.
    pub const LOWEST: Self = Self(0);
    /// The most important.
    pub const HIGHEST: Self = Self(39);
    /// That of nice 0.
    pub const NORMAL: Self = Self(19);

    /// This priority.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] above 39.
    pub fn new(raw: u32) -> Result<Self, Error> {
        in_range("prio", raw.into(), 0, Self::HIGHEST.0.into())?;
        Ok(Self(u8::try_from(raw).unwrap_or(0)))
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for Prio {
    fn default() -> Self {
        Self::LOWEST
    }
}

/// Who comes before whom, whatever the dispatcher: the lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// A reserve, up to its part.
    Part,
    /// A client without a reserve.
    Free,
    /// A soft reserve, beyond its part.
    Beyond,
}

/// When a command may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Not before this time.
    pub from: Ns,
    /// By when it is to end, if its reserve says so.
    pub deadline: Option<Ns>,
    /// By when that is promised.
    pub promised: Option<Ns>,
    /// What it uses.
    pub rank: Rank,
}

/// A client that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its priority.
    pub prio: Prio,
    /// What its reserve says of its next command.
    pub offer: Offer,
}
