#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs in the virtual machine: clients ask the real driver the same questions
# without LoGA and with it in every order, and their answers are compared.
# Expects /lib/loga/{loga_model,loga,nvidia,nvidia-uvm}.ko, loga-nvidia, in
# /tests/user.tar the branch's programs, libraries and loga-libraries, and in the
# environment BRANCH (470, 550 or 550-open), VERSION and CYCLES.

passed=0
failed=0
export LD_LIBRARY_PATH=/user
card=/sys/bus/pci/devices/0001:00:00.0/resource0
clients="smi smi-L smi-q smi-query libraries"

# The kind of the model's card: the youngest that LoGA follows and the driver
# takes. The open modules take none of these kinds: they see a Turing, and once
# they have it, its register names a Kepler for LoGA.
chip=0xf1
turing=0x164000a1
kepler=0x0f1000a1
case "$BRANCH" in
470) model= ;;
550) model="device=0x13c2" chip=0x124 ;;
550-open) model="device=0x1e87 boot_0=$turing boot_42=0x164a1000" ;;
esac

# check NAME COMMAND..
check() {
	name=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
		echo "ok - $name"
	else
		failed=$((failed + 1))
		echo "not ok - $name"
	fi
}

give_up() {
	echo "not ok - $1"
	echo "$passed passed, $((failed + 1)) failed"
	exit 1
}

# same FILE EXPECTED: shows what differs.
same() {
	cmp -s "$1" "$2" && return
	diff "$2" "$1"
	return 1
}

# The chip that the card's register names, where a branch needs two.
set_chip() {
	[ "$BRANCH" != 550-open ] || loga-nvidia write "$card" 0 "$1" || give_up "the card's register is written"
}

# unload: neither LoGA nor the driver are loaded.
unload() {
	local module
	for module in loga nvidia_uvm nvidia; do
		[ ! -e /sys/module/$module ] || rmmod $module || give_up "$module is unloaded"
	done
}

# fresh: a driver that no client has called.
fresh() {
	unload
	set_chip $turing
	insmod /lib/loga/nvidia.ko || give_up "nvidia.ko is loaded"
	insmod /lib/loga/nvidia-uvm.ko || give_up "nvidia-uvm.ko is loaded"
	rm -f /dev/nvidia-uvm
	mknod /dev/nvidia-uvm c "$(awk '$2 == "nvidia-uvm" { print $1 }' /proc/devices)" 0
	set_chip $kepler
}

# attached: LoGA follows the model's card and the driver's files.
attached() {
	loga stat --json | grep -q "\"chip\": *\"$chip\"" && [ "$(cat /sys/module/loga/parameters/attach)" = 1 ]
}

# attach ENFORCE
attach() {
	insmod /lib/loga/loga.ko "enforce=$1" || give_up "loga.ko is loaded"
	attached || give_up "LoGA is attached"
}

detach() {
	echo 0 > /sys/module/loga/parameters/attach
}

# one CLIENT: runs one of the branch's own clients.
one() {
	case "$1" in
	smi) /user/nvidia-smi ;;
	smi-L) /user/nvidia-smi -L ;;
	smi-q) /user/nvidia-smi -q ;;
	smi-query) /user/nvidia-smi --query-gpu=name,uuid --format=csv ;;
	libraries) /user/loga-libraries ;;
	esac
}

# answer CLIENT: its whole output, without the time of day.
answer() {
	one "$1" > "/tmp/out.$1" 2> "/tmp/err.$1"
	echo "status $?"
	sed 's/^/stdout: /' "/tmp/out.$1" | sed -E 's/[A-Z][a-z]{2} [A-Z][a-z]{2} +[0-9]+ [0-9:]{8} [0-9]{4}/DATE/'
	sed 's/^/stderr: /' "/tmp/err.$1"
}

# collect STATE: the answers of all clients.
collect() {
	local client
	mkdir -p "/tmp/$1"
	for client in $clients; do
		answer "$client" > "/tmp/$1/$client"
	done
}

# as_without STATE WORDS: collects in STATE, and compares with no LoGA.
as_without() {
	local client
	collect "$1"
	for client in $clients; do
		check "$2: $client" same "/tmp/$1/$client" "/tmp/none/$client"
	done
}

# messages: the kernel's, each once, without addresses, numbers and time stamps.
messages() {
	dmesg | sed -E 's/^\[[^]]*\] ?//; s/0x[0-9a-f]+/X/g; s/[0-9]+/N/g; s/ +$//' | sort -u
}

