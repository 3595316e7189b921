// SPDX-License-Identifier: GPL-2.0

//! Experiments in the virtual machine, by the script that starts it.

use super::progress::{say, Bar};
use crate::results::{Experiment, Origin};
use indicatif::MultiProgress;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A script that runs experiments in the virtual machine. `--list` names them, one a line;
/// `--inputs NAME` prints a digest of all that one is made from; `NAME FOLDER` leaves its results
/// in a folder.
#[derive(Clone, Debug)]
pub struct Script {
    /// The script.
    pub path: PathBuf,
    /// Whether to run less: passed on as `--quick`.
    pub quick: bool,
}

impl Script {
    /// Names of the experiments.
    ///
    /// # Errors
    ///
    /// The script does not say.
    pub(super) fn names(&self) -> Result<Vec<String>, String> {
        let names = self.ask(&["--list"])?;
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// Runs one, if `kept` has no results of its inputs, and leaves the results in `folder`.
    ///
    /// # Errors
    ///
    /// The script fails, or what it leaves is no result.
    pub(super) fn run(
        &self,
        name: &str,
        folder: &Path,
        kept: impl Fn(&str) -> Vec<Experiment>,
        bars: &MultiProgress,
    ) -> Result<Vec<Experiment>, String> {
        let inputs = self.ask(&["--inputs", name])?.trim().to_owned();
        let kept = kept(&inputs);
        if !kept.is_empty() {
            say(bars, &format!("{name}, virtual machine: kept"));
            return Ok(kept);
        }
        let staged = folder.join(format!("{name}.part"));
        let failed = |error| format!("{}: {error}", staged.display());
        let _ = fs::remove_dir_all(&staged);
        fs::create_dir_all(&staged).map_err(failed)?;
        let bar = Bar::waiting(&format!("{name}, virtual machine"), bars);
        let outcome = self.command(&[name]).arg(&staged).output();
        bar.bar.finish_and_clear();
        done(outcome.map_err(|error| format!("{}: {error}", self.path.display()))?)?;
        let mut results = read(&staged)?;
        for one in &mut results {
            one.inputs.clone_from(&inputs);
            one.write(folder).map_err(|error| error.to_string())?;
        }
        let _ = fs::remove_dir_all(&staged);
        let seconds = bar.begin.elapsed().as_secs_f64();
        say(bars, &format!("{name}, virtual machine: {seconds:.0} s"));
        Ok(results)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        // Whatever ends this program ends the script too, and the virtual machine with it.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--"]).arg(&self.path);
        if self.quick {
            command.arg("--quick");
        }
        command.args(arguments).stdin(Stdio::null());
        command
    }

    fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self.command(arguments).output();
        done(output.map_err(|error| format!("{}: {error}", self.path.display()))?)
    }
}

/// What a script printed; if it failed, the last of what it complained about.
fn done(output: Output) -> Result<String, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let complaint = text(&output.stderr);
    let last = complaint.lines().last().unwrap_or("it does not say why");
    Err(format!("{}: {last}", output.status))
}

/// All results in a folder.
fn read(folder: &Path) -> Result<Vec<Experiment>, String> {
    let files = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let paths = files.flatten().map(|file| file.path());
    let json = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let read = |path: PathBuf| Experiment::read(&path).map_err(|error| error.to_string());
    let results: Vec<_> = json.map(read).collect::<Result<_, _>>()?;
    if results.is_empty() {
        return Err("it left no result".to_owned());
    }
    match results
        .iter()
        .find(|one| one.origin != Origin::VirtualMachine)
    {
        Some(other) => Err(format!("{} is not from the virtual machine", other.file())),
        None => Ok(results),
    }
}
