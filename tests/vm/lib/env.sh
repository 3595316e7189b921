# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Where things are: sourced by the scripts that build and run. Sets `root` (the
# checkout), `cache`, `out`, `modules` (built modules), `programs` and CARGO_TARGET_DIR, and
# takes over what tests/vm/setup found. LOGA_FLAVOUR selects the kernel of
# tests/vm/kernel-FLAVOUR.config, or with `stock` Debian's own, with modules of its own.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
cache=${LOGA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/loga}
out=${LOGA_OUT:-$root/out}

# shellcheck source=tests/vm/lib/report.sh
. "$root/tests/vm/lib/report.sh"

if [ -r "$cache/env" ]; then
	# shellcheck disable=SC1091
	. "$cache/env"
elif [ -z "${KDIR:-}" ] && [ "${LOGA_FLAVOUR:-}" != stock ]; then
	die "nothing is set up yet: run make kernel"
fi
if [ -n "${LOGA_FLAVOUR:-}" ]; then
	[ -r "$cache/env-$LOGA_FLAVOUR" ] || die "no kernel for $LOGA_FLAVOUR yet: run tests/vm/setup --flavour $LOGA_FLAVOUR"
	# shellcheck disable=SC1090
	. "$cache/env-$LOGA_FLAVOUR"
	# A KDIR that is exported already is that of another kernel.
	KDIR=$KDIR_DEFAULT
fi
KDIR=${KDIR:-$KDIR_DEFAULT}
RUSTC_KERNEL=${RUSTC_KERNEL:-rustc}
CARGO=${CARGO:-cargo}

# Build products stay outside the checkout: the kernel's build walks every
# folder below a module's source.
checkout=$(printf '%s' "$root" | sha256sum | cut -c 1-12)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/target-$checkout}
modules=$cache/modules-$checkout${LOGA_FLAVOUR:+-$LOGA_FLAVOUR}
profile=release
[ "${LOGA_FLAVOUR:-}" != stock ] || profile=demo
programs=$CARGO_TARGET_DIR/x86_64-unknown-linux-gnu/$profile
runner=$programs/loga-vm
mkdir -p "$out" "$cache/log"
