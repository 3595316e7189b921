# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The kernel of the virtual machine: source by package, configuration from
# kernel.config, build in the cache.

# The release whose backports have the newest kernel sources.
kernel_suite=trixie-backports
# The everyday kernel is this one or newer.
min_kernel=7.3
# Lines of output of a complete build; only the progress display needs it.
build_lines=1540

# Sets KSRC: the unpacked source. LOGA_KERNEL names a package to use instead of
# the newest.
fetch_kernel() {
	local package
	if [ -z "${LOGA_KERNEL:-}" ] && [ "$1" != --update ] && [ -e "$cache/kernel-source" ]; then
		KSRC=$(readlink "$cache/kernel-source")
		[ -e "$KSRC/.loga-complete" ] && return
	fi
	step "kernel source"
	private_apt kernel "$kernel_suite main"
	package=${LOGA_KERNEL:-$(newest_kernel)}
	[ -n "$package" ] || die "$kernel_suite has no linux-source-$min_kernel or later"
	fetch_package "$package" || die "$kernel_suite has no package $package that can be fetched"
	ln -sfn "$KSRC" "$cache/kernel-source"
}

# fetch_release X.Y: sets KSRC to a source of that release, from the first of three places that has one: a
# package of sources; the archive of a source package, of which the mirror may not have the newest; and
# Ubuntu. Once unpacked it stays as it is.
fetch_release() {
	local series=$1 link=$cache/kernel-source-$1 version
	KSRC=$(readlink "$link") || KSRC=
	[ -z "$KSRC" ] || [ ! -e "$KSRC/.loga-complete" ] || return 0
	step "source of Linux $series"
	private_apt kernel "$kernel_suite main"
	if ! fetch_package "linux-source-$series"; then
		private_kind=deb-src private_apt kernel-releases "$kernel_suite main"
		KSRC=
		for version in $(apt-cache "${private[@]}" showsrc linux 2> /dev/null |
			awk -v series="$series." '$1 == "Version:" && index($2, series) == 1 { print $2 }' | sort -rVu); do
			! fetch_source "$version" || break
		done
		[ -n "$KSRC" ] || fetch_of_ubuntu "$series" || return 1
	fi
	ln -sfn "$KSRC" "$link"
}

# fetch_package NAME: sets KSRC to what a package of sources holds; fails if there is none.
fetch_package() {
	local package=$1 version folder
	version=$(apt-cache "${private[@]}" show "$package" 2>/dev/null | awk '/^Version:/ { print $2; exit }')
	[ -n "$version" ] || return 1
	note "$package $version"
	folder=$cache/$package-${version//[^A-Za-z0-9.+-]/_}
	KSRC=$folder/source
	if [ ! -e "$KSRC/.loga-complete" ]; then
		rm -rf "$folder/unpacked"
		mkdir -p "$folder/unpacked"
		(cd "$folder" && logged kernel-download apt-get "${private[@]}" download "$package") ||
			die "cannot download $package, see $cache/log/kernel-download.log"
		dpkg -x "$folder/$package"_*.deb "$folder/unpacked" ||
			die "cannot unpack $(echo "$folder/$package"_*.deb): remove it and try again"
		unpack_kernel "$(find "$folder/unpacked/usr/src" -name "$package.tar.*" -type f)" "$package $version"
		rm -rf "$folder/unpacked" "$folder/$package"_*.deb
	fi
}

# fetch_source VERSION: sets KSRC to the release that a source package is made from, without the
# distribution's changes; fails if the mirror has none.
fetch_source() {
	local version=$1 release=${1%%[-~]*} folder
	folder=$cache/linux-$release
	if [ ! -e "$folder/source/.loga-complete" ]; then
		mkdir -p "$folder"
		(cd "$folder" && apt-get "${private[@]}" source --download-only --tar-only "linux=$version") \
			> "$cache/log/kernel-download.log" 2>&1 < /dev/null || {
			rmdir "$folder"
			return 1
		}
		note "linux $version"
		KSRC=$folder/source
		unpack_kernel "$folder/linux_$release.orig.tar.xz" "linux $release"
		rm -f "$folder"/linux_*
	fi
	KSRC=$folder/source
}

# fetch_of_ubuntu X.Y: sets KSRC to the package of sources of Ubuntu's release with that kernel; fails
# without one. debootstrap knows Ubuntu's mirror, UBUNTU_MIRROR names another.
fetch_of_ubuntu() {
	local series=$1 release
	case "$series" in
	7.0) release=resolute ;;
	*) return 1 ;;
	esac
	find_ubuntu
	private_mirror=$ubuntu private_keyring=$ubuntu_keys private_apt ubuntu "$release main" "$release-updates main"
	fetch_package "linux-source-$series.0"
}

# unpack_kernel ARCHIVE NAME: into KSRC, without what no build of a kernel for x86 reads.
unpack_kernel() {
	local archive=$1 name=$2
	note "unpacking"
	rm -rf "$KSRC"
	mkdir -p "$KSRC"
	tar -xf "$archive" -C "$KSRC" --strip-components=1 --wildcards --exclude='*/Documentation/*/*' \
		--exclude='*/tools/testing/*' --exclude='*/arch/*/boot/dts/*' ||
		die "cannot unpack the kernel source below ${KSRC%/*}"
	echo "$name" > "$KSRC/.loga-complete"
}

