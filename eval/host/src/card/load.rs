// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The load generator as the steps start it: kernels on CUDA's library, beside each other, with
//! a library of ours loaded before it.

use super::site::Site;
use loga_card::Outcome;
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time between two looks at a program that runs.
const INTERVAL: Duration = Duration::from_millis(10);
/// What it says when its kernels start.
const ANNOUNCED: &str = "started";
/// Most letters of what a program said that are passed on.
const SAID_MAX: usize = 200;

/// One run of the load generator.
pub(super) struct Load<'a> {
    site: &'a Site,
    name: String,
    arguments: Vec<OsString>,
    variables: Vec<(&'static str, OsString)>,
}

/// One that was started.
pub(super) struct Running {
    child: Child,
    output: PathBuf,
    errors: PathBuf,
}

/// How a run ended.
#[derive(Debug)]
pub(super) struct Finished {
    /// As the kernel has it.
    status: ExitStatus,
    /// What it printed.
    output: String,
    /// The last line of its errors.
    said: String,
}

impl<'a> Load<'a> {
    /// Kernels on CUDA with these words; its files in the scratch folder begin with `name`.
    pub(super) fn new(site: &'a Site, name: impl Into<String>, words: &str) -> Self {
        let gpu = site.gpu.to_string();
        let fixed = ["--backend", "cuda", "--json", "--gpu", &gpu];
        let words = fixed.into_iter().chain(words.split_whitespace());
        Load {
            site,
            name: name.into(),
            arguments: words.map(OsString::from).collect(),
            variables: Vec::new(),
        }
    }

    /// With an option that names a file.
    pub(super) fn with(mut self, option: &str, path: &Path) -> Self {
        self.arguments.extend([option.into(), path.into()]);
        self
    }

    /// With a variable set.
    pub(super) fn set(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// So that [`Running::wait_for_start`] knows when its kernels start.
    pub(super) fn with_announcement(mut self) -> Self {
        self.arguments.push("--announce".into());
        self
    }

    /// Starts it.
    ///
    /// # Errors
    ///
    /// A refusal by the file system, or what it would need.
    pub(super) fn start(&self) -> Result<Running, Outcome> {
        let path = |end: &str| self.site.scratch.join(format!("{}.{end}", self.name));
        let (output, errors) = (path("out"), path("err"));
        let create = |path: &Path| {
            File::create(path).map_err(|error| Outcome::refused("the file system", error))
        };
        let mut command = Command::new(&self.site.throttle);
        command.args(&self.arguments).stdin(Stdio::null());
        command.stdout(create(&output)?).stderr(create(&errors)?);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let child = command
            .spawn()
            .map_err(|error| Outcome::untried(format!("throttle (--throttle PROGRAM): {error}")))?;
        Ok(Running {
            child,
            output,
            errors,
        })
    }

    /// Starts it and waits for its end.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start) and [`Running::finish`].
    pub(super) fn run(&self) -> Result<Finished, Outcome> {
        self.start()?.finish(self.site.left())
    }
}

impl Running {
    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until its kernels start, or it ends.
    ///
    /// # Errors
    ///
    /// A refusal by the limit.
    pub(super) fn wait_for_start(&mut self, limit: Duration) -> Result<(), Outcome> {
        let since = Instant::now();
        loop {
            let said = fs::read_to_string(&self.errors).unwrap_or_default();
            if said.lines().any(|line| line == ANNOUNCED) || self.has_ended() {
                return Ok(());
            }
            if since.elapsed() >= limit {
                return Err(Outcome::refused(
                    "the limit of the step",
                    "throttle did not start",
                ));
            }
            std::thread::sleep(INTERVAL);
        }
    }

    /// Waits until it ends, and kills it after `limit`.
    ///
    /// # Errors
    ///
    /// A refusal by the limit.
    pub(super) fn finish(mut self, limit: Duration) -> Result<Finished, Outcome> {
        let since = Instant::now();
        while !self.has_ended() {
            if since.elapsed() >= limit {
                // Dropping kills it.
                return Err(Outcome::refused(
                    "the limit of the step",
                    "throttle did not end",
                ));
            }
            std::thread::sleep(INTERVAL);
        }
        let status = self.child.wait();
        let status = status.map_err(|error| Outcome::refused("the kernel", error))?;
        let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let said = text(&self.errors);
        let mut lines = said.lines().filter(|line| *line != ANNOUNCED);
        let said = lines.next_back().unwrap_or_default();
        Ok(Finished {
            status,
            output: text(&self.output),
            said: said.chars().take(SAID_MAX).collect(),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to kill and the wait ends at once.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Finished {
    /// How it ended, and the last line of its errors.
    pub(super) fn line(&self) -> String {
        match self.said.is_empty() {
            true => self.status.to_string(),
            false => format!("{}: {}", self.status, self.said),
        }
    }

    /// What it printed, if it ended well.
    ///
    /// # Errors
    ///
    /// A refusal by the load generator with its last line, or by its JSON.
    pub(super) fn report<T: DeserializeOwned>(&self) -> Result<T, Outcome> {
        if !self.status.success() {
            return Err(Outcome::refused("CUDA or the load on it", self.line()));
        }
        let report = serde_json::from_str(&self.output);
        report.map_err(|error| Outcome::refused("the load's report", error))
    }
}

/// Compiles a library that is loaded before a program's own, from files of which the first is compiled
/// and the others are included.
///
/// # Errors
///
/// What it would need, or a refusal by the compiler.
pub(super) fn library(
    site: &Site,
    name: &str,
    sources: &[(&str, &str)],
) -> Result<PathBuf, Outcome> {
    let disk = |error| Outcome::refused("the file system", error);
    let folder = site.scratch.join(name);
    fs::create_dir_all(&folder).map_err(disk)?;
    for (file, text) in sources {
        fs::write(folder.join(file), text).map_err(disk)?;
    }
    let library = folder.join(format!("{name}.so"));
    let mut command = Command::new("cc");
    command
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .arg(&library);
    // PANIC: callers give at least one file.
    command
        .arg(folder.join(sources[0].0))
        .args(["-ldl", "-lpthread"]);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| Outcome::untried(format!("a C compiler (cc: {error})")))?;
    if output.status.success() {
        return Ok(library);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let error = said.lines().find(|line| line.contains("error"));
    let line = error.or(said.lines().next()).unwrap_or_default();
    Err(Outcome::refused("the C compiler", line))
}
