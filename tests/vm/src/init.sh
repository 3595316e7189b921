#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# First process of the virtual machine: makes the file systems and device
# nodes, waits for exact timers, loads what was asked for, runs one shell line
# and sends its exit status to the host.

export PATH=/bin:/tests HOME=/ TERM=linux
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
mount -t tmpfs tmpfs /tmp
mkdir -p /dev/pts /dev/shm /run
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm
mknod -m 666 /dev/nvidiactl c 195 255
for minor in 0 1 2 3 4 5; do
	mknod -m 666 "/dev/nvidia$minor" c 195 "$minor"
done
stty -F /dev/ttyS1 raw -echo
stty -F /dev/ttyS0 -onlcr

# Until the clock source is verified, timers have the grain of the tick. They keep it if the host was
# too busy while the kernel measured them: the host then starts the machine again (COARSE in
# machine.rs).
tries=0
until grep -q 'hres_active *: *1' /proc/timer_list; do
	tries=$((tries + 1))
	if [ $tries -gt 100 ] || dmesg | grep -q 'APIC timer disabled'; then
		echo "init: the timers of this machine are coarse: the host is too busy" >&2
		printf 'loga-exit 117\n' > /dev/ttyS1
		sleep 5
		reboot -f
	fi
	sleep 0.05
done

# Another seed gives another machine: the kernel's random numbers do not follow from the emulator's
# alone, and no event has the same distance from the tick.
echo "$LOGA_SEED" > /dev/urandom
usleep $((LOGA_SEED * 997 % 100000))

# The kernel runs the KUnit suites of a module each time it is loaded, with a line for each test,
# unless they are filtered out; what wants them writes '*' there.
[ ! -f /sys/module/kunit/parameters/filter_glob ] ||
	printf none > /sys/module/kunit/parameters/filter_glob

status=0
while read -r name parameters; do
	# Parameters are words on purpose.
	# shellcheck disable=SC2086
	if ! insmod "/lib/loga/$name.ko" $parameters; then
		echo "init: loading $name failed" >&2
		status=125
		break
	fi
done < /etc/loga/load

if [ $status -eq 0 ]; then
	# shellcheck disable=SC1091
	. /etc/loga/environment
	sh /etc/loga/line < /dev/null
	status=$?
fi

# Files that the line left in /out go to the host's folder of the same name.
for file in /out/*; do
	[ -f "$file" ] && sendfile "${file##*/}" < "$file"
done
dmesg | sendfile .dmesg
printf 'loga-exit %s\n' "$status" > /dev/ttyS1
# The host ends the machine when it has read the line above.
sleep 5
reboot -f
