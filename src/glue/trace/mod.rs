// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Trace events: the only caller of the events in `loga_trace.h` and
//! `gpu_work_period_trace.h`. An event that is off costs one no-op instruction.

pub(crate) mod work_period;

use crate::account::{self, PhaseTotals};
use crate::engaged::{Miss, Void};
use crate::engine::Fallback;
use crate::regs::Occupant;
use crate::uapi::COMM_LEN;
use crate::units::Ns;
use kernel::bindings;
use kernel::jump_label::static_branch_unlikely;

/// Declares events and makes a function for each, under its own name without `loga_`.
///
/// The kernel's own macro finds its symbols only in the kernel's bindings. Every argument is
/// an integer, or a reference to an array that outlives the call.
macro_rules! events {
    ($($(#[$doc:meta])* $visible:vis fn $name:ident = $event:ident($($arg:ident: $type:ty),+ $(,)?);)+) => {
        kernel::macros::paste! {
            #[expect(improper_ctypes, reason = "the structure is the kernel's own")]
            extern "C" {
                $(
                    static [<__tracepoint_ $event>]: bindings::tracepoint;
                    fn [<rust_do_trace_ $event>]($($arg: $type),+);
                )+
            }
            $(
                $(#[$doc])*
                #[inline(always)]
                $visible fn $name($($arg: $type),+) {
                    // SAFETY: A static key, defined with the event in events.c.
                    let on = unsafe {
                        static_branch_unlikely!([<__tracepoint_ $event>], bindings::tracepoint, key)
                    };
                    if on {
                        // SAFETY: Takes these arguments by value, or copies what they refer to.
                        unsafe { [<rust_do_trace_ $event>]($($arg),+) };
                    }
                }
            )+
        }
    };
}

events! {
    fn raw_client_create = loga_client_create(
        gpu: u32, client: u64, pid: i32, uid: u32, comm: &[u8; COMM_LEN]);
    /// A client is removed.
    pub(crate) fn client_destroy = loga_client_destroy(
        gpu: u32, client: u64, pid: i32, measured_ns: u64, gpu_time_ns: u64);
    /// A channel is known from now on.
    pub(crate) fn channel_create = loga_channel_create(gpu: u32, chid: u32, client: u64);
    /// A channel has gone.
    pub(crate) fn channel_destroy = loga_channel_destroy(
        gpu: u32, chid: u32, client: u64, measured_ns: u64);
    fn raw_context_switch = loga_context_switch(
        gpu: u32, at_ns: u64, prev_chid: i32, next_chid: i32);
    fn raw_phase_begin = loga_phase_begin(gpu: u32, at_ns: u64, chid: i32);
    fn raw_phase_end = loga_phase_end(
        gpu: u32, length_ns: u64, ran_ns: u64, idle_ns: u64, unknown_ns: u64, switches: u64);
    /// The policy has decided.
    pub(crate) fn decision_make = loga_decision_make(
        gpu: u32, span_ns: u64, t_sys_ns: u64, clients: u32, active: u32, throttled: u32);
    /// Input and result of a decision for one client.
    pub(crate) fn client_decide = loga_client_decide(
        gpu: u32, client: u64, pid: i32, busy_ns: u64, vtime_ns: u64, throttled: u32);
    /// A client ran outside of polling phases.
    pub(crate) fn client_evade = loga_client_evade(
        gpu: u32, client: u64, pid: i32, gained_ns: u64);
    /// A client is throttled.
    pub(crate) fn gate_revoke = loga_gate_revoke(gpu: u32, client: u64, pid: i32, took_ns: u64);
    /// A client is released.
    pub(crate) fn gate_restore = loga_gate_restore(gpu: u32, client: u64, pid: i32, throttled_ns: u64);
    /// The current thread waits for its client's release.
    pub(crate) fn fault_wait_begin = loga_fault_wait_begin(gpu: u32, client: u64);
    /// The wait is over.
    pub(crate) fn fault_wait_end = loga_fault_wait_end(
        gpu: u32, client: u64, waited_ns: u64, result: i32);
    /// A client stores to a page in its turn. The queue is the wait queue of the client.
    pub(crate) fn submission_begin = loga_submission_begin(gpu: u32, client: u64, queue: u32);
    /// What was submitted in a turn has ended.
    pub(crate) fn submission_end = loga_submission_end(gpu: u32, queue: u32, submissions: u32, used_ns: u64);
    /// What was submitted in a turn was longer than a deadline of another client bears.
    pub(crate) fn submission_exceed = loga_submission_exceed(gpu: u32, queue: u32, used_ns: u64, bears_ns: u64);
    fn raw_reserve_miss = loga_reserve_miss(gpu: u32, queue: u32, why: u32, late_ns: u64);
    /// A channel that no client owns was on the engine.
    pub(crate) fn time_unknown = loga_time_unknown(gpu: u32, chid: u32, unknown_ns: u64);
    fn raw_gpu_fallback = loga_gpu_fallback(gpu: u32, reason: u32, lasting_ns: u64);
    /// A user's work in a period; see the rules in the event's header.
    pub(super) fn gpu_work_period = gpu_work_period(
        gpu_id: u32, uid: u32, start_ns: u64, end_ns: u64, active_ns: u64);
}

/// Whether `power/gpu_work_period` is on: the event takes work to prepare.
#[inline(always)]
pub(crate) fn wants_work_periods() -> bool {
    // SAFETY: A static key, defined with the event in events.c.
    unsafe { static_branch_unlikely!(__tracepoint_gpu_work_period, bindings::tracepoint, key) }
}

/// Whether the events of decisions are on: they visit all clients.
#[inline(always)]
pub(crate) fn wants_decisions() -> bool {
    // SAFETY: (both) static keys, defined with the events in events.c.
    let clients = unsafe {
        static_branch_unlikely!(__tracepoint_loga_client_decide, bindings::tracepoint, key)
    };
    // SAFETY: As above.
    let whole = unsafe {
        static_branch_unlikely!(__tracepoint_loga_decision_make, bindings::tracepoint, key)
    };
    clients || whole
}

/// A process has become a client.
pub(crate) fn client_create(gpu: u32, client: u64, pid: i32, uid: u32, comm: &[u8; COMM_LEN]) {
    raw_client_create(gpu, client, pid, uid, comm);
}

/// The number of an occupant in events.
fn chid_of(occupant: Occupant) -> i32 {
    match (account::slot_of(occupant), occupant) {
        // CAST: at most 8191.
        (Some(slot), _) => slot as i32,
        (None, Occupant::Idle) => -1,
        (None, _) => -2,
    }
}

/// The occupant of the engine changed. For the poll loop.
#[inline(always)]
pub(crate) fn context_switch(gpu: u32, at: Ns, prev: Occupant, next: Occupant) {
    raw_context_switch(gpu, at.get(), chid_of(prev), chid_of(next));
}

/// A polling phase begins.
pub(crate) fn phase_begin(gpu: u32, at: Ns, occupant: Occupant) {
    raw_phase_begin(gpu, at.get(), chid_of(occupant));
}

/// A polling phase has ended and is booked.
pub(crate) fn phase_end(gpu: u32, totals: &PhaseTotals) {
    raw_phase_end(
        gpu,
        totals.length.get(),
        totals.ran.get(),
        totals.idle.get(),
        totals.unknown.get(),
        totals.switches,
    );
}

/// A submission ended after it was due.
pub(crate) fn reserve_miss(gpu: u32, miss: &Miss) {
    // The numbers are those of `loga_miss_reasons`.
    let why = match miss.void {
        None => 0,
        Some(Void::Own) => 1,
        Some(Void::Foreign) => 2,
        Some(Void::Fallback) => 3,
        Some(Void::Order) => 4,
    };
    // CAST: few wait queues.
    raw_reserve_miss(gpu, miss.client as u32, why, miss.late.get());
}

/// Why all clients run against the decision.
pub(crate) enum Reason {
    /// The engine found it.
    Engine(Fallback),
    /// A fault waited past the bound.
    FaultOverrun(Ns),
    /// The completion thread does not run; a client has waited for it.
    Silent(Ns),
    /// The device answered with all ones.
    Lost,
}

/// All clients run against the decision.
pub(crate) fn gpu_fallback(gpu: u32, reason: &Reason) {
    // The numbers are those of `loga_fallback_reasons`.
    let (number, lasting) = match reason {
        Reason::Engine(Fallback::Contract(_)) => (1, Ns::ZERO),
        Reason::Engine(Fallback::Late { by }) => (2, *by),
        Reason::Engine(Fallback::IdleThrottle { lasting }) => (3, *lasting),
        Reason::Engine(Fallback::Barrier { lasting }) => (6, *lasting),
        Reason::FaultOverrun(waited) => (4, *waited),
        Reason::Lost => (5, Ns::ZERO),
        Reason::Silent(waited) => (7, *waited),
    };
    raw_gpu_fallback(gpu, number, lasting.get());
}
