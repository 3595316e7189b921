// SPDX-License-Identifier: GPL-2.0

//! [tool] The file of a recording while it is written.

use super::layout::Line;
use crate::names::{json, Name};
use std::fs::{File, OpenOptions};
use std::io;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
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
                OpenOptions::new().write(true).open(path)
            }
            other => other,
        };
        let file = file.map_err(|error| format!("cannot write {name}: {error}"))?;
        let data = file.metadata();
        let data = data.map_err(|error| format!("cannot write {name}: {error}"))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::layout::{End, Gap};
    use std::fs;

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
