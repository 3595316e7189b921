// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A job, and the node on which a script of it runs.

use crate::cli;

/// The job, by the environment that slurmd gives to its scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Job {
    pub(super) id: u32,
    pub(super) uid: u32,
    pub(super) node: String,
}

impl Job {
    /// Nothing for a job without GPUs.
    ///
    /// # Errors
    ///
    /// The variable that is missing or senseless.
    pub(in super::super) fn of(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, String> {
        if variable("SLURM_JOB_GPUS").is_none_or(|gpus| gpus.is_empty()) {
            return Ok(None);
        }
        let number = |name: &str| {
            let number = variable(name).and_then(|text| text.parse::<u32>().ok());
            number.ok_or_else(|| format!("{name} is missing or no number"))
        };
        let node = variable("SLURMD_NODENAME").unwrap_or_default();
        let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if node.is_empty() || node.starts_with('.') || !node.chars().all(legal) {
            return Err("SLURMD_NODENAME is missing or no name".to_string());
        }
        Ok(Some(Self {
            id: number("SLURM_JOB_ID")?,
            uid: number("SLURM_JOB_UID")?,
            node,
        }))
    }
}

/// Something that answers what programs are asked.
pub(super) trait Programs: Fn(&str, &[&str]) -> Result<String, String> {}
impl<F: Fn(&str, &[&str]) -> Result<String, String>> Programs for F {}

/// A job on this node.
pub(super) struct NodeJob<'a> {
    pub(super) arguments: &'a cli::SlurmJob,
    pub(super) job: Job,
    /// Whether it has no other node.
    pub(super) alone: bool,
}
