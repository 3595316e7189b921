// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Why the control device cannot be opened, told by what is around it.

use crate::error::Error;
use loga::uapi;
use nix::sys::stat::{major, minor};
use nix::sys::statvfs::{statvfs, FsFlags};
use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Where the kernel says that the module is loaded, and the number of its device.
const MODULE: &str = "/sys/module/loga";
const NUMBER: &str = "/sys/class/misc/loga/dev";

/// What is at the path of the control device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Missing,
    /// A character device of this number, with these permissions.
    Device((u64, u64), u32),
    /// Something else.
    Other(&'static str),
}

/// What is around the control device.
#[derive(Clone, Debug)]
pub(super) struct Around {
    /// Whether /sys shows the modules of the kernel.
    pub(super) sysfs: bool,
    /// Whether the module is loaded, as far as /sys shows.
    pub(super) loaded: bool,
    /// The number of its device, if /sys shows it.
    pub(super) number: Option<(u64, u64)>,
    pub(super) node: Node,
    /// Whether devices cannot be opened on the file system of the node.
    pub(super) nodev: bool,
}

impl Around {
    /// Looks.
    pub(super) fn inspect() -> Self {
        let path = Path::new(uapi::DEVICE_PATH);
        let flags = statvfs(path).map(|system| system.flags());
        Self {
            sysfs: Path::new("/sys/module").is_dir(),
            loaded: Path::new(MODULE).is_dir(),
            number: fs::read_to_string(NUMBER)
                .ok()
                .and_then(|text| number(&text)),
            node: fs::metadata(path).map_or(Node::Missing, |data| node(&data)),
            nodev: flags.is_ok_and(|flags| flags.contains(FsFlags::ST_NODEV)),
        }
    }

    /// Refuses a file that was opened and is not the control device.
    ///
    /// # Errors
    ///
    /// [`Error::Open`].
    pub(super) fn check(&self, data: &Metadata) -> Result<(), Error> {
        let around = Self {
            node: node(data),
            ..self.clone()
        };
        match &around.node {
            Node::Device(number, _) if self.number.is_none_or(|right| right == *number) => Ok(()),
            _ => Err(Error::Open(around.wrong_node())),
        }
    }

    /// What an error of opening it means.
    pub(super) fn explain(&self, error: io::Error) -> Error {
        let path = uapi::DEVICE_PATH;
        let not_loaded = self.sysfs && !self.loaded;
        Error::Open(match error.raw_os_error() {
            Some(libc::ENOENT) if not_loaded => return Error::NotLoaded,
            Some(libc::ENOENT | libc::ENOTDIR) => self.missing(),
            Some(libc::ENXIO | libc::ENODEV) if not_loaded => return Error::NotLoaded,
            _ if self.is_wrong() => self.wrong_node(),
            Some(libc::EACCES) if self.nodev => format!(
                "{path} is on a file system that is mounted with nodev: mount it anew without, or in a container pass the device in (--device {path})"
            ),
            Some(libc::EPERM) => format!(
                "the devices that this container or service may use do not include {path}: start it with --device {path}, or DeviceAllow={path} rw in its unit"
            ),
            Some(libc::EACCES) => match &self.node {
                Node::Device(_, mode) => format!(
                    "{path} has the mode {:04o}, want 0666 (chmod 0666 {path}); its rights are checked call by call",
                    mode & 0o7777
                ),
                _ => format!("cannot open {path}: {error}: a folder above it may not be entered"),
            },
            _ => format!("cannot open {path}: {error}"),
        })
    }

    /// Whether there is something else than the control device.
    fn is_wrong(&self) -> bool {
        match &self.node {
            Node::Missing => false,
            Node::Device(number, _) => self.number.is_some_and(|right| right != *number),
            Node::Other(_) => true,
        }
    }

    fn missing(&self) -> String {
        let path = uapi::DEVICE_PATH;
        let make = self.make();
        if self.loaded {
            format!("the kernel module loga is loaded, but {path} is missing here: in a container, start it with --device {path}; else {make}")
        } else {
            format!("{path} is missing here, and without /sys it is not known whether the kernel module loga is loaded: in a container, start it with --device {path}; else {make}, or load the module")
        }
    }

    fn wrong_node(&self) -> String {
        let path = uapi::DEVICE_PATH;
        let make = self.make();
        match &self.node {
            Node::Device((major, minor), _) => format!(
                "{path} is not the device of the kernel module loga, but {major}:{minor}: remove it, and {make}"
            ),
            Node::Other(kind) => format!("{path} is {kind}, not a device: remove it, and {make}"),
            Node::Missing => format!("{path} is missing: {make}"),
        }
    }

    /// What makes the node.
    fn make(&self) -> String {
        let path = uapi::DEVICE_PATH;
        match self.number {
            Some((major, minor)) => format!("`mknod -m 0666 {path} c {major} {minor}` as root"),
            None if self.loaded => format!("have udev make {path} (udevadm trigger)"),
            None => "load the module, which makes the device".to_string(),
        }
    }
}

