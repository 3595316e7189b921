// SPDX-License-Identifier: GPL-2.0

//! Policy `maxmin`: weighted max-min fairness on estimated demands, work-conserving.
//!
//! Rule, with `want = busy / (phase - waited)` and `free = 1 - waited / phase`, both smoothed over
//! some periods in which the client wanted the GPU, and `level` so that the entitlements
//! `min(want, weight * level)` fill the GPU, to a thousandth:
//! `dvt = span * busy / phase / (weight * level)`, for clients that want less than `weight * level`
//! at least `span * min(1, 6/5 * free)`; what a client still uses while it is throttled costs
//! `used / (weight * level)` too; `t_sys = min vt` over the clients that wanted the GPU and
//! were not throttled, or over the throttled ones if there are no others;
//! `throttled = vt > t_sys + step`, `step = span / (w_min * level)`, `w_min` the least weight of
//! the clients that wanted it or were throttled, unless throttling has idled the GPU for more than
//! a tenth of the time.
//!
//! Where copies are measured, the same holds for the copy engine, with the time copied and the time
//! waited to copy, a virtual time and a level of its own. A client is throttled that is ahead on
//! either engine, and what throttling loses is counted of the engine of which that is more. Of the
//! engine on which a client gets what it is entitled to before it gets all that it wants of both, it
//! has its dominant share; on the other it takes what goes with that. Nobody is held for what others
//! lack of an engine that it does not use.
//!
//! Example: a period of 100 ms; `level` is 22.5 % of the GPU for a weight of 100.
//!
//! | client | weight | want | weight * level | entitled | GPU time | virtual time |
//! |---|---|---|---|---|---|---|
//! | A | 100 | 10 % | 22.5 % | 10 % | 10 ms | 100 ms while it hardly waits, not 10 / 0.225 = 44 |
//! | B | 100 | 90 % | 22.5 % | 22.5 % | 22.5 ms | 22.5 / 0.225 = 100 ms |
//! | C | 300 | 90 % | 67.5 % | 67.5 % | 67.5 ms | 67.5 / 0.675 = 100 ms |
//!
//! The entitlements fill the GPU, and no client gets ahead. `step` is 100 / 0.225 = 444 ms: what B
//! would advance if it ran alone.
//!
//! A client that wants little moves on with time as long as it hardly waits: it does not stop other
//! clients, however little it uses. A client that always wants more pays for each share beyond its
//! entitlement. `waited` enters a client's time only if it wants little, and smoothed: it is a
//! sampled estimate, the `min` of a noisy value is biased low, and the client would fall behind
//! without waiting. The `waited` of a throttled client means nothing: the client keeps its last
//! demand.
//!
//! Good for: mixes of clients that saturate the GPU and clients that do not.
//! Bad for: latency of light clients beside very long commands: giving them more would
//! cost more GPU time than they could use, and the tenth forbids it.
//! Bound, fairness: of clients that always want more (`want >= weight * level`) none is ahead of
//! another by more than two steps of entitled time. Proof: a client that runs is at most one step
//! ahead of `t_sys`, the least of those that run, and advances in a period by
//! `span * busy / phase / (weight * level)`, one step at most; no client is set back while
//! throttling is allowed, and a throttled client is not overtaken, because the others advance by one
//! step at most from below.
//! Commands submitted before a client is throttled run on: deep queues and long commands put a
//! client further ahead, for as long as they run. It pays for all of that, throttled until the
//! others are as far; `t_sys` does not follow it, so that its debt changes nothing between them. A
//! weight that changes leaves a debt as it is. Not proven: anything while
//! no throttling is allowed (the bound on work comes first), while demands change the level (steps
//! of old and new levels mix), or
//! when polling phases differ from the rest of the period, of which they are the only measurement.
//! Debts are forgiven by age, not by size, and of each client by itself: only while the bound on
//! work forbids throttling, its lead over the system fades, `lead -= lead * span / 10 s`. A lead
//! is two years of virtual time at most, which ends no count. A client that ran
//! beside clients that did not want the GPU does not owe them that time for ever, and it cannot get
//! rid of the debt itself: throttling idles the GPU only if other clients leave it idle.
//! Bound, work: GPU time lost to throttling is at most a tenth of the time and what is lost in one
//! period. Proof: the account `spent` grows by what a period lost and falls by a tenth of its span;
//! no client is throttled while it is not zero, and what throttling loses is added one period
//! later. Not proven: that the loss is what the estimates say. A demand kept from before a client
//! was throttled may be wrong, and the GPU may be idle in non-polling phases alone. Beside a
//! dispatcher, up to 60 us of idle time for each submission are not taken for lost, but no more of
//! the time than while nobody is throttled.
//! Source: max-min fairness by water-filling (Bertsekas and Gallager, Data Networks,
//! section 6.5); virtual time as in the LoGA paper, section 3.4; dominant shares as in Ghodsi and
//! others, Dominant Resource Fairness, NSDI 2011, which divides quantities that are known.

