// SPDX-License-Identifier: GPL-2.0

//! [tool] Random system calls that know the structures of the driver, and break some of them.
//!
//! A sequence follows from its seed alone: the program chooses handles; descriptors and addresses
//! come from earlier calls. Handles that a driver chooses are compared by the order of their first
//! appearance, physical addresses by their place in a slot.

use super::system;
use super::system::Arena;
use super::system::Pipe;
use super::system::Shared;
use super::system::Wanted;
use super::system::PAGE;
use super::system::PLAIN;
use loga::rm as abi;
use loga::rm::class;
use loga::rm::nr;
use loga::rm::submit;
use loga::uapi;
use nix::errno::Errno;
use nix::libc;
use std::fs::File;
use std::os::fd::AsRawFd;
use throttle::random::Random;
use throttle::rm;
use throttle::sys;
use throttle::sys::bytes_of;

/// Most files of the driver that one process has open.
const FILES_MAX: usize = 24;
/// Most objects that are kept for later calls.
const OBJECTS_MAX: usize = 64;
/// One call in this many makes a process.
const FORK: u64 = 400;
/// Places of arguments, wrappers and parameters in the arena.
const ARGUMENT: u64 = 0;
const WRAPPER: u64 = 1;
const PARAMETERS: u64 = 2;
/// First page of what calls of `/dev/loga` fill.
const TABLES: u64 = 4;

/// The outcome of a call.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// In words.
    pub(crate) what: String,
    /// Its number, as the kernel returns it.
    pub(crate) result: Result<i32, Errno>,
    /// The argument afterwards, where it could be read.
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    /// A digest of all that must be the same each time (FNV-1a).
    pub(crate) fn digest(&self) -> u64 {
        let result = match self.result {
            Ok(number) => i64::from(number),
            Err(errno) => -i64::from(errno as i32) - 1,
        };
        let bytes = self.what.bytes().chain(result.to_le_bytes());
        bytes
            .chain(self.bytes.iter().copied())
            .fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
                (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            })
    }
}

/// An allocated object, as far as is known.
#[derive(Clone, Copy, Debug, Default)]
struct Object {
    root: u32,
    parent: u32,
    handle: u32,
    class: u32,
}

/// An open file of the driver.
#[derive(Debug)]
struct Node {
    file: File,
    control: bool,
}

/// A call to be made.
struct Call {
    nr: u32,
    bytes: Vec<u8>,
    parameters: Vec<u8>,
    /// Place in `bytes` of the address of the parameters.
    points: Option<usize>,
}

impl Call {
    fn new<T: sys::Plain>(nr: u32, argument: &T) -> Self {
        Call {
            nr,
            bytes: bytes_of(argument).to_vec(),
            parameters: Vec::new(),
            points: None,
        }
    }

    fn with<P: sys::Plain>(mut self, at: usize, parameters: &P) -> Self {
        self.parameters = bytes_of(parameters).to_vec();
        self.points = Some(at);
        self
    }
}

/// One process with its files and objects.
pub(crate) struct Sequence {
    random: Random,
    arena: Arena,
    pipe: Pipe,
    shared: Shared,
    /// `/dev/loga`, or something else in its place.
    loga: File,
    nodes: Vec<Node>,
    objects: Vec<Object>,
    /// Handles that the driver chose, in the order of their first appearance.
    seen: Vec<u64>,
    /// Address that the last MAP_MEMORY named.
    linear: u64,
    next: u32,
    /// Processes made from this one, one after the other.
    depth: u32,
    /// Calls to `/dev/loga` are made, and stores with a delayed effect.
    storm: bool,
}

