// SPDX-License-Identifier: GPL-2.0
/* Where the trace events of the two headers come into being. */
#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include "loga_trace.h"
#include "gpu_work_period_trace.h"
