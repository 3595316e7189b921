# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What was built from each checkout, in folders of the cache of its own: gigabytes. Needs env.sh.

# Our own crates are not the same in another checkout: their names.
own_crates='*loga*:*throttle*:*fake_cuda*:*fake-cuda*'

# Makes the folder that cargo builds in. Crates from the registry are the same for all checkouts: one
# that was never built takes over what another one has compiled of them.
ready_target() {
	local from staged=$CARGO_TARGET_DIR.$$ name names=() skip=()
	sweep_checkouts
	if [ ! -e "$CARGO_TARGET_DIR" ] && command -v rsync > /dev/null; then
		# The one that was built last; in a new cache there is none, which is no failure.
		from=$(ls -dt "$cache"/target-*[0-9a-f]/debug 2> /dev/null | head -n 1) || from=
		if [ -n "$from" ]; then
			from=${from%/debug}
			IFS=: read -ra names <<< "$own_crates"
			for name in "${names[@]}" incremental examples '*.timestamp' .cargo-lock .checkout; do
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
		fi
	fi
	mkdir -p "$CARGO_TARGET_DIR" || die "cannot create $CARGO_TARGET_DIR: set LOGA_CACHE to a folder you can write"
	echo "$root" > "$CARGO_TARGET_DIR/.checkout" || die "cannot write below $CARGO_TARGET_DIR: is the disk full?"
}

# Removes what was built from checkouts that are gone, but for the newest, which the next one takes
# crates over from.
sweep_checkouts() {
	local folder of gone=()
	while read -r folder; do
		of=$(cat "$folder/.checkout" 2> /dev/null) || continue
		[ -e "$of/tests/vm" ] || gone+=("$folder")
	done < <(ls -dt "$cache"/target-*[0-9a-f] 2> /dev/null | tail -n +2)
	for folder in "${gone[@]}"; do
		note "a checkout is gone: $(cat "$folder/.checkout"); what was built from it is removed"
		rm -rf "$folder" "${folder/\/target-//modules-}" "${folder/\/target-//modules-}"-*
	done
}