newest_kernel() {
	local name found=
	while read -r name; do
		at_least $min_kernel "${name#linux-source-}" && found=$name
	done < <(apt-cache "${private[@]}" pkgnames linux-source- |
		grep -E '^linux-source-[0-9]+\.[0-9]+$' | sort -V)
	echo "$found"
}

# What the kernel would take from the time and the machine of the build otherwise; the same text on
# every machine, so that one source gives one kernel.
kernel_banner=(KBUILD_BUILD_TIMESTAMP='Wed Jan  1 00:00:00 UTC 2020' KBUILD_BUILD_USER=loga
	KBUILD_BUILD_HOST=loga KBUILD_BUILD_VERSION=1)

# A kernel with the address sanitizer: the Rust compiler's instrumentation goes
# with clang's only.
llvm_version=19

# Sets KDIR, KIMAGE, KRUSTC and KLLVM. FLAVOUR selects kernel-FLAVOUR.config on
# top of kernel.config; without one, and for linux-X.Y, it is the everyday kernel.
build_kernel() {
	local key flavour=${1:-} fragments=("$here/kernel.config")
	KRUSTC=/usr/bin/rustc
	KLLVM=
	case "$flavour" in
	'' | linux-*) ;;
	*)
		fragments+=("$here/kernel-$flavour.config")
		[ -e "${fragments[1]}" ] || die "there is no kernel flavour $flavour: no tests/vm/kernel-$flavour.config"
		;;
	esac
	if [ "$flavour" = kasan ]; then
		install_missing clang-$llvm_version lld-$llvm_version llvm-$llvm_version
		KLLVM=-$llvm_version
	fi
	key=$({
		cat "$KSRC/.loga-complete" "${fragments[@]}"
		$KRUSTC --version
		"$BINDGEN" --version
		if [ -n "$KLLVM" ]; then "clang$KLLVM" --version; else gcc -dumpfullversion; fi
		echo "$KSRC" "${kernel_banner[@]}"
	} | sha256sum | cut -c 1-16)
	KDIR=$cache/kernel${flavour:+-$flavour}-$key
	KIMAGE=$KDIR/arch/x86/boot/bzImage
	[ ! -e "$KDIR/.loga-complete" ] || [ ! -s "$KIMAGE" ] || return 0
	# Names of Rust's files, which panics print, begin with the source on every machine.
	kmake=(make -C "$KSRC" "O=$KDIR" "RUSTC=$KRUSTC" ${KLLVM:+"LLVM=$KLLVM"} "${kernel_banner[@]}"
		"KRUSTFLAGS=--remap-path-prefix=$KSRC/= --remap-path-prefix=$KDIR/=")
	export LIBCLANG_PATH PATH="$(dirname "$BINDGEN"):$PATH"
	mkdir -p "$KDIR"
	if [ ! -e "$KDIR/.loga-configured" ]; then
		configure_kernel "${fragments[@]}"
	fi
	step "kernel${flavour:+ for $flavour} (about 6 minutes on two processors${flavour:+, debug code takes longer})"
	counted "kernel${flavour:+-$flavour}" $build_lines "${kmake[@]}" -j"$(nproc)" bzImage modules ||
		die "the kernel does not build, see $cache/log/kernel${flavour:+-$flavour}.log; run again to resume"
	[ -s "$KDIR/Module.symvers" ] || die "the kernel build left no Module.symvers"
	touch "$KDIR/.loga-complete"
}

# configure_kernel FRAGMENT..: a later one overrides an earlier one.
configure_kernel() {
	local line symbol name
	step "kernel configuration"
	logged rustavailable "${kmake[@]}" rustavailable ||
		die "the Rust tools do not satisfy the kernel, see $cache/log/rustavailable.log"
	logged tinyconfig "${kmake[@]}" tinyconfig || die "make tinyconfig failed"
	logged merge "$KSRC/scripts/kconfig/merge_config.sh" -m -O "$KDIR" "$KDIR/.config" "$@" ||
		die "merging $* failed"
	logged olddefconfig "${kmake[@]}" olddefconfig || die "make olddefconfig failed"
	# A line that the kernel does not know or whose conditions are not met
	# would vanish without a word.
	for name in "$@"; do
		while read -r line; do
			case "$line" in
			CONFIG_*=*)
				symbol=${line%%=*}
				grep -qxF "$line" "$KDIR/.config" || overridden "$symbol" "$name" "$@" ||
					die "${name##*/}: $line did not take effect"
				;;
			'# CONFIG_'*' is not set')
				symbol=${line#\# }
				symbol=${symbol%% *}
				! grep -q "^$symbol=" "$KDIR/.config" || overridden "$symbol" "$name" "$@" ||
					die "${name##*/}: $line did not take effect"
				;;
			esac
		done < "$name"
	done
	touch "$KDIR/.loga-configured"
}

# overridden SYMBOL FRAGMENT ALL..: whether a fragment after FRAGMENT says
# something else about SYMBOL.
overridden() {
	local symbol=$1 of=$2 name after=
	shift 2
	for name in "$@"; do
		if [ -n "$after" ] && grep -qE "^(# )?$symbol[= ]" "$name"; then
			return 0
		fi
		[ "$name" != "$of" ] || after=yes
	done
	return 1
}
