// SPDX-License-Identifier: GPL-2.0
/* Defines the trace events of the two headers. */
#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include "loga_trace.h"
#include "gpu_work_period_trace.h"
