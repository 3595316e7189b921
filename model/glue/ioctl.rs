// SPDX-License-Identifier: GPL-2.0

//! The calls on the nodes: sizes, user memory, and which call does what.
//!
//! A call that is malformed returns an errno; one that RM refuses returns 0 and a status.

use super::machine::Machine;
use super::opened::{self, Private};
use super::params::Branch;
use super::rm::{set, Caller, Outcome, Rm};
use super::{params, pci, Card, Stand};
use crate::rm;
use crate::rm::class::status;
use crate::rm::nr;
use core::mem::size_of;
use kernel::fs::file::LocalFile;
use kernel::prelude::*;
use kernel::transmute::{AsBytes, FromBytes};
use kernel::uaccess::{UserPtr, UserSlice};

/// Structures that consist of integers and have no implicit padding.
macro_rules! plain {
    ($($name:ident),* $(,)?) => {
        $(
            // SAFETY: `repr(C)` with integers only: every bit pattern is valid.
            unsafe impl FromBytes for rm::$name {}
            // SAFETY: Its padding is spelled out, so that no byte is uninitialised.
            unsafe impl AsBytes for rm::$name {}
        )*
    };
}

plain!(
    Free,
    AllocMemory,
    AllocMemoryFd,
    Alloc,
    AllocLong,
    MapMemory,
    MapMemoryFd,
    UnmapMemory,
    Control,
    MapMemoryDma,
    UnmapMemoryDma,
    GetEventData,
    UnixEvent,
    OsEvent,
    EventParams,
    MemoryParams,
    DeviceParams,
    ApiVersion,
    CardInfo,
    RegisterFd,
    Xfer,
    ScheduleParams,
    ChannelListParams,
    ChannelParams,
);

/// A call in progress.
pub struct Call<'a> {
    pub(super) stand: &'a Stand,
    pub(super) private: &'a Private,
    pub(super) caller: Caller,
    size: usize,
    argument: UserPtr,
}

/// Executes `ioctl(request, argument)`.
pub fn call(stand: &Stand, private: &Private, request: u32, argument: usize) -> Result {
    let mut number = rm::request_nr(request);
    let mut size = rm::request_size(request);
    let mut argument = UserPtr::from_addr(argument);
    if number == nr::XFER_CMD {
        if size != size_of::<rm::Xfer>() {
            return Err(EINVAL);
        }
        let xfer: rm::Xfer = UserSlice::new(argument, size).reader().read()?;
        if xfer.size > rm::IOCTL_SIZE_MAX || xfer.cmd == nr::XFER_CMD {
            return Err(EINVAL);
        }
        number = xfer.cmd;
        size = xfer.size as usize;
        argument = UserPtr::from_addr(usize::try_from(xfer.ptr)?);
    }
    let caller = Caller {
        file: private.id,
        pid: kernel::current!().group_leader().pid(),
    };
    let call = Call {
        stand,
        private,
        caller,
        size,
        argument,
    };
    let fails = number == params::fail_ioctl();
    if fails && !params::fail_after() {
        return Err(EIO);
    }
    let result = call.dispatch(number);
    if fails {
        return Err(EIO);
    }
    result
}

