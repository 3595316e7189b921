// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A client of the resource manager: objects, memory, mappings, events.

mod calls;

pub use calls::{card_info, check_version, take_event};

use calls::{alloc_name, call, granted};

use crate::error::Error;
use crate::sys;
use crate::sys::{Mapping, Plain, Visibility};
use loga::rm;
use loga::rm::class::status;
use loga::rm::{class, nr};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};

/// Control node.
pub const CTL_PATH: &str = "/dev/nvidiactl";

/// Version prefix of the branch that maps by physical address.
const BRANCH_BY_PHYSICAL: &[u8] = b"340.";

/// First handle of an object; the ones after it are counted up.
const FIRST_HANDLE: u32 = 0x5c00_0001;

/// Client handles are this plus the process id: they must differ between all clients of the driver.
const FIRST_ROOT: u32 = 0xc000_0000;

/// Distance of the client handles of one process, above every process id.
const ROOT_STEP: u32 = 1 << 22;

/// Clients of one process.
const ROOTS_MAX: u32 = 16;

/// A handle of a resource manager object.
pub type Handle = u32;

/// Opens a device node for reading and writing.
///
/// # Errors
///
/// [`Error::Node`].
pub fn open_node(path: &str) -> Result<File, Error> {
    File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|source| Error::Node {
            path: path.to_string(),
            source,
        })
}

/// Path of a GPU's node.
pub fn gpu_path(gpu: u32) -> String {
    format!("/dev/nvidia{gpu}")
}

/// One client with its device objects; frees everything when dropped.
#[derive(Debug)]
pub struct Client {
    ctl: File,
    gpu_file: File,
    gpu: u32,
    root: Handle,
    device: Handle,
    subdevice: Handle,
    next: Handle,
    /// Mappings are chosen by the physical address in mmap's offset, not by the file.
    by_physical: bool,
}

/// Memory that both the program and the GPU reach.
#[derive(Debug)]
pub struct Memory {
    /// Its object.
    pub handle: Handle,
    /// The program's view.
    pub map: Mapping,
    /// The GPU's address of its first byte.
    pub gpu_va: u64,
}

impl Client {
    /// Opens the nodes of a GPU and allocates client, device and subdevice.
    ///
    /// # Errors
    ///
    /// A node missing or a call refused.
    pub fn open(gpu: u32) -> Result<Self, Error> {
        let ctl = open_node(CTL_PATH)?;
        let version = check_version(&ctl)?;
        card_info(&ctl)?;
        let gpu_file = open_node(&gpu_path(gpu))?;
        let mut client = Client {
            ctl,
            gpu_file,
            gpu,
            root: 0,
            device: 0,
            subdevice: 0,
            next: FIRST_HANDLE,
            by_physical: version.version.starts_with(BRANCH_BY_PHYSICAL),
        };
        let root = client.alloc_root()?;
        let mut device = rm::DeviceParams {
            device_id: gpu,
            ..Default::default()
        };
        client.device = client.alloc(root, class::DEVICE, &mut device)?;
        client.subdevice = client.alloc(client.device, class::SUBDEVICE, &mut ())?;
        Ok(client)
    }

    /// The control file.
    pub fn ctl(&self) -> &File {
        &self.ctl
    }

    /// The GPU's file that was opened first.
    pub fn gpu_file(&self) -> &File {
        &self.gpu_file
    }

    /// N of the GPU's node.
    pub fn gpu(&self) -> u32 {
        self.gpu
    }

    /// The client object.
    pub fn root(&self) -> Handle {
        self.root
    }

    /// The device object.
    pub fn device(&self) -> Handle {
        self.device
    }

