// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Placement `wait`: the GPU on which the program adds the least slowdown, its own included.
//!
//! `cost = weight * S(a) * slower + sum over the programs there of weight * (S with a - S without)`,
//! with the slowdown `S = max(want / share, min(1 + want * B / run, 1 / (1 - W))) + copy / copies - 1`:
//!
//! - `share` is what weighted max-min filling of all wants gives a program of the compute engine,
//!   and `copies` the same of the copy engine;
//! - `B = sum over the others of want * run / 2` is what a submission waits for commands of others,
//!   which cannot be stopped; it waits so once for each run of its own;
//! - `W` is the sum of the wants of the others: a program waits only while others run, and each of
//!   them runs for no more of the time than it wants;
//! - `slower = 1 - u + u / speed`, for a program that uses the engines for u of its time.
//!
//! Good for: light programs beside long kernels; weights; GPUs of different speeds; programs that
//! are bound and do nothing, which count nothing. Bad for: programs of which nothing is known, since
//! what it assumes of them decides; programs that change what they do. A further program on a GPU
//! may lower the cost there, if those beside it wait so much for it already that the new one adds
//! less.
//! Source: this project. Max-min filling as in policy `maxmin`; the wait for a command in service as
//! in the M/G/1 queue, half its length for the part of the time that it runs.

use super::sums::Sums;
use super::{Bound, Demand, Gpu, Newcomer, Policy, Question, Unit, PPM};
use crate::fair::{level, mul_div, share, WHOLE};
use crate::units::{Ns, Weight};

/// The least added slowdown.
pub(super) struct LeastSlowdown;

impl Policy for LeastSlowdown {
    const NAME: &'static str = "wait";
    const COST: &'static str = "added slowdown";
    const UNIT: Unit = Unit::Millionths;

    const TERMS: [&'static str; 2] = ["own", "others"];

    fn terms(question: &Question<'_>) -> [u64; 2] {
        let bound = question.gpu.bound;
        let own = on(question.gpu, question.newcomer);
        let before = Crowd::of(bound.iter().map(demand));
        let after = Crowd::of(bound.iter().map(demand).chain([&own]));
        let added = bound.iter().map(demand).fold(0u64, |sum, one| {
            let added = after.slowdown(one).saturating_sub(before.slowdown(one));
            sum.saturating_add(weighted(one.weight, added))
        });
        let slowdown = slower(question.gpu, question.newcomer, after.slowdown(&own));
        [weighted(own.weight, slowdown), added]
    }
}

/// How many times as long as alone on the fastest GPU a program is expected to take on this one, in
/// millionths.
pub fn expected(gpu: &Gpu<'_>, newcomer: &Newcomer) -> u64 {
    let own = on(gpu, newcomer);
    let crowd = Crowd::of(gpu.bound.iter().map(demand).chain([&own]));
    slower(gpu, newcomer, crowd.slowdown(&own))
}

fn demand(bound: &Bound) -> &Demand {
    &bound.demand
}

/// `amount` for the default weight, in proportion for others.
pub(super) fn weighted(weight: Weight, amount: u64) -> u64 {
    mul_div(amount, weight.get().into(), Weight::DEFAULT.get().into())
}

/// A program's time on this GPU if it is alone, in millionths of that on the fastest one.
fn time_on(gpu: &Gpu<'_>, newcomer: &Newcomer) -> u64 {
    let demand = &newcomer.demand;
    let used = demand.want.saturating_add(demand.copy).min(PPM);
    PPM.saturating_sub(used).saturating_add(gpu.per_speed(used))
}

/// The slowdown of a program, with what the speed of the GPU adds.
fn slower(gpu: &Gpu<'_>, newcomer: &Newcomer, slowdown: u64) -> u64 {
    mul_div(slowdown, time_on(gpu, newcomer), PPM)
}

/// What a program asks of this GPU, from what it asks of the fastest one.
pub fn on(gpu: &Gpu<'_>, newcomer: &Newcomer) -> Demand {
    let demand = newcomer.demand;
    let time = time_on(gpu, newcomer).max(1);
    let part = |of: u64| mul_div(gpu.per_speed(of), PPM, time).min(PPM);
    Demand {
        want: part(demand.want),
        copy: part(demand.copy),
        run: Ns::new(gpu.per_speed(demand.run.get())),
        weight: demand.weight,
    }
}

/// How many times as long as alone a program takes because it waits for commands of these others,
/// in millionths.
fn blocked(one: &Demand, others: &Sums) -> u64 {
    let blocked = mul_div(one.want, others.blocking, one.run.get().max(1));
    let left = PPM.saturating_sub(others.wanted);
    let most = mul_div(PPM, PPM, left.max(1));
    PPM.saturating_add(blocked).min(most)
}

/// A program on GPUs of the speed of the last one that it was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Own {
    speed: u64,
    /// What it asks there, and how long it takes if it is alone: see [`time_on`].
    there: Option<(Demand, u64)>,
}

