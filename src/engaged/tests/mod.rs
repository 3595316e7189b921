// SPDX-License-Identifier: GPL-2.0

//! `[double]` Tests of engaged scheduling through its facade.

use super::*;

mod beside;
mod decider;
mod decider_random;
mod detection;
mod flights;
mod floor;
mod misses;
mod promises;
mod shield;
mod submissions;
mod waits;
