// SPDX-License-Identifier: GPL-2.0

//! Policy `maxmin`: weighted max-min fairness on estimated demands, work-conserving.
//!
//! Rule, with `want = busy / (phase - waited)` and `free = 1 - waited / phase`, both smoothed over
//! some periods in which the client wanted the GPU, and `level` so that the entitlements
//! `min(want, weight * level)` fill the GPU, to a thousandth:
//! `dvt = span * busy / phase / (weight * level)`, for clients that want less than `weight * level`
//! at least `span * min(1, 6/5 * free)`; `t_sys = min vt` over the clients that wanted the GPU and
//! were not throttled, or over the throttled ones if there are no others;
//! `throttled = vt > t_sys + step`, `step = span / (w_min * level)`, `w_min` the least weight of
//! the clients that wanted it or were throttled, unless throttling has idled the GPU for more than
//! a tenth of the time.
//!
//! Where copies are measured and more of the copy engine is wanted than there is, it counts as well:
//! with `copied` in place of `busy`, and a level of its own, `dvt` is the greater of both engines'.
//! A client so pays for its dominant share, the engine of which it has more of what it is entitled
//! to; `step` is that of the lesser level.
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
//! `span * busy / phase / (weight * level)`, one step at most; no client is set back, and a
//! throttled client is not overtaken, because the others advance by one step at most from below.
//! Commands submitted before a client is throttled run on: deep queues and long commands put a
//! client further ahead. It pays for all of that, throttled until the others are as far, but not
//! for longer than [`LONGEST_THROTTLE`]. Not proven: anything while no throttling is allowed (the
//! bound on work comes first), while demands change the level (steps of old and new levels mix), or
//! when polling phases differ from the rest of the period, of which they are the only measurement.
//! Debts are forgiven by age, not by size: only while the bound on work forbids throttling, the
//! lead of each client over the system fades, `lead -= lead * span / 10 s`. A client that ran
//! beside clients that did not want the GPU does not owe them that time for ever, and it cannot get
//! rid of the debt itself: throttling idles the GPU only if other clients leave it idle.
//! Bound, work: GPU time lost to throttling is at most a tenth of the time and what is lost in one
//! period. Proof: the account `spent` grows by what a period lost and falls by a tenth of its span;
//! no client is throttled while it is not zero, and what throttling loses is added one period
//! later. Not proven: that the loss is what the estimates say. A demand kept from before a client
//! was throttled may be wrong, and the GPU may be idle in non-polling phases alone.
//! Source: max-min fairness by water-filling (Bertsekas and Gallager, Data Networks,
//! section 6.5); virtual time as in the LoGA paper, section 3.4; dominant shares as in Ghodsi and
//! others, Dominant Resource Fairness, NSDI 2011, which divides quantities that are known.

use super::{ClientState, Phase, Policy, Rule, Sight};
use crate::fair::{self, mul_div, WHOLE};
use crate::units::{Ns, VTime, Weight};

/// Old observations lose this part of their weight in each period.
const FORGET: u64 = 8;
/// Part of the time that may be lost to throttling.
const LOSS: u64 = 10;
/// A client that wants little may wait for this part of its time unnoticed.
const TOLERANCE: u64 = 5;
/// Longest time for which past use keeps a client throttled, as with limits.
pub(super) const LONGEST_THROTTLE: Ns = Ns::from_ms(60_000);
/// Time in which a debt falls to a third while no client may be throttled.
const FADE: Ns = Ns::from_ms(10_000);
/// A virtual time that no client reaches.
const NEVER: VTime = VTime::new(u64::MAX);

/// What is known of a client's demand. The times fade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Time used.
    used: Ns,
    /// Time used of the copy engine.
    copied: Ns,
    /// Time not spent waiting to compute, and time not spent waiting to copy.
    pub(super) free: Ns,
    free_to_copy: Ns,
    /// Time in which both were measured.
    measured: Ns,
    /// The share of the GPU that follows from the first two; zero while the client wants nothing.
    pub(super) want: u64,
    /// The share of the copy engine, in the same way.
    pub(super) want_copies: u64,
}