impl Sequence {
    /// A process with nothing open. With `storm` it also calls `/dev/loga`.
    pub(crate) fn new(seed: u64, storm: bool) -> Result<Self, String> {
        let said = |errno: Errno| errno.to_string();
        // Without LoGA another file has its descriptor.
        let loga = File::options().read(true).open(uapi::DEVICE_PATH);
        let loga = loga.or_else(|_| File::open("/dev/null"));
        Ok(Sequence {
            random: Random::new(seed),
            arena: Arena::new().map_err(said)?,
            pipe: Pipe::new().map_err(said)?,
            shared: Shared::new().map_err(said)?,
            loga: loga.map_err(|error| error.to_string())?,
            nodes: Vec::new(),
            objects: Vec::new(),
            seen: Vec::new(),
            linear: 0,
            // Handles of clients must differ between processes; the handles of one sequence do not.
            next: 0xc000_0000
                | if storm {
                    std::process::id() << 12 & 0x0fff_f000
                } else {
                    0
                },
            depth: 0,
            storm,
        })
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    /// Whether an event with one chance in `bound` happens.
    fn chance(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    fn handle(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    /// An object that may exist.
    fn object(&mut self, wanted: impl Fn(&Object) -> bool) -> Object {
        let fitting: Vec<Object> = self.objects.iter().copied().filter(wanted).collect();
        if fitting.is_empty() || self.chance(16) {
            let (root, handle) = (self.below(4) as u32, self.random.next_u64() as u32);
            return Object {
                root: self.objects.first().map_or(root, |object| object.root),
                handle,
                ..Object::default()
            };
        }
        let at = self.below(fitting.len() as u64) as usize;
        fitting[at]
    }

    /// Makes the next call.
    pub(crate) fn step(&mut self) -> Answer {
        if self.chance(FORK) {
            return self.fork();
        }
        match self.below(64) {
            0..=3 => self.open(),
            4..=5 => self.close(),
            6 => self.duplicate(),
            7..=12 => self.map(),
            13..=16 => self.unmap(),
            17 => self.change(),
            18..=19 => self.store(),
            20..=25 if self.storm => self.ask_loga(),
            20..=60 => {
                let call = self.valid();
                self.make(call)
            }
            _ => {
                let call = self.nonsense();
                self.make(call)
            }
        }
    }

    fn open(&mut self) -> Answer {
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
    fn node(&mut self, control: bool) -> Option<usize> {
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

    fn close(&mut self) -> Answer {
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

    fn duplicate(&mut self) -> Answer {
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

    fn map(&mut self) -> Answer {
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

    fn unmap(&mut self) -> Answer {
        let (slot, pages) = (self.below(16), 1 + self.below(3));
        let result = self.arena.unmap(slot, pages).map(|()| 0);
        answer(format!("munmap {slot} {pages}"), result)
    }

    fn change(&mut self) -> Answer {
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

    fn store(&mut self) -> Answer {
        let (slot, word) = (self.below(16), self.below(64) as u32);
        // GP_PUT of one of the eight channels of a page, or anywhere.
        let at = match self.below(4) {
            0 => self.below(PAGE / 4) * 4,
            _ => self.below(8) * 0x200 + 0x8c,
        };
        let result = self
            .arena
            .store(&self.pipe, self.arena.slot(slot) + at, word)
            .map(|()| 0);
        answer(format!("store {slot} {at:#x} {word}"), result)
    }

    /// A child makes some calls of its own, with the files and objects of its parent.
    fn fork(&mut self) -> Answer {
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

    /// A well-formed call of the driver, as far as is known.
    fn valid(&mut self) -> Call {
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

    fn alloc(&mut self) -> Call {
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

    fn map_memory(&mut self) -> Call {
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
    fn nonsense(&mut self) -> Call {
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
    fn pointer(&mut self, good: u64) -> u64 {
        let end = self.arena.address(PLAIN, 0);
        match self.below(40) {
            0 => 0,
            1 => 8,
            2 => self.arena.read_only(),
            // Half of it cannot be read, or cannot be written.
            3 => end - 8,
            4 => self.arena.read_only() + PAGE - 12,
            // A page of a file, if one is mapped there.
            5 | 6 => self.arena.slot(self.random.next_u64() % 16) + self.below(PAGE),
            7 => 0xffff_8880_0000_0000 + self.below(PAGE),
            8 => u64::MAX - self.below(64),
            9 => good + 1 + self.below(7),
            _ => good,
        }
    }

    /// Makes a call, broken at random in one of several ways.
    fn make(&mut self, mut call: Call) -> Answer {
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
    fn learn(&mut self, nr: u32, size: usize, answer: &Answer) {
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
    fn canonical(&mut self, nr: u32, size: usize, bytes: &mut [u8]) {
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
    fn ask_loga(&mut self) -> Answer {
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
            Some(uapi::Call::ListShares) => &[16],
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

fn is_channel(object: &Object) -> bool {
    object.class == class::CHANNEL_GPFIFO_B
}

fn answer(what: String, result: Result<i32, Errno>) -> Answer {
    Answer {
        what,
        result,
        bytes: Vec::new(),
    }
}
