#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Slurm's Epilog. After a job with GPUs: notes its GPU time in its record (AdminComment).
# Slurm gives no PATH, and drains the node if this fails or takes long: it does neither.

PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

# TIMEOUT: up to eight programs are asked, each of which takes some milliseconds.
# The log may hang as well: it has longer, so that what was said comes into it.
timeout -k 1 20 loga slurm epilog 2>&1 </dev/null | timeout -k 1 25 logger -t loga-epilog
exit 0
