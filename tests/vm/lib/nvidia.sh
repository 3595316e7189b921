# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Branches of NVIDIA's driver: Debian's packages with its source and with the
# programs and libraries of the same version, what the source needs to build
# against a kernel as new as ours (packaging/nvidia/, where each patch says what
# it is), and its modules. Everything stays in the cache; nothing is installed.

# Only this suite has versions for kernels as new as ours.
nvidia_suite="sid non-free contrib"

# select_branch NAME: sets `version`, `source_package`, `user_packages`,
# `patches` for every kernel as new as ours and `test_patches` for that of the
# tests alone, `folder`, `source` and `built`.
select_branch() {
	case "$1" in
	470)
		version=470.256.02
		source_package=nvidia-tesla-470-kernel-source
		user_packages=(nvidia-tesla-470-smi libnvidia-tesla-470-ml1 libnvidia-tesla-470-cuda1)
		patches=(pat)
		test_patches=()
		;;
	550)
		version=550.163.01
		source_package=nvidia-kernel-source
		user_packages=(nvidia-smi libnvidia-ml1 libcuda1)
		patches=(pat strncpy)
		test_patches=(mmu-notifier)
		;;
	550-open)
		version=550.163.01
		source_package=nvidia-open-kernel-source
		user_packages=(nvidia-smi libnvidia-ml1 libcuda1)
		patches=(in-irq pat strncpy resize)
		test_patches=(mmu-notifier)
		;;
	*) die "there is no branch $1: 470, 550 or 550-open" ;;
	esac
	folder=$cache/nvidia-$1-$version
	source=$folder/modules/${source_package%-source}
	built=$folder/.built-$(basename "$KDIR")
}

# Debian's package of the open modules is older than that of the proprietary
# ones, which share these files and are ready for kernel 7.0.
take_shared_files() {
	local file theirs
	theirs=$(select_branch 550 && ready_source && echo "$source") || exit 1
	for file in conftest.sh Makefile common/inc/nv-mm.h common/inc/nv-time.h \
		nvidia/nv-mmap.c nvidia/nv-dma.c nvidia/nv-nano-timer.c \
		nvidia/nvidia.Kbuild nvidia-uvm/nvidia-uvm.Kbuild; do
		cp "$theirs/$file" "$source/$file" || die "$file is not in $theirs"
	done
}

# offered PACKAGE: its version in the suite, which must be of the branch.
offered() {
	local found
	found=$(apt-cache "${private[@]}" show "$1" 2>/dev/null | awk '/^Version:/ { print $2; exit }')
	[[ $found == $version* ]] || die "$nvidia_suite has $1 ${found:-not at all}, want $version"
	note "$1 $found"
}

# Makes sure that the packages are fetched and unpacked, and the source is
# ready to be built.
ready_source() {
	local package patch
	[ ! -e "$folder/.unpacked" ] || return 0
	step "$source_package (non-free: read the licences in $folder before you use it for anything else)"
	private_apt nvidia "$nvidia_suite"
	for package in "$source_package" "${user_packages[@]}"; do
		offered "$package"
	done
	rm -rf "$folder"
	mkdir -p "$folder"
	(cd "$folder" && logged nvidia-download apt-get "${private[@]}" download "$source_package" "${user_packages[@]}") ||
		die "cannot download $source_package, see $cache/log/nvidia-download.log"
	for package in "$folder"/*.deb; do
		dpkg -x "$package" "$folder" || die "cannot unpack $package"
	done
	tar -xf "$folder/usr/src/${source_package%-source}.tar.xz" -C "$folder" || die "cannot unpack $source_package"
	while read -r patch _; do
		[[ -z $patch || $patch == \#* ]] && continue
		patch -d "$source" -p1 -s -f < "$source/debian/patches/$patch" > /dev/null ||
			die "patch $patch of $source_package does not apply"
	done < <(cat "$source/debian/patches/series" 2>/dev/null)
	[ "$source_package" != nvidia-open-kernel-source ] || take_shared_files
	# Without fuzz: a source that has changed is looked at by a person.
	for patch in "${patches[@]}" "${test_patches[@]}"; do
		patch -d "$source" -p1 -s -f --fuzz=0 --no-backup-if-mismatch \
			< "$root/packaging/nvidia/$patch.patch" > /dev/null ||
			die "packaging/nvidia/$patch.patch does not apply to $source_package"
	done
	rm -f "$folder"/*.deb
	touch "$folder/.unpacked"
}

# Makes sure that nvidia.ko and nvidia-uvm.ko are there, without their debug
# information, of which the virtual machine has no use.
ready_modules() {
	local name
	[ ! -e "$built" ] || return 0
	step "nvidia.ko and nvidia-uvm.ko of $source_package against $KDIR (takes minutes)"
	logged "build-$source_package" make -C "$source" -j"$(nproc)" SYSSRC="$KSRC" SYSOUT="$KDIR" \
		IGNORE_CC_MISMATCH=1 NV_KERNEL_MODULES="nvidia nvidia-uvm" modules ||
		die "the modules do not build, see $cache/log/build-$source_package.log"
	for name in nvidia nvidia-uvm; do
		strip --strip-debug -o "$folder/$name.ko" "$source/$name.ko" || die "cannot strip $name.ko"
	done
	touch "$built"
}

# guest_tar FILE PROGRAM: nvidia-smi and the libraries of the branch, PROGRAM, and
# this machine's C library, which all of them are linked to.
guest_tar() {
	local tar=$1 program=$2 stage=$folder/guest name file
	rm -rf "$stage"
	mkdir -p "$stage/user" "$stage/lib64"
	cp "$program" "$folder"/usr/lib/nvidia/*/nvidia-smi "$stage/user/" || die "no nvidia-smi in ${user_packages[0]}"
	for name in nvidia-ml cuda; do
		cp "$folder"/usr/lib/x86_64-linux-gnu/nvidia/*/"lib$name.so.$version" "$stage/user/lib$name.so.1" ||
			die "no lib$name in ${user_packages[*]}"
	done
	for file in "$stage"/user/*; do
		# Shown as `NAME => FILE (address)`; what is not found is said later.
		ldd "$file" | awk '$2 == "=>" && $3 ~ "^/" { print $3 }'
	done | sort -u | while read -r file; do
		cp -L "$file" "$stage/user/" || exit 1
	done || die "cannot copy the C library"
	cp -L /lib64/ld-linux-x86-64.so.2 "$stage/lib64/" || die "no /lib64/ld-linux-x86-64.so.2"
	tar -cf "$tar" -C "$stage" user lib64 || die "cannot write $tar"
}