impl Own {
    /// A number that the cost of the program on this GPU is not below: what it waits for itself, and
    /// what the others wait for it if they are slowed down by nothing else.
    pub(super) fn floor(&mut self, gpu: &Gpu<'_>, sums: &Sums, newcomer: &Newcomer) -> u64 {
        let there = self.there.filter(|_| self.speed == gpu.speed);
        let (own, time) = there.unwrap_or_else(|| (on(gpu, newcomer), time_on(gpu, newcomer)));
        (self.speed, self.there) = (gpu.speed, Some((own, time)));
        let slowdown = mul_div(blocked(&own, sums), time, PPM);
        let cost = weighted(own.weight, slowdown);
        if sums.copied.saturating_add(own.copy) > PPM {
            return cost;
        }
        // Each one is slowed down by its sensitivity times what it waits, or by as much as the bound
        // by what others run, 1 / (1 - W), lets it, which is least for the program that wants most.
        let left = PPM.saturating_sub(sums.wanted.saturating_sub(sums.largest));
        let bound = |left: u64| mul_div(PPM, PPM, left.max(1));
        let before = bound(left).min(sums.slowest);
        let room = bound(left.saturating_sub(own.want)).saturating_sub(before);
        // Where others run all the time the bound has no effect.
        let room = room.min(bound(0).saturating_sub(sums.slowest));
        let most = mul_div(room, WHOLE, sums.steepest.max(1));
        let added = mul_div(sums.sensitive, blocks(&own).min(most), WHOLE);
        cost.saturating_add(added.saturating_sub(sums.rounded))
    }
}

/// The programs of a GPU together.
#[derive(Clone, Copy)]
pub(super) struct Crowd {
    /// What each unit of weight gets of the compute engine, as a share.
    compute: u64,
    /// The same of the copy engine.
    copy: u64,
    /// What a submission waits for a command that runs, in nanoseconds.
    blocking: u64,
    /// The sum of all wants, in millionths.
    wanted: u64,
}

impl Crowd {
    pub(super) fn of<'a>(programs: impl Iterator<Item = &'a Demand> + Clone) -> Self {
        let sum = |of: fn(&Demand) -> u64| {
            let add = |sum: u64, one| sum.saturating_add(of(one));
            programs.clone().fold(0, add)
        };
        let wanted = sum(|one| one.want);
        let fill = |wanted: u64, of: fn(&Demand) -> u64| match wanted <= PPM {
            true => WHOLE,
            false => filled(programs.clone().map(|one| (of(one), one.weight))),
        };
        Self {
            compute: fill(wanted, |one| one.want),
            copy: fill(sum(|one| one.copy), |one| one.copy),
            blocking: sum(blocks),
            wanted,
        }
    }

    /// How many times as long as alone one of them takes because it waits for commands of others, if
    /// its share of the compute engine does not slow it down more.
    pub(super) fn waits(&self, one: &Demand) -> Option<u64> {
        let blocked = blocked(one, &self.others(one));
        (over(one.want, one.weight, self.compute) <= blocked).then_some(blocked)
    }

    /// How many times as long one of them takes as alone, in millionths.
    fn slowdown(&self, one: &Demand) -> u64 {
        let blocked = blocked(one, &self.others(one));
        let computes = over(one.want, one.weight, self.compute).max(blocked);
        let copies = over(one.copy, one.weight, self.copy);
        computes.saturating_add(copies.saturating_sub(PPM))
    }

    /// What others than this one of them want.
    fn others(&self, one: &Demand) -> Sums {
        Sums {
            wanted: self.wanted.saturating_sub(one.want),
            blocking: self.blocking.saturating_sub(blocks(one)),
            ..Sums::default()
        }
    }
}

/// What a submission of another program waits for one of this, in nanoseconds.
pub(super) fn blocks(one: &Demand) -> u64 {
    mul_div(one.run.get(), one.want.min(PPM), PPM) / 2
}

/// By how much of a millionth a program takes longer for each nanosecond that each of its
/// submissions waits, as a share.
pub(super) fn sensitivity(one: &Demand) -> u64 {
    mul_div(one.want, WHOLE, one.run.get().max(1))
}

/// What each unit of weight gets when these wants are filled, as a share.
fn filled(wants: impl Iterator<Item = (u64, Weight)> + Clone) -> u64 {
    let claims = wants.map(|(want, weight)| (share(want, PPM), u64::from(weight.get())));
    let claims = claims.filter(|(want, _)| *want != 0);
    let all = claims.clone().fold((0u64, 0u64), |sum, one| {
        (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1))
    });
    level(claims, all, 0)
}

