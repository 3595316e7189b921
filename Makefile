# SPDX-License-Identifier: GPL-2.0
#
# The commands of the project. The work is done by the scripts in tests/vm; the
# kernel's own build reads Kbuild, not this file.

.DEFAULT_GOAL := help
SHELL := /bin/bash
RUN ?= sh -c 'loga stat; lspci'
TIME ?= exact
# Given on the command line, KDIR selects another configured kernel tree; the others are of
# packaging/install.
export KDIR DESTDIR PREFIX SYSCONFDIR

help:
	@echo 'make demo             one hog and three light clients share a GPU, in three acts'
	@echo 'make check            formatting, lints, host tests: what one runs every few minutes'
	@echo 'make test             all that a change has to pass; the last line is "N passed, N failed"'
	@echo 'make test ONLY=NAME   one test by name, or all whose names begin so, on either side; SEED=1'
	@echo 'make test-all         everything: three seeds, slow tests, hostile, debug and Slurm kernels, storms; hours'
	@echo 'make flakes SEEDS=20  timed tests with many seeds: failures, and how far figures stay from limits'
	@echo 'make reproduce        one image booted twice, beside a busy host: are both runs the same?'
	@echo 'make test-hostile     every hostile program on the branches 340, 470 and 550 of the driver, without and with each dispatcher'
	@echo 'make test-debug       KUnit and the guest on kernels with lockdep, kmemleak, ..., and with KASAN'
	@echo 'make test-slurm       Slurm, its cgroups and its jobs with the kernel module and six GPUs, and weights of cgroups, on a kernel for it'
	@echo 'make fuzz SECONDS=60  parsers of foreign bytes under a coverage-guided fuzzer, 60 s each'
	@echo 'make cycles           load, attach, detach and unload LoGA CYCLES times (1000) beside clients'
	@echo 'make soak             mixed load for SOAK seconds (3600); memory must come back'
	@echo "make vm RUN='...'     boot, load the modules, run a shell line (TIME=exact|fast)"
	@echo 'make shell            the same with a shell on this terminal: try "loga top"'
	@echo 'make module           build loga.ko for the running kernel, into out/; KDIR= for another one'
	@echo 'make bench            measure, write out/bench.json'
	@echo 'make figures          tables of the documents from out/bench.json, which stays in docs/measured'
	@echo 'make bench-host       measure the pure parts on the host, write out/bench-host.json'
	@echo 'make card OUT=FILE    ask an NVIDIA card of any family, without a module; write an archive to send'
	@echo 'make eval             the experiments of the LoGA paper, into out/eval; QUICK=1 for less'
	@echo 'make papers           figures of TimeGraph, Pegasus, Strings and GViM, simulated, into out/papers.html'
	@echo 'make manuals          man pages and shell completions of loga, into out/man and out/completions'
	@echo 'make install          programs, units, man pages: DESTDIR=, PREFIX=/usr/local; make uninstall'
	@echo 'make install-module   out/loga.ko into /lib/modules of the same kernel'
	@echo 'make package          Debian packages loga and loga-dkms, into out/packages'
	@echo 'make test-kernels     modules without a warning and the demonstration on each Linux that they fit: 7.0 to 7.3'
	@echo 'make test-package     packages, DKMS and the unmodified kernel of Debian 13 backports in a clean root'
	@echo 'make test-nvidia      check against the real drivers 470 and 550 (fetches non-free packages)'
	@echo 'make kernel           only the set-up: packages, tools, kernel, emulator'
	@echo 'make clean            remove what was built from this checkout'
	@echo
	@echo 'The cache is $$LOGA_CACHE, else $$XDG_CACHE_HOME/loga, else ~/.cache/loga.'

kernel:
	@tests/vm/setup

# What the tests drive on this machine, too.
tested:
	@tests/vm/setup --tests

demo:
	@tests/vm/demo

# What needs a compiler only, as bench-host.
check:
	@tests/vm/check quick

# With ONLY, what the tests of that name need and nothing else.
test: $(if $(ONLY),,tested)
	@$(if $(ONLY),tests/vm/only '$(ONLY)' '$(or $(SEED),1)',SEED='$(or $(SEED),1)' tests/vm/check)

# Two more seeds; each part says what failed in it, and the first that does ends the run.
test-all: tested
	@for seed in 1 2 3; do ALL=1 SEED=$$seed tests/vm/check || exit 1; done
	@$(MAKE) --no-print-directory reproduce test-hostile test-debug test-slurm fuzz cycles soak

flakes:
	@tests/vm/flakes '$(or $(SEEDS),20)' $(NAMES)

