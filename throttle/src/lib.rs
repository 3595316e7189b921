// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The load generator of the paper: kernels of a chosen length at a chosen rate.
//!
//! | file | contents |
//! |---|---|
//! | [`plan`] | what to do: arguments and their limits |
//! | [`load`] | the loop: submit, wait, sleep, note the times |
//! | [`backend`] | what the loop asks of a GPU |
//! | [`standin`] | the backend that talks to an NVIDIA resource manager through device nodes |
//! | [`gpu`] | the backends that load CUDA's or an OpenCL library at run time |
//! | [`lengths`] | asked and measured lengths of kernels, and how far they are apart |
//! | [`rm`] | the calls of that resource manager |
//! | [`channel`] | GPFIFO, pushbuffer, semaphore and USERD of one channel |
//! | [`residency`], [`distribution`] | times on the engine and off it, and how they are distributed |
//! | [`log`] | the kernels of a run, a line each |
//! | [`statistics`], [`report`] | what is noted and how it is printed |
//! | [`instances`] | several processes, started together |
//! | [`clock`], [`random`] | time and repeatable variation |
//! | [`sys`] | ioctl, mmap, volatile access, fork: `unsafe` is only here and in the calls of [`gpu`] |

pub mod backend;
pub mod channel;
pub mod clock;
pub mod distribution;
pub mod error;
pub mod gpu;
pub mod instances;
pub mod lengths;
pub mod load;
pub mod log;
pub mod plan;
pub mod random;
pub mod report;
pub mod residency;
pub mod rm;
pub mod standin;
pub mod statistics;
pub mod sys;
