/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Trace events of LoGA while submissions are decided on; their words are those of
 * loga_trace.h. None of them is stable.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM loga
/* The variable with the system's name: loga_trace.h has one too. */
#undef TRACE_SYSTEM_VAR
#define TRACE_SYSTEM_VAR loga_submission

#if !defined(LOGA_SUBMISSION_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define LOGA_SUBMISSION_TRACE_H

#include <linux/tracepoint.h>

/* Submissions are decided on, and a client stores to a page in its turn. */
TRACE_EVENT(loga_submission_begin,
	TP_PROTO(u32 gpu, u64 client, u32 queue),
	TP_ARGS(gpu, client, queue),
	TP_STRUCT__entry(
		__field(u64, client)
		__field(u32, gpu)
		__field(u32, queue)
	),
	TP_fast_assign(
		__entry->client = client;
		__entry->gpu = gpu;
		__entry->queue = queue;
	),
	TP_printk("gpu=%u client=%llu queue=%u",
		__entry->gpu, __entry->client, __entry->queue)
);

/* What the clients at a wait queue submitted in their turn has ended. */
TRACE_EVENT(loga_submission_end,
	TP_PROTO(u32 gpu, u32 queue, u32 submissions, u64 used_ns),
	TP_ARGS(gpu, queue, submissions, used_ns),
	TP_STRUCT__entry(
		__field(u64, used_ns)
		__field(u32, gpu)
		__field(u32, queue)
		__field(u32, submissions)
	),
	TP_fast_assign(
		__entry->used_ns = used_ns;
		__entry->gpu = gpu;
		__entry->queue = queue;
		__entry->submissions = submissions;
	),
	TP_printk("gpu=%u queue=%u submissions=%u used_ns=%llu",
		__entry->gpu, __entry->queue, __entry->submissions, __entry->used_ns)
);

/*
 * What the clients at a wait queue submitted was longer than the deadline of another
 * one bears: that is void, and they get no grant until it is paid.
 */
TRACE_EVENT(loga_submission_exceed,
	TP_PROTO(u32 gpu, u32 queue, u64 used_ns, u64 bears_ns),
	TP_ARGS(gpu, queue, used_ns, bears_ns),
	TP_STRUCT__entry(
		__field(u64, used_ns)
		__field(u64, bears_ns)
		__field(u32, gpu)
		__field(u32, queue)
	),
	TP_fast_assign(
		__entry->used_ns = used_ns;
		__entry->bears_ns = bears_ns;
		__entry->gpu = gpu;
		__entry->queue = queue;
	),
	TP_printk("gpu=%u queue=%u used_ns=%llu bears_ns=%llu",
		__entry->gpu, __entry->queue, __entry->used_ns, __entry->bears_ns)
);

/* Why a missed deadline was not promised, if it was not. */
#define loga_miss_reasons			\
	{ 0, "promised" },			\
	{ 1, "own-overrun" },			\
	{ 2, "foreign-command" },		\
	{ 3, "fallback" },			\
	{ 4, "order" }

/* A submission of the clients at a wait queue ended so long after it was due. */
TRACE_EVENT(loga_reserve_miss,
	TP_PROTO(u32 gpu, u32 queue, u32 why, u64 late_ns),
	TP_ARGS(gpu, queue, why, late_ns),
	TP_STRUCT__entry(
		__field(u64, late_ns)
		__field(u32, gpu)
		__field(u32, queue)
		__field(u32, why)
	),
	TP_fast_assign(
		__entry->late_ns = late_ns;
		__entry->gpu = gpu;
		__entry->queue = queue;
		__entry->why = why;
	),
	TP_printk("gpu=%u queue=%u why=%s late_ns=%llu",
		__entry->gpu, __entry->queue,
		__print_symbolic(__entry->why, loga_miss_reasons),
		__entry->late_ns)
);

#endif /* LOGA_SUBMISSION_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE loga_submission_trace
#include <trace/define_trace.h>
