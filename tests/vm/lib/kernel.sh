# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The kernel of the virtual machine: source by package, configuration from
# kernel.config, build in the cache.

# The release whose backports have the newest kernel sources.
kernel_suite=trixie-backports
# Rust abstractions that the module uses came with this version.
min_kernel=7.3
# Lines of output of a complete build; only the progress display needs it.
build_lines=1540

# Sets KSRC: the unpacked source. LOGA_KERNEL names a package to use instead of
# the newest.
fetch_kernel() {
	local package version archive folder
	if [ -z "${LOGA_KERNEL:-}" ] && [ "$1" != --update ] && [ -e "$cache/kernel-source" ]; then
		KSRC=$(readlink "$cache/kernel-source")
		[ -e "$KSRC/.loga-complete" ] && return
	fi
	step "kernel source"
	private_apt kernel "$kernel_suite main"
	package=${LOGA_KERNEL:-$(newest_kernel)}
	[ -n "$package" ] || die "$kernel_suite has no linux-source-$min_kernel or later"
	version=$(apt-cache "${private[@]}" show "$package" 2>/dev/null | awk '/^Version:/ { print $2; exit }')
	[ -n "$version" ] || die "$kernel_suite has no package $package"
	note "$package $version"
	folder=$cache/$package-${version//[^A-Za-z0-9.+-]/_}
	KSRC=$folder/source
	if [ ! -e "$KSRC/.loga-complete" ]; then
		rm -rf "$folder/unpacked" "$KSRC"
		mkdir -p "$folder/unpacked"
		(cd "$folder" && logged kernel-download apt-get "${private[@]}" download "$package") ||
			die "cannot download $package, see $cache/log/kernel-download.log"
		archive=$(ls "$folder/$package"_*.deb)
		note "unpacking"
		dpkg -x "$archive" "$folder/unpacked" || die "cannot unpack $archive: remove it and try again"
		mkdir -p "$KSRC"
		tar -xf "$folder/unpacked/usr/src/$package".tar.* -C "$KSRC" --strip-components=1 ||
			die "cannot unpack the kernel source below $folder"
		rm -rf "$folder/unpacked" "$archive"
		echo "$package $version" > "$KSRC/.loga-complete"
	fi
	ln -sfn "$KSRC" "$cache/kernel-source"
}

newest_kernel() {
	local name found=
	while read -r name; do
		at_least $min_kernel "${name#linux-source-}" && found=$name
	done < <(apt-cache "${private[@]}" pkgnames linux-source- |
		grep -E '^linux-source-[0-9]+\.[0-9]+$' | sort -V)
	echo "$found"
}

# Sets KDIR, KIMAGE and KRUSTC.
build_kernel() {
	local key config=$here/kernel.config
	KRUSTC=/usr/bin/rustc
	key=$({
		cat "$KSRC/.loga-complete" "$config"
		$KRUSTC --version
		"$BINDGEN" --version
		gcc -dumpfullversion
		echo "$KSRC"
	} | sha256sum | cut -c 1-16)
	KDIR=$cache/kernel-$key
	KIMAGE=$KDIR/arch/x86/boot/bzImage
	[ ! -e "$KDIR/.loga-complete" ] || return 0
	kmake=(make -C "$KSRC" "O=$KDIR" "RUSTC=$KRUSTC")
	export LIBCLANG_PATH PATH="$(dirname "$BINDGEN"):$PATH"
	mkdir -p "$KDIR"
	if [ ! -e "$KDIR/.loga-configured" ]; then
		configure_kernel "$config"
	fi
	step "kernel (about 6 minutes on two processors)"
	counted kernel $build_lines "${kmake[@]}" -j"$(nproc)" bzImage modules ||
		die "the kernel does not build, see $cache/log/kernel.log; run again to resume"
	[ -s "$KDIR/Module.symvers" ] || die "the kernel build left no Module.symvers"
	touch "$KDIR/.loga-complete"
}

configure_kernel() {
	local config=$1 line symbol
	step "kernel configuration"
	logged rustavailable "${kmake[@]}" rustavailable ||
		die "the Rust tools do not satisfy the kernel, see $cache/log/rustavailable.log"
	logged tinyconfig "${kmake[@]}" tinyconfig || die "make tinyconfig failed"
	logged merge "$KSRC/scripts/kconfig/merge_config.sh" -m -O "$KDIR" "$KDIR/.config" "$config" ||
		die "merging kernel.config failed"
	logged olddefconfig "${kmake[@]}" olddefconfig || die "make olddefconfig failed"
	# A line that the kernel does not know or whose conditions are not met
	# would vanish without a word.
	while read -r line; do
		case "$line" in
		CONFIG_*=*)
			grep -qxF "$line" "$KDIR/.config" || die "kernel.config: $line did not take effect"
			;;
		'# CONFIG_'*' is not set')
			symbol=${line#\# }
			symbol=${symbol%% *}
			! grep -q "^$symbol=" "$KDIR/.config" || die "kernel.config: $line did not take effect"
			;;
		esac
	done < "$config"
	touch "$KDIR/.loga-configured"
}
