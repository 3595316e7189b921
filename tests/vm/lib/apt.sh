# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Packages by name. What this release of the distribution has comes through
# the machine's own configuration; what only a backports suite has comes from
# the same mirror through a private list in the cache, so that nothing of the
# machine's configuration changes.

# Prints those of the named packages that are not installed.
missing() {
	local name
	for name in "$@"; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || echo "$name"
	done
}

install_missing() {
	local absent
	absent=$(missing "$@" | tr '\n' ' ')
	[ -n "$absent" ] || return 0
	step "packages: $absent"
	if [ "$(id -u)" -ne 0 ]; then
		die "these packages are missing; run as root: apt-get install $absent"
	fi
	# The lists of a fresh machine may be absent or old.
	logged apt-update apt-get update || note "apt-get update failed: trying with the lists that are there"
	# shellcheck disable=SC2086
	logged apt-install apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $absent ||
		die "apt-get install failed, see $cache/log/apt-install.log"
}

# install_stopped "UNIT.." PACKAGE..: the same for packages with services, of which those that
# were not there before start neither now nor at boot: the tests start what they need.
install_stopped() {
	local units=$1 unit policy=/usr/sbin/policy-rc.d new=
	shift
	[ -n "$(missing "$@")" ] || return 0
	for unit in $units; do
		[ -e "/lib/systemd/system/$unit.service" ] || new="$new $unit"
	done
	(
		if [ "$(id -u)" -eq 0 ] && [ ! -e $policy ]; then
			trap 'rm -f "$policy"' EXIT
			printf '#!/bin/sh\nexit 101\n' > $policy
			chmod 755 $policy
		fi
		install_missing "$@"
	) || exit 1
	for unit in $new; do
		[ ! -e "/lib/systemd/system/$unit.service" ] || logged "disable-$unit" systemctl disable "$unit" ||
			note "$unit starts with the machine: disable it if you do not want that"
	done
}

# The mirror of this machine, from its own configuration.
mirror() {
	local uri
	uri=$(apt-get indextargets --format '$(REPO_URI)|$(RELEASE)|$(COMPONENT)' 'Created-By: Packages' |
		awk -F'|' -v name="$codename" '$3 == "main" && ($2 == name || $2 == "stable" || $2 == "oldstable") { print $1; exit }')
	[ -n "$uri" ] || die "apt has no source for $codename main: cannot tell which mirror to use"
	echo "$uri"
}

keyring() {
	local file
	for file in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
		if [ -r "$file" ]; then
			echo "$file"
			return
		fi
	done
	die "no archive keyring: install debian-archive-keyring"
}

# private_apt NAME "SUITE COMPONENT.." ..: prepares a list of its own and
# fetches its indexes; sets the array `private` to the options that use it. With
# private_kind=deb-src, of sources; with private_mirror and private_keyring, of another archive.
private_apt() {
	local folder=$cache/apt/$1 uri key suite
	shift
	uri=${private_mirror:-$(mirror)} || exit 1
	key=${private_keyring:-$(keyring)} || exit 1
	mkdir -p "$folder/lists/partial" "$folder/archives/partial"
	for suite in "$@"; do
		echo "${private_kind:-deb} [signed-by=$key] $uri $suite"
	done > "$folder/sources.list"
	private=(
		-o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null
		-o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null
		-o "Dir::State::Lists=$folder/lists" -o "Dir::Cache::Archives=$folder/archives"
		-o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
		-o Acquire::Languages=none -o DPkg::Lock::Timeout=300 -o APT::Sandbox::User=root
	)
	logged "apt-$(basename "$folder")" apt-get "${private[@]}" update ||
		die "cannot fetch the package lists of: $* (see $cache/log; is the network up, does the mirror carry these suites?)"
}

# install_newer PACKAGE VERSION: from this release if its version suffices,
# else from its backports.
install_newer() {
	local package=$1 wanted=$2 offered
	offered=$(apt-cache policy "$package" | awk '/Candidate:/ { print $2 }')
	if [ -n "$offered" ] && dpkg --compare-versions "$offered" ge "$wanted"; then
		install_missing "$package"
		return
	fi
	if [ "$(id -u)" -ne 0 ]; then
		die "$package $wanted or later is needed; run as root: apt-get install -t $codename-backports $package"
	fi
	private_apt backports "$codename main" "$codename-updates main" "$codename-backports main"
	logged "install-$package" apt-get "${private[@]}" install -y --no-install-recommends \
		-t "$codename-backports" "$package" ||
		die "cannot install $package from $codename-backports, see $cache/log/install-$package.log"
	rm -rf "$cache/apt/backports/archives"
}

# Sets `ubuntu` and `ubuntu_keys`: Ubuntu's mirror, which debootstrap knows unless UBUNTU_MIRROR names
# one, and the keys of its lists, of which Debian has a package.
find_ubuntu() {
	local folder=$cache/apt/ubuntu-keys
	install_missing debootstrap bzip2
	# The first mirror is that of releases that are no longer kept.
	ubuntu=${UBUNTU_MIRROR:-$(sed '/amd64/,/esac/!d' /usr/share/debootstrap/scripts/gutsy |
		awk '$1 == "default_mirror" { uri = $2 } END { print uri }')}
	ubuntu_keys=$folder/usr/share/keyrings/ubuntu-archive-keyring.gpg
	[ ! -e "$ubuntu_keys" ] || return 0
	private_apt keys "trixie main"
	mkdir -p "$folder"
	(cd "$folder" && logged ubuntu-keys apt-get "${private[@]}" download ubuntu-keyring) ||
		die "cannot fetch the keys of Ubuntu's lists"
	dpkg -x "$folder"/ubuntu-keyring_*.deb "$folder" || die "cannot unpack the keys of Ubuntu's lists"
}
