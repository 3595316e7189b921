// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Where a step looks and writes, and what it starts.

use super::refusal::Refusal;
use super::StepArguments;
use crate::results;
use crate::Error;
use loga_card::Outcome;
use serde::Serialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a step is given.
pub(super) struct Site {
    /// Where the host's file system begins.
    pub(super) root: PathBuf,
    /// N of the GPU's node.
    pub(super) gpu: u32,
    /// The load generator.
    pub(super) throttle: PathBuf,
    /// Lengths of holds, in ms.
    pub(super) hold_ms: Vec<u64>,
    /// Where what is kept goes.
    kept: PathBuf,
    /// Where what nobody keeps goes.
    pub(super) scratch: PathBuf,
    end: Instant,
}

impl Site {
    /// The site of the step with these arguments.
    ///
    /// # Errors
    ///
    /// A folder that cannot be named from everywhere.
    pub(super) fn new(arguments: &StepArguments) -> Result<Self, Error> {
        let absolute =
            |path: &Path| std::path::absolute(path).map_err(|error| Error::file(path, error));
        let beside = std::env::current_exe().map(|program| program.with_file_name("throttle"));
        let throttle = match &arguments.place.throttle {
            Some(program) => program.clone(),
            None => match beside {
                Ok(program) if program.is_file() => program,
                _ => PathBuf::from("throttle"),
            },
        };
        Ok(Site {
            root: absolute(&arguments.place.root)?,
            gpu: arguments.place.gpu,
            throttle,
            hold_ms: arguments.place.hold_ms.clone(),
            kept: absolute(&arguments.folder)?,
            scratch: absolute(&arguments.scratch)?,
            end: Instant::now() + Duration::from_secs_f64(arguments.seconds.clamp(0.0, 1e6)),
        })
    }

    /// How much time is left for the step.
    pub(super) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Whether the nodes of the card are there and may be opened; a refusal if not.
    ///
    /// # Errors
    ///
    /// The first node that cannot be opened, with the kernel's answer.
    pub(super) fn nodes(&self) -> Result<(), Outcome> {
        for name in ["nvidiactl".to_owned(), format!("nvidia{}", self.gpu)] {
            let node = Path::new("/dev").join(&name);
            let opened = File::open(self.root.join("dev").join(name));
            opened.map_err(|error| {
                Outcome::refused(format!("the kernel at {}", node.display()), error)
            })?;
        }
        Ok(())
    }

    /// The folder of the nodes.
    pub(super) fn dev(&self) -> PathBuf {
        self.root.join("dev")
    }

    /// The PCI address of the card, as the driver knows it by its node.
    ///
    /// # Errors
    ///
    /// A refusal by the driver, which tells it of no such card.
    pub(super) fn address(&self) -> Result<String, Refusal> {
        let folder = self.root.join("proc/driver/nvidia/gpus");
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let is_ours = |entry: &fs::DirEntry| {
            let text = fs::read_to_string(entry.path().join("information"));
            let text = text.unwrap_or_default();
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            let minor = lines.find(|(name, _)| *name == "Device Minor");
            minor.is_some_and(|(_, value)| value.trim() == self.gpu.to_string())
        };
        let mut names = entries.filter(is_ours).map(|entry| entry.file_name());
        let name = names.next().and_then(|name| name.into_string().ok());
        name.ok_or_else(|| {
            let answer = format!("no card with the minor number {}", self.gpu);
            Refusal::new("the driver: /proc/driver/nvidia/gpus", answer)
        })
    }

    /// What paths of nodes begin with, for libraries that are loaded into other programs.
    pub(super) fn nodes_begin(&self) -> PathBuf {
        self.root.join("dev/nvidia")
    }

    /// Keeps a value as a file of the archive.
    ///
    /// # Errors
    ///
    /// A refusal by the file system.
    pub(super) fn keep<T: Serialize>(&self, name: &str, value: &T) -> Result<(), Outcome> {
        let stored = results::store(&self.kept.join(name), value);
        stored.map_err(|error| Outcome::refused("the file system", error))
    }

    /// Keeps a text as a file of the archive.
    ///
    /// # Errors
    ///
    /// A refusal by the file system.
    pub(super) fn keep_text(&self, name: &str, text: &str) -> Result<(), Outcome> {
        let written = fs::write(self.kept.join(name), text);
        written.map_err(|error| Outcome::refused("the file system", error))
    }

    /// Keeps a file of the scratch folder.
    ///
    /// # Errors
    ///
    /// A refusal by the file system.
    pub(super) fn keep_file(&self, name: &str, from: &Path) -> Result<(), Outcome> {
        let copied = fs::copy(from, self.kept.join(name));
        copied
            .map(drop)
            .map_err(|error| Outcome::refused("the file system", error))
    }

    /// The text of a file of the host.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        Some(text.trim().to_owned())
    }
}