/// What is known of the periods so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// GPU time that throttling has cost beyond what is allowed.
    pub(super) spent: Ns,
    /// The last level, and that of the copy engine.
    level: u64,
    copy_level: u64,
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
        let (mut all, mut all_copies) = ((0u64, 0u64), (0u64, 0u64));
        for client in clients.iter_mut() {
            let demand = learn(phase, client);
            let weight = u64::from(client.weight.get());
            for (want, all) in [
                (demand.want, &mut all),
                (demand.want_copies, &mut all_copies),
            ] {
                if want > 0 {
                    // Of 33 bits each: the sum does not outgrow a word.
                    all.0 = all.0.wrapping_add(want);
                    all.1 = all.1.wrapping_add(weight);
                }
            }
        }
        let claims = |want: fn(&Demand) -> u64| {
            let all = clients.iter();
            all.map(move |client| (wanted(client, want), client.weight.get().into()))
        };
        past.level = fair::level(claims(|one| one.want), all, past.level);
        // Mostly nobody copies, or there is enough.
        past.copy_level = match all_copies.0 <= WHOLE {
            true => WHOLE,
            false => fair::level(claims(|one| one.want_copies), all_copies, past.copy_level),
        };
        let prices = Prices::new(phase, past);
        let mut rivals = Rivals::NONE;
        for client in clients.iter_mut() {
            let demand = client.kept.of::<Self>();
            if let Some(demand) = demand.copied().filter(|demand| demand.want > 0) {
                let by = prices.advance(client, &demand);
                client.vtime = client.vtime.saturating_add(by);
                rivals.add(client, &demand);
            }
        }
        let may_throttle = account(phase, past, &rivals);
        let step = rivals.longest_step(phase, past.level.min(past.copy_level));
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
/// means than the time used: it is cut to what the time used leaves.
fn free_time(phase: &Phase, waited: Ns, used: Ns) -> Ns {
    phase.poll.saturating_sub(waited).max(used)
}

/// Estimates what a client would use if it never waited. A throttled client keeps its estimate,
/// since it shows nothing. A client that wanted nothing keeps it too, with less weight, so that new
/// observations count as soon as it comes back; meanwhile its demand is zero.
fn learn(phase: &Phase, client: &mut ClientState) -> Demand {
    let computes = client.busy.get() | client.waited.get();
    let copies = client.copied.get() | client.waited_to_copy.get();
    let wanted = computes | copies != 0;
    let (free, free_to_copy, lasted) = if wanted {
        let free = free_time(phase, client.waited, client.busy);
        let free_to_copy = free_time(phase, client.waited_to_copy, client.copied);
        (free, free_to_copy, phase.poll)
    } else {
        (Ns::ZERO, Ns::ZERO, Ns::ZERO)
    };
    let demand = client.kept.of_mut::<MaxMin>();
    if !client.throttled {
        fade(&mut demand.used, client.busy);
        fade(&mut demand.copied, client.copied);
        fade(&mut demand.free, free);
        fade(&mut demand.free_to_copy, free_to_copy);
        fade(&mut demand.measured, lasted);
    }
    demand.want = if wanted || client.throttled {
        // A client that has only waited so far may want everything. No client that competes wants
        // nothing.
        fair::share(demand.used.get(), demand.free.get()).max(1)
    } else {
        0
    };
    // One that has only waited to copy so far may want everything of that engine too.
    let copied = !demand.copied.is_zero() || copies != 0;
    demand.want_copies = if demand.want > 0 && copied {
        fair::share(demand.copied.get(), demand.free_to_copy.get())
    } else {
        0
    };
    *demand
}

/// Something that a client wants now.
pub(super) fn wanted(client: &ClientState, want: impl FnOnce(&Demand) -> u64) -> u64 {
    client.kept.of::<MaxMin>().map_or(0, want)
}

/// Adds the time of a phase to a sum in which older phases count less and less.
fn fade(sum: &mut Ns, time: Ns) {
    let old = sum.get();
    // Of eight phases at most: it does not outgrow a word.
    let kept = old.wrapping_sub(old / FORGET);
    *sum = Ns::new(kept.wrapping_add(time.get()));
}

/// What the time of an engine costs in virtual time.
struct Price {
    level: u64,
    /// Of a whole engine, as a share: the span over the length of the polling phase.
    whole: u64,
    /// The same of what a unit of weight is entitled to.
    unit: u64,
}

impl Price {
    /// What a client pays for this use, and whether it wants more than it is entitled to.
    fn of(&self, used: Ns, want: u64, weight: Weight) -> (u64, bool) {
        let entitled = self.level.saturating_mul(weight.get().into());
        if entitled < WHOLE {
            let by = weight.divide(fair::part(used.get(), self.unit));
            (by, want >= entitled)
        } else {
            (fair::part(used.get(), self.whole), want >= WHOLE)
        }
    }
}