use super::demand::{Demand, Engine, Level, OfEngine};
use super::rivals::{self, Rivals, NEVER};
use super::{ClientState, Inputs, Phase, Policy, Rule};
use crate::fair::{self, mul_div, WHOLE};
use crate::units::{Ns, VTime, Weight};

/// Old observations lose this part of their weight in each period.
const FORGET: u64 = 8;
/// Part of the time that may be lost to throttling.
const LOSS: u64 = 10;
/// A client that wants little may wait for this part of its time unnoticed.
const TOLERANCE: u64 = 5;

/// What is known of the periods so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// GPU time that throttling has cost beyond what is allowed.
    pub(super) spent: Ns,
    compute: Level,
    copies: Level,
    /// Whether a client wanted to copy in the last period.
    copying: bool,
}

struct Compute;

impl Engine for Compute {
    fn used(client: &ClientState) -> Ns {
        client.busy
    }

    fn waited(client: &ClientState) -> Ns {
        client.waited
    }

    fn paid(client: &ClientState) -> Ns {
        client.paid
    }

    fn of(demand: &Demand) -> &OfEngine {
        &demand.compute
    }

    fn of_mut(demand: &mut Demand) -> &mut OfEngine {
        &mut demand.compute
    }

    // One that was throttled before it has shown anything may want to compute.
    fn still_wanted(demand: &Demand) -> bool {
        demand.compute.want > 0 || demand.copies.want == 0
    }

    fn vtime(client: &ClientState) -> VTime {
        client.vtime
    }

    fn vtime_mut(client: &mut ClientState) -> &mut VTime {
        &mut client.vtime
    }
}

struct Copies;

impl Engine for Copies {
    fn used(client: &ClientState) -> Ns {
        client.copied
    }

    fn waited(client: &ClientState) -> Ns {
        client.waited_to_copy
    }

    fn paid(_: &ClientState) -> Ns {
        Ns::ZERO
    }

    fn of(demand: &Demand) -> &OfEngine {
        &demand.copies
    }

    fn of_mut(demand: &mut Demand) -> &mut OfEngine {
        &mut demand.copies
    }

    fn still_wanted(demand: &Demand) -> bool {
        demand.copies.want > 0
    }

    fn vtime(client: &ClientState) -> VTime {
        let demand = client.kept.of::<MaxMin>();
        demand.map_or(VTime::ZERO, |demand| demand.copy_vtime)
    }

    fn vtime_mut(client: &mut ClientState) -> &mut VTime {
        &mut client.kept.of_mut::<MaxMin>().copy_vtime
    }
}

/// Weighted max-min fairness on estimated demands.
pub struct MaxMin;

impl Policy for MaxMin {
    const NAME: &'static str = "maxmin";
    const RULE: Rule<Self> = Rule::Phases(Self::decide);
    const NEEDS: Inputs = Inputs::Waits;
    type OfClient = Demand;
    type OfGpu = Past;
}

