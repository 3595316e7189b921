// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The clients that compete for an engine under `maxmin`: who is behind, how far another one
//! may be ahead, and what becomes of a lead.

use super::demand::{Engine, Level};
use super::{ClientState, Phase};
use crate::fair::{self, mul_div, WHOLE};
use crate::units::{Ns, VTime};

/// Longest lead of a client, in virtual time: more than two years. A command that runs for months
/// on a small weight moves neither its client nor the system to the end of virtual time.
pub(super) const LONGEST_LEAD: VTime = VTime::new(1 << 56);
/// Time in which a debt falls to a third while no client may be throttled.
const FADE: Ns = Ns::from_ms(10_000);
/// A virtual time that no client reaches.
pub(super) const NEVER: VTime = VTime::new(u64::MAX);

/// The clients that compete for an engine: those that wanted it or were throttled.
pub(super) struct Rivals {
    /// Time used by all of them.
    pub(super) used: Ns,
    /// The least weight, if any.
    lightest: u32,
    /// The demand of the clients that were throttled.
    throttled_want: u64,
    /// The least virtual time of the clients that were throttled, or [`NEVER`].
    least_throttled: VTime,
    /// The least virtual time of the clients that were not throttled, or [`NEVER`].
    least_free: VTime,
}

impl Rivals {
    pub(super) const NONE: Self = Self {
        used: Ns::ZERO,
        lightest: u32::MAX,
        throttled_want: 0,
        least_throttled: NEVER,
        least_free: NEVER,
    };

    /// Whether there are any.
    pub(super) const fn any(&self) -> bool {
        self.lightest != u32::MAX
    }

    /// Adds a client that competes, with what it wants.
    pub(super) fn add<E: Engine>(&mut self, client: &ClientState, want: u64) {
        let vtime = E::vtime(client);
        if client.throttled {
            // As the sum of all wants.
            self.throttled_want = self.throttled_want.wrapping_add(want);
            self.least_throttled = self.least_throttled.min(vtime);
        } else {
            self.least_free = self.least_free.min(vtime);
        }
        self.used = self.used.saturating_add(E::used(client));
        self.lightest = self.lightest.min(client.weight.get());
    }

    /// What throttled clients want of a polling phase in which the engine was idle for this time.
    pub(super) fn unserved(&self, phase: &Phase, idle: Ns) -> Ns {
        let unserved = fair::part(phase.poll.get(), self.throttled_want.min(WHOLE));
        Ns::new(unserved).min(idle)
    }

    /// The virtual time beyond which clients are throttled; moves the engine's system virtual time.
    pub(super) fn limit(&self, phase: &Phase, past: &mut Level, may_throttle: bool) -> VTime {
        let step = self.longest_step(phase, past.level);
        past.t_sys = self.system_time(past.t_sys);
        if may_throttle && !self.used.is_zero() {
            past.t_sys.saturating_add(VTime::new(step))
        } else {
            NEVER
        }
    }

    /// How far the lightest client gets in a period in which it runs alone. With a shorter lead, it
    /// would overtake the client that is throttled for it.
    fn longest_step(&self, phase: &Phase, level: u64) -> u64 {
        let entitled = level.saturating_mul(self.lightest.into());
        mul_div(phase.lead.get(), WHOLE, entitled.min(WHOLE))
    }

    /// The least virtual time. Of the clients that may run, as long as there are any: when only
    /// throttled clients compete, one of them has to run.
    fn system_time(&self, before: VTime) -> VTime {
        let least = match (self.least_free, self.least_throttled) {
            (NEVER, NEVER) => before,
            (NEVER, least) | (least, _) => least,
        };
        least.max(before)
    }
}

/// The virtual time of a client after a decision: not behind the system. What it is ahead fades
/// while no client may be throttled; it stays its own, so that the debt of one client changes
/// nothing between two others.
pub(super) fn after(phase: &Phase, vtime: VTime, t_sys: VTime, may_throttle: bool) -> VTime {
    let lead = vtime.saturating_sub(t_sys).min(LONGEST_LEAD);
    let faded = if may_throttle {
        0
    } else {
        mul_div(lead.get(), phase.span().min(FADE).get(), FADE.get())
    };
    t_sys.saturating_add(lead.saturating_sub(VTime::new(faded)))
}
