# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# How the scripts talk: steps, notes, one clear last line when they give up,
# logs of what the steps' programs said, and progress of long ones.

step() {
	printf '==> %s\n' "$*" >&2
}

note() {
	printf '    %s\n' "$*" >&2
}

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# logged NAME COMMAND..: output goes to CACHE/log/NAME.log; its end is shown
# if the command fails.
logged() {
	local name=$1 log=$cache/log/$1.log
	shift
	if ! "$@" > "$log" 2>&1 < /dev/null; then
		note "failed: $*"
		tail -n 15 "$log" | sed 's/^/    | /' >&2
		return 1
	fi
	: "$name"
}

# counted NAME EXPECTED COMMAND..: like logged, with the share of EXPECTED
# lines of output seen so far: on one line of a terminal, else now and then.
counted() {
	local name=$1 expected=$2 log=$cache/log/$1.log start=$SECONDS last=0 pid percent
	shift 2
	# The command may not have begun at the first look.
	: > "$log"
	"$@" > "$log" 2>&1 < /dev/null &
	pid=$!
	# An interrupted script must not leave the build running.
	trap 'kill $pid 2>/dev/null; wait $pid 2>/dev/null; exit 130' INT TERM
	while kill -0 $pid 2>/dev/null; do
		percent=$(($(grep -cE '^(  [A-Z]|\[[0-9]+/)' "$log" || true) * 100 / expected))
		[ $percent -lt 100 ] || percent=99
		if [ -t 2 ]; then
			printf '\r    %3d %%  %d:%02d ' $percent $(((SECONDS - start) / 60)) $(((SECONDS - start) % 60)) >&2
		elif [ $((SECONDS - last)) -ge 30 ]; then
			last=$SECONDS
			note "$percent %, $((SECONDS - start)) s"
		fi
		sleep 1
	done
	[ ! -t 2 ] || printf '\r                       \r' >&2
	trap - INT TERM
	if ! wait $pid; then
		note "failed: $*"
		grep -nE 'error|Error|\*\*\*' "$log" | tail -n 15 | sed 's/^/    | /' >&2
		return 1
	fi
}
