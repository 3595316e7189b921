#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Slurm's TaskEpilog. At the end of a job's tasks, as its user: notes its GPU time in its Comment.

PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

# TIMEOUT: up to six programs are asked, each of which takes some milliseconds.
# The log may hang as well: it has longer, so that what was said comes into it.
timeout -k 1 20 loga slurm task-epilog 2>&1 </dev/null | timeout -k 1 25 logger -t loga-task-epilog
exit 0
