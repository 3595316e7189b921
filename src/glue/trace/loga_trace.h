/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Trace events of LoGA. mod.rs beside this file is their only caller.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. gpu is the index of the GPU, client the
 * number that /dev/loga shows, chid a hardware channel id; for an occupant of the
 * engine, ids of TSGs count from 4096, -1 is an idle engine and -2 an
 * unknown occupant. pid and uid are those of the initial namespaces.
 */

/**
 * DOC: stable events
 *
 * Tools may rely on these, with these fields in this order; fields may be added at
 * the end:
 *
 * - loga_client_create, loga_client_destroy
 * - loga_channel_create, loga_channel_destroy
 * - loga_context_switch
 * - loga_phase_end
 * - loga_gate_revoke, loga_gate_restore
 * - loga_client_evade
 * - loga_gpu_fallback
 * - loga_time_unknown
 *
 * The others (loga_phase_begin, loga_decision_make, loga_client_decide,
 * loga_fault_wait_begin, loga_fault_wait_end, and those of loga_submission_trace.h)
 * show how LoGA works inside and may change with it.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM loga

#if !defined(LOGA_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define LOGA_TRACE_H

#include <linux/sched.h>
#include <linux/tracepoint.h>

/* A process has mapped its first submission page. */
TRACE_EVENT(loga_client_create,
	TP_PROTO(u32 gpu, u64 client, s32 pid, u32 uid, const char *comm),
	TP_ARGS(gpu, client, pid, uid, comm),
	TP_STRUCT__entry(
		__field(u64, client)
		__field(u32, gpu)
		__field(s32, pid)
		__field(u32, uid)
		__array(char, comm, TASK_COMM_LEN)
	),
	TP_fast_assign(
		__entry->client = client;
		__entry->gpu = gpu;
		__entry->pid = pid;
		__entry->uid = uid;
		strscpy_pad(__entry->comm, comm, TASK_COMM_LEN);
	),
	TP_printk("gpu=%u client=%llu pid=%d uid=%u comm=%s",
		__entry->gpu, __entry->client, __entry->pid, __entry->uid, __entry->comm)
);

/* A client is removed: its process has exited and its mappings are gone. */
TRACE_EVENT(loga_client_destroy,
	TP_PROTO(u32 gpu, u64 client, s32 pid, u64 measured_ns, u64 gpu_time_ns),
	TP_ARGS(gpu, client, pid, measured_ns, gpu_time_ns),
	TP_STRUCT__entry(
		__field(u64, client)
		__field(u64, measured_ns)
		__field(u64, gpu_time_ns)
		__field(u32, gpu)
		__field(s32, pid)
	),
	TP_fast_assign(
		__entry->client = client;
		__entry->measured_ns = measured_ns;
		__entry->gpu_time_ns = gpu_time_ns;
		__entry->gpu = gpu;
		__entry->pid = pid;
	),
	TP_printk("gpu=%u client=%llu pid=%d measured_ns=%llu gpu_time_ns=%llu",
		__entry->gpu, __entry->client, __entry->pid, __entry->measured_ns,
		__entry->gpu_time_ns)
);

/* A channel's submission page is known from now on. */
TRACE_EVENT(loga_channel_create,
	TP_PROTO(u32 gpu, u32 chid, u64 client),
	TP_ARGS(gpu, chid, client),
	TP_STRUCT__entry(
		__field(u64, client)
		__field(u32, gpu)
		__field(u32, chid)
	),
	TP_fast_assign(
		__entry->client = client;
		__entry->gpu = gpu;
		__entry->chid = chid;
	),
	TP_printk("gpu=%u chid=%u client=%llu", __entry->gpu, __entry->chid, __entry->client)
);

/* A channel was freed, or its last mapping went. */
TRACE_EVENT(loga_channel_destroy,
	TP_PROTO(u32 gpu, u32 chid, u64 client, u64 measured_ns),
	TP_ARGS(gpu, chid, client, measured_ns),
	TP_STRUCT__entry(
		__field(u64, client)
		__field(u64, measured_ns)
		__field(u32, gpu)
		__field(u32, chid)
	),
	TP_fast_assign(
		__entry->client = client;
		__entry->measured_ns = measured_ns;
		__entry->gpu = gpu;
		__entry->chid = chid;
	),
	TP_printk("gpu=%u chid=%u client=%llu measured_ns=%llu",
		__entry->gpu, __entry->chid, __entry->client, __entry->measured_ns)
);

/* The poller saw the occupant of the engine change; at_ns is when. */
TRACE_EVENT(loga_context_switch,
	TP_PROTO(u32 gpu, u64 at_ns, s32 prev_chid, s32 next_chid),
	TP_ARGS(gpu, at_ns, prev_chid, next_chid),
	TP_STRUCT__entry(
		__field(u64, at_ns)
		__field(u32, gpu)
		__field(s32, prev_chid)
		__field(s32, next_chid)
	),
	TP_fast_assign(
		__entry->at_ns = at_ns;
		__entry->gpu = gpu;
		__entry->prev_chid = prev_chid;
		__entry->next_chid = next_chid;
	),
	TP_printk("gpu=%u at_ns=%llu prev_chid=%d next_chid=%d",
		__entry->gpu, __entry->at_ns, __entry->prev_chid, __entry->next_chid)
);

