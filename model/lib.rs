// SPDX-License-Identifier: GPL-2.0

//! `[double]` A software model of a Kepler GPU and the interface of the driver stand-in.
//!
//! This is the host's root: it mounts the parts that also run inside the kernel module
//! `loga_model.ko`, whose root is `model_main.rs`.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod gpu;
pub mod truth;

pub use loga::rm;
