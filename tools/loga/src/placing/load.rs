// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What is bound to a GPU: the clients that the caller sees, by what they did over about the
//! last half a minute; the others, of which the kernel gives sums; and claims.
//!
//! The sums let a user who sees nothing of others make the same choice as root, as long as the
//! others are alike: what the visible clients leave of the sums is divided equally among the rest.

use super::PERCENT;
use crate::control::Snapshot;
use loga::placement::{Bound, Demand, PPM};
use loga::uapi;
use loga::units::{Ns, Weight};

/// Least want of a client that counts as one that wants the GPU.
const WANTING: u64 = PERCENT;

/// A whole GPU, in percent.
const HUNDRED: u32 = 100;

/// What is bound to a GPU.
pub(super) struct Load {
    /// Clients, then claims.
    pub(super) bound: Vec<Bound>,
    /// Clients that the caller sees.
    pub(super) seen: u32,
    /// Clients that it does not see and that want the GPU.
    pub(super) unseen: u32,
}

/// What a client asks of its GPU. One of the idle class has the least weight: it takes what the
/// others leave, as far as its commands are short.
pub fn client_demand(client: &uapi::Client) -> Demand {
    let run = client.measured_ns.checked_div(client.runs).map(Ns::new);
    let weight = match client.class {
        uapi::CLASS_IDLE => Weight::MIN,
        _ => client.weight,
    };
    Demand {
        want: client.means().want_30s().into(),
        copy: client.copy_30s_ppm.into(),
        run: run.unwrap_or(Demand::UNKNOWN.run),
        weight: Weight::new(weight).unwrap_or_default(),
    }
}

/// What is bound to the GPU of a snapshot. A client that wants less than 1 % is bound and wants
/// nothing: it counts for policies that count programs.
pub(super) fn of(snapshot: &Snapshot) -> Load {
    let info = &snapshot.info;
    let demands: Vec<Demand> = snapshot.clients.iter().map(client_demand).collect();
    let wants = demands.iter().map(|one| one.want);
    let visible = wants
        .clone()
        .fold(0, |sum: u64, want| sum.saturating_add(want));
    let wanting = wants.filter(|want| *want >= WANTING).count();
    let wanting = u32::try_from(wanting).unwrap_or(u32::MAX);
    let unseen = info.wanting.saturating_sub(wanting);
    let rest = (u64::from(info.want_30s_pct) * PERCENT).saturating_sub(visible);
    let copied = demands.iter().map(|one| one.copy);
    let copied = copied.fold(0, |sum: u64, copy| sum.saturating_add(copy));
    let rest_copied = (u64::from(info.copy_30s_pct) * PERCENT).saturating_sub(copied);
    let mut bound: Vec<Bound> = demands.iter().map(known).collect();
    bound.extend(others(unseen, rest, rest_copied));
    // Clients that do not show yet what they claimed may be all that claimed: it counts even so.
    let programs = info.claims.max(info.claimed_pct.div_ceil(HUNDRED));
    let claimed = u64::from(info.claimed_pct) * PERCENT;
    bound.extend(alike(programs, claimed, 0));
    Load {
        bound,
        seen: u32::try_from(demands.len()).unwrap_or(u32::MAX),
        unseen,
    }
}

fn known(demand: &Demand) -> Bound {
    let counts = |part: u64| if part < WANTING { 0 } else { part };
    Bound {
        demand: Demand {
            want: counts(demand.want),
            copy: counts(demand.copy),
            ..*demand
        },
        left: None,
    }
}

/// The programs that the caller does not see: `count` of them want the GPU. What they copy is
/// divided among them too; if none wants to compute, one program copies it all.
fn others(count: u32, wanted: u64, copied: u64) -> impl Iterator<Item = Bound> {
    // The sum is rounded to one in a hundred.
    let copied = if copied < WANTING { 0 } else { copied };
    let copier = Bound {
        demand: Demand {
            want: 0,
            copy: copied.min(PPM),
            ..Demand::UNKNOWN
        },
        left: None,
    };
    let copier = (count == 0 && copied > 0).then_some(copier);
    copier.into_iter().chain(alike(count, wanted, copied))
}