# Two control runs without LoGA, each on a fresh driver. An empty comparison
# would always succeed: the answers must be those of this branch.
control() {
	fresh
	loga-nvidia ask "$VERSION" > /tmp/first
	loga-nvidia ask "$VERSION" > /tmp/second
	cut -c 1-110 /tmp/first
	check "the driver answers the version check" grep -q '^version: 0 ' /tmp/first
	check "the driver makes a client" grep -q '^client: 0 ' /tmp/first
	collect none
	cat /tmp/none/smi /tmp/none/smi-L /tmp/none/smi-query /tmp/none/libraries
	check "nvidia-smi asks the driver" grep -q 'stdout: No devices' /tmp/none/smi
	check "NVML has the driver's version" grep -q "nvmlSystemGetDriverVersion: 0 $VERSION" /tmp/none/libraries
	check "CUDA is loaded" grep -q 'cuInit: [0-9]' /tmp/none/libraries
	as_without again "without LoGA, second run"
	fresh
	as_without none2 "without LoGA, fresh driver"
}

# raw_answers ENFORCE: the project's own client, byte by byte. Handles count from
# the driver's load, so that each order has a fresh driver.
raw_answers() {
	fresh
	attach "$1"
	loga-nvidia ask "$VERSION" > /tmp/a
	loga-nvidia ask "$VERSION" > /tmp/b
	check "raw, attached before the first open, enforce=$1: first client" same /tmp/a /tmp/first
	check "raw, attached before the first open, enforce=$1: second client" same /tmp/b /tmp/second
	fresh
	loga-nvidia ask "$VERSION" > /tmp/a
	attach "$1"
	loga-nvidia ask "$VERSION" > /tmp/b
	check "raw, before attaching, enforce=$1" same /tmp/a /tmp/first
	check "raw, attached after the first open, enforce=$1" same /tmp/b /tmp/second
	fresh
	attach "$1"
	loga-nvidia ask "$VERSION" > /tmp/a
	detach || give_up "LoGA detaches"
	loga-nvidia ask "$VERSION" > /tmp/b
	check "raw, attached, then, enforce=$1" same /tmp/a /tmp/first
	check "raw, detached, enforce=$1" same /tmp/b /tmp/second
}

# The branch's own clients in every state.
own_clients() {
	local enforce
	for enforce in 0 1; do
		fresh
		attach $enforce
		as_without attached "attached, enforce=$enforce"
		check "detaching, enforce=$enforce" detach
		as_without detached "detached, enforce=$enforce"
		rmmod loga
		as_without removed "after rmmod, enforce=$enforce"
	done
	fresh
	as_without before "before attaching late"
	attach 1
	as_without late "attached late"
}

# A chip that LoGA does not follow: it logs why, and does not hook the driver.
# The register at 2008 has the number of channels on all chips since Maxwell.
not_followed() {
	fresh
	set_chip $turing
	loga-nvidia write "$card" 2008 800
	insmod /lib/loga/loga.ko enforce=1 || give_up "loga.ko is loaded"
	check "a Turing is not attached to" grep -q '^0$' /sys/module/loga/parameters/attach
	dmesg | grep 'loga: .*not followed' > /tmp/why
	cat /tmp/why
	check "LoGA says why" grep -q 'chip 0x164 (Turing) is not supported' /tmp/why
	as_without turing "not followed"
	rmmod loga
	loga-nvidia write "$card" 2008 0
	ordinary="$ordinary|^loga: (N:N:N.N: not followed|module nvidia drives no|loaded, but not attached)"
}

# round N: the client behind descriptor 3 makes its next round.
round() {
	local tries=0
	echo >&3
	until grep -q "^round $1 done" "$files"; do
		tries=$((tries + 1))
		[ $tries -lt 600 ] || give_up "round $1 of the GPU files ends"
		usleep 100000
	done
}

# with_files NAME CHANGE..: a client with GPU files open: a round, then a change
# and a round each.
with_files() {
	local number=1 change
	files=/tmp/$1
	shift
	rm -f /tmp/fifo
	mkfifo /tmp/fifo
	loga-nvidia files "$VERSION" < /tmp/fifo > "$files" &
	exec 3> /tmp/fifo
	round 1
	for change in "$@"; do
		$change || give_up "$change with GPU files open"
		number=$((number + 1))
		round $number
	done
	exec 3>&-
	wait
}

# seen ROUND: fdinfo of the file that was opened then has LoGA's lines. The key of
# the engine is not among them: without channels its opener is no client.
seen() {
	grep -q "^round $1: file $(($1 - 1)): fdinfo: drm-pdev:.*0001:00:00.0" /tmp/files
}

