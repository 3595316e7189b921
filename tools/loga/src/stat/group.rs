// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The figures of a group: the unit that GPU time is divided between.

use super::{fraction, Phases};
use crate::names;
use loga::uapi;
use serde::{Deserialize, Serialize};

/// One group.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Group {
    /// Unique on this GPU, until `group_by` changes.
    pub id: u64,
    /// `process`, `user` or `cgroup`.
    pub kind: String,
    /// User id or cgroup id; 0 for a process: its client has `id` in its member `group`.
    pub key: u64,
    /// Processes in it.
    pub members: u32,
    /// Weight.
    pub weight: u32,
    /// Whether the policy throttles it.
    pub throttled: bool,
    /// Whether it has the turn, under a policy with turns.
    #[serde(default)]
    pub turn: bool,
    /// GPU time of its processes that was seen in polling phases.
    pub measured_ns: u64,
    /// GPU time that its processes were charged.
    pub gpu_time_ns: u64,
    /// `gpu_time_ns` as a fraction of the span of all phases.
    pub share: Option<f64>,
    /// What a division by weights among the active groups gives.
    pub entitled_ns: u64,
    /// `entitled_ns` as a fraction of the span of all phases.
    pub entitled: Option<f64>,
    /// Time in which its processes wanted the GPU and did not have it.
    pub waited_ns: u64,
    /// Virtual time minus the system's, if the caller may know that.
    #[serde(default)]
    pub vtime_ahead_ns: Option<i64>,
    /// Time throttled, summed over its processes.
    pub throttled_ns: u64,
    /// Times throttled, summed over its processes.
    pub throttled_count: u64,
    /// Times the engine took up its work in polling phases.
    pub runs: u64,
    /// Time on the copy engine, as of a client.
    #[serde(default)]
    pub copy_time_ns: Option<u64>,
}

impl Group {
    pub(super) fn new(
        now: &uapi::Group,
        before: Option<&uapi::Group>,
        phases: &Phases,
        t_sys_ns: Option<u64>,
    ) -> Self {
        let zero = uapi::Group::default();
        let old = before.unwrap_or(&zero);
        let since = |pick: fn(&uapi::Group) -> u64| pick(now).saturating_sub(pick(old));
        let measured_ns = since(|group| group.measured_ns);
        let gpu_time_ns = since(|group| group.gpu_time_ns);
        let entitled_ns = since(|group| group.entitled_ns);
        Group {
            id: now.id,
            kind: names::group_by(now.kind),
            key: now.key,
            members: now.members,
            weight: now.weight,
            throttled: now.throttled != 0,
            turn: now.turn != 0,
            measured_ns,
            gpu_time_ns,
            share: fraction(gpu_time_ns, phases.span_ns),
            entitled_ns,
            entitled: fraction(entitled_ns, phases.span_ns),
            waited_ns: since(|group| group.waited_ns),
            // CAST: as two's complement; the difference of two times near each other.
            vtime_ahead_ns: t_sys_ns.map(|t_sys_ns| now.vtime_ns.wrapping_sub(t_sys_ns) as i64),
            throttled_ns: since(|group| group.throttled_ns),
            throttled_count: since(|group| group.throttled_count),
            runs: since(|group| group.runs),
            copy_time_ns: (phases.copies || now.copy_time_ns > 0)
                .then(|| since(|group| group.copy_time_ns)),
        }
    }
}
