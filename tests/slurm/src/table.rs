// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Exporters that are files, and tables: made by `loga slurm table`, aged, and broken.

use crate::cluster::Cluster;
use crate::conf::NODES;
use std::fs;
use std::process::Output;

/// The text of an exporter whose GPUs have these scores.
pub(crate) fn exporter(scores: &[f64]) -> String {
    let head = "# TYPE loga_up gauge\nloga_up 1\nloga_snapshot_age_seconds 0.4\n".to_string();
    let gpu = |(gpu, score): (usize, &f64)| {
        // The score is S over 1 + S.
        let slowdown = score / (1.0 - score);
        format!(
            "loga_gpu_enforcing{{gpu=\"{gpu}\"}} 1\nloga_gpu_lost{{gpu=\"{gpu}\"}} 0\n\
             loga_gpu_want_ratio{{gpu=\"{gpu}\",window=\"30s\"}} {score}\n\
             loga_gpu_place_score{{gpu=\"{gpu}\",policy=\"wait\"}} {slowdown}\n"
        )
    };
    let gpus: String = scores.iter().enumerate().map(gpu).collect();
    head + &gpus + "# EOF\n"
}

impl Cluster {
    /// Lets the exporters say these scores, by node and GPU.
    pub(crate) fn scores(&self, scores: [[f64; 2]; 3]) -> Result<(), String> {
        for (node, scores) in NODES.iter().zip(&scores) {
            self.exporter(node, &exporter(scores))?;
        }
        Ok(())
    }

    /// Lets one exporter say something else.
    pub(crate) fn exporter(&self, node: &str, text: &str) -> Result<(), String> {
        let path = self.folder.join("exporters").join(node);
        fs::write(path, text).map_err(|error| error.to_string())
    }

    /// Runs `loga slurm table --once`; `nodes` are those whose exporters are elsewhere.
    pub(crate) fn write_table(&self, nodes: &[String]) -> Result<Output, String> {
        let own = |name: &&&str| {
            !nodes
                .iter()
                .any(|other| other.starts_with(&format!("{name}=")))
        };
        let files = NODES.iter().filter(own);
        let files = files.map(|name| format!("{name}={}/exporters/{name}", self.folder.display()));
        for name in NODES.iter().filter(own) {
            // As if it were written again: one that nobody writes any more says nothing.
            let path = self.folder.join("exporters").join(name);
            let file = fs::File::options().append(true).open(path);
            let now = file.and_then(|file| file.set_modified(std::time::SystemTime::now()));
            now.map_err(|error| error.to_string())?;
        }
        let list: Vec<String> = files.chain(nodes.iter().cloned()).collect();
        let mut command = self.command(&self.loga);
        command.args(["slurm", "table", "--once", "--nodes", &list.join(",")]);
        command.arg("--out").arg(self.folder.join("table"));
        let output = command.output().map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(output)
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// The table.
    pub(crate) fn table(&self) -> Result<String, String> {
        fs::read_to_string(self.folder.join("table")).map_err(|error| error.to_string())
    }

    /// Puts something in its place.
    pub(crate) fn replace_table(&self, content: &[u8]) -> Result<(), String> {
        fs::write(self.folder.join("table"), content).map_err(|error| error.to_string())
    }

    /// Makes the table older than it is.
    pub(crate) fn age_table(&self, seconds: u64) -> Result<(), String> {
        let table = self.table()?;
        let (header, rows) = table.split_once('\n').ok_or("no table")?;
        let (head, time) = header.rsplit_once(' ').ok_or("no header")?;
        let time: u64 = time.parse().map_err(|_| "no time")?;
        let aged = format!("{head} {}\n{rows}", time.saturating_sub(seconds));
        self.replace_table(aged.as_bytes())
    }

    /// Lets job_submit forget its claims.
    pub(crate) fn forget(&self) -> Result<(), String> {
        fs::write(self.folder.join("forget"), "").map_err(|error| error.to_string())
    }
}
