#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Slurm's TaskProlog. Before each task, as the job's user: names its GPUs so that CUDA finds them,
# the best one first. Slurm takes what it prints into the task's environment. Where GPUs are given
# out as shards only, add --any-gpu.

PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

# TIMEOUT: the kernel module answers within milliseconds; the task does not begin before.
# The log may hang as well: it has longer, so that what was said comes into it.
{ timeout -k 1 5 loga slurm task-prolog 2>&1 >&3 </dev/null |
	timeout -k 1 7 logger -t loga-task-prolog 3>&-; } 3>&1 >/dev/null
exit 0
