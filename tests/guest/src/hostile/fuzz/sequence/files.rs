// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Opening, mapping, storing and forking with the files of the driver.

use super::super::system;
use super::super::system::{Wanted, PAGE};
use super::{answer, Answer, Node, Sequence, Stores, FILES_MAX};
use nix::errno::Errno;
use nix::libc;
use std::os::fd::AsRawFd;
use throttle::random::Random;
use throttle::{rm, sys};

impl Sequence {
    pub(super) fn open(&mut self) -> Answer {
        let path = match self.below(12) {
            0..=5 => rm::CTL_PATH.to_owned(),
            6..=10 => rm::gpu_path(0),
            _ => rm::gpu_path(1),
        };
        if self.nodes.len() >= FILES_MAX {
            let gone = self.nodes.iter().position(|node| !node.control);
            self.nodes.remove(gone.unwrap_or(0));
        }
        let opened = rm::open_node(&path);
        let result = opened.map(|file| {
            let number = file.as_raw_fd();
            let control = path == rm::CTL_PATH;
            self.nodes.push(Node { file, control });
            number
        });
        let result = result.map_err(|error| match error {
            throttle::error::Error::Node { source, .. } => {
                Errno::from_raw(source.raw_os_error().unwrap_or(0))
            }
            _ => Errno::UnknownErrno,
        });
        answer(format!("open {path}"), result)
    }

    /// Position of an open file; mostly one of the wanted kind.
    pub(super) fn node(&mut self, control: bool) -> Option<usize> {
        let any = self.chance(12);
        let nodes = self.nodes.iter().enumerate();
        let fitting: Vec<usize> = nodes
            .filter(|(_, node)| any || node.control == control)
            .map(|(at, _)| at)
            .collect();
        if fitting.is_empty() {
            return None;
        }
        let at = self.below(fitting.len() as u64) as usize;
        Some(fitting[at])
    }

    pub(super) fn close(&mut self) -> Answer {
        let control = self.chance(12);
        let Some(at) = self.node(control) else {
            return self.open();
        };
        let node = self.nodes.remove(at);
        if node.control {
            // A client ends with its control file.
            self.objects.clear();
        }
        answer(format!("close {}", node.file.as_raw_fd()), Ok(0))
    }

    pub(super) fn duplicate(&mut self) -> Answer {
        let Some(at) = self.node(true) else {
            return self.open();
        };
        let node = &self.nodes[at];
        let what = format!("dup {}", node.file.as_raw_fd());
        let (copy, control) = (system::duplicate(&node.file), node.control);
        let result = copy.map(|file| {
            let number = file.as_raw_fd();
            self.nodes.push(Node { file, control });
            number
        });
        answer(what, result)
    }

    pub(super) fn map(&mut self) -> Answer {
        let Some(at) = self.node(false) else {
            return self.open();
        };
        let wanted = Wanted {
            slot: self.below(16),
            length: match self.below(8) {
                0 => self.below(5 * PAGE),
                1 => 2 * PAGE,
                _ => PAGE,
            },
            offset: match self.below(6) {
                0 => self.linear & !(PAGE - 1),
                1 => PAGE,
                _ => 0,
            },
            protection: match self.below(8) {
                0 => libc::PROT_READ,
                1 => libc::PROT_NONE,
                _ => libc::PROT_READ | libc::PROT_WRITE,
            },
        };
        let fd = self.nodes[at].file.as_raw_fd();
        let result = self.arena.map(&self.nodes[at].file, wanted).map(|()| 0);
        // The offset is an address that a driver chose.
        let offset = if wanted.offset > PAGE {
            "linear"
        } else {
            "plain"
        };
        let Wanted {
            slot,
            length,
            protection,
            ..
        } = wanted;
        answer(
            format!("mmap {fd} at {slot}: {length} {offset} {protection}"),
            result,
        )
    }

    pub(super) fn unmap(&mut self) -> Answer {
        let (slot, pages) = (self.below(16), 1 + self.below(3));
        let result = self.arena.unmap(slot, pages).map(|()| 0);
        answer(format!("munmap {slot} {pages}"), result)
    }

    pub(super) fn change(&mut self) -> Answer {
        let slot = self.below(16);
        if self.chance(2) {
            let all = [
                libc::MADV_DONTNEED,
                libc::MADV_DONTFORK,
                libc::MADV_DOFORK,
                libc::MADV_RANDOM,
            ];
            let advice = all[self.below(4) as usize];
            let result = self.arena.advise(slot, advice).map(|()| 0);
            return answer(format!("madvise {slot} {advice}"), result);
        }
        let protection = self.below(4) as i32;
        let result = self.arena.change(slot, protection).map(|()| 0);
        answer(format!("mprotect {slot} {protection}"), result)
    }

    pub(super) fn store(&mut self) -> Answer {
        let (slot, word) = (self.below(16), self.below(64) as u32);
        // GP_PUT of one of the eight channels of a page, or anywhere.
        let at = match self.below(4) {
            0 => self.below(PAGE / 4) * 4,
            _ => self.below(8) * 0x200 + 0x8c,
        };
        let to = self.arena.slot(slot) + at;
        let result = match self.stores {
            Stores::Kernel => self.arena.store(&self.pipe, to, word),
            Stores::Own => self.arena.store_itself(to, word),
        };
        let result = result.map(|()| 0);
        answer(format!("store {slot} {at:#x} {word}"), result)
    }

    /// A child makes some calls of its own, with the files and objects of its parent.
    pub(super) fn fork(&mut self) -> Answer {
        let (seed, calls) = (self.random.next_u64(), 1 + self.below(24));
        if self.depth >= 2 {
            return self.open();
        }
        self.shared.set(0);
        match sys::fork() {
            Ok(None) => {
                self.random = Random::new(seed);
                self.depth += 1;
                let mut digest = 0u64;
                for _ in 0..calls {
                    digest = digest.rotate_left(5) ^ self.step().digest();
                }
                self.shared.set(digest);
                sys::exit_now(0)
            }
            Ok(Some(pid)) => {
                let pid = nix::unistd::Pid::from_raw(pid);
                let ended = nix::sys::wait::waitpid(pid, None);
                let result = match ended {
                    Ok(nix::sys::wait::WaitStatus::Exited(_, code)) => Ok(code),
                    Ok(_) => Ok(-1),
                    Err(errno) => Err(errno),
                };
                let mut answer = answer(format!("fork for {calls} calls"), result);
                answer.bytes = self.shared.get().to_le_bytes().to_vec();
                answer
            }
            Err(error) => {
                let errno = Errno::from_raw(error.raw_os_error().unwrap_or(0));
                answer("fork".to_owned(), Err(errno))
            }
        }
    }
}
