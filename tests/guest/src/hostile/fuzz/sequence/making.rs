// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Making a call, broken at random, and what its answer says.

use super::super::system;
use super::super::system::PAGE;
use super::{
    answer, Answer, Call, Object, Sequence, ARGUMENT, OBJECTS_MAX, PARAMETERS, TABLES, WRAPPER,
};
use loga::rm as abi;
use loga::rm::{nr, submit};
use loga::uapi;
use std::fs::File;
use std::os::fd::AsRawFd;
use throttle::sys::bytes_of;

impl Sequence {
    /// Makes a call, broken at random in one of several ways.
    pub(super) fn make(&mut self, mut call: Call) -> Answer {
        let Some(at) = self.node(!matches!(call.nr, nr::REGISTER_FD | nr::ALLOC_OS_EVENT)) else {
            return self.open();
        };
        if self.chance(6) && !call.bytes.is_empty() {
            let at = self.below(call.bytes.len() as u64) as usize;
            call.bytes[at] ^= 1 << self.below(8);
        }
        let mut size = call.bytes.len();
        if self.chance(12) {
            size = [0, 1, 8, 16, 31, 32, 40, 48, 56, 64, 4096][self.below(11) as usize];
        }
        let parameters = self.arena.address(PARAMETERS, 0);
        self.arena.put(parameters, &call.parameters.clone());
        if let Some(field) = call.points {
            let pointer = self.pointer(parameters);
            call.bytes[field..field + 8].copy_from_slice(&pointer.to_le_bytes());
        }
        let good = self.arena.address(ARGUMENT, 0);
        let argument = self.pointer(good);
        // Short arguments end in zeroes, not in bytes of the last call.
        let room = size.max(call.bytes.len()).max(64).min(PAGE as usize);
        call.bytes.resize(room, 0);
        self.arena.put(good, &call.bytes);
        if argument != good && self.arena.is_plain(argument, room) {
            self.arena.put(argument, &call.bytes);
        }
        let wrapped = self.chance(4);
        let (request, pointer) = if wrapped {
            let xfer = abi::Xfer {
                cmd: if self.chance(3) {
                    abi::request(call.nr, size)
                } else {
                    call.nr
                },
                // CAST: small sizes.
                size: if self.chance(16) {
                    self.random.next_u64() as u32
                } else {
                    size as u32
                },
                ptr: argument,
            };
            let wrapper = self.arena.address(WRAPPER, 0);
            self.arena.put(wrapper, bytes_of(&xfer));
            let request = abi::request(nr::XFER_CMD, size_of::<abi::Xfer>());
            (request, self.pointer(wrapper))
        } else {
            (abi::request(call.nr, size), argument)
        };
        let node = &self.nodes[at];
        let result = system::ioctl(&node.file, request, pointer);
        let name = if wrapped { "xfer" } else { "ioctl" };
        let fd = node.file.as_raw_fd();
        let mut answer = answer(
            format!("{name} {fd}: {:#x} of {size} bytes", call.nr),
            result,
        );
        if self.arena.is_plain(argument, room) {
            answer.bytes = vec![0; room];
            self.arena.get(argument, &mut answer.bytes);
            self.learn(call.nr, size, &answer);
            self.canonical(call.nr, size, &mut answer.bytes);
        }
        answer
    }

    /// Drops an object that does not exist.
    pub(super) fn learn(&mut self, nr: u32, size: usize, answer: &Answer) {
        let bytes = &answer.bytes;
        let word = |at: usize| {
            bytes.get(at..at + 4).map_or(0, |word| {
                u32::from_le_bytes(word.try_into().unwrap_or_default())
            })
        };
        let granted = answer.result == Ok(0);
        let gone = match (nr, size) {
            (nr::ALLOC, 32) => !granted || word(24) != 0,
            (nr::ALLOC, 40) => !granted || word(32) != 0,
            (nr::ALLOC_MEMORY, 56) if granted && word(40) == 0 => {
                self.objects.push(Object {
                    root: word(0),
                    parent: word(4),
                    handle: word(8),
                    class: word(12),
                });
                false
            }
            (nr::FREE, 16) => granted && word(12) == 0,
            _ => false,
        };
        if gone {
            let (root, handle) = (word(0), word(8));
            self.objects.retain(|object| {
                let is_it = object.root == root && object.handle == handle;
                let is_below = object.root == root && (object.parent == handle || root == handle);
                !is_it && !is_below
            });
        }
        if self.objects.len() > OBJECTS_MAX {
            self.objects.remove(0);
        }
    }

