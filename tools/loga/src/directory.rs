// SPDX-License-Identifier: GPL-2.0

//! [tool] Users and cgroups: names for people, numbers for the kernel.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most cgroups that are searched for their names.
const CGROUPS_MAX: usize = 65_536;

/// The users and cgroups of this system.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// Number and name of each user in the system's own list.
    users: Vec<(u32, String)>,
    /// Where the cgroup v2 hierarchy is mounted.
    cgroups: Option<PathBuf>,
    /// Whether users that are not in the list are searched in network directories.
    network: bool,
}

impl Directory {
    /// What this system says. A list that cannot be read is empty.
    pub fn of_system() -> Self {
        Directory {
            users: users(&fs::read_to_string("/etc/passwd").unwrap_or_default()),
            cgroups: mount(&fs::read_to_string("/proc/self/mounts").unwrap_or_default()),
            network: true,
        }
    }

    /// Name of a user, or its number.
    pub fn user(&self, uid: u32) -> String {
        let known = self.users.iter().find(|(number, _)| *number == uid);
        known.map_or_else(|| uid.to_string(), |(_, name)| name.clone())
    }

    /// Number of the user with this name or number.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub fn user_id(&self, text: &str) -> Result<u32, String> {
        if let Some((uid, _)) = self.users.iter().find(|(_, name)| name == text) {
            return Ok(*uid);
        }
        match text.parse() {
            // The largest one is no user.
            Ok(uid) if uid < u32::MAX => return Ok(uid),
            _ => {}
        }
        let found = self.network.then(|| ask_network(text)).flatten();
        found.ok_or_else(|| {
            format!(
                "there is no user '{text}': want a name that `getent passwd` lists, or a number"
            )
        })
    }

    /// Number of the cgroup with this path or number: the inode of its directory.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub fn cgroup_id(&self, text: &str) -> Result<u64, String> {
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        let root = self.cgroups.as_deref().ok_or(
            "no cgroup v2 hierarchy is mounted: mount one with `mount -t cgroup2 none /sys/fs/cgroup`",
        )?;
        let path = if Path::new(text).starts_with(root) {
            PathBuf::from(text)
        } else {
            root.join(text.trim_start_matches('/'))
        };
        match fs::metadata(&path) {
            Ok(data) if data.is_dir() => Ok(data.ino()),
            _ => Err(format!(
                "there is no cgroup '{text}': want a directory below {}, such as {}",
                root.display(),
                example(root)
            )),
        }
    }

    /// Path of every cgroup, by its number.
    pub fn cgroup_paths(&self) -> HashMap<u64, String> {
        let mut paths = HashMap::new();
        let Some(root) = self.cgroups.as_deref() else {
            return paths;
        };
        let mut ahead = vec![root.to_path_buf()];
        while let Some(folder) = ahead.pop() {
            if paths.len() >= CGROUPS_MAX {
                break;
            }
            // A cgroup that went away meanwhile has no name any more.
            let Ok(data) = fs::symlink_metadata(&folder) else {
                continue;
            };
            let name = folder.strip_prefix(root).unwrap_or(&folder);
            paths.insert(data.ino(), format!("/{}", name.display()));
            ahead.extend(below(&folder));
        }
        paths
    }
}

/// Folders in a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Some cgroup that exists.
fn example(root: &Path) -> String {
    let mut folders = below(root);
    folders.sort();
    let first = folders.first().map(PathBuf::as_path).unwrap_or(root);
    let name = first.strip_prefix(root).unwrap_or(first);
    format!("/{}", name.display())
}

/// The lines of passwd(5).
fn users(text: &str) -> Vec<(u32, String)> {
    text.lines().filter_map(user_line).collect()
}

fn user_line(line: &str) -> Option<(u32, String)> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    let uid = fields.nth(1)?.parse().ok()?;
    (!name.is_empty()).then(|| (uid, name.to_string()))
}

/// Where a cgroup v2 hierarchy is mounted, from /proc/mounts.
fn mount(text: &str) -> Option<PathBuf> {
    text.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let place = fields.nth(1)?;
        (fields.next()? == "cgroup2").then(|| PathBuf::from(place))
    })
}

/// A program that is linked statically cannot ask a network directory itself.
fn ask_network(name: &str) -> Option<u32> {
    let answer = Command::new("getent")
        .args(["passwd", "--", name])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&answer.stdout);
    let line = text.lines().next()?;
    user_line(line).map(|(uid, _)| uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n#x\n";

    fn directory(cgroups: Option<&Path>) -> Directory {
        Directory {
            users: users(PASSWD),
            cgroups: cgroups.map(Path::to_path_buf),
            network: false,
        }
    }

    #[test]
    fn users_have_names_and_numbers() {
        let directory = directory(None);
        assert_eq!(directory.user_id("ann"), Ok(1000));
        assert_eq!(directory.user_id("77"), Ok(77));
        assert_eq!(directory.user(1000), "ann");
        assert_eq!(directory.user(77), "77");
    }

    #[test]
    fn unknown_user_is_refused_with_what_would_be_right() {
        for name in ["bob", "", "-1", "4294967295"] {
            let error = directory(None).user_id(name).expect_err(name);
            assert!(error.contains("getent passwd"), "{error}");
        }
    }

    #[test]
    fn cgroups_have_paths_and_numbers() {
        let root = tempfile::tempdir().expect("a folder");
        let inner = root.path().join("render/night");
        fs::create_dir_all(&inner).expect("a folder");
        let id = fs::metadata(&inner).expect("a folder").ino();
        let directory = directory(Some(root.path()));
        assert_eq!(directory.cgroup_id("/render/night"), Ok(id));
        assert_eq!(directory.cgroup_id("render/night"), Ok(id));
        assert_eq!(directory.cgroup_id(&inner.display().to_string()), Ok(id));
        assert_eq!(directory.cgroup_id("4711"), Ok(4711));
        assert_eq!(directory.cgroup_paths()[&id], "/render/night");
    }

    #[test]
    fn unknown_cgroup_is_refused_with_one_that_exists() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir(root.path().join("render")).expect("a folder");
        let known = directory(Some(root.path()));
        let error = known.cgroup_id("nowhere").expect_err("unknown");
        assert!(error.ends_with("such as /render"), "{error}");
        let error = directory(None).cgroup_id("render").expect_err("no mount");
        assert!(error.contains("no cgroup v2 hierarchy"), "{error}");
    }

    #[test]
    fn mount_point_is_found_among_others() {
        let mounts = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        assert_eq!(mount(mounts), Some(PathBuf::from("/sys/fs/cgroup")));
        assert_eq!(mount("proc /proc proc rw 0 0\n"), None);
    }
}
