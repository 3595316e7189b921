// SPDX-License-Identifier: GPL-2.0

//! The calls about objects: allocate, free, control, map.

use super::ioctl::Call;
use super::opened::{process_has_gpu_open, MapTarget};
use super::params::Branch;
use super::rm::{set, Kind, Outcome};
use super::{pci, Card, PAGE};
use crate::rm;
use crate::rm::class::status;
use crate::rm::{class, submit};
use core::mem::size_of;
use kernel::prelude::*;
use kernel::uaccess::{UserPtr, UserSlice};

/// Handles of one FIFO_GET_CHANNELLIST.
const CHANNEL_LIST_MAX: u32 = 4096;

impl Call<'_> {
    /// A client is one on every card; its objects lie on the card of their device.
    fn alloc_root(&self, handle: u32) -> Outcome {
        let at = rm::Free {
            root: handle,
            object: handle,
            ..Default::default()
        };
        for (gpu, card) in self.stand.cards.iter().enumerate() {
            let made = card
                .rm
                .lock()
                .alloc_root(&card.machine, self.caller, handle);
            if made.is_err() {
                for card in self.stand.cards.iter().take(gpu) {
                    let _ = card.rm.lock().free(&card.machine, self.caller, &at);
                }
                return made;
            }
        }
        Ok(())
    }

    fn alloc_device(&self, data: &rm::Alloc) -> Outcome {
        let params: rm::DeviceParams = match data.params {
            0 => rm::DeviceParams::default(),
            address => self.params(address)?,
        };
        // RM numbers the cards that it has as the nodes are numbered.
        let minor = params.device_id;
        let gpu = pci::card_with(minor).ok_or(status::INVALID_DEVICE)?;
        let card = self.stand.cards.get(gpu).ok_or(status::INVALID_DEVICE)?;
        if self.branch() != Branch::B340 && !process_has_gpu_open(self.branch(), minor as usize) {
            return Err(status::INSUFFICIENT_PERMISSIONS);
        }
        card.rm.lock().alloc_plain(self.caller, data)
    }

    pub(super) fn free(&self, data: &rm::Free) -> Outcome {
        if data.object != data.root {
            return self.rm((data.root, data.object), |rm, machine| {
                rm.free(machine, self.caller, data)
            });
        }
        let free = |card: &Pin<KBox<Card>>| {
            let mut rm = card.rm.lock();
            rm.free(&card.machine, self.caller, data)
        };
        self.stand.cards.iter().try_for_each(free)
    }

    pub(super) fn alloc(&self, data: &mut rm::Alloc) -> Result {
        let outcome = self.alloc_class(data);
        set(&mut data.status, outcome);
        Ok(())
    }

    fn alloc_class(&self, data: &mut rm::Alloc) -> Outcome {
        let caller = self.caller;
        let under = (data.root, data.parent);
        match data.class {
            class::ROOT | class::ROOT_CLIENT => {
                // RM chooses a handle where the caller names none.
                if data.handle == 0 {
                    data.handle = 0xc1d0_0000 | (self.private.id as u32 & 0xffff);
                }
                self.alloc_root(data.handle)
            }
            class::DEVICE => self.alloc_device(data),
            class::SUBDEVICE | class::COMPUTE_A | class::COMPUTE_B | class::DMA_COPY_A => {
                self.rm(under, |rm, _| rm.alloc_plain(caller, data))
            }
            class::MEMORY_SYSTEM => {
                let params: rm::MemoryParams = self.params(data.params)?;
                self.rm(under, |rm, _| rm.alloc_memory(caller, data, params.limit))
            }
            class::CHANNEL_GROUP_A => self.rm(under, |rm, _| rm.alloc_group(caller, data)),
            class::CHANNEL_GPFIFO_A | class::CHANNEL_GPFIFO_B => {
                let params: KBox<rm::ChannelParams> =
                    KBox::new(self.params(data.params)?, GFP_KERNEL)
                        .map_err(|_| status::NO_MEMORY)?;
                self.rm(under, |rm, machine| {
                    rm.alloc_channel(machine, caller, data, &params)
                })
            }
            class::EVENT_OS_EVENT => {
                let params: rm::EventParams = self.params(data.params)?;
                let fd = i32::try_from(params.data).map_err(|_| status::INVALID_EVENT)?;
                let listener = self.with_fd(fd, |private| private.listener.clone());
                let listener = listener.ok_or(status::INVALID_EVENT)?;
                self.rm(under, |rm, machine| {
                    rm.alloc_event(machine, caller, data, listener)
                })
            }
            _ => Err(status::INVALID_CLASS),
        }
    }

    pub(super) fn alloc_memory(&self, data: &mut rm::AllocMemory) -> Result {
        let at = rm::Alloc {
            root: data.root,
            parent: data.parent,
            handle: data.handle,
            class: data.class,
            ..Default::default()
        };
        let outcome = if data.class == class::MEMORY_SYSTEM {
            self.rm((at.root, at.parent), |rm, _| {
                rm.alloc_memory(self.caller, &at, data.limit)
            })
        } else {
            Err(status::INVALID_CLASS)
        };
        set(&mut data.status, outcome);
        Ok(())
    }

    pub(super) fn control(&self, data: &mut rm::Control) -> Result {
        let outcome = match data.cmd {
            class::CTRL_GPFIFO_SCHEDULE => self.schedule(data),
            class::CTRL_FIFO_GET_CHANNELLIST => self.channel_list(data),
            _ => Err(status::INVALID_COMMAND),
        };
        set(&mut data.status, outcome);
        Ok(())
    }

    fn schedule(&self, data: &rm::Control) -> Outcome {
        if data.params_size as usize != size_of::<rm::ScheduleParams>() {
            return Err(status::INVALID_PARAM_STRUCT);
        }
        let params: rm::ScheduleParams = self.params(data.params)?;
        self.rm((data.client, data.object), |rm, machine| {
            rm.schedule(machine, self.caller, data, params.enable != 0)
        })
    }

    fn channel_list(&self, data: &rm::Control) -> Outcome {
        if data.params_size as usize != size_of::<rm::ChannelListParams>() {
            return Err(status::INVALID_PARAM_STRUCT);
        }
        let params: rm::ChannelListParams = self.params(data.params)?;
        if params.count > CHANNEL_LIST_MAX {
            return Err(status::INVALID_LIMIT);
        }
        for index in 0..u64::from(params.count) {
            let at = |base: u64| base.checked_add(4 * index).ok_or(status::INVALID_POINTER);
            let handle: u32 = self.params(at(params.handles)?)?;
            let (chid, _) = self.rm((data.client, handle), |rm, _| {
                rm.channel(self.caller, data.client, handle)
            })?;
            let to = usize::try_from(at(params.chids)?).map_err(|_| status::INVALID_POINTER)?;
            let mut writer = UserSlice::new(UserPtr::from_addr(to), 4).writer();
            writer
                .write(&u32::from(chid.0))
                .map_err(|_| status::INVALID_POINTER)?;
        }
        Ok(())
    }

    pub(super) fn map_memory(&self, data: &mut rm::MapMemory, fd: Option<i32>) -> Result {
        let outcome = self.attach(data, fd);
        set(&mut data.status, outcome);
        Ok(())
    }

    /// Attaches a range to a file (470) and returns its physical address.
    fn attach(&self, data: &mut rm::MapMemory, fd: Option<i32>) -> Outcome {
        let length = data
            .length
            .checked_next_multiple_of(PAGE)
            .ok_or(status::INVALID_LIMIT)?;
        if length == 0 || data.offset % PAGE != 0 {
            return Err(status::INVALID_ARGUMENT);
        }
        let (target, control, linear) =
            self.rm((data.client, data.memory), |rm, machine| {
                match rm.object(self.caller, data.client, data.memory)? {
                    Kind::Memory(memory) => {
                        let end = data.offset.checked_add(length);
                        if !end.is_some_and(|end| end <= memory.size()) {
                            return Err(status::INVALID_LIMIT);
                        }
                        let linear = memory.physical() + data.offset;
                        Ok((
                            MapTarget::Memory(memory.clone(), data.offset, length),
                            true,
                            linear,
                        ))
                    }
                    Kind::Channel { chid, .. } => {
                        if data.offset != 0 || length != PAGE {
                            return Err(status::INVALID_LIMIT);
                        }
                        let userd = machine.at.bar1 + machine.at.userd;
                        let linear = userd + u64::from(chid.0) * submit::USERD_SLOT;
                        Ok((MapTarget::Card(linear & !(PAGE - 1), PAGE), false, linear))
                    }
                    _ => Err(status::INVALID_OBJECT_HANDLE),
                }
            })?;
        if let Some(fd) = fd {
            let attached = self.with_fd(fd, |private| {
                if private.control != control {
                    return Err(status::INVALID_ARGUMENT);
                }
                let mut slot = private.target.lock();
                if slot.is_some() {
                    return Err(status::STATE_IN_USE);
                }
                *slot = Some(target);
                Ok(())
            });
            attached.ok_or(status::INVALID_ARGUMENT)??;
        }
        data.linear = linear;
        Ok(())
    }
}
