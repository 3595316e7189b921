// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Files that are replaced as a whole: a reader sees the old one or the new one.

use std::fs;
use std::fs::{OpenOptions, Permissions};
use std::io;
use std::io::Write;
use std::os::unix::fs::{fchown, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The file that takes the place of another.
#[derive(Clone, Copy, Debug)]
pub struct New<'a> {
    /// What its name ends in until then.
    pub ending: &'a str,
    /// Its mode, whatever the process masks.
    pub mode: u32,
    /// Its user, if that is not the caller.
    pub owner: Option<u32>,
}

/// Replaces a file. The new one is never one that another user made, and no link is followed: what
/// is set is set for the open file, so root may write in a folder of another user.
///
/// # Errors
///
/// Those of the system; then the old file stays.
pub fn replace(path: &Path, new: &New<'_>, text: &[u8]) -> io::Result<()> {
    let mut staged = path.as_os_str().to_os_string();
    staged.push(new.ending);
    let staged = PathBuf::from(staged);
    // Of a run that ended in the middle.
    match fs::remove_file(&staged) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    // Closed to others until it has its user.
    let options = options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(&staged)?;
    let written = file
        .write_all(text)
        .and_then(|()| {
            new.owner
                .map_or(Ok(()), |uid| fchown(&file, Some(uid), None))
        })
        .and_then(|()| file.set_permissions(Permissions::from_mode(new.mode)))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&staged, path));
    if written.is_err() {
        // Nothing of it stays.
        let _ = fs::remove_file(&staged);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{symlink, MetadataExt};

    const NEW: New<'static> = New {
        ending: ".new",
        mode: 0o644,
        owner: None,
    };

    #[test]
    fn link_in_the_place_of_the_new_file_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("file"), folder.path().join("other"));
        fs::write(&other, "of another").expect("a file");
        fs::set_permissions(&other, Permissions::from_mode(0o600)).expect("a mode");
        for name in ["file", "file.new"] {
            symlink(&other, folder.path().join(name)).expect("a link");
            replace(&path, &NEW, b"text").expect("replaced");
        }
        let data = fs::symlink_metadata(&path).expect("a file");
        assert!(data.is_file());
        assert!(data.mode() & 0o777 == 0o644);
        assert_eq!(fs::read_to_string(&path).expect("a file"), "text");
        assert_eq!(fs::read_to_string(&other).expect("a file"), "of another");
        let mode = fs::metadata(&other).expect("a file").mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2);
    }

    #[test]
    fn file_that_cannot_be_replaced_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::create_dir_all(path.join("inside")).expect("a folder");
        assert!(replace(&path, &NEW, b"text").is_err());
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
        let none = folder.path().join("none/file");
        let error = replace(&none, &NEW, b"text").expect_err("no folder");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
