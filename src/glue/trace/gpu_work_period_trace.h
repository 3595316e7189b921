/* SPDX-License-Identifier: GPL-2.0 */
/*
 * power/gpu_work_period, in the format that Android's GPU service and Perfetto read.
 * Mainline kernels up to 7.3 do not define it, so this module does.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM power

#if !defined(LOGA_GPU_WORK_PERIOD_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define LOGA_GPU_WORK_PERIOD_TRACE_H

#include <linux/tracepoint.h>

/**
 * DOC: gpu_work_period
 *
 * One user's work on one GPU in a period: total_active_duration_ns is how long the
 * user's clients were on the compute engine between start_time_ns and end_time_ns
 * (CLOCK_MONOTONIC_RAW). Periods of one GPU and user do not overlap and are in
 * order; each lasts up to one second, is at least as long as its active time, and
 * is emitted less than a second after its end. Users without work have no period.
 *
 * A period goes from decision to decision. The time between two polling phases is
 * estimated from the measurement in the second one. Of a longer cycle only the last
 * 1.9 seconds are emitted: earlier periods would come too late for the readers of
 * this event.
 */
TRACE_EVENT(gpu_work_period,
	TP_PROTO(u32 gpu_id, u32 uid, u64 start_time_ns, u64 end_time_ns,
		 u64 total_active_duration_ns),
	TP_ARGS(gpu_id, uid, start_time_ns, end_time_ns, total_active_duration_ns),
	TP_STRUCT__entry(
		__field(u32, gpu_id)
		__field(u32, uid)
		__field(u64, start_time_ns)
		__field(u64, end_time_ns)
		__field(u64, total_active_duration_ns)
	),
	TP_fast_assign(
		__entry->gpu_id = gpu_id;
		__entry->uid = uid;
		__entry->start_time_ns = start_time_ns;
		__entry->end_time_ns = end_time_ns;
		__entry->total_active_duration_ns = total_active_duration_ns;
	),
	TP_printk("gpu_id=%u uid=%u start_time_ns=%llu end_time_ns=%llu total_active_duration_ns=%llu",
		__entry->gpu_id, __entry->uid, __entry->start_time_ns,
		__entry->end_time_ns, __entry->total_active_duration_ns)
);

#endif /* LOGA_GPU_WORK_PERIOD_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE gpu_work_period_trace
#include <trace/define_trace.h>
