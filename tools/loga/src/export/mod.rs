// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The figures of the kernel module for monitoring systems, in the formats of OpenMetrics and
//! Prometheus.
//!
//! | file | contents |
//! |---|---|
//! | [`metrics`] | the table of metrics |
//! | [`rows`] | values with labels |
//! | [`reading`] | what the kernel module says, once |
//! | [`gpu`], [`owner`] | rows of a GPU and its processes; of users and cgroups |
//! | [`cgroup`] | containers, jobs and units in the paths of cgroups |
//! | [`board`] | what the driver says about a GPU |
//! | [`text`] | the formats |
//! | [`sampler`] | reads, names and publishes, again and again |
//! | [`server`] | the page that the HTTP server has |

pub mod board;
pub mod cgroup;
pub mod gpu;
pub mod metrics;
pub mod owner;
pub mod reading;
pub mod rows;
pub mod sampler;
pub mod server;
pub mod text;

#[cfg(test)]
mod tests;
