// SPDX-License-Identifier: GPL-2.0

//! A writer for the `newc` archive format, which the kernel unpacks as its
//! first root directory.
//!
//! Everything that could differ between two runs (times, owners, inode numbers
//! of the host) is fixed, so that equal contents give equal bytes: a repeatable
//! boot starts from a repeatable image.
//!
//! Source: Documentation/driver-api/early-userspace/buffer-format.rst.

use std::collections::BTreeMap;

/// An entry of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A directory, mode 755.
    Directory,
    /// A regular file with its permission bits.
    File { mode: u32, data: Vec<u8> },
    /// A symbolic link to the given target.
    Link(String),
    /// A character device node, mode 666.
    CharDevice { major: u32, minor: u32 },
}

/// The archive under construction: names are kept sorted, and a directory is
/// added for every parent that was not named.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    entries: BTreeMap<String, Entry>,
}

const TYPE_DIRECTORY: u32 = 0o040_000;
const TYPE_FILE: u32 = 0o100_000;
const TYPE_LINK: u32 = 0o120_000;
const TYPE_CHAR: u32 = 0o020_000;

impl Archive {
    /// Adds or replaces one entry; `path` has no leading slash.
    pub(crate) fn add(&mut self, path: &str, entry: Entry) {
        for (end, _) in path.match_indices('/') {
            let parent = path[..end].to_owned();
            self.entries.entry(parent).or_insert(Entry::Directory);
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// Adds an executable file.
    pub(crate) fn add_program(&mut self, path: &str, data: Vec<u8>) {
        self.add(path, Entry::File { mode: 0o755, data });
    }

    /// Adds a file that is only read.
    pub(crate) fn add_data(&mut self, path: &str, data: Vec<u8>) {
        self.add(path, Entry::File { mode: 0o644, data });
    }

    /// The finished archive.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (inode, (path, entry)) in (1u32..).zip(&self.entries) {
            let (mode, device, data): (u32, (u32, u32), &[u8]) = match entry {
                Entry::Directory => (TYPE_DIRECTORY | 0o755, (0, 0), &[]),
                Entry::File { mode, data } => (TYPE_FILE | mode, (0, 0), data),
                Entry::Link(target) => (TYPE_LINK | 0o777, (0, 0), target.as_bytes()),
                Entry::CharDevice { major, minor } => (TYPE_CHAR | 0o666, (*major, *minor), &[]),
            };
            push_member(&mut out, inode, path, mode, device, data);
        }
        push_member(&mut out, 0, "TRAILER!!!", 0, (0, 0), &[]);
        out
    }
}

fn push_member(
    out: &mut Vec<u8>,
    inode: u32,
    path: &str,
    mode: u32,
    device: (u32, u32),
    data: &[u8],
) {
    let links = 1 + u32::from(mode & TYPE_DIRECTORY == TYPE_DIRECTORY);
    let fields = [
        inode,
        mode,
        0, // uid
        0, // gid
        links,
        0, // modification time
        u32::try_from(data.len()).unwrap_or(u32::MAX),
        0, // major and minor of the file system it came from
        0,
        device.0,
        device.1,
        u32::try_from(path.len() + 1).unwrap_or(u32::MAX),
        0, // checksum, unused by this variant
    ];
    out.extend_from_slice(b"070701");
    for field in fields {
        out.extend_from_slice(format!("{field:08x}").as_bytes());
    }
    out.extend_from_slice(path.as_bytes());
    out.push(0);
    pad(out);
    out.extend_from_slice(data);
    pad(out);
}

/// Members and their data start at multiples of four bytes.
fn pad(out: &mut Vec<u8>) {
    while out.len() % 4 != 0 {
        out.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_names_missing_parents() {
        let mut archive = Archive::default();
        archive.add_data("a/b/c", b"hello".to_vec());
        let names: Vec<_> = archive.entries.keys().cloned().collect();
        assert_eq!(names, ["a", "a/b", "a/b/c"]);
    }

    #[test]
    fn archive_is_the_same_whatever_the_order() {
        let mut first = Archive::default();
        first.add_data("x", vec![1]);
        first.add_data("a", vec![2]);
        let mut second = Archive::default();
        second.add_data("a", vec![2]);
        second.add_data("x", vec![1]);
        assert_eq!(first.to_bytes(), second.to_bytes());
    }

    #[test]
    fn member_header_follows_the_format() {
        let mut archive = Archive::default();
        archive.add_program("init", b"abc".to_vec());
        let bytes = archive.to_bytes();
        let header = std::str::from_utf8(&bytes[..110]).unwrap_or("");
        assert_eq!(&header[..6], "070701");
        assert_eq!(&header[14..22], "000081ed", "mode of a 755 file");
        assert_eq!(&header[54..62], "00000003", "size");
        assert_eq!(&header[94..102], "00000005", "name with its zero byte");
        assert_eq!(&bytes[110..115], b"init\0");
        assert_eq!(&bytes[116..119], b"abc");
        assert_eq!(bytes.len() % 4, 0);
    }

    #[test]
    fn device_node_carries_its_numbers() {
        let mut archive = Archive::default();
        archive.add(
            "nvidiactl",
            Entry::CharDevice {
                major: 195,
                minor: 255,
            },
        );
        let text = String::from_utf8_lossy(&archive.to_bytes()).into_owned();
        assert_eq!(&text[78..94], "000000c3000000ff");
    }
}
