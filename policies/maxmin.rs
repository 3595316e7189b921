// SPDX-License-Identifier: GPL-2.0

//! Policy `maxmin`: weighted max-min fairness on estimated demands, work-conserving.
//!
//! Rule, with `want = busy / (phase - waited)` and `calm = 1 - waited / phase`, both
//! smoothed over some periods in which the client wanted the GPU, and `level` so that the
//! entitlements `min(want, weight * level)` fill the GPU, to a thousandth:
//! `dvt = span * busy / phase / (weight * level)`, for clients that want less than
//! `weight * level` at least `span * min(1, 6/5 * calm)`;
//! `t_sys = min vt` over the clients that wanted the GPU and were not throttled, over all that
//! were if there are no others;
//! `throttled = vt > t_sys + step`, `step = span / (w_min * level)`, `w_min` the least weight of
//! those that wanted it or were throttled, unless throttling has idled the GPU for
//! more than a tenth of the time.
//!
//! A client that wants little moves on with time as long as it hardly waits: it does
//! not stop others, however little it uses. A client that always wants more pays for
//! each share beyond its entitlement. `waited` enters a client's time only if it wants
//! little, and smoothed: of a sampled estimate the `min` would lose what is above and keep
//! what is below, and the client would fall behind without waiting. A client that is throttled
//! back has no `waited` that means anything, and keeps its last demand.
//!
//! Good for: mixes of clients that saturate the GPU and clients that do not.
//! Bad for: latency of light clients beside very long commands: giving them more would
//! cost more GPU time than they could use, and the tenth forbids it.
//! Bound, fairness: of clients that always want more (`want >= weight * level`) none is
//! ahead of another by more than two steps of entitled time. Proof: who runs is at most
//! one step ahead of `t_sys`, the least of those that run, and advances in a period by
//! `span * busy / phase / (weight * level)`, one step at most; nobody else is set back,
//! and who is throttled is not overtaken, because the others advance by one step at
//! most from below. What was submitted before a hold runs on: deep queues and long commands
//! put a client further ahead. It pays all of that, by waiting until the others are as far;
//! for what would take longer than [`LONGEST_THROTTLE`] it does not. Not proven: anything while no hold is allowed (the bound on work comes
//! first), while demands change the level (steps of old and new levels mix), or when
//! polling phases are not like the rest of the period, which is all that is known of it.
//! Forgiven is by age, not by size: only while no hold is allowed for the sake of the bound on
//! work, what anybody is ahead of the system fades, `lead -= lead * span / 10 s`. Who was let
//! run beside clients that did not want the GPU does not owe them that for ever, and who owes
//! cannot get rid of it: holds that idle the GPU need others that leave it idle.
//! Bound, work: GPU time lost to throttling is at most a tenth of the time and what is
//! lost in one period. Proof: the account `spent` grows by what a period lost and falls
//! by a tenth of its span; nobody is throttled while something is left on it, and what
//! a hold loses is on it one period later. Not proven: that what was lost is what the
//! estimates say. A demand that was kept from before a hold may be wrong, and the GPU may
//! be idle in non-polling phases alone.
//! Source: max-min fairness by water-filling (Bertsekas and Gallager, Data Networks,
//! section 6.5); virtual time as in the LoGA paper, section 3.4.

use super::{ClientState, Phase, Policy, Rule, Sight};
use crate::fair::{self, mul_div, WHOLE};
use crate::units::{Ns, VTime};

/// Old observations lose this part of their weight in each period.
const FORGET: u64 = 8;
/// Part of the time that may be lost to throttling.
const LOSS: u64 = 10;
/// A client that wants little may wait for this part of its time unnoticed.
const TOLERANCE: u64 = 5;
/// Longest time for which what was used before throttles anybody, as with limits.
pub(super) const LONGEST_THROTTLE: Ns = Ns::from_ms(60_000);
/// Time in which a debt falls to a third while nobody may be throttled.
const FADE: Ns = Ns::from_ms(10_000);
/// A virtual time that nobody reaches.
const NEVER: VTime = VTime::new(u64::MAX);

/// What is known of a client's demand. The times fade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Time used.
    used: Ns,
    /// Time not spent waiting.
    pub(super) free: Ns,
    /// Time in which both were measured.
    measured: Ns,
    /// The share of the GPU that follows from the first two; nothing while it wants nothing.
    pub(super) want: u64,
}

