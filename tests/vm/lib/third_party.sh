# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Crates from the registry are the same for all checkouts: a checkout that was never built takes over
# what another one has compiled of them. Needs env.sh.

# Our own crates are not the same: their names.
own_crates='*loga*:*throttle*:*fake_cuda*:*fake-cuda*'

take_over_third_party() {
	local from staged=$CARGO_TARGET_DIR.$$ name names=() skip=()
	[ ! -e "$CARGO_TARGET_DIR" ] && command -v rsync > /dev/null || return 0
	# The one that was built last.
	from=$(ls -dt "$cache"/target-*[0-9a-f]/debug 2> /dev/null | head -n 1)
	[ -n "$from" ] || return 0
	from=${from%/debug}
	IFS=: read -ra names <<< "$own_crates"
	for name in "${names[@]}" incremental examples '*.timestamp' .cargo-lock; do
		skip+=(--exclude "$name")
	done
	# Programs and tests have no suffix; they are ours.
	for name in rlib rmeta so d; do
		skip+=(--include "deps/*.$name")
	done
	skip+=(--exclude 'deps/*')
	note "crates from the registry are taken over from another checkout"
	# A copy that is incomplete is not put in place; without one everything is compiled.
	if rsync -a "${skip[@]}" "$from/" "$staged/"; then
		mv -T "$staged" "$CARGO_TARGET_DIR" 2> /dev/null
	fi
	rm -rf "$staged"
}
