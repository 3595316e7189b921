# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The emulator of the virtual machine: Debian 13's source of QEMU with tests/vm/emulator.patch,
# which says why, built in the cache. Needs report.sh and apt.sh.

# The release whose QEMU is taken, on each release that the set-up knows.
emulator_suite=trixie
# A machine of 1996 with serial ports and a precise timer, and nothing else.
emulator_devices="CONFIG_I440FX=y CONFIG_HPET=y"
# Steps of the build; only the progress display needs it.
emulator_steps=1300
emulator_options=(
	--target-list=x86_64-softmmu --without-default-features --without-default-devices
	--with-devices-x86_64=loga --enable-tcg --enable-fdt=system --disable-docs --disable-tools
	--disable-guest-agent --disable-install-blobs --disable-debug-info --disable-qom-cast-debug
	--disable-werror
)

# Sets QEMU.
build_emulator() {
	local key folder program=bin/qemu-system-x86_64
	# Not its words.
	key=$(cat <(sed -n '/^diff /,$p' "$here/emulator.patch") <(echo "$emulator_suite $emulator_devices ${emulator_options[*]}") |
		sha256sum | cut -c 1-16)
	folder=$cache/qemu-$key
	QEMU=$folder/$program
	if [ -x "$QEMU" ] && "$QEMU" --version > /dev/null 2>&1; then
		return
	fi
	install_missing libglib2.0-dev libfdt-dev ninja-build pkg-config python3 python3-venv seabios qemu-system-data
	# QEMU's build wants a newer one than Debian 12 has.
	install_newer meson 1.5
	step "emulator (about 3 minutes on two processors)"
	rm -rf "$folder" "$folder.build"
	mkdir -p "$folder.build/source" "$folder.build/build"
	fetch_emulator "$folder.build"
	logged emulator-patch patch -d "$folder.build/source" -p1 -i "$here/emulator.patch" ||
		die "emulator.patch does not fit the source of QEMU, see $cache/log/emulator-patch.log"
	tr " " "\n" <<< "$emulator_devices" > "$folder.build/source/configs/devices/x86_64-softmmu/loga.mak"
	(
		cd "$folder.build/build" || exit 1
		# The distribution's Python, which knows the distribution's Meson.
		logged emulator-configure ../source/configure --prefix="$folder" --python=/usr/bin/python3 \
			"${emulator_options[@]}"
	) || die "the emulator cannot be configured, see $cache/log/emulator-configure.log"
	counted emulator $emulator_steps ninja -C "$folder.build/build" qemu-system-x86_64 ||
		die "the emulator does not build, see $cache/log/emulator.log; run again to try again"
	# It looks for firmware beside itself.
	mkdir -p "$folder.build/made/bin" "$folder.build/made/share/qemu"
	strip -o "$folder.build/made/$program" "$folder.build/build/qemu-system-x86_64" &&
		cp -L /usr/share/seabios/bios-256k.bin /usr/share/qemu/{kvmvapic,linuxboot_dma,pvh}.bin \
			"$folder.build/made/share/qemu/" &&
		mv -T "$folder.build/made" "$folder" && rm -rf "$folder.build" ||
		die "cannot put the emulator into $folder: is the disk full?"
	"$QEMU" --version > /dev/null || die "the emulator does not run: $QEMU"
}

# fetch_emulator FOLDER: unpacks the source into FOLDER/source. Only the original archive: the
# distribution's changes are for what is left out here.
fetch_emulator() {
	local folder=$1 uri name sum
	private_kind=deb-src private_apt emulator "$emulator_suite main"
	read -r uri name _ sum < <(apt-get "${private[@]}" source --print-uris --only-source qemu 2> /dev/null |
		tr -d "'" | grep -F .orig.tar.)
	[ -n "$name" ] || die "$emulator_suite has no source package qemu"
	note "${name%.orig.tar.*}"
	logged emulator-download /usr/lib/apt/apt-helper "${private[@]}" download-file "$uri" "$folder/$name" "$sum" ||
		die "cannot download $name, see $cache/log/emulator-download.log (is the network up?)"
	tar -xf "$folder/$name" -C "$folder/source" --strip-components=1 || die "cannot unpack $folder/$name"
}
