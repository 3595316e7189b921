// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The kernel module behind the cluster: the model's GPUs, an exporter for each node's, and
//! the agent that writes the table.

use crate::checks::same;
use crate::cluster::{until, Cluster, Job};
use crate::conf::{Behind, NODES};
use loga_support::load::Load;
use loga_support::stage::{Stage, EXACT, LAZY};
use loga_support::truth::Truth;
use std::cell::RefCell;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// GPUs of the model.
pub(crate) const ALL: u32 = 6;
/// The first exporter's port is one more: the machine's ports are all free.
const PORT: usize = 9470;
/// TIMEOUT: figures are means of half a minute.
const SHOWN: Duration = Duration::from_secs(120);

/// A cluster, and what is behind it.
pub(crate) struct Machine {
    /// Slurm.
    pub(crate) cluster: Cluster,
    /// The modules.
    pub(crate) stage: Stage,
    exporters: RefCell<Vec<Child>>,
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// Its node.
    pub(crate) node: String,
    /// Its GPU.
    pub(crate) gpu: u32,
    /// From 0 to 1.
    pub(crate) score: f64,
}

impl Machine {
    /// Loads the modules and starts all programs.
    ///
    /// # Errors
    ///
    /// What does not start.
    pub(crate) fn start(folder: &Path, loga: &Path) -> Result<Self, String> {
        let machine = Self {
            stage: Stage::set(&format!("{LAZY} gpus={ALL}"), &parameters())?,
            cluster: Cluster::start(folder, loga, Behind::Module, false)?,
            exporters: RefCell::default(),
        };
        machine.export()?;
        let exporter = |(node, name)| format!("{name}=http://{}/metrics", address(node));
        let nodes: Vec<String> = NODES.iter().enumerate().map(exporter).collect();
        machine.spawn(&[
            "slurm",
            "table",
            "--every",
            "2",
            "--nodes",
            &nodes.join(","),
        ])?;
        Ok(machine)
    }

    /// Starts `loga` with the table as its file if it takes one.
    fn spawn(&self, arguments: &[&str]) -> Result<Child, String> {
        let mut command = self.cluster.command(&self.cluster.loga);
        command.args(arguments);
        if arguments.contains(&"table") {
            command.arg("--out").arg(self.cluster.folder.join("table"));
        }
        let log = self.cluster.folder.join("log/loga");
        let log = File::options().create(true).append(true).open(log);
        let log = log.map_err(|error| error.to_string())?;
        let also = log.try_clone().map_err(|error| error.to_string())?;
        let spawned = command.stdout(Stdio::from(log)).stderr(also).spawn();
        spawned.map_err(|error| format!("loga: {error}"))
    }

    /// Starts the exporters.
    ///
    /// # Errors
    ///
    /// One does not start.
    pub(crate) fn export(&self) -> Result<(), String> {
        for node in 0..NODES.len() {
            let gpus = Behind::Module.gpus(node).map(|gpu| gpu.to_string());
            let listen = address(node);
            let serve = [
                "agent",
                "serve",
                "--listen",
                &listen,
                "--gpu",
                &gpus.join(","),
            ];
            self.exporters.borrow_mut().push(self.spawn(&serve)?);
        }
        Ok(())
    }

