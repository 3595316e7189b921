#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Slurm's Prolog. Before a job with GPUs: gives its cgroup the weight of its shards. With
# --max-weight 400 jobs may ask for another one in their comments, with --limits for a limit.
# Slurm gives no PATH, and drains the node if this fails or takes long: it does neither.

PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

# TIMEOUT: up to eight programs are asked, each of which takes some milliseconds.
# The log may hang as well: it has longer, so that what was said comes into it.
timeout -k 1 20 loga slurm prolog 2>&1 </dev/null | timeout -k 1 25 logger -t loga-prolog
exit 0
