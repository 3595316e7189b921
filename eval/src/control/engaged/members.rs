// SPDX-License-Identifier: GPL-2.0

//! What is kept of each client, and what is set for all of them.

use crate::scenario::{Client, Promise, Shared};
use loga::engaged::{Mode, Prio, Row, SchedulingParameters, Specs, SPECS};
use loga::error::Error;
use loga::share::Subject;
use std::collections::BTreeMap;

/// What is set for all clients.
type Table = Specs<Vec<Option<Row>>>;

/// What the thread of a client is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Thread {
    /// It runs, or waits for something else.
    #[default]
    Runs,
    /// Its store faults, and is decided on then.
    Faults,
    /// Its store passes.
    Enters,
    /// It sleeps at its wait queue, or is being woken.
    Sleeps,
}

/// A client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Member {
    pub(super) user: u32,
    pub(super) spec: Option<usize>,
    pub(super) prio: Prio,
    pub(super) protected: bool,
    /// Its wait queue, while it is there.
    pub(super) at: Option<usize>,
    /// Whether it is protected, and its stores are not stopped.
    pub(super) passes: bool,
    pub(super) thread: Thread,
    /// Whether its page has an entry.
    pub(super) entry: bool,
    since: u64,
    waited: u64,
    /// What its submissions were charged; nothing if it shares its wait queue.
    pub(super) charged: Option<u64>,
}

impl Member {
    /// Its thread sleeps from now on.
    pub(super) fn sleep(&mut self, now: u64) {
        self.thread = Thread::Sleeps;
        self.since = now;
    }

    /// It does so no longer.
    pub(super) fn wake(&mut self, now: u64) {
        self.waited = self.waited_up_to(now);
        self.thread = Thread::Runs;
    }

    /// For how long it has slept.
    pub(super) fn waited_up_to(&self, now: u64) -> u64 {
        match self.thread {
            Thread::Sleeps => self.waited + (now - self.since),
            _ => self.waited,
        }
    }
}

/// What is set: one spec for each reserve, and one for the clients of each mode without a reserve;
/// and the clients.
///
/// # Errors
///
/// More of them than there is room for.
pub(super) fn specs_and_members(
    clients: &[&Client],
    shared: &[Shared],
) -> Result<(Table, Vec<Member>), Error> {
    let mut specs = Specs::new(vec![None; SPECS]);
    let mut count = 0;
    let mut set = |spec: SchedulingParameters| {
        // CAST: few specs.
        specs.set(Row::new(Subject::Process(count as u64), spec))?;
        count += 1;
        Ok(count - 1)
    };
    let of = |mode, reserve| SchedulingParameters {
        mode,
        reserve,
        ..SchedulingParameters::default()
    };
    let mut reserves = Vec::new();
    for (at, one) in shared.iter().enumerate() {
        // Its clients have one mode: see `scenario/engaged.rs`.
        let joins = |client: &&&Client| client.engaged.promise == Some(Promise::Shared(at));
        let mode = clients.iter().find(joins).map(|one| one.engaged.mode);
        reserves.push(set(of(mode.unwrap_or_default(), Some(one.terms)))?);
    }
    let mut modes: Vec<(Mode, usize)> = Vec::new();
    let mut users = BTreeMap::new();
    let mut members = Vec::new();
    for client in clients {
        let mode = client.engaged.mode;
        let known = modes.iter().find(|(known, _)| *known == mode);
        let spec = match (client.engaged.promise, known) {
            (Some(Promise::Shared(at)), _) => Some(reserves[at]),
            (Some(Promise::Own(terms)), _) => Some(set(of(mode, Some(terms)))?),
            (None, _) if mode == Mode::Prt => None,
            (None, Some((_, at))) => Some(*at),
            (None, None) => {
                modes.push((mode, set(of(mode, None))?));
                modes.last().map(|(_, at)| *at)
            }
        };
        // CAST: at most 4096 clients.
        let next = (users.len() + members.len()) as u32;
        members.push(Member {
            user: match &client.user {
                Some(name) => *users.entry(name).or_insert(next),
                None => next,
            },
            spec,
            prio: client.engaged.prio,
            protected: mode == Mode::Protected,
            ..Member::default()
        });
    }
    Ok((specs, members))
}
