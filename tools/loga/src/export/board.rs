// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What the driver says about a GPU in /proc: the names that other exporters use for it.

use super::rows::{printable, Label};
use loga::uapi;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the driver describes its GPUs.
const GPUS: &str = "/proc/driver/nvidia/gpus";

/// Descriptions that have been read. The driver's file may wake a GPU, so it is read once.
#[derive(Clone, Debug)]
pub struct Boards {
    folder: PathBuf,
    known: BTreeMap<String, Board>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Board {
    uuid: String,
    minor: Option<u32>,
}

impl Default for Boards {
    fn default() -> Self {
        Self::below(Path::new(GPUS))
    }
}

impl Boards {
    /// Those in this folder.
    pub fn below(folder: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
            known: BTreeMap::new(),
        }
    }

    /// The labels of a GPU.
    pub fn labels(&mut self, index: u32, info: &uapi::Gpu) -> Vec<Label> {
        let pci = crate::names::pci(info.pci_domain, info.pci_bdf);
        let board = self.board(&pci);
        let mut labels = vec![
            ("gpu", index.to_string()),
            // As NVML writes it: with eight digits of the domain, in capitals.
            ("pci_bus_id", format!("{pci:0>16}").to_uppercase()),
            ("device", board.node(index)),
        ];
        if !board.uuid.is_empty() {
            labels.push(("UUID", board.uuid));
        }
        labels
    }

    /// The name of the device node of a GPU.
    pub fn node(&mut self, index: u32, info: &uapi::Gpu) -> String {
        let pci = crate::names::pci(info.pci_domain, info.pci_bdf);
        self.board(&pci).node(index)
    }

    fn board(&mut self, pci: &str) -> Board {
        if let Some(board) = self.known.get(pci) {
            return board.clone();
        }
        let path = self.folder.join(pci).join("information");
        let Ok(text) = fs::read_to_string(path) else {
            return Board::default();
        };
        let board = Board::parse(&text);
        if !board.uuid.is_empty() {
            self.known.insert(pci.to_string(), board.clone());
        }
        board
    }
}

impl Board {
    /// The name of its device node; that of its index if the driver does not say.
    fn node(&self, index: u32) -> String {
        format!("nvidia{}", self.minor.unwrap_or(index))
    }

    /// Lines of `Name: value`.
    fn parse(text: &str) -> Self {
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            let line = lines.find(|(key, _)| key.trim() == name);
            line.map(|(_, value)| value.trim())
        };
        // The driver writes question marks until it has started the GPU.
        let uuid = value("GPU UUID").filter(|uuid| !uuid.contains('?'));
        Self {
            uuid: uuid.map_or(String::new(), |uuid| printable(&uuid.into())),
            minor: value("Device Minor").and_then(|minor| minor.parse().ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Model: \t\t Tesla K40c\nIRQ:   \t\t 16\nGPU UUID: \t GPU-1234\n\
                        Bus Location: \t 0000:01:00.0\nDevice Minor: \t 3\n";

    fn info() -> uapi::Gpu {
        uapi::Gpu {
            pci_bdf: 0x100,
            ..Default::default()
        }
    }

    fn texts(labels: &[Label]) -> Vec<String> {
        labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    /// Bridges that make domains of their own begin at 10000.
    #[test]
    fn domain_has_eight_digits_however_large_it_is() {
        let mut boards = Boards::below(Path::new("/nonexistent"));
        let far = uapi::Gpu {
            pci_domain: 0x1000a,
            ..info()
        };
        assert_eq!(
            texts(&boards.labels(0, &far))[1],
            "pci_bus_id=0001000A:01:00.0"
        );
    }

    #[test]
    fn labels_are_those_of_other_exporters() {
        let folder = tempfile::tempdir().expect("a folder");
        let board = folder.path().join("0000:01:00.0");
        fs::create_dir(&board).expect("a folder");
        let mut boards = Boards::below(folder.path());
        let bare = ["gpu=0", "pci_bus_id=00000000:01:00.0", "device=nvidia0"];
        assert_eq!(texts(&boards.labels(0, &info())), bare);
        let file = board.join("information");
        fs::write(&file, TEXT.replace("1234", "????")).expect("a file");
        assert!(!texts(&boards.labels(0, &info())).join(" ").contains("UUID"));
        fs::write(&file, TEXT).expect("a file");
        let whole = [
            "gpu=0",
            "pci_bus_id=00000000:01:00.0",
            "device=nvidia3",
            "UUID=GPU-1234",
        ];
        assert_eq!(texts(&boards.labels(0, &info())), whole);
        // It is not read again.
        fs::remove_file(file).expect("a file");
        assert_eq!(texts(&boards.labels(0, &info())), whole);
    }
}
