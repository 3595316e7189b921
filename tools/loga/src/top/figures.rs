// SPDX-License-Identifier: GPL-2.0

//! `[tool]` One GPU's figures between two snapshots, and their history.

use crate::control::Snapshot;
use crate::stat::{Client, Group, Stat};
use std::collections::{HashMap, VecDeque};

/// Values kept of each history: as many as fit on a wide screen.
const HISTORY: usize = 400;

/// Thousandths, the newest first.
pub(super) type History = VecDeque<u64>;

/// One GPU.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    /// Where the next difference begins.
    base: Snapshot,
    pub(super) stat: Stat,
    pub(super) busy: History,
    /// By [`Client::id`].
    pub(super) clients: HashMap<u64, History>,
    /// By [`Group::id`].
    pub(super) groups: HashMap<u64, History>,
}

impl Figures {
    /// The first snapshot: sums since the module was attached.
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Figures {
            stat: Stat::new(&snapshot, None),
            base: snapshot,
            busy: History::new(),
            clients: HashMap::new(),
            groups: HashMap::new(),
        }
    }

    /// The snapshot that the next difference begins at.
    #[cfg(test)]
    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.base
    }

    pub(super) fn gpu(&self) -> u32 {
        self.base.gpu
    }

    /// Whether copies are measured, or were while a client of now was there.
    pub(super) fn copies(&self) -> bool {
        let mut clients = self.stat.clients.iter();
        self.stat.copies || clients.any(|client| client.copy_time_ns.is_some())
    }

    /// The next snapshot. Without a phase that ended since the last one, the shares stay.
    pub(super) fn update(&mut self, now: Snapshot) {
        if now.info.polled_ns < self.base.info.polled_ns {
            // The module was loaded anew.
            *self = Figures::new(now);
            return;
        }
        let mut stat = Stat::new(&now, Some(&self.base));
        if stat.span_ns == 0 {
            keep(&mut stat, &self.stat);
            self.stat = stat;
            return;
        }
        push(&mut self.busy, stat.busy);
        remember(
            &mut self.clients,
            stat.clients.iter().map(|client| (client.id, client.share)),
        );
        remember(
            &mut self.groups,
            stat.groups.iter().map(|group| (group.id, group.share)),
        );
        self.stat = stat;
        self.base = now;
    }
}

fn push(history: &mut History, share: Option<f64>) {
    // CAST: a fraction; saturates.
    history.push_front((share.unwrap_or(0.0) * 1000.0).round() as u64);
    history.truncate(HISTORY);
}

/// Adds to each history, and forgets those of clients that are gone.
fn remember(
    histories: &mut HashMap<u64, History>,
    shares: impl Iterator<Item = (u64, Option<f64>)>,
) {
    let mut kept = HashMap::new();
    for (id, share) in shares {
        let mut history = histories.remove(&id).unwrap_or_default();
        push(&mut history, share);
        kept.insert(id, history);
    }
    *histories = kept;
}

/// Takes over from `old` what only the end of a phase changes.
fn keep(stat: &mut Stat, old: &Stat) {
    stat.interval = old.interval;
    stat.span_ns = old.span_ns;
    stat.polled_ns = old.polled_ns;
    stat.busy = old.busy;
    stat.idle = old.idle;
    stat.unknown = old.unknown;
    stat.copy_busy = old.copy_busy;
    stat.copy_idle = old.copy_idle;
    stat.copy_unknown = old.copy_unknown;
    for client in &mut stat.clients {
        let Some(old) = old.clients.iter().find(|old| old.id == client.id) else {
            continue;
        };
        *client = Client {
            channels: client.channels,
            state: std::mem::take(&mut client.state),
            weight: client.weight,
            limit: client.limit,
            class: std::mem::take(&mut client.class),
            throttled_by: std::mem::take(&mut client.throttled_by),
            group: client.group,
            ..old.clone()
        };
    }
    for group in &mut stat.groups {
        let Some(old) = old.groups.iter().find(|old| old.id == group.id) else {
            continue;
        };
        *group = Group {
            members: group.members,
            weight: group.weight,
            throttled: group.throttled,
            ..old.clone()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::tests::snapshot;
    use loga::uapi;

    #[test]
    fn history_holds_the_share_of_each_interval() {
        let mut figures = Figures::new(snapshot(1));
        assert!(figures.busy.is_empty());
        figures.update(snapshot(2));
        figures.update(snapshot(4));
        assert_eq!(figures.busy, [750, 750]);
        assert_eq!(figures.clients[&2], [600, 600]);
        assert_eq!(figures.groups[&1], [150, 150]);
    }

    #[test]
    fn stat_within_a_phase_keeps_the_shares_but_not_the_state() {
        let mut figures = Figures::new(snapshot(1));
        figures.update(snapshot(2));
        let mut same = snapshot(2);
        same.clients[1].state = uapi::STATE_THROTTLED;
        figures.update(same);
        assert_eq!(figures.busy.len(), 1);
        let client = &figures.stat.clients;
        let client = client.iter().find(|client| client.id == 2).expect("there");
        assert_eq!(client.share, Some(0.6));
        assert_eq!(client.state, "throttled");
        assert!(figures.stat.interval);
    }

    #[test]
    fn client_that_is_gone_is_forgotten_and_a_reload_begins_anew() {
        let mut figures = Figures::new(snapshot(1));
        figures.update(snapshot(2));
        let mut fewer = snapshot(3);
        fewer.clients.remove(0);
        figures.update(fewer);
        assert_eq!(figures.clients.len(), 1);
        figures.update(snapshot(1));
        assert!(figures.busy.is_empty());
        assert!(!figures.stat.interval);
    }
}