    /// Replaces a value that a driver chose by its place in the order of appearance.
    pub(super) fn canonical(&mut self, nr: u32, size: usize, bytes: &mut [u8]) {
        let field = match nr {
            nr::MAP_MEMORY if size >= 48 => 32..40,
            nr::ALLOC if size >= 32 => 8..12,
            // Addresses of BAR0 and BAR1 are the machine's, and do not change.
            _ => return,
        };
        let mut number = [0; 8];
        number[..field.len()].copy_from_slice(&bytes[field.clone()]);
        let number = u64::from_le_bytes(number);
        if nr == nr::MAP_MEMORY {
            self.linear = number;
        } else if number >> 16 != 0xc1d0 {
            return;
        }
        // Which channel is free depends on how far the card is with ended channels, so an address
        // is only compared by its place in a slot. Handles have an order.
        let named = if nr == nr::MAP_MEMORY {
            (u64::from(number > 0) << 12) | (number % submit::USERD_SLOT)
        } else {
            let known = self.seen.iter().position(|other| *other == number);
            known.unwrap_or_else(|| {
                self.seen.push(number);
                self.seen.len() - 1
            }) as u64
        };
        let length = field.len();
        bytes[field].copy_from_slice(&named.to_le_bytes()[..length]);
    }

    /// A call of `/dev/loga`, with arguments that are mostly right.
    pub(super) fn ask_loga(&mut self) -> Answer {
        let at = self.below(uapi::Call::ALL.len() as u64 + 1) as usize;
        let (mut request, header) = match uapi::Call::ALL.get(at) {
            Some((call, number)) => (*number, call.header()),
            None => (self.random.next_u64() as u32, uapi::Header::default()),
        };
        let size = header.size as usize;
        let mut bytes = vec![0u8; 512];
        bytes[..4].copy_from_slice(&header.version.to_le_bytes());
        bytes[4..8].copy_from_slice(&header.size.to_le_bytes());
        // Every word is small, a table of the arena, or anything.
        for at in (8..size.min(96)).step_by(4) {
            let word = match self.below(12) {
                0 => self.random.next_u64() as u32,
                1 => u32::MAX,
                2..=4 => self.below(4) as u32,
                5 => 1 + self.below(100) as u32,
                _ => 0,
            };
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        let tables: &[usize] = match uapi::Call::ALL.get(at).map(|(call, _)| *call) {
            Some(uapi::Call::Snapshot) => &[24, 32, 40],
            Some(uapi::Call::ReadTotals) => &[24],
            Some(uapi::Call::ListShares | uapi::Call::ListSpecs) => &[16],
            _ => &[],
        };
        for (index, field) in (0..).zip(tables) {
            let good = self.arena.address(TABLES + index, 0);
            let table = self.pointer(good);
            bytes[*field..*field + 8].copy_from_slice(&table.to_le_bytes());
        }
        if self.chance(8) {
            let at = self.below(size.max(8) as u64) as usize;
            bytes[at] ^= 1 << self.below(8);
        }
        if self.chance(16) {
            request ^= 1 << self.below(32);
        }
        let good = self.arena.address(ARGUMENT, 0);
        self.arena.put(good, &bytes);
        let argument = self.pointer(good);
        let result = system::ioctl(&self.loga, request, argument);
        if self.chance(16) {
            // Reopened, so that subscriptions end too.
            if let Ok(file) = File::options().read(true).open(uapi::DEVICE_PATH) {
                self.loga = file;
            }
        }
        answer(format!("loga {request:#x}"), result)
    }
}
