// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The file of a recording while it is written.

use super::layout::Line;
use crate::names::{json, Name};
use nix::unistd::geteuid;
use std::fs;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Closed to other users, whose processes may be named in it.
const MODE: u32 = 0o600;

/// A file that ends with a whole line, whatever happens.
#[derive(Debug)]
pub struct Sink {
    file: File,
    name: Name,
    /// Whether it can be cut.
    regular: bool,
    /// Length of the lines that are written.
    whole: u64,
}

impl Sink {
    /// Makes the file, or takes one that is empty or a device.
    ///
    /// # Errors
    ///
    /// Why it cannot be written, and what would be right.
    pub fn create(path: &Path) -> Result<Self, String> {
        let name = Name::from(path);
        let new = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(MODE)
            .open(path);
        let file = match new {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Before it is opened: a pipe would wait for its reader.
                let there = fs::symlink_metadata(path);
                let there = there.map_err(|error| format!("cannot write {name}: {error}"))?;
                check_owner(&there, &name)?;
                OpenOptions::new().write(true).open(path)
            }
            other => other,
        };
        let file = file.map_err(|error| format!("cannot write {name}: {error}"))?;
        let data = file.metadata();
        let data = data.map_err(|error| format!("cannot write {name}: {error}"))?;
        if data.is_file() {
            check_owner(&data, &name)?;
        }
        if data.is_file() && data.len() > 0 {
            return Err(format!(
                "{name} exists and is not empty: remove it, or name another file"
            ));
        }
        Ok(Self {
            file,
            name,
            regular: data.is_file(),
            whole: 0,
        })
    }

    /// The name of the file, for people.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Writes lines at once.
    ///
    /// # Errors
    ///
    /// They cannot be written, or the file was removed. It then ends with the last line before them.
    pub fn write(&mut self, lines: &[Line]) -> Result<(), String> {
        let mut text = Vec::new();
        for line in lines {
            // Into memory, and all lines can be written.
            let _ = json::write(&mut text, line);
            text.push(b'\n');
        }
        if let Err(error) = self.file.write_all(&text) {
            let cut = self.regular && self.file.set_len(self.whole).is_ok();
            let kept = match cut {
                true => ": it ends with the last line before",
                false => "",
            };
            return Err(format!("cannot write {}: {error}{kept}", self.name));
        }
        // CAST: a length in memory.
        self.whole = self.whole.saturating_add(text.len() as u64);
        match self.file.metadata() {
            Ok(data) if self.regular && data.nlink() == 0 => {
                Err(format!("{} was removed while it was written", self.name))
            }
            _ => Ok(()),
        }
    }
}

/// Whoever may write into the folder may have made a file or a pipe there to read what is recorded. A
/// device is the system's, and what a link leads to is looked at once it is open.
fn check_owner(data: &Metadata, name: &Name) -> Result<(), String> {
    let kind = data.file_type();
    if kind.is_symlink() || kind.is_char_device() || data.uid() == geteuid().as_raw() {
        return Ok(());
    }
    Err(format!(
        "{name} belongs to another user, who could read what is recorded: name a file that does not exist"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::layout::{End, Gap};

    fn gap(why: &str) -> Line {
        Line::Gap(Gap {
            why: why.to_string(),
            ..Gap::default()
        })
    }

    #[test]
    fn full_disk_is_said_with_the_name_of_the_file() {
        let mut sink = Sink::create(Path::new("/dev/full")).expect("a device");
        let said = sink.write(&[gap("x")]).expect_err("full");
        assert!(
            said.starts_with("cannot write /dev/full: No space left"),
            "{said}"
        );
    }

    #[test]
    fn file_that_was_removed_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a\n");
        let mut sink = Sink::create(&path).expect("a file");
        sink.write(&[gap("x")]).expect("written");
        fs::remove_file(&path).expect("removed");
        let said = sink.write(&[gap("x")]).expect_err("gone");
        assert!(
            said.ends_with("a\\n\" was removed while it was written"),
            "{said}"
        );
    }

    #[test]
    fn file_or_pipe_that_another_user_has_put_there_is_refused() {
        if !geteuid().is_root() {
            println!("skipped: only root gives files away");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (file, pipe) = (folder.path().join("file"), folder.path().join("pipe"));
        fs::write(&file, "").expect("a file");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        for path in [&file, &pipe] {
            std::os::unix::fs::chown(path, Some(7), None).expect("given away");
            // A pipe that were opened would wait for its reader.
            let said = Sink::create(path).expect_err("refused");
            assert!(said.contains("belongs to another user"), "{said}");
        }
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        assert!(Sink::create(&link).is_err());
        std::os::unix::fs::chown(&file, Some(0), None).expect("taken back");
        assert!(Sink::create(&file).is_ok());
    }

    #[test]
    fn recording_is_never_overwritten_and_closed_to_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let mut sink = Sink::create(&path).expect("a file");
        // Nothing is in it yet.
        drop(Sink::create(&path).expect("an empty file"));
        sink.write(&[gap("x"), Line::End(End::default())])
            .expect("written");
        let said = Sink::create(&path).expect_err("not empty");
        assert!(said.contains("remove it, or name another file"), "{said}");
        assert_eq!(fs::metadata(&path).expect("a file").mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).expect("a file");
        assert_eq!(text.lines().count(), 2);
        assert!(text.starts_with("{\"gap\":{"), "{text}");
        let said = Sink::create(folder.path()).expect_err("a folder");
        assert!(said.contains("Is a directory"), "{said}");
        let said = Sink::create(&folder.path().join("none/file")).expect_err("no folder");
        assert!(said.contains("No such file"), "{said}");
    }
}