unseen() {
	! grep -q "^round $1: .*fdinfo: drm-" /tmp/files
}

plain_files() {
	grep -v 'fdinfo: drm-' "$1" > "$1.plain"
}

# Since 545 the driver opens a GPU file without a GPU, if it need not wait.
open_files() {
	fresh
	with_files files.none true true true true
	plain_files /tmp/files.none
	sed -n 's/^round 1: file 0: //p' /tmp/files.none
	check "GPU files are opened" grep -q '^round 5: file 4: wait: ' /tmp/files.none
	fresh
	with_files files "attach 0" detach "rmmod loga" "attach 1"
	plain_files /tmp/files
	check "GPU files open across attaching and detaching" same /tmp/files.plain /tmp/files.none.plain
	check "fdinfo before attaching" unseen 1
	check "fdinfo attached" seen 2
	check "fdinfo detached" unseen 3
	check "fdinfo after rmmod" unseen 4
	check "fdinfo attached again" seen 5
	detach || give_up "LoGA detaches"
	rmmod loga
}

# smi_loop: the branch's clients, in a loop.
smi_loop() {
	local rounds=0 other=0 client
	while [ ! -e /tmp/stop ]; do
		rounds=$((rounds + 1))
		for client in smi libraries; do
			answer $client > /tmp/smi_loop
			same /tmp/smi_loop /tmp/none/$client || other=$((other + 1))
		done
	done
	echo "clients: $rounds rounds, 0 failed, $other other answers"
}

# cycle N: LoGA is loaded and unloaded; every second time it detaches, every
# fourth time it attaches again.
cycle() {
	insmod /lib/loga/loga.ko enforce=$(($1 % 2)) || return 1
	usleep $(($1 * 37 % 10 * 10000))
	[ "$(cat /sys/module/loga/parameters/attach)" = 1 ] || return 1
	if [ $(($1 % 2)) -eq 0 ]; then
		detach || return 1
	fi
	if [ $(($1 % 4)) -eq 0 ]; then
		echo 1 > /sys/module/loga/parameters/attach || return 1
	fi
	rmmod loga
}

# quiet LOG: the loop made rounds, and none differed.
quiet() {
	tail -n 5 "$1"
	grep -qE '^[a-z]+: [1-9][0-9]* rounds, 0 failed, 0 other answers$' "$1"
}

cycles() {
	local number=0 bad=0 loops="storm refused" loop
	fresh
	[ "$BRANCH" = 470 ] || loops="storm refused waiting"
	rm -f /tmp/stop
	for loop in $loops; do
		loga-nvidia "$loop" "$VERSION" /tmp/stop > "/tmp/loop.$loop" &
	done
	if [ "$BRANCH" != 470 ]; then
		loga-nvidia waiting "$VERSION" /tmp/stop > /tmp/loop.waiting2 &
		loops="$loops waiting2"
	fi
	smi_loop > /tmp/loop.clients 2>&1 &
	while [ $number -lt "$CYCLES" ]; do
		number=$((number + 1))
		cycle $number || bad=$((bad + 1))
		[ $((number % 20)) -ne 0 ] || echo "$number cycles, $bad failed, $(cut -d ' ' -f 1 /proc/uptime) s of uptime"
	done
	touch /tmp/stop
	wait
	check "$number cycles, $bad failed" test "$bad" -eq 0
	for loop in $loops clients; do
		check "loop of $loop" quiet "/tmp/loop.$loop"
	done
	as_without after "after the cycles"
}

# Ordinary messages of LoGA, and one with no fixed time.
ordinary='^$|^random: crng init done|^loga: (attached|detached|N:N:N.N: gpu N)'

# only_known: no kernel messages but those of runs without LoGA and the ordinary ones.
only_known() {
	messages | grep -vxFf /tmp/known | grep -vE "$ordinary" > /tmp/new
	sed 's/^/new: /' /tmp/new | head -n 40
	[ ! -s /tmp/new ]
}

dmesg -n 1
tar -xf /tests/user.tar -C / || exit 1
# shellcheck disable=SC2086
insmod /lib/loga/loga_model.ko nodes=0 $model || exit 1
control
if [ "$BRANCH" != 470 ]; then
	fresh
	with_files files.first true
fi
messages > /tmp/known
raw_answers 0
raw_answers 1
own_clients
[ "$BRANCH" != 550-open ] || not_followed
[ "$BRANCH" = 470 ] || open_files
cycles
unload
check "no new message of the kernel" only_known
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
