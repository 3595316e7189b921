#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs in the virtual machine: Slurm's daemons with the kernel module and six GPUs of the model.
# Expects Slurm's files with their libraries in /tests/slurm.tar, and loga and loga-slurm in /bin.

export PATH=/usr/sbin:/usr/bin:/bin
tar -xf /tests/slurm.tar -C / || exit 125
rm /tests/slurm.tar
echo '127.0.0.1 localhost' > /etc/hosts
hostname localhost
ip link set lo up || exit 125
# The C library takes no notice of 127.0.0.1 when it looks for the kinds of addresses that there are.
ip addr add 127.0.0.2/8 dev lo || exit 125
for number in 1 2 3 4 5 6; do
	echo "u$number:x:100$number:100$number::/:/bin/sh" >> /etc/passwd
	echo "u$number:x:100$number:" >> /etc/group
done
# Under systemd the slice is there, with its controllers.
mount -t cgroup2 cgroup2 /sys/fs/cgroup && cd /sys/fs/cgroup && mkdir system.slice || exit 125
for folder in . system.slice; do
	echo '+cpuset +cpu +memory +pids' > $folder/cgroup.subtree_control || exit 125
done
# Where the scripts of the checkout are.
cd / || exit 125
exec loga-slurm --module /bin/loga
