// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Writes and reads the tar.

use crate::manifest::{self, Bounds, FileRecord, Manifest, StepRecord};
use crate::{recording, Error};
use crate::{ARCHIVE_BYTES_MAX, FILES_MAX, FILE_BYTES_MAX, NAME_BYTES_MAX, VERSION};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use tar::{Builder, Entry, EntryType, Header};

/// Bytes of a block of a tar; each file has a header of one, and fills up its last one.
const BLOCK_BYTES: u64 = 512;
/// Room for the manifest, its header and the end of the tar.
const REST_BYTES: u64 = FILE_BYTES_MAX;

/// What is in an archive.
#[derive(Clone, Debug, PartialEq)]
pub struct Archive {
    /// Its manifest.
    pub manifest: Manifest,
    /// Its other files by name.
    files: BTreeMap<String, Vec<u8>>,
}

impl Archive {
    /// One without files.
    pub fn new(program: String, commit: String, minutes: f64) -> Self {
        Archive {
            manifest: Manifest {
                version: VERSION,
                program,
                commit,
                minutes,
                bounds: Bounds::default(),
                steps: Vec::new(),
                files: Vec::new(),
                left_out: Vec::new(),
            },
            files: BTreeMap::new(),
        }
    }

    /// Its files but the manifest, by name.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files
            .iter()
            .map(|(name, contents)| (&**name, &**contents))
    }

    /// Adds a step with its files. A file that the archive may not have is left out, and the
    /// manifest says why.
    pub fn add(&mut self, mut step: StepRecord, files: Vec<(String, Vec<u8>)>) {
        step.outcome = step.outcome.printable();
        for (file, contents) in files {
            let name = format!("{}/{file}", step.name);
            if let Err(error) = self.keep(name, contents) {
                self.manifest.left_out.push(error.to_string());
            }
        }
        self.manifest.steps.push(step);
    }

    fn keep(&mut self, name: String, contents: Vec<u8>) -> Result<(), Error> {
        check_file(&name, &contents)?;
        let in_tar = |length: u64| BLOCK_BYTES.saturating_add(length.next_multiple_of(BLOCK_BYTES));
        let bytes = length(&contents);
        let before: u64 = self.files.values().map(|one| in_tar(length(one))).sum();
        let total = before.saturating_add(in_tar(bytes));
        if total > ARCHIVE_BYTES_MAX.saturating_sub(REST_BYTES) {
            return Err(Error::Contents(name, "the archive is full".to_owned()));
        }
        if self.files.len() >= FILES_MAX {
            return Err(Error::TooManyFiles);
        }
        if self.files.contains_key(&name) {
            return Err(Error::Twice(name));
        }
        let record = FileRecord {
            name: name.clone(),
            bytes,
        };
        self.manifest.files.push(record);
        self.files.insert(name, contents);
        Ok(())
    }

    /// The whole of it as a tar. No time, owner or folder of this machine is in it.
    ///
    /// # Errors
    ///
    /// [`Error::Manifest`] if it cannot be written as JSON.
    pub fn bytes(&self) -> Result<Vec<u8>, Error> {
        let refuse = |error: serde_json::Error| Error::Manifest(error.to_string());
        let manifest = serde_json::to_vec_pretty(&self.manifest).map_err(refuse)?;
        let mut tar = Builder::new(Vec::new());
        append(&mut tar, manifest::NAME, &manifest)?;
        for record in &self.manifest.files {
            // PANIC: each file in the manifest was kept with it.
            append(&mut tar, &record.name, &self.files[&record.name])?;
        }
        tar.into_inner().map_err(Error::File)
    }

    /// Reads and checks the archive in a file.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(Error::File)?;
        // A pipe or a device has no length: what it gives is bounded all the same.
        let mut bytes = Vec::new();
        let most = ARCHIVE_BYTES_MAX.saturating_add(1);
        file.take(most)
            .read_to_end(&mut bytes)
            .map_err(Error::File)?;
        if length(&bytes) > ARCHIVE_BYTES_MAX {
            let whole = path.metadata().map_or(most, |found| found.len().max(most));
            return Err(Error::TooLarge(whole));
        }
        Self::parse(&bytes)
    }

    /// Checks an archive.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if length(bytes) > ARCHIVE_BYTES_MAX {
            return Err(Error::TooLarge(length(bytes)));
        }
        let cut = |error: std::io::Error| Error::Tar(error.to_string());
        let mut tar = tar::Archive::new(bytes);
        let mut manifest = None;
        let mut files = BTreeMap::new();
        for entry in tar.entries().map_err(cut)?.raw(true) {
            let (name, contents) = take(entry.map_err(cut)?)?;
            if manifest.is_none() {
                if name != manifest::NAME {
                    return Err(Error::NoManifest);
                }
                manifest = Some(Manifest::parse(&contents)?);
                continue;
            }
            if files.len() >= FILES_MAX {
                return Err(Error::TooManyFiles);
            }
            check_file(&name, &contents)?;
            if files.insert(name.clone(), contents).is_some() {
                return Err(Error::Twice(name));
            }
        }
        let manifest = manifest.ok_or(Error::NoManifest)?;
        compare(&manifest, &files)?;
        Ok(Archive { manifest, files })
    }
}

