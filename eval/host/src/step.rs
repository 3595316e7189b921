// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Commands: printed before they run, or only printed.

use crate::Error;
use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A command with its folder and variables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    program: OsString,
    arguments: Vec<OsString>,
    folder: Option<PathBuf>,
    variables: Vec<(&'static str, OsString)>,
    log: Option<PathBuf>,
}

impl Step {
    /// A command without arguments.
    pub(crate) fn new(program: impl Into<OsString>) -> Self {
        Step {
            program: program.into(),
            ..Step::default()
        }
    }

    /// With these arguments too.
    pub(crate) fn with<T: Into<OsString>>(
        mut self,
        arguments: impl IntoIterator<Item = T>,
    ) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// In this folder.
    pub(crate) fn at(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// With this variable set.
    pub(crate) fn set(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// With its output in this file.
    pub(crate) fn logged(mut self, log: &Path) -> Self {
        self.log = Some(log.to_owned());
        self
    }

    fn command(&self) -> Result<Command, Error> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        if let Some(log) = &self.log {
            let file = File::create(log).map_err(|error| Error::file(log, error))?;
            let second = file.try_clone().map_err(|error| Error::file(log, error))?;
            command.stdout(file).stderr(second);
        }
        Ok(command)
    }

    /// Prints it, and runs it unless this is a dry run.
    pub(crate) fn run(&self, dry: bool) -> Result<(), Error> {
        println!("{self}");
        if dry {
            return Ok(());
        }
        let status = self.command()?.status();
        let status = status.map_err(|error| Error::Step(format!("{self}: {error}")))?;
        if status.success() {
            return Ok(());
        }
        let log = self.log.as_ref().map_or(String::new(), |log| {
            format!("; its output is in {}", log.display())
        });
        Err(Error::Step(format!("{self}: {status}{log}")))
    }

    /// Prints it, and starts it with its output in pipes or its file unless this is a dry run.
    pub(crate) fn start(&self, dry: bool) -> Result<Option<Child>, Error> {
        println!("{self} &");
        if dry {
            return Ok(None);
        }
        let mut command = self.command()?;
        if self.log.is_none() {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let child = command.spawn();
        child
            .map(Some)
            .map_err(|error| Error::Step(format!("{self}: {error}")))
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "  ")?;
        if let Some(folder) = &self.folder {
            write!(f, "cd {} && ", folder.display())?;
        }
        for (name, value) in &self.variables {
            write!(f, "{name}={} ", value.to_string_lossy())?;
        }
        write!(f, "{}", self.program.to_string_lossy())?;
        for argument in &self.arguments {
            write!(f, " {}", argument.to_string_lossy())?;
        }
        match &self.log {
            Some(log) => write!(f, " > {} 2>&1", log.display()),
            None => Ok(()),
        }
    }
}
