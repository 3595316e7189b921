// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The exporters of a cluster's nodes, read from one place: a score for each GPU, for the
//! schedulers of clusters (`loga slurm`, `loga kube`).
//!
//! | file | contents |
//! |---|---|
//! | [`nodes`] | which nodes there are, and where their exporters' texts are |
//! | [`reading`] | reading them, over HTTP or from files |
//! | [`metrics`] | the text of an exporter |
//! | [`opinion`] | scores of GPUs |
//! | [`heard`] | what was heard of a node, and its age |

pub mod heard;
pub mod metrics;
pub mod nodes;
pub mod opinion;
pub mod reading;
