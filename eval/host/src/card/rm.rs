// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A client of the resource manager (RM) of branches 515 and later.
//!
//! Its structures are words here, not types: their layouts grow from branch to branch, and words
//! that a branch does not know are zero. Numbers and layouts are those of `loga::rm` where they did
//! not change. Source of the rest: open-gpu-kernel-modules 515.43.04 to 595.45.04, `nvos.h`,
//! `nv-ioctl.h`, `ctrl0000gpu.h`, `escape.c`.

use super::refusal::Refusal;
use super::window::{Mapped, Window};
use loga::rm::{self, class, nr};
use std::fmt::{self, Debug, Formatter};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use throttle::sys;

/// First handle of an object; the ones after it are counted up.
const FIRST_HANDLE: u32 = 0x5c00_0001;
/// Size of an element of the array that CARD_INFO fills, in words.
const CARD_WORDS: usize = size_of::<rm::CardInfo>() / 4;
/// Tells a GPU's device instance from RM's id of it.
const CTRL_GPU_GET_ID_INFO_V2: u32 = 0x205;
/// MAP_MEMORY for reading only. Source: `nvos.h`, `NVOS33_FLAGS_ACCESS_READ_ONLY`.
const MAP_READ_ONLY: u32 = 1;

/// Mode of a device's address spaces. Source: `cl0080.h`,
/// `NV_DEVICE_ALLOCATION_VAMODE_MULTIPLE_VASPACES`.
const VA_SPACES_ON_DEMAND: u32 = 2;

/// A handle of an object.
pub(crate) type Handle = u32;

/// What a call points at: a structure, and behind it what the structure points at.
pub(crate) struct Params<'a> {
    /// All of it.
    pub(crate) words: &'a mut [u32],
    /// Words of the structure; the rest is what it points at.
    pub(crate) structure: usize,
    /// The word of the structure that gets the address of the rest.
    pub(crate) pointer: Option<usize>,
}

impl<'a> Params<'a> {
    /// A structure that points at nothing.
    pub(crate) fn plain(words: &'a mut [u32]) -> Self {
        let structure = words.len();
        Params {
            words,
            structure,
            pointer: None,
        }
    }

    fn size(&self) -> u32 {
        // CAST: structures have at most IOCTL_SIZE_MAX bytes.
        (self.structure * 4) as u32
    }
}

/// The driver behind the nodes; tests have another one.
pub(crate) trait Driver: Send {
    /// The call `nr` with the words `arg`, of which two, from `pointer` on, get the address of
    /// `params`. Both are updated.
    ///
    /// # Errors
    ///
    /// What the ioctl returned.
    fn call(
        &self,
        file: BorrowedFd<'_>,
        nr: u32,
        arg: &mut [u32],
        pointer: Option<usize>,
        params: &mut Params<'_>,
    ) -> io::Result<()>;

    /// Maps what MAP_MEMORY has made ready.
    ///
    /// # Errors
    ///
    /// What mmap returned.
    fn map(&self, file: &File, length: usize) -> io::Result<Box<dyn Window>>;
}

/// The driver that is loaded.
pub(crate) struct Loaded;

/// Low and high word of an address.
fn halves(address: u64) -> [u32; 2] {
    // CAST: the two halves, on purpose.
    [address as u32, (address >> 32) as u32]
}

impl Driver for Loaded {
    fn call(
        &self,
        file: BorrowedFd<'_>,
        nr: u32,
        arg: &mut [u32],
        pointer: Option<usize>,
        params: &mut Params<'_>,
    ) -> io::Result<()> {
        // As large as any structure of any branch, so that no driver writes behind it.
        let mut area = vec![0u32; rm::IOCTL_SIZE_MAX as usize / 4];
        let count = params.words.len();
        if count > area.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // CAST: user addresses are 64 bits here.
        let base = area.as_mut_ptr().expose_provenance() as u64;
        area[..count].copy_from_slice(params.words);
        if let Some(at) = params.pointer {
            let rest = base + u64::from(params.size());
            area[at..at + 2].copy_from_slice(&halves(rest));
        }
        if let Some(at) = pointer.filter(|_| count > 0) {
            arg[at..at + 2].copy_from_slice(&halves(base));
        }
        let mut bytes: Vec<u8> = arg.iter().flat_map(|word| word.to_le_bytes()).collect();
        sys::raw(file, rm::request(nr, bytes.len()), &mut bytes)?;
        for (word, four) in arg.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        }
        params.words.copy_from_slice(&area[..count]);
        Ok(())
    }

    fn map(&self, file: &File, length: usize) -> io::Result<Box<dyn Window>> {
        Ok(Box::new(Mapped::new(file, length, 0)?))
    }
}

/// A client with a device and a subdevice of one GPU; frees everything when dropped.
pub(crate) struct Client {
    driver: Box<dyn Driver>,
    nodes: PathBuf,
    ctl: File,
    /// Open as long as the client lives: the driver keeps the GPU running for it.
    _gpu: File,
    root: Handle,
    device: Handle,
    subdevice: Handle,
    next: Handle,
    /// Branch 515, whose RM_ALLOC knows no size of parameters.
    is_old: bool,
}

