// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The event `power/gpu_work_period`: the time of each user in a period.
//!
//! The rules of the event are in `gpu_work_period_trace.h`.

use crate::fair;
use crate::glue::kernel::order;
use crate::glue::trace;
use crate::share::Member;
use crate::units::Ns;
use kernel::bindings;
use kernel::prelude::*;

/// Longest period of one event.
const MAX_PERIOD_NS: u64 = 1_000_000_000;
/// How far back the periods emitted at a time go: the first of two ends less than a second ago.
const MAX_BACK_NS: u64 = 1_900_000_000;

/// The time emitted so far, and room to add up by user.
pub(crate) struct WorkPeriods {
    /// End of the last period, by the raw clock.
    emitted: u64,
    /// User and busy time; has room for all clients.
    users: KVVec<(u32, Ns)>,
}

impl WorkPeriods {
    /// Nothing emitted yet.
    pub(crate) const fn new(users: KVVec<(u32, Ns)>) -> Self {
        Self { emitted: 0, users }
    }

    /// Takes more room.
    pub(crate) fn grow(&mut self, users: KVVec<(u32, Ns)>) {
        self.users = users;
    }

    /// Emits each user's part of the `span` that ends now, estimated from `measured`. Allocates
    /// nothing.
    pub(crate) fn emit(&mut self, gpu: u32, clients: &[Member], measured: Ns, span: Ns) {
        // SAFETY: Readable from every context. CAST: nanoseconds since boot are positive.
        let end = unsafe { bindings::ktime_get_raw() } as u64;
        let most = span.get().min(MAX_BACK_NS);
        let start = end.saturating_sub(most).max(self.emitted);
        let length = end.saturating_sub(start);
        if length == 0 {
            return;
        }
        self.emitted = end;
        self.add_up(clients);
        for clients in self.users.chunk_by(|one, other| one.0 == other.0) {
            let Some(&(uid, _)) = clients.first() else {
                break;
            };
            let busy = clients
                .iter()
                .fold(Ns::ZERO, |sum, &(_, busy)| sum.saturating_add(busy));
            let active = fair::estimate(busy, measured, Ns::new(length)).get();
            emit_user(gpu, uid, start, (length, active.min(length)));
        }
    }

    /// Collects the busy times of active clients, sorted by user.
    fn add_up(&mut self, clients: &[Member]) {
        self.users.clear();
        for client in clients {
            let busy = client.used().busy;
            if !busy.is_zero() {
                // There is room: `grow`.
                let _ = self
                    .users
                    .push_within_capacity((client.identity().user, busy));
            }
        }
        order::sort_by_key(&mut self.users, |&(uid, _)| uid);
    }
}

/// Emits a user's active time in equal periods, from `start` for `length`.
fn emit_user(gpu: u32, uid: u32, start: u64, (length, active): (u64, u64)) {
    let periods = length.div_ceil(MAX_PERIOD_NS);
    // Prefix sums of the parts: their differences add up to the whole.
    let parts = |whole: u64, count: u64| whole.saturating_mul(count) / periods;
    for period in 0..periods {
        let next = period.saturating_add(1);
        let (from, to) = (parts(length, period), parts(length, next));
        let part = parts(active, next).saturating_sub(parts(active, period));
        trace::gpu_work_period(
            gpu,
            uid,
            start.saturating_add(from),
            start.saturating_add(to),
            part.min(to.saturating_sub(from)),
        );
    }
}
