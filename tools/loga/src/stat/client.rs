// SPDX-License-Identifier: GPL-2.0

//! [tool] One client's figures.

use super::{fraction, Phases};
use crate::names;
use loga::account::sparse::bound;
use loga::uapi;
use loga::units::Ns;
use serde::{Deserialize, Serialize};

/// One client.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Client {
    /// Unique since the module was loaded.
    pub id: u64,
    /// Process.
    pub pid: i32,
    /// User.
    pub uid: u32,
    /// Command.
    pub comm: String,
    /// Channels allocated.
    pub channels: u32,
    /// `idle`, `running` or `throttled`.
    pub state: String,
    /// Weight.
    pub weight: u32,
    /// Lowest hard limit that it is under, in percent of a GPU; 100 for none.
    #[serde(default)]
    pub limit: u32,
    /// `normal` or `idle`.
    #[serde(default)]
    pub class: String,
    /// Why it is throttled: `none`, `policy`, `limit` or `class`.
    #[serde(default)]
    pub throttled_by: String,
    /// Its group.
    #[serde(default)]
    pub group: u64,
    /// Its cgroup; 0 if it has none.
    #[serde(default)]
    pub cgroup: u64,
    /// GPU time that was seen in polling phases.
    pub measured_ns: u64,
    /// GPU time, scaled to all phases.
    pub gpu_time_ns: u64,
    /// What `gpu_time_ns` may be wrong by, with 95 % confidence, where accounting was sparse; 0 with
    /// burst accounting, which gives no bound.
    #[serde(default)]
    pub error_ns: u64,
    /// `error_ns` as a fraction of the span of all phases, where accounting was sparse.
    #[serde(default)]
    pub share_error: Option<f64>,
    /// `measured_ns` as a fraction of the time polled.
    pub share: Option<f64>,
    /// What an equal (weighted) division among the active clients gives.
    pub entitled_ns: u64,
    /// `entitled_ns` as a fraction of the span of all phases.
    pub entitled: Option<f64>,
    /// Time in which it wanted the GPU and did not have it.
    #[serde(default)]
    pub waited_ns: u64,
    /// Virtual time minus the system's, if the caller may know that.
    #[serde(default)]
    pub vtime_ahead_ns: Option<i64>,
    /// Time throttled.
    pub throttled_ns: u64,
    /// Times it was throttled.
    pub throttled_count: u64,
    /// Times the engine took up its work in polling phases.
    pub runs: u64,
    /// Times that it was found to run while the GPU was not polled.
    #[serde(default)]
    pub evasions: u64,
    /// When it appeared, CLOCK_MONOTONIC.
    #[serde(default)]
    pub since_ns: u64,
    /// What the spec that it follows is set for: `process`, `user` or `cgroup`; nothing if it
    /// follows none.
    #[serde(default)]
    pub spec: Option<String>,
    /// Priority of its submissions, if it is known.
    #[serde(default)]
    pub prio: Option<u32>,
    /// When it may submit: `prt`, `ht` or `free`.
    #[serde(default)]
    pub mode: String,
    /// Kind of its reserve: `none`, `pe`, `ae` or `cbs`.
    #[serde(default)]
    pub reserve: String,
    /// Submissions that were decided on and have completed; this and the next two of all clients
    /// of its user at its place.
    #[serde(default)]
    pub turns: u64,
    /// Time that they waited for their turns, also for the end of their own submissions before.
    #[serde(default)]
    pub turns_waited_ns: u64,
    /// The longest of them since the first.
    #[serde(default)]
    pub turns_longest_ns: u64,
}

impl Client {
    pub(super) fn new(
        now: &uapi::Client,
        before: Option<&uapi::Client>,
        phases: &Phases,
        t_sys_ns: Option<u64>,
    ) -> Self {
        let zero = uapi::Client::default();
        let old = before.unwrap_or(&zero);
        let since = |pick: fn(&uapi::Client) -> u64| pick(now).saturating_sub(pick(old));
        let measured_ns = since(|client| client.measured_ns);
        let error_ns = error_ns(
            since(|client| client.variance_us2),
            phases.sample_interval_ns,
        );
        let gpu_time_ns = since(|client| client.gpu_time_ns);
        let entitled_ns = since(|client| client.entitled_ns);
        Client {
            id: now.id,
            pid: now.pid,
            uid: now.uid,
            comm: names::text(&now.comm),
            channels: now.channels,
            state: names::state(now.state),
            weight: now.weight,
            limit: now.limit_pct,
            class: names::class(now.class),
            throttled_by: names::throttled_by(now.throttled_by.into()),
            group: now.group,
            cgroup: now.cgroup,
            error_ns,
            share_error: fraction(error_ns, phases.span_ns).filter(|_| error_ns > 0),
            waited_ns: since(|client| client.waited_ns),
            measured_ns,
            gpu_time_ns,
            share: phases.share(measured_ns, gpu_time_ns),
            entitled_ns,
            entitled: fraction(entitled_ns, phases.span_ns),
            // CAST: as two's complement; the difference of two times near each other.
            vtime_ahead_ns: t_sys_ns.map(|t_sys_ns| now.vtime_ns.wrapping_sub(t_sys_ns) as i64),
            throttled_ns: since(|client| client.throttled_ns),
            throttled_count: since(|client| client.throttled_count),
            runs: since(|client| client.runs),
            evasions: since(|client| client.evasions),
            since_ns: now.since_ns,
            spec: (now.spec != uapi::NO_SPEC).then(|| names::subject(now.spec)),
            prio: (now.prio != uapi::PRIO_BY_NICE).then_some(now.prio),
            mode: names::mode(now.mode),
            reserve: names::reserve(now.reserve),
            turns: since(|client| client.turns),
            turns_waited_ns: since(|client| client.turns_waited_ns),
            turns_longest_ns: now.turns_longest_ns,
        }
    }
}

/// What a time of this variance may be wrong by, with a sample every `sample_interval_ns`.
fn error_ns(variance_us2: u64, sample_interval_ns: u64) -> u64 {
    match (variance_us2, sample_interval_ns) {
        (0, 0) => 0,
        (variance_us2, sample_interval_ns) => {
            bound(variance_us2, Ns::new(sample_interval_ns)).get()
        }
    }
}
