// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Sparse accounting: reads of the status word at random instants.
//!
//! Time is cut into strata of one length `S`, without gaps. In each, the status word is read once,
//! at an instant drawn uniformly, and the occupant is charged `S`.
//!
//! *Unbiased*: every instant is as likely to be sampled as any other, whatever the clients do and
//! however regularly: no client can run in step with the samples. That is why the instants are not
//! equidistant.
//!
//! *Variance*: a stratum in which a client runs for the part `q` adds `S^2 q (1 - q)`,
//! zero if it runs all the time or not at all. Summed over `n` strata that is never more than
//! with `n` independent instants, `S^2 n p (1 - p)`, and less the longer commands are
//! compared to `S`. That is why there are strata. Within them the instants are
//! independent: moving on by the golden section instead was better for most loads and
//! fell in step with one of commands of 1000 and 200 us.
//!
//! *Its estimate*: half the sum of squared differences of neighbouring samples. Where one sample
//! finds a client and the next does not, or the other way round, the difference is `S`, so the
//! estimate is `S^2` times [`Slot::runs`], the times that a client was newly found. Strata differ
//! from each other, so the estimate is rather too large; counted per channel and added up for a
//! client, still more so.
//!
//! *Bound*: `1.96 sqrt(variance + S^2) + 2 S` with 95 % confidence; the additions are those of
//! Wilson's interval, for clients that were hardly ever found. A command of 600 us in every 1035
//! us, sampled every 10 ms, was beyond the bound in 3 of 100 windows of 4 s, and beyond twice the
//! bound in none.
//!
//! What it costs: one sample, with the interrupt of its timer, each `S`. See [`Pace`]
//! for how `S` is chosen.

use super::{clear, goes_on, slot_of, PhaseTotals, Slot, UsedSlots};
use crate::regs::Occupant;
use crate::units::Ns;

/// Shortest stratum: 3333 samples per second, one percent of a core at 3 us each.
pub const MIN_INTERVAL: Ns = Ns::from_us(300);
/// Longest stratum while several clients are active.
pub const MAX_INTERVAL: Ns = Ns::from_us(4_000);
/// Stratum while at most one client is active. No clients need be told apart then; how long the GPU
/// is busy is still measured, with 100 samples per second.
pub const UNSHARED_INTERVAL: Ns = Ns::from_ms(10);
/// How long at most one client must have been seen before samples become rare.
pub const QUIET: Ns = Ns::from_ms(1_000);

/// Accounts one engine by samples at random instants. One per GPU, in place of an
/// [`super::Accountant`], with the same slots and the same totals.
///
/// Strata go on over the end of a phase: a phase gets the strata that were sampled in it, so its
/// length differs from that of the clock by up to one stratum.
pub struct Sparse {
    random: u64,
    interval: Ns,
    /// Up to when time has been charged: the end of a stratum.
    charged: Ns,
    /// End of the stratum that is to be sampled.
    end: Ns,
    /// When to sample it.
    next: Ns,
    current: Occupant,
    totals: PhaseTotals,
    used: UsedSlots,
    samples: u64,
    /// What the last sample stood for.
    last: Ns,
}

impl Sparse {
    /// One that has seen nothing. The same seed draws the same instants.
    pub const fn new(seed: u64) -> Self {
        Self {
            // Zero is the one state that never changes.
            random: if seed == 0 { 1 } else { seed },
            interval: MIN_INTERVAL,
            charged: Ns::ZERO,
            end: Ns::ZERO,
            next: Ns::ZERO,
            current: Occupant::Idle,
            totals: PhaseTotals::ZERO,
            used: UsedSlots::new(),
            samples: 0,
            last: Ns::ZERO,
        }
    }

    /// Begins a phase with strata of `interval` and returns when to sample. Clears the slots of the
    /// last phase.
    ///
    /// A stratum that the last phase left without a sample keeps its end and its instant: if that
    /// were drawn anew, the beginnings of phases would be sampled more often than other times. If
    /// there has been none for long, the first begins `now`.
    pub fn begin(&mut self, slots: &mut [Slot], now: Ns, interval: Ns) -> Ns {
        clear(slots, &mut self.used);
        self.totals = PhaseTotals::default();
        self.interval = interval.max(MIN_INTERVAL).min(UNSHARED_INTERVAL);
        if self.samples > 0 && now <= self.end.saturating_add(self.interval) {
            return self.next;
        }
        self.charged = now;
        self.draw()
    }

    /// Notes the occupant `now`, at the instant that was drawn or later, and returns when to sample
    /// next.
    ///
    /// Strata that were missed, because the timer came late, are charged to this occupant: up to
    /// the end of the stratum in which `now` lies.
    pub fn sample(&mut self, slots: &mut [Slot], now: Ns, occupant: Occupant) -> Ns {
        self.samples = self.samples.saturating_add(1);
        if now > self.end {
            let missed = now.saturating_sub(self.end).get() / self.interval.get().max(1);
            let whole = self.interval.saturating_mul(missed.saturating_add(1));
            self.end = self.end.saturating_add(whole);
        }
        let time = self.end.saturating_sub(self.charged);
        (self.charged, self.last) = (self.end, time);
        self.charge(slots, time, occupant);
        self.draw()
    }

    /// Ends the phase. A stratum without a sample goes to the next one.
    pub const fn end(&self) -> PhaseTotals {
        self.totals
    }