/// What is known of the periods so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// What throttling has cost beyond what it may.
    pub(super) spent: Ns,
    /// The last level.
    level: u64,
}

/// Weighted max-min fairness on estimated demands.
pub struct MaxMin;

impl Policy for MaxMin {
    const NAME: &'static str = "maxmin";
    const RULE: Rule<Self> = Rule::Phases(Self::decide);
    const NEEDS: Sight = Sight::Waits;
    type OfClient = Demand;
    type OfGpu = Past;
}

impl MaxMin {
    pub(super) fn decide(phase: &Phase, past: &mut Past, clients: &mut [ClientState]) -> VTime {
        let mut all = (0u64, 0u64);
        for client in clients.iter_mut() {
            let want = learn(phase, client);
            if want > 0 {
                // Of 33 bits each: the sum does not outgrow a word.
                all.0 = all.0.wrapping_add(want);
                all.1 = all.1.wrapping_add(client.weight.get().into());
            }
        }
        let claim = |client: &ClientState| (want(client), client.weight.get().into());
        let level = fair::level(clients.iter().map(claim), all, past.level);
        past.level = level;
        let prices = Prices::new(phase, level);
        let mut rivals = Rivals::NONE;
        for client in clients.iter_mut() {
            let demand = client.kept.of::<Self>();
            if let Some(demand) = demand.filter(|demand| demand.want > 0) {
                let (by, want) = (prices.advance(client, demand), demand.want);
                client.vtime = client.vtime.saturating_add(by);
                rivals.add(client, want);
            }
        }
        let may_throttle = account(phase, past, rivals.missed);
        let step = rivals.longest_step(phase, level);
        let t_sys = rivals.system_time(phase, step, may_throttle);
        let limit = if may_throttle && rivals.used != 0 {
            t_sys.saturating_add(VTime::new(step))
        } else {
            NEVER
        };
        for client in clients.iter_mut() {
            client.vtime = client.vtime.max(t_sys);
            client.throttled = client.vtime > limit;
        }
        t_sys
    }
}

/// Time of the phase in which a client did not wait. `waited` may be measured by other
/// means than the time used: it is cut to what that leaves.
fn free_time(phase: &Phase, client: &ClientState) -> Ns {
    phase.poll.saturating_sub(client.waited).max(client.busy)
}

/// Estimates what a client would use if it never waited. One that was throttled shows
/// nothing: it keeps its estimate. One that wanted nothing keeps it too, with less weight, so
/// that it is known anew as soon as it comes back; meanwhile its demand is nothing.
fn learn(phase: &Phase, client: &mut ClientState) -> u64 {
    let wanted = client.busy.get() | client.waited.get() != 0;
    let (free, lasted) = if wanted {
        (free_time(phase, client), phase.poll)
    } else {
        (Ns::ZERO, Ns::ZERO)
    };
    let demand = client.kept.of_mut::<MaxMin>();
    if !client.throttled {
        fade(&mut demand.used, client.busy);
        fade(&mut demand.free, free);
        fade(&mut demand.measured, lasted);
    }
    demand.want = if wanted || client.throttled {
        // Who has only waited so far may want everything. Nobody who competes wants nothing.
        fair::share(demand.used.get(), demand.free.get()).max(1)
    } else {
        0
    };
    demand.want
}

/// What a client wants now.
pub(super) fn want(client: &ClientState) -> u64 {
    client.kept.of::<MaxMin>().map_or(0, |demand| demand.want)
}

/// Adds the time of a phase to a sum in which that of the phases before counts less and less.
fn fade(sum: &mut Ns, time: Ns) {
    let old = sum.get();
    // Of eight phases at most: it does not outgrow a word.
    *sum = Ns::new((old - old / FORGET).wrapping_add(time.get()));
}

/// What GPU time costs in virtual time.
struct Prices {
    level: u64,
    span: Ns,
    /// Of a whole GPU, as a share: for how many polling phases one stands.
    whole: u64,
    /// The same of what a unit of weight is entitled to.
    unit: u64,
}

