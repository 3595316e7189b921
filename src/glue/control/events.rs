// SPDX-License-Identifier: GPL-2.0

//! `[glue]` What happens on a GPU, for those who listen on `/dev/loga`.

use super::listeners::{publish, publish_turn, About};
use super::wire::{throttled_by_number, zero_terminated};
use crate::engaged::Report;
use crate::engine::Fallback;
use crate::glue::trace::Reason;
use crate::share::ThrottledBy;
use crate::uapi;
use crate::units::Ns;

fn publish_about(gpu: u32, kind: u32, about: &About<'_>, value: u64) {
    publish(gpu, kind, Some(about), value, *about.comm);
}

/// A process has become a client.
pub(crate) fn appeared(gpu: u32, about: &About<'_>) {
    publish_about(gpu, uapi::EVENT_APPEARED, about, 0);
}

/// A client appeared whose process has claimed another GPU, `claimed`, and not this one.
pub(crate) fn elsewhere(gpu: u32, about: &About<'_>, claimed: u32) {
    publish_about(gpu, uapi::EVENT_ELSEWHERE, about, claimed.into());
}

/// A client is throttled.
pub(crate) fn throttled(gpu: u32, about: &About<'_>, by: ThrottledBy) {
    let by = throttled_by_number(Some(by)).into();
    publish_about(gpu, uapi::EVENT_THROTTLED, about, by);
}

/// A client is released after having been `throttled` for this time.
pub(crate) fn released(gpu: u32, about: &About<'_>, throttled: Ns) {
    publish_about(gpu, uapi::EVENT_RELEASED, about, throttled.get());
}

/// A client ran outside of polling phases; it had gained this much.
pub(crate) fn evaded(gpu: u32, about: &About<'_>, gained: Ns) {
    publish_about(gpu, uapi::EVENT_EVASION, about, gained.get());
}

/// A client has exited; it received this much GPU time.
pub(crate) fn exited(gpu: u32, about: &About<'_>, received: Ns) {
    publish_about(gpu, uapi::EVENT_EXITED, about, received.get());
}

/// All clients run against the decision.
pub(crate) fn fallback(gpu: u32, reason: &Reason) {
    let number = match reason {
        Reason::Engine(Fallback::Contract(_) | Fallback::Barrier { .. }) => uapi::FALLBACK_CONTRACT,
        Reason::Engine(Fallback::Late { .. }) => uapi::FALLBACK_LATE,
        Reason::Engine(Fallback::IdleThrottle { .. }) => uapi::FALLBACK_IDLE_THROTTLE,
        Reason::FaultOverrun(_) => uapi::FALLBACK_OVERRUN,
        Reason::Silent(_) => uapi::FALLBACK_SILENT,
        Reason::Lost => return lost(gpu),
    };
    publish(gpu, uapi::EVENT_FALLBACK, None, number, Default::default());
}

/// A page of a client stays open although it was to be closed.
pub(crate) fn stuck(gpu: u32, about: &About<'_>, page: u16) {
    publish_about(gpu, uapi::EVENT_STUCK, about, page.into());
}

/// The completion thread runs again: submissions are decided on after they `passed` for so long.
pub(crate) fn engaged(gpu: u32, passed: Ns) {
    let name = Default::default();
    publish(gpu, uapi::EVENT_ENGAGED, None, passed.get(), name);
}

/// All clients pass without a decision, since a submission has not ended.
pub(crate) fn overdue(gpu: u32) {
    let cause = uapi::FALLBACK_SUBMISSION;
    publish(gpu, uapi::EVENT_FALLBACK, None, cause, Default::default());
}

/// Deadlines of a client were missed, or its commands were longer than others count with. `about`:
/// nothing if it is gone, or one of several users.
pub(crate) fn submissions(gpu: u32, about: Option<&About<'_>>, report: &Report) {
    let Report {
        missed,
        void,
        exceeded,
        breached,
    } = *report;
    for (kind, count) in [
        (uapi::EVENT_MISSED, missed),
        (uapi::EVENT_VOID, void),
        (uapi::EVENT_EXCEEDED, exceeded),
        (uapi::EVENT_BREACHED, breached),
    ] {
        if count != 0 {
            let name = about.map_or_else(Default::default, |about| *about.comm);
            publish(gpu, kind, about, count.into(), name);
        }
    }
}

/// The group of these clients has the turn from now on; without any, all run.
pub(crate) fn turn<'a>(gpu: u32, group: impl Iterator<Item = About<'a>>) {
    publish_turn(gpu, group);
}

/// The GPU stopped answering.
pub(crate) fn lost(gpu: u32) {
    publish(gpu, uapi::EVENT_GPU_LOST, None, 0, Default::default());
}

/// The GPU answers again.
pub(crate) fn back(gpu: u32) {
    publish(gpu, uapi::EVENT_GPU_BACK, None, 0, Default::default());
}

/// A channel that no client owns was on the engine.
pub(crate) fn unknown(gpu: u32, channel: u64) {
    publish(gpu, uapi::EVENT_UNKNOWN, None, channel, Default::default());
}

/// Another policy decides from now on.
pub(crate) fn policy(gpu: u32, name: &str) {
    publish(gpu, uapi::EVENT_POLICY, None, 0, zero_terminated(name));
}