impl MaxMin {
    pub(super) fn decide(phase: &Phase, past: &mut Past, clients: &mut [ClientState]) -> VTime {
        past.compute.t_sys = phase.t_sys;
        let rivals = advance::<Compute>(phase, &mut past.compute, clients);
        // Mostly nobody copies.
        let copies = |client: &ClientState| client.copied.get() | client.waited_to_copy.get() != 0;
        let copying = past.copying || clients.iter().any(copies);
        let copiers = copying.then(|| advance::<Copies>(phase, &mut past.copies, clients));
        past.copying = copiers.as_ref().is_some_and(Rivals::any);
        let lost = rivals.unserved(phase, phase.idle).max(match &copiers {
            Some(copiers) => copiers.unserved(phase, phase.poll.saturating_sub(copiers.used)),
            None => Ns::ZERO,
        });
        let may_throttle = account(phase, past, lost);
        let limit = rivals.limit(phase, &mut past.compute, may_throttle);
        let copy_limit = match &copiers {
            Some(copiers) => copiers.limit(phase, &mut past.copies, may_throttle),
            None => NEVER,
        };
        let t_sys = past.compute.t_sys;
        let mut all = true;
        for client in clients.iter_mut() {
            client.vtime = rivals::after(phase, client.vtime, t_sys, may_throttle);
            client.throttled = client.vtime > limit;
            if copying {
                let vtime = Copies::vtime_mut(client);
                *vtime = rivals::after(phase, *vtime, past.copies.t_sys, may_throttle);
                client.throttled |= *vtime > copy_limit;
            }
            all &= client.throttled;
        }
        if all {
            // Each engine lets one run at least, but not the same.
            for client in clients.iter_mut() {
                client.throttled = client.vtime > limit;
            }
        }
        t_sys
    }
}

/// Learns what clients want of an engine, and advances their virtual times of it.
fn advance<E: Engine>(phase: &Phase, past: &mut Level, clients: &mut [ClientState]) -> Rivals {
    let mut all = (0u64, 0u64);
    for client in clients.iter_mut() {
        let want = learn::<E>(phase, client);
        if want > 0 {
            // Of 33 bits each: the sum does not outgrow a word.
            all.0 = all.0.wrapping_add(want);
            all.1 = all.1.wrapping_add(client.weight.get().into());
        }
    }
    let claim = |client: &ClientState| (wanted::<E>(client), client.weight.get().into());
    past.level = fair::level(clients.iter().map(claim), all, past.level);
    let prices = Prices::new(phase, past.level);
    let mut rivals = Rivals::NONE;
    for client in clients.iter_mut() {
        let paid = prices.add_to_paid(client, E::paid(client));
        let vtime = E::vtime_mut(client);
        *vtime = vtime.saturating_add(paid);
        let demand = client.kept.of::<MaxMin>().map(E::of).copied();
        if let Some(demand) = demand.filter(|demand| demand.want > 0) {
            let by = prices.advance(client, E::used(client), &demand);
            let vtime = E::vtime_mut(client);
            *vtime = vtime.saturating_add(by);
            rivals.add::<E>(client, demand.want);
        }
    }
    rivals
}

/// Time of the phase in which a client did not wait for an engine. What it waited may be measured by
/// other means than the time used: it is cut to what the time used leaves.
fn free_time<E: Engine>(phase: &Phase, client: &ClientState) -> Ns {
    let left = phase.poll.saturating_sub(E::waited(client));
    left.max(E::used(client))
}

