// SPDX-License-Identifier: GPL-2.0
/* Defines the trace events of the three headers. */
#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include "loga_trace.h"
#include "gpu_work_period_trace.h"
/* The last one: it has a name of its own for what the others name by their systems. */
#include "loga_submission_trace.h"
