// SPDX-License-Identifier: GPL-2.0

//! The root file system of the virtual machine: busybox, the first process,
//! the programs and modules under test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Context, Result};

use crate::cpio::{Archive, Entry};

/// Contents of the image besides the fixed parts.
#[derive(Debug, clap::Args)]
pub(crate) struct Contents {
    /// A statically linked busybox
    #[arg(long, env = "LOGA_BUSYBOX", default_value = "/bin/busybox")]
    busybox: PathBuf,
    /// A statically linked program for /bin; may be repeated
    #[arg(long = "program", value_name = "FILE")]
    programs: Vec<PathBuf>,
    /// A kernel module for /lib/loga; may be repeated
    #[arg(long = "module", value_name = "FILE")]
    modules: Vec<PathBuf>,
    /// A folder with files for /tests
    #[arg(long, value_name = "DIR")]
    tests: Option<PathBuf>,
    /// Load a module before the line is run: 'NAME [PARAMETER=VALUE ..]'; may be repeated
    #[arg(long = "load", value_name = "MODULE")]
    load: Vec<String>,
    /// Set an environment variable for the line; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE")]
    environment: Vec<String>,
}

impl Contents {
    /// Builds the image; the guest runs `line`.
    ///
    /// # Errors
    /// A file that cannot be read, or a busybox that does not run here.
    pub(crate) fn build(&self, line: &str) -> Result<Vec<u8>> {
        let mut archive = Archive::default();
        self.add_base(&mut archive)?;
        for path in &self.programs {
            archive.add_program(&format!("bin/{}", file_name(path)?), read(path)?);
        }
        for path in &self.modules {
            archive.add_data(&format!("lib/loga/{}", file_name(path)?), read(path)?);
        }
        if let Some(folder) = &self.tests {
            let listing = fs::read_dir(folder)
                .with_context(|| format!("cannot list {}", folder.display()))?;
            for item in listing {
                let path = item?.path();
                if path.is_file() {
                    archive.add_program(&format!("tests/{}", file_name(&path)?), read(&path)?);
                }
            }
        }
        let mut load = self.load.join("\n");
        if !load.is_empty() {
            load.push('\n');
        }
        archive.add_data("etc/loga/load", load.into_bytes());
        archive.add_data("etc/loga/line", format!("{line}\n").into_bytes());
        archive.add_data(
            "etc/loga/environment",
            self.environment_script()?.into_bytes(),
        );
        Ok(archive.to_bytes())
    }

    fn add_base(&self, archive: &mut Archive) -> Result<()> {
        for folder in [
            "dev", "proc", "sys", "tmp", "run", "out", "tests", "lib/loga", "etc/loga",
        ] {
            archive.add(folder, Entry::Directory);
        }
        // The kernel opens this before any file system is mounted.
        archive.add("dev/console", Entry::CharDevice { major: 5, minor: 1 });
        archive.add_program("init", include_bytes!("init.sh").to_vec());
        archive.add_program("bin/sendfile", include_bytes!("sendfile.sh").to_vec());
        archive.add_program("bin/busybox", read(&self.busybox)?);
        let listing = Command::new(&self.busybox)
            .arg("--list")
            .output()
            .with_context(|| format!("cannot run {}", self.busybox.display()))?;
        let names = String::from_utf8_lossy(&listing.stdout).into_owned();
        if !listing.status.success() || names.is_empty() {
            bail!("{} --list names no programs", self.busybox.display());
        }
        for name in names
            .lines()
            .filter(|name| *name != "busybox" && !name.contains('/'))
        {
            archive.add(&format!("bin/{name}"), Entry::Link("busybox".to_owned()));
        }
        archive.add_data(
            "etc/passwd",
            b"root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000:user:/:/bin/sh\n".to_vec(),
        );
        archive.add_data("etc/group", b"root:x:0:\nuser:x:1000:\n".to_vec());
        Ok(())
    }

    fn environment_script(&self) -> Result<String> {
        let mut script = String::new();
        for setting in &self.environment {
            let Some((name, value)) = setting.split_once('=') else {
                bail!("--env {setting}: wants NAME=VALUE");
            };
            let quoted = value.replace('\'', r"'\''");
            script.push_str(&format!("export {name}='{quoted}'\n"));
        }
        Ok(script)
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn file_name(path: &Path) -> Result<&str> {
    path.file_name()
        .and_then(|name| name.to_str())
        .with_context(|| format!("{} has no usable file name", path.display()))
}
