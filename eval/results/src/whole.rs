// SPDX-License-Identifier: GPL-2.0

//! Files that are there as a whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Name that a file has until all of it is written.
fn part_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    path.with_file_name(name)
}

/// Whether a file could be written here, for those who make its contents at a cost.
///
/// # Errors
///
/// What the file system says, also where a folder has the file's name. Nothing is left behind.
pub fn writable(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let part = part_of(path);
    File::create(&part)?;
    fs::remove_file(&part)
}

/// Writes a file: what was there before stays until all of it is on the disk.
///
/// # Errors
///
/// What the file system says; an earlier file is left as it was.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let part = part_of(path);
    let written = write(&part, contents).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        // What is left of it is of no use; that it may not be there is no matter.
        let _ = fs::remove_file(&part);
    }
    written
}

/// A disk that is full may say so only when it is made to take what it was given.
fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(contents)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_cannot_be_written_leaves_the_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        replace(&path, b"first").unwrap();
        // Its place is taken, so the next one cannot be written.
        fs::create_dir(folder.path().join("result.part")).unwrap();
        assert!(replace(&path, b"second").is_err());
        assert_eq!(fs::read(&path).unwrap(), b"first");
    }

    #[test]
    fn place_that_cannot_be_written_to_is_found_before_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        writable(&folder.path().join("result")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(writable(folder.path()).is_err());
        assert!(writable(&folder.path().join("missing/result")).is_err());
    }
}
