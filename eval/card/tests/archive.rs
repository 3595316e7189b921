// SPDX-License-Identifier: GPL-2.0

//! Archives of a card: what is written is read again, and what a stranger could send instead is
//! refused with its reason.

use loga_card::{
    Archive, Error, Outcome, StepRecord, ARCHIVE_BYTES_MAX, FILES_MAX, FILE_BYTES_MAX,
};
use std::fs;
use tar::{Builder, EntryType, Header};

const CALL: &str = "close node=nvidiactl fd=8\n";

fn step(name: &str, outcome: Outcome) -> StepRecord {
    StepRecord {
        name: name.to_owned(),
        outcome,
        seconds: 0.25,
        limit_seconds: 10.0,
    }
}

/// An archive with two steps and two files.
fn good() -> Archive {
    let mut archive = Archive::new("loga-host 0.1.0".to_owned(), "0123abc".to_owned(), 8.0);
    let found = "20 channels".to_owned();
    let recording = vec![("one.calls".to_owned(), CALL.as_bytes().to_vec())];
    archive.add(step("record", Outcome::Done { found }), recording);
    let refused = Outcome::refused("the kernel", "Operation not permitted (os error 1)");
    let files = vec![("registers.json".to_owned(), b"{\"words\":[]}".to_vec())];
    archive.add(step("registers", refused), files);
    archive.add(step("slices", Outcome::untried("a card")), Vec::new());
    archive
}