/// The files are those that the manifest names, with their lengths.
fn compare(manifest: &Manifest, files: &BTreeMap<String, Vec<u8>>) -> Result<(), Error> {
    let mut named = BTreeMap::new();
    for record in &manifest.files {
        let bytes = files.get(&record.name).map(|contents| length(contents));
        if bytes != Some(record.bytes) {
            return Err(Error::Missing(record.name.clone()));
        }
        if named.insert(&record.name, ()).is_some() {
            return Err(Error::Twice(record.name.clone()));
        }
    }
    match files.keys().find(|name| !named.contains_key(name)) {
        Some(name) => Err(Error::Unnamed(name.clone())),
        None => Ok(()),
    }
}

fn append(tar: &mut Builder<Vec<u8>>, name: &str, contents: &[u8]) -> Result<(), Error> {
    let mut header = Header::new_ustar();
    header.set_size(length(contents));
    header.set_mode(0o644);
    header.set_entry_type(EntryType::Regular);
    tar.append_data(&mut header, name, contents)
        .map_err(Error::File)
}

/// The name and contents of an entry, if it is a plain file of a bounded size.
fn take(entry: Entry<'_, &[u8]>) -> Result<(String, Vec<u8>), Error> {
    let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
    if entry.header().entry_type() != EntryType::Regular {
        return Err(Error::Kind(name));
    }
    check_name(&name)?;
    let declared = entry.header().size();
    let declared = declared.map_err(|error| Error::Tar(error.to_string()))?;
    if declared > FILE_BYTES_MAX {
        return Err(Error::FileTooLarge(name, declared));
    }
    let mut contents = Vec::new();
    let read = entry.take(FILE_BYTES_MAX).read_to_end(&mut contents);
    read.map_err(|error| Error::Tar(error.to_string()))?;
    if length(&contents) != declared {
        return Err(Error::Missing(name));
    }
    Ok((name, contents))
}

/// A name is a file, or a folder and a file, of few letters: it leads nowhere else.
fn check_name(name: &str) -> Result<(), Error> {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && part.chars().all(letter);
    let mut parts = name.split('/');
    let plain = parts.by_ref().take(2).all(part) && parts.next().is_none();
    match plain && name.len() <= NAME_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::Name(name.to_owned())),
    }
}

/// A file has an allowed name and length, and is what the end of its name says.
fn check_file(name: &str, contents: &[u8]) -> Result<(), Error> {
    check_name(name)?;
    if length(contents) > FILE_BYTES_MAX {
        return Err(Error::FileTooLarge(name.to_owned(), length(contents)));
    }
    let wrong = |reason: String| Error::Contents(name.to_owned(), reason);
    let text = std::str::from_utf8(contents).map_err(|_| wrong("not text".to_owned()))?;
    let is_control = |c: char| c.is_control() && c != '\n' && c != '\t';
    if text.contains(is_control) {
        return Err(wrong("has control characters".to_owned()));
    }
    match name.rsplit_once('.').map(|(_, end)| end) {
        Some("json") => serde_json::from_str::<serde::de::IgnoredAny>(text)
            .map(drop)
            .map_err(|error| wrong(error.to_string()))?,
        Some("calls") => recording::lines(text).map(drop).map_err(wrong)?,
        Some("txt") => {}
        _ => return Err(wrong("must end with .json, .calls or .txt".to_owned())),
    }
    match private(text) {
        Some(what) => Err(Error::Private(name.to_owned(), what)),
        None => Ok(()),
    }
}

/// What tells cards apart, as NVIDIA's tools print it: `GPU-` and the eight digits of a UUID.
fn private(text: &str) -> Option<&'static str> {
    let is_uuid = |rest: &str| {
        let rest = rest.as_bytes();
        rest.len() > 8 && rest[..8].iter().all(u8::is_ascii_hexdigit) && rest[8] == b'-'
    };
    ["GPU-", "MIG-"]
        .iter()
        .any(|begin| text.split(begin).skip(1).any(is_uuid))
        .then_some("the UUID of a card")
}

fn length(bytes: &[u8]) -> u64 {
    // CAST: a length in memory fits 64 bits.
    bytes.len() as u64
}
