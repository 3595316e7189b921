// SPDX-License-Identifier: GPL-2.0

//! What engaged scheduling knows of clients: priorities, modes, reserves.

use loga::engaged::{Mode, Prio, Terms};

/// What engaged scheduling knows of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Engagement {
    /// How important it is.
    pub prio: Prio,
    /// When it may submit.
    pub mode: Mode,
    /// What it is promised, if anything.
    pub promise: Option<Promise>,
}

/// A reserve of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Promise {
    /// Its own.
    Own(Terms),
    /// The one at this position in the scenario.
    Shared(usize),
}

/// A reserve that clients share, of each GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// Its name; unique.
    pub name: String,
    /// What is promised.
    pub terms: Terms,
}
