# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For the demonstration: the unmodified kernel of Debian 13's backports, its headers and its source, and
# the compiler that made it. They are unpacked in the cache and not installed; what has to be installed is
# in stock_packages. Needs report.sh and apt.sh.

# Kernels of this version only: the newest of them is taken.
stock_version=7.3
# The compiler of modules is not among them: rustc conflicts with rustc-web, which builds the programs.
stock_packages="make gcc bc xz-utils busybox-static cargo-web rustc-web bindgen pahole
	qemu-system-x86"

# Sets `release`, KDIR, KIMAGE, KRUSTC and KERNEL_SOURCE.
fetch_stock() {
	local package version folder name staged packages=()
	if [ ! -e "$cache/stock/.complete" ]; then
		step "Debian's kernel, its headers, source and compiler"
		private_apt stock "trixie main" "trixie-backports main"
		release=$(apt-cache "${private[@]}" pkgnames "linux-binary-$stock_version" |
			sed -nE 's/^linux-binary-([0-9.]+\+deb13-amd64)$/\1/p' | sort -V | tail -n 1)
		[ -n "$release" ] || die "trixie-backports has no kernel $stock_version any more"
		note "linux-image-$release"
		name=${release%-amd64}
		packages=("linux-binary-$release" "linux-headers-$release" "linux-headers-$name-common" "linux-kbuild-$name"
			"linux-source-$stock_version")
		# That of the release, with which the kernels of its backports are made.
		version=$(apt-cache "${private[@]}" show rustc | sed -n 's/^Version: //p' | grep -v bpo | head -n 1)
		name=${version%%+*}
		for package in rustc libstd-rust-dev "libstd-rust-${name%.*}" rust-src; do
			packages+=("$package=$version")
		done
		staged=$cache/stock.new
		rm -rf "$staged"
		mkdir -p "$staged"
		(cd "$staged" && logged stock-download apt-get "${private[@]}" download "${packages[@]}") ||
			die "cannot download Debian's kernel, see $cache/log/stock-download.log"
		for package in "$staged"/*.deb; do
			dpkg -x "$package" "$staged" || die "cannot unpack $package"
			rm "$package"
		done
		# The one file of the headers that names its neighbours by their whole path.
		folder=$(readlink -f "$cache")/stock
		sed -i "s|/usr/src/|$folder&|" "$staged/usr/src/linux-headers-$release/Makefile"
		# Type information of modules would be made of it, with one more package.
		rm "$staged/usr/src/linux-headers-$release/vmlinux"
		printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "$folder/usr/lib/x86_64-linux-gnu" \
			"$folder/usr/bin/rustc" > "$staged/rustc"
		chmod 755 "$staged/rustc"
		echo "$release" > "$staged/.complete"
		rm -rf "$cache/stock"
		mv -T "$staged" "$cache/stock"
	fi
	folder=$(readlink -f "$cache")/stock
	release=$(cat "$folder/.complete")
	KDIR=$folder/usr/src/linux-headers-$release
	KIMAGE=$folder/usr/lib/modules/$release/vmlinuz
	KRUSTC=$folder/rustc
	KERNEL_SOURCE=$folder/usr/src/linux-source-$stock_version.tar.xz
}
