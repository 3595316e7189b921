// SPDX-License-Identifier: GPL-2.0

//! `[double]` The contract of placement as checks on random pools, run with every policy of the table.

use super::{choose, Bound, Cost, Demand, Gpu, Needs, Newcomer, Placement, PPM, STATIC};
use crate::random::XorShift;
use crate::units::{Ns, Weight};
use core::cmp::Reverse;
use std::format;
use std::string::String;
use std::vec::Vec;

/// GPUs of a random pool, at most.
const GPUS: u64 = 8;
/// Programs on each, at most.
const PROGRAMS: u64 = 6;

struct Random(XorShift);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        let bits = u64::from(self.0.bits16()) << 16 | u64::from(self.0.bits16());
        bits % end.max(1)
    }

    /// Mostly moderate, now and then the largest there is.
    fn number(&mut self, moderate: u64) -> u64 {
        match self.below(40) {
            0 => u64::MAX,
            1 => 0,
            _ => self.below(moderate),
        }
    }

    fn demand(&mut self) -> Demand {
        Demand {
            want: self.number(PPM),
            copy: self.number(PPM / 4),
            run: Ns::new(self.number(3_000_000)),
            weight: Weight::new(self.below(1000) as u32).unwrap_or_default(),
        }
    }

    fn time(&mut self) -> Option<Ns> {
        (self.below(2) == 0).then(|| Ns::new(self.number(60_000_000_000)))
    }

    fn programs(&mut self) -> Vec<Bound> {
        let count = self.below(PROGRAMS);
        let one = |_| Bound {
            demand: self.demand(),
            left: self.time(),
        };
        (0..count).map(one).collect()
    }
}

/// The first thing that a random pool breaks, if it breaks something.
pub(super) fn run(policy: Placement, seed: u64) -> Option<String> {
    let mut random = Random(XorShift::new(seed));
    let count = random.below(GPUS);
    let bound: Vec<_> = (0..count).map(|_| random.programs()).collect();
    let pool: Vec<_> = bound
        .iter()
        .map(|bound| Gpu {
            open: random.below(4) != 0,
            local: random.below(2) == 0,
            speed: random.below(PPM) + 1,
            bound,
        })
        .collect();
    let newcomer = Newcomer {
        demand: random.demand(),
        known: random.below(2) == 0,
        time: random.time(),
    };
    let last = (random.below(3) != 0).then(|| random.below(GPUS) as usize);
    check(policy, &pool, &newcomer, last)
}

fn check(
    policy: Placement,
    pool: &[Gpu<'_>],
    newcomer: &Newcomer,
    last: Option<usize>,
) -> Option<String> {
    let costs: Vec<Option<Cost>> = (0..pool.len())
        .map(|at| policy.cost(pool, at, newcomer, last))
        .collect();
    let chosen = choose(policy, pool, newcomer, last);
    let least = costs.iter().flatten().min();
    if chosen.and_then(|at| costs[at].as_ref()) != least {
        return Some(format!("{chosen:?} is not of the least cost in {costs:?}"));
    }
    let open = |at: usize| pool[at].open;
    if (0..pool.len()).any(|at| costs[at].is_some() != open(at)) {
        return Some(format!(
            "a cost without an open GPU, or the reverse: {costs:?}"
        ));
    }
    if let Some(at) = (0..pool.len()).find(|at| !adds_up(policy, pool, *at, newcomer, costs[*at])) {
        return Some(format!("terms of GPU {at} do not make its cost"));
    }
    if let Some(better) = better_tie(pool, &costs, chosen) {
        return Some(format!(
            "GPU {better} is as good as {chosen:?} and comes first"
        ));
    }
    let unknown = newcomer.time.is_none() && !newcomer.known;
    let needs = policy.needs() != Needs::Nothing;
    if unknown && needs && choose(STATIC, pool, newcomer, last) != chosen {
        return Some(format!("{chosen:?} for an unknown program"));
    }
    if policy != Placement::Grr {
        return dearer_with_less(policy, pool, newcomer);
    }
    None
}

/// Whether the terms of a cost, if it has terms, make its first number: their sum, or the greater.
fn adds_up(
    policy: Placement,
    pool: &[Gpu<'_>],
    at: usize,
    newcomer: &Newcomer,
    cost: Option<Cost>,
) -> bool {
    let has_terms = policy.for_program(newcomer).terms_are() != [""; 2];
    let terms = policy.terms(pool, at, newcomer, None);
    match (terms, cost) {
        (Some([one, other]), Some(cost)) => {
            !has_terms || cost.0 == one.saturating_add(other) || cost.0 == one.max(other)
        }
        (terms, cost) => terms.is_none() && cost.is_none(),
    }
}

/// A GPU of the same cost that has to be chosen before the one that was.
fn better_tie(pool: &[Gpu<'_>], costs: &[Option<Cost>], chosen: Option<usize>) -> Option<usize> {
    let chosen = chosen?;
    let wanted = |at: usize| pool[at].sum(|one| one.demand.want);
    let rank = |at: usize| (!pool[at].local, wanted(at), Reverse(pool[at].speed), at);
    (0..pool.len()).find(|at| costs[*at] == costs[chosen] && rank(*at) < rank(chosen))
}

/// A GPU that would cost more without its programs, or without one of them.
fn dearer_with_less(policy: Placement, pool: &[Gpu<'_>], newcomer: &Newcomer) -> Option<String> {
    let of = policy.for_program(newcomer);
    for (at, gpu) in pool.iter().enumerate() {
        let one_less = gpu.bound.get(1..).filter(|_| of != Placement::Wait);
        for bound in [&[][..]].into_iter().chain(one_less) {
            let mut with_less = pool.to_vec();
            with_less[at].bound = bound;
            let cost = |pool: &[Gpu<'_>]| policy.cost(pool, at, newcomer, None);
            if cost(&with_less) > cost(pool) {
                let programs = bound.len();
                return Some(format!("GPU {at} costs more with {programs} programs"));
            }
        }
    }
    None
}
