#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs in the virtual machine: asks the real driver the same questions without
# LoGA and with it in every order, and compares the answers byte by byte.
# Expects /lib/loga/{loga_model,loga,nvidia}.ko and loga-nvidia.

passed=0
failed=0

# fresh: a driver that nobody has talked to.
fresh() {
	[ -e /sys/module/loga ] && rmmod loga
	[ -e /sys/module/nvidia ] && rmmod nvidia
	insmod /lib/loga/nvidia.ko || exit 1
}

# compare NAME FILE EXPECTED
compare() {
	if cmp -s "$2" "$3"; then
		passed=$((passed + 1))
		echo "ok - $1"
	else
		failed=$((failed + 1))
		echo "not ok - $1"
		diff "$3" "$2"
	fi
}

# attach: LoGA, looking after the model's card and after the driver's files.
attach() {
	insmod /lib/loga/loga.ko || exit 1
	if loga stat --json | grep -q '"chip": *"0xf1"' && [ "$(cat /sys/module/loga/parameters/attach)" = 1 ]; then
		return
	fi
	failed=$((failed + 1))
	echo "not ok - LoGA is attached"
}

insmod /lib/loga/loga_model.ko nodes=0 || exit 1

fresh
loga-nvidia > /tmp/first
loga-nvidia > /tmp/second
cut -c 1-110 /tmp/first
if ! grep -q '^version: 0 ' /tmp/first || ! grep -q '^client: 0 ' /tmp/first; then
	echo "not ok - the driver answers the version check and makes a client"
	failed=$((failed + 1))
fi

fresh
attach
loga-nvidia > /tmp/a
loga-nvidia > /tmp/b
compare "attached before the first open: first client" /tmp/a /tmp/first
compare "attached before the first open: second client" /tmp/b /tmp/second

fresh
loga-nvidia > /tmp/a
attach
loga-nvidia > /tmp/b
compare "before attaching" /tmp/a /tmp/first
compare "attached after the first open" /tmp/b /tmp/second

fresh
attach
loga-nvidia > /tmp/a
echo 0 > /sys/module/loga/parameters/attach || exit 1
loga-nvidia > /tmp/b
compare "attached, then" /tmp/a /tmp/first
compare "detached" /tmp/b /tmp/second
rmmod loga || exit 1

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