    /// Indices of the slots that were used in this phase, ascending.
    pub fn used(&self) -> impl Iterator<Item = usize> + '_ {
        self.used.iter()
    }

    /// The slots that were used in this phase.
    pub const fn used_slots(&self) -> &UsedSlots {
        &self.used
    }

    /// The occupant found last.
    pub const fn current(&self) -> Occupant {
        self.current
    }

    /// The time that the last sample stood for: another engine that was read along with it is
    /// charged as much.
    pub const fn stood_for(&self) -> Ns {
        self.last
    }

    /// Samples so far.
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    /// Length of the strata.
    pub const fn interval(&self) -> Ns {
        self.interval
    }

    fn charge(&mut self, slots: &mut [Slot], time: Ns, occupant: Occupant) {
        self.totals.length = self.totals.length.saturating_add(time);
        let is_new = !goes_on(self.current, occupant);
        self.current = occupant;
        self.totals.switches = self.totals.switches.saturating_add(is_new.into());
        if occupant == Occupant::Idle {
            self.totals.idle = self.totals.idle.saturating_add(time);
            return;
        }
        let index = slot_of(occupant);
        match index.and_then(|index| slots.get_mut(index)) {
            Some(slot) => {
                slot.ran = slot.ran.saturating_add(time);
                slot.runs = slot.runs.saturating_add(is_new.into());
                slot.note_context(occupant);
                self.totals.ran = self.totals.ran.saturating_add(time);
                self.used.mark(index);
            }
            None => self.totals.unknown = self.totals.unknown.saturating_add(time),
        }
    }

    /// Begins the next stratum and draws an instant in it.
    fn draw(&mut self) -> Ns {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.end = self.charged.saturating_add(self.interval);
        // The upper half, as a fraction of 2^32; strata are shorter than 2^32 ns.
        let part = (self.random >> 32).saturating_mul(self.interval.get()) >> 32;
        self.next = self.charged.saturating_add(Ns::new(part));
        self.next
    }
}

/// Variance of the time charged for `runs` in strata of `interval`, in square
/// microseconds.
pub const fn variance_us2(runs: u64, interval: Ns) -> u64 {
    let us = interval.get() / 1000;
    us.saturating_mul(us).saturating_mul(runs)
}

/// What a time with this variance may be wrong by, with 95 % confidence.
pub fn bound(variance_us2: u64, interval: Ns) -> Ns {
    let us = interval.get() / 1000;
    let root = variance_us2
        .saturating_add(us.saturating_mul(us))
        .isqrt()
        .saturating_add(1);
    let us = (root.saturating_mul(196) / 100).saturating_add(us.saturating_mul(2));
    Ns::from_us(us)
}

/// How often to sample.
///
/// As often as a bound of 0.7 points over two seconds needs with independent instants:
/// `S = 2 s (0.007 / 1.96)^2 / v`, where `v` is the largest `p (1 - p)` of all clients, within
/// [`MIN_INTERVAL`] and [`MAX_INTERVAL`]. Two equal clients need the most samples, many small ones
/// few.
///
/// A phase in which a client is throttled says nothing about one in which it runs again: for the
/// latter, the last phase without a throttled client counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// For how long at most one client has been seen.
    quiet: Ns,
    /// The client that was seen alone last.
    sole: Option<usize>,
    /// `v` of the last phase in which no client was throttled.
    free: u64,
    /// A client was throttled in the phase that has ended.
    throttled: bool,
}

impl Pace {
    /// A pace without any client known.
    pub const fn new() -> Self {
        Self {
            quiet: Ns::ZERO,
            sole: None,
            free: 0,
            throttled: false,
        }
    }

    /// The stratum for the next phase, from what each client used of the last one, of
    /// length `length`. `alone` says that only one client has channels at all,
    /// `limited` that a limit is in force, `throttled` that a client is throttled in the
    /// next phase: then the time of a client that is seen alone matters too.
    pub fn interval(
        &mut self,
        length: Ns,
        alone: bool,
        limited: bool,
        throttled: bool,
        used: impl Iterator<Item = Ns>,
    ) -> Ns {
        /// Microseconds for `v` of one, times 1024.
        const US: u64 = 26 * 1024;
        let (mut active, mut largest, mut sole) = (0u32, 0u64, None);
        for (at, busy) in used.enumerate().filter(|(_, busy)| !busy.is_zero()) {
            active = active.saturating_add(1);
            sole = Some(at);
            let part = crate::fair::mul_div(busy.get(), 1024, length.get().max(1)).min(1024);
            largest = largest.max(part * (1024 - part) / 1024);
        }
        // With few samples in a phase, two light clients are hardly ever found in the same.
        let another = sole.is_some() && self.sole.is_some() && sole != self.sole;
        self.sole = sole.or(self.sole).filter(|_| active < 2);
        if active > 1 || another {
            self.quiet = Ns::ZERO;
        } else {
            self.quiet = self.quiet.saturating_add(length);
        }
        if !self.throttled {
            self.free = largest;
        }
        self.throttled = throttled;
        if !throttled {
            largest = largest.max(self.free);
        }
        if !limited && !throttled && (alone || self.quiet >= QUIET) {
            return UNSHARED_INTERVAL;
        }
        let wanted = US.checked_div(largest).map_or(MAX_INTERVAL, Ns::from_us);
        wanted.max(MIN_INTERVAL).min(MAX_INTERVAL)
    }
}
