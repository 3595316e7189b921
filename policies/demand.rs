// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What `maxmin` knows of the demand of a client, of each of the two engines.

use super::ClientState;
use crate::units::{Ns, VTime};

/// What is known of a client's demand of one engine. The times fade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OfEngine {
    /// Time used.
    pub(super) used: Ns,
    /// Time not spent waiting.
    pub(super) free: Ns,
    /// Time in which both were measured.
    pub(super) measured: Ns,
    /// The share of the engine that follows from the first two; zero while the client wants nothing.
    pub(super) want: u64,
}

/// What is known of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    pub(super) compute: OfEngine,
    pub(super) copies: OfEngine,
    /// Its virtual time of the copy engine.
    pub(super) copy_vtime: VTime,
}

/// What is known of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Level {
    /// The last level.
    pub(super) level: u64,
    /// Its system virtual time; that of the compute engine is the caller's.
    pub(super) t_sys: VTime,
}

/// One of the two engines: where its part of everything is.
pub(super) trait Engine {
    fn used(client: &ClientState) -> Ns;
    fn waited(client: &ClientState) -> Ns;
    /// Time used while it was held back: its virtual time has grown by that over its weight.
    fn paid(client: &ClientState) -> Ns;
    fn of(demand: &Demand) -> &OfEngine;
    fn of_mut(demand: &mut Demand) -> &mut OfEngine;
    /// Whether a client that is throttled still wants it.
    fn still_wanted(demand: &Demand) -> bool;
    fn vtime(client: &ClientState) -> VTime;
    fn vtime_mut(client: &mut ClientState) -> &mut VTime;
}
