// SPDX-License-Identifier: GPL-2.0

//! `[double]` A sparse file in place of BAR0, and the tests of its reader.

use super::*;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// A folder with a PCI device whose resource 0 is an ordinary file.
pub(in crate::card) struct FakeCard {
    folder: tempfile::TempDir,
}

/// Where the device of a test is.
pub(in crate::card) const ADDRESS: &str = "0000:01:00.0";

impl FakeCard {
    /// A card with 64 MiB of registers, of which these are not zero.
    pub(in crate::card) fn new(words: &[(u32, u32)]) -> Self {
        let card = FakeCard {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir_all(card.device().join("power")).unwrap();
        let file = File::create(card.device().join("resource0")).unwrap();
        file.set_len(64 << 20).unwrap();
        words
            .iter()
            .for_each(|(offset, word)| card.set(*offset, *word));
        card
    }

    fn device(&self) -> PathBuf {
        self.root().join("sys/bus/pci/devices").join(ADDRESS)
    }

    pub(in crate::card) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(in crate::card) fn set(&self, offset: u32, word: u32) {
        let file = File::options()
            .write(true)
            .open(self.device().join("resource0"));
        file.unwrap()
            .write_all_at(&word.to_le_bytes(), offset.into())
            .unwrap();
    }

    pub(in crate::card) fn open(&self) -> Bar0 {
        Bar0::open(self.root(), ADDRESS).unwrap()
    }
}

#[test]
fn word_is_read_anew_each_time() {
    let card = FakeCard::new(&[(0x2640, 5)]);
    let mut bar0 = card.open();
    assert_eq!(bar0.read(0x2640), Ok(5));
    card.set(0x2640, 6);
    assert_eq!(bar0.read(0x2640), Ok(6));
}

#[test]
fn page_is_given_up_at_the_first_word_that_is_refused() {
    let card = FakeCard::new(&[(0, 0x1640_00a1), (0x2000, 7), (0x2640, 0xbadf_1100)]);
    let mut bar0 = card.open();
    assert_eq!(bar0.read(0x2000), Ok(7));
    let refusal = Refusal::new("the card: read of 0x2640", "0xbadf1100");
    assert_eq!(bar0.read(0x2640), Err(refusal.clone()));
    assert_eq!(bar0.read(0x2000), Err(refusal), "not read again");
    assert_eq!(bar0.read(0x3000), Ok(0), "another page");
}

#[test]
fn card_that_is_gone_is_not_read_again() {
    let card = FakeCard::new(&[(0, 0x1640_00a1), (0x2640, 5)]);
    let mut bar0 = card.open();
    assert_eq!((bar0.read(0), bar0.read(0x2640)), (Ok(0x1640_00a1), Ok(5)));
    card.set(0, 0xffff_ffff);
    card.set(0x2640, 0xffff_ffff);
    let gone = Refusal::new("the card: read of 0x0", "it is gone: all ones");
    assert_eq!(bar0.read(0x2640), Err(gone.clone()));
    card.set(0, 0x1640_00a1);
    assert_eq!(bar0.read(0), Err(gone), "not even if it comes back");
}

#[test]
fn card_that_goes_while_its_first_page_is_given_up_is_gone() {
    let card = FakeCard::new(&[(0, 0x1640_00a1), (4, 0xbadf_1100)]);
    let mut bar0 = card.open();
    assert!(bar0.read(4).is_err());
    assert!(bar0.read(0).is_err());
    card.set(0, 0xffff_ffff);
    card.set(0x2640, 0xffff_ffff);
    let gone = Refusal::new("the card: read of 0x0", "it is gone: all ones");
    assert_eq!(bar0.read(0x2640), Err(gone));
}

#[test]
fn word_of_all_ones_of_a_card_that_is_there_gives_up_its_page() {
    let card = FakeCard::new(&[(0, 0x1640_00a1), (0x2640, 0xffff_ffff)]);
    let mut bar0 = card.open();
    let refusal = Refusal::new("the card: read of 0x2640", "0xffffffff");
    assert_eq!(bar0.read(0x2640), Err(refusal));
    assert_eq!(bar0.read(0), Ok(0x1640_00a1));
}

#[test]
fn word_outside_the_window_is_refused() {
    let mut bar0 = FakeCard::new(&[]).open();
    let refusal = Refusal::new("the kernel: size of resource0", "it ends at 0x4000000");
    assert_eq!(bar0.read(0x0400_0000), Err(refusal));
}

#[test]
fn card_that_sleeps_or_is_missing_is_refused() {
    let card = FakeCard::new(&[]);
    let status = card.device().join("power/runtime_status");
    fs::write(&status, "suspended\n").unwrap();
    let refusal = Refusal::new("the kernel: power of the card", "suspended");
    assert_eq!(Bar0::open(card.root(), ADDRESS).err(), Some(refusal));
    fs::write(&status, "active\n").unwrap();
    assert!(Bar0::open(card.root(), ADDRESS).is_ok());
    let refusal = Bar0::open(card.root(), "0000:02:00.0").err().unwrap();
    assert_eq!(refusal.answer, "No such file or directory");
    assert_eq!(refusal.by, "the kernel: open of resource0");
}