/* A polling phase begins: at_ns is when, chid the occupant of the engine. */
TRACE_EVENT(loga_phase_begin,
	TP_PROTO(u32 gpu, u64 at_ns, s32 chid),
	TP_ARGS(gpu, at_ns, chid),
	TP_STRUCT__entry(
		__field(u64, at_ns)
		__field(u32, gpu)
		__field(s32, chid)
	),
	TP_fast_assign(
		__entry->at_ns = at_ns;
		__entry->gpu = gpu;
		__entry->chid = chid;
	),
	TP_printk("gpu=%u at_ns=%llu chid=%d", __entry->gpu, __entry->at_ns, __entry->chid)
);

/* A polling phase has ended. length_ns is the sum of ran, idle and unknown time. */
TRACE_EVENT(loga_phase_end,
	TP_PROTO(u32 gpu, u64 length_ns, u64 ran_ns, u64 idle_ns, u64 unknown_ns, u64 switches),
	TP_ARGS(gpu, length_ns, ran_ns, idle_ns, unknown_ns, switches),
	TP_STRUCT__entry(
		__field(u64, length_ns)
		__field(u64, ran_ns)
		__field(u64, idle_ns)
		__field(u64, unknown_ns)
		__field(u64, switches)
		__field(u32, gpu)
	),
	TP_fast_assign(
		__entry->length_ns = length_ns;
		__entry->ran_ns = ran_ns;
		__entry->idle_ns = idle_ns;
		__entry->unknown_ns = unknown_ns;
		__entry->switches = switches;
		__entry->gpu = gpu;
	),
	TP_printk("gpu=%u length_ns=%llu ran_ns=%llu idle_ns=%llu unknown_ns=%llu switches=%llu",
		__entry->gpu, __entry->length_ns, __entry->ran_ns, __entry->idle_ns,
		__entry->unknown_ns, __entry->switches)
);

/* The policy has decided; span_ns is the period that the decision covers. */
TRACE_EVENT(loga_decision_make,
	TP_PROTO(u32 gpu, u64 span_ns, u64 t_sys_ns, u32 clients, u32 active, u32 throttled),
	TP_ARGS(gpu, span_ns, t_sys_ns, clients, active, throttled),
	TP_STRUCT__entry(
		__field(u64, span_ns)
		__field(u64, t_sys_ns)
		__field(u32, gpu)
		__field(u32, clients)
		__field(u32, active)
		__field(u32, throttled)
	),
	TP_fast_assign(
		__entry->span_ns = span_ns;
		__entry->t_sys_ns = t_sys_ns;
		__entry->gpu = gpu;
		__entry->clients = clients;
		__entry->active = active;
		__entry->throttled = throttled;
	),
	TP_printk("gpu=%u span_ns=%llu t_sys_ns=%llu clients=%u active=%u throttled=%u",
		__entry->gpu, __entry->span_ns, __entry->t_sys_ns, __entry->clients,
		__entry->active, __entry->throttled)
);

/* Input and result of a decision for one client; before the gates follow it. */
TRACE_EVENT(loga_client_decide,
	TP_PROTO(u32 gpu, u64 client, s32 pid, u64 busy_ns, u64 vtime_ns, u32 throttled),
	TP_ARGS(gpu, client, pid, busy_ns, vtime_ns, throttled),
	TP_STRUCT__entry(
		__field(u64, client)
		__field(u64, busy_ns)
		__field(u64, vtime_ns)
		__field(u32, gpu)
		__field(s32, pid)
		__field(u32, throttled)
	),
	TP_fast_assign(
		__entry->client = client;
		__entry->busy_ns = busy_ns;
		__entry->vtime_ns = vtime_ns;
		__entry->gpu = gpu;
		__entry->pid = pid;
		__entry->throttled = throttled;
	),
	TP_printk("gpu=%u client=%llu pid=%d busy_ns=%llu vtime_ns=%llu throttled=%u",
		__entry->gpu, __entry->client, __entry->pid, __entry->busy_ns,
		__entry->vtime_ns, __entry->throttled)
);

/*
 * A client was found on the engine outside of polling phases for longer than
 * within them, beyond the errors of both: from now on it is charged by those
 * samples. It had gained gained_ns.
 */
TRACE_EVENT(loga_client_evade,
	TP_PROTO(u32 gpu, u64 client, s32 pid, u64 gained_ns),
	TP_ARGS(gpu, client, pid, gained_ns),
	TP_STRUCT__entry(
		__field(u64, client)
		__field(u64, gained_ns)
		__field(u32, gpu)
		__field(s32, pid)
	),
	TP_fast_assign(
		__entry->client = client;
		__entry->gained_ns = gained_ns;
		__entry->gpu = gpu;
		__entry->pid = pid;
	),
	TP_printk("gpu=%u client=%llu pid=%d gained_ns=%llu",
		__entry->gpu, __entry->client, __entry->pid, __entry->gained_ns)
);

