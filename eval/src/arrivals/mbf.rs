// SPDX-License-Identifier: GPL-2.0

//! Placement `mbf`, a baseline of the simulator: programs that use the memory of a GPU most are kept
//! apart.
//!
//! `cost = max(sum of c * fill, sum of c * bandwidth, sum of x) / speed`, then their sum, over the
//! programs of a GPU and the new one: `c` and `x` are the parts of their time in kernels and in
//! copies, `fill` and `bandwidth` the parts of the compute units and of the memory bandwidth that
//! their kernels use. It is `dtf` with one resource more, and with compute units in place of time.
//! A program of which nothing is known goes where `gwtmin` has it.
//!
//! Good for: packed GPUs, where kernels of several programs run at the same time. Bad for: GPUs that
//! take contexts in turn, on which kernels never share the memory; it needs counters of the GPU that
//! LoGA does not have. Source: Sengupta and others, Strings, SC 2014, section IV.C: the paper says
//! that threads bound by bandwidth are not put together, and has no formula.

use crate::scenario::Footprint;
use loga::placement::{self, Demand, Gpu, Newcomer, Placement, PPM};

/// Its name.
pub(super) const NAME: &str = "mbf";

/// A program on a GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// What it asks of the fastest GPU.
    pub(super) demand: Demand,
    /// What its kernels use.
    pub(super) footprint: Footprint,
}

impl Load {
    /// What it uses of the compute units, of the bandwidth and of the copy engine, in millionths.
    fn uses(&self) -> [f64; 3] {
        // CAST: at most a million.
        let [want, copy] = [self.demand.want, self.demand.copy].map(|part| part as f64);
        let Footprint { fill, bandwidth } = self.footprint;
        [want * fill, want * bandwidth, copy]
    }
}

/// The GPU for a program, with what the programs of each GPU use.
pub(super) fn choose(
    gpus: &[Gpu<'_>],
    loads: &[Vec<Load>],
    newcomer: &Newcomer,
    footprint: Footprint,
) -> Option<usize> {
    if !newcomer.known {
        return placement::choose(Placement::Gwtmin, gpus, newcomer, None);
    }
    let own = Load {
        demand: newcomer.demand,
        footprint,
    };
    placement::best(gpus, |at| {
        let gpu = gpus.get(at).filter(|gpu| gpu.open)?;
        let mut sums = own.uses();
        for load in &loads[at] {
            for (sum, one) in sums.iter_mut().zip(load.uses()) {
                *sum += one;
            }
        }
        // CAST: positive; saturates.
        let cost = |of: f64| (of * PPM as f64 / gpu.speed as f64).round() as u64;
        Some((
            cost(sums.into_iter().fold(0.0, f64::max)),
            cost(sums.iter().sum()),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use loga::placement::Bound;

    fn load(want_pct: u64, copy_pct: u64, bandwidth: f64) -> Load {
        Load {
            demand: Demand {
                want: want_pct * PPM / 100,
                copy: copy_pct * PPM / 100,
                ..Demand::UNKNOWN
            },
            footprint: Footprint {
                fill: 0.5,
                bandwidth,
            },
        }
    }

    /// Which of two GPUs of these speeds, with a program each, another one has.
    fn chosen(speeds_pct: [u64; 2], there: [Load; 2], new: Load, known: bool) -> Option<usize> {
        let bound = there.map(|load| {
            [Bound {
                demand: load.demand,
                left: None,
            }]
        });
        let gpu = |at: usize| Gpu {
            open: true,
            local: true,
            speed: speeds_pct[at] * PPM / 100,
            bound: &bound[at],
        };
        let newcomer = Newcomer {
            demand: new.demand,
            known,
            time: None,
        };
        let gpus = [gpu(0), gpu(1)];
        choose(&gpus, &there.map(|one| vec![one]), &newcomer, new.footprint)
    }

    #[test]
    fn programs_of_much_bandwidth_are_kept_apart_though_use_says_otherwise() {
        let (bound, light) = (load(50, 0, 1.0), load(60, 0, 0.0));
        // 0.5 + 0.5 of the bandwidth, or 0.5 of it and (0.6 + 0.5) / 2 of the units.
        assert_eq!(chosen([100, 100], [bound, light], bound, true), Some(1));
        let placed = |new| {
            let there = [bound, light].map(|one| Bound {
                demand: one.demand,
                left: None,
            });
            let gpu = |at: usize| Gpu {
                open: true,
                local: true,
                speed: PPM,
                bound: &there[at..=at],
            };
            placement::choose(Placement::Dtf, &[gpu(0), gpu(1)], &new, None)
        };
        let newcomer = Newcomer {
            demand: bound.demand,
            known: true,
            time: None,
        };
        assert_eq!(placed(newcomer), Some(0));
    }

    #[test]
    fn speed_and_copies_count_and_an_unknown_program_goes_where_few_are() {
        let (copies, computes) = (load(5, 70, 0.0), load(90, 0, 0.1));
        assert_eq!(
            chosen([100, 100], [copies, computes], copies, true),
            Some(1)
        );
        // 0.48 of the units at half the speed, or 0.5 at full speed.
        let (some, more) = (load(10, 0, 0.1), load(90, 0, 0.1));
        assert_eq!(
            chosen([50, 100], [some, more], load(40, 0, 0.1), true),
            Some(0)
        );
        assert_eq!(
            chosen([30, 100], [some, more], load(40, 0, 0.1), true),
            Some(1)
        );
        assert_eq!(
            chosen([30, 100], [some, more], load(40, 0, 0.1), false),
            Some(1)
        );
    }
}
