# SPDX-License-Identifier: GPL-2.0
#
# What differs between the kernels that LoGA is built for: included by the Kbuild files. The kernel's
# headers and the names in its Rust metadata tell what it has, not its version: a distribution may have
# taken a change from a later one.

# $(call loga-names,FILE,NAME): y if NAME is in FILE.
loga-names = $(shell grep -qsaF '$(2)' '$(1)' && echo y)

rustflags-$(call loga-names,$(objtree)/rust/libkernel.rmeta,SpinLockIrq) += --cfg loga_has_spinlock_irq
rustflags-$(call loga-names,$(objtree)/rust/libkernel.rmeta,from_nanos) += --cfg loga_has_delta_from_nanos
ccflags-$(call loga-names,$(srctree)/include/linux/mm.h,zap_special_vma_range) += -DLOGA_HAS_ZAP_SPECIAL_VMA_RANGE