/// So many programs that want `wanted` together, each of them 1 % at least, and copy for `copied`.
fn alike(count: u32, wanted: u64, copied: u64) -> impl Iterator<Item = Bound> {
    let part = |whole: u64| whole.checked_div(count.into()).unwrap_or(0);
    let one = Bound {
        demand: Demand {
            want: part(wanted).clamp(WANTING, PPM),
            copy: part(copied).min(PPM),
            ..Demand::UNKNOWN
        },
        left: None,
    };
    std::iter::repeat_n(one, count as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client by its busy and waited parts in percent, and the length of its runs.
    fn client(busy: u32, waited: u32, run_us: u64) -> uapi::Client {
        uapi::Client {
            weight: 100,
            busy_30s_ppm: busy * 10_000,
            waited_30s_ppm: waited * 10_000,
            measured_ns: 7 * run_us * 1000,
            runs: 7,
            ..Default::default()
        }
    }

    fn snapshot(clients: Vec<uapi::Client>, wanting: u32, want_30s_pct: u32) -> Snapshot {
        Snapshot {
            info: uapi::Gpu {
                wanting,
                want_30s_pct,
                ..Default::default()
            },
            clients,
            ..Default::default()
        }
    }

    fn wants(load: &Load) -> Vec<u64> {
        let wants = load.bound.iter().map(|one| one.demand.want / 10_000);
        wants.collect()
    }

    #[test]
    fn demand_of_a_client_has_its_runs_and_its_weight() {
        let mut one = client(20, 0, 3000);
        assert_eq!(client_demand(&one).run, Ns::from_us(3000));
        assert_eq!(client_demand(&one).weight.get(), 100);
        one.class = uapi::CLASS_IDLE;
        assert_eq!(client_demand(&one).weight.get(), 1);
        // Sparse accounting counts no runs.
        one.runs = 0;
        assert_eq!(client_demand(&one).run, Ns::from_us(500));
    }

    #[test]
    fn clients_that_are_not_seen_share_what_the_visible_ones_leave() {
        let load = of(&snapshot(vec![client(20, 0, 100)], 3, 100));
        assert_eq!(wants(&load), [20, 40, 40]);
        assert_eq!((load.seen, load.unseen), (1, 2));
        // All are seen: what rounding left is of none.
        let load = of(&snapshot(vec![client(20, 0, 100)], 1, 21));
        assert_eq!(wants(&load), [20]);
        // Others want it, if little: the sum is rounded.
        let load = of(&snapshot(vec![client(20, 0, 100)], 2, 20));
        assert_eq!(wants(&load), [20, 1]);
    }

    #[test]
    fn client_that_wants_next_to_nothing_is_bound_without_a_want() {
        let mut idle = client(0, 0, 100);
        idle.busy_30s_ppm = 9_999;
        let load = of(&snapshot(vec![idle], 0, 0));
        assert_eq!(load.bound.len(), 1);
        assert_eq!(load.bound[0].demand.want, 0);
        assert_eq!(load.seen, 1);
    }

    #[test]
    fn copies_are_those_measured_and_of_others_what_the_sum_leaves() {
        let mut copier = client(0, 0, 100);
        copier.copy_30s_ppm = 300_000;
        let copies = |load: &Load| -> Vec<u64> {
            let copies = load.bound.iter().map(|one| one.demand.copy / 10_000);
            copies.collect()
        };
        let mut both = snapshot(vec![copier], 2, 40);
        both.info.copy_30s_pct = 70;
        assert_eq!(copies(&of(&both)), [30, 20, 20]);
        // One that is not seen copies, and none computes.
        both.info.wanting = 0;
        let load = of(&both);
        assert_eq!((copies(&load), wants(&load)), (vec![30, 40], vec![0, 0]));
        // All is seen; the rest is of rounding.
        both.info.copy_30s_pct = 30;
        assert_eq!(copies(&of(&both)), [30]);
    }

    #[test]
    fn claims_are_programs_that_want_what_they_claimed() {
        let mut both = snapshot(vec![client(50, 0, 100)], 1, 50);
        both.info.claims = 2;
        both.info.claimed_pct = 60;
        assert_eq!(wants(&of(&both)), [50, 30, 30]);
        assert_eq!(of(&both).unseen, 0);
        // Those of clients that do not show what they claimed yet.
        both.info.claims = 0;
        assert_eq!(wants(&of(&both)), [50, 60]);
        both.info.claimed_pct = 150;
        assert_eq!(wants(&of(&both)), [50, 75, 75]);
        both.info.claimed_pct = 0;
        assert_eq!(wants(&of(&both)), [50]);
    }
}
