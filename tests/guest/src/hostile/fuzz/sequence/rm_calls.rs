// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Calls of the driver, well-formed or with structures that it does not know.

use super::super::system::{PAGE, PLAIN};
use super::{is_channel, Call, Object, Sequence, Stores, OBJECTS_MAX};
use loga::rm as abi;
use loga::rm::{class, nr};
use std::os::fd::AsRawFd;

impl Sequence {
    /// A well-formed call of the driver, as far as is known.
    pub(super) fn valid(&mut self) -> Call {
        match self.below(20) {
            0 => Call::new(nr::CHECK_VERSION_STR, &abi::ApiVersion::default()),
            1 => Call::new(nr::CARD_INFO, &[abi::CardInfo::default(); abi::CARDS_MAX]),
            2..=8 => self.alloc(),
            9 => {
                let device = self.object(|object| object.class == class::DEVICE);
                let memory = abi::AllocMemory {
                    root: device.root,
                    parent: device.handle,
                    handle: self.handle(),
                    class: class::MEMORY_SYSTEM,
                    limit: PAGE * (1 + self.below(4)) - 1,
                    ..Default::default()
                };
                Call::new(
                    nr::ALLOC_MEMORY,
                    &abi::AllocMemoryFd {
                        memory,
                        fd: -1,
                        pad: 0,
                    },
                )
            }
            10..=13 => self.map_memory(),
            14 => {
                let object = self.object(|_| true);
                Call::new(
                    nr::FREE,
                    &abi::Free {
                        root: object.root,
                        parent: object.parent,
                        object: object.handle,
                        status: 0,
                    },
                )
            }
            15 => {
                let object = self
                    .object(|object| is_channel(object) || object.class == class::MEMORY_SYSTEM);
                let unmap = abi::UnmapMemory {
                    client: object.root,
                    memory: object.handle,
                    ..Default::default()
                };
                Call::new(nr::UNMAP_MEMORY, &unmap)
            }
            16 => {
                let memory = self.object(|object| object.class == class::MEMORY_SYSTEM);
                let map = abi::MapMemoryDma {
                    client: memory.root,
                    device: memory.parent,
                    memory: memory.handle,
                    length: PAGE,
                    ..Default::default()
                };
                Call::new(nr::MAP_MEMORY_DMA, &map)
            }
            17 => {
                let channel = self.object(is_channel);
                let control = abi::Control {
                    client: channel.root,
                    object: channel.handle,
                    cmd: class::CTRL_GPFIFO_SCHEDULE,
                    params_size: 2,
                    ..Default::default()
                };
                let parameters = abi::ScheduleParams {
                    enable: u8::from(!self.chance(4)),
                    skip_submit: 0,
                };
                Call::new(nr::CONTROL, &control).with(16, &parameters)
            }
            18 => {
                let at = self.node(true);
                let ctl_fd = at.map_or(-1, |at| self.nodes[at].file.as_raw_fd());
                Call::new(nr::REGISTER_FD, &abi::RegisterFd { ctl_fd })
            }
            _ => {
                let at = self.node(false);
                let fd = at.map_or(u32::MAX, |at| self.nodes[at].file.as_raw_fd() as u32);
                let client = self.object(|_| true).root;
                let event = abi::OsEvent {
                    client,
                    fd,
                    ..Default::default()
                };
                Call::new(nr::ALLOC_OS_EVENT, &event)
            }
        }
    }

