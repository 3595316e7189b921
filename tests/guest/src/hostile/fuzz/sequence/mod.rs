// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Random system calls that know the structures of the driver, and break some of them.
//!
//! A sequence follows from its seed alone: the program chooses handles; descriptors and addresses
//! come from earlier calls. Handles that a driver chooses are compared by the order of their first
//! appearance, physical addresses by their place in a slot.
//!
//! | file | contents |
//! |---|---|
//! | `files` | opening, mapping, storing and forking |
//! | `rm_calls` | calls of the driver, well-formed or unknown to it |
//! | `making` | making a call, broken at random, and what its answer says |

mod files;
mod making;
mod rm_calls;

use super::system::{Arena, Pipe, Shared};
use super::{own_store, Stores};
use loga::rm::class;
use loga::uapi;
use nix::errno::Errno;
use std::fs::File;
use throttle::random::Random;
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
    /// Who stores to submission pages.
    stores: Stores,
}

impl Sequence {
    /// A process with nothing open. With `storm` it also calls `/dev/loga`.
    pub(crate) fn new(seed: u64, storm: bool, stores: Stores) -> Result<Self, String> {
        let said = |errno: Errno| errno.to_string();
        if stores == Stores::Own {
            own_store::prepare().map_err(said)?;
        }
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
            stores,
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