/// A want over what a unit of weight gets for this weight, in millionths; 1 at least.
fn over(want: u64, weight: Weight, unit: u64) -> u64 {
    let got = unit.saturating_mul(weight.get().into()).min(WHOLE);
    if got == WHOLE {
        return PPM;
    }
    let want = share(want, PPM);
    if want <= got {
        return PPM;
    }
    mul_div(want, PPM, got.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn asks(want: u64, run_us: u64) -> Demand {
        Demand {
            want: want * PPM / 100,
            copy: 0,
            run: Ns::from_us(run_us),
            weight: Weight::DEFAULT,
        }
    }

    fn bound(demand: Demand) -> Bound {
        Bound { demand, left: None }
    }

    fn gpu(bound: &[Bound], speed: u64) -> Gpu<'_> {
        Gpu {
            open: true,
            local: true,
            speed,
            bound,
        }
    }

    fn program(demand: Demand) -> Newcomer {
        Newcomer {
            demand,
            known: true,
            time: None,
        }
    }

    // A program of 20 % and runs of 0.1 ms waits 0.15 ms for each of them beside a client of 60 %
    // and runs of 0.5 ms, and 0.9 ms beside one with runs of 3 ms, if not more than 60 % of the time.
    #[test]
    fn long_runs_slow_a_light_program_by_what_it_waits_for_them() {
        let light = program(asks(20, 100));
        let longer = [bound(asks(60, 500))];
        assert_eq!(expected(&gpu(&longer, PPM), &light), 1_300_000);
        let long = [bound(asks(60, 3000))];
        assert_eq!(expected(&gpu(&long, PPM), &light), 2_500_000);
        let short = [bound(asks(10, 100)); 6];
        assert_eq!(expected(&gpu(&short, PPM), &light), 1_060_000);
    }

    #[test]
    fn equal_hogs_share_the_engine() {
        let hogs = [bound(asks(100, 1)); 3];
        let fourth = program(asks(100, 1000));
        let slowdown = expected(&gpu(&hogs, PPM), &fourth);
        assert!(slowdown.abs_diff(4 * PPM) < PPM / 100);
    }

    #[test]
    fn weight_counts_for_the_share_and_for_the_cost() {
        let heavy = Demand {
            weight: Weight::new(300).unwrap_or_default(),
            ..asks(100, 1)
        };
        let beside = [bound(heavy)];
        let one = program(asks(100, 1));
        assert!(expected(&gpu(&beside, PPM), &one).abs_diff(4 * PPM) < PPM / 100);
        let question = |gpus: &[Gpu<'_>]| super::super::Placement::Wait.cost(gpus, 0, &one, None);
        let costs = [
            question(&[gpu(&beside, PPM)]),
            question(&[gpu(&[bound(asks(100, 1))], PPM)]),
        ]
        .map(|cost| cost.map_or(0, |cost| cost.0));
        // 4 for the program, and for the other three times the half of a run that it waits for each
        // of its own; 2 and 2 - 1.
        assert!(costs[0].abs_diff(11 * PPM / 2) < PPM / 50);
        assert!(costs[1].abs_diff(3 * PPM) < PPM / 50);
    }

    #[test]
    fn program_on_a_slow_gpu_takes_longer_as_far_as_it_uses_it() {
        let half = program(asks(50, 1000));
        assert_eq!(expected(&gpu(&[], PPM / 2), &half), 1_500_000);
        assert_eq!(on(&gpu(&[], PPM / 2), &half).want, 666_666);
        assert_eq!(on(&gpu(&[], PPM / 2), &half).run, Ns::from_us(2000));
    }

    #[test]
    fn copies_count_for_the_copy_engine_only() {
        let copier = Demand {
            copy: 8 * PPM / 10,
            ..asks(10, 100)
        };
        let copies = [bound(copier)];
        let computes = [bound(asks(80, 100))];
        let at = |bound: &[Bound]| expected(&gpu(bound, PPM), &program(copier));
        assert!(at(&copies) > at(&computes));
        // 0.8 of 0.5 of the copy engine each, and 1 + 0.1 * 0.1 * 50 / 100 for what is computed.
        assert!(at(&copies).abs_diff(1_605_000) < PPM / 100);
    }

    #[test]
    fn programs_that_do_nothing_cost_nothing() {
        let idle = [bound(asks(0, 1000)); 100];
        let one = program(asks(50, 500));
        assert_eq!(expected(&gpu(&idle, PPM), &one), PPM);
    }
}