fn node(data: &Metadata) -> Node {
    let kind: FileType = data.file_type();
    if kind.is_char_device() {
        let number = data.rdev();
        return Node::Device((major(number), minor(number)), data.permissions().mode());
    }
    Node::Other(if kind.is_dir() {
        "a folder"
    } else if kind.is_file() {
        "a regular file"
    } else {
        "something else"
    })
}

/// `10:127`.
fn number(text: &str) -> Option<(u64, u64)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Around = Around {
        sysfs: true,
        loaded: true,
        number: Some((10, 127)),
        node: Node::Device((10, 127), 0o20_666),
        nodev: false,
    };

    fn said(around: &Around, errno: i32) -> String {
        around
            .explain(io::Error::from_raw_os_error(errno))
            .to_string()
    }

    /// All that can be around, with all errors that opening gives.
    fn everywhere() -> impl Iterator<Item = (Around, i32)> {
        let truths = [false, true];
        let nodes = [
            Node::Missing,
            Node::Device((10, 127), 0o20_600),
            Node::Device((1, 3), 0o20_666),
            Node::Other("a regular file"),
        ];
        let errnos = [
            libc::ENOENT,
            libc::ENOTDIR,
            libc::EACCES,
            libc::EPERM,
            libc::ENXIO,
            libc::ENODEV,
            libc::EIO,
            libc::EMFILE,
        ];
        let all = truths.into_iter().flat_map(move |sysfs| {
            truths.into_iter().flat_map(move |loaded| {
                truths.into_iter().flat_map(move |nodev| {
                    [None, Some((10, 127))]
                        .into_iter()
                        .map(move |number| Around {
                            sysfs,
                            // Without /sys it is not seen.
                            loaded: loaded && sysfs,
                            number: number.filter(|_| loaded && sysfs),
                            node: Node::Missing,
                            nodev,
                        })
                })
            })
        });
        all.flat_map(move |around| {
            let nodes = nodes.clone();
            nodes.into_iter().flat_map(move |node| {
                let around = Around {
                    node,
                    ..around.clone()
                };
                errnos.into_iter().map(move |errno| (around.clone(), errno))
            })
        })
    }

    #[test]
    fn nobody_is_told_to_load_a_module_that_is_loaded_or_to_be_root() {
        for (around, errno) in everywhere() {
            let said = said(&around, errno);
            assert!(said.contains(uapi::DEVICE_PATH), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
            if around.loaded {
                for word in ["insmod", "modprobe", "not loaded", "load the module"] {
                    assert!(!said.contains(word), "{around:?}, {errno}: {said}");
                }
            }
            assert!(!said.contains("run this as root"), "{said}");
        }
    }

    #[test]
    fn each_cause_is_named_with_what_helps() {
        let container = Around {
            node: Node::Missing,
            ..HOST
        };
        let no_sysfs = Around {
            sysfs: false,
            loaded: false,
            number: None,
            ..container.clone()
        };
        let null = Around {
            node: Node::Device((1, 3), 0o20_666),
            ..HOST
        };
        let file = Around {
            node: Node::Other("a regular file"),
            ..HOST
        };
        let nodev = Around {
            nodev: true,
            ..HOST
        };
        let closed = Around {
            node: Node::Device((10, 127), 0o20_600),
            ..HOST
        };
        let absent = Around {
            loaded: false,
            number: None,
            node: Node::Missing,
            ..HOST
        };
        for (around, errno, words) in [
            (
                &container,
                libc::ENOENT,
                "is loaded, but /dev/loga is missing here",
            ),
            (&container, libc::ENOENT, "mknod -m 0666 /dev/loga c 10 127"),
            (&no_sysfs, libc::ENOENT, "without /sys it is not known"),
            (&null, libc::EACCES, "but 1:3: remove it, and `mknod"),
            (&file, libc::EACCES, "is a regular file, not a device"),
            (&nodev, libc::EACCES, "mounted with nodev"),
            (&closed, libc::EACCES, "has the mode 0600, want 0666"),
            (&HOST, libc::EPERM, "--device /dev/loga"),
            (&absent, libc::ENOENT, "is not loaded"),
            (&absent, libc::ENXIO, "is not loaded"),
        ] {
            let said = said(around, errno);
            assert!(said.contains(words), "{words}: {said}");
        }
    }

    #[test]
    fn what_was_opened_is_the_device_of_the_module() {
        let null = fs::metadata("/dev/null").expect("it is there");
        let said = HOST.check(&null).expect_err("another device").to_string();
        assert!(said.contains("but 1:3"), "{said}");
        let unseen = Around {
            number: None,
            ..HOST
        };
        assert!(unseen.check(&null).is_ok());
        let file = tempfile::NamedTempFile::new().expect("a file");
        let data = file.as_file().metadata().expect("it is there");
        let said = HOST.check(&data).expect_err("a file").to_string();
        assert!(said.contains("is a regular file"), "{said}");
    }

    #[test]
    fn numbers_of_devices_are_read() {
        assert_eq!(number("10:127\n"), Some((10, 127)));
        assert_eq!(number("10"), None);
        assert_eq!(number("a:b"), None);
    }
}
