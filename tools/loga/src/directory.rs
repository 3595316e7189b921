// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Users and cgroups: names for people, numbers for the kernel.

mod search;
mod users;

pub use search::Found;

use self::search::{below, search, shown, CGROUPS_MAX};
use self::users::Service;
use crate::names::Name;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Without a mount of cgroup v2.
const NO_MOUNT: &str =
    "no cgroup v2 hierarchy is mounted: mount one with `mount -t cgroup2 none /sys/fs/cgroup`";

/// The users and cgroups of this system.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// Number and name of each user in the system's own list.
    users: Vec<(u32, Name)>,
    /// Where the cgroup v2 hierarchy is mounted.
    cgroups: Option<PathBuf>,
    /// Who is asked for users that are not in the list.
    service: Option<Service>,
}

impl Directory {
    /// What this system says. A list that cannot be read is empty.
    pub fn of_system() -> Self {
        Directory {
            users: users::lines(&fs::read("/etc/passwd").unwrap_or_default()),
            cgroups: mount(&fs::read("/proc/self/mounts").unwrap_or_default()),
            service: Some(Service::of(Path::new("getent"))),
        }
    }

    /// As the system is now. Users that the name service has named stay: it may be away for a while.
    #[must_use]
    pub fn again(self) -> Self {
        let now = Self::of_system();
        Directory {
            service: self.service.map(Service::again).or(now.service),
            ..now
        }
    }

    /// The cgroups below a folder, and no users.
    pub fn below(cgroups: &Path) -> Self {
        Directory {
            cgroups: Some(cgroups.to_path_buf()),
            ..Self::default()
        }
    }

    /// Users of passwd(5), and cgroups below a folder.
    #[cfg(test)]
    pub(crate) fn of(passwd: &str, cgroups: Option<&Path>) -> Self {
        Directory {
            users: users::lines(passwd.as_bytes()),
            cgroups: cgroups.map(Path::to_path_buf),
            service: None,
        }
    }

    /// One user, also of a name that passwd(5) cannot have, and cgroups below a folder.
    #[cfg(test)]
    pub(crate) fn of_user(uid: u32, name: &Name, cgroups: &Path) -> Self {
        Directory {
            users: vec![(uid, name.clone())],
            ..Self::below(cgroups)
        }
    }

    /// The same, with a program that answers for the name service in this time, or does not.
    #[cfg(test)]
    fn asking(self, program: &Path, patience: std::time::Duration) -> Self {
        let service = Some(Service::of(program).within(patience));
        Directory { service, ..self }
    }

    /// The same, whose name service is waited for this long.
    #[cfg(test)]
    fn within(self, patience: std::time::Duration) -> Self {
        let service = self.service.map(|service| service.within(patience));
        Directory { service, ..self }
    }

    /// Name of a user, or its number.
    pub fn user(&self, uid: u32) -> Name {
        let known = self.users.iter().find(|(number, _)| *number == uid);
        let known = known.map(|(_, name)| name.clone());
        let asked = || self.service.as_ref()?.name(uid);
        known
            .or_else(asked)
            .unwrap_or_else(|| uid.to_string().into())
    }

    /// Whether the name service has answered each time in time: else there may be more names.
    pub fn answers(&self) -> bool {
        self.service.as_ref().is_none_or(Service::answers)
    }