    /// Allocates the client object under the first handle that is free.
    fn alloc_root(&mut self) -> Result<Handle, Error> {
        let first = FIRST_ROOT.wrapping_add(std::process::id());
        for i in 0..ROOTS_MAX {
            let root = first.wrapping_add(i.wrapping_mul(ROOT_STEP));
            self.root = root;
            match self.alloc_as(root, root, class::ROOT_CLIENT, &mut ()) {
                Err(Error::Refused {
                    status: status::INSERT_DUPLICATE_NAME,
                    ..
                }) => {}
                other => return other.map(|()| root),
            }
        }
        Err(Error::Refused {
            call: alloc_name(class::ROOT_CLIENT),
            status: status::INSERT_DUPLICATE_NAME,
        })
    }

    fn take_handle(&mut self) -> Handle {
        let handle = self.next;
        self.next = self.next.wrapping_add(1);
        handle
    }

    /// Allocates an object of `class` under `parent`.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] or [`Error::Refused`], naming RM_ALLOC and what was asked for.
    pub fn alloc<P: Plain>(
        &mut self,
        parent: Handle,
        class: u32,
        params: &mut P,
    ) -> Result<Handle, Error> {
        let handle = self.take_handle();
        self.alloc_as(parent, handle, class, params)?;
        Ok(handle)
    }

    fn alloc_as<P: Plain>(
        &mut self,
        parent: Handle,
        handle: Handle,
        class: u32,
        params: &mut P,
    ) -> Result<(), Error> {
        let mut arg = rm::Alloc {
            root: self.root,
            parent,
            handle,
            class,
            ..Default::default()
        };
        let call = alloc_name(class);
        sys::call(self.ctl.as_fd(), nr::ALLOC, &mut arg, params, |arg, at| {
            arg.params = if size_of::<P>() == 0 { 0 } else { at };
        })
        .map_err(|source| Error::Call { call, source })?;
        granted(call, arg.status)
    }

    /// Frees an object and its children.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] or [`Error::Refused`], naming RM_FREE.
    pub fn free(&self, parent: Handle, object: Handle) -> Result<(), Error> {
        let mut arg = rm::Free {
            root: self.root,
            parent,
            object,
            status: 0,
        };
        call("RM_FREE", &self.ctl, nr::FREE, &mut arg)?;
        granted("RM_FREE", arg.status)
    }

    /// Allocates `length` bytes of system memory, visible to program and GPU.
    ///
    /// # Errors
    ///
    /// A call refused or the mapping failed.
    pub fn alloc_memory(&mut self, length: u64) -> Result<Memory, Error> {
        let handle = self.take_handle();
        let mut arg = rm::AllocMemoryFd {
            memory: rm::AllocMemory {
                root: self.root,
                parent: self.device,
                handle,
                class: class::MEMORY_SYSTEM,
                limit: length.saturating_sub(1),
                ..Default::default()
            },
            fd: -1,
            pad: 0,
        };
        call("RM_ALLOC_MEMORY", &self.ctl, nr::ALLOC_MEMORY, &mut arg)?;
        granted("RM_ALLOC_MEMORY", arg.memory.status)?;
        let (map, _) = self.map(handle, length, CTL_PATH)?;
        let gpu_va = self.map_dma(handle, length)?;
        Ok(Memory {
            handle,
            map,
            gpu_va,
        })
    }

    /// Maps memory or a channel's USERD through a fresh file of `path`; returns the mapping and the
    /// physical address the driver reports.
    ///
    /// # Errors
    ///
    /// A call refused or the mapping failed.
    pub fn map(&self, object: Handle, length: u64, path: &str) -> Result<(Mapping, u64), Error> {
        let ready = self.prepare_map(object, length, path)?;
        Ok((ready.map(Visibility::Shared)?, ready.linear))
    }

