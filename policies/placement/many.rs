// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The choice among thousands of GPUs.
//!
//! [`choose`](super::choose) asks the policy for the cost of each GPU, and `wait` needs several
//! passes over the programs of a GPU for it. [`Sums`] of a GPU, which change only when its programs
//! do, give a floor of that cost at once: what the program itself would wait for commands of others,
//! and, while the copy engine is not asked for more than it has, what those of the others would wait
//! for its own that wait for commands more than their share of the compute engine slows them down.
//! A GPU with a floor above the least cost so far cannot be chosen, and is passed over. The choice
//! is the same as that of `choose`.

pub use super::sums::Sums;
use super::{wait, Bound, Cost, Gpu, Newcomer, Placement};
use crate::units::Weight;
use core::cmp::Reverse;

impl Sums {
    /// Of these programs.
    pub fn of(bound: &[Bound]) -> Self {
        let crowd = wait::Crowd::of(bound.iter().map(|one| &one.demand));
        bound.iter().fold(Self::default(), |sums, one| {
            let one = &one.demand;
            let sums = Self {
                wanted: sums.wanted.saturating_add(one.want),
                largest: sums.largest.max(one.want),
                copied: sums.copied.saturating_add(one.copy),
                blocking: sums.blocking.saturating_add(wait::blocks(one)),
                ..sums
            };
            let Some(blocked) = crowd.waits(one) else {
                return sums;
            };
            let sensitivity = wait::sensitivity(one);
            let rounded = one.weight.get().div_ceil(Weight::DEFAULT.get());
            Self {
                sensitive: sums
                    .sensitive
                    .saturating_add(wait::weighted(one.weight, sensitivity)),
                steepest: sums.steepest.max(sensitivity),
                slowest: sums.slowest.max(blocked),
                rounded: sums.rounded.saturating_add(u64::from(rounded) + 1),
                ..sums
            }
        })
    }
}

/// A choice, and what it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Index of the GPU.
    pub at: usize,
    /// GPUs of which the policy was asked for the cost.
    pub asked: usize,
}

/// What GPUs are compared by, as in [`choose`](super::choose).
type Key = (Cost, bool, u64, Reverse<u64>);

