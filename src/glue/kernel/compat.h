/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between the kernels that LoGA is built for, under the names of the newest. kernels.mk
 * finds out what the kernel at hand has.
 */
#ifndef LOGA_COMPAT_H
#define LOGA_COMPAT_H

/* Renamed in Linux 7.1. */
#ifndef LOGA_HAS_ZAP_SPECIAL_VMA_RANGE
#define zap_special_vma_range zap_vma_ptes
#endif

#endif