impl Debug for Client {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Client {:#x} of {}", self.root, self.nodes.display())
    }
}

/// Opens a node for reading and writing.
fn open(path: &Path) -> Result<File, Refusal> {
    let file = File::options().read(true).write(true).open(path);
    file.map_err(|error| Refusal::kernel(&format!("open of {}", path.display()), &error))
}

/// One call without anything that it points at.
fn simple(
    driver: &dyn Driver,
    file: &File,
    nr: u32,
    name: &str,
    arg: &mut [u32],
) -> Result<(), Refusal> {
    let mut nothing = Params::plain(&mut []);
    let result = driver.call(file.as_fd(), nr, arg, None, &mut nothing);
    result.map_err(|error| Refusal::kernel(&format!("ioctl {name}"), &error))
}

fn granted(name: &str, status: u32) -> Result<(), Refusal> {
    match status {
        class::status::OK => Ok(()),
        status => Err(Refusal::driver(name, status)),
    }
}

impl Client {
    /// Opens `nvidiactl` and `nvidia<minor>` in the folder `nodes`.
    ///
    /// # Errors
    ///
    /// The first node or call that is refused.
    pub(crate) fn open(nodes: &Path, minor: u32) -> Result<Self, Refusal> {
        Self::open_with(Box::new(Loaded), nodes, minor)
    }

    /// As [`Client::open`], with any driver behind the nodes.
    pub(crate) fn open_with(
        driver: Box<dyn Driver>,
        nodes: &Path,
        minor: u32,
    ) -> Result<Self, Refusal> {
        let ctl = open(&nodes.join("nvidiactl"))?;
        let mut cards = [0; CARD_WORDS * rm::CARDS_MAX];
        simple(&*driver, &ctl, nr::CARD_INFO, "CARD_INFO", &mut cards)?;
        let gpu = open(&nodes.join(format!("nvidia{minor}")))?;
        // CAST: open descriptors are not negative.
        let mut fd = [ctl.as_raw_fd() as u32];
        simple(&*driver, &gpu, nr::REGISTER_FD, "REGISTER_FD", &mut fd)?;
        let mut client = Client {
            driver,
            nodes: nodes.to_owned(),
            ctl,
            _gpu: gpu,
            root: 0,
            device: 0,
            subdevice: 0,
            next: FIRST_HANDLE,
            is_old: false,
        };
        client.root = client.alloc_as(0, 0, class::ROOT_CLIENT, "client", &mut [])?;
        let instance = client.device_instance(&cards, minor);
        let mut params = [0; size_of::<rm::DeviceParams>() / 4];
        params[0] = instance;
        // As CUDA's library does on 580 (tests/card): an address space of the client's own, made
        // only when one is asked for.
        (params[1], params[12]) = (client.root, VA_SPACES_ON_DEMAND);
        client.device = client.alloc(client.root, class::DEVICE, "device", &mut params)?;
        client.subdevice = client.alloc(client.device, class::SUBDEVICE, "subdevice", &mut [0])?;
        Ok(client)
    }

    /// The GPU's number in RM: of the card with this minor number, and the minor number itself where
    /// RM does not tell.
    fn device_instance(&self, cards: &[u32], minor: u32) -> u32 {
        // Words of rm::CardInfo: `valid` 0, `gpu_id` 4, `minor` 14.
        let mut cards = cards.chunks_exact(CARD_WORDS);
        let Some(card) = cards.find(|card| card[0] & 0xff != 0 && card[14] == minor) else {
            return minor;
        };
        let mut params = [0; 8];
        params[0] = card[4];
        let asked = self.control(self.root, CTRL_GPU_GET_ID_INFO_V2, "id", &mut params);
        asked.map_or(minor, |()| params[2])
    }

    /// The client object.
    pub(crate) fn root(&self) -> Handle {
        self.root
    }

    /// The device.
    pub(crate) fn device(&self) -> Handle {
        self.device
    }

    /// The subdevice.
    pub(crate) fn subdevice(&self) -> Handle {
        self.subdevice
    }

    /// Allocates an object of a class, called `name` in refusals.
    ///
    /// # Errors
    ///
    /// The call was refused.
    pub(crate) fn alloc(
        &mut self,
        parent: Handle,
        class: u32,
        name: &str,
        params: &mut [u32],
    ) -> Result<Handle, Refusal> {
        let handle = self.next;
        self.next = self.next.wrapping_add(1);
        self.alloc_as(parent, handle, class, name, params)
    }