    /// Number of the user with this name or number.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub fn user_id(&self, user: &Name) -> Result<u32, String> {
        if let Some((uid, _)) = self.users.iter().find(|(_, name)| name == user) {
            return Ok(*uid);
        }
        match number(user) {
            // The largest one is no user.
            Some(uid) if uid < u32::MAX => return Ok(uid),
            _ => {}
        }
        let found = self.service.as_ref().and_then(|one| one.number(user));
        found.ok_or_else(|| {
            format!(
                "there is no user '{user}': want a name that `getent passwd` lists, or a number"
            )
        })
    }

    /// Number and name of the user that an argument names: as it is, or in quotes.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub fn named_user(&self, user: &Name) -> Result<(u32, Name), String> {
        named(user, |user| self.user_id(user))
    }

    /// Number of the cgroup with this path or number: the inode of its directory.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub fn cgroup_id(&self, cgroup: &Name) -> Result<u64, String> {
        if let Some(id) = number(cgroup) {
            return Ok(id);
        }
        let root = self.cgroups.as_deref().ok_or(NO_MOUNT)?;
        let given = Path::new(cgroup.as_os_str());
        let path = if given.starts_with(root) {
            given.to_path_buf()
        } else {
            root.join(given.strip_prefix("/").unwrap_or(given))
        };
        match fs::metadata(&path) {
            Ok(data) if data.is_dir() => Ok(data.ino()),
            _ => Err(format!(
                "there is no cgroup '{cgroup}': want a directory below {}, such as {}",
                Name::from(root),
                example(root)
            )),
        }
    }

    /// Number and name of the cgroup that an argument names: as it is, or in quotes.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub fn named_cgroup(&self, cgroup: &Name) -> Result<(u64, Name), String> {
        named(cgroup, |cgroup| self.cgroup_id(cgroup))
    }

    /// Number of the cgroup of a unit of the system's systemd: below slices, where users make none.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub fn unit_id(&self, unit: &Name) -> Result<u64, String> {
        let mut ahead: Vec<PathBuf> = self.cgroups.iter().cloned().collect();
        // TIMEOUT: more slices than a system has.
        for _ in 0..CGROUPS_MAX {
            let Some(folder) = ahead.pop() else {
                break;
            };
            match fs::symlink_metadata(folder.join(unit.as_os_str())) {
                Ok(data) if data.is_dir() => return Ok(data.ino()),
                _ => {}
            }
            let slices = below(&folder).into_iter();
            ahead.extend(slices.filter(|path| path.extension().is_some_and(|end| end == "slice")));
        }
        Err(format!(
            "there is no cgroup of the unit '{unit}': want one that `systemctl list-units` shows as running"
        ))
    }

    /// Numbers and paths of the cgroups that fit a path with `*` in it, in the order of their
    /// paths, the first of them. A `*` stands for any bytes but a slash.
    pub fn cgroups_like(&self, pattern: &Name, most: usize) -> Vec<(u64, Name)> {
        let Some(root) = self.cgroups.as_deref() else {
            return Vec::new();
        };
        let mut fit = vec![root.to_path_buf()];
        let parts = pattern.as_bytes().split(|byte| *byte == b'/');
        for part in parts.filter(|part| !part.is_empty()) {
            let inside = fit.iter().flat_map(|folder| match part.contains(&b'*') {
                true => {
                    let mut folders = below(folder);
                    folders.retain(|path| {
                        path.file_name()
                            .is_some_and(|name| fits(part, name.as_bytes()))
                    });
                    folders.sort();
                    folders
                }
                false => vec![folder.join(OsStr::from_bytes(part))],
            });
            fit = inside.take(CGROUPS_MAX).collect();
        }
        let numbered = fit.iter().filter_map(|path| {
            let data = fs::symlink_metadata(path)
                .ok()
                .filter(fs::Metadata::is_dir)?;
            Some((data.ino(), shown(root, path)))
        });
        numbered.take(most).collect()
    }

    /// Path of every cgroup, by its number.
    pub fn cgroup_paths(&self) -> HashMap<u64, Name> {
        let root = self.cgroups.as_deref();
        root.map_or_else(HashMap::new, |root| search(root, CGROUPS_MAX, None).paths)
    }

    /// Paths of those of these cgroups that are found, by their numbers. Without a mount nothing was
    /// searched.
    pub fn cgroup_paths_of(&self, wanted: &BTreeSet<u64>) -> Found {
        let root = self.cgroups.as_deref();
        root.map_or_else(Found::default, |root| {
            search(root, CGROUPS_MAX, Some(wanted))
        })
    }
}

/// Whether a name is what a pattern says: a `*` stands for any bytes.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let mut parts = pattern.split(|byte| *byte == b'*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        // No `*`: all of it.
        return rest.is_empty();
    };
    let Some(middle) = rest.strip_suffix(last) else {
        return false;
    };
    rest = middle;
    for part in parts.filter(|part| !part.is_empty()) {
        // The first that fits leaves most for those after it.
        let Some(at) = rest.windows(part.len()).position(|bytes| bytes == part) else {
            return false;
        };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    true
}

/// A whole number in digits.
fn number<T: std::str::FromStr>(name: &Name) -> Option<T> {
    std::str::from_utf8(name.as_bytes()).ok()?.parse().ok()
}

/// What an argument names; one that is not found may be in quotes.
fn named<T>(name: &Name, find: impl Fn(&Name) -> Result<T, String>) -> Result<(T, Name), String> {
    let why = match find(name) {
        Ok(id) => return Ok((id, name.clone())),
        Err(why) => why,
    };
    match name.unquoted() {
        Some(name) => Ok((find(&name)?, name)),
        None => Err(why),
    }
}

/// Some cgroup that exists.
fn example(root: &Path) -> Name {
    let mut folders = below(root);
    folders.sort();
    shown(root, folders.first().map_or(root, PathBuf::as_path))
}

/// Where a cgroup v2 hierarchy is mounted, from /proc/mounts.
fn mount(text: &[u8]) -> Option<PathBuf> {
    text.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let place = fields.nth(1)?;
        let place = || PathBuf::from(OsStr::from_bytes(&octal(place)));
        (fields.next()? == b"cgroup2").then(place)
    })
}

/// Where this system has its cgroups of version 2.
///
/// # Errors
///
/// What would be right.
pub fn cgroups_of_system() -> Result<PathBuf, String> {
    let mounts = fs::read("/proc/self/mounts").unwrap_or_default();
    mount(&mounts).ok_or_else(|| NO_MOUNT.to_string())
}

/// A field of /proc/mounts: a backslash and three octal digits are a byte, such as a space.
fn octal(field: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), field);
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

/// The directory of the cgroup of a process, by its /proc/PID/mounts and /proc/PID/cgroup.
///
/// # Errors
///
/// What would be right.
pub fn own_cgroup(mounts: &[u8], cgroup: &[u8]) -> Result<PathBuf, String> {
    let root = mount(mounts).ok_or(NO_MOUNT)?;
    let mut lines = cgroup.split(|byte| *byte == b'\n');
    match lines.find_map(|line| line.strip_prefix(b"0::/")) {
        // Outside of the namespace of the process.
        Some(path) if !path.starts_with(b"..") => Ok(root.join(OsStr::from_bytes(path))),
        _ => Err(format!(
            "this process is in no cgroup below {}: want one of cgroup v2",
            Name::from(root.as_path())
        )),
    }
}

#[cfg(test)]
mod tests;