    /// Kills the exporters of nodes from this one on.
    ///
    /// # Errors
    ///
    /// One is not a child of this process.
    pub(crate) fn kill_exporters_from(&self, node: usize) -> Result<(), String> {
        for mut exporter in self.exporters.borrow_mut().drain(node..) {
            let killed = exporter.kill().and_then(|()| exporter.wait());
            killed.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The table as it is now; no rows if there is none.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let table = self.cluster.table().unwrap_or_default();
        table.lines().filter_map(row).collect()
    }

    /// Waits until the table is as wanted.
    ///
    /// # Errors
    ///
    /// It is not in two minutes.
    pub(crate) fn wait_for(&self, what: &str, so: impl Fn(&[Row]) -> bool) -> Result<(), String> {
        let waited = until(SHOWN, || so(&self.rows()));
        waited.map_err(|()| format!("{what}: {:?}", self.rows()))
    }

    /// Waits until all GPUs have a row.
    ///
    /// # Errors
    ///
    /// As [`Self::wait_for`].
    pub(crate) fn wait_for_all(&self) -> Result<(), String> {
        self.wait_for("not all GPUs are in the table", |rows| {
            rows.len() == ALL as usize
        })
    }

    /// Runs a job of a user that asks for one shard and uses its GPU for a while.
    ///
    /// # Errors
    ///
    /// It is refused, does not end, or another program than its own ran there.
    pub(crate) fn run(&self, user: u32) -> Result<Ran, String> {
        let user = format!("--uid={user}");
        let id = self
            .cluster
            .submit(&["--gres=shard:1", &user], &work(WORK))?;
        self.ran(&id)
    }

    /// Waits for the end of a job that did [`work`].
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    pub(crate) fn ran(&self, id: &str) -> Result<Ran, String> {
        let job = self.cluster.ended(id)?;
        same("state", job.state.as_str(), "COMPLETED")?;
        let mut words = job.saw.split_ascii_whitespace();
        let (node, index) = (words.next().unwrap_or_default(), words.next());
        let gpu = gpu(node, index).ok_or_else(|| format!("it has no GPU: {}", job.saw))?;
        let pid = words.last().and_then(|pid| pid.parse().ok());
        let pid = pid.ok_or_else(|| format!("it has no process: {}", job.saw))?;
        let mut ran = Ran {
            node: node.to_string(),
            gpu,
            ns: 0,
            job,
        };
        for other in 0..ALL {
            let usage = Truth::read_of(other)?.usage(pid);
            if other == gpu {
                ran.ns = usage.ran_ns();
            } else if usage.commands != 0 {
                return Err(format!("it ran on GPU {other}, but Slurm gave it {gpu}"));
            }
        }
        if ran.ns == 0 {
            return Err(format!("it did not run on GPU {gpu}"));
        }
        Ok(ran)
    }
}

/// What a job did, by the model's own log.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Its node.
    pub(crate) node: String,
    /// The GPU that Slurm gave it, on which alone it ran.
    pub(crate) gpu: u32,
    /// For this long.
    pub(crate) ns: u64,
    /// What Slurm says.
    pub(crate) job: Job,
}

/// What a job does if nothing else is said.
pub(crate) const WORK: &str = "--kernel-us 2000 --count 500";

/// A job's script: its process, which then uses the GPU that Slurm gave it.
pub(crate) fn work(pattern: &str) -> String {
    // As of `Behind::gpus`.
    let gpu = "$(((${SLURMD_NODENAME#n} - 1) * 2 + SLURM_JOB_GPUS))";
    format!("echo $$; exec throttle --gpu {gpu} --channels 1 --wait block {pattern} > /dev/null")
}

/// The GPU that Slurm counts as this one of a node.
pub(crate) fn gpu(node: &str, index: Option<&str>) -> Option<u32> {
    let node = NODES.iter().position(|name| *name == node)?;
    let gpus = Behind::Module.gpus(node);
    let gpu = gpus.get(index?.parse::<usize>().ok()?)?;
    u32::try_from(*gpu).ok()
}

/// Keeps a GPU busy for about this part of the time, in percent.
///
/// # Errors
///
/// The program does not start.
pub(crate) fn load(gpu: u32, percent: u32) -> Result<Load, String> {
    let kernel_us = 4000;
    let sleep_us = kernel_us * (100 - percent) / percent;
    Load::start(&format!(
        "--gpu {gpu} --kernel-us {kernel_us} --sleep-us {sleep_us} --channels 1 --wait block"
    ))
}

/// Parameters of the module.
pub(crate) fn parameters() -> String {
    format!("{EXACT} enforce=1")
}

fn address(node: usize) -> String {
    format!("127.0.0.1:{}", PORT + 1 + node)
}

fn row(line: &str) -> Option<Row> {
    let mut words = line.split_ascii_whitespace();
    let (node, gpu, score) = (words.next()?, words.next()?, words.next()?);
    Some(Row {
        node: node.to_string(),
        gpu: gpu.parse().ok()?,
        score: score.parse().ok()?,
    })
}
