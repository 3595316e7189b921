// SPDX-License-Identifier: GPL-2.0

//! `[double]` `loga_model.ko`: a Kepler GPU on a PCI bus of its own, and a stand-in for its driver.
//!
//! This is the kernel's root: it mounts the pure parts that the host tests too (`lib.rs`), and the
//! glue that runs them.

pub mod glue;
pub mod gpu;
#[path = "../src/rm/mod.rs"]
pub mod rm;
pub mod truth;

use kernel::prelude::*;

module! {
    type: glue::LogaModel,
    name: "loga_model",
    authors: ["The LoGA authors"],
    description: "Software model of a Kepler GPU with a driver stand-in",
    license: "GPL v2",
}