impl Call<'_> {
    fn dispatch(&self, number: u32) -> Result {
        // 470 `nv.c`: these work on any file; the rest wants the control file.
        match number {
            nr::CHECK_VERSION_STR => return self.with(|call, data| call.version(data)),
            nr::CARD_INFO => return self.card_info(),
            nr::REGISTER_FD => return self.with(|call, data| call.register_fd(data)),
            nr::ALLOC_OS_EVENT => return self.with(|call, data| call.alloc_os_event(data)),
            nr::FREE_OS_EVENT => {
                return self.with(|_, data: &mut rm::OsEvent| {
                    data.status = status::OK;
                    Ok(())
                })
            }
            nr::GET_EVENT_DATA => return self.with(|call, data| call.event_data(data)),
            _ if !self.private.control => return Err(EINVAL),
            _ => {}
        }
        let long = self.size == size_of::<rm::AllocLong>();
        let with_fd = self.size == size_of::<rm::AllocMemoryFd>();
        match number {
            nr::ALLOC if long => self.with(|call, data: &mut rm::AllocLong| {
                let mut short = rm::Alloc {
                    root: data.root,
                    parent: data.parent,
                    handle: data.handle,
                    class: data.class,
                    params: data.params,
                    ..Default::default()
                };
                call.alloc(&mut short)?;
                data.handle = short.handle;
                data.status = short.status;
                Ok(())
            }),
            nr::ALLOC => self.with(|call, data| call.alloc(data)),
            nr::ALLOC_MEMORY if with_fd => {
                self.with(|call, data: &mut rm::AllocMemoryFd| call.alloc_memory(&mut data.memory))
            }
            nr::ALLOC_MEMORY => self.with(|call, data| call.alloc_memory(data)),
            nr::FREE => self.with(|call, data: &mut rm::Free| {
                let outcome = call.free(data);
                set(&mut data.status, outcome);
                Ok(())
            }),
            nr::CONTROL => self.with(|call, data| call.control(data)),
            nr::MAP_MEMORY if self.branch() == Branch::B340 => {
                self.with(|call, data| call.map_memory(data, None))
            }
            nr::MAP_MEMORY => self.with(|call, data: &mut rm::MapMemoryFd| {
                let fd = data.fd;
                call.map_memory(&mut data.map, Some(fd))
            }),
            nr::UNMAP_MEMORY => self.with(|call, data: &mut rm::UnmapMemory| {
                let at = (data.client, data.memory);
                let known = call.rm(at, |rm, _| rm.object(call.caller, at.0, at.1).map(|_| ()));
                set(&mut data.status, known);
                Ok(())
            }),
            nr::MAP_MEMORY_DMA => self.with(|call, data: &mut rm::MapMemoryDma| {
                let outcome = call.rm((data.client, data.memory), |rm, machine| {
                    rm.map_dma(machine, call.caller, data)
                });
                if let Ok(va) = outcome {
                    data.dma_offset = va;
                }
                set(&mut data.status, outcome.map(|_| ()));
                Ok(())
            }),
            nr::UNMAP_MEMORY_DMA => self.with(|call, data: &mut rm::UnmapMemoryDma| {
                let outcome = call.rm((data.client, data.device), |rm, machine| {
                    rm.unmap_dma(machine, call.caller, data)
                });
                set(&mut data.status, outcome);
                Ok(())
            }),
            _ => Err(EINVAL),
        }
    }

    /// Reads the argument as a `T`, lets `f` work on it and writes it back.
    fn with<T: FromBytes + AsBytes>(&self, f: impl FnOnce(&Self, &mut T) -> Result) -> Result {
        if self.size != size_of::<T>() {
            return Err(EINVAL);
        }
        let mut data: T = UserSlice::new(self.argument, self.size).reader().read()?;
        f(self, &mut data)?;
        UserSlice::new(self.argument, self.size)
            .writer()
            .write(&data)
    }

    /// Reads a parameter structure at a user address.
    pub(super) fn params<T: FromBytes>(&self, address: u64) -> Outcome<T> {
        let at = usize::try_from(address).map_err(|_| status::INVALID_POINTER)?;
        let slice = UserSlice::new(UserPtr::from_addr(at), size_of::<T>());
        slice.reader().read().map_err(|_| status::INVALID_POINTER)
    }

    /// Runs `f` on the card that has this object of the caller, or else on the first.
    pub(super) fn rm<R>(&self, at: (u32, u32), f: impl FnOnce(&mut Rm, &Machine) -> R) -> R {
        let cards = &self.stand.cards;
        let has = |card: &&Pin<KBox<Card>>| {
            let mut rm = card.rm.lock();
            rm.object(self.caller, at.0, at.1).is_ok()
        };
        // PANIC: there is at least one card.
        let card = cards.iter().find(has).unwrap_or(&cards[0]);
        let mut rm = card.rm.lock();
        f(&mut rm, &card.machine)
    }

    pub(super) fn branch(&self) -> Branch {
        self.stand.params.branch
    }

    fn version(&self, data: &mut rm::ApiVersion) -> Result {
        data.reply = rm::VERSION_RECOGNIZED;
        data.version = [0; 64];
        for (to, from) in data.version.iter_mut().zip(self.branch().version()) {
            *to = *from;
        }
        Ok(())
    }

    /// Any number of elements that fits: one for each card, the rest stays empty.
    fn card_info(&self) -> Result {
        let element = size_of::<rm::CardInfo>();
        let count = self.size / element;
        if count == 0 || count > rm::CARDS_MAX || self.size % element != 0 {
            return Err(EINVAL);
        }
        let mut writer = UserSlice::new(self.argument, self.size).writer();
        let mut cards = self.stand.cards.iter().enumerate();
        for _ in 0..count {
            let bound = cards.find_map(|(gpu, card)| Some((gpu as u32, pci::minor_of(gpu)?, card)));
            // CAST: at most six cards, also below.
            let Some((gpu, minor, card)) = bound else {
                writer.write(&rm::CardInfo::default())?;
                continue;
            };
            let at = &card.machine.at;
            let mut info = rm::CardInfo {
                valid: 1,
                gpu_id: pci::DOMAIN << 8 | gpu,
                interrupt_line: 11,
                reg_address: at.bar0,
                reg_size: at.bar0_size,
                fb_address: at.bar1,
                fb_size: at.bar1_size,
                minor,
                ..Default::default()
            };
            info.pci.domain = pci::DOMAIN;
            info.pci.slot = gpu as u8;
            info.pci.vendor = pci::VENDOR;
            info.pci.device = self.stand.params.device;
            writer.write(&info)?;
        }
        Ok(())
    }

    fn register_fd(&self, data: &mut rm::RegisterFd) -> Result {
        if self.private.control {
            return Err(EINVAL);
        }
        let control = self.with_fd(data.ctl_fd, |private| private.control);
        control.filter(|&control| control).map(|_| ()).ok_or(EINVAL)
    }

    /// Runs `f` on the open file `fd` of this driver.
    pub(super) fn with_fd<R>(&self, fd: i32, f: impl FnOnce(&Private) -> R) -> Option<R> {
        let file = LocalFile::fget(u32::try_from(fd).ok()?).ok()?;
        // SAFETY: `file` holds a reference during this function.
        let private = unsafe { opened::private(file.as_ptr()) }?;
        Some(f(&private))
    }

    fn alloc_os_event(&self, data: &mut rm::OsEvent) -> Result {
        let known = i32::try_from(data.fd)
            .ok()
            .and_then(|fd| self.with_fd(fd, |_| ()));
        data.status = known.map_or(status::INVALID_EVENT, |()| status::OK);
        Ok(())
    }

    fn event_data(&self, data: &mut rm::GetEventData) -> Result {
        let Some((chid, more)) = self.private.listener.consume() else {
            data.more = 0;
            data.status = status::INVALID_EVENT;
            return Ok(());
        };
        let event = rm::UnixEvent {
            info32: chid,
            ..Default::default()
        };
        let at = UserPtr::from_addr(usize::try_from(data.event)?);
        UserSlice::new(at, size_of::<rm::UnixEvent>())
            .writer()
            .write(&event)?;
        data.more = u32::from(more);
        data.status = status::OK;
        Ok(())
    }
}
