// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Builds the benchmarks and runs the matrix.

use crate::applications;
use crate::experiments::{matrix, Cell, Experiment, OFF};
use crate::results::{self, RunResult};
use crate::step::Step;
use crate::{Error, RunArguments};
use loga_results::Throttles;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::Child;

/// The wrapper's source, kept in this program.
const ITERATE: &str = include_str!("../iterate.c");
/// Time between two readings of the module's figures.
const WATCH_SECONDS: &str = "0.5";
/// Most iterations of a benchmark.
const ITERATIONS_MAX: u64 = 10_000;

/// Where everything goes.
pub(crate) struct Host<'a> {
    arguments: &'a RunArguments,
    work: PathBuf,
    /// What is loaded: policy and whether decisions are carried out.
    loaded: Option<(String, bool)>,
    /// Iterations of each benchmark.
    counts: BTreeMap<String, u64>,
}

impl<'a> Host<'a> {
    /// Prepares the folder of the results.
    pub(crate) fn new(arguments: &'a RunArguments) -> Result<Self, Error> {
        let work = std::path::absolute(&arguments.work)
            .map_err(|error| Error::file(&arguments.work, error))?;
        if !arguments.dry_run {
            let runs = work.join("runs");
            fs::create_dir_all(&runs).map_err(|error| Error::file(&runs, error))?;
        }
        let counts = fs::read_to_string(work.join("iterations.json")).ok();
        let counts = counts.and_then(|text| serde_json::from_str(&text).ok());
        Ok(Host {
            arguments,
            work,
            loaded: None,
            counts: counts.unwrap_or_default(),
        })
    }

    /// Builds the wrapper and the benchmarks.
    ///
    /// # Errors
    ///
    /// A benchmark that is not in the tree, a build that fails.
    pub(crate) fn build(&self) -> Result<(), Error> {
        println!("build");
        let source = self.work.join("iterate.c");
        if !self.arguments.dry_run {
            fs::write(&source, ITERATE).map_err(|error| Error::file(&source, error))?;
        }
        let wrapper = Step::new("cc").with(["-O2", "-shared", "-fPIC", "-o"]);
        wrapper
            .with([self.wrapper().into_os_string(), source.into_os_string()])
            .with(["-ldl", "-lpthread"])
            .run(self.arguments.dry_run)?;
        for name in &self.arguments.applications {
            let log = self.work.join(format!("build-{name}.log"));
            Step::new("make")
                .at(&self.folder(name)?)
                .logged(&log)
                .run(self.arguments.dry_run)?;
        }
        Ok(())
    }

    fn wrapper(&self) -> PathBuf {
        self.work.join("iterate.so")
    }

    fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        let tree = &self.arguments.rodinia;
        let folder = applications::folder(tree, name).ok_or_else(|| {
            Error::Step(format!(
                "{}: no folder of {name} below cuda/",
                tree.display()
            ))
        })?;
        fs::canonicalize(&folder).map_err(|error| Error::file(&folder, error))
    }

    /// Runs what has no result yet, and returns all results.
    ///
    /// # Errors
    ///
    /// The first step that fails. Results that are there stay.
    pub(crate) fn run(&mut self, experiments: &[Experiment]) -> Result<Vec<RunResult>, Error> {
        let arguments = self.arguments;
        let cells = matrix(
            experiments,
            &arguments.policies,
            &arguments.applications,
            arguments.repetitions,
        );
        let runs = self.work.join("runs");
        let mut done = Vec::new();
        let total = cells.len();
        for (number, (experiment, cell)) in cells.into_iter().enumerate() {
            let name = cell.file();
            let name = name.trim_end_matches(".json");
            if let Some(result) = results::load(&runs, &cell) {
                println!("[{}/{total}] {name}: there already", number + 1);
                done.push(result);
                continue;
            }
            println!("[{}/{total}] {name}", number + 1);
            self.use_module(&cell.policy, experiment.enforce)?;
            if let Some(result) = self.one(&experiment, &cell)? {
                results::store(&runs.join(cell.file()), &result)?;
                done.push(result);
            }
        }
        self.unload()?;
        Ok(done)
    }

    /// Loads the module with this policy, or unloads it.
    fn use_module(&mut self, policy: &str, enforce: bool) -> Result<(), Error> {
        let wanted = (policy != OFF).then(|| (policy.to_owned(), enforce));
        if self.loaded == wanted {
            return Ok(());
        }
        self.unload()?;
        if wanted.is_some() {
            Step::new("insmod")
                .with([&self.arguments.module])
                .with([
                    format!("policy={policy}"),
                    format!("enforce={}", u8::from(enforce)),
                ])
                .with(["poll_ms=1", "ratio=5", "scale=channels"])
                .with(["randomize=0", "accounting=burst"])
                .run(self.arguments.dry_run)?;
        }
        self.loaded = wanted;
        Ok(())
    }

    /// Unloads what this program loaded.
    pub(crate) fn unload(&mut self) -> Result<(), Error> {
        if self.loaded.take().is_some() {
            Step::new("rmmod")
                .with(["loga"])
                .run(self.arguments.dry_run)?;
        }
        Ok(())
    }

    fn one(&mut self, experiment: &Experiment, cell: &Cell) -> Result<Option<RunResult>, Error> {
        let count = self.count(&cell.application)?;
        let mut beside = match experiment.beside {
            Some(throttles) => self.start(throttles)?,
            None => None,
        };
        let watch = self.watch()?;
        let measured = self.application(&cell.application, count);
        let stat = watch.map_or(Ok(Value::Null), |watch| self.watched(watch));
        let throttle = beside.as_mut().map_or(Ok(Value::Null), Beside::end);
        let Some((turnaround_ms, iterations)) = measured? else {
            return Ok(None);
        };
        Ok(Some(RunResult {
            cell: cell.clone(),
            turnaround_ms,
            iterations,
            stat: stat?,
            throttle: throttle?,
        }))
    }

    /// Iterations that make the benchmark run for a few seconds (LoGA paper, 5.1); found by a single
    /// one, once.
    fn count(&mut self, name: &str) -> Result<u64, Error> {
        if let Some(count) = self.counts.get(name) {
            return Ok(*count);
        }
        let wanted_ms = self.arguments.seconds * 1000.0;
        println!("  # one iteration gives the number that takes {wanted_ms} ms");
        let Some((turnaround_ms, _)) = self.application(name, 1)? else {
            return Ok(1);
        };
        // CAST: bounded by clamp().
        let count = ((wanted_ms / turnaround_ms.max(1e-3)).ceil() as u64).clamp(1, ITERATIONS_MAX);
        self.counts.insert(name.to_owned(), count);
        results::store(&self.work.join("iterations.json"), &self.counts)?;
        Ok(count)
    }

    /// Runs a benchmark's script with the wrapper; nothing in a dry run.
    fn application(&self, name: &str, count: u64) -> Result<Option<(f64, u64)>, Error> {
        let folder = self.folder(name)?;
        let script = applications::script(&folder)
            .ok_or_else(|| Error::Step(format!("{}: no script `run`", folder.display())))?;
        let log = self.work.join("iterations.log");
        if !self.arguments.dry_run && log.exists() {
            fs::remove_file(&log).map_err(|error| Error::file(&log, error))?;
        }
        Step::new("bash")
            .with([script])
            .at(&folder)
            .set("LD_PRELOAD", self.wrapper())
            .set("LOGA_ITERATE_UNDER", folder.join(""))
            .set("LOGA_ITERATE_COUNT", count.to_string())
            .set("LOGA_ITERATE_LOG", &log)
            .logged(&self.work.join("application.log"))
            .run(self.arguments.dry_run)?;
        if self.arguments.dry_run {
            return Ok(None);
        }
        let text = fs::read_to_string(&log).unwrap_or_default();
        results::turnaround(&text).map(Some)
    }

    /// Starts throttles and waits until their kernels run.
    fn start(&self, throttles: Throttles) -> Result<Option<Beside>, Error> {
        let step = Step::new(&self.arguments.throttle)
            .with([
                "--backend",
                "cuda",
                "--wait",
                "block",
                "--json",
                "--announce",
            ])
            .with(["--instances".to_owned(), throttles.count.to_string()])
            .with(["--kernel-us".to_owned(), throttles.kernel_us.to_string()])
            .with(["--sleep-us".to_owned(), throttles.sleep_us.to_string()])
            .with(["--seconds", "86400"]);
        let Some(child) = step.start(self.arguments.dry_run)? else {
            return Ok(None);
        };
        let mut beside = Beside(child);
        let mut line = String::new();
        if let Some(errors) = beside.0.stderr.as_mut() {
            let read = BufReader::new(errors).read_line(&mut line);
            if read.is_ok() && line.trim() == "started" {
                return Ok(Some(beside));
            }
        }
        Err(Error::Step(format!("{step}: {}", line.trim())))
    }

    /// Starts to write down what the module says; nothing without it.
    fn watch(&self) -> Result<Option<Beside>, Error> {
        if self.loaded.is_none() {
            return Ok(None);
        }
        let child = Step::new(&self.arguments.loga)
            .with(["stat", "--json", "--watch", WATCH_SECONDS])
            .logged(&self.work.join("stat.log"))
            .start(self.arguments.dry_run)?;
        Ok(child.map(Beside))
    }

    /// Ends that and returns what was written down.
    fn watched(&self, watch: Beside) -> Result<Value, Error> {
        drop(watch);
        let log = self.work.join("stat.log");
        let text = fs::read_to_string(&log).map_err(|error| Error::file(&log, error))?;
        // It was ended somewhere in a line.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        lines(whole, "loga stat")
    }
}

/// JSON objects, one a line.
fn lines(text: &str, program: &str) -> Result<Value, Error> {
    let values: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    values
        .map(Value::Array)
        .map_err(|error| Error::Step(format!("{program} printed no JSON: {error}")))
}

/// A program in the background; ended when dropped.
struct Beside(Child);

impl Beside {
    /// Ends throttles and returns what they report.
    fn end(&mut self) -> Result<Value, Error> {
        if let Ok(pid) = i32::try_from(self.0.id()) {
            println!("  kill -TERM {pid}   # throttle");
            // Throttles that have ended already are found out about below.
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let mut text = String::new();
        if let Some(output) = self.0.stdout.as_mut() {
            let read = output.read_to_string(&mut text);
            read.map_err(|error| Error::Step(format!("throttle: {error}")))?;
        }
        let status = self.0.wait();
        let status = status.map_err(|error| Error::Step(format!("throttle: {error}")))?;
        if !status.success() {
            return Err(Error::Step(format!("throttle ended early: {status}")));
        }
        lines(&text, "throttle")
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Both fail if it has ended, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
