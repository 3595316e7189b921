// SPDX-License-Identifier: GPL-2.0

//! `[tool]` One client's figures.

use super::{fraction, Phases};
use crate::names;
use crate::names::Name;
use loga::account::fading::ONE_PPM;
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
    /// Whether its process has ended: others use its pages on, or its channels still run.
    #[serde(default)]
    pub ended: bool,
    /// A process that uses the pages of one that has ended, if any does that this caller can see.
    #[serde(default)]
    pub user: Option<i32>,
    /// User.
    pub uid: u32,
    /// Command: the present name of the process.
    pub comm: Name,
    /// Its bytes in hexadecimal digits, if they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm_hex: Option<String>,
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
    /// GPU time that it was charged: what polling phases show, scaled to the phases they stand for,
    /// and what it ran on for between them while it was throttled.
    pub gpu_time_ns: u64,
    /// What `gpu_time_ns` may be wrong by, with 95 % confidence, where accounting was sparse; 0 with
    /// burst accounting, which gives no bound.
    #[serde(default)]
    pub error_ns: u64,
    /// `error_ns` as a fraction of the span of all phases, where accounting was sparse.
    #[serde(default)]
    pub share_error: Option<f64>,
    /// `gpu_time_ns` as a fraction of the span of all phases.
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
    /// When it may submit: `prt`, `ht` or `protected`.
    #[serde(default)]
    pub mode: String,
    /// Kind of its reserve: `none`, `pe`, `ae` or `cbs`.
    #[serde(default)]
    pub reserve: String,
    /// Submissions that were decided on and have completed; this and the next six of all clients
    /// of its user at its place.
    #[serde(default)]
    pub submissions: u64,
    /// Time that they waited for their grants, also for the end of their own submissions before.
    #[serde(default)]
    pub submission_wait_ns: u64,
    /// Part of it for submissions that were on the engine before, their own too, and for work of
    /// protected clients.
    #[serde(default)]
    pub submission_wait_running_ns: u64,
    /// Part of it for their reserve to let them start.
    #[serde(default)]
    pub submission_wait_budget_ns: u64,
    /// Part of it for clients that passed before although they were ready.
    #[serde(default)]
    pub submission_wait_order_ns: u64,
    /// Part of it while the engine was kept free after work of protected clients.
    #[serde(default)]
    pub submission_wait_linger_ns: u64,
    /// The longest of them since the first.
    #[serde(default)]
    pub longest_submission_wait_ns: u64,
    /// Part of the time for which it had the GPU: a mean that fades with a time constant of 2 s.
    #[serde(default)]
    pub busy_2s: f64,
    /// As `busy_2s`, of 30 s.
    #[serde(default)]
    pub busy_30s: f64,
    /// Part of the time for which it wanted the GPU and did not have it.
    #[serde(default)]
    pub waited_2s: f64,
    /// As `waited_2s`, of 30 s.
    #[serde(default)]
    pub waited_30s: f64,
    /// Part of the GPU that it would use alone.
    #[serde(default)]
    pub want_2s: f64,
    /// As `want_2s`, of 30 s.
    #[serde(default)]
    pub want_30s: f64,
    /// Time on the copy engine, scaled to all phases; no part of `gpu_time_ns`. This and the
    /// members below are absent where copies are not measured.
    #[serde(default)]
    pub copy_time_ns: Option<u64>,
    /// As `error_ns`, of `copy_time_ns`.
    #[serde(default)]
    pub copy_error_ns: Option<u64>,
    /// `copy_time_ns` as a fraction of the span of all phases.
    #[serde(default)]
    pub copy_share: Option<f64>,
    /// Part of the time for which it had the copy engine: a mean as `busy_2s`.
    #[serde(default)]
    pub copy_2s: Option<f64>,
    /// As `copy_2s`, of 30 s.
    #[serde(default)]
    pub copy_30s: Option<f64>,
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
        let error_ns = error_ns_of(
            since(|client| client.variance_us2),
            phases.sample_interval_ns,
        );
        let gpu_time_ns = since(|client| client.gpu_time_ns);
        let entitled_ns = since(|client| client.entitled_ns);
        let means = now.means();
        let part = |ppm: u32| f64::from(ppm) / f64::from(ONE_PPM);
        let copy_time_ns = since(|client| client.copy_time_ns);
        let copies = phases.copies || now.copy_time_ns > 0;
        let copy_error_ns = error_ns_of(
            since(|client| client.copy_variance_us2),
            phases.sample_interval_ns,
        );
        let comm = names::text(&now.comm);
        Client {
            id: now.id,
            pid: now.pid,
            ended: now.ended != 0,
            user: (now.user != 0).then_some(now.user),
            uid: now.uid,
            comm_hex: comm.hex(),
            comm,
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
            share: fraction(gpu_time_ns, phases.span_ns),
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
            submissions: since(|client| client.submissions),
            submission_wait_ns: since(|client| client.submission_waits.total_ns()),
            submission_wait_running_ns: since(|client| client.submission_waits.running_ns),
            submission_wait_budget_ns: since(|client| client.submission_waits.budget_ns),
            submission_wait_order_ns: since(|client| client.submission_waits.order_ns),
            submission_wait_linger_ns: since(|client| client.submission_waits.linger_ns),
            longest_submission_wait_ns: now.longest_submission_wait_ns,
            busy_2s: part(means.busy_2s),
            busy_30s: part(means.busy_30s),
            waited_2s: part(means.waited_2s),
            waited_30s: part(means.waited_30s),
            want_2s: part(means.want_2s()),
            want_30s: part(means.want_30s()),
            copy_time_ns: copies.then_some(copy_time_ns),
            copy_error_ns: copies.then_some(copy_error_ns),
            copy_share: fraction(copy_time_ns, phases.span_ns).filter(|_| copies),
            copy_2s: copies.then(|| part(means.copied_2s)),
            copy_30s: copies.then(|| part(means.copied_30s)),
        }
    }
}

/// What a time of this variance may be wrong by, with a sample every `sample_interval_ns`.
fn error_ns_of(variance_us2: u64, sample_interval_ns: u64) -> u64 {
    match (variance_us2, sample_interval_ns) {
        (0, 0) => 0,
        (variance_us2, sample_interval_ns) => {
            bound(variance_us2, Ns::new(sample_interval_ns)).get()
        }
    }
}
