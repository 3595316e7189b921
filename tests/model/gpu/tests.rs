// SPDX-License-Identifier: GPL-2.0

//! Tests of the GPU's semantics, ordinary and unhappy.
