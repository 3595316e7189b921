// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The kernel side of one client: its process, and whether its gates are shut. Its time is in
//! [`Member`].
//!
//! While it is throttled, it is known since when, and until when the decision applies. When it is
//! released, it is noted at which decision, and for how long it had been throttled.

use super::gates::gate::Gate;
use crate::glue::control::listeners::About;
use crate::glue::kernel::process::Process;
use crate::share::Member;
use crate::uapi;
use crate::units::Ns;

/// The kernel side of a client.
pub(crate) struct ClientKernel {
    process: Process,
    /// Its number in the initial pid namespace.
    tgid: i32,
    comm: [u8; uapi::COMM_LEN],
    since: Ns,
    throttled_since: Option<Ns>,
    throttled_until: Ns,
    /// The decision that released it last, and for how long it had been throttled.
    released: Option<(Ns, Ns)>,
    /// Time of its threads on processors at the last scan that asked for it.
    cpu_time: Option<Ns>,
    /// Its channels, as they were counted last, and the time before.
    channels: u32,
    channels_before: u32,
    /// Its wait queue, if its submissions are decided on.
    wait_queue: Option<usize>,
}

/// What a decision changes of the gate of a page.
pub(super) enum GateChange {
    /// Nothing, but for how long it applies.
    StaysShut,
    /// It is shut now.
    Shuts,
    /// It is opened now, after so long a time.
    Opens(Ns),
}

impl ClientKernel {
    /// A process that is a client from `since` on, and is not throttled.
    pub(super) fn new(process: &Process, since: Ns, wait_queue: Option<usize>) -> Self {
        Self {
            process: process.clone(),
            tgid: process.initial_number(),
            comm: process.comm(),
            since,
            throttled_since: None,
            throttled_until: Ns::ZERO,
            released: None,
            cpu_time: None,
            channels: 0,
            channels_before: 0,
            wait_queue,
        }
    }

    /// Its process.
    pub(crate) const fn process(&self) -> &Process {
        &self.process
    }

    /// The number of its process in the initial pid namespace.
    pub(crate) const fn tgid(&self) -> i32 {
        self.tgid
    }

    /// The name of its process, as it was when it became a client.
    pub(crate) const fn comm(&self) -> &[u8; uapi::COMM_LEN] {
        &self.comm
    }

    /// When it became a client.
    pub(crate) const fn since(&self) -> Ns {
        self.since
    }

    /// Whether its process lives.
    pub(super) fn lives(&self) -> bool {
        self.process.identity().is_some()
    }

    /// The client as events describe it.
    pub(crate) fn about(&self, member: &Member) -> About<'_> {
        About {
            client: member.id().get(),
            process: &self.process,
            user: member.identity().user,
            comm: &self.comm,
        }
    }

    /// Since when its gates are shut, if they are.
    pub(crate) const fn throttled_since(&self) -> Option<Ns> {
        self.throttled_since
    }

    /// Shuts its gates, which have been shut `since` or are from now on, by a decision that applies
    /// `until`.
    pub(super) const fn throttle(&mut self, since: Ns, until: Ns) {
        (self.throttled_since, self.throttled_until) = (Some(since), until);
    }

    /// Opens its gates, which were shut `since`, by the decision of `now`. Returns for how long they were
    /// shut.
    pub(super) const fn release(&mut self, since: Ns, now: Ns) -> Ns {
        let time = now.saturating_sub(since);
        self.throttled_since = None;
        self.released = Some((now, time));
        time
    }

    /// What the decision of `now` changes of one of its gates, if anything.
    pub(super) fn gate_change(&self, gate: &Gate, now: Ns) -> Option<GateChange> {
        match (self.throttled_since, self.released) {
            (Some(since), _) if since != now && gate.is_shut() => Some(GateChange::StaysShut),
            // Throttled now, or the last decision came so late that a fault opened the gate.
            (Some(_), _) => Some(GateChange::Shuts),
            (None, Some((at, time))) if at == now => Some(GateChange::Opens(time)),
            (None, _) => None,
        }
    }

    /// Shuts or opens a gate as those of its other pages. Returns whether it is shut.
    pub(super) fn set_gate(&self, gate: &Gate) -> bool {
        let is_shut = self.throttled_since.is_some();
        if is_shut {
            gate.shut(self.throttled_until);
        } else {
            gate.open();
        }
        is_shut
    }

    /// Its wait queue, if its submissions are decided on.
    pub(crate) const fn wait_queue(&self) -> Option<usize> {
        self.wait_queue
    }

    /// Gives it a wait queue. Its pages follow by `SubmissionPages::assign_wait_queues`.
    pub(super) const fn set_wait_queue(&mut self, wait_queue: Option<usize>) {
        self.wait_queue = wait_queue;
    }

    /// Begins to count its channels anew.
    pub(super) const fn recount_channels(&mut self) {
        (self.channels, self.channels_before) = (0, self.channels);
    }

    /// Counts channels of one of its pages.
    pub(super) const fn count_channels(&mut self, channels: u32) {
        self.channels = self.channels.saturating_add(channels);
    }

    /// Its channels, as they were counted last, and whether they were as many the time before.
    pub(super) const fn counted_channels(&self) -> (u32, bool) {
        (self.channels, self.channels == self.channels_before)
    }

    /// How long its threads were on processors since this was asked last.
    pub(super) fn take_cpu_time(&mut self) -> Ns {
        let total = self.process.cpu_time();
        let before = self.cpu_time.replace(total).unwrap_or(total);
        total.saturating_sub(before)
    }
}