/// Estimates what a client would use if it never waited. A throttled client keeps its estimate,
/// since it shows nothing. A client that wanted nothing keeps it too, with less weight, so that new
/// observations count as soon as it comes back; meanwhile its demand is zero.
fn learn<E: Engine>(phase: &Phase, client: &mut ClientState) -> u64 {
    let used = E::used(client);
    let wanted = used.get() | E::waited(client).get() != 0;
    let (free, lasted) = if wanted {
        (free_time::<E>(phase, client), phase.poll)
    } else {
        (Ns::ZERO, Ns::ZERO)
    };
    let throttled = client.throttled;
    let still = throttled && E::still_wanted(client.kept.of_mut::<MaxMin>());
    let demand = E::of_mut(client.kept.of_mut::<MaxMin>());
    if !throttled {
        fade(&mut demand.used, used);
        fade(&mut demand.free, free);
        fade(&mut demand.measured, lasted);
    }
    demand.want = if wanted || still {
        // A client that has only waited so far may want everything. No client that competes wants
        // nothing.
        fair::share(demand.used.get(), demand.free.get()).max(1)
    } else {
        0
    };
    demand.want
}

/// What a client wants of an engine now.
fn wanted<E: Engine>(client: &ClientState) -> u64 {
    let demand = client.kept.of::<MaxMin>();
    demand.map_or(0, |demand| E::of(demand).want)
}

/// Adds the time of a phase to a sum in which older phases count less and less.
fn fade(sum: &mut Ns, time: Ns) {
    let old = sum.get();
    // Of eight phases at most: it does not outgrow a word.
    let kept = old.wrapping_sub(old / FORGET);
    *sum = Ns::new(kept.wrapping_add(time.get()));
}

/// What the time of an engine costs in virtual time.
struct Prices {
    level: u64,
    span: Ns,
    /// Of a whole engine, as a share: the span over the length of the polling phase.
    whole: u64,
    /// The same of what a unit of weight is entitled to.
    unit: u64,
}

impl Prices {
    fn new(phase: &Phase, level: u64) -> Self {
        let span = phase.span();
        let (poll, divided) = phase.divided();
        let whole = fair::estimate(Ns::new(WHOLE), poll, divided).get();
        Self {
            level,
            span,
            whole,
            unit: mul_div(whole, WHOLE, level),
        }
    }

    /// How far the virtual time of a client that competes advances.
    fn advance(&self, client: &ClientState, used: Ns, demand: &OfEngine) -> VTime {
        let weight = u64::from(client.weight.get());
        let entitled = self.level.saturating_mul(weight);
        let (by, wants_more) = if entitled < WHOLE {
            let by = client.weight.divide(fair::part(used.get(), self.unit));
            (by, demand.want >= entitled)
        } else {
            let by = fair::part(used.get(), self.whole);
            (by, demand.want >= WHOLE)
        };
        if wants_more || client.throttled {
            return VTime::new(by);
        }
        let (free, measured) = (demand.free.get(), demand.measured.get());
        // As in `fade`.
        let credited = free.wrapping_add(free / TOLERANCE);
        if credited >= measured {
            return VTime::new(by.max(self.span.get()));
        }
        VTime::new(by.max(fair::part(self.span.get(), fair::share(credited, measured))))
    }

    /// What time that a client used while it was held back costs beyond what has been booked, which is
    /// as much as if its weight entitled it to all of the engine.
    fn add_to_paid(&self, client: &ClientState, paid: Ns) -> VTime {
        if paid.is_zero() {
            return VTime::ZERO;
        }
        let weight = u64::from(client.weight.get());
        let entitled = self.level.saturating_mul(weight).min(WHOLE);
        let booked = mul_div(paid.get(), Weight::DEFAULT.get().into(), weight);
        VTime::new(mul_div(paid.get(), WHOLE, entitled).saturating_sub(booked))
    }
}

/// Books what throttling has cost in a polling phase, and returns whether more throttling is allowed.
fn account(phase: &Phase, past: &mut Past, unserved: Ns) -> bool {
    let lost = fair::estimate(unserved, phase.poll, phase.span());
    let allowed = Ns::new(phase.span().get() / LOSS);
    past.spent = past.spent.saturating_add(lost).saturating_sub(allowed);
    past.spent.is_zero()
}