/// What GPU time costs in virtual time.
struct Prices {
    span: Ns,
    compute: Price,
    /// Nothing while there is enough of the copy engine for all.
    copies: Option<Price>,
}

impl Prices {
    fn new(phase: &Phase, past: &Past) -> Self {
        let span = phase.span();
        let whole = fair::estimate(Ns::new(WHOLE), phase.poll, span).get();
        let price = |level| Price {
            level,
            whole,
            unit: mul_div(whole, WHOLE, level),
        };
        Self {
            span,
            compute: price(past.level),
            copies: (past.copy_level < WHOLE).then(|| price(past.copy_level)),
        }
    }

    /// How far the virtual time of a client that competes advances.
    fn advance(&self, client: &ClientState, demand: &Demand) -> VTime {
        let weight = client.weight;
        let (mut by, mut wants_more) = self.compute.of(client.busy, demand.want, weight);
        if let Some(copies) = &self.copies {
            let (more, wants) = copies.of(client.copied, demand.want_copies, weight);
            (by, wants_more) = (by.max(more), wants_more || wants);
        }
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
}

/// Books what throttling has cost, of the engine of which that is more, and returns whether more
/// throttling is allowed.
fn account(phase: &Phase, past: &mut Past, rivals: &Rivals) -> bool {
    let unserved = |want: u64, idle: Ns| {
        let unserved = fair::part(phase.poll.get(), want.min(WHOLE));
        Ns::new(unserved).min(idle)
    };
    let copies_idle = phase.poll.saturating_sub(rivals.copied);
    let unserved = unserved(rivals.throttled_want, phase.idle)
        .max(unserved(rivals.throttled_copies, copies_idle));
    let lost = fair::estimate(unserved, phase.poll, phase.span());
    let allowed = Ns::new(phase.span().get() / LOSS);
    past.spent = past.spent.saturating_add(lost).saturating_sub(allowed);
    past.spent.is_zero()
}

/// The clients that compete: those that wanted the GPU or were throttled.
struct Rivals {
    /// All bits of the times used: zero if no client used the GPU.
    used: u64,
    /// The least weight, if any.
    lightest: u32,
    /// The demand of the clients that were throttled, and that for the copy engine.
    throttled_want: u64,
    throttled_copies: u64,
    /// Time used of the copy engine.
    copied: Ns,
    /// The least virtual time of the clients that were throttled, or [`NEVER`].
    least_throttled: VTime,
    /// The least virtual time of the clients that were not throttled, or [`NEVER`].
    least_free: VTime,
    /// The greatest virtual time.
    greatest: VTime,
}

impl Rivals {
    const NONE: Self = Self {
        used: 0,
        lightest: u32::MAX,
        throttled_want: 0,
        throttled_copies: 0,
        copied: Ns::ZERO,
        least_throttled: NEVER,
        least_free: NEVER,
        greatest: VTime::ZERO,
    };

    /// Adds a client that competes, with what it wants.
    fn add(&mut self, client: &ClientState, demand: &Demand) {
        let vtime = client.vtime;
        if client.throttled {
            // As the sum of all wants.
            self.throttled_want = self.throttled_want.wrapping_add(demand.want);
            self.throttled_copies = self.throttled_copies.wrapping_add(demand.want_copies);
            self.least_throttled = self.least_throttled.min(vtime);
        } else {
            self.least_free = self.least_free.min(vtime);
        }
        self.used |= client.busy.get() | client.copied.get();
        self.copied = self.copied.saturating_add(client.copied);
        self.lightest = self.lightest.min(client.weight.get());
        self.greatest = self.greatest.max(vtime);
    }

    /// How far the lightest client gets in a period in which it runs alone. With a shorter lead, it
    /// would overtake the client that is throttled for it.
    fn longest_step(&self, phase: &Phase, level: u64) -> u64 {
        let entitled = level.saturating_mul(self.lightest.into());
        mul_div(phase.lead.get(), WHOLE, entitled.min(WHOLE))
    }

    /// The least virtual time, but not further behind the greatest than a debt may last, and closer
    /// to it with time while no client may be throttled.
    fn system_time(&self, phase: &Phase, step: u64, may_throttle: bool) -> VTime {
        // When only throttled clients compete, one of them has to run.
        let least = match (self.least_free, self.least_throttled) {
            (NEVER, NEVER) => return phase.t_sys,
            (NEVER, least) | (least, _) => least,
        };
        // The others take a step in each period, while a client waits for them.
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