/// A tar with the good archive's manifest and these entries instead of its files.
fn tar_of(manifest: &[u8], entries: &[(EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    let first = [(EntryType::Regular, "manifest.json", manifest)];
    for (kind, name, contents) in first.iter().chain(entries) {
        let mut header = Header::new_ustar();
        header.set_size(contents.len() as u64);
        header.set_entry_type(*kind);
        // Written by hand: the library itself refuses names that lead elsewhere.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        tar.append(&header, *contents).expect("an entry");
    }
    tar.into_inner().expect("a tar")
}

/// The manifest of the good archive, with `from` replaced.
fn manifest(from: &str, to: &str) -> Vec<u8> {
    let text = serde_json::to_string(&good().manifest).expect("JSON");
    assert!(text.contains(from), "{from} is not in {text}");
    text.replace(from, to).into_bytes()
}

fn refusal(bytes: &[u8]) -> Error {
    Archive::parse(bytes).expect_err("a refusal")
}

const FILES: [(EntryType, &str, &[u8]); 2] = [
    (EntryType::Regular, "record/one.calls", CALL.as_bytes()),
    (
        EntryType::Regular,
        "registers/registers.json",
        b"{\"words\":[]}",
    ),
];

#[test]
fn archive_that_was_written_is_read_again() {
    let written = good();
    let bytes = written.bytes().expect("bytes");
    let read = Archive::parse(&bytes).expect("an archive");
    assert_eq!(read, written);
    assert_eq!(read.manifest.steps.len(), 3);
    assert_eq!(read.files().count(), 2);
    // What the tests below change is right as it is.
    assert_eq!(
        Archive::parse(&tar_of(&manifest("", ""), &FILES)).expect("by hand"),
        written
    );
}

#[test]
fn equal_archives_have_equal_bytes() {
    assert_eq!(
        good().bytes().expect("bytes"),
        good().bytes().expect("bytes")
    );
}

#[test]
fn archive_that_is_cut_is_refused_wherever_it_is_cut() {
    let bytes = good().bytes().expect("bytes");
    // Behind the last file are only zeros.
    let last = bytes.iter().rposition(|byte| *byte != 0).expect("a byte") + 1;
    for length in 0..last {
        let error = refusal(&bytes[..length]);
        let cut = matches!(error, Error::Tar(_) | Error::Missing(_) | Error::NoManifest);
        assert!(cut, "{length}: {error}");
    }
}

#[test]
fn archive_beyond_the_bounds_is_refused() {
    let huge = vec![0; ARCHIVE_BYTES_MAX as usize + 1];
    assert!(matches!(refusal(&huge), Error::TooLarge(_)));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("huge.tar");
    let file = fs::File::create(&path).expect("a file");
    file.set_len(1 << 40).expect("a sparse file");
    let error = Archive::read(&path).expect_err("huge");
    assert!(
        matches!(error, Error::TooLarge(bytes) if bytes == 1 << 40),
        "{error}"
    );
    let large = vec![b' '; FILE_BYTES_MAX as usize + 1];
    let entries = [(EntryType::Regular, "record/large.txt", &*large)];
    let error = refusal(&tar_of(&manifest("", ""), &entries));
    assert!(matches!(error, Error::FileTooLarge(_, _)), "{error}");
    let names: Vec<String> = (0..=FILES_MAX).map(|i| format!("record/{i}.txt")).collect();
    let entries: Vec<_> = names
        .iter()
        .map(|name| (EntryType::Regular, &**name, &b""[..]))
        .collect();
    let error = refusal(&tar_of(&manifest("", ""), &entries));
    assert!(matches!(error, Error::TooManyFiles), "{error}");
}

/// A length in a header is believed for nothing.
#[test]
fn file_that_claims_terabytes_is_refused() {
    let mut bytes = tar_of(&manifest("", ""), &FILES[..1]);
    let at = bytes
        .windows(16)
        .rposition(|part| part == b"record/one.calls")
        .expect("its header");
    let mut header = Header::from_byte_slice(&bytes[at..at + 512]).clone();
    header.set_size(8 << 40);
    header.set_cksum();
    bytes[at..at + 512].copy_from_slice(header.as_bytes());
    let error = refusal(&bytes);
    assert!(
        matches!(error, Error::FileTooLarge(_, bytes) if bytes == 8 << 40),
        "{error}"
    );
}

#[test]
fn name_that_leads_elsewhere_is_refused() {
    let long = format!("record/{}.txt", "a".repeat(60));
    for name in [
        "../one.calls",
        "record/../../one.calls",
        "/etc/passwd.txt",
        "record//one.calls",
        "record/folder/one.calls",
        "record/.hidden.txt",
        "record/One.calls",
        "record/a b.txt",
        "record/a\\b.txt",
        "record/",
        &long,
    ] {
        let entries = [(EntryType::Regular, name, CALL.as_bytes())];
        let error = refusal(&tar_of(&manifest("", ""), &entries));
        assert!(
            matches!(&error, Error::Name(found) if found == name),
            "{name}: {error}"
        );
    }
}

#[test]
fn entry_that_is_no_plain_file_is_refused() {
    for kind in [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Directory,
        EntryType::Char,
        EntryType::Fifo,
        EntryType::GNULongName,
        EntryType::GNUSparse,
        EntryType::XHeader,
        EntryType::XGlobalHeader,
    ] {
        let entries = [(kind, "record/one.calls", &b""[..])];
        let error = refusal(&tar_of(&manifest("", ""), &entries));
        assert!(matches!(error, Error::Kind(_)), "{kind:?}: {error}");
    }
}

#[test]
fn manifest_of_a_later_version_is_refused_by_its_number() {
    let later = manifest("\"version\":1", "\"version\":2,\"later\":true");
    let error = refusal(&tar_of(&later, &FILES));
    assert_eq!(
        error.to_string(),
        "manifest.json: version 2, this program reads version 1"
    );
}

#[test]
fn manifest_that_is_none_is_refused() {
    let error = refusal(&tar_of(b"no JSON", &FILES));
    assert!(matches!(error, Error::Manifest(_)), "{error}");
    let error = refusal(&tar_of(b"{}", &FILES));
    assert!(matches!(error, Error::Manifest(_)), "{error}");
    let unknown = manifest("\"version\":1", "\"version\":1,\"other\":1");
    assert!(matches!(
        refusal(&tar_of(&unknown, &FILES)),
        Error::Manifest(_)
    ));
    let deep = format!("{{\"version\":{}1", "[".repeat(100_000));
    assert!(matches!(
        refusal(&tar_of(deep.as_bytes(), &[])),
        Error::Manifest(_)
    ));
    let mut tar = Builder::new(Vec::new());
    let mut header = Header::new_ustar();
    header.set_size(0);
    tar.append_data(&mut header, "record/one.calls", &b""[..])
        .expect("an entry");
    let error = refusal(&tar.into_inner().expect("a tar"));
    assert!(matches!(error, Error::NoManifest), "{error}");
    assert!(matches!(refusal(b""), Error::NoManifest));
    assert!(matches!(
        refusal(b"\x7fELF not a tar at all"),
        Error::Tar(_)
    ));
}

#[test]
fn files_that_are_not_those_of_the_manifest_are_refused() {
    let twice = [FILES[0], FILES[1], FILES[0]];
    assert!(matches!(
        refusal(&tar_of(&manifest("", ""), &twice)),
        Error::Twice(_)
    ));
    let missing = refusal(&tar_of(&manifest("", ""), &FILES[..1]));
    assert!(matches!(missing, Error::Missing(_)), "{missing}");
    let unnamed = [
        FILES[0],
        FILES[1],
        (EntryType::Regular, "slices/one.txt", &b"x"[..]),
    ];
    let error = refusal(&tar_of(&manifest("", ""), &unnamed));
    assert!(matches!(error, Error::Unnamed(_)), "{error}");
    let shorter = [(EntryType::Regular, FILES[0].1, &b""[..]), FILES[1]];
    let error = refusal(&tar_of(&manifest("", ""), &shorter));
    assert!(matches!(error, Error::Missing(_)), "{error}");
}

#[test]
fn file_that_is_not_what_its_name_says_is_refused() {
    for (name, contents) in [
        ("record/one.calls", &b"exec /bin/sh\n"[..]),
        ("record/one.json", b"{"),
        ("record/one.sh", b"true\n"),
        ("record/one", b"true\n"),
        ("record/one.txt", b"\xff\xfe"),
        ("record/one.txt", b"\x1b[2J"),
    ] {
        let entries = [(EntryType::Regular, name, contents)];
        let error = refusal(&tar_of(&manifest("", ""), &entries));
        assert!(
            matches!(&error, Error::Contents(found, _) if found == name),
            "{error}"
        );
    }
}

/// A manifest is printed: its texts do nothing to a terminal.
#[test]
fn manifest_with_control_characters_is_refused() {
    let said = "manifest.json: has control characters";
    for (from, to) in [
        ("20 channels", "\\u001b[2J"),
        ("0123abc", "0123\\nabc"),
        ("\"found\"", "\"\\u009bfound\""),
    ] {
        let error = refusal(&tar_of(&manifest(from, to), &FILES));
        assert_eq!(error.to_string(), said, "{to}");
    }
    // What a program said is written so that it is read again.
    let mut archive = good();
    let coloured = Outcome::refused("cc", "\u{1b}[31merror:\tno file");
    archive.add(step("hold", coloured), Vec::new());
    let read = Archive::parse(&archive.bytes().expect("bytes")).expect("an archive");
    let last = read.manifest.steps.last().expect("a step");
    assert_eq!(last.outcome, Outcome::refused("cc", " [31merror: no file"));
}

/// Nobody's archive is to carry it, so a writer that does is found by the first who checks.
#[test]
fn file_with_the_uuid_of_a_card_is_refused_and_not_written() {
    let text = "GPU-8f6a1c2d-1111-2222-3333-444455556666\n";
    let entries = [(EntryType::Regular, "record/one.txt", text.as_bytes())];
    let error = refusal(&tar_of(&manifest("", ""), &entries));
    assert!(matches!(error, Error::Private(_, _)), "{error}");
    let mut archive = good();
    let files = vec![("one.txt".to_owned(), text.as_bytes().to_vec())];
    archive.add(step("describe", Outcome::untried("nothing")), files);
    assert_eq!(archive.files().count(), 2);
    assert_eq!(
        archive.manifest.left_out,
        ["\"describe/one.txt\": has the UUID of a card"]
    );
    Archive::parse(&archive.bytes().expect("bytes")).expect("an archive");
    let words = "GPU-accounting, the GPU-8f6a1c2dx\n".as_bytes().to_vec();
    archive.add(
        step("hold", Outcome::untried("nothing")),
        vec![("a.txt".to_owned(), words)],
    );
    assert_eq!(archive.files().count(), 3);
}

#[test]
fn files_that_do_not_fit_are_left_out_and_named() {
    let mut archive = good();
    let file = |i: usize| (format!("{i}.txt"), vec![b'x'; FILE_BYTES_MAX as usize]);
    archive.add(
        step("hold", Outcome::untried("nothing")),
        (0..8).map(file).collect(),
    );
    let bytes = archive.bytes().expect("bytes");
    assert!(bytes.len() as u64 <= ARCHIVE_BYTES_MAX, "{}", bytes.len());
    let kept = archive.files().count() - 2;
    assert_eq!((kept, archive.manifest.left_out.len()), (2, 6));
    assert!(archive.manifest.left_out[0].ends_with("the archive is full"));
    Archive::parse(&bytes).expect("an archive");
    let large = (
        "large.txt".to_owned(),
        vec![b'x'; FILE_BYTES_MAX as usize + 1],
    );
    archive.add(step("slices", Outcome::untried("nothing")), vec![large]);
    assert_eq!(archive.manifest.left_out.len(), 7);
}