    fn alloc_as(
        &mut self,
        parent: Handle,
        handle: Handle,
        class: u32,
        name: &str,
        params: &mut [u32],
    ) -> Result<Handle, Refusal> {
        let call = format!("RM_ALLOC({name})");
        let mut params = Params::plain(params);
        let first = [self.root, parent, handle, class];
        let mut words = [0u32; rm::ALLOC_LONG_SIZE_LATER / 4];
        words[..4].copy_from_slice(&first);
        // Word 8, the size of the parameters, stays zero as in CUDA's calls: each driver takes as much
        // as the class has in its branch.
        let mut length = words.len();
        if self.is_old {
            length = size_of::<rm::AllocLong>() / 4;
        }
        let fd = self.ctl.as_fd();
        let arg = &mut words[..length];
        let mut result = self.driver.call(fd, nr::ALLOC, arg, Some(4), &mut params);
        if self.root == 0 && !self.is_old && result.is_err() {
            // The first allocation tells whether the driver is of 515.
            words = [0; rm::ALLOC_LONG_SIZE_LATER / 4];
            words[..4].copy_from_slice(&first);
            length = size_of::<rm::AllocLong>() / 4;
            let arg = &mut words[..length];
            let second = self.driver.call(fd, nr::ALLOC, arg, Some(4), &mut params);
            if second.is_ok() {
                self.is_old = true;
                result = second;
            }
        }
        result.map_err(|error| Refusal::kernel(&format!("ioctl {call}"), &error))?;
        // The status is the last word but one of either form.
        granted(&call, words[length - 2])?;
        Ok(words[2])
    }

    /// Frees an object and its children.
    ///
    /// # Errors
    ///
    /// The call was refused.
    pub(crate) fn free(&self, parent: Handle, object: Handle) -> Result<(), Refusal> {
        let mut arg = [self.root, parent, object, 0];
        simple(&*self.driver, &self.ctl, nr::FREE, "RM_FREE", &mut arg)?;
        granted("RM_FREE", arg[3])
    }

    /// A control command with a structure that points at nothing.
    ///
    /// # Errors
    ///
    /// The call was refused.
    pub(crate) fn control(
        &self,
        object: Handle,
        command: u32,
        name: &str,
        params: &mut [u32],
    ) -> Result<(), Refusal> {
        self.control_with(object, command, name, &mut Params::plain(params))
    }

    /// A control command.
    ///
    /// # Errors
    ///
    /// The call was refused.
    pub(crate) fn control_with(
        &self,
        object: Handle,
        command: u32,
        name: &str,
        params: &mut Params<'_>,
    ) -> Result<(), Refusal> {
        let call = format!("RM_CONTROL({command:#x}, {name})");
        let mut arg = [0; size_of::<rm::Control>() / 4];
        arg[..3].copy_from_slice(&[self.root, object, command]);
        arg[6] = params.size();
        let fd = self.ctl.as_fd();
        let result = self.driver.call(fd, nr::CONTROL, &mut arg, Some(4), params);
        result.map_err(|error| Refusal::kernel(&format!("ioctl {call}"), &error))?;
        granted(&call, arg[7])
    }

    /// Maps memory of the client that belongs to no device, for reading.
    ///
    /// # Errors
    ///
    /// A call or the mapping was refused.
    pub(crate) fn map(&self, memory: Handle, length: usize) -> Result<Reading, Refusal> {
        let file = open(&self.nodes.join("nvidiactl"))?;
        let mut arg = [0; size_of::<rm::MapMemoryFd>() / 4];
        arg[..3].copy_from_slice(&[self.root, self.root, memory]);
        // CAST: a length below IOCTL_SIZE_MAX times the size of a record.
        arg[6..8].copy_from_slice(&halves(length as u64));
        arg[11] = MAP_READ_ONLY;
        // CAST: open descriptors are not negative.
        arg[12] = file.as_raw_fd() as u32;
        let driver = &*self.driver;
        simple(driver, &self.ctl, nr::MAP_MEMORY, "MAP_MEMORY", &mut arg)?;
        granted("MAP_MEMORY", arg[10])?;
        let linear = [arg[8], arg[9]];
        match driver.map(&file, length) {
            Ok(window) => Ok(Reading {
                window,
                memory,
                linear,
            }),
            Err(error) => {
                // The refused mmap says more than an unmapping that fails too.
                let _ = self.unprepare(memory, linear);
                Err(Refusal::kernel("mmap of nvidiactl", &error))
            }
        }
    }

    /// Ends a mapping.
    ///
    /// # Errors
    ///
    /// The call was refused.
    pub(crate) fn unmap(&self, reading: Reading) -> Result<(), Refusal> {
        let (memory, linear) = (reading.memory, reading.linear);
        drop(reading);
        self.unprepare(memory, linear)
    }

    fn unprepare(&self, memory: Handle, linear: [u32; 2]) -> Result<(), Refusal> {
        let mut arg = [self.root, self.root, memory, 0, linear[0], linear[1], 0, 0];
        let (driver, name) = (&*self.driver, "UNMAP_MEMORY");
        simple(driver, &self.ctl, nr::UNMAP_MEMORY, name, &mut arg)?;
        granted(name, arg[6])
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.root != 0 {
            // What is not freed here, the driver frees when the control file is closed.
            let _ = self.free(self.root, self.root);
        }
    }
}

/// Memory of a client, mapped for reading.
pub(crate) struct Reading {
    /// Its words.
    pub(crate) window: Box<dyn Window>,
    memory: Handle,
    linear: [u32; 2],
}

#[cfg(test)]
#[path = "rm_tests.rs"]
pub(super) mod tests;