/// As [`choose`](super::choose), with the sums of each GPU in the order of the GPUs.
pub fn choose(
    policy: Placement,
    gpus: &[Gpu<'_>],
    sums: &[Sums],
    newcomer: &Newcomer,
    last: Option<usize>,
) -> Option<Choice> {
    let waits = policy.for_program(newcomer) == Placement::Wait;
    let mut best: Option<(Key, usize)> = None;
    let mut asked = 0usize;
    let key = |cost: Cost, gpu: &Gpu<'_>, sums: &Sums| {
        (cost, !gpu.local, sums.wanted, Reverse(gpu.speed))
    };
    let open = || {
        let all = gpus.iter().zip(sums).enumerate();
        all.filter(|(_, (gpu, _))| gpu.open)
    };
    // The least loaded is likely to be among the best, so that few others are asked after it.
    let least = |(_, (gpu, sums)): &(usize, (&Gpu<'_>, &Sums))| (sums.wanted, Reverse(gpu.speed));
    let first = waits.then(|| open().min_by_key(least)).flatten();
    let mut own = wait::Own::default();
    for (at, (gpu, sums)) in first.into_iter().chain(open()) {
        let is_worse = |best: (Key, usize)| {
            let floor = own.floor(gpu, sums, newcomer);
            (key((floor, 0), gpu, sums), at) >= best
        };
        if waits && best.is_some_and(is_worse) {
            continue;
        }
        asked = asked.saturating_add(1);
        let Some(cost) = policy.cost(gpus, at, newcomer, last) else {
            continue;
        };
        let key = (key(cost, gpu, sums), at);
        if best.is_none_or(|best| key < best) {
            best = Some(key);
        }
    }
    best.map(|(_, at)| Choice { at, asked })
}

#[cfg(test)]
mod tests {
    use super::super::{Demand, PPM};
    use super::*;
    use crate::units::{Ns, Weight};
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn demand() -> impl Strategy<Value = Demand> {
        // Of what a program wants, GPUs with few programs have enough, or not.
        let want = || prop_oneof![0..=PPM / 5, 0..=PPM];
        let run = prop_oneof![0u64..1_000, 0u64..10_000_000];
        (want(), want(), run, 1u32..=1_000).prop_map(|(want, copy, run, weight)| Demand {
            want,
            copy: copy.min(PPM - want),
            run: Ns::new(run),
            weight: Weight::new(weight).unwrap_or_default(),
        })
    }

    fn pool() -> impl Strategy<Value = Vec<(bool, bool, u64, Vec<Bound>)>> {
        let bound = demand().prop_map(|demand| Bound { demand, left: None });
        let speed = prop_oneof![Just(PPM), Just(PPM / 2), 1..=PPM];
        let gpu = (
            prop::bool::weighted(0.9),
            any::<bool>(),
            speed,
            prop::collection::vec(bound, 0..5),
        );
        prop::collection::vec(gpu, 1..40)
    }

    proptest! {
        #[test]
        fn choice_is_that_among_all_whatever_is_passed_over(
            pool in pool(),
            demand in demand(),
            last in proptest::option::of(0usize..40),
        ) {
            let gpus: Vec<_> = pool.iter().map(|(open, local, speed, bound)| Gpu {
                open: *open, local: *local, speed: *speed, bound,
            }).collect();
            let sums: Vec<_> = gpus.iter().map(|gpu| Sums::of(gpu.bound)).collect();
            for known in [false, true] {
                let newcomer = Newcomer { demand, known, time: None };
                for policy in Placement::ALL {
                    let whole = super::super::choose(*policy, &gpus, &newcomer, last);
                    let quick = choose(*policy, &gpus, &sums, &newcomer, last);
                    prop_assert_eq!(quick.map(|one| one.at), whole, "{}", policy.name());
                }
            }
        }
    }

    proptest! {
        #[test]
        fn floor_is_not_above_the_cost(pool in pool(), demand in demand()) {
            let newcomer = Newcomer { demand, known: true, time: None };
            let mut own = wait::Own::default();
            for (_, local, speed, bound) in &pool {
                let gpu = Gpu { open: true, local: *local, speed: *speed, bound };
                let floor = own.floor(&gpu, &Sums::of(bound), &newcomer);
                let cost = Placement::Wait.cost(&[gpu], 0, &newcomer, None);
                prop_assert!(cost.is_some_and(|cost| cost.0 >= floor), "{cost:?}: {floor}");
            }
        }
    }

    fn asks(want_pct: u64, run_us: u64) -> Bound {
        Bound {
            demand: Demand {
                want: want_pct * PPM / 100,
                run: Ns::from_us(run_us),
                ..Demand::UNKNOWN
            },
            left: None,
        }
    }

    fn gpu(bound: &[Bound]) -> Gpu<'_> {
        Gpu {
            open: true,
            local: true,
            speed: PPM,
            bound,
        }
    }

    /// `wait` chooses the first GPU, which has `one`, and asks none of those with `others`.
    fn passes_over(one: &[Bound], others: &[Bound], newcomer: Bound) {
        let mut gpus = vec![gpu(others); 99];
        gpus.insert(0, gpu(one));
        let sums: Vec<_> = gpus.iter().map(|gpu| Sums::of(gpu.bound)).collect();
        let newcomer = Newcomer {
            demand: newcomer.demand,
            known: true,
            time: None,
        };
        let choice = choose(Placement::Wait, &gpus, &sums, &newcomer, None);
        assert_eq!(choice.map(|one| one.at), Some(0));
        assert!(choice.is_some_and(|one| one.asked <= 2), "{choice:?}");
    }

    #[test]
    fn gpus_that_are_asked_for_too_much_are_passed_over() {
        // With the new one 120 % are wanted of each GPU; programs of short kernels wait for its
        // kernels more than their share slows them down.
        passes_over(&[asks(30, 500); 3], &[asks(30, 100); 3], asks(30, 2_000));
    }

    #[test]
    fn gpus_whose_programs_would_wait_for_the_new_one_are_passed_over() {
        // The new program waits less for short kernels, but each of them would wait for its own.
        passes_over(&[asks(20, 400); 2], &[asks(20, 100); 2], asks(10, 2_000));
    }

    #[test]
    fn gpus_with_long_kernels_are_passed_over() {
        passes_over(&[asks(10, 100)], &[asks(50, 5_000)], asks(50, 500));
    }
}