/* A client's submission pages are gone: it is throttled. */
TRACE_EVENT(loga_gate_revoke,
	TP_PROTO(u32 gpu, u64 client, s32 pid, u64 took_ns),
	TP_ARGS(gpu, client, pid, took_ns),
	TP_STRUCT__entry(
		__field(u64, client)
		__field(u64, took_ns)
		__field(u32, gpu)
		__field(s32, pid)
	),
	TP_fast_assign(
		__entry->client = client;
		__entry->took_ns = took_ns;
		__entry->gpu = gpu;
		__entry->pid = pid;
	),
	TP_printk("gpu=%u client=%llu pid=%d took_ns=%llu",
		__entry->gpu, __entry->client, __entry->pid, __entry->took_ns)
);

/* A client that was throttled for throttled_ns may submit again. */
TRACE_EVENT(loga_gate_restore,
	TP_PROTO(u32 gpu, u64 client, s32 pid, u64 throttled_ns),
	TP_ARGS(gpu, client, pid, throttled_ns),
	TP_STRUCT__entry(
		__field(u64, client)
		__field(u64, throttled_ns)
		__field(u32, gpu)
		__field(s32, pid)
	),
	TP_fast_assign(
		__entry->client = client;
		__entry->throttled_ns = throttled_ns;
		__entry->gpu = gpu;
		__entry->pid = pid;
	),
	TP_printk("gpu=%u client=%llu pid=%d throttled_ns=%llu",
		__entry->gpu, __entry->client, __entry->pid, __entry->throttled_ns)
);

/* The current thread touched a page of a client that is throttled, and sleeps. */
TRACE_EVENT(loga_fault_wait_begin,
	TP_PROTO(u32 gpu, u64 client),
	TP_ARGS(gpu, client),
	TP_STRUCT__entry(
		__field(u64, client)
		__field(u32, gpu)
	),
	TP_fast_assign(
		__entry->client = client;
		__entry->gpu = gpu;
	),
	TP_printk("gpu=%u client=%llu", __entry->gpu, __entry->client)
);

/* The wait is over: 0 released, -62 (ETIME) waited too long, else interrupted. */
TRACE_EVENT(loga_fault_wait_end,
	TP_PROTO(u32 gpu, u64 client, u64 waited_ns, s32 result),
	TP_ARGS(gpu, client, waited_ns, result),
	TP_STRUCT__entry(
		__field(u64, client)
		__field(u64, waited_ns)
		__field(u32, gpu)
		__field(s32, result)
	),
	TP_fast_assign(
		__entry->client = client;
		__entry->waited_ns = waited_ns;
		__entry->gpu = gpu;
		__entry->result = result;
	),
	TP_printk("gpu=%u client=%llu waited_ns=%llu result=%d",
		__entry->gpu, __entry->client, __entry->waited_ns, __entry->result)
);

/* All clients run against the decision; mod.rs numbers the reasons. */
#define loga_fallback_reasons			\
	{ 1, "policy-broke-contract" },		\
	{ 2, "main-thread-late" },		\
	{ 3, "throttled-on-idle-gpu" },		\
	{ 4, "fault-waited-too-long" },		\
	{ 5, "gpu-lost" },			\
	{ 6, "all-throttled-too-long" },	\
	{ 7, "completion-thread-silent" }

TRACE_EVENT(loga_gpu_fallback,
	TP_PROTO(u32 gpu, u32 reason, u64 lasting_ns),
	TP_ARGS(gpu, reason, lasting_ns),
	TP_STRUCT__entry(
		__field(u64, lasting_ns)
		__field(u32, gpu)
		__field(u32, reason)
	),
	TP_fast_assign(
		__entry->lasting_ns = lasting_ns;
		__entry->gpu = gpu;
		__entry->reason = reason;
	),
	TP_printk("gpu=%u reason=%s lasting_ns=%llu", __entry->gpu,
		__print_symbolic(__entry->reason, loga_fallback_reasons),
		__entry->lasting_ns)
);

/* A channel that no client owns was on the engine; unknown_ns is the time of all such. */
TRACE_EVENT(loga_time_unknown,
	TP_PROTO(u32 gpu, u32 chid, u64 unknown_ns),
	TP_ARGS(gpu, chid, unknown_ns),
	TP_STRUCT__entry(
		__field(u64, unknown_ns)
		__field(u32, gpu)
		__field(u32, chid)
	),
	TP_fast_assign(
		__entry->unknown_ns = unknown_ns;
		__entry->gpu = gpu;
		__entry->chid = chid;
	),
	TP_printk("gpu=%u chid=%u unknown_ns=%llu",
		__entry->gpu, __entry->chid, __entry->unknown_ns)
);

#endif /* LOGA_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE loga_trace
#include <trace/define_trace.h>
