// SPDX-License-Identifier: GPL-2.0

//! Policy `event`: virtual-time fair queuing on total GPU time.
//!
//! Rule: `dvt = used / used_by_all * (t_poll + t_nonpoll) * 100 / weight`;
//! `t_sys = min vt over clients active in the phase`; who is idle and behind is
//! lifted to `t_sys`; `held = vt > t_sys + (t_poll + t_nonpoll)`.
//! Good for: equal (weighted) shares among clients that always have work.
//! Bad for: mixes in which nobody else wants the time: it is not work-conserving,
//! a client that wants little holds the system time down and stops the hog.
//! Bound: a client runs ahead of an active one by one period plus what it uses in
//! one more, plus one command, which cannot be stopped.
//! Source: LoGA paper, sections 3.4 and 4.2.

use super::{ClientState, Phase, Policy};
use crate::fair;
use crate::units::{Ns, VTime};

/// Virtual-time fair queuing on total GPU time.
pub(super) struct Event;

impl Policy for Event {
    const NAME: &'static str = "event";

    fn decide(phase: &Phase, clients: &mut [ClientState]) -> VTime {
        let used_by_all = clients
            .iter()
            .fold(Ns::ZERO, |sum, client| sum.saturating_add(client.busy));
        for client in clients.iter_mut() {
            let by = fair::advance(client.busy, used_by_all, phase.span(), client.weight);
            client.vtime = client.vtime.saturating_add(by);
        }
        let t_sys = clients
            .iter()
            .filter(|client| client.active())
            .map(|client| client.vtime)
            .min()
            .map_or(phase.t_sys, |least| least.max(phase.t_sys));
        let limit = fair::threshold(t_sys, phase.lead);
        for client in clients.iter_mut() {
            if !client.active() {
                client.vtime = client.vtime.max(t_sys);
            }
            // On an idle GPU nobody waits: there is nobody to wait for.
            client.held = !used_by_all.is_zero() && client.vtime > limit;
        }
        t_sys
    }
}