    /// The first half of [`map`](Client::map): everything but the mmap.
    ///
    /// # Errors
    ///
    /// The node is missing or the call refused.
    pub fn prepare_map(
        &self,
        object: Handle,
        length: u64,
        path: &str,
    ) -> Result<ReadyToMap, Error> {
        let file = open_node(path)?;
        let map = rm::MapMemory {
            client: self.root,
            device: self.device,
            memory: object,
            length,
            ..Default::default()
        };
        let (map, offset) = if self.by_physical {
            let mut arg = map;
            call("MAP_MEMORY", &self.ctl, nr::MAP_MEMORY, &mut arg)?;
            (arg, arg.linear - arg.linear % rm::PAGE_SIZE)
        } else {
            let mut arg = rm::MapMemoryFd {
                map,
                fd: file.as_raw_fd(),
                pad: 0,
            };
            call("MAP_MEMORY", &self.ctl, nr::MAP_MEMORY, &mut arg)?;
            (arg.map, 0)
        };
        granted("MAP_MEMORY", map.status)?;
        Ok(ReadyToMap {
            file,
            linear: map.linear,
            length,
            offset,
        })
    }

    fn map_dma(&self, memory: Handle, length: u64) -> Result<u64, Error> {
        let mut arg = rm::MapMemoryDma {
            client: self.root,
            device: self.device,
            memory,
            length,
            ..Default::default()
        };
        call("MAP_MEMORY_DMA", &self.ctl, nr::MAP_MEMORY_DMA, &mut arg)?;
        granted("MAP_MEMORY_DMA", arg.status)?;
        Ok(arg.dma_offset)
    }

    /// Enables or disables a channel.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] or [`Error::Refused`], naming GPFIFO_SCHEDULE.
    pub fn schedule(&self, channel: Handle, enable: bool) -> Result<(), Error> {
        const CALL: &str = "RM_CONTROL(GPFIFO_SCHEDULE)";
        let mut params = rm::ScheduleParams {
            enable: enable.into(),
            skip_submit: 0,
        };
        let mut arg = rm::Control {
            client: self.root,
            object: channel,
            cmd: class::CTRL_GPFIFO_SCHEDULE,
            // CAST: two bytes.
            params_size: size_of_val(&params) as u32,
            ..Default::default()
        };
        sys::call(
            self.ctl.as_fd(),
            nr::CONTROL,
            &mut arg,
            &mut params,
            |arg, at| arg.params = at,
        )
        .map_err(|source| Error::Call { call: CALL, source })?;
        granted(CALL, arg.status)
    }

    /// A file of the GPU that becomes readable when a command of this client asks for it.
    ///
    /// # Errors
    ///
    /// The node is missing or a call refused.
    pub fn alloc_event(&mut self) -> Result<File, Error> {
        let file = open_node(&gpu_path(self.gpu))?;
        // CAST: open descriptors are not negative.
        let fd = file.as_raw_fd() as u32;
        let mut arg = rm::OsEvent {
            client: self.root,
            device: self.device,
            fd,
            status: 0,
        };
        call("ALLOC_OS_EVENT", &file, nr::ALLOC_OS_EVENT, &mut arg)?;
        granted("ALLOC_OS_EVENT", arg.status)?;
        let mut params = rm::EventParams {
            parent_client: self.root,
            source: self.subdevice,
            class: class::EVENT_OS_EVENT,
            index: 0,
            data: fd.into(),
        };
        self.alloc(self.subdevice, class::EVENT_OS_EVENT, &mut params)?;
        Ok(file)
    }
}

/// A file that MAP_MEMORY made ready for mmap.
#[derive(Debug)]
pub struct ReadyToMap {
    /// The file.
    pub file: File,
    /// Physical address of what will be mapped.
    pub linear: u64,
    /// Length in bytes.
    pub length: u64,
    /// Offset that mmap must be given.
    pub offset: u64,
}

impl ReadyToMap {
    /// Maps it.
    ///
    /// # Errors
    ///
    /// [`Error::Call`], naming mmap.
    pub fn map(&self, visibility: Visibility) -> Result<Mapping, Error> {
        let length = usize::try_from(self.length)
            .map_err(|_| Error::Argument(format!("mapping of {} bytes", self.length)))?;
        Mapping::new(self.file.as_fd(), length, self.offset, visibility).map_err(|source| {
            Error::Call {
                call: "mmap",
                source,
            }
        })
    }
}
