// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Reads words of BAR0 from user space, page by page.
//!
//! A page is mapped when a word of it is first wanted, and given up at the first word that the card
//! refuses. If PMC_BOOT_0 reads all ones too, the card is gone, and nothing is read any more.

use super::decode::is_refused;
use crate::card::refusal::Refusal;
use crate::card::window::{Mapped, Window};
use loga::regs::ALL_ONES;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

/// What is mapped at once.
const PAGE: u32 = 4096;
/// Where PMC_BOOT_0 is.
const BOOT_0: u32 = 0;

/// Who answers reads of registers.
pub(crate) trait Registers {
    /// The word at this byte offset.
    ///
    /// # Errors
    ///
    /// Whoever refused it.
    fn read(&mut self, offset: u32) -> Result<u32, Refusal>;
}

/// The register window of a card.
pub(crate) struct Bar0 {
    file: File,
    size: u64,
    pages: BTreeMap<u32, Mapped>,
    /// Pages that are not read any more.
    given_up: BTreeMap<u32, Refusal>,
    gone: Option<Refusal>,
}

impl Bar0 {
    /// Opens resource 0 of the PCI device `address` below the folder `root`.
    ///
    /// # Errors
    ///
    /// The kernel does not open it, or the card sleeps: then its registers do not answer.
    pub(crate) fn open(root: &Path, address: &str) -> Result<Self, Refusal> {
        let device = root.join("sys/bus/pci/devices").join(address);
        let power = fs::read_to_string(device.join("power/runtime_status"));
        if power.is_ok_and(|power| power.trim() == "suspended") {
            return Err(Refusal::new("the kernel: power of the card", "suspended"));
        }
        let file = File::open(device.join("resource0"));
        let file = file.map_err(|error| Refusal::kernel("open of resource0", &error))?;
        let size = file.metadata();
        let size = size.map_err(|error| Refusal::kernel("size of resource0", &error))?;
        Ok(Bar0 {
            file,
            size: size.len(),
            pages: BTreeMap::new(),
            given_up: BTreeMap::new(),
            gone: None,
        })
    }

    fn map(&self, page: u32) -> Result<Mapped, Refusal> {
        let begin = u64::from(page) * u64::from(PAGE);
        if begin + u64::from(PAGE) > self.size {
            let answer = format!("it ends at {:#x}", self.size);
            return Err(Refusal::new("the kernel: size of resource0", answer));
        }
        // CAST: widened.
        let mapped = Mapped::new(&self.file, PAGE as usize, begin);
        mapped.map_err(|error| Refusal::kernel("mmap of resource0", &error))
    }

    /// The word as it is, whatever it says.
    fn raw(&mut self, offset: u32) -> Result<u32, Refusal> {
        let page = offset / PAGE;
        if !self.pages.contains_key(&page) {
            let mapped = self.map(page)?;
            self.pages.insert(page, mapped);
        }
        // PANIC: the page was there, or was put there above.
        let window = &self.pages[&page];
        // CAST: widened.
        let word = window.read((offset % PAGE) as usize);
        word.ok_or_else(|| Refusal::new("this program", "an offset between two words"))
    }
}

impl Registers for Bar0 {
    fn read(&mut self, offset: u32) -> Result<u32, Refusal> {
        if let Some(refusal) = &self.gone {
            return Err(refusal.clone());
        }
        let page = offset / PAGE;
        if let Some(refusal) = self.given_up.get(&page) {
            return Err(refusal.clone());
        }
        let word = self.raw(offset);
        let by = || format!("the card: read of {offset:#x}");
        let refusal = match word {
            Ok(word) if !is_refused(word) && word != ALL_ONES => return Ok(word),
            Ok(word) => Refusal::new(by(), format!("{word:#010x}")),
            Err(refusal) => refusal,
        };
        if self.raw(BOOT_0) == Ok(ALL_ONES) {
            let gone = Refusal::new("the card: read of 0x0", "it is gone: all ones");
            self.gone = Some(gone.clone());
            self.pages.clear();
            return Err(gone);
        }
        self.given_up.insert(page, refusal.clone());
        Err(refusal)
    }
}

#[cfg(test)]
#[path = "bar0_tests.rs"]
pub(in crate::card) mod tests;