impl Prices {
    fn new(phase: &Phase, level: u64) -> Self {
        let span = phase.span();
        let whole = fair::estimate(Ns::new(WHOLE), phase.poll, span).get();
        Self {
            level,
            span,
            whole,
            unit: mul_div(whole, WHOLE, level),
        }
    }

    /// How far the virtual time of a client that competes advances.
    fn advance(&self, client: &ClientState, demand: &Demand) -> VTime {
        let weight = u64::from(client.weight.get());
        let entitled = self.level.saturating_mul(weight);
        let (by, wants_more) = if entitled < WHOLE {
            let by = client
                .weight
                .divide(fair::part(client.busy.get(), self.unit));
            (by, demand.want >= entitled)
        } else {
            let by = fair::part(client.busy.get(), self.whole);
            (by, demand.want >= WHOLE)
        };
        if wants_more || client.throttled {
            return VTime::new(by);
        }
        let (free, measured) = (demand.free.get(), demand.measured.get());
        let calm = free.saturating_add(free / TOLERANCE);
        if calm >= measured {
            return VTime::new(by.max(self.span.get()));
        }
        VTime::new(by.max(fair::part(self.span.get(), fair::share(calm, measured))))
    }
}

/// Books what throttling has cost, `missed` of the GPU, and says whether more of it is allowed.
fn account(phase: &Phase, past: &mut Past, missed: u64) -> bool {
    let missed = fair::part(phase.poll.get(), missed.min(WHOLE));
    let missed = Ns::new(missed).min(phase.idle);
    let lost = fair::estimate(missed, phase.poll, phase.span());
    let allowed = Ns::new(phase.span().get() / LOSS);
    past.spent = past.spent.saturating_add(lost).saturating_sub(allowed);
    past.spent.is_zero()
}

/// Those that compete: that wanted the GPU or were kept from it.
struct Rivals {
    /// All bits of the times used: none if nobody used the GPU.
    used: u64,
    /// The least weight, if any.
    lightest: u32,
    /// The demand of those that were throttled.
    missed: u64,
    /// The least virtual time, or [`NEVER`].
    least: VTime,
    /// The least virtual time of those that were not throttled, or [`NEVER`].
    least_free: VTime,
    /// The greatest virtual time.
    greatest: VTime,
}

impl Rivals {
    const NONE: Self = Self {
        used: 0,
        lightest: u32::MAX,
        missed: 0,
        least: NEVER,
        least_free: NEVER,
        greatest: VTime::ZERO,
    };

    /// Adds a client that competes and wants so much.
    fn add(&mut self, client: &ClientState, want: u64) {
        let vtime = client.vtime;
        if client.throttled {
            self.missed = self.missed.saturating_add(want);
        } else {
            self.least_free = self.least_free.min(vtime);
        }
        self.least = self.least.min(vtime);
        self.used |= client.busy.get();
        self.lightest = self.lightest.min(client.weight.get());
        self.greatest = self.greatest.max(vtime);
    }

    /// How far the lightest gets in a period that it has for itself. With a shorter lead, it
    /// would overtake who is throttled for its sake.
    fn longest_step(&self, phase: &Phase, level: u64) -> u64 {
        let entitled = level.saturating_mul(self.lightest.into());
        mul_div(phase.lead.get(), WHOLE, entitled.min(WHOLE))
    }

    /// The least virtual time, but not further behind the greatest than a debt may last, and
    /// closer to it with time while nobody may be throttled.
    fn system_time(&self, phase: &Phase, step: u64, may_throttle: bool) -> VTime {
        // When only such compete that were throttled, one of them shall run.
        let least = match (self.least_free, self.least) {
            (NEVER, NEVER) => return phase.t_sys,
            (NEVER, least) | (least, _) => least,
        };
        // The others take a step in each period, while somebody waits for them.
        let longest = mul_div(step, LONGEST_THROTTLE.get(), phase.lead.get().max(1));
        let floor = self.greatest.saturating_sub(VTime::new(longest.max(step)));
        let lead = self.greatest.saturating_sub(least);
        let faded = if may_throttle {
            0
        } else {
            mul_div(lead.get(), phase.span().min(FADE).get(), FADE.get())
        };
        let least = least.saturating_add(VTime::new(faded));
        least.max(floor).max(phase.t_sys)
    }
}