reproduce: kernel
	@tests/vm/build all
	@SEED='$(or $(SEED),1)' tests/vm/reproduce

test-hostile: kernel
	@tests/vm/build all
	@tests/vm/hostile

# Builds the kernels that it needs; `make test` does not.
test-debug: kernel
	@tests/vm/debug

# Builds the kernel that it needs, as test-debug.
test-slurm: tested
	@tests/vm/slurm

# Builds the kernels that it needs, as test-debug.
test-kernels:
	@tests/vm/kernels $(RELEASES)

# SEED and TARGET may be given too.
fuzz: kernel
	@tests/fuzz/run $(or $(SECONDS),60) $(or $(SEED),-) $(TARGET)

# Both in the time of the host: instruction counting would take days.
cycles: kernel
	@tests/vm/build all
	@tests/vm/vm test --time fast --timeout 7200 --guest 'loga-guest cycles $(or $(CYCLES),1000) --seed $(or $(SEED),1) $(DISPATCH:%=--dispatch %)'

soak: kernel
	@tests/vm/build all
	@tests/vm/vm test --time fast --timeout $$(($(or $(SOAK),3600) * 2 + 600)) \
		--guest 'loga-guest soak $(or $(SOAK),3600) --seed $(or $(SEED),1) $(DISPATCH:%=--dispatch %)'

vm: kernel
	@tests/vm/build all
	@tests/vm/vm boot --time $(TIME) --load loga_model --load loga --timeout 900 -- '$(subst ','\'',$(RUN))'

# An idle machine that counts instructions would let time run ahead.
shell: kernel
	@tests/vm/build all
	@tests/vm/vm shell --time fast --timeout 86400 --load loga_model --load loga

# Nothing of the virtual machine is needed: headers and their compiler are.
running := /lib/modules/$(shell uname -r)/build
module:
	@KDIR='$(or $(KDIR),$(running))' tests/vm/build module

bench: kernel
	@tests/vm/build all
	@tests/bench/run

# Measures nothing: takes over what make bench left, if it was of a commit alone. Needs a compiler only,
# as bench-host.
figures:
	@KDIR=$${KDIR:-none} && . tests/vm/lib/env.sh && \
		"$$CARGO" run --locked --quiet -p loga-figures -- . out/bench.json

# Needs a compiler only, so it runs without the set-up.
bench-host:
	@KDIR=$${KDIR:-none} && . tests/vm/lib/env.sh && "$$CARGO" bench --locked --quiet -p loga-bench-host

# Needs a compiler only, as bench-host.
card:
	@KDIR=$${KDIR:-none} && . tests/vm/lib/env.sh && \
		"$$CARGO" build --locked --quiet --release -p loga-host -p throttle && \
		"$$CARGO_TARGET_DIR/release/loga-host" card --out '$(or $(OUT),card.tar)'

eval: kernel
	@tests/vm/build all
	@. tests/vm/lib/env.sh && "$$CARGO" run --locked --quiet --release -p loga-eval --bin loga-eval -- \
		run --machine tests/bench/paper $(if $(QUICK),--quick)

# Needs a compiler only, as bench-host.
papers:
	@KDIR=$${KDIR:-none} && . tests/vm/lib/env.sh && mkdir -p out && \
		"$$CARGO" run --locked --quiet --release -p loga-eval --bin loga-sim -- papers out/papers.html

# Needs a compiler only, as bench-host.
manuals:
	@KDIR=$${KDIR:-none} && . tests/vm/lib/env.sh && \
		"$$CARGO" run --locked --quiet -p loga-cli -- generate man out/man && \
		"$$CARGO" run --locked --quiet -p loga-cli -- generate completions out/completions

# Programs only: no kernel is built. Needs a compiler only, as bench-host.
install: manuals
	@KDIR=$${KDIR:-none} && . tests/vm/lib/env.sh && \
		"$$CARGO" build --locked --quiet --release -p loga-cli -p throttle && \
		PROGRAMS=$$CARGO_TARGET_DIR/release GENERATED=$$out packaging/install install

uninstall:
	@packaging/install uninstall

install-module:
	@packaging/install module out/loga.ko '$(or $(KDIR),$(running))'

# Programs as for install; no kernel is built.
package:
	@packaging/package

test-package: kernel
	@tests/vm/package

test-nvidia: kernel
	@tests/vm/build all
	@tests/vm/nvidia

clean:
	@tests/vm/clean

.PHONY: help kernel tested demo check test test-all flakes reproduce test-hostile test-debug test-slurm test-kernels fuzz cycles soak vm shell module bench figures bench-host card eval papers manuals install uninstall install-module package test-package test-nvidia clean