    pub(super) fn alloc(&mut self) -> Call {
        let new = self.handle();
        let (parent, class) = match self.below(8) {
            0..=1 => {
                let root = if self.chance(8) { 0 } else { new };
                (
                    Object {
                        root,
                        handle: root,
                        ..Object::default()
                    },
                    class::ROOT_CLIENT,
                )
            }
            2..=3 => (
                self.object(|object| object.class == class::ROOT_CLIENT),
                class::DEVICE,
            ),
            4 => (
                self.object(|object| object.class == class::DEVICE),
                class::SUBDEVICE,
            ),
            _ => (
                self.object(|object| object.class == class::DEVICE),
                class::CHANNEL_GPFIFO_B,
            ),
        };
        let alloc = abi::Alloc {
            root: parent.root,
            parent: parent.handle,
            handle: if class == class::ROOT_CLIENT {
                parent.root
            } else {
                new
            },
            class,
            ..Default::default()
        };
        let object = Object {
            root: alloc.root,
            parent: alloc.parent,
            handle: alloc.handle,
            class,
        };
        if self.objects.len() >= OBJECTS_MAX {
            let at = self.below(OBJECTS_MAX as u64) as usize;
            self.objects.remove(at);
        }
        self.objects.push(object);
        let call = if self.chance(3) {
            let long = abi::AllocLong {
                root: alloc.root,
                parent: alloc.parent,
                handle: alloc.handle,
                class: alloc.class,
                ..Default::default()
            };
            Call::new(nr::ALLOC, &long)
        } else {
            Call::new(nr::ALLOC, &alloc)
        };
        if class != class::CHANNEL_GPFIFO_B {
            return call;
        }
        let parameters = abi::ChannelParams {
            gpfifo_offset: 0x1_0000_0000,
            gpfifo_entries: 64,
            engine_type: class::ENGINE_TYPE_GRAPHICS,
            ..Default::default()
        };
        call.with(16, &parameters)
    }

    pub(super) fn map_memory(&mut self) -> Call {
        let object =
            self.object(|object| is_channel(object) || object.class == class::MEMORY_SYSTEM);
        let at = self.node(!is_channel(&object));
        let fd = at.map_or(-1, |at| self.nodes[at].file.as_raw_fd());
        let map = abi::MapMemory {
            client: object.root,
            device: object.parent,
            memory: object.handle,
            length: PAGE,
            ..Default::default()
        };
        if self.chance(4) {
            return Call::new(nr::MAP_MEMORY, &map);
        }
        Call::new(nr::MAP_MEMORY, &abi::MapMemoryFd { map, fd, pad: 0 })
    }

    /// A random number and random bytes, or a structure that the driver does not know.
    pub(super) fn nonsense(&mut self) -> Call {
        let known = [
            nr::ALLOC,
            nr::MAP_MEMORY,
            nr::FREE,
            nr::CONTROL,
            nr::GET_EVENT_DATA,
            nr::UNMAP_MEMORY_DMA,
        ];
        let nr = match self.below(2) {
            0 => known[self.below(6) as usize],
            _ => self.below(256) as u32,
        };
        let length = match self.below(3) {
            0 => self.below(300),
            1 => 8 * self.below(9),
            _ => [16, 32, 40, 48, 56][self.below(5) as usize],
        };
        let bytes = (0..length).map(|_| self.random.next_u64() as u8).collect();
        Call {
            nr,
            bytes,
            parameters: Vec::new(),
            points: None,
        }
    }

    /// An address for the driver: mostly a good one.
    pub(super) fn pointer(&mut self, good: u64) -> u64 {
        let end = self.arena.address(PLAIN, 0);
        match self.below(40) {
            0 => 0,
            1 => 8,
            2 => self.arena.read_only(),
            // Half of it cannot be read, or cannot be written.
            3 => end - 8,
            4 => self.arena.read_only() + PAGE - 12,
            // A page of a file, if one is mapped there.
            5 | 6 => {
                let page = self.arena.slot(self.random.next_u64() % 16);
                let at = self.below(PAGE);
                match self.stores {
                    Stores::Kernel => page + at,
                    // The kernel would store the answer there.
                    Stores::Own => self.arena.read_only() + at,
                }
            }
            7 => 0xffff_8880_0000_0000 + self.below(PAGE),
            8 => u64::MAX - self.below(64),
            9 => good + 1 + self.below(7),
            _ => good,
        }
    }
}
