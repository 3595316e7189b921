// SPDX-License-Identifier: GPL-2.0

//! [tool] Users and cgroups: names for people, numbers for the kernel.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most cgroups that are searched for their names.
const CGROUPS_MAX: usize = 65_536;
/// Deepest cgroups that are; each level on the way takes an open file.
const DEPTH_MAX: usize = 32;
/// Where users make cgroups.
const OF_USERS: &str = "user.slice";

/// Without a mount of cgroup v2.
const NO_MOUNT: &str =
    "no cgroup v2 hierarchy is mounted: mount one with `mount -t cgroup2 none /sys/fs/cgroup`";

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
            users: users(passwd),
            cgroups: cgroups.map(Path::to_path_buf),
            network: false,
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
        let root = self.cgroups.as_deref().ok_or(NO_MOUNT)?;
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

    /// Number of the cgroup of a unit of the system's systemd: below slices, where users make none.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub fn unit_id(&self, unit: &str) -> Result<u64, String> {
        let mut ahead: Vec<PathBuf> = self.cgroups.iter().cloned().collect();
        // TIMEOUT: more slices than a system has.
        for _ in 0..CGROUPS_MAX {
            let Some(folder) = ahead.pop() else {
                break;
            };
            match fs::symlink_metadata(folder.join(unit)) {
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

    /// Path of every cgroup, by its number.
    pub fn cgroup_paths(&self) -> HashMap<u64, String> {
        let root = self.cgroups.as_deref();
        root.map_or_else(HashMap::new, |root| search(root, CGROUPS_MAX, None).paths)
    }

    /// Paths of those of these cgroups that are found, by their numbers.
    pub fn cgroup_paths_of(&self, wanted: &BTreeSet<u64>) -> Found {
        let root = self.cgroups.as_deref();
        root.map_or_else(Found::default, |root| {
            search(root, CGROUPS_MAX, Some(wanted))
        })
    }
}

/// What a search for cgroups found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Paths by number.
    pub paths: HashMap<u64, String>,
    /// Whether it ended early, since there are too many cgroups: the others may be there.
    pub cut: bool,
}

/// Searches `most` cgroups at most. Users may make cgroups in `user.slice`, as many and with names as
/// long as they like: it comes last, and only the way to one folder is kept at a time.
fn search(root: &Path, most: usize, wanted: Option<&BTreeSet<u64>>) -> Found {
    let mut search = Search {
        root,
        wanted,
        left: most,
        paths: HashMap::new(),
    };
    let mut first = below(root);
    first.sort_by_key(|path| path.ends_with(OF_USERS));
    search.note(root);
    for top in first {
        search.note(&top);
        search.below(&top);
    }
    Found {
        cut: search.left == 0 && !search.has_all(),
        paths: search.paths,
    }
}

/// A search that is under way.
struct Search<'a> {
    root: &'a Path,
    /// Numbers of cgroups, or nothing for all.
    wanted: Option<&'a BTreeSet<u64>>,
    /// Cgroups that may still be looked at.
    left: usize,
    paths: HashMap<u64, String>,
}

impl Search<'_> {
    fn has_all(&self) -> bool {
        self.wanted
            .is_some_and(|wanted| self.paths.len() >= wanted.len())
    }

    fn is_over(&self) -> bool {
        self.left == 0 || self.has_all()
    }

    /// Looks at a cgroup.
    fn note(&mut self, path: &Path) {
        if self.is_over() {
            return;
        }
        self.left = self.left.saturating_sub(1);
        // One that went away meanwhile has no name any more.
        let Ok(id) = fs::symlink_metadata(path).map(|data| data.ino()) else {
            return;
        };
        if self.wanted.is_none_or(|wanted| wanted.contains(&id)) {
            let name = path.strip_prefix(self.root).unwrap_or(path);
            self.paths.insert(id, format!("/{}", name.display()));
        }
    }

    /// Looks at what is below a cgroup.
    fn below(&mut self, top: &Path) {
        let mut way: Vec<fs::ReadDir> = fs::read_dir(top).into_iter().collect();
        while let Some(folder) = way.last_mut().filter(|_| !self.is_over()) {
            match folder.next() {
                None => drop(way.pop()),
                Some(Ok(entry)) if is_folder(&entry) => {
                    self.note(&entry.path());
                    if way.len() < DEPTH_MAX {
                        way.extend(fs::read_dir(entry.path()));
                    }
                }
                Some(_) => {}
            }
        }
    }
}

fn is_folder(entry: &fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_dir())
}

/// Folders in a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(is_folder)
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

/// The directory of the cgroup of a process, by its /proc/PID/mounts and /proc/PID/cgroup.
///
/// # Errors
///
/// What would be right.
pub fn own_cgroup(mounts: &str, cgroup: &str) -> Result<PathBuf, String> {
    let root = mount(mounts).ok_or(NO_MOUNT)?;
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::/"));
    match path {
        // Outside of the namespace of the process.
        Some(path) if !path.starts_with("..") => Ok(root.join(path)),
        _ => Err(format!(
            "this process is in no cgroup below {}: want one of cgroup v2",
            root.display()
        )),
    }
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
        Directory::of(PASSWD, cgroups)
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
    fn cgroups_of_users_hide_no_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let make = |path: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(&path).expect("a folder");
            fs::metadata(path).expect("a folder").ino()
        };
        let mut wanted = BTreeSet::new();
        for at in 0..20 {
            make(&format!("user.slice/user-7.slice/{at}/a/b"));
            wanted.insert(make(&format!("system.slice/{at}.service")));
            wanted.insert(make(&format!("z.slice/{at}")));
        }
        // The root, three slices, and the services; those of the user are three times as many.
        let found = search(folder.path(), 1 + 3 + 40, Some(&wanted));
        assert_eq!(found.paths.len(), wanted.len());
        assert!(
            !found.cut
                && found
                    .paths
                    .values()
                    .any(|path| path == "/system.slice/7.service")
        );
        wanted.insert(u64::MAX);
        assert!(search(folder.path(), 50, Some(&wanted)).cut);
        let whole = search(folder.path(), 1000, Some(&wanted));
        assert!(!whole.cut && whole.paths.len() == wanted.len() - 1);
        assert_eq!(
            search(folder.path(), 1000, None).paths.len(),
            1 + 3 + 40 + 61
        );
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

    #[test]
    fn cgroup_of_a_process_is_below_the_mount_point() {
        let mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        let of = |text| own_cgroup(mounts, text);
        let found = of("1:net_cls:/\n0::/user.slice/a b\n");
        assert_eq!(found, Ok("/sys/fs/cgroup/user.slice/a b".into()));
        assert_eq!(of("0::/\n"), Ok("/sys/fs/cgroup/".into()));
        assert!(of("0::/../other\n").is_err());
        assert!(of("1:cpu:/\n").is_err());
        assert!(own_cgroup("", "0::/\n").is_err());
    }
}
